//! Places in a source text: byte ranges, and the table that turns them into lines and columns.

/// A half-open byte range of one source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start..end`, in bytes.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end) }
    }

    /// The smallest range that covers both.
    #[must_use]
    pub fn to(self, other: Span) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// True for the range that nothing in a text has: what a pass made, not a person.
    #[must_use]
    pub fn is_synthetic(self) -> bool {
        self == Span::default()
    }
}

/// A source file: its name as the user gave it, its text, and where its lines begin.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path or other name, for messages.
    pub name: String,
    /// The whole text.
    pub text: String,
    line_starts: Vec<u32>,
}

impl Source {
    /// Indexes the lines of `text`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut line_starts = vec![0];
        for (at, byte) in text.bytes().enumerate() {
            if byte == b'\n' {
                line_starts.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
            }
        }
        Self { name: name.into(), text, line_starts }
    }

    /// Line and column of a byte offset, both from 1; the column counts characters.
    #[must_use]
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let line = self.line_starts.partition_point(|&start| start <= offset).max(1);
        let start = self.line_starts[line - 1] as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self.text.get(start..end).map_or(0, |before| before.chars().count());
        (line, column + 1)
    }

    /// The text of line `line` (from 1), without its line break.
    #[must_use]
    pub fn line(&self, line: usize) -> &str {
        let Some(&start) = self.line_starts.get(line.wrapping_sub(1)) else { return "" };
        let rest = &self.text[start as usize..];
        rest.split('\n').next().unwrap_or("").trim_end_matches('\r')
    }
}
