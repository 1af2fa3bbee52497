//! Forms: which template a text is filled in from, and the numbers that are filled in.
//!
//! Two notices from one template have most of their words in common, and differ in facts: "flight 1742 is delayed by 40
//! minutes". A form has two parts that tell these from a copy with a few edits:
//!
//! * The *frame*: the words of grammar of the text, in order: the characters of [`GRAMMAR`], and the common words of other
//!   languages. Facts are put in between and leave them alone; an edit of the wording seldom does.
//! * The *numbers*: all digits of the text, in order.
//!
//! It is made of the text as short text up to NFKC. A text has no form if it has no digits, fewer than [`LEAST_FRAME`]
//! words of grammar, or more than [`MOST_LETTERS`] letters.

use std::collections::HashSet;
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::features::weights::{STOP_WORDS, common_words};
use crate::text::characters::{Class, han_number};
use crate::text::clean;
use crate::text::ranges::HAN_COUNT;

/// Letters beyond which a text has no form: if its numbers alone differ, it is a new edition of one text.
pub const MOST_LETTERS: usize = 384;
/// A frame of fewer words is that of many texts.
const LEAST_FRAME: usize = 2;
/// Characters of a word: one of a single letter is part of a code as often as a word of grammar.
const SHORTEST_WORD: usize = 2;

/// Chinese words of one character: particles, prepositions, conjunctions, pronouns, adverbs, verbs that jieba's dictionary
/// has often (3,000 times and more), and hardly (one in fifty) within names of people, places and organisations.
const GRAMMAR: &str = "了的等着般呢吧吗么啦呀哩嘛在为对与从把被由用给至跟按据除替间而但并或既他我这你她它各该谁另哪某怎咱啥\
    不也就还又将只已却更再便仅乱似皆岂确\
    是有说到要去出看没走做让听叫吃即像死住称受带请倒找写坐讲送怕急待尽喝瞧罢需呈算靠跳惊搞供活敢兼辖卖哭伤退睡骂挂抓具拍降停弄追读冒忘\
    赴烧翻逃决弹摸扑赶炒抬摆借负呆唱玩吓祭恨爬持围插隔撞犯害陪躲逼烤咬躺跪编遭砍败哼夺毁";
/// Common words that names have too: Las Vegas, Li Na, the month of May.
const NAMES: &str = "al da de del di dos du el la las le les li lo los ma may su van von will";
/// Letters that stand for addresses and the like.
const TOKENS: std::ops::RangeInclusive<char> = clean::URL..=clean::EMOJI;

/// Whether each ideograph is one of these.
pub(crate) static IS_GRAMMAR: LazyLock<[bool; HAN_COUNT]> = LazyLock::new(|| {
    let mut is_grammar = [false; HAN_COUNT];
    GRAMMAR.chars().filter_map(han_number).for_each(|number| is_grammar[number] = true);
    is_grammar
});
pub(crate) static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let names: HashSet<&str> = NAMES.split(' ').collect();
    let words = STOP_WORDS.iter().copied().chain(common_words());
    words.filter(|word| !names.contains(word) && word.chars().count() >= SHORTEST_WORD).collect()
});

/// The form of a text, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Words of grammar, separated by spaces; empty without a form.
    pub frame: String,
    /// Digits; empty without a form.
    pub numbers: String,
}

impl Form {
    /// The form of a text that is normalised as short text up to NFKC.
    #[must_use]
    pub fn of(normalised: &str) -> Self {
        let (mut letters, mut numbers) = (0, String::new());
        for one in normalised.chars() {
            let class = Class::of(one);
            letters += usize::from(class.is_alphanumeric() && !TOKENS.contains(&one));
            if class.is_decimal() {
                numbers.push(one);
            }
        }
        if letters > MOST_LETTERS || numbers.is_empty() {
            return Self::default();
        }
        let (mut words, mut begin) = (Vec::new(), 0);
        let word = |begin, end| Some(&normalised[begin..end]).filter(|word| !word.is_empty() && WORDS.contains(word));
        for (at, one) in normalised.char_indices() {
            let class = Class::of(one);
            if class.is_letter() && !class.is_decimal() {
                continue;
            }
            words.extend(word(begin, at));
            begin = at + one.len_utf8();
            if han_number(one).is_some_and(|number| IS_GRAMMAR[number]) {
                words.push(&normalised[at..begin]);
            }
        }
        words.extend(word(begin, normalised.len()));
        if words.len() < LEAST_FRAME { Self::default() } else { Self { frame: words.join(" "), numbers } }
    }

    /// Appends the hash of the frame, then that of the numbers.
    ///
    /// A hash is the low half of XXH3-64 of the UTF-8 bytes with the scheme's seed, little-endian, and 1 if that is 0; it is
    /// 0 without a form.
    pub fn pack(&self, seed: u64, packed: &mut Vec<u8>) {
        for part in [&self.frame, &self.numbers] {
            let hash = if part.is_empty() { 0 } else { (xxh3_64_with_seed(part.as_bytes(), seed) as u32).max(1) };
            packed.extend_from_slice(&hash.to_le_bytes());
        }
    }
}
