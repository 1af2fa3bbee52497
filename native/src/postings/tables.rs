//! All tables and rows of an index: where their entries are, and what is in memory.
//!
//! New entries are [`super::unfolded`]. As soon as there are enough of them they are **folded**: they become a run, which
//! is stored. Runs of about one size are merged, so a table has a few runs, each several times as large as the next one,
//! and an entry is copied a logarithm of times.
//!
//! The owner stores. It gets the chunks, directories and names of runs as [`Work`], and keeps this order:
//!
//! 1. The rows of the entries are stored.
//! 2. The chunks of a run are stored, in as many writes as it likes.
//! 3. One write names the run, with its directory, and removes those that it takes the place of.
//!
//! If writes are lost from some point on, what is named is whole, and its entries have rows. What is stored and not
//! named belongs to nobody.

use std::ops::Range;

use super::cache::Cache;
use super::chunk::{Blocks, Damage, Entry, Key, Shape};
use super::merge::{Merge, Step};
use super::near::WORDS;
use super::rows::{Row, Rows};
use super::run::Run;
use super::unfolded::Unfolded;

/// A run is merged into the one before it when it has at least one entry for so many of that one.
const FANOUT: u64 = 8;
/// Entries that the merges of a table take, on average, for one that is appended: more than the twenty copies of an entry
/// that an index of a billion needs, so that a large merge is over soon, and what it makes is stored together.
const PACE: usize = 64;
/// Factor of the scope hash for each key word: odd, so no two hashes give the same product, and different, so hashes
/// that collide in a block of one word do not collide in the others (the primes of XXH64).
pub const KEY_FACTORS: [u64; WORDS] = [1, 0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9];
/// Most tables of an index.
pub const MOST_TABLES: usize = 16;

/// What the owner has to do.
#[derive(Default)]
pub struct Work {
    /// Chunks to fetch and supply before merges go on.
    pub missing: Vec<Key>,
    /// Chunks to store.
    pub chunks: Vec<(Key, Vec<u8>)>,
    /// Directories of runs whose chunks are all stored, by the number of the run.
    pub named: Vec<(u32, Vec<u8>)>,
    /// Runs to remove with what names these.
    pub removed: Vec<u32>,
}

/// All tables and rows of an index.
pub struct Tables {
    /// Of each table the runs, oldest first.
    pub runs: Vec<Vec<Run>>,
    /// Of each table the entries that are in no run yet.
    pub unfolded: Vec<Unfolded>,
    /// The chunks of runs and rows that are in memory.
    pub cache: Cache,
    rows: Rows,
    /// The merge that is under way.
    merge: Option<Merge>,
    /// Entries that it has still to take.
    owed: usize,
    /// Of each table the blocks that it is sorted by.
    blocks: Vec<Blocks>,
    /// How the chunks of runs lie in memory.
    shape: Shape,
    /// Entries of a table that become a run.
    fold: u64,
    /// Number of the next stored run.
    next_stored: u32,
    families: u32,
    /// Document number of the first entry that counts.
    first: u64,
    /// A count that differs where runs were added, merged or dropped in between.
    pub changes: u64,
    /// What [`Tables::take_work`] gives next.
    work: Work,
}

impl Tables {
    /// Tables without entries, whose runs have chunks of this shape. Runs to store are numbered from a number on that
    /// none has had; the storage keeps them apart in so many families, by the remainder of their numbers.
    #[must_use]
    pub fn new(
        blocks: Vec<Blocks>,
        rows: Rows,
        budget: usize,
        fold: u64,
        shape: Shape,
        (next_stored, families): (u32, u32),
    ) -> Self {
        Self {
            runs: blocks.iter().map(|_| Vec::new()).collect(),
            unfolded: blocks.iter().map(|blocks| Unfolded::new(*blocks, fold)).collect(),
            cache: Cache::new(budget, shape.words().max(rows.chunk_words())),
            rows,
            merge: None,
            owed: 0,
            blocks,
            shape,
            fold: fold.max(1),
            next_stored,
            families: families.max(1),
            first: 0,
            changes: 0,
            work: Work::default(),
        }
    }

    /// A number for a run to store: of a family without runs, if there is one.
    fn take_number(&mut self) -> u32 {
        let made = self.merge.iter().map(|merge| &merge.made);
        let used: Vec<_> = self.runs.iter().flatten().chain(made).map(|run| run.id % self.families).collect();
        let next = self.next_stored;
        let number = (next..next + self.families).find(|number| !used.contains(&(number % self.families)));
        let number = number.unwrap_or(next);
        self.next_stored = number + 1;
        number
    }

