//! Near: whether an entry is near an article. Every comparison of the product ends here.
//!
//! An article's **sieve** takes the key word of an entry, the one that has the block of the look-up, before the rest of
//! the entry is read. The **check** takes its signature and its sketch.
//!
//! The search asks whether the check holds ([`Pair::near`]). What explains or measures pairs wants to know more:
//! [`Pair::account`] is the facts and each condition, and [`Meeting`] is what each table makes of the two keys. Both ask
//! the same functions, so a condition that is added to [`Pair::near`] and to [`Sieve`] is one of every command.

use multiversion::multiversion;

use super::chunk::Blocks;
use super::plan::Places;
use super::rows::Row;

/// Words of a signature.
pub const WORDS: usize = 4;
/// Most words of a sketch, its form included.
pub const SKETCH_WORDS: usize = 4;
/// Keys that the sieve compares before it looks at the answers.
const KEYS_AT_ONCE: usize = 256;
/// Answers of the sieve that are looked at at once: one byte each.
const LANES: usize = 8;
/// The part of a form that is the frame of the text; the rest are its numbers.
const FRAME: u64 = 0xFFFF_FFFF;

const VALUES_PER_WORD: u32 = 16;
const LOWEST_BITS: u64 = 0x1111_1111_1111_1111;

/// What an entry must have to be near, whatever the article.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether the distance is that of the signatures; else it is that of the first word, and nothing else is checked.
    pub directed: bool,
    /// Whether sketches are compared.
    pub compares: bool,
    /// Words of the sketch that have values.
    pub value_words: usize,
    /// Whether the word behind them is a form.
    pub has_form: bool,
    /// Greatest distance at which the values of the sketches are not compared.
    pub certain: i32,
    /// Distance beyond which `far_equal` values must be equal.
    pub far: i32,
    /// Greatest distance of an entry whose form has the same frame and other numbers.
    pub form_limit: i32,
}

/// What an entry must have to be near an article of this kind of text.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Greatest distance.
    pub reach: i32,
    /// Values of the sketches that must be equal.
    pub least_equal: i32,
    /// Values that must be equal beyond `far`.
    pub far_equal: i32,
}

/// How the forms of two texts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// One of them has no form, or forms are not compared.
    None,
    /// Their frames differ.
    Other,
    /// They have one frame and the same numbers.
    Same,
    /// They have one frame, and numbers that differ.
    OtherNumbers,
}

/// The bits of a key word that the sieve counts, and how many of those that differ pass.
#[derive(Clone, Copy, Debug)]
pub struct Sieve {
    /// Bits that count, and those that count again.
    pub sure: [u64; 2],
    /// The greatest count that passes.
    pub most: u32,
}

impl Sieve {
    /// What it counts of two key words.
    #[must_use]
    pub fn count(&self, one: u64, other: u64) -> u32 {
        counted(one ^ other, self.sure)
    }

    /// Whether it passes two key words of which it counts so many bits.
    #[must_use]
    pub fn passes(&self, count: u32) -> bool {
        count <= self.most
    }
}

/// What the tables make of the keys of an article and an entry.
pub struct Meeting<'a> {
    /// Key words of the article.
    pub article: &'a [u64],
    /// Key words of the entry.
    pub entry: &'a [u64],
    /// The sieve of each key word.
    pub sieves: &'a [Sieve],
    /// Bits of a block.
    pub block_bits: u8,
}

impl Meeting<'_> {
    /// What the sieve of a key word counts, and whether it passes that.
    #[must_use]
    pub fn sieved(&self, word: usize) -> (u32, bool) {
        let count = self.sieves[word].count(self.article[word], self.entry[word]);
        (count, self.sieves[word].passes(count))
    }

    /// The place, in a plan, of the look-up that reads the posting list which has the entry in a table.
    #[must_use]
    pub fn place(&self, table: u8, plan: &Places) -> Option<u32> {
        let blocks = Blocks { table, bits: self.block_bits };
        let mask = blocks.of(self.article[blocks.word()]) ^ blocks.of(self.entry[blocks.word()]);
        plan.place(u32::from(table) << self.block_bits | mask)
    }
}

/// An article and an entry, as the check takes them.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// Signature and sketch of the article.
    pub article: (&'a [u64], &'a [u64]),
    /// Signature and sketch of the entry.
    pub entry: (&'a [u64], &'a [u64]),
    /// What the article asks of the entry.
    pub demand: Demand,
    /// What is asked of every entry.
    pub limits: &'a Limits,
}

