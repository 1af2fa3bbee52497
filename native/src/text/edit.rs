//! A text whose parts are replaced, step by step, in two buffers that are used again.

use std::ops::Range;

/// The buffers of one thread.
#[derive(Default)]
pub struct Room {
    now: Vec<u8>,
    other: Vec<u8>,
}

/// A text in generalized UTF-8 on its way through the steps. A text that no step changes is not copied.
pub struct Draft<'a> {
    given: &'a [u8],
    room: &'a mut Room,
    is_changed: bool,
}

impl<'a> Draft<'a> {
    /// A text before the first step.
    pub fn of(given: &'a [u8], room: &'a mut Room) -> Self {
        Self { given, room, is_changed: false }
    }

    /// What it is now.
    #[must_use]
    pub fn now(&self) -> &[u8] {
        if self.is_changed { &self.room.now } else { self.given }
    }

    /// Whether a step replaced anything.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// What it is in the end.
    #[must_use]
    pub fn done(self) -> &'a [u8] {
        if self.is_changed { &self.room.now } else { self.given }
    }

    /// Takes a step; returns whether it replaced anything.
    pub fn take(&mut self, step: impl FnOnce(&mut Edit)) -> bool {
        let Room { now, other } = &mut *self.room;
        other.clear();
        let text = if self.is_changed { now.as_slice() } else { self.given };
        let mut edit = Edit { text, made: other, kept: 0, replaced: 0 };
        step(&mut edit);
        if edit.replaced == 0 {
            return false;
        }
        edit.keep_up_to(text.len());
        std::mem::swap(now, other);
        self.is_changed = true;
        true
    }
}

/// One step: spans of the text are replaced in their order.
pub struct Edit<'a> {
    /// The text as it is before the step.
    pub text: &'a [u8],
    made: &'a mut Vec<u8>,
    /// Up to where it is made.
    kept: usize,
    replaced: usize,
}

impl Edit<'_> {
    /// Where the last span that was replaced ends.
    #[must_use]
    pub fn end(&self) -> usize {
        self.kept
    }

    /// Replaces a span of whole characters. It may begin within the last one, and then takes the place of what is left
    /// of it; it must not end before that one does.
    pub fn replace(&mut self, span: Range<usize>, by: &str) {
        self.keep_up_to(span.start);
        self.made.extend_from_slice(by.as_bytes());
        self.kept = span.end;
        self.replaced += 1;
    }

    /// Replaces a span by one character.
    pub fn replace_by(&mut self, span: Range<usize>, by: char) {
        self.replace(span, by.encode_utf8(&mut [0; 4]));
    }

    fn keep_up_to(&mut self, end: usize) {
        if end > self.kept {
            self.made.extend_from_slice(&self.text[self.kept..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, Room};

    #[test]
    fn a_text_that_no_step_changes_is_not_copied() {
        let (given, mut room) = ("渡口".as_bytes(), Room::default());
        let mut draft = Draft::of(given, &mut room);
        assert!(!draft.take(|_| ()));
        assert_eq!(draft.done().as_ptr(), given.as_ptr());
    }

    #[test]
    fn steps_take_what_the_last_one_made() {
        let mut room = Room::default();
        let mut draft = Draft::of(b"abcdef", &mut room);
        // The second span begins within the first one.
        assert!(draft.take(|edit| {
            edit.replace(1..3, "中");
            assert_eq!(edit.end(), 3);
            edit.replace(2..4, "-");
        }));
        assert_eq!(draft.now(), "a中-ef".as_bytes());
        assert!(draft.take(|edit| edit.replace_by(0..1, '\u{1f600}')));
        assert!(!draft.take(|_| ()));
        assert_eq!(draft.done(), "\u{1f600}中-ef".as_bytes());
    }
}
