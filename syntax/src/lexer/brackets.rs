//! Open brackets, and how deep the expression between them is.
//!
//! The depth of the tree is bounded before there is a tree: an operator or a bracket makes the part
//! it stands in one level deeper than its deepest bracket. A comma begins a new part. The bound is
//! never too low; for a sum of products it counts the products' operators too.

use super::limits;

/// The brackets open at one place.
#[derive(Default)]
pub(super) struct Brackets {
    open: Vec<Open>,
    /// The part outside of all brackets.
    outside: Part,
    /// Levels of all open parts together.
    path: u32,
    /// Brackets that a muted line opened; they are only counted.
    pub(super) muted: usize,
}

/// One open bracket.
pub(super) struct Open {
    /// `(` or `[`.
    pub(super) byte: u8,
    /// Where it stands.
    pub(super) at: usize,
    part: Part,
}

/// What stands between two commas or brackets.
#[derive(Default, Clone, Copy)]
struct Part {
    operators: u32,
    deepest_inside: u32,
    /// Levels of the deepest part before the last comma.
    deepest_before: u32,
}

impl Part {
    fn levels(self) -> u32 {
        self.deepest_before.max(self.operators + self.deepest_inside)
    }
}

impl Brackets {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.muted == 0
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn innermost(&self) -> Option<&Open> {
        self.open.last()
    }

    pub(super) fn outermost(&self) -> Option<&Open> {
        self.open.first()
    }

    /// True if one of the open brackets is `byte`.
    pub(super) fn holds(&self, byte: u8) -> bool {
        self.open.iter().any(|open| open.byte == byte)
    }

    fn part(&mut self) -> &mut Part {
        match self.open.last_mut() {
            Some(open) => &mut open.part,
            None => &mut self.outside,
        }
    }

    /// Counts an operator; false when that is too deep.
    pub(super) fn deepen(&mut self) -> bool {
        self.path += 1;
        let part = self.part();
        part.operators += 1;
        let inside = part.deepest_inside;
        self.path + inside <= limits::EXPRESSION
    }

    /// Opens a bracket; false when that is too deep.
    pub(super) fn open(&mut self, byte: u8, at: usize) -> bool {
        let fits = self.deepen();
        self.open.push(Open { byte, at, part: Part::default() });
        fits && self.open.len() <= limits::BRACKETS
    }

    /// Closes the innermost bracket.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.path -= open.part.operators;
            let levels = open.part.levels();
            let part = self.part();
            part.deepest_inside = part.deepest_inside.max(levels);
        }
    }

    /// A comma: what follows is beside what was, not inside.
    pub(super) fn next_part(&mut self) {
        let part = self.part();
        let operators = part.operators;
        *part = Part { deepest_before: part.levels(), ..Part::default() };
        self.path -= operators;
    }

    /// From here on brackets are only counted, until the line ends.
    pub(super) fn mute(&mut self) {
        *self = Self { muted: self.open.len(), ..Self::default() };
    }

    /// Forgets everything: the line has ended.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
