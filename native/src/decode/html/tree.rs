//! The text of a page by its tree of elements, as the rules of HTML make it.
//!
//! The tree is one array, so it is walked and dropped without recursion. It keeps of an element only how it is shown. The
//! parser holds the names of those that it has to know.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use ego_tree::iter::Edge;
use ego_tree::{NodeId, NodeMut, NodeRef, Tree};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, ExpandedName, QualName, expanded_name, local_name, ns};

use super::bounded::parsed;
use crate::text::tags::BLOCKS;

/// Elements that are not shown, or not read: those that the standard displays nowhere, what is no text, and how words of
/// the text are read (`<ruby>`).
const UNSEEN: [&str; 18] = [
    "script", "style", "noscript", "template", "iframe", "object", "svg", "math", "head", "textarea", "select",
    "datalist", "noembed", "noframes", "title", "rp", "rt", "rtc",
];
/// What marks of notes are called by their roles, in HTML and in e-books, and by their classes.
const NOTE_ROLES: [&str; 3] = ["doc-noteref", "doc-backlink", "noteref"];
const NOTE_CLASSES: [&str; 4] = ["reference", "footnote", "footnote-ref", "noteref"];

/// Bytes of the values of attributes that are as much as an element.
const VALUE_BYTES: usize = 16;

/// The text of a page; each block is on its own line. `marks_quotes`: block quotations keep their tags. None of a page
/// that exceeds a limit of the parser.
pub fn text_of(html: &str, marks_quotes: bool) -> Option<String> {
    let page = parsed(html)?;
    let body = page.body.and_then(|body| page.nodes.get(body));
    Some(body.map_or_else(String::new, |body| text_within(body, marks_quotes)))
}

/// How an element is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Display {
    Inline,
    /// As an inline element: a superscript, and a link to a place of the page. One within the other marks a note.
    Raised,
    Jump,
    /// On lines of its own.
    Block,
    /// So, and written by others.
    Quote,
    /// Neither it nor what it holds.
    Unseen,
}

enum Content {
    Element(Display),
    Text(StrTendril),
}

/// What the parser knows an element by, for as long as it needs it.
pub struct Element {
    name: QualName,
    /// None of what is not in the tree: comments.
    node: Option<NodeId>,
    /// What holds the content of a template, which is no child of it.
    contents: Option<Handle>,
    is_integration_point: bool,
    /// It and its attributes, and how many the parser holds of all.
    size: usize,
    held: Rc<Cell<usize>>,
}

impl Drop for Element {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.size);
    }
}

pub type Handle = Rc<Element>;

/// A page that is read to its end.
pub struct Page {
    nodes: Tree<Content>,
    /// Of a page of frames: what stands before them, which the rules take out of the page.
    body: Option<NodeId>,
}

/// A page that is being read.
pub struct Sink {
    document: Handle,
    body: Cell<Option<NodeId>>,
    nodes: RefCell<Tree<Content>>,
    /// Elements, attributes and `VALUE_BYTES` of values that were made; and elements and attributes that the parser
    /// still holds.
    made: Cell<usize>,
    held: Rc<Cell<usize>>,
}

impl Default for Sink {
    fn default() -> Self {
        let nodes = Tree::new(Content::Element(Display::Inline));
        let document = Element::nameless(Some(nodes.root().id()));
        let (body, nodes) = (Cell::new(None), RefCell::new(nodes));
        Self { document, body, nodes, made: Cell::default(), held: Rc::default() }
    }
}

impl Sink {
    /// Number of elements, attributes and `VALUE_BYTES` that were made; of elements and attributes that are still held.
    pub fn sizes(&self) -> (usize, usize) {
        (self.made.get(), self.held.get())
    }

    /// Puts an element or a text where a node is.
    fn insert(&self, place: Option<NodeId>, child: NodeOrText<Handle>, put: impl FnOnce(NodeMut<Content>, NodeId)) {
        let mut nodes = self.nodes.borrow_mut();
        let child = match child {
            NodeOrText::AppendText(text) => Some(nodes.orphan(Content::Text(text)).id()),
            NodeOrText::AppendNode(element) => element.node,
        };
        if let (Some(child), Some(place)) = (child, place.and_then(|place| nodes.get_mut(place))) {
            put(place, child);
        }
    }

    fn has_parent(&self, element: &Handle) -> bool {
        element.node.and_then(|node| self.nodes.borrow().get(node)?.parent().map(|parent| parent.id())).is_some()
    }
}

