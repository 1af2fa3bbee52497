//! Packs properties of code points (`unicode14.txt`) into blocks, of which most are equal.

use std::collections::HashMap;
use std::fmt::Write;

const CODE_POINTS: usize = 0x11_0000;
const BLOCK: usize = 128;

/// The source of the tables: a constant for the bit of each property, the number of the block of each 128 code points, and
/// the blocks.
pub fn source() -> String {
    let (mut flags, mut source) = (vec![0_u8; CODE_POINTS], String::new());
    for (bit, line) in include_str!("unicode14.txt").lines().enumerate() {
        let (name, runs) = line.split_once(' ').expect("a name and lengths");
        writeln!(source, "const {}: u8 = {};", name.to_uppercase(), 1 << bit).expect("a string grows");
        let mut at = 0;
        for (number, length) in runs.split(' ').enumerate() {
            let end = at + usize::from_str_radix(length, 36).expect("a number in base 36");
            if number % 2 == 1 {
                flags[at..end].iter_mut().for_each(|one| *one |= 1 << bit);
            }
            at = end;
        }
        assert_eq!(at, CODE_POINTS, "the runs of {name} are those of all code points");
    }
    let (mut numbers, mut index, mut blocks) = (HashMap::new(), Vec::new(), Vec::new());
    for block in flags.chunks_exact(BLOCK) {
        index.push(*numbers.entry(block).or_insert_with(|| {
            blocks.push(block);
            blocks.len() - 1
        }));
    }
    let (indices, count) = (index.len(), blocks.len());
    writeln!(source, "const BLOCK: usize = {BLOCK};").expect("a string grows");
    writeln!(source, "static INDEX: [u16; {indices}] = {index:?};").expect("a string grows");
    writeln!(source, "static BLOCKS: [[u8; BLOCK]; {count}] = {blocks:?};").expect("a string grows");
    source
}
