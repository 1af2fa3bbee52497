//! Tells whether a text is long, short or exact, and makes what an entry has of it.
//!
//! The article size is compared with the number of letters, digits and ideographs in the words of the text, read as long
//! text, of all fields together: spaces, punctuation and markup make no text longer. The exact size is compared with the
//! number of characters of the text normalised as short text, including single spaces and punctuation, before tricks of
//! spam are undone; or, where letters are compared, with the number of letters that count. A text with fewer than
//! [`LEAST_LETTERS`] letters that count is exact, whatever its size.
//!
//! A text without a letter, a digit or a symbol that counts has no features, and a token for an address is none of these.
//! Of an exact text with addresses all characters are compared, the addresses as they stand but for their schemes: a link
//! alone is near the same link, and near no other.
//!
//! A sketch is made of the letters of a text: the ideographs in order, then the other characters and words that count, in
//! order, without spaces. Or of all characters of the text as short text but white space, with addresses: of texts that
//! differ in little but a link, the signature sees the same text, and the sketch another one.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::features::counts::Counts;
use crate::features::grams::Grams;
use crate::features::units::{ADDRESS, Units};
use crate::features::weights::Weigher;
use crate::features::words::{Rule, Words, bytes_of};
use crate::features::{Feature, Weighed, heaviest_first};
use crate::segment::Segmenter;
use crate::segment::dictionary::{DICTIONARY, Dictionary};
use crate::settings::{Compared, Settings, Treat, Treatment};
use crate::signature::form::Form;
use crate::signature::mixing::{WHOLE, factor, share_of_short};
use crate::signature::sketch::Sketcher;
use crate::signature::sums::{BITS, Hash, MAX_MARGIN, Sums, feature_hash};
use crate::text::normalise::normalise;

/// Least letters of a short text: of three, one changed is a large part of the text.
const LEAST_LETTERS: usize = 4;

/// The kind of a text, as log entries have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Compared by its words.
    Long = 0,
    /// Nothing of it counts.
    Featureless = 1,
    /// Compared by characters.
    Short = 3,
    /// Compared whole.
    Exact = 4,
}

/// A field of a text as some steps leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Of long text, before NFKC; normalised where steps follow NFKC.
    Long,
    /// The same of the field's key sentences.
    KeySentences,
    /// Of short text, before NFKC.
    Short,
    /// Of short text, before NFKC, with addresses of all kinds.
    ShortWithAddresses,
    /// Of short text, before NFKC, with links.
    ShortWithLinks,
}

/// The steps on a text that are taken elsewhere.
pub trait Steps {
    /// Why one cannot be taken.
    type Error;

    /// A field before NFKC.
    ///
    /// # Errors
    /// A step cannot be taken.
    fn before_nfkc(&mut self, field: usize, which: Cleaned) -> Result<String, Self::Error>;

    /// A normalised short text with tricks of spam undone and its numbers replaced.
    ///
    /// # Errors
    /// A step cannot be taken.
    fn after_nfkc(&mut self, normalised: &str) -> Result<String, Self::Error>;

    /// A text whose links have no schemes.
    ///
    /// # Errors
    /// A step cannot be taken.
    fn without_schemes(&mut self, normalised: &str) -> Result<String, Self::Error>;
}

/// What all texts of one scheme share.
pub struct Scheme {
    settings: Settings,
    long: Kind,
    short: Kind,
    sketcher: Sketcher,
}

/// A user's words, as texts of one kind have them.
#[derive(Clone, Debug, Default)]
pub struct OwnWords {
    /// For the dictionary, each with its frequency.
    pub words: Vec<(String, Option<u64>)>,
    /// They do not count.
    pub stop_words: HashSet<String>,
}

/// One kind of text: long or short.
struct Kind {
    dictionary: Cow<'static, Dictionary>,
    weigher: Weigher,
    rule: Rule,
    stop_words: HashSet<String>,
}

impl Kind {
    fn new(treatment: &Treatment, own: OwnWords) -> Self {
        let dictionary = if own.words.is_empty() {
            Cow::Borrowed(&*DICTIONARY)
        } else {
            Cow::Owned(DICTIONARY.with_words(own.words.iter().map(|(word, frequency)| (word.as_str(), *frequency))))
        };
        let rule = Rule { marked: treatment.features.marked, numbers: treatment.numbers };
        Self { dictionary, weigher: Weigher::new(&treatment.features), rule, stop_words: own.stop_words }
    }
}

