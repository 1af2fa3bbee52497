//! All tables and rows of an index: where their entries are, and what is in memory.
//!
//! New entries are small runs in memory. As soon as there are enough of them they are **folded**: the run is stored.
//! Runs of about one size are merged, so a table has a few runs, each several times as large as the next one, and an
//! entry is copied a logarithm of times.
//!
//! The owner stores. It gets the chunks, directories and names of runs as [`Work`], and keeps this order:
//!
//! 1. The rows of the entries are stored.
//! 2. The chunks of a run are stored, in as many writes as it likes.
//! 3. One write names the run, with its directory, and removes those that it takes the place of.
//!
//! If writes are lost from some point on, what is named is whole, and its entries have rows. What is stored and not
//! named belongs to nobody.
//!
//! The **cache**: chunks of stored runs and of rows, up to the budget. Which one goes is decided by second chance: one
//! that was used since it came to its turn stays for another round. What a search uses now never goes.

use std::collections::VecDeque;
use std::ops::Range;

use super::chunk::{Blocks, Chunk, Damage, Entry};
use super::merge::{Merge, Step};
use super::near::WORDS;
use super::rows::Rows;
use super::run::{Run, Slot};
use super::stock::Stock;

/// A run in memory is merged into the one before it when it has at least one entry for so many of that one.
const MEMORY_FANOUT: u64 = 8;
/// The same of stored runs.
const FANOUT: u64 = 8;
/// Entries that the merges of a table take, on average, for one that is appended: more than the twenty copies of an entry
/// that an index of a billion needs, so that a large merge is over soon, and what it makes is stored together.
const PACE: usize = 64;
/// Factor of the group for each key word: odd, so no two groups give the same product, and different, so groups that
/// collide in a block of one word do not collide in the others (the primes of XXH64).
pub const KEY_FACTORS: [u64; WORDS] = [1, 0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9];
/// Number of the first run in memory: stored runs have lower ones.
const FIRST_IN_MEMORY: u64 = 1 << 32;
/// The stock of lists and that of rows may each take the budget divided by this.
const STOCK_SHARE: usize = 32;
/// Bytes that a chunk takes beside its entries: its slot, and its place in the queue of the cache.
const CHUNK_OVERHEAD: usize = 64;

/// Most tables of an index.
pub const MOST_TABLES: usize = 16;

/// What is stored under a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A chunk of a run: the number of the run, then that of the chunk.
    List(u32, u32),
    /// A chunk of rows.
    Rows(u32),
}

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
    /// The rows.
    pub rows: Rows,
    /// The merge that is under way.
    merge: Option<Merge>,
    /// Entries that it has still to take.
    owed: usize,
    /// Of each table the blocks that it is sorted by.
    blocks: Vec<Blocks>,
    /// Entries of a chunk of the runs that are made.
    chunk_entries: usize,
    /// Entries of a run in memory from which on it is stored.
    fold: u64,
    /// Most bytes of the cache and of the two stocks.
    budget: usize,
    /// Bytes of the chunks in the cache.
    held: usize,
    /// The chunks in the cache, in the order of their turns; keys of chunks that are gone may be among them.
    queue: VecDeque<Key>,
    /// Memory of chunks of lists that were let go.
    stock: Stock,
    /// The count of [`Tables::begin`]: what was used at this count is in use.
    now: u32,
    /// Number of the next stored run.
    next_stored: u32,
    /// The storage keeps runs apart in so many families, by the remainder of their numbers.
    families: u32,
    /// Number of the next run in memory.
    next_in_memory: u64,
    /// Document number below which no entry counts any more.
    low_watermark: u64,
    /// What [`Tables::take_work`] gives next.
    work: Work,
}