/// What the check finds in a pair, and which of its conditions hold.
#[expect(clippy::struct_excessive_bools, reason = "one for each condition")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The number of differing bits of the first word, of 64.
    pub fingerprint_distance: u32,
    /// The number of differing bits of the signatures, of 256.
    pub signature_distance: u32,
    /// The one of the two that is limited.
    pub distance: u32,
    /// Values that the sketches share.
    pub equal: u32,
    /// Values that they must share at this distance, unless it is certain.
    pub least_equal: i32,
    /// How the forms compare.
    pub forms: Forms,
    /// Whether the distance is within reach.
    pub is_within: bool,
    /// Whether the forms allow the entry to be near at this distance.
    pub form_holds: bool,
    /// Whether the distance is so small that the values of the sketches are not compared.
    pub is_certain: bool,
    /// Whether the values of the sketches allow the entry to be near at this distance.
    pub has_enough: bool,
    /// Whether the check holds.
    pub is_near: bool,
}

impl Account {
    /// Bytes of an account.
    pub const BYTES: usize = 16;

    /// The numbers, 2 bytes each, little-endian; then forms and conditions, one byte each, in the order of the fields.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let numbers = [self.fingerprint_distance, self.signature_distance, self.distance, self.equal];
        let mut bytes = [0; Self::BYTES];
        for (number, two) in numbers.into_iter().chain([self.least_equal as u32]).zip(bytes.chunks_exact_mut(2)) {
            two.copy_from_slice(&(number as u16).to_le_bytes());
        }
        let conditions = [self.is_within, self.form_holds, self.is_certain, self.has_enough, self.is_near];
        bytes[10] = self.forms as u8;
        bytes[11..].copy_from_slice(&conditions.map(u8::from));
        bytes
    }
}

impl Pair<'_> {
    /// The distance that is limited.
    #[must_use]
    pub fn distance(&self) -> u32 {
        limited_distance(self.limits.directed, self.article.0, self.entry.0)
    }

    /// The distance, if the entry is near; the conditions that cost most come last.
    #[must_use]
    pub fn near(&self) -> Option<u32> {
        let distance = self.distance();
        let bits = distance as i32;
        (self.is_within(bits) && self.form_holds(bits) && self.has_enough(bits)).then_some(distance)
    }

    /// Everything that [`Pair::near`] asks, whether or not it matters any more.
    #[must_use]
    pub fn account(&self) -> Account {
        let distance = self.distance();
        let bits = distance as i32;
        Account {
            fingerprint_distance: self::distance(&self.article.0[..1], &self.entry.0[..1]),
            signature_distance: self::distance(self.article.0, self.entry.0),
            distance,
            equal: self.equal(),
            least_equal: self.least_equal(bits),
            forms: self.forms(),
            is_within: self.is_within(bits),
            form_holds: self.form_holds(bits),
            is_certain: self.is_certain(bits),
            has_enough: self.has_enough(bits),
            is_near: self.near().is_some(),
        }
    }

    fn is_within(&self, distance: i32) -> bool {
        distance <= self.demand.reach
    }

    fn form_holds(&self, distance: i32) -> bool {
        !self.checks_sketches()
            || !self.limits.has_form
            || distance <= self.limits.form_limit
            || self.forms() != Forms::OtherNumbers
    }

    fn has_enough(&self, distance: i32) -> bool {
        !self.checks_sketches() || self.is_certain(distance) || self.equal() as i32 >= self.least_equal(distance)
    }

    fn checks_sketches(&self) -> bool {
        self.limits.directed && self.limits.compares
    }

    fn is_certain(&self, distance: i32) -> bool {
        distance <= self.limits.certain
    }

    fn least_equal(&self, distance: i32) -> i32 {
        let least = self.demand.least_equal;
        if distance > self.limits.far { least.max(self.demand.far_equal) } else { least }
    }

    fn equal(&self) -> u32 {
        let words = self.limits.value_words;
        equal_values(&self.article.1[..words], &self.entry.1[..words])
    }

    fn forms(&self) -> Forms {
        if self.limits.has_form {
            Forms::of(self.article.1, self.entry.1, self.limits.value_words)
        } else {
            Forms::None
        }
    }
}

impl Forms {
    /// Compare the forms at a word of two sketches.
    fn of(one: &[u64], other: &[u64], word: usize) -> Self {
        let (one, other) = (one[word], other[word]);
        let apart = one ^ other;
        match (one & FRAME, other & FRAME) {
            (0, _) | (_, 0) => Self::None,
            _ if apart & FRAME != 0 => Self::Other,
            _ if apart != 0 => Self::OtherNumbers,
            _ => Self::Same,
        }
    }
}

