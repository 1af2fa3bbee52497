//! A text before its words are read: the steps of `scheme.Normalisation`.
//!
//! * [`halves`]: half surrogates, which a text may have until it is normalised.

pub mod halves;
