//! Random choices read from a string of bytes. A shorter string makes a smaller program, so that whatever shrinks
//! bytes shrinks programs.

/// A string of choices; when it ends, every further choice is the first.
#[derive(Clone, Debug)]
pub(super) struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The choices of one of `count` parts.
    pub(super) fn part(&self, index: usize, count: usize) -> Self {
        let length = self.bytes.len().div_ceil(count.max(1));
        let bytes = self.bytes.chunks(length.max(1)).nth(index).unwrap_or_default();
        Self { bytes }
    }

    /// True when nothing is left to choose.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A number below `count`, which is at least 1.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*first) % count
    }

    /// One of the items.
    pub(super) fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True once in `count` times.
    pub(super) fn once_in(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count
    }
}