/// The distance of two signatures that is limited.
fn limited_distance(directed: bool, one: &[u64], other: &[u64]) -> u32 {
    if directed { distance(one, other) } else { distance(&one[..1], &other[..1]) }
}

/// Write the distances, those that are limited, of each article from every entry.
#[cfg_attr(
    avx512,
    multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+popcnt", "x86_64+avx2+popcnt"))
)]
#[cfg_attr(not(avx512), multiversion(targets("x86_64+avx2+popcnt")))]
pub fn write_distances(directed: bool, articles: &[u64], entries: &[u64], written: &mut [[u8; 2]]) {
    let count = entries.len() / WORDS;
    for (article, distances) in articles.chunks_exact(WORDS).zip(written.chunks_exact_mut(count.max(1))) {
        for (entry, distance) in entries.chunks_exact(WORDS).zip(distances) {
            *distance = (limited_distance(directed, article, entry) as u16).to_le_bytes();
        }
    }
}

/// An article, as it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Article {
    /// Key words, which have the blocks.
    pub keys: [u64; WORDS],
    /// Words of the signature.
    pub words: [u64; WORDS],
    /// Values of the sketch, then its form.
    pub sketch: [u64; SKETCH_WORDS],
    /// The sieve of each key word.
    pub sieves: [Sieve; WORDS],
    /// What it asks of an entry.
    pub demand: Demand,
    /// Hash of what an entry must be of: kind of text and scope.
    pub group: u64,
    /// Log time before which entries have expired.
    pub oldest: i64,
    /// The article id that an entry must have, as a hash; none: any.
    pub own_id: Option<u64>,
    /// First document number that does not exist for it.
    pub before: u64,
}

impl Article {
    /// Give the numbers of the keys from `begin` to `end` that pass the sieve of a word, the last one first, and their
    /// distances.
    pub fn sieve(&self, word: usize, keys: &[u64], (begin, end): (usize, usize), mut passes: impl FnMut(usize, u32)) {
        let (mine, sieve) = (self.keys[word], self.sieves[word]);
        let mut answers = [0; KEYS_AT_ONCE];
        let mut last = end;
        while last > begin {
            let first = last.saturating_sub(KEYS_AT_ONCE).max(begin);
            let (some, rest) = answers.split_at_mut(last - first);
            answer(sieve, mine, &keys[first..last], some);
            // The last lanes may reach beyond these answers.
            rest.iter_mut().take(LANES).for_each(|answer| *answer = 0);
            for (at, eight) in answers[..(last - first).next_multiple_of(LANES)].chunks_exact(LANES).enumerate().rev() {
                let mut lanes = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
                while lanes != 0 {
                    let bit = lanes.ilog2();
                    let number = first + at * LANES + bit as usize / 8;
                    passes(number, (keys[number] ^ mine).count_ones());
                    lanes ^= 1 << bit;
                }
            }
            last = first;
        }
    }

    /// The distance of an entry that is near by its row; none if it is not.
    #[must_use]
    pub fn distance(&self, row: Row<'_>, key_distance: u32, limits: &Limits) -> Option<u32> {
        if !limits.directed {
            // That of the first words: the sieve has compared it with the reach.
            return Some(key_distance);
        }
        let article = (self.words.as_slice(), self.sketch.as_slice());
        Pair { article, entry: (row.signature(), row.sketch()), demand: self.demand, limits }.near()
    }
}

/// The number of bits in which two signatures differ.
fn distance(one: &[u64], other: &[u64]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

/// How many values of 4 bits two sketches share.
fn equal_values(one: &[u64], other: &[u64]) -> u32 {
    let equal = |(one, other): (&u64, &u64)| {
        let apart = one ^ other;
        let apart = apart | apart >> 1;
        VALUES_PER_WORD - ((apart | apart >> 2) & LOWEST_BITS).count_ones()
    };
    one.iter().zip(other).map(equal).sum()
}

/// How many bits of a word count, those of the second mask again.
fn counted(differing: u64, [once, twice]: [u64; 2]) -> u32 {
    (differing & once).count_ones() + (differing & twice).count_ones()
}

/// Write 1 for each key that passes the sieve of a key word, 0 for the others.
#[cfg_attr(
    avx512,
    multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+popcnt", "x86_64+avx2+popcnt"))
)]
#[cfg_attr(not(avx512), multiversion(targets("x86_64+avx2+popcnt")))]
fn answer(sieve: Sieve, mine: u64, keys: &[u64], answers: &mut [u8]) {
    for (key, answer) in keys.iter().zip(answers) {
        *answer = u8::from(sieve.passes(sieve.count(*key, mine)));
    }
}
