//! Between short and long text: how much the features of either count in a signature.
//!
//! Words tell long texts apart, and characters short ones. Between two sizes a text has the features of both, with weights
//! that change with its length as little as can be: no length is an edge across which copies are lost. Up to half of the
//! article size a text is short, from four times the article size on it is long: three octaves, in which the share of the
//! short text's features falls from [`WHOLE`] to 0 with the logarithm of the size. Each of the two weight vectors is
//! divided by its Euclidean length first, which the number of features would decide otherwise.

/// A share of everything.
pub const WHOLE: u64 = 1024;
/// A weight vector is multiplied by its share times this power of 2, over its length. Sums stay below 2^53.
const FACTOR_BITS: u32 = 20;
const OCTAVES: u32 = 3;

/// Letters from which on a text is long.
#[must_use]
pub fn mixing_end(article_size: usize) -> usize {
    mixing_begin(article_size) << OCTAVES
}

/// Letters up to which a text is short.
fn mixing_begin(article_size: usize) -> usize {
    article_size / 2
}

/// The share of the features of short text in a text of this size.
#[must_use]
pub fn share_of_short(size: usize, article_size: usize) -> u64 {
    let begin = mixing_begin(article_size);
    if size <= begin {
        return if begin > 0 { WHOLE } else { 0 };
    }
    if size >= mixing_end(article_size) {
        return 0;
    }
    let octaves = (size as f64 / begin as f64).log2();
    (WHOLE as f64 * (1.0 - octaves / f64::from(OCTAVES)) + 0.5).floor() as u64
}

/// What weights are multiplied by so that their vector, of this squared length, has this share.
///
/// It is 1 where all features are of this kind.
#[must_use]
pub fn factor(share: u64, squares: u64) -> u64 {
    if share == WHOLE { 1 } else { (share << FACTOR_BITS) / squares.max(1).isqrt() }
}
