//! Near: whether an entry is near an article. Every comparison of the product ends here.
//!
//! An article's **sieve** takes the key word of an entry, the one that has the block of the look-up, before the rest of
//! the entry is read. The **check** takes its signature and its sketch.
//!
//! The search asks whether the check holds ([`Pair::is_near`]). What explains or measures pairs wants to know more:
//! [`Pair::account`] is the facts and each condition, from the same functions, and [`Sieve`] tells what it counts. So a
//! condition that is added to [`Pair::is_near`] and to [`Pair::account`] is one of every command.

use multiversion::multiversion;

use super::chunk::words_of;
use super::plan::{BLOCK_STEP, BLOCKS_PER_WORD, WORD_BITS, margin_of, surest};
use super::rows::Row;
use super::tables::KEY_FACTORS;
use crate::reader::Status;

const LONG: u8 = Status::Long as u8;
const REJECTED: u8 = Status::Rejected as u8;
const SHORT: u8 = Status::Short as u8;
const EXACT: u8 = Status::Exact as u8;

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

// An edit leaves an article's surest bits as they are, so the sieve of sure bits takes these alone. Of 16,581 edited texts
// that a look-up reaches it lost 1.3 in 1,000 (that of the whole word 7.7; among those cut or edited most 2.6 and 13), and
// it passed 1.7 to 9.6 % of the unrelated entries that look-ups meet in real text (3.0 to 10.5 %).

/// The sieve of a scheme without sketches takes the whole key word: so many bits may differ at most.
pub const WORD_SIEVE_BITS: u64 = 16;
/// The sieve of sure bits takes so many of the surest bits of the article's key word, and the surest of them twice.
pub const SURE_BITS: [usize; 2] = [42, 22];
/// So many of them may differ at most.
pub const SURE_SIEVE_BITS: u64 = 10;
/// Margin of a bit of the fingerprint below which it counts against domination.
pub const FIRM_MARGIN: usize = 4;

/// What near depends on of a scheme, by the names of `core/logged_scheme.py`.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
pub struct Widths {
    /// Number of block tables.
    pub tables: usize,
    /// Bits of a block.
    pub block_bits: u8,
    /// Bytes of a sketch, its form included.
    pub sketch_bytes: usize,
    /// Bytes of the form at its end.
    pub form_bytes: usize,
}

impl Widths {
    /// Bytes of an article's margins.
    #[must_use]
    pub fn margin_bytes(&self) -> usize {
        self.tables * BLOCK_STEP / 2
    }
}

/// What near depends on of the rules of a log, by the names of `core/rules.py`, which says what each means; a number that
/// is none limits nothing.
///
/// A rule that is added is a field here: it is read where the rules come from Python, and goes wherever near is decided.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
#[expect(missing_docs, reason = "the rules have them")]
pub struct Limits {
    pub scheme: Widths,
    pub directed: bool,
    pub distance: Option<i32>,
    pub limit: Option<i32>,
    pub short_limit: Option<i32>,
    pub min_equal: Option<i32>,
    pub short_min_equal: Option<i32>,
    pub certain: Option<i32>,
    pub form_limit: Option<i32>,
    pub far: Option<i32>,
    pub far_min_equal: Option<i32>,
    pub dominated: Option<usize>,
    pub window_ms: Option<i64>,
    pub bucket_limit: usize,
    pub candidates: Option<usize>,
}

/// What an entry must have to be near an article of this kind of text.
#[derive(Clone, Copy, Debug, Default)]
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

impl Limits {
    /// What is asked of entries near an article of this status, which is so far dominated. A rejected article is near
    /// nothing, and an exact text equal texts only.
    #[must_use]
    pub fn demand(&self, status: u8, dominated: u8) -> Demand {
        let (limit, least_equal) = match status {
            SHORT => (self.short_limit, self.short_min_equal),
            _ => (self.limit, self.min_equal),
        };
        let limit = if self.directed { limit } else { self.distance };
        let if_not = |is_none: bool, number: Option<i32>| number.filter(|_| !is_none).unwrap_or(0);
        Demand {
            reach: if_not(status == EXACT || status == REJECTED, limit),
            least_equal: if_not(status == EXACT || !self.directed, least_equal),
            far_equal: if_not(status == EXACT, self.far_min_equal),
            dominated,
        }
    }

    /// 1 if an article of this status with these margins is dominated, 2 if strongly so, 0 if not.
    #[must_use]
    pub fn dominated(&self, status: u8, margins: &[u8]) -> u8 {
        let Some(most) = self.dominated.filter(|_| status == LONG) else { return 0 };
        let yielding = (0..WORD_BITS).filter(|bit| margin_of(margins, *bit) < FIRM_MARGIN).count();
        u8::from(yielding <= most) + u8::from(yielding <= most / 2)
    }

    /// The masks of the sieve of each key word that has tables.
    pub fn masks(&self, margins: &[u8]) -> impl Iterator<Item = [u64; 2]> {
        let of_words =
            self.sieves_sure_bits().then(|| SURE_BITS.map(|count| surest(margins, count).collect::<Vec<_>>()));
        (0..self.key_words())
            .map(move |word| of_words.as_ref().map_or([u64::MAX, 0], |[sure, surest]| [sure[word], surest[word]]))
    }