    /// Take a stored run, the oldest of each table first.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the directory is none of these tables, or does not go on where the last run ends.
    pub fn open_run(&mut self, id: u32, directory: &[u8]) -> Result<(), Damage> {
        let run = Run::from_directory(id, directory)?;
        let (table, before) = (usize::from(run.blocks.table), run.before);
        if self.blocks.get(table) != Some(&run.blocks) || self.end_of(table) >= before || before > self.rows.after() {
            return Err(Damage(format!("run {id} of {:?} before {before} is out of place", run.blocks)));
        }
        if !self.cache.fits(run.shape.words()) {
            return Err(Damage(format!("run {id} has chunks of {} entries", run.shape.entries)));
        }
        self.next_stored = self.next_stored.max(id + 1);
        self.changes += 1;
        self.runs[table].push(run);
        Ok(())
    }

    /// The document number from which on a table's entries are in no run.
    #[must_use]
    pub fn end_of(&self, table: usize) -> u64 {
        self.runs[table].last().map_or(0, |run| run.before)
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.cache.memory() + self.unfolded.iter().map(Unfolded::memory).sum::<usize>()
    }

    /// Bits of a block.
    #[must_use]
    pub fn block_bits(&self) -> u8 {
        self.blocks[0].bits
    }

    /// The document numbers of the entries.
    #[must_use]
    pub fn numbers(&self) -> Range<u64> {
        self.first..self.rows.after()
    }

    /// The chunks of some rows that are to be supplied first. This is a use of them.
    #[must_use]
    pub fn missing_rows(&self, numbers: impl Iterator<Item = u64>) -> Vec<Key> {
        self.rows.missing(numbers, &self.cache)
    }

