//! Drops what others wrote: quoted lines and passages, and the mails and posts that a text answers or passes on.
//!
//! * **Lines that begin with `>`**, with white space before it, and more of it for what was quoted already. A block of such
//!   lines is no quote without a letter (`> 5`), or if all of them begin with `>>>`, as sessions of Python do; nor is a line
//!   with punctuation right behind the sign (`>_<`).
//! * **Block quotations** between their tags, which go in any case.
//!
//!   Articles have both in their midst, of their own making: there these two are quotes only if the line before them says
//!   who wrote them (`On Tuesday Ann wrote:`). At the beginning and the end of a text they need no such heading.
//! * **Passages** between `[quote]` and `[/quote]`.
//! * **Posts** behind the heading of a forum (`引用 @x 的发言：`), up to the next empty line.
//! * **Tails**, up to the end of the text: `//@name:` and all behind it, as Weibo passes posts on; a block of
//!   `From:`, `Sent:`, `To:` and `Subject:` and its like in other languages, with the line of dashes before it; a line with
//!   an address and a time of day, and a colon at its end.
//!
//! Where next to nothing of its own remains ([`LEAST`]), a text is taken whole: so a quote cannot hide what it says, and one
//! that is passed on is a copy.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use memchr::{memchr, memchr_iter, memchr2, memchr2_iter, memchr3};

use super::characters::Class;
use super::edit::Edit;
use super::points::{self, MOST_BYTES};
use super::tags::{name_of, tag_end};

/// Least letters that a text has of its own; an ideograph counts as [`DENSE`] letters. Of comments of fewer, 7 % and more
/// have the letters of another one; of 36 and more, 1 %.
pub const LEAST: usize = 24;
const DENSE: usize = 3;
/// From here on characters stand for syllables and words: Hangul, kana, ideographs.
const FIRST_DENSE: u32 = 0x1100;
/// Most characters of a line of a heading, of the heading of a forum or a line with dashes, and of the name of a user.
const HEADING: usize = 200;
const FORUM: usize = 60;
const NAME: usize = 30;
/// Most characters of what `[quote]` has behind its name.
const SOURCE: usize = 100;
const QUOTE: &[u8] = b"quote";
/// A line before the headers of a mail begins and ends with these.
const DASHES: [&[u8]; 2] = [b"---", b"____"];

const WIDE_COLON: &[u8] = "：".as_bytes();

/// Lines of words; those of comments begin with #.
const WORDS: &str = include_str!("quote_words.txt");
/// What a line begins with: a header of a mail, each kind with a bit of its own, or the heading of a post.
const FROM: u8 = 1;
const POST: u8 = 1 << 4;
/// Different headers that make a block.
const HEADERS_OF_BLOCK: u32 = 3;

/// Drops what others wrote, unless next to nothing remains.
pub fn drop(edit: &mut Edit) {
    let text = edit.text;
    let has_lines = may_have_lines(text);
    if !has_lines && memchr2(b'[', b'<', text).is_none() {
        return;
    }
    let Passages { brackets: mut quotes, blocks: mut loose, mut tags } = Passages::of(text);
    let passages = together(&quotes, &loose);
    let mut tail = None;
    if has_lines {
        let mut lines = Lines { text, passages: &passages, ..Lines::default() }.read();
        quotes.append(&mut lines.quotes);
        loose.append(&mut lines.loose);
        tail = lines.tail;
    }
    let tail = [tail, passed_on(text, &together(&quotes, &loose))].into_iter().flatten().min();
    quotes.extend(tail.map(|tail| tail..text.len()));
    quotes.extend(at_ends(text, &together(&quotes, &loose)));
    merge(&mut quotes);
    if !quotes.is_empty() && own_letters(text, &quotes) < LEAST {
        quotes.clear();
    }
    quotes.append(&mut tags);
    merge(&mut quotes);
    for quote in quotes {
        edit.replace(quote, "\n");
    }
}

/// Whether a text may have quotes that are lines: the cheap test before [`Lines`]. They begin with `>`, or with a line
/// that has a colon or the name of a user.
fn may_have_lines(text: &[u8]) -> bool {
    memchr3(b'>', b'@', b':', text).is_some() || memmem::find(text, WIDE_COLON).is_some()
}

