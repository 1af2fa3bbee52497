//! All tables and rows of an index: where their entries are, and what is in memory.
//!
//! New entries are [`super::unfolded`]. As soon as there are enough of them they are **folded**: they become a run, which
//! is stored. Runs of about one size are merged, so a table has a few runs, each several times as large as the next one,
//! and an entry is copied a logarithm of times.
//!
//! What is stored is stored in this order:
//!
//! 1. The rows of the entries, by the owner, before they are appended here.
//! 2. The chunks of a run ([`Storage::write`]), in several writes.
//! 3. One write names the run, with its directory, and removes those that it takes the place of ([`Storage::name`]).
//!
//! If writes are lost from some point on, what is named is whole, and its entries have rows. What is stored and not
//! named belongs to nobody. After an error of the storage the tables must not be changed any more; look-ups go on.

use std::ops::Range;

use super::cache::Cache;
use super::chunk::{Blocks, Damage, Entry, Key, Shape, Storage};
use super::merge::{Merge, WRITE_CHUNKS};
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
/// Rows of any document numbers that are in memory at once, whatever the budget: the cache keeps the memory of as many
/// chunks.
const ROWS_AT_ONCE: usize = 1024;
/// Odd, so that mixing loses nothing (the golden ratio's bits).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

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
}

impl Tables {
    /// Tables without entries, whose runs have chunks of this shape. Runs to store are numbered from a number on that
    /// none has had; the storage keeps them apart in so many families, by the remainder of their numbers.
    #[must_use]
    pub fn new(
        blocks: Vec<Blocks>,
        (rows, first): (Rows, u64),
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
            first,
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

    /// Some rows, or what is missing of them. This is a use of them.
    ///
    /// # Errors
    ///
    /// The keys of the chunks that are to be fetched first.
    pub fn rows(&self, numbers: impl Iterator<Item = u64>) -> Result<Vec<Row<'_>>, Vec<Key>> {
        self.rows.get(numbers, &self.cache)
    }

    /// The words of some rows, in this order.
    ///
    /// # Errors
    ///
    /// [`Damage`] where one of them cannot be read.
    pub fn rows_of(&mut self, numbers: &[u64], storage: &mut impl Storage) -> Result<Vec<u64>, Damage> {
        let mut words = Vec::new();
        for some in numbers.chunks(ROWS_AT_ONCE) {
            if let Err(missing) = self.rows(some.iter().copied()) {
                self.fetch(&missing, storage)?;
            }
            let rows = self.rows(some.iter().copied()).expect("chunks that were fetched");
            words.extend(rows.into_iter().flat_map(Row::words));
            self.cache.evict();
        }
        Ok(words)
    }

    /// The runs that may have parts of a table's posting list of a block, the newest first.
    pub fn parts(&self, table: usize, block: u32) -> impl Iterator<Item = &Run> {
        self.runs[table].iter().rev().filter(move |run| run.may_have(block))
    }

    /// Something of what the filters of a table say of a block.
    #[must_use]
    pub fn filters(&self, table: usize, block: u32) -> u64 {
        let unfolded = self.unfolded[table].filter().word(block);
        self.runs[table].iter().fold(unfolded, |some, run| some ^ run.filter_word(block))
    }

    /// Append the entries of the next rows, and go on with merges.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the storage fails.
    pub fn append(&mut self, rows: &[u64], storage: &mut impl Storage) -> Result<(), Damage> {
        let first = self.rows.after();
        self.rows.append(rows, &mut self.cache);
        (0..self.blocks.len()).for_each(|table| self.append_to(table, first, rows));
        for table in 0..self.blocks.len() {
            // Tables fold one after the other: storing a run of each at once takes too long.
            self.fold(table, self.fold - table as u64 * self.fold / (4 * self.blocks.len() as u64), storage)?;
        }
        self.go_on(rows.len() / self.rows.row_words(), storage)
    }

