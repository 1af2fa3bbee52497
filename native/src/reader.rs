//! Tells whether a text is long, short or exact, and makes what an entry has of it.
//!
//! The article size is compared with the number of letters, digits and ideographs in the words of the text, read as long
//! text, of all fields together: spaces, punctuation and markup make no text longer. The exact size is compared with the
//! number of characters of the text normalised as short text, including single spaces and punctuation, before tricks of
//! spam are undone; or, where letters are compared, with the number of letters that count ([`Units::letters`]). A text
//! with fewer than [`LEAST_LETTERS`] letters that count is exact too, unless the exact size is 0. A text that has the
//! letters of [`Settings::surely_long`] is long, and is not read as short text at all.
//!
//! A text without a letter, a digit or a symbol that counts has no features, and a token for an address is none of these.
//! Of an exact text in which a token stands for the address of a page, all characters are compared, with the address
//! itself in place of the token, but without its scheme: a link alone is near the same link, and near no other.
//!
//! A sketch is made of the letters of a text: the ideographs in order, then the other characters and words that count, in
//! order, without spaces. Or of all characters of the text as short text but white space, with addresses: of texts that
//! differ in little but a link, the signature sees the same text, and the sketch another one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::LazyLock;

use crate::decode::html;
use crate::features::counts::Counts;
use crate::features::grams::Grams;
use crate::features::sentences::key_text;
use crate::features::units::Units;
use crate::features::weights::{self, Weigher};
use crate::features::words::{Rule, Words};
use crate::features::{Feature, Weighed, heaviest_first};
use crate::segment::Segmenter;
use crate::segment::dictionary::{DICTIONARY, Dictionary};
use crate::settings::{Compared, FeatureKind, Normalisation, Settings, Treat, Treatment, WordSplit};
use crate::signature::form::{self, Form};
use crate::signature::mixing::{WHOLE, factor, share_of_short};
use crate::signature::sketch::Sketcher;
use crate::signature::sums::{BITS, Hash, MAX_MARGIN, Sums, feature_hash};
use crate::text::clean;
use crate::text::edit::Room;
use crate::text::normalise::normalise;
use crate::text::quotes;

/// Least letters of a short text: of three, one changed is a large part of the text.
const LEAST_LETTERS: usize = 4;

/// The kind of a text, as log entries have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Compared by its words.
    Long = 0,
    /// Nothing of it counts.
    Featureless = 1,
    /// The record cannot be read, or a step panicked at it.
    Rejected = 2,
    /// Compared by characters.
    Short = 3,
    /// Compared whole.
    Exact = 4,
    /// The record has no text, and withdraws the article with its id.
    Delete = 5,
}

/// Makes the tables that are made once, of all schemes.
///
/// They would be made with the first text or page. But a process that is forked while another thread makes them waits for them
/// for ever; who calls this lets no one fork.
pub fn load() {
    LazyLock::force(&DICTIONARY);
    LazyLock::force(&weights::LISTED);
    LazyLock::force(&weights::ONE_AND_LOG);
    LazyLock::force(&quotes::KNOWN);
    LazyLock::force(&form::IS_GRAMMAR);
    LazyLock::force(&form::WORDS);
    html::load();
}

/// What all texts of one scheme share.
pub struct Scheme {
    settings: Settings,
    long: Kind,
    short: Kind,
    sketcher: Sketcher,
}

/// A user's words, as files have them.
#[derive(Clone, Debug, Default)]
pub struct OwnWords {
    /// For the dictionary, each with its frequency.
    pub words: Vec<(String, Option<u64>)>,
    /// Texts whose words do not count.
    pub stop_words: Vec<String>,
}

/// One kind of text: long or short.
struct Kind {
    dictionary: Cow<'static, Dictionary>,
    /// The optional steps of normalising.
    steps: Normalisation,
    weigher: Weigher,
    rule: Rule,
    stop_words: HashSet<String>,
}

impl Kind {
    fn new(treatment: &Treatment, own: &OwnWords) -> Self {
        let mut made = Self {
            dictionary: Cow::Borrowed(&*DICTIONARY),
            steps: treatment.normalisation,
            weigher: Weigher::new(&treatment.features),
            rule: Rule {
                marked: treatment.features.words == WordSplit::Marked,
                numbers: treatment.normalisation.numbers,
            },
            stop_words: HashSet::new(),
        };
        let mut room = Room::default();
        if !own.words.is_empty() {
            // As they stand in texts.
            let mut simplified = |word: &str| {
                if made.steps.simplify { clean::simplified(word, &mut room).into_owned() } else { word.to_owned() }
            };
            let words: Vec<_> = own.words.iter().map(|(word, frequency)| (simplified(word), *frequency)).collect();
            let words = words.iter().map(|(word, frequency)| (word.as_str(), *frequency));
            made.dictionary = Cow::Owned(DICTIONARY.with_words(words));
        }
        made.stop_words = own.stop_words.iter().map(|text| made.normalise(text.as_bytes(), &mut room)).collect();
        made
    }

