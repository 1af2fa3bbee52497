//! Bounds the work that a page is for an HTML parser, by one pass over its tags.
//!
//! The rules of HTML make a parser slow on pages built for it, for three reasons:
//!
//! * Most tags search all open elements. An end tag closes nothing unless its element is open and within reach, so the
//!   depth is not the difference of start and end tags: each `<div></x>` leaves one more element open.
//! * Formatting elements (`<b>`, `<font>`) that a block leaves open are made again in every following block: a thousand
//!   of them before a thousand paragraphs make a million elements out of 20 kB.
//! * Each attribute of a tag is compared with all other attributes of the tag, be it a start tag or an end tag.
//!
//! [`parsable`] bounds all three. Tags are read exactly as a parser reads them, with attributes, comments and
//! scripts ([`Tokens`]). A start tag opens its element. An end tag closes the last element of its name only if the rules
//! require it, because no element between them prevents it; all other elements stay counted. So the bound may be too
//! high (an omitted optional end tag counts), and is never too low, except for the two elements that a table cell adds
//! by itself.
//!
//! Where parsers differ (some read a style sheet inside of a picture as tags), the rest of the page must be small.
//!
//! The result may depend only on the text.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use super::tokens::{Token, Tokens, raw_end};
use crate::text::points;

/// Most open elements of a page that is parsed: browsers stop at some 500.
const MOST_OPEN: usize = 2_000;
/// Most formatting elements that a parser may have to make again.
const MOST_REBUILT: usize = 250_000;
/// Most attributes of one tag. A long value with many words is one attribute.
const MOST_ATTRIBUTES: usize = 1_000;
/// A page within both limits takes at most a few hundredths of a second, so it is not read.
const SMALL_TAGS: usize = 256;
const SMALL_CHARACTERS: usize = 16_384;
/// Most open elements that are searched for the element of an end tag.
const REACH: usize = 64;
/// Most equal formatting elements (name and attributes) that a parser makes again.
const MOST_ALIKE: isize = 3;
/// Most framesets behind which the rest of a page is read once more.
const MOST_FRAMESETS: usize = 16;
/// Most blocks that the end tag of a formatting element moves out of it.
const MOST_BLOCKS: usize = 8;

/// What the rules say of an element, as bits.
#[derive(Clone, Copy, Default)]
struct Traits(u32);

/// What elements are, by the keys of their names in order.
pub(super) static TRAITS: LazyLock<Vec<(u128, u32)>> = LazyLock::new(|| {
    let mut of_names = BTreeMap::new();
    for (traits, names) in Traits::NAMES {
        names.split(' ').for_each(|name| *of_names.entry(Name::new(name).key).or_default() |= traits);
    }
    of_names.into_iter().collect()
});

impl Traits {
    /// Its content is text, not tags.
    const RAW: u32 = 1;
    /// A page has one.
    const ONCE: u32 = 1 << 1;
    /// It has no content.
    const VOID: u32 = 1 << 2;
    /// It ends a picture or a formula, so it is not open within either.
    const CLOSED_EVERYWHERE: u32 = 1 << 3;
    /// A picture or a formula.
    const FOREIGN: u32 = 1 << 4;
    /// It has rules of its own for its content.
    const STRANGE: u32 = 1 << 5;
    const FORMATTING: u32 = 1 << 6;
    const TABLE: u32 = 1 << 7;
    /// What an end tag does not reach through; that of a part of a table; that of a list item.
    const WALL: u32 = 1 << 8;
    const TABLE_WALL: u32 = 1 << 9;
    const LIST_WALL: u32 = 1 << 10;
    /// The standard calls it special; or it is special inside of a formula or a picture.
    const BLOCK: u32 = 1 << 11;
    const MAYBE_BLOCK: u32 = 1 << 12;
    /// All that follows is its content.
    const PLAINTEXT: u32 = 1 << 13;
    const LIST_ITEM: u32 = 1 << 14;
    /// A page may have no elements behind it.
    const FRAMESET: u32 = 1 << 15;
    /// Its start tag does more than open one element.
    const NOTABLE: u32 = Self::RAW | Self::ONCE | Self::VOID | Self::STRANGE | Self::FORMATTING | Self::PLAINTEXT;