    /// Append to the tables what stored rows have that is in no run: after opening, perhaps to read alone, so that nothing
    /// is folded.
    ///
    /// # Errors
    ///
    /// [`Damage`] where a row cannot be read.
    pub fn append_missing(&mut self, storage: &mut impl Storage) -> Result<(), Damage> {
        let ends: Vec<_> = (0..self.blocks.len()).map(|table| self.end_of(table)).collect();
        let begin = ends.iter().copied().min().unwrap_or(0).max(self.first);
        let numbers: Vec<_> = (begin..self.rows.after()).collect();
        for some in numbers.chunks(ROWS_AT_ONCE) {
            let rows = self.rows_of(some, storage)?;
            for (table, end) in ends.iter().enumerate() {
                let skipped = some.partition_point(|number| number < end);
                if skipped < some.len() {
                    self.append_to(table, some[skipped], &rows[skipped * self.rows.row_words()..]);
                }
            }
        }
        Ok(())
    }

    /// Let merges take some entries for each one that was appended.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the storage fails.
    pub fn go_on(&mut self, appended: usize, storage: &mut impl Storage) -> Result<(), Damage> {
        self.owed += appended * PACE * self.blocks.len();
        while self.merge.is_some() || self.begin_merge() {
            if !self.step(storage)? {
                return Ok(());
            }
        }
        self.owed = 0;
        self.cache.evict();
        Ok(())
    }

    /// Forget entries before a document number. In runs they are hidden until these are merged.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the storage fails.
    pub fn drop_before(&mut self, number: u64, storage: &mut impl Storage) -> Result<(), Damage> {
        self.first = number;
        self.rows.drop_before(number, &mut self.cache);
        let mut gone = Vec::new();
        for (runs, unfolded) in self.runs.iter_mut().zip(&mut self.unfolded) {
            if self.rows.after() <= number {
                unfolded.clear();
            }
            gone.extend(runs.drain(..runs.partition_point(|run| run.before <= number)));
        }
        if let Some(merge) = self.merge.take_if(|merge| gone.iter().any(|run| run.id == merge.older)) {
            gone.push(merge.made);
        }
        if gone.is_empty() { Ok(()) } else { self.name(None, &gone, storage) }
    }

    /// Have some chunks in memory.
    ///
    /// # Errors
    ///
    /// [`Damage`] where one of them cannot be read.
    pub fn fetch(&mut self, keys: &[Key], storage: &mut impl Storage) -> Result<(), Damage> {
        if keys.is_empty() {
            return Ok(());
        }
        let values = storage.read(keys)?;
        keys.iter().zip(values).try_for_each(|(key, bytes)| self.supply(*key, &bytes))
    }

    /// Take stored bytes. Those of a run or of rows that are gone, or of a chunk that is here, are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where they are not what the key says.
    pub fn supply(&mut self, key: Key, bytes: &[u8]) -> Result<(), Damage> {
        let Self { runs, rows, cache, .. } = self;
        match key {
            Key::Rows(chunk) => rows.supply(chunk, bytes, cache),
            Key::List(id, chunk) => {
                let run = runs.iter_mut().flatten().find(|run| run.id == id);
                run.map_or(Ok(()), |run| run.supply(chunk as usize, bytes, cache))
            }
        }
    }

    /// Chunks that are not in memory and for which there is room, at most so many: lists first, then rows.
    #[must_use]
    pub fn cold(&self, most: usize) -> Vec<Key> {
        let lists = self.runs.iter().flatten().flat_map(|run| run.cold(&self.cache));
        lists.chain(self.rows.cold(&self.cache)).take(most.min(self.cache.room())).collect()
    }