    /// A text after all steps but that of numbers.
    fn normalise(&self, text: &[u8], room: &mut Room) -> String {
        let normalised = normalise(&clean::before_nfkc(text, &self.steps, room).text);
        clean::after_nfkc(&normalised, &self.steps, false, room).into_owned()
    }

    /// Splits a part of a text into words.
    fn split(&self, text: &[u8], words: &mut Words, room: &mut Room) {
        if self.steps.changes_after_nfkc() {
            words.split_normalised(self.normalise(text, room), self.rule, &self.dictionary);
        } else {
            let cleaned = clean::before_nfkc(text, &self.steps, room).text.into_owned();
            words.split(cleaned, self.rule, &self.dictionary);
        }
    }
}

/// What an entry has of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// The normalised text; of short text what counts.
    pub text: String,
    /// Heaviest first; an exact text is one feature.
    pub features: Vec<Feature>,
    /// Sums of their weights; none without features.
    pub sums: Vec<i64>,
    /// Of the text.
    pub form: Form,
}

impl Explained {
    /// With names in place of the letters that stand for tokens.
    fn with_names(mut self) -> Self {
        let named = |text: String| {
            if text.is_ascii() {
                return text;
            }
            clean::TOKENS.iter().fold(text, |text, (letter, name)| text.replace(*letter, name))
        };
        self.text = named(self.text);
        for feature in &mut self.features {
            feature.name = named(std::mem::take(&mut feature.name));
        }
        self
    }
}

impl Scheme {
    /// Of these settings, with a user's words.
    #[must_use]
    pub fn new(settings: Settings, own: &OwnWords) -> Self {
        let no_words = OwnWords::default();
        let of_short = if settings.short.features.kind == FeatureKind::Chars { &no_words } else { own };
        Self {
            long: Kind::new(&settings.long, own),
            short: Kind::new(&settings.short, of_short),
            sketcher: Sketcher::new(&settings.sketch, settings.seed),
            settings,
        }
    }

    /// Whether what others wrote is dropped of every text, so that HTML keeps the tags of block quotations.
    #[must_use]
    pub fn drops_quotes(&self) -> bool {
        [self.long.steps.quotes, self.short.steps.quotes] == [Treat::Drop; 2]
    }

    /// Bytes of an entry's sketch, with the form.
    fn sketch_bytes(&self) -> usize {
        self.settings.value_bytes() + if self.settings.form { 8 } else { 0 }
    }

    /// What an entry has of a text that could not be read.
    #[must_use]
    pub fn rejected(&self) -> Reading {
        self.blank(Status::Rejected)
    }

    /// What an entry has that has no signature.
    #[must_use]
    pub fn blank(&self, status: Status) -> Reading {
        Reading {
            status,
            signature: [0; BITS / 8],
            margins: vec![0; self.settings.margin_bits() / 2],
            sketch: vec![0; self.sketch_bytes()],
        }
    }

    fn exact(&self, text: &str) -> Reading {
        let mut made = self.blank(Status::Exact);
        made.signature = feature_hash(text.as_bytes(), self.settings.seed);
        made.margins.fill(MAX_MARGIN << 4 | MAX_MARGIN);
        made
    }

    /// What an entry has of features; all that it is made from is in `explained`, where that is asked for.
    fn of_features(
        &self,
        status: Status,
        Part { sums, features }: &Part,
        letters: &[u32],
        form: Form,
        explained: Option<&mut Explained>,
    ) -> Reading {
        let mut made = Reading {
            status,
            signature: sums.signature(),
            margins: Vec::with_capacity(self.settings.margin_bits() / 2),
            sketch: Vec::with_capacity(self.sketch_bytes()),
        };
        sums.pack_margins(self.settings.margin_bits(), &mut made.margins);
        if !self.sketcher.is_idle() {
            self.sketcher.sketch(letters, &mut made.sketch);
            if self.settings.form {
                form.pack(self.settings.seed, &mut made.sketch);
            }
        }
        made.sketch.resize(self.sketch_bytes(), 0);
        if let Some(explained) = explained {
            (explained.features, explained.sums, explained.form) = (features.clone(), sums.sums.to_vec(), form);
        }
        made
    }
}