impl Element {
    fn nameless(node: Option<NodeId>) -> Handle {
        let name = QualName::new(None, ns!(), local_name!(""));
        Rc::new(Self { name, node, contents: None, is_integration_point: false, size: 0, held: Rc::default() })
    }
}

/// The text of what a node holds.
fn text_within(root: NodeRef<Content>, marks_quotes: bool) -> String {
    let mut text = String::new();
    // The node that is open and not shown.
    let mut unseen = None;
    for edge in root.traverse() {
        let (Edge::Open(node) | Edge::Close(node)) = edge;
        let is_end = matches!(edge, Edge::Close(_));
        if unseen.is_some() {
            unseen = unseen.filter(|unseen| !is_end || *unseen != node.id());
            continue;
        }
        match node.value() {
            Content::Text(part) if !is_end => text.push_str(part),
            Content::Element(display) if *display == Display::Unseen || is_mark_of_note(node) => {
                unseen = Some(node.id());
            }
            Content::Element(Display::Quote) if marks_quotes => {
                text.push_str(if is_end { "\n</blockquote>\n" } else { "\n<blockquote>\n" });
            }
            Content::Element(Display::Block | Display::Quote) => text.push('\n'),
            Content::Text(_) | Content::Element(_) => {}
        }
    }
    text
}