/// A part of a table's posting lists: a run, or what a merge has made of two.
pub enum Part<'a> {
    /// A run.
    Run(&'a Run),
    /// The run that a merge makes, and the document number before which its entries are.
    Made(&'a Merge, u64),
}

impl<'a> Part<'a> {
    /// The chunks that have the entries of a block.
    #[must_use]
    pub fn chunks_of(&self, block: u32) -> Range<usize> {
        match self {
            Self::Run(run) => run.chunks_of(block),
            Self::Made(merge, _) => merge.building.chunks_of(block),
        }
    }

    /// The number of the run, and the place of a chunk.
    #[must_use]
    pub fn slot(&self, chunk: usize) -> (u64, &'a Slot) {
        match self {
            Self::Run(run) => (run.id, &run.slots[chunk]),
            Self::Made(merge, _) => (merge.id, &merge.building.slots()[chunk]),
        }
    }

    /// Entries of a chunk, if all are of this block; 0 where the directory does not tell.
    #[must_use]
    pub fn full_of(&self, chunk: usize, block: u32) -> usize {
        let (ends, entries) = match self {
            Self::Run(run) => (run.ends(), run.chunk_entries),
            Self::Made(merge, _) => (merge.building.ends(), merge.building.chunk_entries()),
        };
        if ends[chunk] == (block, block) && chunk + 1 < ends.len() { entries } else { 0 }
    }

    /// Its document numbers are lower.
    #[must_use]
    pub fn before(&self) -> u64 {
        match self {
            Self::Run(run) => run.before,
            Self::Made(_, before) => *before,
        }
    }
}

impl Tables {
    /// Tables without entries, whose runs will have chunks of so many.
    #[must_use]
    pub fn new(blocks: Vec<Blocks>, mut rows: Rows, budget: usize, fold: u64, chunk_entries: usize) -> Self {
        rows.stock = Stock::new(budget / STOCK_SHARE);
        Self {
            runs: blocks.iter().map(|_| Vec::new()).collect(),
            rows,
            merge: None,
            owed: 0,
            blocks,
            chunk_entries,
            fold: fold.max(1),
            budget,
            held: 0,
            queue: VecDeque::new(),
            stock: Stock::new(budget / STOCK_SHARE),
            now: 0,
            next_stored: 0,
            families: 1,
            next_in_memory: FIRST_IN_MEMORY,
            low_watermark: 0,
            work: Work::default(),
        }
    }

    /// Number further runs from here on: none has had such a number. The storage keeps runs apart in so many families,
    /// by the remainder of their numbers.
    pub fn number_from(&mut self, next_stored: u32, families: u32) {
        self.next_stored = self.next_stored.max(next_stored);
        self.families = families.max(1);
    }

    /// A number for a run to store, if there is one of a family without runs.
    fn take_number(&mut self) -> u32 {
        let stored = self.runs.iter().flatten().filter(|run| run.is_stored).map(|run| run.id);
        let made = self.merge.iter().map(|merge| merge.id);
        let used: Vec<_> = stored.chain(made).map(|id| id as u32 % self.families).collect();
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
        let run = Run::from_directory(id.into(), directory)?;
        let (table, before) = (usize::from(run.blocks.table), run.before);
        if self.blocks.get(table) != Some(&run.blocks) || self.end_of(table) >= before || before > self.rows.after() {
            return Err(Damage(format!("run {id} of {:?} before {before} is out of place", run.blocks)));
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

    /// Bits of a block.
    #[must_use]
    pub fn block_bits(&self) -> u8 {
        self.blocks[0].bits
    }

    /// Document numbers below are of no entry any more.
    #[must_use]
    pub fn low_watermark(&self) -> u64 {
        self.low_watermark
    }

    /// Bytes in memory: the cache, and what is not stored.
    #[must_use]
    pub fn memory(&self) -> usize {
        let unstored = self.runs.iter().flatten().filter(|run| !run.is_stored).flat_map(|run| &run.slots);
        let unstored: usize = unstored.map(|slot| slot.chunk.as_ref().map_or(0, memory_of)).sum();
        self.taken() + unstored
    }

    /// Bytes of the budget that are taken.
    fn taken(&self) -> usize {
        self.held + self.stock.memory() + self.rows.stock.memory()
    }

    /// Begin to use other chunks: those that were used until now may be let go; return the count of these calls.
    pub fn begin(&mut self) -> u32 {
        self.now = self.now.checked_add(1).unwrap_or(1);
        self.now
    }

    /// The count of [`Tables::begin`].
    #[must_use]
    pub fn now(&self) -> u32 {
        self.now
    }

    /// The parts of a table's posting list of a block, the newest first.
    pub fn parts(&self, table: usize, block: u32) -> impl Iterator<Item = Part<'_>> {
        self.runs[table].iter().rev().filter_map(move |run| match self.merge_of(run, block) {
            Some(merge) => (merge.newer == run.id).then_some(Part::Made(merge, run.before)),
            None => run.may_have(block).then_some(Part::Run(run)),
        })
    }

    /// The merge whose new run has the entries of a block that a run has.
    fn merge_of(&self, run: &Run, block: u32) -> Option<&Merge> {
        self.merge.as_ref().filter(|merge| merge.is_of(run) && block < merge.frontier())
    }

    /// Append the entries of the next rows, and go on with merges; then there may be work.
    pub fn append(&mut self, rows: &[u64], row_words: usize) {
        let first = self.rows.after();
        let finished = self.rows.append(rows, self.now);
        self.held += finished.len() * (self.rows.chunk_memory() + CHUNK_OVERHEAD);
        self.queue.extend(finished.into_iter().map(|chunk| Key::Rows(chunk as u32)));
        for table in 0..self.blocks.len() {
            self.append_to(table, first, rows, row_words);
            // Tables fold one after the other: storing a run of each at once takes too long.
            self.fold(table, self.fold - table as u64 * self.fold / (4 * self.blocks.len() as u64));
        }
        self.go_on(rows.len() / row_words);
        self.begin();
        self.evict();
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
        self.low_watermark = number;
        self.held -= self.rows.drop_before(number) * (self.rows.chunk_memory() + CHUNK_OVERHEAD);
        for table in 0..self.blocks.len() {
            let gone = |run: &Run| run.before <= number;
            self.give_up_merge(&self.runs[table].iter().filter(|run| gone(run)).map(|run| run.id).collect::<Vec<_>>());
            let (gone, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.runs[table]).into_iter().partition(gone);
            self.runs[table] = left;
            for run in gone {
                self.remove(run);
            }
        }
    }

    /// Take stored bytes. Those of a run or of rows that are gone, or of a chunk that is here, are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where they are not what the key says.
    pub fn supply(&mut self, key: Key, bytes: &[u8]) -> Result<(), Damage> {
        let now = self.now;
        let taken = match key {
            Key::Rows(chunk) => {
                self.rows.supply(chunk.into(), bytes, now)?.then(|| self.rows.chunk_memory() + CHUNK_OVERHEAD)
            }
            Key::List(id, place) => {
                let slot = self.slot(id, place as usize).filter(|(slot, _)| slot.chunk.is_none());
                let Some(blocks) = slot.map(|(_, blocks)| blocks) else { return Ok(()) };
                let chunk = Chunk::from_bytes(bytes, blocks, &mut self.stock)?;
                let memory = memory_of(&chunk);
                let slot = self.slot(id, place as usize).map(|(slot, _)| slot).expect("the same one");
                slot.used.set(now);
                slot.chunk = Some(chunk);
                Some(memory)
            }
        };
        if let Some(memory) = taken {
            self.held += memory;
            self.queue.push_back(key);
        }
        Ok(())
    }

    /// Let chunks go until the rest is within the budget, but none that is in use.
    pub fn evict(&mut self) {
        for _ in 0..2 * self.queue.len() {
            if self.taken() <= self.budget {
                return;
            }
            let Some(key) = self.queue.pop_front() else { return };
            match self.used(key) {
                None => {}
                Some(0) => self.release(key),
                Some(used) => {
                    if used != self.now {
                        self.mark_unused(key);
                    }
                    self.queue.push_back(key);
                }
            }
        }
    }

    /// Chunks that are not in memory and for which there is room, at most so many: lists first, then rows.
    #[must_use]
    pub fn cold(&self, most: usize) -> Vec<Key> {
        let mut room = self.budget.saturating_sub(self.taken());
        let list_bytes = Chunk::memory_of(self.chunk_entries) + CHUNK_OVERHEAD;
        let row_bytes = self.rows.chunk_memory() + CHUNK_OVERHEAD;
        let lists = self.runs.iter().flatten().flat_map(|run| {
            let cold = run.slots.iter().enumerate().filter(|(_, slot)| slot.chunk.is_none());
            cold.map(|(chunk, _)| (Key::List(run.id as u32, chunk as u32), list_bytes))
        });
        let rows = self.rows.cold().map(|chunk| (Key::Rows(chunk as u32), row_bytes));
        let taken = lists.chain(rows).take_while(|(_, bytes)| {
            let fits = *bytes <= room;
            room = room.saturating_sub(*bytes);
            fits
        });
        taken.take(most).map(|(key, _)| key).collect()
    }

    fn append_to(&mut self, table: usize, first: u64, rows: &[u64], row_words: usize) {
        if rows.is_empty() {
            return;
        }
        let blocks = self.blocks[table];
        let word = blocks.word();
        let key = |row: &[u64]| row[word] ^ row[WORDS].wrapping_mul(KEY_FACTORS[word]);
        let numbered = rows.chunks_exact(row_words).zip(first..);
        let mut entries: Vec<_> =
            numbered.map(|(row, number)| Entry { key: key(row), number: number as u32 }).collect();
        entries.sort_by_key(|entry| blocks.of(entry.key));
        let (id, before) = (self.number_in_memory(), first + entries.len() as u64);
        let run = Run::in_memory(blocks, (id, before), &entries, self.chunk_entries, &mut self.stock);
        self.runs[table].push(run);
        self.merge_in_memory(table, MEMORY_FANOUT);
    }

    /// Merge the newest runs in memory, while the newer one has its share of the entries of the older one.
    fn merge_in_memory(&mut self, table: usize, fanout: u64) {
        let Self { runs, stock, .. } = self;
        let runs = &mut runs[table];
        while let [.., older, newer] = &runs[..] {
            if older.is_stored || newer.entries.saturating_mul(fanout) < older.entries {
                return;
            }
            let mut merge = Merge::new(older, newer, newer.id, 0, self.chunk_entries);
            let (before, mut every) = (newer.before, usize::MAX);
            let blocks = older.blocks;
            let done = merge.step([older, newer], &mut every, |building, entries| {
                building.add(Chunk::new(entries, blocks, stock), true);
            });
            assert_eq!(done, Step::Done, "runs in memory");
            let run = merge.building.finish(merge.id, before, false);
            for mut gone in runs.drain(runs.len() - 2..) {
                let_go(&mut gone.slots, stock);
            }
            runs.push(run);
        }
    }

    /// Store the runs in memory that have enough entries, from the oldest on.
    fn fold(&mut self, table: usize, least: u64) {
        let now = self.now;
        for run in self.runs[table].iter_mut().filter(|run| !run.is_stored) {
            if run.entries < least {
                break;
            }
            let id = self.next_stored;
            self.next_stored += 1;
            run.id = id.into();
            for (number, slot) in run.slots.iter().enumerate() {
                let (key, chunk) = (Key::List(id, number as u32), slot.chunk.as_ref().expect("in memory"));
                slot.used.set(now);
                self.work.chunks.push((key, chunk.to_bytes()));
                self.held += memory_of(chunk);
                self.queue.push_back(key);
            }
            self.work.named.push((id, run.directory()));
            run.is_stored = true;
        }
    }

    /// Go on with what is due, as far as chunks are in memory and entries are owed.
    fn advance(&mut self) {
        while self.merge.is_some() || self.begin_merge() {
            match self.step() {
                Step::Paused | Step::Missing(_) => return,
                Step::Done => self.finish(),
            }
        }
        self.owed = 0;
    }

    /// Begin the smallest merge that is due; whether there is one. One is under way at a time, so that what it makes is
    /// stored together.
    fn begin_merge(&mut self) -> bool {
        let due = (0..self.runs.len()).flat_map(|table| self.due(table));
        let Some((_, table, [older, newer])) = due.min_by_key(|&(entries, ..)| entries) else { return false };
        let id = self.take_number().into();
        let [older, newer] = [&self.runs[table][older], &self.runs[table][newer]];
        self.merge = Some(Merge::new(older, newer, id, self.low_watermark, self.chunk_entries));
        true
    }

    /// The merges of a table that are due: entries, table, and the places of the two runs.
    fn due(&self, table: usize) -> impl Iterator<Item = (u64, usize, [usize; 2])> {
        let runs = &self.runs[table];
        let stored = runs.iter().take_while(|run| run.is_stored).count();
        let pairs = (1..stored).filter(|&at| runs[at].entries * FANOUT >= runs[at - 1].entries);
        pairs.map(move |at| (runs[at - 1].entries + runs[at].entries, table, [at - 1, at]))
    }

    fn step(&mut self) -> Step {
        let Self { merge: Some(merge), runs, rows, held, budget, queue, stock, work, owed, .. } = self else {
            return Step::Paused;
        };
        let runs = &mut runs[merge.table];
        let places = places_of(merge, runs);
        let (id, pair) = (merge.id, places.map(|place| &runs[place]));
        let blocks = pair[0].blocks;
        let step = merge.step(pair, owed, |building, entries| {
            let chunk = Chunk::new(entries, blocks, stock);
            let key = Key::List(id as u32, building.slots().len() as u32);
            work.chunks.push((key, chunk.to_bytes()));
            let memory = memory_of(&chunk);
            let keep = *held + stock.memory() + rows.stock.memory() + memory <= *budget;
            building.add(chunk, keep);
            if keep {
                *held += memory;
                queue.push_back(key);
            }
        });
        if let Step::Missing(chunks) = &step {
            for (run, chunks) in pair.iter().zip(chunks) {
                work.missing.extend(chunks.iter().map(|&chunk| Key::List(run.id as u32, chunk as u32)));
            }
        }
        for (which, chunks) in merge.done_with(pair).into_iter().enumerate() {
            *held -= let_go(&mut runs[places[which]].slots[chunks], stock);
        }
        step
    }

    fn finish(&mut self) {
        let Some(merge) = self.merge.take() else { return };
        let runs = &mut self.runs[merge.table];
        let [place, last] = places_of(&merge, runs);
        let before = runs[last].before;
        let gone: Vec<_> = runs.drain(place..=last).collect();
        if !merge.building.slots().is_empty() {
            let run = merge.building.finish(merge.id, before, true);
            self.work.named.push((run.id as u32, run.directory()));
            runs.insert(place, run);
        }
        for run in gone {
            self.remove(run);
        }
    }

    /// Forget the merge of some runs, with what was stored of the new one.
    fn give_up_merge(&mut self, runs: &[u64]) {
        let is_of = |merge: &mut Merge| runs.contains(&merge.older) || runs.contains(&merge.newer);
        if let Some(mut merge) = self.merge.take_if(is_of) {
            self.work.chunks.retain(|(key, _)| !matches!(key, Key::List(id, _) if u64::from(*id) == merge.id));
            self.work.removed.push(merge.id as u32);
            self.held -= let_go(merge.building.slots_mut(), &mut self.stock);
        }
    }

    fn remove(&mut self, mut run: Run) {
        let memory = let_go(&mut run.slots, &mut self.stock);
        if run.is_stored {
            self.held -= memory;
            self.work.removed.push(run.id as u32);
        }
        // Keys of chunks that are gone stay in the queue until their turn, or until the queue is far longer than the
        // cache.
        let held = self.held / 4096 + 1024;
        if self.queue.len() > 2 * held {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|&key| self.used(key).is_some());
            self.queue = queue;
        }
    }

    fn slot(&mut self, id: u32, chunk: usize) -> Option<(&mut Slot, Blocks)> {
        let Self { runs, merge, .. } = self;
        for run in runs.iter_mut().flatten() {
            if run.id == u64::from(id) {
                return Some((run.slots.get_mut(chunk)?, run.blocks));
            }
        }
        let merge = merge.as_mut().filter(|merge| merge.id == u64::from(id))?;
        Some((merge.building.slots_mut().get_mut(chunk)?, self.blocks[merge.table]))
    }

    /// When a chunk was used; none where it is not in memory, 0 where not since its last turn.
    fn used(&mut self, key: Key) -> Option<u32> {
        match key {
            Key::Rows(chunk) => self.rows.used(chunk.into()),
            Key::List(id, chunk) => {
                let (slot, _) = self.slot(id, chunk as usize)?;
                slot.chunk.as_ref().map(|_| slot.used.get())
            }
        }
    }

    fn mark_unused(&mut self, key: Key) {
        match key {
            Key::Rows(chunk) => self.rows.mark_unused(chunk.into()),
            Key::List(id, chunk) => {
                if let Some((slot, _)) = self.slot(id, chunk as usize) {
                    slot.used.set(0);
                }
            }
        }
    }

    fn release(&mut self, key: Key) {
        match key {
            Key::Rows(chunk) => {
                self.rows.evict(chunk.into());
                self.held -= self.rows.chunk_memory() + CHUNK_OVERHEAD;
            }
            Key::List(id, chunk) => {
                let gone = self.slot(id, chunk as usize).and_then(|(slot, _)| slot.chunk.take());
                if let Some(chunk) = gone {
                    self.held -= memory_of(&chunk);
                    chunk.let_go(&mut self.stock);
                }
            }
        }
    }

    fn number_in_memory(&mut self) -> u64 {
        self.next_in_memory += 1;
        self.next_in_memory - 1
    }
}

/// Where the two runs of a merge are among those of their table.
fn places_of(merge: &Merge, runs: &[Run]) -> [usize; 2] {
    [merge.older, merge.newer].map(|id| runs.iter().position(|run| run.id == id).expect("a run of its table"))
}

/// Let the chunks of these slots go; return how many bytes they took in the cache.
fn let_go(slots: &mut [Slot], stock: &mut Stock) -> usize {
    let gone = slots.iter_mut().filter_map(|slot| slot.chunk.take());
    gone.map(|chunk| {
        let memory = memory_of(&chunk);
        chunk.let_go(stock);
        memory
    })
    .sum()
}

fn memory_of(chunk: &Chunk) -> usize {
    Chunk::memory_of(chunk.len()) + CHUNK_OVERHEAD
}