    /// A row; it must not be missing.
    #[must_use]
    pub fn row(&self, number: u64) -> Row<'_> {
        self.rows.row(number, &self.cache)
    }

    /// The runs that have the parts of a table's posting list of a block, the newest first.
    pub fn parts(&self, table: usize, block: u32) -> impl Iterator<Item = &Run> {
        let parts = self.runs[table].iter().rev().filter_map(move |run| match self.merge_of(run, block) {
            Some(merge) => (merge.newer == run.id).then_some(&merge.made),
            None => Some(run),
        });
        parts.filter(move |part| part.may_have(block))
    }

    /// Something of what the filters of a table say of a block.
    #[must_use]
    pub fn filters(&self, table: usize, block: u32) -> u64 {
        let unfolded = self.unfolded[table].filter().word(block);
        self.runs[table].iter().fold(unfolded, |some, run| some ^ run.filter_word(block))
    }

    /// The merge whose new run has the entries of a block that a run has.
    fn merge_of(&self, run: &Run, block: u32) -> Option<&Merge> {
        self.merge.as_ref().filter(|merge| merge.is_of(run) && block < merge.frontier())
    }

    /// Append the entries of the next rows, and go on with merges; then there may be work.
    pub fn append(&mut self, rows: &[u64], row_words: usize) {
        let first = self.rows.after();
        self.rows.append(rows, &mut self.cache);
        for table in 0..self.blocks.len() {
            self.append_to(table, first, rows, row_words);
            // Tables fold one after the other: storing a run of each at once takes too long.
            self.fold(table, self.fold - table as u64 * self.fold / (4 * self.blocks.len() as u64));
        }
        self.go_on(rows.len() / row_words);
        self.cache.evict();
    }

    /// Append to the tables what rows have that are stored already: after opening, perhaps to read alone, so that nothing
    /// is folded. Rows that a table has are passed by.
    pub fn append_missing(&mut self, first: u64, rows: &[u64], row_words: usize) {
        for table in 0..self.blocks.len() {
            let skipped = (self.end_of(table).saturating_sub(first) as usize * row_words).min(rows.len());
            self.append_to(table, first + (skipped / row_words) as u64, &rows[skipped..], row_words);
        }
    }

    /// Let merges take some entries for each one that was appended.
    pub fn go_on(&mut self, appended: usize) {
        self.owed += appended * PACE * self.blocks.len();
        self.advance();
    }

    /// Take what is to be done. Where chunks are missing, supply them, and call [`Tables::go_on`] with 0.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// Forget entries before a document number. In runs they are hidden until these are merged.
    pub fn drop_before(&mut self, number: u64) {
        (self.first, self.changes) = (number, self.changes + 1);
        self.rows.drop_before(number, &mut self.cache);
        for table in 0..self.blocks.len() {
            if self.rows.after() <= number {
                self.unfolded[table].clear();
            }
            let count = self.runs[table].partition_point(|run| run.before <= number);
            let gone: Vec<_> = self.runs[table].drain(..count).collect();
            if let Some(merge) = self.merge.take_if(|merge| gone.iter().any(|run| merge.is_of(run))) {
                self.work.chunks.retain(|(key, _)| !matches!(key, Key::List(id, _) if *id == merge.made.id));
                self.remove(&merge.made);
            }
            for run in gone {
                self.remove(&run);
            }
        }
    }

    /// Take stored bytes. Those of a run or of rows that are gone, or of a chunk that is here, are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where they are not what the key says.
    pub fn supply(&mut self, key: Key, bytes: &[u8]) -> Result<(), Damage> {
        let Self { runs, merge, rows, cache, .. } = self;
        match key {
            Key::Rows(chunk) => rows.supply(chunk, bytes, cache),
            Key::List(id, chunk) => {
                let mut runs = runs.iter_mut().flatten().chain(merge.as_mut().map(|merge| &mut merge.made));
                let run = runs.find(|run| run.id == id);
                run.map_or(Ok(()), |run| run.supply(chunk, bytes, cache))
            }
        }
    }

    /// Chunks that are not in memory and for which there is room, at most so many: lists first, then rows.
    #[must_use]
    pub fn cold(&self, most: usize) -> Vec<Key> {
        let cache = &self.cache;
        let lists = self.runs.iter().flatten().flat_map(|run| run.cold(0..run.places.len(), cache));
        lists.chain(self.rows.cold(cache)).take(most.min(cache.room())).collect()
    }

    fn append_to(&mut self, table: usize, first: u64, rows: &[u64], row_words: usize) {
        let word = self.blocks[table].word();
        let key = |row: &[u64]| row[word] ^ row[WORDS].wrapping_mul(KEY_FACTORS[word]);
        for (row, number) in rows.chunks_exact(row_words).zip(first..) {
            self.unfolded[table].add(Entry { key: key(row), number: number as u32 });
        }
        self.changes += 1;
    }

    /// Make a run of the unfolded entries of a table, if they are enough, or crowded.
    fn fold(&mut self, table: usize, least: u64) {
        let unfolded = &self.unfolded[table];
        if (unfolded.len() as u64) < least.max(1) && !unfolded.is_crowded() {
            return;
        }
        let entries: Vec<_> = self.unfolded[table].all().collect();
        self.unfolded[table].clear();
        let name = (self.take_number(), self.rows.after());
        let mut run = Run::new(self.blocks[table], name, entries.len() as u64, self.shape);
        self.work.chunks.extend(entries.chunks(self.shape.entries).map(|some| run.add(some, &mut self.cache)));
        let run = run.finish();
        self.work.named.push((run.id, run.directory()));
        self.runs[table].push(run);
    }

    /// Go on with what is due, as far as chunks are in memory and entries are owed.
    fn advance(&mut self) {
        self.changes += 1;
        while self.merge.is_some() || self.begin_merge() {
            if !self.step() {
                return;
            }
        }
        self.owed = 0;
    }

    /// Begin the smallest merge that is due; whether there is one. One is under way at a time, so that what it makes is
    /// stored together.
    fn begin_merge(&mut self) -> bool {
        let due = (0..self.runs.len()).flat_map(|table| self.due(table));
        let Some((_, table, at)) = due.min_by_key(|&(entries, ..)| entries) else { return false };
        let id = self.take_number();
        let [older, newer] = [&self.runs[table][at], &self.runs[table][at + 1]];
        self.merge = Some(Merge::new([older, newer], id, self.first, self.shape));
        true
    }

    /// The merges of a table that are due: entries, table, and the place of the older run.
    fn due(&self, table: usize) -> impl Iterator<Item = (u64, usize, usize)> {
        let pairs = self.runs[table].windows(2).enumerate();
        let due = pairs.filter(|(_, pair)| pair[1].entries * FANOUT >= pair[0].entries);
        due.map(move |(at, pair)| (pair[0].entries + pair[1].entries, table, at))
    }

    /// Go on with the merge that is under way; whether it is done.
    fn step(&mut self) -> bool {
        let Some(merge) = &mut self.merge else { return false };
        let runs = &mut self.runs[usize::from(merge.made.blocks.table)];
        let at = runs.iter().position(|run| run.id == merge.older).expect("a run of its table");
        let pair = [&runs[at], &runs[at + 1]];
        let step = merge.step(pair, &mut self.owed, &mut self.cache, &mut self.work.chunks);
        // Look-ups still need the chunks of a long list when the merge has taken their entries.
        self.cache.evict();
        match step {
            Step::Paused => return false,
            Step::Missing => {
                self.work.missing.extend(merge.missing(pair, &self.cache));
                return false;
            }
            Step::Done => {}
        }
        let gone: Vec<_> = runs.drain(at..at + 2).collect();
        let made = self.merge.take().map(|merge| merge.made).filter(|made| !made.places.is_empty());
        if let Some(made) = made.map(Run::finish) {
            self.work.named.push((made.id, made.directory()));
            runs.insert(at, made);
        }
        for run in gone {
            self.remove(&run);
        }
        true
    }

    fn remove(&mut self, run: &Run) {
        run.places.iter().for_each(|place| self.cache.remove(*place));
        self.work.removed.push(run.id);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::postings::cache::memory_of;
    use crate::postings::near::{Article, Limits, Widths};
    use crate::postings::plan::WORD_BITS;
    use crate::postings::rows::ROW_WORDS;
    use crate::postings::search::{Search, Terms};

    const ROWS: usize = 4;
    const BLOCKS: [Blocks; 2] = [Blocks { table: 0, bits: 16 }, Blocks { table: 1, bits: 16 }];
    const FOLD: u64 = 40;
    const BEST: usize = 5000;

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// Tables, and what their owner has stored. The first word of a row is all that differs.
    struct Owner {
        tables: Tables,
        words: Vec<u64>,
        chunks: BTreeMap<Key, Vec<u8>>,
        directories: BTreeMap<u32, Vec<u8>>,
        candidates: Option<usize>,
        budget: usize,
    }

    impl Owner {
        fn new(budget: usize, fold: u64) -> Self {
            let tables = Self::tables(budget, fold, (0, 0), Vec::new());
            let (chunks, directories) = (BTreeMap::new(), BTreeMap::new());
            Self { tables, words: Vec::new(), chunks, directories, candidates: None, budget }
        }

        fn tables(budget: usize, fold: u64, ends: (u64, u64), tail: Vec<u64>) -> Tables {
            Tables::new(BLOCKS.to_vec(), Rows::stored(ROW_WORDS, ROWS, ends, tail), budget, fold, Shape::of(4), (0, 16))
        }

        fn row(word: u64) -> [u64; ROW_WORDS] {
            std::array::from_fn(|at| if at == 0 { word } else { 0 })
        }

        fn append(&mut self, words: &[u64]) {
            self.words.extend(words);
            let rows: Vec<_> = words.iter().flat_map(|word| Self::row(*word)).collect();
            self.tables.append(&rows, ROW_WORDS);
            self.work();
        }

        fn drop_before(&mut self, number: u64) {
            self.tables.drop_before(number);
            self.work();
        }

        fn work(&mut self) {
            loop {
                let work = self.tables.take_work();
                self.chunks.extend(work.chunks);
                self.directories.extend(work.named);
                for id in work.removed {
                    self.chunks.retain(|key, _| !matches!(key, Key::List(run, _) if *run == id));
                    self.directories.remove(&id);
                }
                self.check();
                if work.missing.is_empty() {
                    return;
                }
                self.supply(&work.missing);
                self.tables.go_on(0);
            }
        }

        fn supply(&mut self, keys: &[Key]) {
            for key in keys {
                let bytes = match key {
                    Key::List(..) => self.chunks[key].clone(),
                    Key::Rows(chunk) => {
                        let words = &self.words[*chunk as usize * ROWS..][..ROWS];
                        words.iter().flat_map(|word| Self::row(*word)).flat_map(u64::to_le_bytes).collect()
                    }
                };
                self.tables.supply(*key, &bytes).expect("what was stored");
            }
        }

        /// Every chunk in the cache has one owner, and they are within the budget, whatever merges have read.
        fn check(&self) {
            let Tables { runs, merge, rows, cache, .. } = &self.tables;
            let runs = runs.iter().flatten().chain(merge.iter().map(|merge| &merge.made));
            let lists = runs.flat_map(|run| &run.places).filter(|place| cache.has(**place)).count();
            let held = lists + rows.held(cache);
            assert_eq!(cache.held(), held);
            assert!(held * memory_of(rows.chunk_words()) <= self.budget, "bytes of the budget");
        }

        /// What is near a word, looked up while `meanwhile` happens wherever chunks are missing; and what should be.
        fn near(
            &mut self,
            word: u64,
            bucket_limit: usize,
            mut meanwhile: impl FnMut(&mut Self, &[Key]),
        ) -> [Vec<u64>; 2] {
            let (numbers, limits) = (self.tables.numbers(), self.limits(bucket_limit));
            let signature = Self::row(word).map(u64::to_be_bytes);
            let columns = [signature[..WORDS].as_flattened(), &[0; 8 * BLOCKS.len()][..], &[]];
            let article = Article::new(&limits, (0, 0), columns, (numbers.end, 0));
            let plan = vec![0, 1 << 16];
            let terms = Terms { plan, lookups: 2, limits: Arc::new(limits), best: BEST, withdrawn: Vec::new() };
            let mut search = Search::new(vec![article; 2], terms);
            loop {
                let missing = search.run(&mut self.tables);
                if missing.is_empty() {
                    break;
                }
                meanwhile(self, &missing);
                self.supply(&missing.into_iter().filter(|key| self.is_stored(key)).collect::<Vec<_>>());
            }
            let mut expected: Vec<u64> = Vec::new();
            for blocks in BLOCKS {
                let numbers = numbers.clone().rev();
                let list = numbers.filter(|number| blocks.of(self.words[*number as usize]) == blocks.of(word));
                let ranks =
                    list.map(|number| u64::from((self.words[number as usize] ^ word).count_ones()) << 32 | number);
                expected.extend(ranks.take(bucket_limit));
            }
            expected.sort_unstable();
            expected.dedup();
            expected.truncate(BEST);
            let of_article = |number| {
                let near = search.near().filter(move |(article, ..)| *article == number);
                near.map(|(_, number, distance)| u64::from(distance) << 32 | u64::from(number)).collect::<Vec<_>>()
            };
            assert_eq!(of_article(0), of_article(1));
            [of_article(1), expected]
        }

        /// Exact search: whatever a list has is near.
        fn limits(&self, bucket_limit: usize) -> Limits {
            let scheme = Widths { tables: BLOCKS.len(), block_bits: 16, ..Widths::default() };
            let (distance, candidates) = (Some(WORD_BITS as i32), self.candidates);
            Limits { scheme, distance, bucket_limit, candidates, ..Limits::default() }
        }

        fn is_stored(&self, key: &Key) -> bool {
            matches!(key, Key::Rows(_)) || self.chunks.contains_key(key)
        }

        /// Tables as they are after a new start.
        fn reopen(&mut self, budget: usize) {
            let Range { start: first, end: after } = self.tables.numbers();
            let rows: Vec<_> = self.words.iter().flat_map(|word| Self::row(*word)).collect();
            let tail = rows[after as usize / ROWS * ROWS * ROW_WORDS..].to_vec();
            let named: Vec<_> = self.tables.runs.iter().flatten().map(|run| run.id).collect();
            (self.tables, self.budget) = (Self::tables(budget, FOLD, (first, after), tail), budget);
            self.tables.drop_before(first);
            for id in named {
                self.tables.open_run(id, &self.directories[&id]).expect("a directory");
            }
            let begin = (0..BLOCKS.len()).map(|table| self.tables.end_of(table)).min().expect("two tables").max(first);
            self.tables.append_missing(begin, &rows[begin as usize * ROW_WORDS..], ROW_WORDS);
            let is_of = |key: &Key| !matches!(key, Key::List(id, _) if !named_has(&self.tables, *id));
            self.chunks.retain(|key, _| is_of(key));
        }
    }

    fn named_has(tables: &Tables, id: u32) -> bool {
        tables.runs.iter().flatten().any(|run| run.id == id)
    }

    #[test]
    fn entries_are_found_whatever_is_in_memory_and_whatever_happens_meanwhile() {
        for (seed, budget) in [(1, 0), (2, 3000), (3, 20_000), (4, 1 << 30)] {
            let (mut owner, mut state) = (Owner::new(budget, FOLD), seed);
            for turn in 0..120 {
                let kinds = [random(&mut state, 1 << 16), 7, 7, 8];
                let mut word = || {
                    let kind = kinds[random(&mut state, 4) as usize];
                    kind << 48 | random(&mut state, 3) << 32 | random(&mut state, 1 << 20)
                };
                let words: Vec<_> = (0..=turn % 60).map(|_| word()).collect();
                let (asked, later) = (word(), [0; 31].map(|_| word()));
                owner.append(&words);
                let families: Vec<_> = owner.tables.runs.iter().flatten().map(|run| run.id % 16).collect();
                let is_shared = |family: &u32| families.iter().filter(|other| *other == family).count() > 1;
                assert!(families.len() > 16 || !families.iter().any(is_shared), "{families:?}");
                let limit = if turn % 3 == 0 { 9 } else { usize::MAX };
                if turn % 10 == 9 {
                    let Range { start, end } = owner.tables.numbers();
                    owner.drop_before(start + (end - start) / 5);
                }
                let mut times = 0;
                let [found, expected] = owner.near(asked, limit, |owner, _| {
                    times += 1;
                    if times % 2 == 0 && times < 8 {
                        owner.append(&later);
                    }
                });
                assert_eq!(found, expected, "seed {seed}, turn {turn}");
                assert!(budget > 0 || turn < 2 || times > 0, "nothing was fetched");
                if turn % 25 == 24 {
                    owner.reopen(budget);
                    owner.check();
                }
            }
            assert!(owner.tables.runs.iter().all(|runs| (1..40).contains(&runs.len())));
            owner.reopen(budget);
            let mut warmed = 0;
            loop {
                let cold = owner.tables.cold(3);
                if cold.is_empty() {
                    break;
                }
                warmed += cold.len();
                owner.supply(&cold);
                owner.check();
            }
            let room = owner.tables.cache.room();
            owner.tables.cache.evict();
            assert_eq!(owner.tables.cache.room(), room, "no more was warmed than there was room for");
            assert_eq!(warmed > 0, budget > 0, "{warmed} chunks");
        }
    }

    #[test]
    fn a_search_whose_tables_change_looks_its_article_up_again() {
        let mut owner = Owner { candidates: Some(700), ..Owner::new(0, 1) };
        for number in 0..600 {
            let word = 7 << 48 | number;
            owner.words.push(word);
            // Each is a run: without what they miss, merges do not go on.
            owner.tables.append(&Owner::row(word), ROW_WORDS);
        }
        owner.chunks.extend(owner.tables.take_work().chunks);
        assert_eq!(owner.tables.runs[0].len(), 600);
        let [found, expected] = owner.near(7 << 48, usize::MAX, |owner, missing| {
            if matches!(missing[0], Key::Rows(_)) && owner.tables.runs[0].len() == 600 {
                owner.tables.go_on(0);
                owner.work();
            }
        });
        assert!(owner.tables.runs[0].len() < 10);
        assert_eq!((found.len(), found), (600, expected));
    }

    #[test]
    fn lists_are_compared_on_from_where_a_bound_ended_the_comparison() {
        let mut owner = Owner { candidates: Some(300), ..Owner::new(usize::MAX, FOLD) };
        // The first list has the even ones, the second one all of them: those of both count once, so that the bound of
        // 300 that pass is reached within the second list, before 300 have counted.
        let words: Vec<_> = (0..400).map(|number| (7 + number % 2) << 48 | number).collect();
        words.chunks(8).for_each(|words| owner.append(words));
        let [found, _] = owner.near(7 << 48, usize::MAX, |_, _| ());
        let mut numbers: Vec<_> = found.iter().map(|rank| rank & 0xFFFF_FFFF).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = (0..400).filter(|number| number % 2 == 0 || *number >= 200).collect();
        assert_eq!(numbers, expected, "all of the first list, and the newest of the second one");
    }

    #[test]
    fn what_was_found_before_the_tables_changed_is_not_of_the_answer() {
        let mut owner = Owner { candidates: Some(300), ..Owner::new(0, FOLD) };
        // The first list has 256 entries, which are checked at once; the other one has the rest.
        let words: Vec<_> = (0..456).map(|number| if number < 256 { 7 << 48 | 1 << 32 } else { 8 << 48 }).collect();
        words.chunks(8).for_each(|words| owner.append(words));
        let mut times = 0;
        let [found, _] = owner.near(7 << 48, usize::MAX, |owner, missing| {
            times += usize::from(matches!(missing[0], Key::Rows(_)));
            if times == 2 && owner.tables.numbers().start == 0 {
                owner.drop_before(100);
            }
        });
        assert!(owner.tables.numbers().start == 100, "nothing was fetched between two checks");
        let numbers: Vec<_> = found.iter().map(|rank| rank & 0xFFFF_FFFF).collect();
        assert_eq!(numbers.len(), 300);
        assert!(numbers.iter().all(|number| *number >= 100));
    }
}