    /// The number of entries of a table that are not trimmed, and a sum of them that depends on nothing else, from what
    /// is stored and what is in no run yet.
    ///
    /// # Errors
    ///
    /// [`Damage`] where a run is not what its directory says.
    pub fn sum(&self, table: usize, storage: &mut impl Storage) -> Result<(u64, u64), Damage> {
        let (mut total, mut begin) = ((0, 0), 0);
        for run in &self.runs[table] {
            let mut last = None;
            for at in 0..run.places.len() {
                let bytes = storage.read(&[run.key(at)])?.concat();
                for entry in run.read(at, &bytes)? {
                    let place = Some((run.blocks.of(entry.key), entry.number));
                    if !(begin..run.before).contains(&entry.number.into()) || last >= place {
                        return Err(Damage(format!("run {} of table {table}: its {entry:?} is out of place", run.id)));
                    }
                    last = place;
                    self.add(entry, &mut total);
                }
            }
            begin = run.before;
        }
        self.unfolded[table].all().for_each(|entry| self.add(entry, &mut total));
        Ok(total)
    }

    fn add(&self, Entry { key, number }: Entry, (count, sum): &mut (u64, u64)) {
        if u64::from(number) >= self.first {
            let mixed = key.wrapping_mul(MIX) ^ u64::from(number);
            *count += 1;
            *sum = sum.wrapping_add((mixed ^ mixed >> 29).wrapping_mul(MIX));
        }
    }

    fn append_to(&mut self, table: usize, first: u64, rows: &[u64]) {
        let word = self.blocks[table].word();
        let key = |row: &[u64]| row[word] ^ row[WORDS].wrapping_mul(KEY_FACTORS[word]);
        for (row, number) in rows.chunks_exact(self.rows.row_words()).zip(first..) {
            self.unfolded[table].add(Entry { key: key(row), number: number as u32 });
        }
    }