/// Returns those of these spans before or behind which a text has next to no words outside of them.
fn at_ends(text: &[u8], spans: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut size, mut end) = (0, 0);
    let first = spans.iter().take_while(|span| {
        size += letters(&text[end..span.start]);
        end = span.end;
        size < LEAST
    });
    let mut found: Vec<Range<usize>> = first.cloned().collect();
    let (mut size, mut start) = (0, text.len());
    let last = spans.iter().rev().take_while(|span| {
        size += letters(&text[span.end..start]);
        start = span.start;
        size < LEAST
    });
    found.extend(last.cloned());
    found
}

/// Returns the spans of both, in order; those that overlap are one.
fn together(some: &[Range<usize>], others: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut spans = [some, others].concat();
    merge(&mut spans);
    spans
}

/// Sorts spans, and joins those that overlap.
fn merge(spans: &mut Vec<Range<usize>>) {
    spans.sort_unstable_by_key(|span| span.start);
    spans.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        if overlaps {
            last.end = last.end.max(next.end);
        }
        overlaps
    });
}

fn is_inside(spans: &[Range<usize>], at: usize) -> bool {
    around(spans, at).is_some()
}

/// Returns the span that a place is in.
fn around(spans: &[Range<usize>], at: usize) -> Option<&Range<usize>> {
    let begun = spans.partition_point(|span| span.start <= at);
    spans[..begun].last().filter(|span| at < span.end)
}

/// How many letters a text has beside its quotes, names of users and addresses of pages: [`LEAST`] or more where there are
/// so many.
fn own_letters(text: &[u8], quotes: &[Range<usize>]) -> usize {
    let begins = std::iter::once(0).chain(quotes.iter().map(|quote| quote.end));
    let ends = quotes.iter().map(|quote| quote.start).chain([text.len()]);
    begins.zip(ends).map(|(begin, end)| letters(&text[begin..end])).sum()
}

fn letters(text: &[u8]) -> usize {
    let (mut letters, mut is_name) = (0, false);
    for (at, point) in points::each(text) {
        if letters >= LEAST {
            break;
        }
        let class = Class::of_point(point);
        match point {
            0x40 => is_name = true,
            0x3a => is_name = text[at..].starts_with(b"://"),
            0xff1a => is_name = false,
            _ if class.is_white() => is_name = false,
            _ if is_name || !class.is_alphanumeric() => {}
            _ => letters += if point < FIRST_DENSE { 1 } else { DENSE },
        }
    }
    letters
}

/// What tags enclose.
#[derive(Default)]
struct Passages {
    brackets: Vec<Range<usize>>,
    /// Block quotations.
    blocks: Vec<Range<usize>>,
    /// The tags of these.
    tags: Vec<Range<usize>>,
}

impl Passages {
    fn of(text: &[u8]) -> Self {
        let mut found = Self::default();
        // Of each kind: how many are open, where the first of these begins, and where the last tag ends.
        let mut open = [(0_usize, 0, 0); 2];
        for at in memchr2_iter(b'[', b'<', text) {
            let is_block = text[at] == b'<';
            let (depth, start, last) = &mut open[usize::from(is_block)];
            if at < *last {
                continue;
            }
            let tag = if is_block { block_tag(text, at) } else { source_tag(text, at) };
            let Some((is_end, end)) = tag else { continue };
            *last = end;
            found.tags.extend(is_block.then_some(at..end));
            if !is_end {
                *start = if *depth == 0 { at } else { *start };
                *depth += 1;
            } else if *depth > 0 {
                *depth -= 1;
                let passages = if is_block { &mut found.blocks } else { &mut found.brackets };
                passages.extend((*depth == 0).then_some(*start..end));
            }
        }
        found
    }
}

/// Reads `[quote]`, `[quote=NAME]`, `[quote name]` and `[/quote]`.
fn source_tag(text: &[u8], at: usize) -> Option<(bool, usize)> {
    let is_end = text.get(at + 1) == Some(&b'/');
    let name = at + if is_end { 2 } else { 1 };
    let behind = name + QUOTE.len();
    if !text.get(name..behind)?.eq_ignore_ascii_case(QUOTE) || !matches!(text.get(behind)?, b']' | b'=' | b' ') {
        return None;
    }
    let source = &text[behind..text.len().min(behind + SOURCE * MOST_BYTES + 1)];
    let size = memchr(b']', source).filter(|&size| points::count(&source[..size]) <= SOURCE)?;
    Some((is_end, behind + size + 1))
}