/// The fields of a text, without markup, in generalized UTF-8.
pub type Fields<'t> = &'t [&'t [u8]];

/// Reads texts of any scheme: the scratch memory of one thread.
#[derive(Default)]
pub struct Reader {
    room: Room,
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

/// A text as short text.
struct Short {
    /// Each field up to NFKC.
    normalised: Vec<String>,
    /// Each field after all steps.
    texts: Vec<String>,
    /// What counts of each field.
    units: Vec<Units>,
    /// Whether the steps of addresses changed any field: [`clean::Cleaned::is_addressed`].
    is_addressed: bool,
}

impl Reader {
    /// Reads one text.
    pub fn read(&mut self, scheme: &Scheme, fields: Fields) -> Reading {
        self.read_with(scheme, fields, None)
    }

    /// Reads one text, with all that its reading is made from.
    pub fn explain(&mut self, scheme: &Scheme, fields: Fields) -> (Reading, Explained) {
        let mut explained = Explained::default();
        let made = self.read_with(scheme, fields, Some(&mut explained));
        if made.status == Status::Long {
            let normalised = fields.iter().map(|field| scheme.long.normalise(field, &mut self.room));
            explained.text = normalised.collect::<Vec<_>>().join("\n");
        } else if explained.text.is_empty() {
            explained.text = self.read_short(scheme, fields).shown();
        }
        (made, explained.with_names())
    }

    /// Reads a text as long text; as short text, unless it is surely long; then as one of the two, as both, or whole.
    fn read_with(&mut self, scheme: &Scheme, fields: Fields, explained: Option<&mut Explained>) -> Reading {
        let settings = &scheme.settings;
        let explains = explained.is_some();
        let size = if settings.has_long() { self.split_long(scheme, fields) } else { 0 };
        if settings.has_long() && size >= settings.surely_long() {
            let Some(long) = self.long(scheme, fields, explains) else { return scheme.blank(Status::Featureless) };
            let letters = self.long_letters(scheme, fields);
            return scheme.of_features(Status::Long, &long, &letters, Form::default(), explained);
        }
        let short = self.read_short(scheme, fields);
        let letters: usize = short.units.iter().map(Units::letters).sum();
        let characters: usize = short.normalised.iter().map(|one| one.chars().count()).sum();
        let measured = if settings.exact == Compared::Letters { letters } else { characters };
        if measured < settings.exact_size || (settings.exact_size > 0 && letters < LEAST_LETTERS) {
            return self.exact(scheme, fields, &short, letters, explained);
        }
        let form = if settings.form { Form::of(&joined(&short.normalised)) } else { Form::default() };
        let article_size = settings.article_size.unwrap_or(0);
        let share = if settings.has_long() { share_of_short(size, article_size) } else { WHOLE };
        let long = if share < WHOLE { self.long(scheme, fields, explains) } else { None };
        let own = if share == 0 && long.is_some() { None } else { self.short(scheme, &short, explains) };
        let mixed;
        let (part, is_long) = match (&long, &own) {
            (None, None) => return scheme.blank(Status::Featureless),
            (Some(long), None) => {
                let letters = self.long_letters(scheme, fields);
                return scheme.of_features(Status::Long, long, &letters, form, explained);
            }
            (None, Some(own)) => (own, false),
            (Some(long), Some(own)) => {
                mixed = long.mixed(own, share);
                (&mixed, size >= article_size)
            }
        };
        let letters = self.short_letters(scheme, fields, &short);
        scheme.of_features(if is_long { Status::Long } else { Status::Short }, part, &letters, form, explained)
    }

    /// What the sketch of a text is made of that has features of short text.
    fn short_letters(&mut self, scheme: &Scheme, fields: Fields, short: &Short) -> Vec<u32> {
        // No more letters than bytes.
        let mut letters = Vec::with_capacity(short.texts.iter().map(String::len).sum());
        match scheme.settings.sketch_text {
            _ if scheme.sketcher.is_idle() => {}
            Compared::Characters if short.is_addressed => letters = self.characters_with_addresses(scheme, fields),
            // No address was replaced, so these are all characters of the text.
            Compared::Characters => short.texts.iter().for_each(|text| letters.extend(visible(text))),
            Compared::Letters => short.units.iter().for_each(|units| units.add_letters(&mut letters)),
        }
        letters
    }

    /// What the sketch of a text is made of that has those of long text alone.
    fn long_letters(&mut self, scheme: &Scheme, fields: Fields) -> Cow<'_, [u32]> {
        if scheme.sketcher.is_idle() {
            Cow::Borrowed(&[])
        } else if scheme.settings.sketch_text == Compared::Characters {
            Cow::Owned(self.characters_with_addresses(scheme, fields))
        } else if let [words] = self.words.as_slice() {
            Cow::Borrowed(words.letters())
        } else {
            Cow::Owned(self.words.iter().flat_map(Words::letters).copied().collect())
        }
    }

    /// Splits the fields as long text; returns how many letters they have.
    fn split_long(&mut self, scheme: &Scheme, fields: Fields) -> usize {
        self.words.resize_with(fields.len(), Words::default);
        for (field, words) in fields.iter().zip(&mut self.words) {
            scheme.long.split(field, words, &mut self.room);
        }
        self.words.iter().map(|words| words.letters().len()).sum()
    }

    /// What a text that is split is as long text; none without features.
    fn long(&mut self, scheme: &Scheme, fields: Fields, explains: bool) -> Option<Part> {
        let settings = &scheme.settings;
        for (words, &weight) in self.words.iter().zip(&settings.field_weights) {
            self.counts.add(words, weight, &mut self.segmenter, &scheme.long.dictionary);
        }
        if settings.key_sentences > 0 {
            let mut words = Words::default();
            for (field, &weight) in fields.iter().zip(&settings.field_weights) {
                let key = key_text(clean::without_quotes(field, &scheme.long.steps, &mut self.room));
                scheme.long.split(&key, &mut words, &mut self.room);
                let times = weight.saturating_mul(settings.key_sentences);
                self.counts.add(&words, times, &mut self.segmenter, &scheme.long.dictionary);
            }
        }
        let made = self.weigh_words(scheme, &scheme.long, explains);
        #[cfg(test)]
        for field in fields {
            crate::panics::planted::reached("weighing", field);
        }
        made
    }

    /// A text as short text.
    fn read_short(&mut self, scheme: &Scheme, fields: Fields) -> Short {
        let (mut normalised, mut texts, mut units) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_addressed = false;
        for field in fields {
            let cleaned = clean::before_nfkc(field, &scheme.short.steps, &mut self.room);
            is_addressed |= cleaned.is_addressed;
            let one = normalise(&cleaned.text);
            let text = clean::after_nfkc(&one, &scheme.short.steps, true, &mut self.room).into_owned();
            units.push(Units::of(&text));
            texts.push(text);
            normalised.push(one);
        }
        Short { normalised, texts, units, is_addressed }
    }

    /// What a text is as short text; none without features.
    fn short(&mut self, scheme: &Scheme, short: &Short, explains: bool) -> Option<Part> {
        let kind = &scheme.short;
        if kind.weigher.features().kind == FeatureKind::Words {
            let mut words = Words::default();
            for (text, &weight) in short.texts.iter().zip(&scheme.settings.field_weights) {
                // Numbers are replaced already.
                words.split_normalised(text.clone(), Rule { numbers: Treat::Keep, ..kind.rule }, &kind.dictionary);
                self.counts.add(&words, weight, &mut self.segmenter, &kind.dictionary);
            }
            return self.weigh_words(scheme, kind, explains);
        }
        for (units, &weight) in short.units.iter().zip(&scheme.settings.field_weights) {
            self.grams.add(units, weight);
        }
        let mut features = Vec::new();
        let named = explains.then_some(&mut features);
        self.grams.weigh(&kind.weigher, scheme.settings.seed, &mut self.weighed, named);
        self.part(kind, features)
    }

    fn weigh_words(&mut self, scheme: &Scheme, kind: &Kind, explains: bool) -> Option<Part> {
        let mut features = Vec::new();
        let named = explains.then_some(&mut features);
        let seed = scheme.settings.seed;
        self.counts.weigh(&kind.dictionary, &kind.weigher, &kind.stop_words, seed, &mut self.weighed, named);
        self.part(kind, features)
    }

    /// What was weighed; none without features.
    fn part(&mut self, kind: &Kind, mut features: Vec<Feature>) -> Option<Part> {
        if self.weighed.is_empty() {
            return None;
        }
        let top_k = kind.weigher.features().top_k;
        self.weighed.keep_heaviest(top_k);
        heaviest_first(&mut features, top_k);
        Some(Part { sums: self.weighed.sums(), features })
    }

    /// A text that is compared whole.
    fn exact(
        &mut self,
        scheme: &Scheme,
        fields: Fields,
        short: &Short,
        letters: usize,
        explained: Option<&mut Explained>,
    ) -> Reading {
        let has_address = short.texts.iter().any(|one| one.contains(clean::URL));
        if letters == 0 && !has_address {
            return scheme.blank(Status::Featureless);
        }
        let text = if has_address {
            let steps = Normalisation { urls: Treat::Keep, ..scheme.short.steps };
            let mut with_links = |field: &&[u8]| {
                let text = normalise(&clean::before_nfkc(field, &steps, &mut self.room).text);
                clean::without_schemes(&text, &mut self.room).replace(' ', "")
            };
            fields.iter().map(&mut with_links).collect::<Vec<_>>().join("\n")
        } else if scheme.settings.exact == Compared::Letters {
            short.units.iter().map(|units| units.joined("")).collect::<Vec<_>>().join("\n")
        } else {
            short.texts.join("\n")
        };
        let made = scheme.exact(&text);
        if let Some(explained) = explained {
            if has_address || scheme.settings.exact == Compared::Characters {
                explained.text.clone_from(&text);
            }
            explained.sums = Sums::of(&[1], &[made.signature], []).sums.to_vec();
            explained.features = vec![Feature { name: text, count: 1, weight: 1, hash: made.signature }];
        }
        made
    }

    /// All characters of a text as short text but white space, addresses included.
    fn characters_with_addresses(&mut self, scheme: &Scheme, fields: Fields) -> Vec<u32> {
        let own = &scheme.short.steps;
        let steps = Normalisation { urls: Treat::Keep, emails: Treat::Keep, users: Treat::Keep, ..*own };
        let mut letters = Vec::new();
        for field in fields {
            let text = normalise(&clean::before_nfkc(field, &steps, &mut self.room).text);
            let text = clean::after_nfkc(&text, own, true, &mut self.room);
            letters.extend(visible(&text));
        }
        letters
    }
}

/// The fields of a text, each a line.
fn joined(fields: &[String]) -> Cow<'_, str> {
    if let [one] = fields { Cow::Borrowed(one) } else { Cow::Owned(fields.join("\n")) }
}

