//! The tags, comments and declarations of a page, as a parser of HTML reads them.

use memchr::{memchr, memchr_iter, memmem};

/// A part of a page that begins with `<`.
pub enum Token<'a> {
    /// A start tag.
    Start {
        /// Name as written.
        name: &'a str,
        /// The whole tag.
        tag: &'a str,
        /// Number of attributes.
        attributes: usize,
        /// Where it ends.
        end: usize,
    },
    /// An end tag.
    End {
        /// Name as written.
        name: &'a str,
        /// Number of attributes.
        attributes: usize,
        /// Where it ends.
        end: usize,
    },
    /// A comment, or a declaration in which the page ends; it may have no end.
    Comment {
        /// Where it ends.
        end: Option<usize>,
    },
    /// A declaration, or what is read as one.
    Declaration {
        /// With its brackets.
        written: &'a str,
        /// Where it ends.
        end: usize,
    },
    /// A tag in which the page ends.
    Unclosed {
        /// Where it begins.
        begin: usize,
        /// Number of attributes.
        attributes: usize,
    },
}

/// The tokens of a page, one after the other.
pub struct Tokens<'a> {
    html: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(html: &'a str) -> Self {
        Self { html, at: 0 }
    }

    /// Continue here: the content of some elements is not tags.
    pub fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The next token, none behind the last one.
    pub fn next(&self) -> Option<Token<'a>> {
        let bytes = self.html.as_bytes();
        memchr_iter(b'<', &bytes[self.at..]).find_map(|at| self.token(self.at + at))
    }

    /// The token that begins at a `<`.
    fn token(&self, start: usize) -> Option<Token<'a>> {
        let bytes = self.html.as_bytes();
        match bytes[start + 1..] {
            [b'a'..=b'z' | b'A'..=b'Z', ..] => Some(self.tag(start, start + 1)),
            [b'/', b'a'..=b'z' | b'A'..=b'Z', ..] => Some(self.tag(start, start + 2)),
            [b'!', b'-', b'-', ..] => Some(Token::Comment { end: comment_end(bytes, start + 4) }),
            [b'/', b'>', ..] => None,
            [b'/' | b'!' | b'?', ..] => Some(match memchr(b'>', &bytes[start..]) {
                Some(size) => Token::Declaration { written: &self.html[start..=start + size], end: start + size + 1 },
                None => Token::Comment { end: None },
            }),
            _ => None,
        }
    }

    /// The tag whose name begins here.
    fn tag(&self, start: usize, name: usize) -> Token<'a> {
        let bytes = self.html.as_bytes();
        let name_end =
            name + bytes[name..].iter().take_while(|byte| !matches!(byte, b'/' | b'>') && !is_space(**byte)).count();
        let (mut at, mut attributes) = (name_end, 0);
        loop {
            at += bytes[at..].iter().take_while(|byte| **byte == b'/' || is_space(**byte)).count();
            match attribute_end(bytes, at) {
                Some(end) => at = end,
                None => break,
            }
            attributes += 1;
        }
        if bytes.get(at) != Some(&b'>') {
            return Token::Unclosed { begin: start, attributes };
        }
        let (tag, name, end) = (&self.html[start..=at], &self.html[name..name_end], at + 1);
        if bytes[start + 1] == b'/' {
            return Token::End { name, attributes, end };
        }
        Token::Start { name, tag, attributes, end }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

/// Where the attribute ends that begins here; none if there is none, or the page ends in its value.
fn attribute_end(bytes: &[u8], start: usize) -> Option<usize> {
    let first = bytes.get(start)?;
    if matches!(first, b'/' | b'>') || is_space(*first) {
        return None;
    }
    let name =
        bytes[start + 1..].iter().take_while(|byte| !matches!(byte, b'/' | b'>' | b'=') && !is_space(**byte)).count();
    let name_end = start + 1 + name;
    let after_space = |at: usize| at + bytes[at..].iter().take_while(|byte| is_space(**byte)).count();
    let equals = after_space(name_end);
    if bytes.get(equals) != Some(&b'=') {
        return Some(name_end);
    }
    let value = after_space(equals + 1);
    match bytes.get(value)? {
        quote @ (b'"' | b'\'') => memchr(*quote, &bytes[value + 1..]).map(|size| value + 1 + size + 1),
        _ => Some(value + bytes[value..].iter().take_while(|byte| **byte != b'>' && !is_space(**byte)).count()),
    }
}

/// Where a comment ends, from behind its `<!--` on; `<!-->` is a whole one.
fn comment_end(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes[start..] {
        [b'>', ..] => return Some(start + 1),
        [b'-', b'>', ..] => return Some(start + 2),
        _ => {}
    }
    memchr_iter(b'>', &bytes[start..]).map(|size| start + size).find_map(|at| {
        let content = &bytes[start..at];
        (content.ends_with(b"--") || content.ends_with(b"--!")).then_some(at + 1)
    })
}

/// Where the end tag of a raw element begins, whose content begins here.
pub fn raw_end(html: &str, start: usize, name: &str) -> Option<usize> {
    match name {
        _ if name.eq_ignore_ascii_case("plaintext") => None,
        _ if name.eq_ignore_ascii_case("script") => script_end(html.as_bytes(), start),
        _ => {
            let bytes = html.as_bytes();
            let mut tags = memmem::find_iter(&bytes[start..], b"</").map(|at| start + at);
            tags.find(|&at| is_name(&bytes[at + 2..], name))
        }
    }
}

/// Whether text begins with a name, and the name ends there.
fn is_name(bytes: &[u8], name: &str) -> bool {
    let begin = bytes.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()));
    begin && bytes.get(name.len()).is_some_and(|byte| matches!(byte, b'/' | b'>') || is_space(*byte))
}

/// The same for a script; a script within a comment within it has an end tag of its own.
fn script_end(bytes: &[u8], mut start: usize) -> Option<usize> {
    let (mut in_comment, mut in_inner) = (false, false);
    loop {
        let at = start + bytes[start..].iter().position(|byte| matches!(byte, b'<' | b'-'))?;
        start = at + 1;
        let rest = &bytes[at..];
        if rest.starts_with(b"<!--") {
            in_comment = true;
            // Its dashes may be those of its end.
            start = at + 2;
        } else if rest.starts_with(b"-->") {
            (in_comment, in_inner) = (false, false);
            start = at + 3;
        } else if rest.starts_with(b"<") && is_name(&rest[1..], "script") {
            in_inner = in_comment;
        } else if rest.starts_with(b"</") && is_name(&rest[2..], "script") {
            if !in_inner {
                return Some(at);
            }
            in_inner = false;
        }
    }
}
