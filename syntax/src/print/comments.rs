//! Where comments and blank lines of the source text go.
//!
//! Comments are consumed in order. Those between statements keep their place; those inside a
//! bracket make it break into lines and stand with its items; what has no place inside its
//! statement moves to lines of its own before it. None is ever lost.

use super::Printer;
use crate::ast::Comment;
use crate::span::Span;

/// The comments that are not printed yet.
pub(super) struct Comments<'a> {
    text: &'a str,
    rest: &'a [Comment],
}

impl<'a> Comments<'a> {
    pub(super) fn new(text: &'a str, rest: &'a [Comment]) -> Self {
        Self { text, rest }
    }

    /// True if the next comment stands inside `span`.
    pub(super) fn any_in(&self, span: Span) -> bool {
        self.rest
            .first()
            .is_some_and(|next| span.start <= next.span.start && next.span.start < span.end)
    }

    /// The next comment that begins before `limit`.
    fn next_before(&self, limit: u32) -> Option<&'a Comment> {
        self.rest.first().filter(|next| next.span.start < limit)
    }

    fn advance(&mut self) {
        self.rest = &self.rest[1..];
    }

    /// True if only blanks stand in the line above that of `at`.
    pub(super) fn blank_above(&self, at: u32) -> bool {
        let before = self.text.get(..at as usize).unwrap_or("");
        let Some(line_end) = before.rfind('\n') else { return false };
        let above = &before[..line_end];
        let line = above.rfind('\n').map_or(above, |line_end| &above[line_end + 1..]);
        line.trim().is_empty()
    }

    /// The column at which `at` stands, from 0.
    fn column(&self, at: u32) -> usize {
        let before = self.text.get(..at as usize).unwrap_or("");
        before.len() - before.rfind('\n').map_or(0, |line_end| line_end + 1)
    }

    /// True if both places are in one line.
    fn same_line(&self, start: u32, end: u32) -> bool {
        let between = self.text.get(start as usize..end as usize);
        between.is_some_and(|between| !between.contains('\n'))
    }
}

impl Printer<'_> {
    /// Writes the comments before `limit` as lines of their own.
    fn comment_lines(&mut self, limit: u32, mut first: bool) -> bool {
        while let Some(comment) = self.comments.next_before(limit) {
            if !first && self.comments.blank_above(comment.span.start) {
                self.blank_line();
            }
            self.new_line();
            self.out.push_str(&comment.text);
            self.comments.advance();
            first = false;
        }
        first
    }

    /// Writes what stands before a statement: its comments, and a blank line if there was one.
    pub(super) fn lead(&mut self, at: u32, first: bool) {
        let first = self.comment_lines(at, first);
        if !first && self.comments.blank_above(at) {
            self.blank_line();
        }
    }

    /// True if a comment or a statement that begins at `at` follows a blank line.
    pub(super) fn blank_before_next(&self, at: u32) -> bool {
        let next = self.comments.next_before(at).map_or(at, |comment| comment.span.start);
        self.comments.blank_above(next)
    }

    /// Writes the comment that follows in the line of what ended at `end`.
    pub(super) fn trail(&mut self, end: u32) {
        if let Some(comment) = self.comments.next_before(u32::MAX)
            && !comment.own_line
            && self.comments.same_line(end, comment.span.start)
        {
            self.append(&comment.text.clone());
        }
    }

    /// Writes the comment that follows a header, whose block begins at `block`.
    pub(super) fn trail_header(&mut self, block: u32) {
        if let Some(comment) = self.comments.next_before(block)
            && !comment.own_line
        {
            self.append(&comment.text.clone());
        }
    }

    fn append(&mut self, text: &str) {
        self.out.push_str("  ");
        self.out.push_str(text);
        self.comments.advance();
    }

    /// Moves comments that found no place before `end` to lines before the line begun at `start`.
    pub(super) fn hoist(&mut self, start: usize, end: u32) {
        let mut lines = String::new();
        while let Some(comment) = self.comments.next_before(end) {
            lines.push_str(&comment.text);
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', self.level * super::INDENT));
            self.comments.advance();
        }
        self.out.insert_str(start, &lines);
    }

    /// Writes the comments at the end of a block: those before `limit` that are indented like it.
    pub(super) fn close_block(&mut self, block: u32, limit: u32) {
        let column = self.comments.column(block);
        while let Some(comment) = self.comments.next_before(limit) {
            if self.comments.column(comment.span.start) < column {
                break;
            }
            self.comment_lines(comment.span.start + 1, false);
        }
    }

    /// Writes the comments before `at` as lines of their own, without blank lines.
    pub(super) fn comment_lines_tight(&mut self, at: u32) {
        while let Some(comment) = self.comments.next_before(at) {
            self.new_line();
            self.out.push_str(&comment.text);
            self.comments.advance();
        }
    }

    /// Writes all comments that are left.
    pub(super) fn close_file(&mut self, empty: bool) {
        self.comment_lines(u32::MAX, empty);
    }

    /// Writes comments inside a bracket before `limit`; the first may follow the item before it.
    pub(super) fn bracket_comments(&mut self, limit: u32, mut after_item: bool) {
        while let Some(comment) = self.comments.next_before(limit) {
            if after_item && !comment.own_line {
                self.out.push_str("  ");
            } else {
                self.new_line();
            }
            after_item = false;
            self.out.push_str(&comment.text);
            self.comments.advance();
        }
    }
}
