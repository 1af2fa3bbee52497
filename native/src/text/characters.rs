//! What each character is by Unicode 14, and what it becomes when a text is normalised.
//!
//! Two kinds of characters become the same whatever their neighbours are: a *plain* one becomes an ASCII letter or
//! digit, and one that *separates* becomes what belongs to no word. All others, but ideographs, need a closer look,
//! together with the characters around them.
//!
//! A text must give the same log entry whatever version of Unicode a program knows. So what Unicode 14 does not have is
//! no character, and becomes a space. Half surrogates are no characters either.

use super::ranges::{
    ANEW, BLOCK, DECIMAL, HAN, HAN_BIT, HAN_COUNT, LETTER, MARK, NO_SPACES, SAME, SEPARATES, UNASSIGNED, WHITE,
};

include!(concat!(env!("OUT_DIR"), "/characters.rs"));

/// Bytes of an ideograph that jieba knows, in UTF-8.
pub const HAN_BYTES: usize = 3;
/// What the low bits of a class hold: an ASCII character.
const ASCII: u16 = 0x7f;

/// What a character is.
#[derive(Clone, Copy)]
pub struct Class(u16);

impl Class {
    /// The class of a character.
    #[must_use]
    #[inline]
    pub fn of(character: char) -> Self {
        Self::of_point(u32::from(character))
    }

    /// The class of a code point.
    #[must_use]
    #[inline]
    pub fn of_point(point: u32) -> Self {
        let point = point as usize;
        Self(INDEX.get(point / BLOCK).map_or(UNASSIGNED, |&block| BLOCKS[usize::from(block)][point % BLOCK]))
    }

    /// The ASCII character that it becomes whatever its neighbours are.
    #[must_use]
    pub fn ascii(self) -> Option<u8> {
        let ascii = (self.0 & ASCII) as u8;
        (ascii != 0).then_some(ascii)
    }

    /// The ASCII letter or digit that it becomes whatever its neighbours are.
    #[must_use]
    pub fn plain(self) -> Option<u8> {
        self.ascii().filter(u8::is_ascii_alphanumeric)
    }

    /// Whether it becomes nothing that belongs to a word, whatever its neighbours are.
    #[must_use]
    pub fn separates(self) -> bool {
        self.has(SEPARATES)
    }

    /// Whether the characters before it are normalised as if the text ended there.
    #[must_use]
    pub fn begins_anew(self) -> bool {
        self.has(ANEW)
    }

    /// Whether it stays as it is where neither it nor the next character depends on others.
    #[must_use]
    pub fn stays(self) -> bool {
        self.has(SAME)
    }

    /// Whether Unicode 14 has it.
    #[must_use]
    pub fn is_assigned(self) -> bool {
        self.0 != UNASSIGNED
    }

    /// An ideograph that jieba knows.
    #[must_use]
    pub fn is_han(self) -> bool {
        self.has(HAN_BIT)
    }

    /// A letter or digit of any script but an ideograph that jieba knows.
    #[must_use]
    pub fn is_letter(self) -> bool {
        self.has(LETTER)
    }

    /// A letter or digit of any script: `[^\W_]` in a regular expression of Python.
    #[must_use]
    pub fn is_alphanumeric(self) -> bool {
        self.has(LETTER | HAN_BIT)
    }

    /// A combining mark that belongs to a word; enclosing marks do not.
    #[must_use]
    pub fn is_mark(self) -> bool {
        self.has(MARK)
    }

    /// A decimal digit of any script: `\d` in a regular expression of Python.
    #[must_use]
    pub fn is_decimal(self) -> bool {
        self.has(DECIMAL)
    }

    /// White space, as Python has it: `\s`, and where `split()` splits.
    #[must_use]
    pub fn is_white(self) -> bool {
        self.has(WHITE)
    }

    /// Whether words of such characters are written without spaces, and jieba does not know them.
    #[must_use]
    pub fn has_no_spaces(self) -> bool {
        self.has(NO_SPACES)
    }

    /// Whether it is a unit of short text by itself: an ideograph, or a character that is written without spaces.
    #[must_use]
    pub fn is_single(self) -> bool {
        self.has(HAN_BIT | NO_SPACES)
    }

    /// Whether a word of short text may begin with it.
    #[must_use]
    pub fn begins_unit(self) -> bool {
        self.is_letter() && !self.has_no_spaces()
    }

    fn has(self, traits: u16) -> bool {
        self.0 & traits != 0
    }
}

/// The number of an ideograph that jieba knows.
#[must_use]
pub fn han_number(character: char) -> Option<usize> {
    let number = u32::from(character).wrapping_sub(*HAN.start()) as usize;
    (number < HAN_COUNT).then_some(number)
}

/// Whether a text has an arrow, a mathematical symbol, a drawing or an emoji.
#[must_use]
pub fn has_symbol(text: &str) -> bool {
    text.chars().any(|character| matches!(u32::from(character), 0x2190..=0x2bff | 0x1_f000..=0x1_faff))
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn halves_and_what_unicode_14_does_not_have_are_no_characters() {
        for point in (0xd800..=0xdfff).chain([0x378, 0x11_0000, u32::MAX]) {
            let class = Class::of_point(point);
            let is_any = class.is_assigned() || class.is_white() || class.is_alphanumeric() || class.is_mark();
            assert!(!is_any && class.separates(), "{point:x}");
        }
    }
}
