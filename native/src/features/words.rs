//! Splits a text into runs of ideographs, which a segmenter cuts further, and other words.
//!
//! A run is a maximal run of U+4E00 to U+9FD5, the ideographs that jieba knows. Another word is a maximal run of other
//! letters and digits of the normalised text; *marked* words keep their combining marks (vowels of Thai and Hindi are
//! marks), but begin with a letter or digit. All other characters separate.
//!
//! Most of what normalising does is lost when a text is split: a full-width comma separates words as an ASCII comma does.
//! So only words with a character that needs a closer look are normalised, each alone: nothing composes with what is
//! between words. If that makes ideographs (of compatibility forms), the whole text is normalised.

use std::ops::Range;

use crate::segment::dictionary::Dictionary;
use crate::settings::Treat;
use crate::text::characters::{Class, HAN_BYTES, han_number};
use crate::text::clean;
use crate::text::normalise::normalise;
use crate::text::numbers::is_number;
use crate::text::ranges::HAN;

/// Most characters of a run of ideographs; a longer run is cut, as the reference segmenter takes time with the square of it.
const MAX_HAN_RUN: usize = 4096;
/// Characters of the parts of words that are written without spaces: about a word of these languages.
const UNSPACED_SIZE: usize = 4;

/// How words are read.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Words keep marks, and runs without spaces are cut into fours.
    pub marked: bool,
    /// What becomes of words of digits.
    pub numbers: Treat,
}

/// A run of ideographs.
#[derive(Clone, Copy, Debug)]
struct HanRun {
    /// The end of its codes.
    end: usize,
    /// Where the text has it, in bytes.
    offset: usize,
}

/// The words of a part of a text; cleared and filled for each.
#[derive(Default)]
pub struct Words {
    /// The text that the runs of ideographs are in.
    source: String,
    /// The codes of all ideographs, and of these the runs.
    codes: Vec<u16>,
    han: Vec<HanRun>,
    /// The other words, joined, and the end of each in bytes.
    others: String,
    ends: Vec<usize>,
    /// The code points of all ideographs, then those of the other words.
    letters: Vec<u32>,
    other_letters: Vec<u32>,
}

impl Words {
    /// Splits a text before NFKC.
    pub fn split(&mut self, text: String, rule: Rule, dictionary: &Dictionary) {
        self.clear();
        if self.split_plain(&text, rule, dictionary) {
            self.source = text;
            self.letters.append(&mut self.other_letters);
        } else {
            self.split_normalised(normalise(&text), rule, dictionary);
        }
    }

    /// Splits a text that is normalised.
    pub fn split_normalised(&mut self, text: String, rule: Rule, dictionary: &Dictionary) {
        self.clear();
        self.read_normalised(&text, rule, dictionary);
        self.source = text;
        self.letters.append(&mut self.other_letters);
    }

    /// The text that the runs of ideographs are in.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The ideographs, then the letters and digits of the other words.
    #[must_use]
    pub fn letters(&self) -> &[u32] {
        &self.letters
    }

    /// Of each run of ideographs its codes, and where the text has it, in bytes.
    pub fn han_runs(&self) -> impl Iterator<Item = (&[u16], usize)> {
        let begins = std::iter::once(0).chain(self.han.iter().map(|run| run.end));
        begins.zip(&self.han).map(|(begin, run)| (&self.codes[begin..run.end], run.offset))
    }

