//! The bytes of log records: batches of entries read together.
//!
//! `core/entry.py` and `core/columns.py` own the bytes and say what they mean; this file reads the plain form alone:
//! columns that are known, without damage. Whatever else a value is, it is only not plain.

use std::ops::Range;

/// What the formats of `core/entry.py` and `core/columns.py` say of a plain batch.
pub struct Format {
    /// Version byte.
    pub version: u8,
    /// Kinds of records that are batches: one, and a seeded one.
    pub kinds: [u8; 2],
    /// Widths that a column may have, by its kind, the least one first; none of a kind that there is not.
    pub widths: Vec<Vec<usize>>,
    /// Kinds of the columns of offsets, statuses, ids and reasons.
    pub special: [usize; 4],
    /// Greatest status.
    pub last_status: u8,
    /// Most entries of a batch.
    pub most_entries: usize,
}

/// Bytes before the name of the topic: version, kind, read-to, topic id, partition, entries, length of the name.
const HEAD_BYTES: usize = 2 + 8 + 16 + 4 + 4 + 2;
const READ_TO: Range<usize> = 2..10;
const PARTITION: Range<usize> = 26..30;
const ENTRIES: Range<usize> = 30..34;
const NAME_BYTES: Range<usize> = 34..36;
/// Bytes of a column in the table of columns: its kind, and two of its width.
const TABLE_ENTRY: usize = 3;
/// Each joined column begins at a multiple of so many bytes, the size of the largest number.
const ALIGNMENT: usize = 8;

/// A plain batch: its head, and where its columns are in the joined ones.
#[derive(Debug)]
pub struct Batch {
    /// Which of the values it is.
    pub value: usize,
    /// Whether it is a seeded one.
    pub is_seeded: bool,
    /// The log offset before which its author had read every record; -1 of an author that does not say.
    pub read_to: i64,
    /// Partition.
    pub partition: i32,
    /// Number of entries.
    pub entries: usize,
    /// Bytes of the name of the topic, which begins behind the head.
    pub name_bytes: usize,
    /// Whether all ids and reasons are ASCII.
    pub is_ascii: bool,
    /// Bytes of all ids, and of all reasons.
    pub text_bytes: [usize; 2],
    columns: Vec<Option<Column>>,
}

#[derive(Clone, Debug)]
struct Column {
    begin: usize,
    width: usize,
}

/// The columns of several batches, one behind the other.
#[derive(Default)]
pub struct Joined {
    /// The batches, in order of their values; those whose columns have other widths than the first are left out.
    pub batches: Vec<Batch>,
    /// Widths of the columns, by kind.
    pub widths: Vec<usize>,
    /// Where in `bytes` the columns of each kind begin.
    pub begins: Vec<usize>,
    /// The columns; what a batch does not have is zero.
    pub bytes: Vec<u8>,
    /// The texts of all ids, and of all reasons.
    pub texts: [Vec<u8>; 2],
}

impl Format {
    /// Join the columns of the plain ones among some values, which all have the widths of the first of them.
    #[must_use]
    pub fn join(&self, values: &[&[u8]]) -> Joined {
        let mut batches: Vec<Batch> = Vec::new();
        for (number, value) in values.iter().enumerate() {
            if let Some(batch) = self.read(number, value) {
                let is_alike = |first: &Batch| self.widths_of(first) == self.widths_of(&batch);
                if batches.first().is_none_or(is_alike) {
                    batches.push(batch);
                }
            }
        }
        let Some(first) = batches.first() else { return Joined::default() };
        let widths = self.widths_of(first);
        let entries: usize = batches.iter().map(|batch| batch.entries).sum();
        let mut begins = Vec::with_capacity(widths.len());
        let mut end = 0_usize;
        for width in &widths {
            begins.push(end.next_multiple_of(ALIGNMENT));
            end = begins[begins.len() - 1] + entries * width;
        }
        let mut joined = Joined { widths, begins, bytes: vec![0; end], ..Joined::default() };
        let mut row = 0;
        for batch in &batches {
            self.copy(batch, values[batch.value], row, &mut joined);
            row += batch.entries;
        }
        Joined { batches, ..joined }
    }

    fn copy(&self, batch: &Batch, value: &[u8], row: usize, joined: &mut Joined) {
        for (kind, column) in batch.columns.iter().enumerate() {
            let Some(Column { begin, width }) = column else { continue };
            let size = batch.entries * width;
            let to = joined.begins[kind] + row * width;
            joined.bytes[to..to + size].copy_from_slice(&value[*begin..begin + size]);
            let [.., ids, reasons] = self.special;
            if let Some(which) = [ids, reasons].iter().position(|&one| one == kind) {
                joined.texts[which].extend_from_slice(&value[begin + size..][..batch.text_bytes[which]]);
            }
        }
    }

