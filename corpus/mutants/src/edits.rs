//! Texts that are put into a source at places, so that each edit may stand within another.

use std::ops::Range;

/// A text to be put in at a place, instead of what stands there.
#[derive(Clone, Debug)]
struct Edit {
    at: Range<usize>,
    text: String,
    mutant: u32,
    /// Texts at one place: what closes an inner one first, then what opens an outer one.
    order: i64,
}

/// The edits of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<Edit>,
}

/// Where the text of a mutant lies in the source as it was edited.
pub(crate) struct Placed {
    pub(crate) mutant: u32,
    pub(crate) at: Range<usize>,
}

impl Edits {
    /// Texts around a piece of the source. Outer pieces come first.
    pub(crate) fn around(&mut self, mutant: u32, at: Range<usize>, before: &str, after: &str) {
        let turn = i64::try_from(self.edits.len()).unwrap_or(i64::MAX) + 1;
        self.put(mutant, at.start..at.start, before, turn);
        self.put(mutant, at.end..at.end, after, -turn);
    }

    /// Another text instead of a token.
    pub(crate) fn instead(&mut self, mutant: u32, at: Range<usize>, text: &str) {
        self.put(mutant, at, text, 0);
    }

    fn put(&mut self, mutant: u32, at: Range<usize>, text: &str, order: i64) {
        self.edits.push(Edit { at, text: text.to_owned(), mutant, order });
    }

    /// Further edits of the same source, within those that are there.
    pub(crate) fn append(&mut self, other: Self) {
        let turn = i64::try_from(self.edits.len()).unwrap_or(i64::MAX);
        let moved = other
            .edits
            .into_iter()
            .map(|edit| Edit { order: edit.order + turn * edit.order.signum(), ..edit });
        self.edits.extend(moved);
    }

    /// The source with the edits of the mutants that are wanted, and where those lie.
    pub(crate) fn apply(
        &self,
        source: &str,
        wanted: impl Fn(u32) -> bool,
    ) -> (String, Vec<Placed>) {
        let mut edits: Vec<&Edit> = self.edits.iter().filter(|edit| wanted(edit.mutant)).collect();
        edits.sort_by_key(|edit| (edit.at.start, edit.order));
        let mut text = String::with_capacity(source.len() * 2);
        let mut placed = Vec::new();
        let mut done = 0;
        for edit in edits {
            text.push_str(&source[done..edit.at.start]);
            let start = text.len();
            text.push_str(&edit.text);
            placed.push(Placed { mutant: edit.mutant, at: start..text.len() });
            done = edit.at.end;
        }
        text.push_str(&source[done..]);
        (text, placed)
    }
}

#[cfg(test)]
mod tests {
    use super::Edits;

    #[test]
    fn edits_nest() {
        let mut edits = Edits::default();
        edits.around(0, 0..5, "f(", ")");
        edits.instead(0, 2..3, ",");
        edits.around(1, 0..1, "g(", ")");
        edits.around(2, 4..5, "h(", ")");
        assert_eq!(edits.apply("a + b", |_| true).0, "f(g(a) , h(b))");
        assert_eq!(edits.apply("a + b", |mutant| mutant == 2).0, "a + h(b)");
    }
}
