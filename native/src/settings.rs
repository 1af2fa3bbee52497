//! What a scheme says, by the names of `core/scheme.py`, which says what each means: read once, where it comes from Python.

use crate::postings::plan::BLOCK_STEP;
use crate::signature::mixing::mixing_end;

/// A choice, by the names that it has in a scheme.
macro_rules! choice {
    ($(#[$of_choice:meta])* $choice:ident { $($(#[$of_one:meta])* $one:ident = $name:literal,)+ }) => {
        $(#[$of_choice])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[$of_one])* $one,)+
        }

        #[cfg(feature = "python")]
        impl<'a, 'py> pyo3::FromPyObject<'a, 'py> for $choice {
            type Error = pyo3::PyErr;

            fn extract(given: pyo3::Borrowed<'a, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                match given.extract::<String>()?.as_str() {
                    $($name => Ok(Self::$one),)+
                    other => Err(pyo3::exceptions::PyValueError::new_err(format!("unknown value {other:?}"))),
                }
            }
        }
    };
}

choice! {
    /// What is done with addresses, numbers and so on.
    #[derive(Default)]
    Treat {
        /// They stay.
        #[default]
        Keep = "keep",
        /// They are dropped.
        Drop = "drop",
        /// Each becomes a token for its kind.
        Token = "token",
    }
}

choice! {
    /// What the features of a text are.
    FeatureKind {
        /// Words.
        Words = "words",
        /// Characters, pairs and trigrams.
        Chars = "chars",
    }
}

choice! {
    /// How words are split.
    WordSplit {
        /// Into letters and digits.
        Plain = "plain",
        /// They keep combining marks, and runs without spaces are cut into fours.
        Marked = "marked",
    }
}

choice! {
    /// What a weight is made of.
    Weights {
        /// How often the feature occurs.
        Count = "tf",
        /// A level, by the IDF.
        Level = "level",
        /// IDF, times the count or what damps it.
        CountIdf = "tfidf",
    }
}

choice! {
    /// Where the IDF of words is from.
    IdfSource {
        /// jieba's table alone.
        Jieba = "jieba",
        /// Words of other languages than Chinese have one of their own.
        Languages = "languages",
    }
}

choice! {
    /// What of an exact text is compared, and of a short text sketched.
    Compared {
        /// All characters.
        Characters = "characters",
        /// Letters and digits.
        Letters = "letters",
    }
}

/// Optional steps of normalising.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
#[expect(clippy::struct_excessive_bools, reason = "each is a step, taken or not")]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Normalisation {
    pub invisible: bool,
    pub quotes: Treat,
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

/// How the features of a text are counted and weighed.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Features {
    pub kind: FeatureKind,
    pub words: WordSplit,
    pub weights: Weights,
    pub top_k: Option<usize>,
    pub damped: bool,
    pub damping: u32,
    pub idf: IdfSource,
    pub root: bool,
    pub gram_weights: [u64; 5],
}

/// Normalisation and features of one kind of text.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Treatment {
    pub normalisation: Normalisation,
    pub features: Features,
}

/// How texts become entries.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Settings {
    pub long: Treatment,
    pub short: Treatment,
    pub article_size: Option<usize>,
    pub exact_size: usize,
    pub exact: Compared,
    pub field_weights: Vec<u64>,
    pub key_sentences: u64,
    pub sketch: Vec<(usize, usize)>,
    pub sketch_text: Compared,
    pub form: bool,
    pub seed: u64,
    pub tables: usize,
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

    /// Bits that have margins.
    #[must_use]
    pub fn margin_bits(&self) -> usize {
        self.tables * BLOCK_STEP
    }

    /// Bytes of the values of a sketch.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.sketch.iter().map(|(_, values)| values).sum::<usize>() / 2
    }
}
