//! The search: the near entries of a batch of articles, in the posting lists of the block tables.
//!
//! Of each posting list of an article's plan the entries from before it are compared, the newest `bucket_limit` of them.
//! Of those that pass the sieve, that are not trimmed, whose scope hash is the article's, that have not expired and that
//! no earlier record withdrew, the first `candidates` are checked: the look-ups in the order of the plan, in each list
//! the newest first, an entry once, where it is found first. Of those that are near, each article gets the nearest,
//! among equals the earliest.
//!
//! Some look-ups at a time: their lists are found, then their keys are compared, then the rows of those that pass are
//! checked. Each of these reads much memory that is in no cache of the processor, so it is read for all before any of
//! it is needed.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashTable, hash_table};
use multiversion::multiversion;

use super::chunk::{Blocks, Chunk, Damage, Key, LANES, Storage};
use super::near::{Article, Limits, near_rows};
use super::rows::Row;
use super::tables::{KEY_FACTORS, MOST_TABLES, Tables};

/// Look-ups of an article whose lists are found before the first of them is compared. They are few, as the bound on
/// candidates is often reached by these, and then twice as many each time. A chunk that is missing is read for a step.
const FIRST_LOOKUPS: usize = 4;
/// The most of them: what stays in the processor's first cache.
const LOOKUPS_AT_ONCE: usize = 64;
/// Candidates whose rows are read before the first of them is checked.
const ROWS_AT_ONCE: usize = 256;
/// Bits of a rank below the distance: the document number.
const DISTANCE_SHIFT: u32 = 32;
/// Rank of no entry: greater than every other.
const NO_RANK: u64 = u64::MAX;

/// What is looked up, beside the articles.
pub struct Terms {
    /// Look-ups of each article, or of all of them, one plan after the other.
    pub plan: Vec<u32>,
    /// Look-ups of a plan.
    pub lookups: usize,
    /// What an entry must have to be near.
    pub limits: Arc<Limits>,
    /// Near entries given of each article.
    pub best: usize,
    /// The withdrawn entries, by rising document number, and the first document number that each is hidden from.
    pub withdrawn: Vec<(u64, u64)>,
}

/// An entry that passed the sieve, and the distance of its key.
#[derive(Clone, Copy)]
struct Candidate {
    number: u32,
    distance: u32,
}

/// A part of a posting list, in one chunk.
struct Span<'a> {
    chunk: Chunk<'a>,
    block: u32,
    begin: u32,
    end: u32,
    table: u8,
    /// Its look-up, among those that are compared together.
    lookup: u8,
    /// Whether it may have entries that are not from before the article.
    may_be_later: bool,
}

/// A search.
pub struct Search {
    terms: Terms,
    /// Number of the article that is looked up; none before the first.
    pub article: Option<usize>,
    /// Candidates that are left to check.
    room: usize,
    /// Document numbers that were counted for the article.
    seen: HashTable<u32>,
    /// The ranks of the nearest entries of the article: distance, then document number.
    best: Vec<u64>,
    /// The near entries: article, document number, distance; by article, then nearest, then earliest.
    pub near: Vec<(usize, u32, u32)>,
    /// Entries that were compared.
    pub compared: usize,
}

