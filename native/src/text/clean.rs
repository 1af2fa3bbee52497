//! The optional steps of normalising, in their order: those before NFKC, and those after it.
//!
//! A token is one letter of the Vai script, which neither NFKC nor case folding changes and which almost no text has. It
//! makes one feature, the same for all tokens of its kind.
//!
//! The results may depend only on the text, the settings and `OpenCC`'s dictionaries, whose content the scheme names.

use std::borrow::Cow;

use super::addresses;
use super::edit::{Draft, Edit, Room};
use super::entities;
use super::folding::fold;
use super::halves;
use super::numbers;
use super::points;
use super::quotes;
use super::ranges::{IDEOGRAPHS, INVISIBLES, PICTURES, TRADITIONAL, WIDES};
use super::simplify::simplify;
use super::spacing;
use super::spam;
use super::tags;
use super::traits::Traits;
use crate::settings::{Normalisation, Treat};

/// The token of an address of a page.
pub const URL: char = '\u{a500}';
/// The token of an e-mail address.
const EMAIL: char = '\u{a501}';
/// The token of a user name.
pub const USER: char = '\u{a502}';
/// The token of a number.
pub const NUMBER: char = '\u{a503}';
/// The token of a picture.
pub const EMOJI: char = '\u{a504}';

/// Tokens between spaces.
const URL_APART: &str = " \u{a500} ";
const EMAIL_APART: &str = " \u{a501} ";
const USER_APART: &str = " \u{a502} ";
pub(super) const NUMBER_APART: &str = " \u{a503} ";

/// The names of tokens, as people are shown them.
pub const TOKENS: [(char, &str); 5] =
    [(URL, "<url>"), (EMAIL, "<email>"), (USER, "<user>"), (NUMBER, "<number>"), (EMOJI, "<emoji>")];

/// How often a text may have been escaped: feeds of HTML in XML have `&amp;nbsp;`.
const TIMES_ESCAPED: usize = 2;

/// A text after the steps before NFKC.
pub struct Cleaned<'a> {
    /// Half surrogates are joined, or spaces.
    pub text: Cow<'a, str>,
    /// Whether an address was replaced, or full-width letters, digits or signs of addresses became narrow.
    pub is_addressed: bool,
}

/// Takes the steps before NFKC, in the order of these lines.
pub fn before_nfkc<'a>(text: &'a [u8], steps: &Normalisation, room: &'a mut Room) -> Cleaned<'a> {
    let mut draft = Draft::of(text, room);
    if steps.entities {
        undo_entities(&mut draft);
    }
    // It holds until characters are folded: the steps before drop characters, or put ASCII or tokens in their place.
    let whole = halves::whole(text).filter(|_| !draft.is_changed());
    let mut has = whole.map_or_else(|| traits_of(draft.now()), |text| Traits::of(text.chars().map(u32::from)));
    if steps.invisible && has.has(INVISIBLES | PICTURES) {
        draft.take(spacing::drop_invisible);
    }
    if steps.quotes == Treat::Drop {
        draft.take(quotes::drop);
    }
    if steps.tags {
        tags::drop_all(&mut draft, false);
    }
    let is_addressed = replace_addresses(&mut draft, steps, has);
    if steps.emoji != Treat::Keep && has.has(PICTURES) {
        let token = if steps.emoji == Treat::Token { String::from(EMOJI) } else { String::new() };
        draft.take(|edit| spacing::replace_pictures(edit, &token));
    }
    if steps.fold && fold(&mut draft, has) {
        has = has.or(traits_of(draft.now()));
    }
    if steps.join_numbers {
        spacing::join_numbers(&mut draft);
    }
    if steps.rejoin && has.has(IDEOGRAPHS) {
        spacing::rejoin(&mut draft);
    }
    if steps.simplify && has.has(TRADITIONAL) {
        draft.take(halves::replace);
        simplify(&mut draft);
    }
    let text = match whole {
        Some(whole) if !draft.is_changed() => Cow::Borrowed(whole),
        _ => halves::join(draft.done()),
    };
    Cleaned { text, is_addressed }
}