    /// The other words, in order.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(&begin, &end)| &self.others[begin..end])
    }

    fn clear(&mut self) {
        let Self { source, codes, han, others, ends, letters, other_letters } = self;
        source.clear();
        codes.clear();
        han.clear();
        others.clear();
        ends.clear();
        letters.clear();
        other_letters.clear();
    }

    /// Splits a text; returns false where all of it has to be normalised.
    fn split_plain(&mut self, text: &str, rule: Rule, dictionary: &Dictionary) -> bool {
        // A word that has begun, and whether it needs a closer look.
        let (mut begin, mut is_plain) = (0, true);
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let run = han_run(&text[at..]);
            if run.is_empty() && !Class::of(first).separates() {
                is_plain &= Class::of(first).plain().is_some();
                at += first.len_utf8();
                continue;
            }
            if !self.end_word(&text[begin..at], is_plain, rule) {
                return false;
            }
            self.add_han(at, run, dictionary);
            at += run.len().max(first.len_utf8());
            (begin, is_plain) = (at, true);
        }
        self.end_word(&text[begin..], is_plain, rule)
    }

    /// Adds the words of what is between two characters that separate; returns false where ideographs come out.
    fn end_word(&mut self, word: &str, is_plain: bool, rule: Rule) -> bool {
        if word.is_empty() {
            return true;
        }
        if !is_plain {
            let normalised = normalise(word);
            if normalised.contains(|one| han_number(one).is_some()) {
                return false;
            }
            self.add_words(&normalised, rule);
        } else if rule.numbers == Treat::Keep {
            let begin = self.others.len();
            self.others.extend(word.chars().filter_map(|one| Class::of(one).plain()).map(char::from));
            self.other_letters.extend(self.others.as_bytes()[begin..].iter().copied().map(u32::from));
            self.ends.push(self.others.len());
        } else {
            let word: String = word.chars().filter_map(|one| Class::of(one).plain()).map(char::from).collect();
            self.add_word(&word, rule);
        }
        true
    }

    fn read_normalised(&mut self, text: &str, rule: Rule, dictionary: &Dictionary) {
        let mut at = 0;
        while let Some(begin) = text[at..].find(|one| han_number(one).is_some()) {
            self.add_words(&text[at..at + begin], rule);
            let run = han_run(&text[at + begin..]);
            self.add_han(at + begin, run, dictionary);
            at += begin + run.len();
        }
        self.add_words(&text[at..], rule);
    }

    /// Adds the words of normalised text that has no ideographs.
    fn add_words(&mut self, text: &str, rule: Rule) {
        let continues = |one: char| Class::of(one).is_letter() || (rule.marked && Class::of(one).is_mark());
        for word in text.split(|one| !continues(one)) {
            // Marks at the beginning belong to no word.
            self.add_word(word.trim_start_matches(|one| !Class::of(one).is_letter()), rule);
        }
    }

    fn add_word(&mut self, word: &str, rule: Rule) {
        match rule.numbers {
            Treat::Drop if is_number(word) => return,
            Treat::Token if is_number(word) => {
                return self.add_word(&String::from(clean::NUMBER), Rule { numbers: Treat::Keep, ..rule });
            }
            _ => {}
        }
        self.other_letters.extend(word.chars().map(u32::from));
        if !rule.marked || word.is_ascii() {
            return self.add_part(word);
        }
        let characters: Vec<char> = word.chars().collect();
        let has_no_spaces = |one: &char| Class::of(*one).has_no_spaces();
        for part in characters.chunk_by(|one, other| has_no_spaces(one) == has_no_spaces(other)) {
            let size = if has_no_spaces(&part[0]) { UNSPACED_SIZE.min(part.len()) } else { part.len() };
            for window in part.windows(size) {
                self.others.extend(window);
                self.ends.push(self.others.len());
            }
        }
    }

    fn add_part(&mut self, part: &str) {
        if !part.is_empty() {
            self.others.push_str(part);
            self.ends.push(self.others.len());
        }
    }

    fn add_han(&mut self, offset: usize, run: &str, dictionary: &Dictionary) {
        for (number, part) in run.as_bytes().chunks(MAX_HAN_RUN * HAN_BYTES).enumerate() {
            let points = part.chunks_exact(HAN_BYTES).map(han_point);
            self.letters.extend(points.clone());
            self.codes.extend(points.map(|point| dictionary.code(point)));
            self.han.push(HanRun { end: self.codes.len(), offset: offset + number * MAX_HAN_RUN * HAN_BYTES });
        }
    }
}

/// Where a word of a run is, in bytes.
#[must_use]
pub fn bytes_of(offset: usize, word: &Range<usize>) -> Range<usize> {
    offset + HAN_BYTES * word.start..offset + HAN_BYTES * word.end
}

/// The ideographs that a text begins with.
fn han_run(text: &str) -> &str {
    let is_han = |three: &[u8]| (0xE4..=0xE9).contains(&three[0]) && HAN.contains(&han_point(three));
    let count = text.as_bytes().chunks_exact(HAN_BYTES).take_while(|three| is_han(three)).count();
    &text[..count * HAN_BYTES]
}

/// The code point of three bytes.
fn han_point(three: &[u8]) -> u32 {
    let [first, second, third] = [three[0], three[1], three[2]].map(u32::from);
    (first & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
}