    const NAMES: [(u32, &str); 16] = [
        (Self::RAW, "script style textarea title xmp iframe noembed noframes"),
        (Self::ONCE, "html head body"),
        (Self::VOID, "area base br col embed frame hr img input link meta param source track wbr"),
        (Self::CLOSED_EVERYWHERE, "body br embed head hr img meta"),
        (Self::FOREIGN, "svg math"),
        (Self::STRANGE | Self::WALL | Self::TABLE_WALL | Self::LIST_WALL, "svg math select template frameset"),
        (Self::FORMATTING, "a b big code em font i nobr s small strike strong tt u"),
        (Self::TABLE, "table tbody thead tfoot tr td th caption"),
        (Self::WALL | Self::LIST_WALL, "applet button marquee object caption table td th"),
        (Self::TABLE_WALL, "applet marquee object table"),
        (Self::LIST_WALL, "ol ul"),
        (Self::BLOCK | Self::MAYBE_BLOCK, Self::BLOCKS),
        (Self::MAYBE_BLOCK, "mi mo mn ms mtext annotation-xml foreignobject desc"),
        (Self::PLAINTEXT, "plaintext"),
        (Self::LIST_ITEM, "li"),
        (Self::FRAMESET, "frameset"),
    ];
    const BLOCKS: &str = "address applet area article aside base basefont bgsound blockquote body br button caption \
        center col colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 \
        h3 h4 h5 h6 head header hgroup hr html iframe img input keygen li link listing main marquee menu meta nav \
        noembed noframes noscript object ol p param plaintext pre script search section select source style summary \
        table tbody td template textarea tfoot th thead title tr track ul wbr xmp";

    fn of(name: Name) -> Self {
        let found = TRAITS.binary_search_by_key(&name.key, |(key, _)| *key);
        Self(found.map_or(0, |at| TRAITS[at].1))
    }

    fn has(self, any: u32) -> bool {
        self.0 & any != 0
    }
}

/// The name of an element, whatever the case of its letters.
#[derive(Clone, Copy)]
struct Name<'a> {
    /// Its first bytes in lower case, and how many there are of all.
    key: u128,
    written: &'a str,
}

impl<'a> Name<'a> {
    const KEY_BYTES: usize = 15;

    fn new(written: &'a str) -> Self {
        let mut key = [0; Self::KEY_BYTES + 1];
        let bytes = written.len().min(Self::KEY_BYTES);
        key[..bytes].copy_from_slice(&written.as_bytes()[..bytes]);
        key.make_ascii_lowercase();
        key[Self::KEY_BYTES] = written.len().min(Self::KEY_BYTES + 1) as u8;
        Self { key: u128::from_le_bytes(key), written }
    }

    fn is(self, other: Self) -> bool {
        let is_whole = self.written.len() <= Self::KEY_BYTES;
        self.key == other.key && (is_whole || self.written.eq_ignore_ascii_case(other.written))
    }
}

/// What a parser is given of a page; none where it may exceed a limit of open elements, of elements to make again, or of
/// attributes.
///
/// A tag in which the page ends is not given: the standard drops it, but only when its attributes were compared.
pub fn parsable(html: &str) -> Option<&str> {
    if is_small(html) { Some(html) } else { OpenElements::new(html).read().map(|size| &html[..size]) }
}

/// Whether a text is too small to be slow.
fn is_small(html: &str) -> bool {
    let tags = || html.bytes().filter(|&byte| byte == b'<').count();
    (html.len() <= SMALL_CHARACTERS || points::count(html.as_bytes()) <= SMALL_CHARACTERS) && tags() <= SMALL_TAGS
}

