//! Text to tokens, with Python's layout rules.
//!
//! The lexer never fails: what it cannot read it reports and skips, or passes on as [`Token::Bad`],
//! about which the parser stays silent. It also enforces the limits that keep every later stage
//! from recursing too deep (see [`limits`]), as only it sees a text before a tree is built.

mod brackets;
mod layout;
mod literals;
mod symbols;
mod token;

pub(crate) use token::Token;

use crate::ast::Comment;
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use brackets::Brackets;
use layout::Layout;
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;

/// What is refused, so that no later stage can run out of stack or of 32-bit positions.
pub mod limits {
    /// Brackets inside each other.
    pub const BRACKETS: usize = 200;
    /// Levels of one expression, from above: operators of a chain and brackets around it.
    pub const EXPRESSION: u32 = 500;
    /// Blocks inside each other; an `elif` counts as one inside the `if`.
    pub const BLOCKS: usize = 200;
    /// Bytes of one file.
    pub const FILE_BYTES: usize = 1 << 30;
    /// Errors reported for one file.
    pub const ERRORS: usize = 100;
}

/// Reads the tokens of a text, one by one.
pub(crate) struct Lexer<'s> {
    text: &'s str,
    at: usize,
    /// Where the text begins in its file.
    base: u32,
    /// Zero-width tokens that are due before the next one is read.
    pending: VecDeque<Token<'s>>,
    /// Where the last token with a width ended.
    last_end: usize,
    after_operand: bool,
    brackets: Brackets,
    layout: Layout,
    /// Tokens are read but not passed on until the line ends: something in it was too deep.
    muted: bool,
    finished: bool,
    /// Errors of lexer and parser so far; past the limit the text ends.
    errors: &'s Cell<usize>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) comments: Vec<Comment>,
    /// From a bracket that nothing closes to where that was noticed: the parser's errors in there
    /// only repeat it.
    pub(crate) unclosed: Vec<Span>,
}

/// What a token is read as: `Some` is passed on, `None` means that only blanks were skipped.
type Read<'s> = Option<Token<'s>>;

impl<'s> Lexer<'s> {
    /// A lexer for a whole file.
    pub(crate) fn file(text: &'s str, errors: &'s Cell<usize>) -> Self {
        Self {
            text,
            at: if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 },
            base: 0,
            pending: VecDeque::new(),
            last_end: 0,
            after_operand: false,
            brackets: Brackets::default(),
            layout: Layout::lines(),
            muted: false,
            finished: false,
            errors,
            diagnostics: Vec::new(),
            comments: Vec::new(),
            unclosed: Vec::new(),
        }
    }

    /// A lexer for one expression that begins at `base` of its file; line ends mean nothing.
    pub(crate) fn expression(text: &'s str, base: u32, errors: &'s Cell<usize>) -> Self {
        Self { at: 0, base, layout: Layout::joined(), ..Self::file(text, errors) }
    }

    fn place(&self, at: usize) -> u32 {
        u32::try_from(at).unwrap_or(u32::MAX).saturating_add(self.base)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { start: self.place(start), end: self.place(end) }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(b'\n')
    }

    fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.errors.set(self.errors.get() + 1);
        if self.diagnostics.len() <= limits::ERRORS {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Reads blanks, comments, line ends and at most one token.
    fn read(&mut self) -> Read<'s> {
        if self.layout.at_line_start() {
            self.begin_line();
            return None;
        }
        if self.at_end() {
            self.end_of_text();
            return None;
        }
        match self.byte(0) {
            b' ' | b'\t' => {
                self.skip_blanks();
                None
            }
            b'#' => {
                self.comment(false);
                None
            }
            b'\n' | b'\r' | b'\\' => self.line_end(),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            b'0'..=b'9' => Some(self.number(self.at)),
            b'"' | b'\'' => Some(self.string()),
            _ => self.symbol(),
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.byte(0), b' ' | b'\t') {
            self.at += 1;
        }
    }

    /// A line end, or a backslash that joins two lines.
    fn line_end(&mut self) -> Read<'s> {
        let joins = self.byte(0) == b'\\';
        let from = self.at + usize::from(joins);
        let bytes = self.text.as_bytes();
        let width = match (bytes.get(from), bytes.get(from + 1)) {
            (Some(b'\n'), _) => 1,
            (Some(b'\r'), Some(b'\n')) => 2,
            _ => return self.unknown_characters(),
        };
        self.at = from + width;
        if !joins {
            self.layout.cross_line_end(self.brackets.is_empty());
        }
        None
    }

    /// A name with its dots, or a keyword.
    fn word(&mut self) -> Read<'s> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            while bytes.get(end).is_some_and(|&byte| is_word(byte)) {
                end += 1;
            }
            let dotted = bytes.get(end) == Some(&b'.')
                && bytes.get(end + 1).is_some_and(|&byte| is_word(byte) && !byte.is_ascii_digit());
            if !dotted {
                break;
            }
            end += 1;
        }
        let token = Token::word(&self.text[start..end]);
        if self.layout.takes_back_line() && token.begins_statement() {
            self.close_all(Some(start));
            return None;
        }
        self.at = end;
        Some(token)
    }

    /// Passes a token on, after counting how deep it is.
    fn emit(&mut self, start: usize, token: Token<'s>) -> Option<(u32, Token<'s>, u32)> {
        self.last_end = self.at;
        self.after_operand = token.ends_operand();
        self.layout.see(&token, self.brackets.is_empty());
        if self.muted {
            return None;
        }
        let token = if token.deepens() && !self.brackets.deepen() {
            self.too_deep(start, "this expression", &format!("{} levels", limits::EXPRESSION));
            Token::Bad
        } else if token == Token::Elif && self.layout.is_too_deep() {
            self.too_many_blocks();
            Token::Bad
        } else {
            token
        };
        Some((self.place(start), token, self.place(self.at)))
    }

    /// Reports that something is nested too deep and mutes the rest of its line.
    fn too_deep(&mut self, start: usize, what: &str, limit: &str) {
        let span = self.span(start, self.at.max(start + 1));
        self.report(
            Diagnostic::error(codes::TOO_DEEP, span, format!("{what} is nested too deep"))
                .with_label(format!("deeper than {limit} here"))
                .with_help("bind parts of it to names, a line each"),
        );
        self.muted = true;
        self.brackets.mute();
        self.layout.spoil();
    }
}

/// True for the bytes of a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'s> Iterator for Lexer<'s> {
    type Item = Result<(u32, Token<'s>, u32), Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(token) = self.pending.pop_front() {
                let at = self.place(self.last_end);
                return Some(Ok((at, token, at)));
            }
            if self.finished {
                return None;
            }
            if self.errors.get() > limits::ERRORS && !self.layout.at_line_start() {
                self.at = self.text.len();
            }
            let start = self.at;
            if let Some(token) = self.read()
                && let Some(item) = self.emit(start, token)
            {
                return Some(Ok(item));
            }
        }
    }
}