impl Search {
    /// A search that has not begun.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let best = vec![NO_RANK; terms.best];
        Self { terms, article: None, room: 0, seen: HashTable::new(), best, near: Vec::new(), compared: 0 }
    }

    /// Look some articles up.
    ///
    /// # Errors
    ///
    /// [`Damage`] where a chunk cannot be read.
    pub fn run(&mut self, articles: &[Article], tables: &mut Tables, storage: &mut impl Storage) -> Result<(), Damage> {
        for (at, article) in articles.iter().enumerate() {
            self.article = Some(at);
            self.look_up(at, article, tables, storage)?;
            let near = self.best.iter().filter(|&&rank| rank != NO_RANK);
            self.near.extend(near.map(|&rank| (at, rank as u32, (rank >> DISTANCE_SHIFT) as u32)));
        }
        Ok(())
    }

    fn look_up(
        &mut self,
        at: usize,
        article: &Article,
        tables: &mut Tables,
        storage: &mut impl Storage,
    ) -> Result<(), Damage> {
        let lookups = self.terms.lookups;
        let first = if self.terms.plan.len() == lookups { 0 } else { at * lookups };
        self.best.fill(NO_RANK);
        self.room = self.terms.limits.candidates.unwrap_or(usize::MAX);
        self.seen.clear();
        let (mut begin, end, mut at_once) = (first, first + lookups, FIRST_LOOKUPS);
        while begin < end && self.room > 0 {
            let some = begin..(begin + at_once).min(end);
            (begin, at_once) = (some.end, (2 * at_once).min(LOOKUPS_AT_ONCE));
            let mut span = Some(0);
            while let Some(next) = span.filter(|_| self.room > 0) {
                let passed;
                (passed, span) = self.compare(article, some.clone(), next, tables, storage)?;
                tables.cache.evict();
                self.check(article, &passed, tables, storage)?;
            }
        }
        Ok(())
    }

    /// Compare the lists of some look-ups from a span on, until [`ROWS_AT_ONCE`] entries have passed, and as many as
    /// there is room for; return what passed, and the next span, if there is one.
    fn compare(
        &mut self,
        article: &Article,
        lookups: Range<usize>,
        first: usize,
        tables: &mut Tables,
        storage: &mut impl Storage,
    ) -> Result<(Vec<Candidate>, Option<usize>), Damage> {
        let (lookups, most) = (&self.terms.plan[lookups], self.terms.limits.bucket_limit);
        let mut spans = match spans_of(tables, article, lookups, most) {
            Ok(spans) => spans,
            Err(missing) => {
                tables.fetch(&missing, storage)?;
                spans_of(tables, article, lookups, most).expect("chunks that were fetched")
            }
        };
        for span in &mut spans {
            let (begin, end) = span.chunk.bucket(span.block);
            (span.begin, span.end) = (begin as u32, end as u32);
        }
        let bits = tables.block_bits();
        limit(&mut spans, bits, article.before, most);
        spans.retain(|span| span.begin < span.end);
        // A key of every line of the processor's cache.
        let touched = spans.iter().fold(0, |touched, span| {
            let keys = &span.chunk.keys()[span.begin as usize..span.end as usize];
            keys.iter().step_by(LANES).chain(keys.last()).fold(touched, |one, other| one ^ other)
        });
        std::hint::black_box(touched);
        let mut found = Vec::with_capacity(ROWS_AT_ONCE);
        let (next, compared) = sift(&spans, first, bits, article, self.room.max(ROWS_AT_ONCE), &mut found);
        self.compared += compared;
        // Their numbers lie apart from the keys, and are read for all of them.
        let numbered = |(span, at, distance): (u32, u32, u16)| Candidate {
            number: spans[span as usize].chunk.number(at as usize),
            distance: distance.into(),
        };
        Ok((found.into_iter().map(numbered).collect(), Some(next).filter(|&next| next < spans.len())))
    }

    /// Check the entries that passed, some at a time, as long as there is room.
    fn check(
        &mut self,
        article: &Article,
        passed: &[Candidate],
        tables: &mut Tables,
        storage: &mut impl Storage,
    ) -> Result<(), Damage> {
        let numbers = tables.numbers().start..article.before;
        for some in passed.chunks(ROWS_AT_ONCE) {
            if self.room == 0 {
                return Ok(());
            }
            let last = self.best[self.terms.best - 1];
            let is_wanted = |one: &&Candidate| {
                // That over all words is no smaller, and exact search takes the first word alone: what is behind the last
                // of the best now cannot come before it.
                let could_be = self.terms.limits.candidates.is_some() || rank(one.distance, one.number) < last;
                could_be && numbers.contains(&one.number.into())
            };
            let wanted: Vec<_> = some.iter().filter(is_wanted).map(|one| one.number).collect();
            let rows = match tables.rows(wanted.iter().copied().map(u64::from)) {
                Ok(rows) => rows,
                Err(missing) => {
                    tables.fetch(&missing, storage)?;
                    tables.rows(wanted.iter().copied().map(u64::from)).expect("chunks that were fetched")
                }
            };
            let near = near_rows(article, &rows, &self.terms.limits);
            for ((number, row), distance) in wanted.into_iter().zip(rows).zip(near) {
                if let (true, Some(distance)) = (self.counts(article, number, row), distance) {
                    keep(&mut self.best, rank(distance, number));
                }
            }
            tables.cache.evict();
        }
        Ok(())
    }

    /// Count a candidate for an article, if it is one; whether it may be given.
    fn counts(&mut self, article: &Article, number: u32, row: Row<'_>) -> bool {
        self.room > 0
            && row.scope_hash() == article.scope_hash
            && row.time() >= article.oldest
            && !self.is_hidden(number.into(), article.before)
            && self.count_new(number)
            && article.own_id.is_none_or(|id| id == row.id_hash())
    }

    /// Whether an entry was withdrawn before an article was logged.
    fn is_hidden(&self, number: u64, before: u64) -> bool {
        let found = self.terms.withdrawn.binary_search_by_key(&number, |&(withdrawn, _)| withdrawn);
        found.is_ok_and(|at| self.terms.withdrawn[at].1 <= before)
    }

    /// Count a candidate where their number is bounded; whether it was not counted yet.
    fn count_new(&mut self, number: u32) -> bool {
        if self.terms.limits.candidates.is_none() {
            return true;
        }
        let hash = |number: &u32| u64::from(*number).wrapping_mul(KEY_FACTORS[1]);
        let hash_table::Entry::Vacant(vacant) = self.seen.entry(hash(&number), |seen| *seen == number, hash) else {
            return false;
        };
        vacant.insert(number);
        self.room -= 1;
        true
    }
}