/// An element that a parser may have open.
struct Open<'a> {
    name: Name<'a>,
    traits: Traits,
    /// The whole start tag.
    tag: &'a str,
}

/// The elements that a parser may have open while the tags of a page are read.
struct OpenElements<'a> {
    html: &'a str,
    /// Bytes before a tag in which the page ends.
    size: usize,
    is_beyond: bool,
    open: Vec<Open<'a>>,
    /// Number of open elements that are strange, and of those that are foreign.
    strange: usize,
    foreign: usize,
    /// Number of open formatting elements, by tag as written.
    alike: HashMap<&'a str, isize>,
    /// Number of those that a parser makes again, and of those that it has made again.
    formatting: isize,
    rebuilt: usize,
    /// Attributes of all tags of elements that a page has once.
    merged: usize,
    /// Number of framesets, and of those behind which the rest was read once more.
    framesets: usize,
    reread: usize,
}

impl<'a> OpenElements<'a> {
    fn new(html: &'a str) -> Self {
        Self {
            html,
            size: html.len(),
            is_beyond: false,
            open: Vec::new(),
            strange: 0,
            foreign: 0,
            alike: HashMap::new(),
            formatting: 0,
            rebuilt: 0,
            merged: 0,
            framesets: 0,
            reread: 0,
        }
    }

    /// Read the page until a limit is exceeded; return how much of it there is to parse if none is.
    fn read(mut self) -> Option<usize> {
        let mut tokens = Tokens::new(self.html);
        while let Some(token) = tokens.next() {
            self.rebuilt += self.formatting.max(0) as usize;
            let Some(end) = self.take(&token) else { break };
            if self.is_beyond() {
                break;
            }
            tokens.go_to(end);
        }
        (!self.is_beyond()).then_some(self.size)
    }

    fn is_beyond(&self) -> bool {
        self.is_beyond || self.open.len() > MOST_OPEN || self.rebuilt > MOST_REBUILT
    }

    /// Take one token; return where to continue, or none if the rest is not read.
    fn take(&mut self, token: &Token<'a>) -> Option<usize> {
        match *token {
            Token::Start { name, tag, attributes, end } => {
                let name = Name::new(name);
                self.start(Open { name, traits: Traits::of(name), tag }, attributes, end)
            }
            Token::End { name, attributes, end } => {
                self.count_attributes(Traits::default(), attributes);
                self.end(Name::new(name));
                Some(end)
            }
            Token::Comment { end } => end,
            Token::Declaration { written, end } => self.after_declaration(written, end),
            Token::Unclosed { begin, .. } => {
                self.size = begin;
                None
            }
        }
    }

    /// CDATA ends at ]]> inside of a picture, elsewhere at the first >.
    fn after_declaration(&mut self, written: &str, end: usize) -> Option<usize> {
        const BEGIN: &str = "<![CDATA[";
        let begins = written.get(..BEGIN.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(BEGIN));
        if self.strange > 0 && begins && !written.ends_with("]]>") { self.doubt(end) } else { Some(end) }
    }

    fn start(&mut self, element: Open<'a>, attributes: usize, end: usize) -> Option<usize> {
        let Open { name, traits, .. } = element;
        self.count_attributes(traits, attributes);
        self.framesets += usize::from(traits.has(Traits::FRAMESET));
        let is_closed = self.foreign == 0 && traits.has(Traits::VOID | Traits::ONCE);
        if traits.has(Traits::CLOSED_EVERYWHERE) || is_closed {
            return Some(end);
        }
        self.count(&element, 1);
        self.open.push(element);
        if traits.has(Traits::RAW | Traits::PLAINTEXT) { self.after_raw(name.written, end) } else { Some(end) }
    }

