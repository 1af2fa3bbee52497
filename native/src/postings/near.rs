//! Near: whether an entry is near an article. Every comparison of the product ends here.
//!
//! An article's **sieve** takes the key word of an entry, the one that has the block of the look-up, before the rest of
//! the entry is read. The **check** takes its signature and its sketch.
//!
//! The search asks whether the check holds ([`Pair::near`]). What explains or measures pairs wants to know more:
//! [`Pair::account`] is the facts and each condition, from the same functions, and [`Sieve`] tells what it counts. So a
//! condition that is added to [`Pair::near`] and to [`Pair::account`] is one of every command.

use multiversion::multiversion;

use super::rows::Row;

/// Words of a signature.
pub const WORDS: usize = 4;
/// Most words of a sketch, its form included.
pub const SKETCH_WORDS: usize = 4;
/// The part of a form that is the frame of the text; the rest are its numbers.
const FRAME: u64 = 0xFFFF_FFFF;

/// Bytes of what [`Pair::account`] tells.
pub const ACCOUNT_BYTES: usize = 16;
const VALUES_PER_WORD: u32 = 16;
const LOWEST_BITS: u64 = 0x1111_1111_1111_1111;

/// What an entry must have to be near, whatever the article.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether the distance is that of the signatures; else it is that of the first word, and nothing else is checked.
    pub directed: bool,
    /// Whether sketches are compared, which is in directed search alone.
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
    /// How far one feature decides its signature: from 1 on no distance is certain, from 2 on every one is far.
    pub dominated: u8,
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
    pub most: u64,
}

impl Sieve {
    /// What it counts of two key words: the bits that differ.
    #[must_use]
    pub fn count(&self, one: u64, other: u64) -> u64 {
        self.sure.iter().map(|mask| u64::from(((one ^ other) & mask).count_ones())).sum()
    }

    /// Whether it passes two key words of which it counts so many bits.
    #[must_use]
    pub fn passes(&self, count: u64) -> bool {
        self.excess(count) == 0
    }

    /// How many bits too many such a count is; 0 of what passes.
    #[must_use]
    pub fn excess(&self, count: u64) -> u64 {
        count.saturating_sub(self.most)
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
    ///
    /// Numbers of 2 bytes each, little-endian: the bits in which the first words differ, and the signatures; the one of
    /// the two that is limited; the values that the sketches share, and how many they must share at this distance. Then
    /// one byte each: [`Forms`]; whether the distance is within reach, whether the forms allow it, whether it is
    /// certain, whether the values allow it, and whether the check holds.
    #[must_use]
    pub fn account(&self) -> [u8; ACCOUNT_BYTES] {
        let (distance, bits) = (self.distance(), self.distance() as i32);
        let [first, all] = [1, WORDS].map(|words| self::distance(&self.article.0[..words], &self.entry.0[..words]));
        let numbers = [first, all, distance, self.equal(), self.least_equal(bits) as u32];
        let (is_within, form_holds) = (self.is_within(bits), self.form_holds(bits));
        let holding = [is_within, form_holds, self.is_certain(bits), self.has_enough(bits), self.near().is_some()];
        let mut bytes = [0; ACCOUNT_BYTES];
        for (number, two) in numbers.into_iter().zip(bytes.chunks_exact_mut(2)) {
            two.copy_from_slice(&(number as u16).to_le_bytes());
        }
        bytes[10] = self.forms() as u8;
        bytes[11..].copy_from_slice(&holding.map(u8::from));
        bytes
    }

    fn is_within(&self, distance: i32) -> bool {
        distance <= self.demand.reach
    }

    fn form_holds(&self, distance: i32) -> bool {
        !self.limits.compares
            || !self.limits.has_form
            || distance <= self.limits.form_limit
            || self.forms() != Forms::OtherNumbers
    }

    fn has_enough(&self, distance: i32) -> bool {
        !self.limits.compares || self.is_certain(distance) || self.equal() as i32 >= self.least_equal(distance)
    }

    fn is_certain(&self, distance: i32) -> bool {
        distance <= self.limits.certain && self.demand.dominated == 0
    }

    fn least_equal(&self, distance: i32) -> i32 {
        let least = self.demand.least_equal;
        let is_far = distance > self.limits.far || self.demand.dominated > 1;
        if is_far { least.max(self.demand.far_equal) } else { least }
    }

    fn equal(&self) -> u32 {
        let words = self.limits.value_words;
        equal_values(&self.article.1[..words], &self.entry.1[..words])
    }

    fn forms(&self) -> Forms {
        if !self.limits.has_form {
            return Forms::None;
        }
        let [one, other] = [self.article.1, self.entry.1].map(|sketch| sketch[self.limits.value_words]);
        let apart = one ^ other;
        match (one & FRAME, other & FRAME) {
            (0, _) | (_, 0) => Forms::None,
            _ if apart & FRAME != 0 => Forms::Other,
            _ if apart != 0 => Forms::OtherNumbers,
            _ => Forms::Same,
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
    pub scope_hash: u64,
    /// Log time before which entries have expired.
    pub oldest: i64,
    /// The article id that an entry must have, as a hash; none: any.
    pub own_id: Option<u64>,
    /// First document number that does not exist for it.
    pub before: u64,
}

impl Article {
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
