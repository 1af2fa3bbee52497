//! A text whose parts are replaced, step by step, in two buffers that are used again.

use std::ops::Range;

use super::halves::Text;

/// The buffers of one thread.
#[derive(Default)]
pub struct Room {
    now: Buffer,
    other: Buffer,
}

/// A text without halves is made in the first one, so that it need not be checked again; others in the second one.
#[derive(Default)]
struct Buffer {
    whole: String,
    halves: Vec<u8>,
}

impl Buffer {
    fn clear(&mut self) {
        self.whole.clear();
        self.halves.clear();
    }

    /// The text that was made of one.
    fn made_of(&self, given: Text) -> Text<'_> {
        match given {
            Text::Whole(_) => Text::Whole(&self.whole),
            Text::Halves(_) => Text::Halves(&self.halves),
        }
    }
}

/// A text on its way through the steps. A text that no step changes is not copied.
pub struct Draft<'a> {
    given: Text<'a>,
    room: &'a mut Room,
    is_changed: bool,
}

impl<'a> Draft<'a> {
    /// A text before the first step.
    pub fn of(given: Text<'a>, room: &'a mut Room) -> Self {
        Self { given, room, is_changed: false }
    }

    /// What it is now.
    #[must_use]
    pub fn now(&self) -> Text<'_> {
        if self.is_changed { self.room.now.made_of(self.given) } else { self.given }
    }

    /// What it is in the end.
    #[must_use]
    pub fn done(self) -> Text<'a> {
        if self.is_changed { self.room.now.made_of(self.given) } else { self.given }
    }

    /// Takes a step; returns whether it replaced anything.
    pub fn take(&mut self, step: impl FnOnce(&mut Edit)) -> bool {
        let Room { now, other } = &mut *self.room;
        other.clear();
        let source = if self.is_changed { now.made_of(self.given) } else { self.given };
        let mut edit = Edit { text: source.bytes(), source, made: other, kept: 0, replaced: 0 };
        step(&mut edit);
        if edit.replaced == 0 {
            return false;
        }
        edit.keep_up_to(edit.text.len());
        std::mem::swap(&mut self.room.now, &mut self.room.other);
        self.is_changed = true;
        true
    }
}

/// One step: spans of the text are replaced in their order.
pub struct Edit<'a> {
    /// The text as it is before the step.
    pub text: &'a [u8],
    source: Text<'a>,
    made: &'a mut Buffer,
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
        match self.source {
            Text::Whole(_) => self.made.whole.push_str(by),
            Text::Halves(_) => self.made.halves.extend_from_slice(by.as_bytes()),
        }
        self.kept = span.end;
        self.replaced += 1;
    }

    /// Replaces a span by one character.
    pub fn replace_by(&mut self, span: Range<usize>, by: char) {
        self.replace(span, by.encode_utf8(&mut [0; 4]));
    }

    fn keep_up_to(&mut self, end: usize) {
        if end > self.kept {
            match self.source {
                Text::Whole(text) => self.made.whole.push_str(&text[self.kept..end]),
                Text::Halves(text) => self.made.halves.extend_from_slice(&text[self.kept..end]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, Room};
    use crate::text::halves::Text;

    #[test]
    fn a_text_that_no_step_changes_is_not_copied() {
        let (given, mut room) = ("渡口", Room::default());
        let mut draft = Draft::of(Text::Whole(given), &mut room);
        assert!(!draft.take(|_| ()));
        assert_eq!(draft.done().bytes().as_ptr(), given.as_ptr());
    }

    #[test]
    fn steps_take_what_the_last_one_made() {
        for given in [Text::Whole("abcdef"), Text::Halves(b"abcdef")] {
            let mut room = Room::default();
            let mut draft = Draft::of(given, &mut room);
            // The second span begins within the first one.
            assert!(draft.take(|edit| {
                edit.replace(1..3, "中");
                assert_eq!(edit.end(), 3);
                edit.replace(2..4, "-");
            }));
            assert_eq!(draft.now().bytes(), "a中-ef".as_bytes());
            assert!(draft.take(|edit| edit.replace_by(0..1, '\u{1f600}')));
            assert!(!draft.take(|_| ()));
            assert_eq!(draft.done().joined(), "\u{1f600}中-ef");
        }
    }
}