    fn count_attributes(&mut self, traits: Traits, attributes: usize) {
        // A page has one html and one body, which get the attributes of all their tags.
        self.merged += if traits.has(Traits::ONCE) { attributes } else { 0 };
        self.is_beyond |= attributes.max(self.merged) > MOST_ATTRIBUTES;
    }

    /// Go past the content of a raw element.
    fn after_raw(&mut self, name: &str, start: usize) -> Option<usize> {
        let end = raw_end(self.html, start, name);
        if self.strange > 0 && end.is_none_or(|end| self.html[start..end].contains('<')) {
            return self.doubt(start);
        }
        if self.reread < self.framesets {
            self.reread = self.framesets;
            self.after_frameset(start);
        }
        end
    }

    /// Count the attributes of all that follows: behind a frameset a parser drops raw elements, and reads on in tags.
    fn after_frameset(&mut self, start: usize) {
        self.is_beyond |= self.framesets > MOST_FRAMESETS;
        let mut tokens = Tokens::new(self.html);
        let mut rest = (!self.is_beyond).then_some(start);
        while let Some(at) = rest {
            tokens.go_to(at);
            rest = tokens.next().and_then(|token| match token {
                Token::Start { name, attributes, end, .. } => {
                    self.count_attributes(Traits::of(Name::new(name)), attributes);
                    Some(end)
                }
                Token::End { attributes, end, .. } => {
                    self.count_attributes(Traits::default(), attributes);
                    Some(end)
                }
                Token::Comment { end } => end,
                Token::Declaration { end, .. } => Some(end),
                Token::Unclosed { attributes, .. } => {
                    self.count_attributes(Traits::default(), attributes);
                    None
                }
            });
        }
    }

    /// Allow only a small rest, because it may or may not be tags.
    fn doubt(&mut self, start: usize) -> Option<usize> {
        self.is_beyond = !is_small(&self.html[start..]);
        None
    }

    fn end(&mut self, name: Name) {
        if let Some(at) = self.reached(name) {
            let element = self.open.remove(at);
            if element.traits.has(Traits::NOTABLE) {
                self.count(&element, -1);
            }
        }
    }

    fn count(&mut self, element: &Open<'a>, step: isize) {
        let add = |count: &mut usize, counts: bool| {
            *count = count.saturating_add_signed(if counts { step } else { 0 });
        };
        add(&mut self.strange, element.traits.has(Traits::STRANGE));
        add(&mut self.foreign, element.traits.has(Traits::FOREIGN));
        if element.traits.has(Traits::FORMATTING) {
            // Counted before an element opens, and after one closes.
            let alike = self.alike.entry(element.tag).or_default();
            *alike += step.min(0);
            self.formatting += if *alike < MOST_ALIKE { step } else { 0 };
            *alike += step.max(0);
        }
    }

    /// The index of the element that an end tag of this name certainly closes.
    fn reached(&self, name: Name) -> Option<usize> {
        let reach = self.open.len().saturating_sub(REACH);
        let at = reach + self.open[reach..].iter().rposition(|open| open.name.is(name))?;
        let between = &self.open[at + 1..];
        (between.is_empty() || !is_in_the_way(Traits::of(name), between)).then_some(at)
    }
}

