//! A text before its words are read: the steps of `scheme.Normalisation`.
//!
//! * [`clean`]: the optional steps, in their order. Those before NFKC are in [`entities`], [`quotes`], [`subtitles`], [`tags`],
//!   [`addresses`], [`folding`], [`spacing`] and [`mod@simplify`], those after it in [`spam`] and [`numbers`].
//! * [`edit`]: a text that is changed step by step. [`traits`]: what it may have, the cheap test before a step.
//! * [`points`]: its code points. [`halves`]: half surrogates, which it may have until it is normalised.
//! * [`normalise`]: NFKC and case. [`characters`]: what each character is, and becomes. [`ranges`]: those that the steps
//!   look for.

pub mod addresses;
pub mod characters;
pub mod clean;
pub mod edit;
pub mod entities;
pub mod folding;
pub mod halves;
pub mod normalise;
pub mod numbers;
pub mod points;
pub mod quotes;
#[expect(missing_docs, reason = "bits of tables")]
pub mod ranges;
pub mod simplify;
pub mod spacing;
pub mod spam;
pub mod subtitles;
pub mod tags;
pub mod traits;