    /// Make a run of the unfolded entries of a table, if they are enough, or crowded.
    fn fold(&mut self, table: usize, least: u64, storage: &mut impl Storage) -> Result<(), Damage> {
        let unfolded = &self.unfolded[table];
        if (unfolded.len() as u64) < least.max(1) && !unfolded.is_crowded() {
            return Ok(());
        }
        let entries: Vec<_> = unfolded.all().collect();
        let name = (self.take_number(), self.rows.after());
        let mut run = Run::new(self.blocks[table], name, entries.len() as u64, self.shape);
        let chunks: Vec<_> = entries.chunks(self.shape.entries).map(|some| run.add(some, &mut self.cache)).collect();
        chunks.chunks(WRITE_CHUNKS).try_for_each(|some| storage.write(some))?;
        self.unfolded[table].clear();
        self.runs[table].push(run.finish());
        self.name(Some((table, self.runs[table].len() - 1)), &[], storage)
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
    fn step(&mut self, storage: &mut impl Storage) -> Result<bool, Damage> {
        let Some(merge) = &mut self.merge else { return Ok(false) };
        let table = usize::from(merge.made.blocks.table);
        let runs = &mut self.runs[table];
        let at = runs.iter().position(|run| run.id == merge.older).expect("a run of its table");
        let pair = [&runs[at], &runs[at + 1]];
        let is_done = merge.step(pair, &mut self.owed, &mut self.cache, storage)?;
        self.cache.evict();
        if is_done {
            let gone: Vec<_> = runs.drain(at..at + 2).collect();
            let made = self.merge.take().map(|merge| merge.made).filter(|made| !made.places.is_empty());
            let named = made.map(|made| {
                runs.insert(at, made.finish());
                (table, at)
            });
            self.name(named, &gone, storage)?;
        }
        Ok(is_done)
    }

    /// Name a run, by its table and place there, and remove others.
    fn name(&mut self, named: Option<(usize, usize)>, gone: &[Run], storage: &mut impl Storage) -> Result<(), Damage> {
        gone.iter().flat_map(|run| &run.places).for_each(|place| self.cache.remove(*place));
        let removed: Vec<_> = gone.iter().map(|run| run.id).collect();
        let left: Vec<_> = self.runs.iter().flatten().map(|run| run.id).collect();
        let named = named.map(|(table, at)| &self.runs[table][at]);
        storage.name(named.map(|run| (run.id, run.directory())), &removed, &left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
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

    /// What is stored. The first word of a row is all that differs.
    #[derive(Default)]
    struct Stored {
        words: Vec<u64>,
        chunks: BTreeMap<Key, Vec<u8>>,
        directories: BTreeMap<u32, Vec<u8>>,
        reads: usize,
        /// Writes until one fails.
        writes_left: Option<usize>,
    }

    impl Stored {
        fn begin_write(&mut self) -> Result<(), Damage> {
            if self.writes_left == Some(0) {
                return Err(Damage("a full disk".to_owned()));
            }
            self.writes_left = self.writes_left.map(|left| left - 1);
            Ok(())
        }
    }

    impl Storage for Stored {
        fn read(&mut self, keys: &[Key]) -> Result<Vec<Vec<u8>>, Damage> {
            self.reads += 1;
            let value = |key: &Key| match key {
                Key::List(..) => self.chunks[key].clone(),
                Key::Rows(chunk) => {
                    let words = &self.words[*chunk as usize * ROWS..][..ROWS];
                    words.iter().flat_map(|word| row(*word)).flat_map(u64::to_le_bytes).collect()
                }
            };
            Ok(keys.iter().map(value).collect())
        }

        fn write(&mut self, chunks: &[(Key, Vec<u8>)]) -> Result<(), Damage> {
            self.begin_write()?;
            self.chunks.extend(chunks.iter().cloned());
            Ok(())
        }

        fn name(&mut self, named: Option<(u32, Vec<u8>)>, removed: &[u32], runs: &[u32]) -> Result<(), Damage> {
            self.begin_write()?;
            self.directories.extend(named);
            self.directories.retain(|id, _| !removed.contains(id));
            self.chunks.retain(|key, _| !matches!(key, Key::List(id, _) if removed.contains(id)));
            assert!(self.directories.keys().eq(BTreeSet::from_iter(runs)), "the names of all runs");
            Ok(())
        }
    }

    fn row(word: u64) -> [u64; ROW_WORDS] {
        std::array::from_fn(|at| if at == 0 { word } else { 0 })
    }

    /// Tables, and what is stored of them.
    struct Owner {
        tables: Tables,
        stored: Stored,
        candidates: Option<usize>,
        budget: usize,
    }

    impl Owner {
        fn new(budget: usize, fold: u64) -> Self {
            let tables = Self::tables(budget, fold, (0, 0), Vec::new());
            Self { tables, stored: Stored::default(), candidates: None, budget }
        }

        fn tables(budget: usize, fold: u64, ends: (u64, u64), tail: Vec<u64>) -> Tables {
            let rows = Rows::stored(ROW_WORDS, ROWS, ends, tail);
            Tables::new(BLOCKS.to_vec(), (rows, ends.0), budget, fold, Shape::of(4), (0, 16))
        }

        fn append(&mut self, words: &[u64]) {
            self.stored.words.extend(words);
            let rows: Vec<_> = words.iter().flat_map(|word| row(*word)).collect();
            self.tables.append(&rows, &mut self.stored).expect("what was stored");
            self.check();
        }

        fn drop_before(&mut self, number: u64) {
            self.tables.drop_before(number, &mut self.stored).expect("what was stored");
            self.check();
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

        /// What is near a word; and what should be.
        fn near(&mut self, word: u64, bucket_limit: usize) -> [Vec<u64>; 2] {
            let (numbers, limits) = (self.tables.numbers(), self.limits(bucket_limit));
            let signature = row(word).map(u64::to_be_bytes);
            let columns = [signature[..WORDS].as_flattened(), &[0; 8 * BLOCKS.len()][..], &[]];
            let article = Article::new(&limits, (0, 0), columns, (numbers.end, 0));
            let plan = vec![0, 1 << 16];
            let terms = Terms { plan, lookups: 2, limits: Arc::new(limits), best: BEST, withdrawn: Vec::new() };
            let mut search = Search::new(terms);
            search.run(&[article; 2], &mut self.tables, &mut self.stored).expect("what was stored");
            let words = &self.stored.words;
            let mut expected: Vec<u64> = Vec::new();
            for blocks in BLOCKS {
                let numbers = numbers.clone().rev();
                let list = numbers.filter(|number| blocks.of(words[*number as usize]) == blocks.of(word));
                let ranks = list.map(|number| u64::from((words[number as usize] ^ word).count_ones()) << 32 | number);
                expected.extend(ranks.take(bucket_limit));
            }
            expected.sort_unstable();
            expected.dedup();
            expected.truncate(BEST);
            let of_article = |number| {
                let near = search.near.iter().filter(|(article, ..)| *article == number);
                near.map(|&(_, number, distance)| u64::from(distance) << 32 | u64::from(number)).collect::<Vec<_>>()
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

        /// Tables as they are after a new start.
        fn reopen(&mut self, budget: usize) {
            let Range { start: first, end: after } = self.tables.numbers();
            let rows: Vec<_> = self.stored.words.iter().flat_map(|word| row(*word)).collect();
            let tail = rows[after as usize / ROWS * ROWS * ROW_WORDS..].to_vec();
            let named: Vec<_> = self.tables.runs.iter().flatten().map(|run| run.id).collect();
            (self.tables, self.budget) = (Self::tables(budget, FOLD, (first, after), tail), budget);
            for id in &named {
                self.tables.open_run(*id, &self.stored.directories[id]).expect("a directory");
            }
            self.tables.append_missing(&mut self.stored).expect("what was stored");
            self.stored.chunks.retain(|key, _| !matches!(key, Key::List(id, _) if !named.contains(id)));
        }

        /// The sum of each table is that of its entries.
        fn check_sums(&mut self) {
            for table in 0..BLOCKS.len() {
                let mut total = (0, 0);
                for number in self.tables.numbers() {
                    let key = self.stored.words[number as usize];
                    self.tables.add(Entry { key, number: number as u32 }, &mut total);
                }
                assert_eq!(self.tables.sum(table, &mut self.stored), Ok(total));
            }
        }
    }

    #[test]
    fn entries_are_found_whatever_is_in_memory() {
        for (seed, budget) in [(1, 0), (2, 3000), (3, 20_000), (4, 1 << 30)] {
            let (mut owner, mut state) = (Owner::new(budget, FOLD), seed);
            for turn in 0..120 {
                let kinds = [random(&mut state, 1 << 16), 7, 7, 8];
                let mut word = || {
                    let kind = kinds[random(&mut state, 4) as usize];
                    kind << 48 | random(&mut state, 3) << 32 | random(&mut state, 1 << 20)
                };
                let words: Vec<_> = (0..=turn % 60).map(|_| word()).collect();
                let asked = word();
                owner.append(&words);
                let families: Vec<_> = owner.tables.runs.iter().flatten().map(|run| run.id % 16).collect();
                let is_shared = |family: &u32| families.iter().filter(|other| *other == family).count() > 1;
                assert!(families.len() > 16 || !families.iter().any(is_shared), "{families:?}");
                let limit = if turn % 3 == 0 { 9 } else { usize::MAX };
                if turn % 10 == 9 {
                    let Range { start, end } = owner.tables.numbers();
                    owner.drop_before(start + (end - start) / 5);
                }
                owner.stored.reads = 0;
                let [found, expected] = owner.near(asked, limit);
                assert_eq!(found, expected, "seed {seed}, turn {turn}");
                assert!(budget > 0 || turn < 2 || owner.stored.reads > 0, "nothing was read");
                if turn % 25 == 24 {
                    owner.check_sums();
                    owner.reopen(budget);
                    owner.check();
                    owner.check_sums();
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
                owner.tables.fetch(&cold, &mut owner.stored).expect("what was stored");
                owner.check();
            }
            let room = owner.tables.cache.room();
            owner.tables.cache.evict();
            assert_eq!(owner.tables.cache.room(), room, "no more was warmed than there was room for");
            assert_eq!(warmed > 0, budget > 0, "{warmed} chunks");
        }
    }

    #[test]
    fn look_ups_go_on_after_a_write_that_failed() {
        for writes in 0..12 {
            let mut owner = Owner::new(1 << 30, FOLD);
            owner.stored.writes_left = Some(writes);
            let mut state = writes as u64;
            loop {
                let words = [0; 23].map(|_| 7 << 48 | random(&mut state, 1 << 20));
                owner.stored.words.extend(words);
                let rows: Vec<_> = words.iter().flat_map(|word| row(*word)).collect();
                if owner.tables.append(&rows, &mut owner.stored).is_err() {
                    break;
                }
            }
            let [found, expected] = owner.near(7 << 48, usize::MAX);
            assert_eq!(found, expected, "after {writes} writes");
        }
    }

    #[test]
    fn lists_are_compared_on_from_where_a_bound_ended_the_comparison() {
        let mut owner = Owner { candidates: Some(300), ..Owner::new(usize::MAX, FOLD) };
        // The first list has the even ones, the second one all of them: those of both count once, so that the bound of
        // 300 that pass is reached within the second list, before 300 have counted.
        let words: Vec<_> = (0..400).map(|number| (7 + number % 2) << 48 | number).collect();
        words.chunks(8).for_each(|words| owner.append(words));
        let [found, _] = owner.near(7 << 48, usize::MAX);
        let mut numbers: Vec<_> = found.iter().map(|rank| rank & 0xFFFF_FFFF).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = (0..400).filter(|number| number % 2 == 0 || *number >= 200).collect();
        assert_eq!(numbers, expected, "all of the first list, and the newest of the second one");
    }

    #[test]
    fn a_merge_that_is_cut_short_goes_with_the_entries_that_it_merges() {
        let mut owner = Owner::new(0, 1);
        owner.append(&[7; 80]);
        owner.append(&[7; 8]);
        let (id, shape) = (owner.tables.take_number(), owner.tables.shape);
        let [older, newer] = [0, 1].map(|at| &owner.tables.runs[0][at]);
        (owner.tables.merge, owner.tables.owed) = (Some(Merge::new([older, newer], id, 0, shape)), 40);
        assert_eq!(owner.tables.step(&mut owner.stored), Ok(false));
        assert!(owner.stored.chunks.contains_key(&Key::List(id, 0)));
        owner.drop_before(88);
        assert!(owner.tables.merge.is_none() && owner.tables.runs.iter().all(Vec::is_empty));
        assert!(owner.stored.chunks.is_empty() && owner.stored.directories.is_empty());
    }

    #[test]
    fn an_entry_that_is_out_of_place_is_no_part_of_a_sum() {
        let mut owner = Owner::new(0, 40);
        owner.append(&(0..40).map(|number| number << 48).collect::<Vec<_>>());
        let run = &mut owner.tables.runs[0][0];
        run.before -= 1;
        let damage = owner.tables.sum(0, &mut owner.stored).expect_err("the last entry is not before that");
        assert!(damage.0.contains("is out of place"), "{damage:?}");
    }

    #[test]
    fn rows_of_many_numbers_take_the_memory_of_a_few() {
        let mut owner = Owner::new(0, FOLD);
        owner.append(&vec![7; 4000]);
        owner.tables.rows_of(&(0..4000).collect::<Vec<_>>(), &mut owner.stored).expect("what was stored");
        assert!(owner.tables.cache.most_held() <= 1 << 10, "{} chunks", owner.tables.cache.most_held());
    }
}