    /// The greatest count of the sieve that passes, of an article with this demand.
    #[must_use]
    pub fn sieve(&self, demand: Demand) -> u64 {
        match (self.directed, self.sieves_sure_bits()) {
            (false, _) => demand.reach as u64,
            (_, false) => WORD_SIEVE_BITS,
            (_, true) => SURE_SIEVE_BITS,
        }
    }

    /// Key words that have tables.
    #[must_use]
    pub fn key_words(&self) -> usize {
        self.scheme.tables / BLOCKS_PER_WORD
    }

    /// Words of a sketch, its form included.
    #[must_use]
    pub fn sketch_words(&self) -> usize {
        self.scheme.sketch_bytes / 8
    }

    fn sieves_sure_bits(&self) -> bool {
        self.directed && self.scheme.sketch_bytes > 0
    }

    fn value_words(&self) -> usize {
        (self.scheme.sketch_bytes - self.scheme.form_bytes) / 8
    }
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

    /// Whether the entry is near, at [`Pair::distance`]; the conditions that cost most come last.
    #[must_use]
    #[expect(clippy::inline_always, reason = "it is compiled for the processors of its caller")]
    #[inline(always)]
    pub fn is_near(&self, distance: u32) -> bool {
        let bits = distance as i32;
        self.is_within(bits) && self.form_holds(bits) && self.has_enough(bits)
    }

    /// Everything that [`Pair::is_near`] asks, whether or not it matters any more.
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
        let holding = [is_within, form_holds, self.is_certain(bits), self.has_enough(bits), self.is_near(distance)];
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
        !self.limits.directed
            || self.limits.form_limit.is_none_or(|limit| distance <= limit)
            || self.forms() != Forms::OtherNumbers
    }

    #[inline]
    fn has_enough(&self, distance: i32) -> bool {
        let least = self.least_equal(distance);
        least == 0 || self.is_certain(distance) || self.equal() as i32 >= least
    }

    fn is_certain(&self, distance: i32) -> bool {
        self.limits.certain.is_some_and(|certain| distance <= certain) && self.demand.dominated == 0
    }

    fn least_equal(&self, distance: i32) -> i32 {
        let least = self.demand.least_equal;
        let is_far = self.limits.far.is_some_and(|far| distance > far) || self.demand.dominated > 1;
        if is_far { least.max(self.demand.far_equal) } else { least }
    }

    fn equal(&self) -> u32 {
        let words = self.limits.value_words();
        equal_values(&self.article.1[..words], &self.entry.1[..words])
    }

    fn forms(&self) -> Forms {
        if self.limits.scheme.form_bytes == 0 {
            return Forms::None;
        }
        let [one, other] = [self.article.1, self.entry.1].map(|sketch| sketch[self.limits.value_words()]);
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
    /// An article whose entry has this status, scope hash, signature, margins and sketch, which was logged at a time when
    /// there were the document numbers before one.
    #[must_use]
    pub fn new(
        limits: &Limits,
        (status, scope_hash): (u8, u64),
        [signature, margins, sketch]: [&[u8]; 3],
        (before, time): (u64, i64),
    ) -> Self {
        let demand = limits.demand(status, limits.dominated(status, margins));
        let mut sieves = [Sieve { sure: [u64::MAX, 0], most: limits.sieve(demand) }; WORDS];
        sieves.iter_mut().zip(limits.masks(margins)).for_each(|(sieve, masks)| sieve.sure = masks);
        let (mut words, mut sketched) = ([0; WORDS], [0; SKETCH_WORDS]);
        words.iter_mut().zip(words_of(signature)).for_each(|(word, stored)| *word = stored.swap_bytes());
        sketched.iter_mut().zip(words_of(sketch)).for_each(|(word, stored)| *word = stored);
        Self {
            keys: std::array::from_fn(|word| words[word] ^ scope_hash.wrapping_mul(KEY_FACTORS[word])),
            words,
            sketch: sketched,
            sieves,
            demand,
            scope_hash,
            oldest: limits.window_ms.map_or(i64::MIN, |window| time - window),
            own_id: None,
            before,
        }
    }
}

/// The distances of the rows that are near an article. The memory of all is waited for together: first the signatures,
/// then the sketches of those within reach.
#[cfg_attr(
    avx512,
    multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+popcnt", "x86_64+avx2+popcnt"))
)]
#[cfg_attr(not(avx512), multiversion(targets("x86_64+avx2+popcnt")))]
pub fn near_rows<'r>(article: &Article, rows: &[Row<'r>], limits: &Limits) -> Vec<Option<u32>> {
    let pair = |row: &Row<'r>| Pair {
        article: (&article.words, &article.sketch),
        entry: (row.signature(), row.sketch()),
        demand: article.demand,
        limits,
    };
    let distances: Vec<_> = rows.iter().map(|row| pair(row).distance()).collect();
    let within = rows.iter().zip(&distances).filter(|(_, distance)| **distance as i32 <= article.demand.reach);
    std::hint::black_box(within.fold(0, |touched, (row, _)| touched ^ row.touched()));
    let near = |(row, distance): (&Row<'r>, u32)| pair(row).is_near(distance).then_some(distance);
    rows.iter().zip(distances).map(near).collect()
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