/// Reads a tag of `blockquote`.
fn block_tag(text: &[u8], at: usize) -> Option<(bool, usize)> {
    let is_end = text.get(at + 1) == Some(&b'/');
    let name = at + if is_end { 2 } else { 1 };
    if !matches!(text.get(name), Some(b'b' | b'B')) {
        return None;
    }
    let end = tag_end(text, at).filter(|&end| name_of(&text[at..end]) == "blockquote")?;
    Some((is_end, end))
}

/// Returns where `//@name:` or the like begins first, outside of what is quoted.
fn passed_on(text: &[u8], quotes: &[Range<usize>]) -> Option<usize> {
    memchr_iter(b'@', text).find_map(|at| {
        let before = &text[..at];
        let start = if before.ends_with(b"//") {
            let start = at - 2;
            (!text[..start].ends_with(b":")).then_some(start)
        } else if before.ends_with(b"||") {
            Some(at - 2)
        } else if before.ends_with(b"RT ") {
            let start = at - 3;
            (!text[..start].last().is_some_and(u8::is_ascii_alphanumeric)).then_some(start)
        } else {
            None
        }?;
        let ends_name =
            |point| matches!(point, 0x2f | 0x3a | 0x40 | 0x7c | 0xff1a) || Class::of_point(point).is_white();
        let name = &text[at + 1..];
        let (size, end) = points::each(name).take(NAME + 1).enumerate().find(|(_, (_, point))| ends_name(*point))?;
        (size > 0 && matches!(end.1, 0x3a | 0xff1a) && !is_inside(quotes, start)).then_some(start)
    })
}

/// Reads a text line by line.
#[derive(Default)]
struct Lines<'t> {
    text: &'t [u8],
    /// Quotes that are known; what begins within them is no line.
    passages: &'t [Range<usize>],
    quotes: Vec<Range<usize>>,
    /// Blocks of lines of which nothing says who wrote them.
    loose: Vec<Range<usize>>,
    /// Where all that follows is quoted.
    tail: Option<usize>,
    block: Option<Block>,
    /// Begun by the heading of a forum, and whether a line follows it.
    post: Option<(usize, bool)>,
    /// Where a block of headers begins, and which ones it has.
    headers: Option<(usize, u8)>,
    /// Where a line of dashes begins that nothing but empty lines follow.
    dashes: Option<usize>,
    /// The line before, unless it is empty or quoted.
    last: Option<Range<usize>>,
    /// What ends in a colon, until a line follows that is not empty: it may say who wrote the lines behind it. And the
    /// line before it, as `last`.
    heading: Option<(Range<usize>, Option<Range<usize>>)>,
}

/// Lines in succession that begin with `>`.
struct Block {
    span: Range<usize>,
    /// It begins with a line that says who wrote the others.
    is_headed: bool,
    has_letters: bool,
    /// All of them begin with `>>>`.
    is_session: bool,
}

