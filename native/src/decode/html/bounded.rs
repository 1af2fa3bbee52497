//! Parses a page unless the parser's work for it exceeds a limit.
//!
//! The rules of HTML make a parser slow on pages built for it, for three reasons:
//!
//! * Most tags search all open elements, or all formatting elements (`<b>`, `<font>`) and their attributes.
//! * Formatting elements that a block leaves open are made again in every following block: a thousand of them before a
//!   thousand paragraphs make a million elements out of 20 kB.
//! * Each attribute of a tag is compared with all other attributes of the tag, be it a start tag or an end tag.
//!
//! So three numbers are limited. The first two are counted after each token, and the standard says what they are: what
//! the parser has to know at the time, and what it has made. No token makes more than it has to know, so the work up to
//! the limit is bounded. Attributes are counted in a long tag before the parser gets the rest of it.
//!
//! Whether a page is parsed depends only on its text.

use std::cell::Cell;

use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink};
use memchr::memchr;

use super::tree::{Handle, Page, Sink};

/// Most elements that a parser may have to know at a time, and their attributes: those that are open, the formatting
/// elements that it would make again, the head and the form. Browsers stop at some 500 open ones; the worst megabyte
/// takes 3.5 s, for formatting elements with many attributes.
const MOST_HELD: usize = 1_000;
/// Most elements and attributes that a parser may make beside those that a page of this length can write: 0.4 s and
/// 90 MB.
const MOST_UNWRITTEN: usize = 250_000;
/// Most attributes of one tag: 2 ms. A long value with many words is one attribute.
const MOST_ATTRIBUTES: usize = 1_000;
/// Bytes of an attribute (its name and a separator), the shortest of what a page writes.
const LEAST_BYTES: usize = 2;
/// Bytes after which a tag's attributes are counted: a shorter one cannot have too many.
const LONG_TAG: usize = LEAST_BYTES * MOST_ATTRIBUTES;

/// What ends without a token: an end tag without a name, an empty section in a picture, a line feed behind a carriage
/// return.
const SILENT: [&str; 3] = ["</>", "<![CDATA[]]>", "\n"];

/// The tree of a page; none of a page that exceeds a limit.
///
/// The parser gets the page in pieces: each ends with a `<`, or where a tag that has no end yet becomes long. A piece
/// that yields no token is part of a tag, a comment, a declaration or a reference, which begins where such pieces do,
/// unless it is over (`SILENT`).
pub fn parsed(html: &str) -> Option<Page> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    // A mark of the order of bytes is a character like others, because there are no bytes any more.
    let options = TokenizerOpts { discard_bom: false, ..TokenizerOpts::default() };
    let parser = Tokenizer::new(Bounded::new(TreeBuilder::new(Sink::default(), tree_builder), html.len()), options);
    let input = BufferQueue::default();
    let (mut begin, mut at) = (0, 0);
    while at < html.len() {
        let long = begin + LONG_TAG;
        let end = piece_end(html, at, if at < long { long } else { at + LONG_TAG });
        parser.sink.has_token.set(false);
        input.push_back(StrTendril::from_slice(&html[at..end]));
        // It stops behind each script.
        while !input.is_empty() {
            _ = parser.feed(&input);
        }
        let is_over = html[begin..end].strip_suffix('<').is_some_and(|part| SILENT.contains(&part));
        if parser.sink.has_token.get() || is_over {
            begin = end - usize::from(html[..end].ends_with('<'));
        } else if (at..end).contains(&(long - 1)) && attributes(&html.as_bytes()[begin..]) > MOST_ATTRIBUTES {
            return None;
        }
        if parser.sink.is_beyond.get() {
            return None;
        }
        at = end;
    }
    parser.end();
    (!parser.sink.is_beyond.get()).then(|| parser.sink.builder.sink.finish())
}

/// Where a piece ends that begins here: behind the first `<`, or at the end of the character at most.
fn piece_end(html: &str, at: usize, most: usize) -> usize {
    let most = (most..html.len()).find(|&end| html.is_char_boundary(end)).unwrap_or(html.len());
    memchr(b'<', &html.as_bytes()[at..most]).map_or(most, |size| at + size + 1)
}

