//! What a scheme says, parsed once.

use crate::signature::mixing::mixing_end;

/// What is done with addresses, numbers and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Treat {
    /// They stay.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
    /// Each becomes a token for its kind.
    Token,
}

/// Optional steps of normalising, each with the name that it has in `scheme.Normalisation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a step, taken or not")]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Normalisation {
    pub invisible: bool,
    pub quotes: bool,
    pub tags: bool,
    pub entities: bool,
    pub urls: Treat,
    pub emails: Treat,
    pub users: Treat,
    pub numbers: Treat,
    pub emoji: Treat,
    pub fold: bool,
    pub join_numbers: bool,
    pub rejoin: bool,
    pub simplify: bool,
    pub unspace: bool,
    pub repeats: bool,
    pub lookalikes: bool,
}

impl Normalisation {
    /// Whether steps follow NFKC.
    #[must_use]
    pub fn changes_after_nfkc(&self) -> bool {
        self.unspace || self.repeats || self.lookalikes
    }
}

/// The greatest weight of a gram, in hundredths, and of a field. With these the squares of the weights of a text of 1 MB,
/// whatever it repeats, add up to less than 2^64 (`signature::sums`).
pub const MOST_GRAM_WEIGHT: u64 = 1_000;
/// See `MOST_GRAM_WEIGHT`.
pub const MOST_FIELD_WEIGHT: u64 = 100;

/// How the features of a text are counted and weighed: `scheme.Features`.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the scheme's")]
pub struct Features {
    /// Characters, pairs and trigrams, not words.
    pub are_grams: bool,
    /// Words keep combining marks, and runs without spaces are cut into fours.
    pub marked: bool,
    /// What a weight is made of.
    pub weights: Weights,
    /// The heaviest so many features count; none: all.
    pub top_k: Option<usize>,
    /// Words of other languages than Chinese have an IDF of their own.
    pub of_languages: bool,
    /// The square root of the IDF is taken.
    pub root: bool,
    /// Of an ideograph, of a pair of ideographs, of another character, of another pair, and of a trigram, in hundredths.
    pub gram_weights: [u32; 5],
}

/// What a weight is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// How often the feature occurs.
    Count,
    /// A level, by the IDF.
    Level,
    /// IDF, times 1 + so much ln count; none: times the count.
    CountIdf(Option<u32>),
}

/// Normalisation and features of one kind of text.
#[derive(Clone, Debug)]
pub struct Treatment {
    /// The optional steps.
    pub normalisation: Normalisation,
    /// How its features are counted and weighed.
    pub features: Features,
}

/// What of an exact text is compared, and of a short text sketched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All characters.
    Characters,
    /// Letters and digits.
    Letters,
}

/// How texts become entries: `scheme.FingerprintSettings`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of long text.
    pub long: Treatment,
    /// Of short text.
    pub short: Treatment,
    /// Letters below which a text is short; none: every text is.
    pub article_size: Option<usize>,
    /// Characters below which a text is compared whole.
    pub exact_size: usize,
    /// What is compared of such a text.
    pub exact: Compared,
    /// Weights of the fields.
    pub field_weights: Vec<u64>,
    /// How many more times key sentences count.
    pub key_sentences: u64,
    /// Lengths of shingles, and values of each.
    pub sketch: Vec<(usize, usize)>,
    /// What sketches are made of.
    pub sketched: Compared,
    /// Sketches end with the form of the text.
    pub form: bool,
    /// Of all hashes.
    pub seed: u64,
    /// Bits that have margins.
    pub margin_bits: usize,
}

impl Settings {
    /// Whether a text can be long.
    #[must_use]
    pub fn has_long(&self) -> bool {
        self.article_size.is_some()
    }

    /// Whether a text can be short or exact.
    fn has_short(&self) -> bool {
        self.article_size != Some(0) || self.exact_size > 0
    }

    /// Letters from which on a text is long, whatever it is as short text: it has no share of the features of short
    /// text, it is not below the exact size, and it is too long to have a form.
    #[must_use]
    pub fn surely_long(&self) -> usize {
        let mixed = if self.has_short() { mixing_end(self.article_size.unwrap_or(0)) } else { 0 };
        let formed = if self.form { crate::signature::form::MOST_LETTERS + 1 } else { 0 };
        mixed.max(self.exact_size).max(formed)
    }

    /// Bytes of the values of a sketch.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.sketch.iter().map(|(_, values)| values).sum::<usize>() / 2
    }
}