/// Whether a node is all of a link from a raised number to its note, or the raised number in it.
fn is_mark_of_note(node: NodeRef<Content>) -> bool {
    matches!(
        (node.parent().map(|parent| parent.value()), node.value()),
        (Some(Content::Element(Display::Raised)), Content::Element(Display::Jump))
            | (Some(Content::Element(Display::Jump)), Content::Element(Display::Raised))
    )
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = Page;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Page {
        Page { nodes: self.nodes.into_inner(), body: self.body.get() }
    }

    fn get_document(&self) -> Handle {
        Rc::clone(&self.document)
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Handle {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.orphan(Content::Element(display_of(&name.local, &attributes))).id();
        if self.body.get().is_none() && name.expanded() == expanded_name!(html "body") {
            self.body.set(Some(node));
        }
        let mut unseen = || Element::nameless(Some(nodes.orphan(Content::Element(Display::Unseen)).id()));
        let contents = flags.template.then(&mut unseen);
        let is_integration_point = flags.mathml_annotation_xml_integration_point;
        let size = 1 + attributes.len();
        // How an element is shown is read from the values, each time that it is made.
        let bytes: usize = attributes.iter().map(|attribute| attribute.value.len()).sum();
        self.made.set(self.made.get() + size + bytes / VALUE_BYTES);
        self.held.set(self.held.get() + size);
        let held = Rc::clone(&self.held);
        Rc::new(Element { name, node: Some(node), contents, is_integration_point, size, held })
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        Element::nameless(None)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        Element::nameless(None)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.insert(parent.node, child, |mut parent, child| _ = parent.append_id(child));
    }

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        let place = sibling.node.filter(|_| self.has_parent(sibling));
        self.insert(place, child, |mut sibling, child| _ = sibling.insert_id_before(child));
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        if self.has_parent(element) {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(mut node) = target.node.and_then(|node| nodes.get_mut(node)) {
            node.detach();
        }
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        let mut nodes = self.nodes.borrow_mut();
        let new_parent = new_parent.node.and_then(|parent| nodes.get_mut(parent));
        if let (Some(node), Some(mut new_parent)) = (node.node, new_parent) {
            new_parent.reparent_from_id_append(node);
        }
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        let mut nodes = self.nodes.borrow_mut();
        let node = target.node.and_then(|node| nodes.get_mut(node));
        if let (Some(mut node), true) = (node, is_hidden(&attributes)) {
            *node.value() = Content::Element(Display::Unseen);
        }
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        Rc::clone(target.contents.as_ref().expect("only a template is asked for its content"))
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        handle.is_integration_point
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn set_quirks_mode(&self, _: QuirksMode) {}
}

pub(super) static DISPLAYS: LazyLock<HashMap<&str, Display>> = LazyLock::new(|| {
    let blocks = BLOCKS.split(' ').map(|name| (name, Display::Block));
    let others = [("sup", Display::Raised), ("blockquote", Display::Quote)];
    blocks.chain(UNSEEN.iter().map(|&name| (name, Display::Unseen))).chain(others).collect()
});

fn display_of(name: &str, attributes: &[Attribute]) -> Display {
    let is_unseen = is_hidden(attributes) || attributes.iter().any(|attribute| hides(name, attribute));
    if is_unseen {
        Display::Unseen
    } else if name == "a" && attributes.iter().any(leads_into_page) {
        Display::Jump
    } else {
        DISPLAYS.get(name).copied().unwrap_or(Display::Inline)
    }
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    // Readers find what is hidden until then: pages fold their sections so.
    let is_folded = |attribute: &Attribute| attribute.value.eq_ignore_ascii_case("until-found");
    attributes.iter().any(|attribute| attribute.name.local == local_name!("hidden") && !is_folded(attribute))
}

fn leads_into_page(attribute: &Attribute) -> bool {
    attribute.name.local == local_name!("href") && attribute.value.starts_with('#') && attribute.value.len() > 1
}

/// Whether an attribute says of its element that it is not shown, or that it is the mark of a note.
fn hides(name: &str, attribute: &Attribute) -> bool {
    let has = |tokens: &[&str]| attribute.value.split(is_space).any(|token| tokens.contains(&token));
    match &*attribute.name.local {
        // Many pages show their body by a script.
        _ if name == "body" => false,
        "style" => is_undisplayed(&attribute.value),
        "role" | "epub:type" => has(&NOTE_ROLES),
        "class" => name == "sup" && has(&NOTE_CLASSES),
        _ => false,
    }
}

/// Whether the last declaration of `display` says `none`: of those that are important, if there are any.
fn is_undisplayed(style: &str) -> bool {
    let bare = without_comments(style);
    let declarations = bare.split(';').filter_map(|declaration| declaration.split_once(':'));
    let displays = declarations.filter(|(name, _)| name.trim_matches(is_space).eq_ignore_ascii_case("display"));
    // Of equal ones it is the last.
    let display = displays.max_by_key(|(_, value)| value.contains('!'));
    let value = display.map(|(_, value)| value.split('!').next().unwrap_or_default().trim_matches(is_space));
    value.is_some_and(|value| value.eq_ignore_ascii_case("none"))
}

fn without_comments(style: &str) -> String {
    let (mut bare, mut rest) = (String::new(), style);
    while let Some((before, comment)) = rest.split_once("/*") {
        bare.extend([before, " "]);
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    bare + rest
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\x0c' | '\r')
}

#[cfg(test)]
mod tests {
    fn text_of(html: &str) -> String {
        super::text_of(html, false).unwrap()
    }

    #[test]
    fn blocks_stand_apart_and_inline_elements_do_not() {
        assert_eq!(text_of("<p>a<b>b</b>c<br>d</p>e<td>f"), "\nabc\n\nd\nef");
        assert_eq!(text_of("a<div hidden><p>b</div><!--c--><script>d</script>e"), "ae");
        assert_eq!(text_of("<body HIDDEN><p>a"), "");
    }

    #[test]
    fn quotations_keep_their_tags_where_quotes_are_marked() {
        let html = "a<blockquote class=x>b<BLOCKQUOTE><p>c</blockquote>d<blockquote hidden>e";
        let expected = "a\n<blockquote>\nb\n<blockquote>\n\nc\n\n</blockquote>\nd\n</blockquote>\n";
        assert_eq!(super::text_of(html, true).unwrap(), expected);
        assert_eq!(text_of(html), "a\nb\n\nc\n\nd\n");
    }

    #[test]
    fn what_is_not_read_is_no_text() {
        assert_eq!(text_of("<ruby>a<rp>(<rt>b<rp>)</ruby>c<rtc>d</rtc><datalist><option>e</datalist>f"), "acf");
        assert_eq!(
            text_of("a<i style='Display : NONE !important'>b</i><i style='display:none;display:block'>c</i>"),
            "ac"
        );
        assert_eq!(text_of("<body style=display:none>a<i style='background:none'>b"), "ab");
    }

    #[test]
    fn marks_of_notes_are_no_text() {
        assert_eq!(text_of("a<sup><a href=#n><b>1</b></a></sup>b<a href=#n>c<sup>2</sup></a><sup>3</sup>"), "abc3");
        assert_eq!(text_of("a<sup><a href=n>1</a></sup><a href=#n>2</a><sup class='x reference'>3</sup>"), "a12");
        assert_eq!(text_of("a<a role=doc-noteref href=n>1</a><a epub:type=noteref>2</a><i class=reference>b"), "ab");
    }

    #[test]
    fn what_is_moved_is_found_where_it_is_moved_to() {
        assert_eq!(text_of("<table>a<tr>b<td>c</table>d"), "ab\n\n\n\nc\n\n\n\nd");
        assert_eq!(text_of("<b>1<p>2</b>3</p>4"), "1\n23\n4");
        assert_eq!(text_of("a<div>b<frameset>c"), "a\nbc\n");
    }
}