/// Number of attributes of a tag that begins here, whether it has an end or not; none of what else yields no token yet.
fn attributes(tag: &[u8]) -> usize {
    let count = |at: usize, is_part: fn(u8) -> bool| at + tag[at..].iter().take_while(|&&byte| is_part(byte)).count();
    let name = 1 + usize::from(tag.get(1) == Some(&b'/'));
    if tag[0] != b'<' || !tag.get(name).is_some_and(u8::is_ascii_alphabetic) {
        return 0;
    }
    let mut at = count(name, |byte| !is_space(byte) && !matches!(byte, b'/' | b'>'));
    let mut attributes = 0;
    loop {
        at = count(at, |byte| is_space(byte) || byte == b'/');
        if at == tag.len() || tag[at] == b'>' {
            return attributes;
        }
        attributes += 1;
        // The first character of a name may be any.
        let name_end = count(at + 1, |byte| !is_space(byte) && !matches!(byte, b'/' | b'>' | b'='));
        let equals = count(name_end, is_space);
        if tag.get(equals) != Some(&b'=') {
            at = name_end;
            continue;
        }
        let value = count(equals + 1, is_space);
        at = match tag.get(value) {
            Some(&quote @ (b'"' | b'\'')) => {
                memchr(quote, &tag[value + 1..]).map_or(tag.len(), |size| value + 1 + size + 1)
            }
            _ => count(value, |byte| !is_space(byte) && byte != b'>'),
        };
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

/// What the tokens of a page go through.
struct Bounded {
    builder: TreeBuilder<Handle, Sink>,
    most_made: usize,
    /// Whether there was a token since it was last asked.
    has_token: Cell<bool>,
    is_beyond: Cell<bool>,
}

impl Bounded {
    fn new(builder: TreeBuilder<Handle, Sink>, bytes: usize) -> Self {
        let most_made = bytes / LEAST_BYTES + MOST_UNWRITTEN;
        Self { builder, most_made, has_token: Cell::new(false), is_beyond: Cell::new(false) }
    }
}

impl TokenSink for Bounded {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        if matches!(token, Token::ParseError(_)) {
            return TokenSinkResult::Continue;
        }
        self.has_token.set(true);
        let result = self.builder.process_token(token, line);
        let (made, held) = self.builder.sink.sizes();
        if made > self.most_made || held > MOST_HELD {
            self.is_beyond.set(true);
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG_TAG, MOST_ATTRIBUTES, attributes, parsed};

    #[test]
    fn attributes_are_counted_to_the_end_of_their_tag() {
        let tags = [
            ("<a>b c", 0),
            ("</a b c='>' d>e f", 3),
            ("<a/b/ /c =d e= \"f g\"h=i/j", 4),
            ("<a =b==c>d", 1),
            ("<a b", 1),
            ("<a b='c d", 1),
            ("<a b c=", 2),
            ("<!--a b", 0),
            ("</3 a b", 0),
            ("<", 0),
            ("aa b c", 0),
        ];
        for (tag, count) in tags {
            assert_eq!(attributes(tag.as_bytes()), count, "{tag}");
        }
    }

    #[test]
    fn what_stands_before_a_tag_hides_none_of_its_attributes() {
        let tag = format!("<br {}>", "a ".repeat(MOST_ATTRIBUTES + 1));
        for before in ["</>", "</></>", "a</>", "<svg><![CDATA[]]>", "<svg><![CDATA[]]></>"] {
            assert!(parsed(&(before.to_owned() + &tag)).is_none(), "{before}");
        }
        for shift in LONG_TAG - 4..LONG_TAG + 4 {
            assert!(parsed(&("x".repeat(shift) + "\r\n" + &tag)).is_none(), "{shift}");
        }
    }

    #[test]
    fn long_values_are_not_made_again_and_again() {
        let page = |bytes: usize| format!("<p><font style='{}'>{}", "a".repeat(bytes), "<p>x".repeat(1_000));
        assert!(parsed(&page(1_000)).is_some());
        assert!(parsed(&page(10_000)).is_none());
    }

    #[test]
    fn words_behind_a_long_reference_are_no_attributes() {
        let words = "a ".repeat(2 * MOST_ATTRIBUTES);
        for reference in ["&", "&#x"] {
            assert!(parsed(&format!("<p>{reference}{}{words}", "a".repeat(3 * LONG_TAG))).is_some());
        }
    }

    #[test]
    fn a_tag_may_be_long_and_have_any_place_in_its_pieces() {
        for shift in LONG_TAG - 4..LONG_TAG + 4 {
            let before = "中".repeat(shift / 3) + &"x".repeat(shift % 3);
            for (count, is_parsed) in [(MOST_ATTRIBUTES, true), (MOST_ATTRIBUTES + 1, false)] {
                let page = format!("{before}<i>{before}</i {}", "a ".repeat(count));
                assert_eq!(parsed(&page).is_some(), is_parsed, "{shift}");
                assert_eq!(parsed(&(page + ">")).is_some(), is_parsed, "{shift}");
            }
        }
    }
}