impl Span<'_> {
    /// The entries of the list in its bucket.
    fn list(&self, bits: u8) -> (usize, usize) {
        let blocks = Blocks { table: self.table, bits };
        self.chunk.list(self.block, (self.begin as usize, self.end as usize), blocks)
    }
}

/// The parts of the lists of some look-ups, those of one list together, the newest first; or what is missing of them.
/// Of a list that has more entries than are compared, the older parts are left out as far as the directories tell.
fn spans_of<'a>(
    tables: &'a Tables,
    article: &Article,
    lookups: &[u32],
    limit: usize,
) -> Result<Vec<Span<'a>>, Vec<Key>> {
    let bits = tables.block_bits();
    let own: [u32; MOST_TABLES] = std::array::from_fn(|table| {
        let blocks = Blocks { table: table as u8, bits };
        blocks.of(article.keys[blocks.word()])
    });
    let block_of = |lookup: &u32| {
        let table = (lookup >> bits) as usize;
        (table, own[table] ^ lookup & ((1 << bits) - 1))
    };
    // What the filters say, and where each chunk is, is read for all of them before the first one is looked at.
    let touched =
        lookups.iter().map(block_of).fold(0, |touched, (table, block)| touched ^ tables.filters(table, block));
    std::hint::black_box(touched);
    let is_any_later = tables.numbers().end > article.before;
    let mut asked = Vec::with_capacity(4 * lookups.len());
    for (at, lookup) in lookups.iter().enumerate() {
        let (table, block) = block_of(lookup);
        let span = |chunk, may_be_later| {
            let (table, lookup) = (table as u8, at as u8);
            Span { chunk, block, begin: 0, end: 0, table, lookup, may_be_later }
        };
        let unfolded = &tables.unfolded[table];
        if unfolded.filter().has(block) {
            asked.push((span(unfolded.chunk(block), is_any_later), None));
        }
        let mut left = limit;
        for part in tables.parts(table, block) {
            let may_be_later = part.before > article.before;
            for chunk in part.chunks_of(block).rev() {
                if left == 0 {
                    break;
                }
                if !may_be_later {
                    left = left.saturating_sub(part.full_of(chunk, block));
                }
                asked.push((span(Chunk::whole(&[], &[]), may_be_later), Some((part, chunk, part.places[chunk]))));
            }
        }
    }
    let (mut spans, mut missing) = (Vec::with_capacity(asked.len()), Vec::new());
    for (mut span, chunk_of) in asked {
        if let Some((part, chunk, place)) = chunk_of {
            let Some(words) = tables.cache.get(place) else {
                missing.push(part.key(chunk));
                continue;
            };
            span.chunk = part.chunk_in(words, chunk);
        }
        spans.push(span);
    }
    if missing.is_empty() { Ok(spans) } else { Err(missing) }
}

