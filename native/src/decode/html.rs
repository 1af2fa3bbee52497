//! HTML to text.
//!
//! The text of a page is its body without scripts, styles, hidden elements, readings and marks of notes. Block elements,
//! line breaks and table cells are separated from their surroundings; inline elements are not (`<b>w</b>ord` is one word).
//! The parser (html5ever) reads any input as browsers do: broken markup, entities, fragments without a body, comments.
//!
//! Some pages would take the parser time with the square of their length ([`bounded`]). Their tags are removed by a
//! plain loop instead ([`stripped`]). Which way is taken depends on the text alone.
//!
//! Nothing is ever fetched, and no function calls itself: a page may be nested as deeply as it likes.

mod bounded;
mod stripped;
mod tree;

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memchr2;

use crate::text::halves;

/// Makes the tables that are made once.
pub fn load() {
    LazyLock::force(&tree::DISPLAYS);
}

/// The text of a page or of a fragment; each block is on its own line.
///
/// `marks_quotes`: block quotations keep their tags, by which the step of quotes finds them.
#[must_use]
pub fn text_of(html: &[u8], marks_quotes: bool) -> Cow<'_, [u8]> {
    #[cfg(test)]
    crate::panics::planted::reached("html", html);
    if memchr2(b'<', b'&', html).is_none() {
        return Cow::Borrowed(html);
    }
    let html = halves::join(html);
    let text = tree::text_of(&html, marks_quotes).unwrap_or_else(|| stripped::text_of(&html));
    Cow::Owned(text.into_bytes())
}