/// Whether the open elements between may keep an end tag from closing the last element of its name.
fn is_in_the_way(traits: Traits, between: &[Open]) -> bool {
    let any_has = |any: u32| between.iter().any(|open| open.traits.has(any));
    if traits.has(Traits::FORMATTING) {
        let blocks = between.iter().filter(|open| open.traits.has(Traits::MAYBE_BLOCK)).count();
        any_has(Traits::WALL) || blocks >= MOST_BLOCKS
    } else if traits.has(Traits::TABLE) {
        any_has(Traits::TABLE_WALL)
    } else if traits.has(Traits::LIST_ITEM) {
        any_has(Traits::LIST_WALL)
    } else if traits.has(Traits::BLOCK) {
        any_has(Traits::WALL)
    } else {
        any_has(Traits::WALL | Traits::MAYBE_BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::size_of;
    use super::super::tree::text_of;
    use super::{MOST_ATTRIBUTES, MOST_FRAMESETS, MOST_OPEN, OpenElements, Token, Tokens, parsable};

    /// Elements for one start tag: a cell brings the body and the row of its table with it.
    const IMPLIED: usize = 3;
    const NAMES: &str = "div p b i a font nobr span x li ul dd h1 h2 table tr td tbody caption th select option optgroup \
        svg math g path source br foreignObject desc mi button form template object marquee script style title textarea \
        plaintext frameset head body html noscript pre ruby rt hr img input col colgroup iframe center main \
        annotation-xml image search isindex";
    const ATTRIBUTES: &[&str] = &[
        " a=1",
        " a='>'",
        " a=\"</div>\"",
        "/",
        " a=b=\"'",
        " hidden",
        " a=\"<b>\"",
        "=\" ",
        "\x0c",
        " color=1",
        " x y",
        " a=\"1\"b=\"2\"",
    ];
    const OTHER: &[&str] = &[
        "<!--",
        "-->",
        "<!-->",
        "--!>",
        "<!>",
        "</>",
        "<?",
        "<![CDATA[",
        "]]>",
        "</3",
        ">",
        "<",
        "\"",
        "'",
        "<!--<script>",
        "x",
    ];

    /// Numbers that look drawn, from a seed.
    struct Drawn(u64);

    impl Drawn {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }

        fn one_of<'a>(&mut self, parts: &[&'a str]) -> &'a str {
            parts[self.below(parts.len())]
        }

        /// A tag or what looks like one.
        fn piece(&mut self) -> String {
            let (kind, name) = (self.below(100), self.one_of(&NAMES.split_whitespace().collect::<Vec<_>>()));
            match kind {
                0..36 => format!("<{name}>"),
                36..45 => format!("<{name}{}>", self.one_of(ATTRIBUTES)),
                45..85 => format!("</{name}>"),
                _ => self.one_of(OTHER).to_owned(),
            }
        }

        /// A page that repeats itself.
        fn page(&mut self) -> String {
            let pieces: Vec<_> = (0..2 + self.below(5)).map(|_| self.piece()).collect();
            let head: String = (0..3).map(|_| pieces[self.below(pieces.len())].as_str()).collect();
            let size = 2 + self.below(7);
            let body: String = (0..size).map(|_| pieces[self.below(pieces.len())].as_str()).collect();
            head + &body.repeat(40)
        }
    }

    /// Most elements open at once and elements made again, as far as the bound knows; whether it is in doubt.
    fn reading(html: &str) -> (usize, usize, bool) {
        let (mut elements, mut tokens, mut peak) = (OpenElements::new(html), Tokens::new(html), 0);
        while let Some(token) = tokens.next() {
            elements.rebuilt += elements.formatting.unsigned_abs();
            let end = elements.take(&token);
            peak = peak.max(elements.open.len());
            match end {
                Some(end) => tokens.go_to(end),
                // A small rest may be tags.
                None if matches!(token, Token::Start { .. } | Token::Declaration { .. }) => elements.is_beyond = true,
                None => {}
            }
            if end.is_none() {
                break;
            }
        }
        (peak, elements.rebuilt, elements.is_beyond)
    }

    #[test]
    fn the_bound_is_never_too_low() {
        for seed in 0..5_000 {
            let html = Drawn(seed).page();
            let (peak, rebuilt, is_in_doubt) = reading(&html);
            let (depth, count) = size_of(&html);
            let tags = html.matches('<').count();
            let texts = html.matches('>').count();
            assert!(
                is_in_doubt || depth <= IMPLIED * peak + 10,
                "{seed}: {depth}, {peak}: {}",
                &html[..html.len().min(200)]
            );
            let most = 2 * IMPLIED * tags + 2 * rebuilt + texts + 10;
            assert!(is_in_doubt || count <= most, "{seed}: {count}, {most}");
        }
    }

    #[test]
    fn pages_that_would_take_long_are_known() {
        let twice = 2 * MOST_OPEN;
        let repeated = [
            "<div></x>",
            "<p><div></p>",
            "<span><div></span></div>",
            "<div><table></div></table>",
            "<x><select></x></select>",
            "<div a=\"</div>\">",
            "<div><!--</div>-->",
            "<div><script><!--<script></script></div></script>",
            "<div><style></div></style>",
            "<b><div>",
            "<annotation-xml><li></annotation-xml>",
        ];
        let numbered = |count: usize, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<String>();
        let made = [
            "<svg>".to_owned() + &"<source>".repeat(twice),
            numbered(MOST_OPEN, &|n| format!("<b x={n}>{}</b>{}", "<div>".repeat(9), "</div>".repeat(9))),
            "<p>".to_owned() + &numbered(1000, &|n| format!("<b x={n}>")) + &"</p><p>x".repeat(1000),
            "<a ".to_owned() + &numbered(16 * MOST_ATTRIBUTES, &|n| format!("a{n} ")) + ">",
            numbered(2 * MOST_ATTRIBUTES, &|n| format!("<body a{n}>")),
            "</a ".to_owned() + &numbered(16 * MOST_ATTRIBUTES, &|n| format!("a{n} ")) + ">",
            "<frameset></frameset><title><a ".to_owned() + &numbered(16 * MOST_ATTRIBUTES, &|n| format!("a{n} ")),
            "<frameset></frameset><!-- -->".repeat(MOST_FRAMESETS + 1)
                + &"<style>a</style>".repeat(MOST_FRAMESETS * 16),
        ];
        for page in repeated.iter().map(|one| one.repeat(twice)).chain(made) {
            assert!(parsable(&page).is_none(), "{}", &page[..60]);
        }
    }

    #[test]
    fn long_pages_are_parsed() {
        let repeated = [
            "<div><p>a</p><br><img src=x></div>",
            "<li><a href='/x?a=1&b=2' title=\"a > b\">a</a> <b>b</b></li>",
            "<tr><td>a</td><td><i>b</i></td></tr>",
            "<div><b><i>a</b></i></div>",
            "<script>if (a<b && c<d) document.write('<div><p>')</script><!-- <div> -->",
            "<svg width=1><title>a</title><g><path d='M0'></path></g></svg><br>",
            "<select><option value=1>a</option></select><input type=text>",
            "word ",
        ];
        let made = [
            "<div><p><span>a</div>".repeat(MOST_OPEN / 2 - 10),
            "<p>a".repeat(MOST_OPEN - 10),
            format!("<p title=\"{}\" style='{}'>", "word ".repeat(10_000), "a: b; ".repeat(1000)),
        ];
        for page in repeated.iter().map(|one| format!("<table>{}", one.repeat(3000))).chain(made) {
            assert!(parsable(&page).is_some(), "{}", &page[..60]);
        }
    }

    #[test]
    fn a_tag_in_which_the_page_ends_is_not_given_and_says_nothing() {
        let ends = ["<a b", "<a b='", "</a x", "<a b=\"x> ", "<a/", "<a", "<a b=c>&amp<p x"];
        let mut cut = 0;
        for (seed, end) in (0..5_000).zip(ends.iter().cycle()) {
            let html = Drawn(seed).page() + "a&amp" + end;
            let Some(size) = OpenElements::new(&html).read() else { continue };
            cut += usize::from(size < html.len());
            assert_eq!(text_of(&html, true), text_of(&html[..size], true), "{seed}: {html}");
        }
        assert!(cut > 2_000, "{cut}");
        let page = (0..99_999).fold("<p>word ".repeat(300) + "<a ", |page, n| page + &format!("a{n} "));
        assert_eq!(parsable(&page).map(str::len), page.find("<a "));
    }
}