impl Lines<'_> {
    /// Finds the quotes, and where all that follows is quoted.
    fn read(mut self) -> Self {
        let mut start = 0;
        for end in memchr_iter(b'\n', self.text).chain([self.text.len()]) {
            self.line(start..end);
            if self.tail.is_some() {
                break;
            }
            start = end + 1;
        }
        self.end_block();
        if let Some((start, _)) = self.post {
            self.quotes.push(start..self.text.len());
        }
        self
    }

    fn line(&mut self, line: Range<usize>) {
        let start = line.start + over_white(&self.text[line.clone()]);
        let end = start + without_white(&self.text[start..line.end]);
        let own = &self.text[start..end];
        let Some(first) = own.first() else {
            self.end_line(line.start);
            return;
        };
        if let Some((_, has_lines)) = &mut self.post {
            *has_lines = true;
        }
        let passage = around(self.passages, start);
        if passage.is_some() || (*first == b'>' && behind_marks(own).is_some()) {
            let heading = self.take_heading().filter(|heading| says_who(&self.text[heading.clone()]));
            let heading = heading.map(|heading| heading.start);
            if let Some(passage) = passage {
                self.end_block();
                self.quotes.extend(heading.map(|heading| heading..passage.end));
            } else {
                self.add_to_block(heading, start..end);
            }
            (self.last, self.headers, self.dashes) = (None, None, None);
            return;
        }
        self.end_block();
        if let Some((heading, _)) = self.heading.take() {
            self.tail = has_address_and_time(&self.text[heading.clone()]).then_some(heading.start);
        }
        let begins = beginning_of(own);
        self.read_header(start, own, begins.unwrap_or_default() & !POST);
        let ends_in_colon = own.ends_with(b":") || own.ends_with(WIDE_COLON);
        if begins == Some(POST) && is_post(own, ends_in_colon) {
            self.post.get_or_insert((start, false));
        } else if ends_in_colon && matches!(begins, None | Some(POST)) && is_at_most(own, HEADING) {
            self.heading = Some((start..end, self.last.take()));
        }
        self.last = Some(start..end);
    }

    /// Takes an empty line, which begins here.
    fn end_line(&mut self, start: usize) {
        self.end_block();
        if let Some((post, true)) = self.post {
            self.quotes.push(post..start);
            self.post = None;
        }
        self.last = None;
    }

    /// Takes the line that ends in a colon; programs break it where it is long.
    fn take_heading(&mut self) -> Option<Range<usize>> {
        let (line, last) = self.heading.take()?;
        let last = last.filter(|last| {
            let before = &self.text[last.clone()];
            is_at_most(before, HEADING) && has_time(before) && !has_time(&self.text[line.clone()])
        });
        Some(last.map_or(line.start, |last| last.start)..line.end)
    }

    /// Adds a line to the block, which begins with its heading.
    fn add_to_block(&mut self, heading: Option<usize>, line: Range<usize>) {
        let own = &self.text[line.clone()];
        let quoted = behind_marks(own).unwrap_or_default();
        let begin = heading.unwrap_or(line.start);
        let block = self.block.get_or_insert(Block {
            span: begin..line.end,
            is_headed: heading.is_some(),
            has_letters: false,
            is_session: true,
        });
        block.span.end = line.end;
        block.has_letters |= quoted.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
        block.is_session &= own.starts_with(b">>>");
    }

    fn end_block(&mut self) {
        if let Some(block) = self.block.take().filter(|block| block.has_letters && !block.is_session) {
            let quotes = if block.is_headed { &mut self.quotes } else { &mut self.loose };
            quotes.push(block.span);
        }
    }

    /// Notes headers of mail, and lines of dashes before them.
    fn read_header(&mut self, start: usize, own: &[u8], header: u8) {
        if header != 0 {
            let (begin, seen) = self.headers.unwrap_or((self.dashes.unwrap_or(start), 0));
            let seen = seen | header;
            self.headers = Some((begin, seen));
            if seen & FROM != 0 && seen.count_ones() >= HEADERS_OF_BLOCK {
                self.tail = self.tail.or(Some(begin));
            }
            return;
        }
        (self.headers, self.dashes) = (None, None);
        if DASHES.iter().any(|dashes| own.starts_with(dashes) && own.ends_with(dashes)) {
            self.dashes = Some(start);
        }
    }
}

/// Returns what stands behind the marks of a quoted line.
fn behind_marks(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line.strip_prefix(b">")?;
    loop {
        let behind = &rest[over_white(rest)..];
        match behind.strip_prefix(b">") {
            Some(more) => rest = more,
            None if behind.len() == rest.len() && behind.first().is_some_and(u8::is_ascii_punctuation) => return None,
            None => return Some(behind),
        }
    }
}

/// What is looked for in lines.
pub(crate) struct Known {
    /// What they begin with, and what it is, by its first byte; whatever the case of ASCII letters.
    beginnings: Vec<Vec<(&'static [u8], u8)>>,
    /// What says who wrote what follows.
    wrote: Vec<&'static [u8]>,
}

pub(crate) static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let mut known = Known { beginnings: vec![Vec::new(); 1 << 8], wrote: Vec::new() };
    let lines = WORDS.lines().filter_map(|line| line.split_once(": ").filter(|_| !line.starts_with('#')));
    for (kind, (name, words)) in lines.enumerate() {
        for word in words.split(", ").map(str::as_bytes) {
            if name == "wrote" {
                known.wrote.push(word);
            } else {
                known.beginnings[usize::from(word[0])].push((word, 1 << kind));
            }
        }
    }
    known
});

/// Returns what a line begins with: a header of a mail, or the heading of a post.
fn beginning_of(line: &[u8]) -> Option<u8> {
    let line = &line[asterisks(line)..];
    let known = &KNOWN.beginnings[usize::from(line.first()?.to_ascii_lowercase())];
    let found = known.iter().find(|(name, beginning)| {
        let begins = line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        begins && ends_beginning(&line[name.len()..], *beginning, name[0])
    });
    found.map(|(_, beginning)| *beginning)
}