/// Find the entries that pass the sieve, the newest of each list first: span, entry, distance of the key. Spans from a
/// number on are compared, until so many entries have passed; the number of the next span, and entries that were
/// compared.
#[cfg_attr(
    avx512,
    multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+popcnt", "x86_64+avx2+popcnt"))
)]
#[cfg_attr(not(avx512), multiversion(targets("x86_64+avx2+popcnt")))]
fn sift<'s>(
    spans: &[Span<'s>],
    first: usize,
    bits: u8,
    article: &Article,
    most: usize,
    found: &mut Vec<(u32, u32, u16)>,
) -> (usize, usize) {
    let mut compared = 0;
    for (at, span) in spans.iter().enumerate().skip(first) {
        if found.len() >= most {
            return (at, compared);
        }
        let blocks = Blocks { table: span.table, bits };
        let (mine, sieve) = (article.keys[blocks.word()], article.sieves[blocks.word()]);
        let (mask, own) = blocks.in_keys(span.block);
        let (begin, end) = (span.begin as usize, span.end as usize);
        let mut of_list = [0; LANES];
        for from in (begin..end).step_by(LANES).rev() {
            let keys = span.chunk.keys_from(from);
            // Of the next bucket, or of no entry.
            let beyond: [u64; LANES] = std::array::from_fn(|lane| u64::from(lane >= end - from));
            // 0 of what is of the list, and of what passes as well.
            let others: [u64; LANES] = std::array::from_fn(|lane| (keys[lane] & mask) ^ own | beyond[lane]);
            let excess = |key| sieve.excess(sieve.count(key, mine));
            let apart: [u64; LANES] = std::array::from_fn(|lane| others[lane] | excess(keys[lane]));
            for (count, other) in of_list.iter_mut().zip(others) {
                *count += usize::from(other == 0);
            }
            if apart.iter().fold(0, |some, &apart| some | u8::from(apart == 0)) != 0 {
                for lane in (0..LANES).rev().filter(|&lane| apart[lane] == 0) {
                    found.push((at as u32, (from + lane) as u32, (keys[lane] ^ mine).count_ones() as u16));
                }
            }
        }
        compared += of_list.into_iter().sum::<usize>();
    }
    (spans.len(), compared)
}

/// Leave of each list the newest entries before an article; most lists have no more, and are not read for it.
fn limit(spans: &mut [Span<'_>], bits: u8, before: u64, most: usize) {
    let entries = |span: &Span| (span.end - span.begin) as usize;
    if spans.iter().map(entries).sum::<usize>() <= most {
        return;
    }
    for list in spans.chunk_by_mut(|one, other| one.lookup == other.lookup) {
        if list.iter().map(entries).sum::<usize>() <= most {
            continue;
        }
        let mut left = most;
        for span in list {
            let (begin, mut end) = span.list(bits);
            if span.may_be_later {
                end = begin + span.chunk.before((begin, end), before);
            }
            let begin = begin.max(end.saturating_sub(left));
            left -= end - begin;
            (span.begin, span.end) = (begin as u32, end as u32);
        }
    }
}

fn rank(distance: u32, number: u32) -> u64 {
    u64::from(distance) << DISTANCE_SHIFT | u64::from(number)
}

/// Insert a rank in order, unless it is there or greater than the last.
fn keep(best: &mut [u64], rank: u64) {
    match best.binary_search(&rank) {
        Err(at) if at < best.len() => {
            best[at..].rotate_right(1);
            best[at] = rank;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::{Entry, Shape, ends_of};
    use super::super::near::{Demand, Sieve};
    use super::*;

    #[test]
    fn as_many_parts_of_lists_as_there_are_are_told_apart() {
        let blocks = Blocks { table: 0, bits: 16 };
        let (entry, shape) = (Entry { key: 5, number: 1 }, Shape::of(1));
        let mut words = vec![0; shape.words()];
        shape.write(&[entry], blocks, &mut words);
        let chunk = Chunk::new(&words, shape, ends_of(&[entry], blocks));
        let span = || Span { chunk, block: 0, begin: 0, end: 1, table: 0, lookup: 0, may_be_later: false };
        let spans: Vec<_> = (0..=1 << 16).map(|_| span()).collect();
        let article = Article {
            keys: [4; 4],
            words: [0; 4],
            sketch: [0; 4],
            sieves: [Sieve { sure: [u64::MAX, 0], most: 1 }; 4],
            demand: Demand::default(),
            scope_hash: 0,
            oldest: 0,
            own_id: None,
            before: 2,
        };
        let mut found = Vec::new();
        assert_eq!(sift(&spans, 0, blocks.bits, &article, usize::MAX, &mut found), (spans.len(), spans.len()));
        assert_eq!(found.last(), Some(&(1 << 16, 0, 1)));
    }
}
