//! What each character is by Unicode 14, and what it becomes when a text is normalised.
//!
//! Two kinds of characters become the same whatever their neighbours are: a *plain* one becomes an ASCII letter or
//! digit, and one that *separates* becomes what belongs to no word. All others, but ideographs, need a closer look,
//! together with the characters around them.

include!(concat!(env!("OUT_DIR"), "/characters.rs"));

/// The ideographs that jieba knows.
pub const HAN_FIRST: char = '\u{4e00}';
/// The last one.
pub const HAN_LAST: char = '\u{9fd5}';
/// How many they are.
pub const HAN_COUNT: usize = HAN_LAST as usize - HAN_FIRST as usize + 1;
/// Bytes of an ideograph in UTF-8.
pub const HAN_BYTES: usize = HAN_FIRST.len_utf8();
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
        let point = character as usize;
        Self(BLOCKS[usize::from(INDEX[point / BLOCK])][point % BLOCK])
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
        self.has(ASSIGNED)
    }

    /// An ideograph that jieba knows.
    #[must_use]
    pub fn is_han(self) -> bool {
        self.has(HAN)
    }

    /// A letter or digit of any script but an ideograph that jieba knows.
    #[must_use]
    pub fn is_letter(self) -> bool {
        self.has(LETTER)
    }

    /// A letter or digit of any script: `[^\W_]` in a regular expression of Python.
    #[must_use]
    pub fn is_alphanumeric(self) -> bool {
        self.has(LETTER | HAN)
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

    /// Whether words of such characters are written without spaces, and jieba does not know them.
    #[must_use]
    pub fn has_no_spaces(self) -> bool {
        self.has(NO_SPACES)
    }

    /// Whether it is a unit of short text by itself: an ideograph, or a character that is written without spaces.
    #[must_use]
    pub fn is_single(self) -> bool {
        self.has(HAN | NO_SPACES)
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
    let number = (character as usize).wrapping_sub(HAN_FIRST as usize);
    (number < HAN_COUNT).then_some(number)
}

/// White space, as Python has it: `\s`, and where `split()` splits.
#[must_use]
pub fn is_white(character: char) -> bool {
    matches!(character,
        '\t'..='\r' | '\x1c'..='\x20' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}'
            | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}