/// Whether a line that begins with a name goes on as a header does, or the heading of a post.
fn ends_beginning(behind: &[u8], beginning: u8, first: u8) -> bool {
    if beginning == POST {
        // 引用, 原帖由 and 인용 stand before anything.
        return first >= 0xe0 || behind.starts_with(b" ") || starts_with_colon(behind);
    }
    let behind = &behind[asterisks(behind)..];
    starts_with_colon(behind.strip_prefix(b" ").unwrap_or(behind))
}

fn starts_with_colon(text: &[u8]) -> bool {
    text.starts_with(b":") || text.starts_with(WIDE_COLON)
}

/// Asterisks that a line begins with, at most two: bold letters as Markdown has them.
fn asterisks(line: &[u8]) -> usize {
    line.iter().take(2).take_while(|byte| **byte == b'*').count()
}

/// Whether a line that begins as one is the heading of a post: it ends in a colon, or names a user.
fn is_post(line: &[u8], ends_in_colon: bool) -> bool {
    is_at_most(line, FORUM) && (ends_in_colon || line.contains(&b'@'))
}

fn is_at_most(line: &[u8], characters: usize) -> bool {
    line.len() <= characters || (line.len() <= characters * MOST_BYTES && points::count(line) <= characters)
}

/// Whether a heading says that someone wrote something.
fn says_who(heading: &[u8]) -> bool {
    KNOWN.wrote.iter().any(|word| memmem::find(heading, word).is_some()) || has_address_and_time(heading)
}

/// Whether it has the address of a mailbox and a time of day.
fn has_address_and_time(heading: &[u8]) -> bool {
    let is_address = |at: usize| {
        at > 0 && heading[at - 1].is_ascii_alphanumeric() && heading.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
    };
    memchr_iter(b'@', heading).any(is_address) && has_time(heading)
}

fn has_time(line: &[u8]) -> bool {
    line.windows(4).any(|four| {
        matches!(four, [hour, b':', tens, ones] if [hour, tens, ones].iter().all(|digit| digit.is_ascii_digit()))
    })
}

/// Bytes of the white space that a line begins with.
fn over_white(line: &[u8]) -> usize {
    let mut rest = line;
    while let [b' ' | b'\t' | b'\r', behind @ ..] | [0xc2, 0xa0, behind @ ..] | [0xe3, 0x80, 0x80, behind @ ..] = rest {
        rest = behind;
    }
    line.len() - rest.len()
}

/// Bytes of a line before the white space at its end.
fn without_white(line: &[u8]) -> usize {
    let mut rest = line;
    while let [before @ .., b' ' | b'\t' | b'\r'] | [before @ .., 0xc2, 0xa0] | [before @ .., 0xe3, 0x80, 0x80] = rest {
        rest = before;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::{behind_marks, is_inside, letters, merge};

    #[test]
    fn spans_that_overlap_are_one() {
        let mut spans = vec![5..9, 0..3, 1..2, 3..5, 8..12];
        merge(&mut spans);
        assert_eq!(spans, [0..3, 3..5, 5..12]);
        let inside: Vec<usize> = (0..14).filter(|&at| is_inside(&spans[1..], at)).collect();
        assert_eq!(inside, (3..12).collect::<Vec<_>>());
    }

    #[test]
    fn marks_stand_before_quoted_lines() {
        let behind = |line: &str| behind_marks(line.as_bytes()).map(|rest| String::from_utf8_lossy(rest).into_owned());
        for (line, expected) in
            [("> a", "a"), (">>\u{3000}> >a", "a"), ("> (a", "(a"), (">", ""), (">\u{201c}", "\u{201c}")]
        {
            assert_eq!(behind(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["a > b", ">_<", "> >.<", ">(a", ""] {
            assert_eq!(behind(line), None, "{line}");
        }
    }

    #[test]
    fn ideographs_count_three_letters_and_names_none() {
        assert_eq!(letters("a1 字, é한か".as_bytes()), 2 + 3 + 1 + 3 + 3);
        assert_eq!(letters("@ann: a @bo：b http://c.cn/d e @f".as_bytes()), 1 + 1 + 4 + 1);
    }
}
