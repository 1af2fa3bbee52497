//! A text before its words are read: the steps of `scheme.Normalisation`.
//!
//! * [`halves`]: half surrogates, which a text may have until it is normalised.
//! * [`normalise`]: NFKC and case.
//! * [`characters`]: what each character is.

pub mod characters;
pub mod halves;
pub mod normalise;