fn traits_of(text: &[u8]) -> Traits {
    Traits::of(points::each(text).map(|(_, point)| point))
}

/// Takes the steps after NFKC and case folding: those against spam, and that of numbers if `numbers` asks for it.
///
/// White space stays single spaces, except that what stands for a number brings spaces of its own.
pub fn after_nfkc<'a>(text: &'a str, steps: &Normalisation, numbers: bool, room: &'a mut Room) -> Cow<'a, str> {
    let mut draft = Draft::of(text.as_bytes(), room);
    if steps.unspace {
        draft.take(spam::unspace);
    }
    if steps.lookalikes {
        spam::undo_lookalikes(&mut draft);
    }
    if steps.repeats {
        draft.take(spam::shorten_repeats);
    }
    if numbers && steps.numbers != Treat::Keep {
        draft.take(|edit| numbers::replace(edit, steps.numbers));
    }
    if draft.is_changed() { halves::join(draft.done()) } else { Cow::Borrowed(text) }
}

/// Returns the text in simplified characters.
pub fn simplified<'a>(text: &'a str, room: &'a mut Room) -> Cow<'a, str> {
    let mut draft = Draft::of(text.as_bytes(), room);
    draft.take(halves::replace);
    simplify(&mut draft);
    halves::join(draft.done())
}

/// Returns normalised text without `https://`, `www.` and the like before hosts.
pub fn without_schemes<'a>(text: &'a str, room: &'a mut Room) -> Cow<'a, str> {
    let mut draft = Draft::of(text.as_bytes(), room);
    draft.take(addresses::drop_schemes);
    halves::join(draft.done())
}

/// Returns plain text without tags, comments and entities of HTML, the targets of Markdown links, and what subtitles have
/// beside their text.
///
/// `entities`: entities are undone first. `keeps_lines`: the tag of a block leaves a line feed, not a space.
pub fn without_markup<'a>(
    text: &'a [u8],
    entities: bool,
    tags: bool,
    keeps_lines: bool,
    room: &'a mut Room,
) -> &'a [u8] {
    let mut draft = Draft::of(text, room);
    if entities {
        undo_entities(&mut draft);
    }
    if tags {
        tags::drop_all(&mut draft, keeps_lines);
    }
    draft.done()
}

/// Returns a text without what others wrote, where that is a step.
#[must_use]
pub fn without_quotes<'a>(text: &'a [u8], steps: &Normalisation, room: &'a mut Room) -> &'a [u8] {
    if steps.quotes == Treat::Keep {
        return text;
    }
    let mut draft = Draft::of(text, room);
    if steps.entities {
        undo_entities(&mut draft);
    }
    draft.take(quotes::drop);
    draft.done()
}

/// Replaces entities of HTML, escaped up to [`TIMES_ESCAPED`] times, by the characters that they stand for.
fn undo_entities(draft: &mut Draft) {
    for _ in 0..TIMES_ESCAPED {
        draft.take(entities::undo);
    }
}

/// Replaces addresses; returns whether there were any, or characters that became narrow.
fn replace_addresses(draft: &mut Draft, steps: &Normalisation, has: Traits) -> bool {
    let kept = (Treat::Keep, Treat::Keep, Treat::Keep);
    let is_narrowed = has.has(WIDES) && (steps.urls, steps.emails, steps.users) != kept;
    if is_narrowed {
        addresses::narrow(draft);
    }
    let mut replace = |treat, token, step: fn(&mut Edit, &str)| {
        treat != Treat::Keep && draft.take(|edit| step(edit, stand_in(treat, token)))
    };
    // Not `||`: each step is taken.
    is_narrowed
        | replace(steps.urls, URL_APART, addresses::replace_schemed)
        | replace(steps.urls, URL_APART, addresses::replace_hosts)
        | replace(steps.emails, EMAIL_APART, addresses::replace_emails)
        | replace(steps.users, USER_APART, addresses::replace_users)
}

/// What stands for an address or a number.
pub(super) fn stand_in(treat: Treat, token: &'static str) -> &'static str {
    if treat == Treat::Token { token } else { " " }
}
