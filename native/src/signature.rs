//! From weighed features to what an entry has of a text.
//!
//! * [`sums`]: sums of weights, signature and margins.
//! * [`mixing`]: how much the features of short and of long text count in a text between both.
//! * [`sketch`]: a second summary, made of shingles.
//! * [`form`]: which template a text is filled in from, and with which numbers.

pub mod form;
pub mod mixing;
pub mod sketch;
pub mod sums;