    fn widths_of(&self, batch: &Batch) -> Vec<usize> {
        let least = |kind: usize| self.widths[kind].first().copied().unwrap_or(0);
        let width = |(kind, column): (usize, &Option<Column>)| column.as_ref().map_or(least(kind), |one| one.width);
        batch.columns.iter().enumerate().map(width).collect()
    }

    /// Read the head of a batch and find its columns; none of a value that is not plain.
    fn read(&self, number: usize, value: &[u8]) -> Option<Batch> {
        if value.len() < HEAD_BYTES || value[0] != self.version {
            return None;
        }
        let kind = self.kinds.iter().position(|&kind| kind == value[1])?;
        let read_to = i64::from_le_bytes(value[READ_TO].try_into().ok()?);
        let partition = i32::from_le_bytes(value[PARTITION].try_into().ok()?);
        let entries = u32::from_le_bytes(value[ENTRIES].try_into().ok()?) as usize;
        let name_bytes = u16::from_le_bytes(value[NAME_BYTES].try_into().ok()?).into();
        let is_seeded = kind == 1;
        if read_to < -1 || (read_to == -1 && is_seeded) || partition < 0 || !(1..=self.most_entries).contains(&entries)
        {
            return None;
        }
        let mut batch = Batch {
            value: number,
            is_seeded,
            read_to,
            partition,
            entries,
            name_bytes,
            is_ascii: true,
            text_bytes: [0; 2],
            columns: vec![None; self.widths.len()],
        };
        let end = self.find_columns(&mut batch, value, HEAD_BYTES + name_bytes)?;
        let [offsets, statuses, ..] = self.special;
        let is_plain = end == value.len()
            && are_rising(column_of(&batch, offsets, value), entries)
            && column_of(&batch, statuses, value).is_none_or(|known| known.iter().all(|&one| one <= self.last_status));
        is_plain.then_some(batch)
    }

    /// Find the columns of a batch, whose table begins at `at`; return where the last one ends.
    fn find_columns(&self, batch: &mut Batch, value: &[u8], at: usize) -> Option<usize> {
        let count = usize::from(*value.get(at)?);
        let table = value.get(at + 1..at + 1 + TABLE_ENTRY * count)?;
        let (mut begin, mut before) = (at + 1 + TABLE_ENTRY * count, 0);
        for entry in table.chunks_exact(TABLE_ENTRY) {
            let (kind, width) = (usize::from(entry[0]), usize::from(u16::from_le_bytes([entry[1], entry[2]])));
            if kind <= before || !self.widths.get(kind)?.contains(&width) {
                return None;
            }
            before = kind;
            let end = begin + batch.entries * width;
            let numbers = value.get(begin..end)?;
            batch.columns[kind] = Some(Column { begin, width });
            let [.., ids, reasons] = self.special;
            begin = end;
            if let Some(which) = [ids, reasons].iter().position(|&one| one == kind) {
                let size = text_bytes(numbers)?;
                let texts = value.get(end..end + size)?;
                batch.is_ascii &= texts.is_ascii();
                batch.text_bytes[which] = size;
                begin = end + size;
            }
        }
        Some(begin)
    }
}

fn column_of<'a>(batch: &Batch, kind: usize, value: &'a [u8]) -> Option<&'a [u8]> {
    batch.columns[kind].as_ref().map(|column| &value[column.begin..column.begin + batch.entries * column.width])
}

/// Whether offsets strictly rise; those of a column that is not there are all zero.
fn are_rising(offsets: Option<&[u8]>, entries: usize) -> bool {
    let Some(offsets) = offsets else { return entries == 1 };
    let number = |raw: &[u8]| i64::from_le_bytes(raw.try_into().expect("eight bytes"));
    offsets.chunks_exact(8).map(number).is_sorted_by(|one, other| one < other)
}

/// The bytes of the texts that end where these numbers say; none where one ends before it begins.
fn text_bytes(ends: &[u8]) -> Option<usize> {
    let number = |raw: &[u8]| u32::from_le_bytes(raw.try_into().expect("four bytes")) as usize;
    let ends = ends.chunks_exact(4).map(number);
    ends.clone().is_sorted().then(|| ends.max().unwrap_or(0))
}
