//! A text whose parts are replaced, step by step, in two buffers that are used again.

use std::ops::Range;

/// The buffers of one thread.
#[derive(Default)]
pub struct Room {
    now: Vec<u8>,
    other: Vec<u8>,
}

/// A text on its way through the steps. A text that no step changes is not copied.
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
    pub fn text(&self) -> &[u8] {
        if self.is_changed { &self.room.now } else { self.given }
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
        let text = if self.is_changed { &now[..] } else { self.given };
        let mut edit = Edit { text, made: other, kept: 0, replaced: 0 };
        step(&mut edit);
        if edit.replaced == 0 {
            return false;
        }
        edit.keep_up_to(text.len());
        std::mem::swap(&mut self.room.now, &mut self.room.other);
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

    /// Replaces a span. What of it was replaced already is gone.
    pub fn replace(&mut self, span: Range<usize>, by: &[u8]) {
        self.keep_up_to(span.start);
        self.made.extend_from_slice(by);
        self.kept = span.end;
        self.replaced += 1;
    }

    fn keep_up_to(&mut self, end: usize) {
        if end > self.kept {
            self.made.extend_from_slice(&self.text[self.kept..end]);
        }
    }
}
