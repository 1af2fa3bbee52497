//! The values of a JSON object at paths, in one pass.
//!
//! A path is a row of steps: the member of an object, an element of an array, all elements of an array. Only what a path
//! leads to is looked at; the rest is read, because it must be JSON, and nothing is made of it. Each token is compared
//! with the steps of the paths that lead into its object or array, so the time is proportional to the value, and nesting
//! is no recursion: the walk is as deep as the longest path. Of members of one name the last one counts, also where what
//! the earlier ones hold was taken already.

use super::json::{Container, Number, Reader, Token, Written};
use super::{Kind, Reason};

/// A step from a value into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The member of this name, in generalized UTF-8.
    Key(Vec<u8>),
    /// The element with this index.
    Element(usize),
    /// Every element.
    All,
}

/// Where a field is.
#[derive(Clone, Debug)]
pub struct Path {
    /// As the configuration has it, in generalized UTF-8.
    pub name: Vec<u8>,
    /// From the object of the record on.
    pub steps: Vec<Step>,
    /// Whether an array that it leads to stands for its elements.
    pub takes_lists: bool,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string, or a string of a list.
    Text(Written<'a>),
    /// A number.
    Number(Number<'a>),
    /// true or false.
    Boolean(bool),
    /// Another value.
    Other(Kind),
    /// An array of which the elements follow: its strings, and no nulls.
    List,
}

/// What each path leads to: no value, one, or several if it has a step to all elements or takes lists.
///
/// The reader has read the beginning of the object, and reads to its end.
///
/// # Errors
/// It is not JSON, or nested too deeply.
pub fn values<'a, 'p>(
    reader: &mut Reader<'a>,
    paths: impl Iterator<Item = &'p Path>,
) -> Result<Vec<Vec<Value<'a>>>, Reason> {
    let paths: Vec<_> = paths.collect();
    let mut walk = Walk {
        values: vec![Vec::new(); paths.len()],
        active: (0..paths.len()).map(|path| Active { path, step: 0, held: 0 }).collect(),
        open: vec![Open { begin: 0, elements: 0 }],
        matched: Vec::new(),
        paths,
    };
    while !walk.open.is_empty() {
        match reader.next_token()?.ok_or(Reason::NotJson)? {
            Token::End => walk.leave(),
            Token::Name(name) => {
                walk.match_member(name);
                let value = reader.next_token()?.ok_or(Reason::NotJson)?;
                walk.take(value, reader)?;
            }
            value => {
                walk.match_element();
                walk.take(value, reader)?;
            }
        }
    }
    Ok(walk.values)
}

/// A path that leads into an open object or array, by this step.
#[derive(Clone, Copy)]
struct Active {
    path: usize,
    /// The number of its steps stands for the elements of a list that it leads to.
    step: usize,
    /// How many values it had at the beginning of the object.
    held: usize,
}

/// An object or array into which paths lead.
struct Open {
    /// The first of them in `Walk::active`.
    begin: usize,
    /// Elements read.
    elements: usize,
}

struct Walk<'a, 'p> {
    paths: Vec<&'p Path>,
    values: Vec<Vec<Value<'a>>>,
    active: Vec<Active>,
    open: Vec<Open>,
    /// The paths that lead to the next value, by the step before this one.
    matched: Vec<(usize, usize)>,
}

impl<'a> Walk<'a, '_> {
    fn match_member(&mut self, name: Written) {
        self.matched.clear();
        let begin = self.open.last().map_or(0, |open| open.begin);
        for &Active { path, step, held } in &self.active[begin..] {
            if let Some(Step::Key(key)) = self.paths[path].steps.get(step) {
                if name.is(key) {
                    self.values[path].truncate(held);
                    self.matched.push((path, step + 1));
                }
            }
        }
    }

    fn match_element(&mut self) {
        self.matched.clear();
        let Some(open) = self.open.last_mut() else { return };
        let element = open.elements;
        open.elements += 1;
        for &Active { path, step, .. } in &self.active[open.begin..] {
            let is_led_to = match self.paths[path].steps.get(step) {
                Some(Step::Element(at)) => *at == element,
                Some(Step::Key(_)) => false,
                Some(Step::All) | None => true,
            };
            if is_led_to {
                self.matched.push((path, step + 1));
            }
        }
    }

    /// Take what the matched paths need of a value; go into it, or past it.
    fn take(&mut self, value: Token<'a>, reader: &mut Reader<'a>) -> Result<(), Reason> {
        let begin = self.active.len();
        for &(path, step) in &self.matched {
            if lead_into(self.paths[path], step, value, &mut self.values[path]) {
                self.active.push(Active { path, step, held: self.values[path].len() });
            }
        }
        if begin < self.active.len() {
            self.open.push(Open { begin, elements: 0 });
        } else if matches!(value, Token::Begin(_)) {
            reader.leave()?;
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(open) = self.open.pop() {
            self.active.truncate(open.begin);
        }
    }
}

/// Take a value if the path ends at it; whether the path leads into it.
fn lead_into<'a>(path: &Path, step: usize, value: Token<'a>, values: &mut Vec<Value<'a>>) -> bool {
    if let Some(next) = path.steps.get(step) {
        let container = if matches!(next, Step::Key(_)) { Container::Object } else { Container::Array };
        return value == Token::Begin(container);
    }
    let is_in_list = step > path.steps.len();
    match value {
        Token::Begin(Container::Array) if path.takes_lists && !is_in_list => {
            values.push(Value::List);
            return true;
        }
        Token::Text(text) => values.push(Value::Text(text)),
        Token::Null if is_in_list => {}
        _ if is_in_list => values.push(Value::Other(Kind::Mixed)),
        Token::Number(number) => values.push(Value::Number(number)),
        Token::Boolean(flag) => values.push(Value::Boolean(flag)),
        other => values.push(Value::Other(Kind::of(other))),
    }
    false
}