/// The characters of a text but white space.
fn visible(text: &str) -> impl Iterator<Item = u32> {
    text.chars().filter(|one| *one != ' ').map(u32::from)
}

impl Part {
    /// A text that has features of long text and, to this share, of short text.
    fn mixed(&self, short: &Self, share: u64) -> Self {
        let factors = (factor(WHOLE - share, self.sums.squares), factor(share, short.sums.squares));
        let mut features = self.times(factors.0);
        features.extend(short.times(factors.1));
        features.sort_by_key(|one| Reverse(one.weight));
        Self { sums: self.sums.mixed(factors.0, &short.sums, factors.1), features }
    }

    /// Its features, whose weights are multiplied.
    fn times(&self, factor: u64) -> Vec<Feature> {
        self.features.iter().map(|one| Feature { weight: one.weight * factor, ..one.clone() }).collect()
    }
}

impl Short {
    /// What counts, as people are shown it.
    fn shown(&self) -> String {
        self.units.iter().map(|units| units.joined(" ")).collect::<Vec<_>>().join("\n")
    }
}

impl Scheme {
    /// What features that a caller counted add up to, as those of a text of this kind.
    #[must_use]
    pub fn weigh(&self, counts: &[(String, u64)], status: Status) -> (Reading, Explained) {
        let mut explained = Explained::default();
        if counts.is_empty() {
            return (self.blank(Status::Featureless), explained);
        }
        let weigher = if status == Status::Long { &self.long.weigher } else { &self.short.weigher };
        let feature = |(name, count): &(String, u64)| Feature {
            name: name.clone(),
            count: *count,
            weight: u64::from(weigher.weight(weigher.idf(name), *count)),
            hash: feature_hash(name.as_bytes(), self.settings.seed),
        };
        let mut features: Vec<_> = counts.iter().map(feature).collect();
        heaviest_first(&mut features, weigher.features().top_k);
        let weights: Vec<u32> = features.iter().map(|one| one.weight as u32).collect();
        let hashes: Vec<Hash> = features.iter().map(|one| one.hash).collect();
        let part = Part { sums: Sums::of(&weights, &hashes, []), features };
        let made = self.of_features(status, &part, &[], Form::default(), Some(&mut explained));
        (made, explained.with_names())
    }
}
