//! Properties of the code points that Unicode 14.0.0 assigns, as Python 3.11 knows them.
//!
//! A text must give the same log entry whatever version of Unicode a program knows, so a newer character has no
//! property.
//! Half surrogates count as unassigned.

include!(concat!(env!("OUT_DIR"), "/unicode14.rs"));

/// The properties of a code point.
#[derive(Clone, Copy)]
pub struct Properties(u8);

impl Properties {
    /// Those of a code point.
    #[must_use]
    pub fn of(point: u32) -> Self {
        let point = point as usize;
        let block = INDEX.get(point / BLOCK).map_or(0, |&block| usize::from(block));
        Self(BLOCKS[block][point % BLOCK])
    }

    /// Whether Unicode 14 has the character.
    #[must_use]
    pub fn is_assigned(self) -> bool {
        self.0 & ASSIGNED != 0
    }

    /// Whether it is a letter or a digit: Python's `isalnum`.
    #[must_use]
    pub fn is_alphanumeric(self) -> bool {
        self.0 & ALPHANUMERIC != 0
    }

    /// Whether it is a decimal digit: Python's `isdecimal`, and `\d`.
    #[must_use]
    pub fn is_decimal(self) -> bool {
        self.0 & DECIMAL != 0
    }

    /// Whether it is a combining mark that belongs to a word; enclosing marks do not.
    #[must_use]
    pub fn is_mark(self) -> bool {
        self.0 & MARK != 0
    }

    /// Whether it is white space: Python's `\s`, which `isspace` and `split` agree with.
    #[must_use]
    pub fn is_white(self) -> bool {
        self.0 & WHITE != 0
    }
}