/// What an entry has of a text.
#[derive(Clone)]
pub struct Reading {
    /// Its kind.
    pub status: Status,
    /// Zero without features.
    pub signature: Hash,
    /// Packed; zero without features.
    pub margins: Vec<u8>,
    /// With the form at its end; zero without features.
    pub sketch: Vec<u8>,
}

/// What the reading of a text is made from.
#[derive(Clone)]
pub struct Explained {
    /// The normalised text; of short text what counts.
    pub text: String,
    /// Heaviest first; an exact text is one feature.
    pub features: Vec<Feature>,
    /// Sums of their weights.
    pub sums: [i64; BITS],
    /// Of the text.
    pub form: Form,
}

impl Scheme {
    /// Of these settings, with a user's words for long and for short text.
    #[must_use]
    pub fn new(settings: Settings, [of_long, of_short]: [OwnWords; 2]) -> Self {
        Self {
            long: Kind::new(&settings.long, of_long),
            short: Kind::new(&settings.short, of_short),
            sketcher: Sketcher::new(&settings.sketch, settings.seed),
            settings,
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn fields(&self) -> usize {
        self.settings.field_weights.len()
    }

    /// Bytes of an entry's sketch, with the form.
    #[must_use]
    pub fn sketch_bytes(&self) -> usize {
        self.settings.value_bytes() + if self.settings.form { 8 } else { 0 }
    }

    fn blank(&self, status: Status) -> Reading {
        Reading {
            status,
            signature: [0; BITS / 8],
            margins: vec![0; self.settings.margin_bits / 2],
            sketch: vec![0; self.sketch_bytes()],
        }
    }

    fn exact(&self, text: &str) -> Reading {
        let mut made = self.blank(Status::Exact);
        made.signature = feature_hash(text.as_bytes(), self.settings.seed);
        made.margins.fill(MAX_MARGIN << 4 | MAX_MARGIN);
        made
    }

    fn of_features(&self, status: Status, sums: &Sums, letters: &[u32], form: &Form) -> Reading {
        let mut made = Reading { status, signature: sums.signature(), margins: Vec::new(), sketch: Vec::new() };
        sums.pack_margins(self.settings.margin_bits, &mut made.margins);
        if !self.sketcher.is_idle() {
            self.sketcher.sketch(letters, &mut made.sketch);
            if self.settings.form {
                form.pack(self.settings.seed, &mut made.sketch);
            }
        }
        made.sketch.resize(self.sketch_bytes(), 0);
        made
    }
}

/// Reads texts of one scheme: the scratch memory of one thread.
pub struct Reader {
    words: Vec<Words>,
    segmenter: Segmenter,
    counts: Counts,
    grams: Grams,
    weighed: Weighed,
}

/// What a text is as one kind of text.
struct Part {
    sums: Sums,
    features: Vec<Feature>,
}

/// A short text on its way.
struct Short {
    /// Each field up to NFKC.
    normalised: Vec<String>,
    /// Each field after all steps.
    texts: Vec<String>,
    units: Vec<Units>,
}

impl Reader {
    /// Reads texts of this scheme.
    #[must_use]
    pub fn new(scheme: &Scheme) -> Self {
        Self {
            words: Vec::new(),
            segmenter: Segmenter::default(),
            counts: Counts::new(scheme.long.dictionary.size().max(scheme.short.dictionary.size())),
            grams: Grams::default(),
            weighed: Weighed::default(),
        }
    }

    /// Reads one text.
    ///
    /// # Errors
    /// A step cannot be taken.
    pub fn read<S: Steps>(&mut self, scheme: &Scheme, steps: &mut S) -> Result<Reading, S::Error> {
        self.read_with(scheme, steps, None)
    }

    /// Reads one text, with all that its reading is made from.
    ///
    /// # Errors
    /// A step cannot be taken.
    pub fn account<S: Steps>(&mut self, scheme: &Scheme, steps: &mut S) -> Result<(Reading, Explained), S::Error> {
        let form = Form::default();
        let mut account = Explained { text: String::new(), features: Vec::new(), sums: [0; BITS], form };
        let made = self.read_with(scheme, steps, Some(&mut account))?;
        Ok((made, account))
    }

    fn read_with<S: Steps>(
        &mut self,
        scheme: &Scheme,
        steps: &mut S,
        mut account: Option<&mut Explained>,
    ) -> Result<Reading, S::Error> {
        let settings = &scheme.settings;
        let size = self.split_long(scheme, steps)?;
        if settings.has_long() && size >= settings.surely_long() {
            let long = self.long(scheme, steps, account.is_some())?;
            return self.finish_long(scheme, steps, long, &Form::default(), account);
        }
        let short = Short::read(scheme, steps)?;
        let letters: usize = short.units.iter().map(Units::letters).sum();
        let characters: usize = short.normalised.iter().map(|one| one.chars().count()).sum();
        let measured = if settings.exact == Compared::Letters { letters } else { characters };
        let has_address = short.texts.iter().any(|one| one.contains(ADDRESS));
        if measured < settings.exact_size || (settings.exact_size > 0 && letters < LEAST_LETTERS) {
            if letters == 0 && !has_address {
                return Ok(scheme.featureless(&short, account));
            }
            let text = short.compared(scheme, steps, has_address)?;
            return Ok(scheme.finish_exact(&text, has_address, &short, account));
        }
        let form = if settings.form { Form::of(&short.normalised.join("\n")) } else { Form::default() };
        let share = if settings.has_long() { share_of_short(size, settings.article_size.unwrap_or(0)) } else { WHOLE };
        let accounts = account.is_some();
        let long = if share < WHOLE { self.long(scheme, steps, accounts)? } else { None };
        if share == 0 && long.is_some() {
            return self.finish_long(scheme, steps, long, &form, account);
        }
        let own = self.short(scheme, &short, accounts);
        match (long, own) {
            (Some(long), Some(own)) => {
                let factors = (factor(WHOLE - share, long.sums.squares), factor(share, own.sums.squares));
                let sums = long.sums.mixed(factors.0, &own.sums, factors.1);
                let is_long = size >= settings.article_size.unwrap_or(0);
                let status = if is_long { Status::Long } else { Status::Short };
                if let Some(account) = &mut account {
                    let scaled = |part: Part, factor: u64| {
                        part.features.into_iter().map(move |one| Feature { weight: one.weight * factor, ..one })
                    };
                    account.features = scaled(long, factors.0).chain(scaled(own, factors.1)).collect();
                    account.features.sort_by_key(|one| std::cmp::Reverse(one.weight));
                }
                self.finish_short(scheme, steps, &short, status, &sums, &form, account)
            }
            (_, Some(own)) => {
                if let Some(account) = &mut account {
                    account.features = own.features;
                }
                self.finish_short(scheme, steps, &short, Status::Short, &own.sums, &form, account)
            }
            (Some(long), None) => self.finish_long(scheme, steps, Some(long), &form, account),
            (None, None) => Ok(scheme.featureless(&short, account)),
        }
    }

    /// Splits the fields as long text; returns their letters.
    fn split_long<S: Steps>(&mut self, scheme: &Scheme, steps: &mut S) -> Result<usize, S::Error> {
        if !scheme.settings.has_long() {
            return Ok(0);
        }
        self.words.resize_with(scheme.fields(), Words::default);
        for (field, words) in self.words.iter_mut().enumerate() {
            split(words, scheme, steps.before_nfkc(field, Cleaned::Long)?);
        }
        Ok(self.words.iter().map(|words| words.letters().len()).sum())
    }

    /// What a text is as long text; none without features.
    fn long<S: Steps>(&mut self, scheme: &Scheme, steps: &mut S, accounts: bool) -> Result<Option<Part>, S::Error> {
        let Self { words, segmenter, counts, .. } = self;
        let settings = &scheme.settings;
        for (words, &weight) in words.iter().zip(&settings.field_weights) {
            counts.add(words, weight, segmenter, &scheme.long.dictionary);
        }
        if settings.key_sentences > 0 {
            let mut key = Words::default();
            for (field, &weight) in settings.field_weights.iter().enumerate() {
                split(&mut key, scheme, steps.before_nfkc(field, Cleaned::KeySentences)?);
                counts.add(&key, weight.saturating_mul(settings.key_sentences), segmenter, &scheme.long.dictionary);
            }
        }
        Ok(self.weigh_words(scheme, &scheme.long, accounts))
    }

    /// The words of a text as long text, those of ideographs first.
    ///
    /// # Errors
    /// A step cannot be taken.
    pub fn words<S: Steps>(&mut self, scheme: &Scheme, steps: &mut S) -> Result<Vec<String>, S::Error> {
        self.split_long(scheme, steps)?;
        let mut found = Vec::new();
        for words in &self.words {
            for (run, offset) in words.han_runs() {
                let add =
                    |word: std::ops::Range<usize>, _| found.push(words.source()[bytes_of(offset, &word)].to_owned());
                self.segmenter.cut(&scheme.long.dictionary, run, add);
            }
            found.extend(words.others().map(str::to_owned));
        }
        Ok(found)
    }

    fn weigh_words(&mut self, scheme: &Scheme, kind: &Kind, accounts: bool) -> Option<Part> {
        let mut features = Vec::new();
        let named = accounts.then_some(&mut features);
        let seed = scheme.settings.seed;
        self.counts.weigh(&kind.dictionary, &kind.weigher, &kind.stop_words, seed, &mut self.weighed, named);
        self.part(kind, features)
    }

    /// What was weighed; none without features.
    fn part(&mut self, kind: &Kind, mut features: Vec<Feature>) -> Option<Part> {
        if self.weighed.weights.is_empty() {
            return None;
        }
        let top_k = kind.weigher.features().top_k;
        self.weighed.keep_heaviest(top_k);
        heaviest_first(&mut features, top_k);
        Some(Part { sums: Sums::of(&self.weighed.weights, &self.weighed.hashes), features })
    }

    /// What a text is as short text; none without features.
    fn short(&mut self, scheme: &Scheme, short: &Short, accounts: bool) -> Option<Part> {
        let kind = &scheme.short;
        if !kind.weigher.features().are_grams {
            let mut words = Words::default();
            for (text, &weight) in short.texts.iter().zip(&scheme.settings.field_weights) {
                words.split_normalised(text.clone(), Rule { numbers: Treat::Keep, ..kind.rule }, &kind.dictionary);
                self.counts.add(&words, weight, &mut self.segmenter, &kind.dictionary);
            }
            return self.weigh_words(scheme, kind, accounts);
        }
        for (units, &weight) in short.units.iter().zip(&scheme.settings.field_weights) {
            self.grams.add(units, weight);
        }
        let mut features = Vec::new();
        let named = accounts.then_some(&mut features);
        self.grams.weigh(&kind.weigher, scheme.settings.seed, &mut self.weighed, named);
        self.part(kind, features)
    }

    fn finish_long<S: Steps>(
        &mut self,
        scheme: &Scheme,
        steps: &mut S,
        long: Option<Part>,
        form: &Form,
        account: Option<&mut Explained>,
    ) -> Result<Reading, S::Error> {
        let Some(Part { sums, features }) = long else {
            if account.is_some() {
                return Ok(scheme.featureless(&Short::read(scheme, steps)?, account));
            }
            return Ok(scheme.blank(Status::Featureless));
        };
        let letters = if scheme.sketcher.is_idle() {
            Cow::Borrowed([].as_slice())
        } else if scheme.settings.sketched == Compared::Characters {
            Cow::Owned(characters_with_addresses(scheme, steps)?)
        } else if let [words] = self.words.as_slice() {
            Cow::Borrowed(words.letters())
        } else {
            Cow::Owned(self.words.iter().flat_map(Words::letters).copied().collect())
        };
        if let Some(account) = account {
            account.text = scheme.long_text(steps)?;
            (account.features, account.sums, account.form) = (features, sums.sums, form.clone());
        }
        Ok(scheme.of_features(Status::Long, &sums, &letters, form))
    }

    #[expect(clippy::too_many_arguments, reason = "what a short text has come to")]
    fn finish_short<S: Steps>(
        &mut self,
        scheme: &Scheme,
        steps: &mut S,
        short: &Short,
        status: Status,
        sums: &Sums,
        form: &Form,
        account: Option<&mut Explained>,
    ) -> Result<Reading, S::Error> {
        let mut letters = Vec::new();
        if scheme.sketcher.is_idle() {
        } else if scheme.settings.sketched == Compared::Characters {
            letters = characters_with_addresses(scheme, steps)?;
        } else {
            short.units.iter().for_each(|units| units.add_letters(&mut letters));
        }
        if let Some(account) = account {
            account.text = if status == Status::Long { scheme.long_text(steps)? } else { short.shown() };
            (account.sums, account.form) = (sums.sums, form.clone());
        }
        Ok(scheme.of_features(status, sums, &letters, form))
    }
}

impl Scheme {
    fn featureless(&self, short: &Short, account: Option<&mut Explained>) -> Reading {
        if let Some(account) = account {
            account.text = short.shown();
        }
        self.blank(Status::Featureless)
    }

    fn finish_exact(&self, text: &str, has_address: bool, short: &Short, account: Option<&mut Explained>) -> Reading {
        let made = self.exact(text);
        if let Some(account) = account {
            let is_shown = has_address || self.settings.exact == Compared::Characters;
            account.text = if is_shown { text.to_owned() } else { short.shown() };
            let sums = Sums::of(&[1], &[made.signature]);
            account.features = vec![Feature { name: text.to_owned(), count: 1, weight: 1, hash: made.signature }];
            account.sums = sums.sums;
        }
        made
    }

    /// The normalised text as long text.
    fn long_text<S: Steps>(&self, steps: &mut S) -> Result<String, S::Error> {
        let fields = (0..self.fields()).map(|field| {
            let text = steps.before_nfkc(field, Cleaned::Long)?;
            Ok(if self.settings.long.changes_after_nfkc { text } else { normalise(&text) })
        });
        Ok(fields.collect::<Result<Vec<_>, S::Error>>()?.join("\n"))
    }

    /// What features that a caller counted add up to, as those of a text of this kind.
    #[must_use]
    pub fn weigh(&self, counts: &[(String, u64)], status: Status) -> (Reading, Explained) {
        let form = Form::default();
        let mut account = Explained { text: String::new(), features: Vec::new(), sums: [0; BITS], form };
        if counts.is_empty() {
            return (self.blank(Status::Featureless), account);
        }
        let weigher = if status == Status::Long { &self.long.weigher } else { &self.short.weigher };
        account.features.extend(counts.iter().map(|(name, count)| Feature {
            name: name.clone(),
            count: *count,
            weight: u64::from(weigher.weight(weigher.idf(name), *count)),
            hash: feature_hash(name.as_bytes(), self.settings.seed),
        }));
        heaviest_first(&mut account.features, weigher.features().top_k);
        let weights: Vec<u32> = account.features.iter().map(|one| one.weight as u32).collect();
        let hashes: Vec<Hash> = account.features.iter().map(|one| one.hash).collect();
        let sums = Sums::of(&weights, &hashes);
        account.sums = sums.sums;
        (self.of_features(status, &sums, &[], &account.form), account)
    }
}

impl Short {
    fn read<S: Steps>(scheme: &Scheme, steps: &mut S) -> Result<Self, S::Error> {
        let (mut normalised, mut texts) = (Vec::new(), Vec::new());
        for field in 0..scheme.fields() {
            let one = normalise(&steps.before_nfkc(field, Cleaned::Short)?);
            texts.push(after_nfkc(scheme, steps, one.clone())?);
            normalised.push(one);
        }
        let units = texts.iter().map(|text| Units::of(text.clone())).collect();
        Ok(Self { normalised, texts, units })
    }

    /// What is compared of an exact text.
    fn compared<S: Steps>(&self, scheme: &Scheme, steps: &mut S, has_address: bool) -> Result<String, S::Error> {
        let fields: Vec<String> = if has_address {
            let field = |field| {
                let text = normalise(&steps.before_nfkc(field, Cleaned::ShortWithLinks)?);
                Ok(steps.without_schemes(&text)?.replace(' ', ""))
            };
            (0..scheme.fields()).map(field).collect::<Result<_, S::Error>>()?
        } else if scheme.settings.exact == Compared::Letters {
            self.units.iter().map(|units| units.joined("")).collect()
        } else {
            self.texts.clone()
        };
        Ok(fields.join("\n"))
    }

    /// What counts, as people are shown it.
    fn shown(&self) -> String {
        self.units.iter().map(|units| units.joined(" ")).collect::<Vec<_>>().join("\n")
    }
}

fn split(words: &mut Words, scheme: &Scheme, text: String) {
    let Kind { dictionary, rule, .. } = &scheme.long;
    if scheme.settings.long.changes_after_nfkc {
        words.split_normalised(text, *rule, dictionary);
    } else {
        words.split(text, *rule, dictionary);
    }
}

fn after_nfkc<S: Steps>(scheme: &Scheme, steps: &mut S, normalised: String) -> Result<String, S::Error> {
    let Treatment { changes_after_nfkc, numbers, .. } = scheme.settings.short;
    if changes_after_nfkc || numbers != Treat::Keep { steps.after_nfkc(&normalised) } else { Ok(normalised) }
}

/// All characters of a text as short text but white space, addresses included.
fn characters_with_addresses<S: Steps>(scheme: &Scheme, steps: &mut S) -> Result<Vec<u32>, S::Error> {
    let mut letters = Vec::new();
    for field in 0..scheme.fields() {
        let text = normalise(&steps.before_nfkc(field, Cleaned::ShortWithAddresses)?);
        let text = after_nfkc(scheme, steps, text)?;
        letters.extend(text.chars().filter(|one| *one != ' ').map(u32::from));
    }
    Ok(letters)
}
