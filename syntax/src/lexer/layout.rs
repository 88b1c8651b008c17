//! Lines and blocks: from indentation to `Newline`, `Indent` and `Dedent`.
//!
//! A logical line is ended lazily, when the indentation of the next one is known: only then can a
//! missing colon be told from a missing block, and both be repaired here, so that the parser sees a
//! well-formed block and no error follows from the first.

use super::{Lexer, Token, limits};
use crate::ast::Comment;
use crate::codes;
use crate::diagnostic::{Applicability, Diagnostic, Fix, Part};
use crate::span::Span;

/// What is known of the current line and of the open blocks.
pub(super) struct Layout {
    /// One expression: line ends mean nothing.
    joined: bool,
    line_start: bool,
    /// A line end inside brackets was read since the last token.
    crossed: bool,
    line: Line,
    blocks: Vec<Block>,
    /// Where the indent of the current line begins.
    indent_start: usize,
    tab_reported: bool,
}

/// The logical line that is being read.
#[derive(Default)]
struct Line {
    started: bool,
    begins_block: bool,
    has_colon: bool,
    ends_with_colon: bool,
    /// Something in it was reported already: say nothing more about its layout.
    spoiled: bool,
}

/// An open block.
struct Block {
    column: usize,
    /// Opened by an `Indent`; else by a line that is indented for no reason.
    real: bool,
    /// `elif`s so far in the chain that is being read: each is inside the one before.
    elifs: usize,
}

impl Layout {
    pub(super) fn lines() -> Self {
        Self {
            joined: false,
            line_start: true,
            crossed: false,
            line: Line::default(),
            blocks: Vec::new(),
            indent_start: 0,
            tab_reported: false,
        }
    }

    pub(super) fn joined() -> Self {
        Self { joined: true, line_start: false, ..Self::lines() }
    }

    pub(super) fn at_line_start(&self) -> bool {
        self.line_start
    }

    pub(super) fn cross_line_end(&mut self, outside_brackets: bool) {
        self.crossed = !outside_brackets;
        self.line_start = outside_brackets && !self.joined;
    }

    /// True where a statement may begin although a bracket is open.
    pub(super) fn takes_back_line(&self) -> bool {
        self.crossed && !self.joined
    }

    /// Notes that the line was reported; true if it was already.
    pub(super) fn spoil(&mut self) -> bool {
        std::mem::replace(&mut self.line.spoiled, true)
    }

    /// Notes a token of the current line.
    pub(super) fn see(&mut self, token: &Token<'_>, outside_brackets: bool) {
        self.crossed = false;
        if !self.line.started {
            self.line.started = true;
            // Blocks of other languages are blocks too: one error, not another for the indent.
            let is_foreign = matches!(token, Token::Name("class" | "while" | "try"));
            self.line.begins_block = token.begins_block() || is_foreign;
            if let Some(block) = self.blocks.last_mut() {
                match token {
                    Token::Elif => block.elifs += 1,
                    Token::Else => {}
                    _ => block.elifs = 0,
                }
            }
        }
        self.line.ends_with_colon = outside_brackets && matches!(token, Token::Colon);
        self.line.has_colon |= self.line.ends_with_colon;
    }

    fn column(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.column)
    }

    /// True when no block may be opened any more.
    pub(super) fn is_too_deep(&self) -> bool {
        let depth: usize = self.blocks.iter().map(|block| 1 + block.elifs).sum();
        depth > limits::BLOCKS
    }
}

impl Lexer<'_> {
    /// Finds the next line that holds a token, ends the one before and opens or closes blocks.
    pub(super) fn begin_line(&mut self) {
        let column = loop {
            let column = self.indentation();
            match self.byte(0) {
                _ if self.at_end() => break 0,
                b'#' => self.comment(true),
                b'\n' => self.at += 1,
                b'\r' if self.byte(1) == b'\n' => self.at += 2,
                _ => break column,
            }
        };
        self.layout.line_start = false;
        if self.layout.blocks.is_empty() {
            self.layout.blocks.push(Block { column: 0, real: true, elifs: 0 });
        }
        self.change_block(column);
        self.layout.line = Line::default();
        self.muted = false;
        self.brackets.clear();
        self.after_operand = false;
    }

    /// Skips the blanks at the start of a line and counts their columns; a tab is an error.
    fn indentation(&mut self) -> usize {
        let start = self.at;
        self.layout.indent_start = start;
        let mut column = 0;
        let mut tab = None;
        loop {
            match self.byte(0) {
                _ if self.at_end() => break,
                b' ' => column += 1,
                b'\t' => {
                    tab.get_or_insert(self.at);
                    column = (column / 4 + 1) * 4;
                }
                _ => break,
            }
            self.at += 1;
        }
        if let Some(tab) = tab
            && !self.layout.tab_reported
            && !self.at_end()
            && !matches!(self.byte(0), b'\n' | b'\r' | b'#')
        {
            self.layout.tab_reported = true;
            self.report(
                Diagnostic::error(
                    codes::TAB,
                    self.span(tab, tab + 1),
                    "expected spaces in an indent, found a tab",
                )
                .with_label("a tab")
                .with_note("further indents with tabs are not reported")
                .with_help("indent with four spaces; until then a tab counts as up to four")
                .with_edit(Fix {
                    span: self.span(start, self.at),
                    part: Part::Whole,
                    replacement: " ".repeat(column),
                    applicability: Applicability::Certain,
                }),
            );
        }
        column
    }

    /// Ends the line before and goes to the block of the line that begins at `column`.
    fn change_block(&mut self, column: usize) {
        let started = self.layout.line.started;
        let deeper = column > self.layout.column();
        let repaired = started && deeper && self.repair_colon();
        let opens = repaired || self.layout.line.ends_with_colon;
        if started {
            self.pending.push_back(Token::Newline);
        }
        if deeper && (opens || (self.layout.line.begins_block && self.layout.line.spoiled)) {
            self.open_block(column);
        } else if deeper {
            self.unexpected_indent(column);
        } else {
            if started && opens && self.layout.line.begins_block {
                self.missing_block();
            }
            self.close_blocks(column);
        }
    }

    /// Supplies the colon that a header lacks although a block follows.
    fn repair_colon(&mut self) -> bool {
        let line = &self.layout.line;
        if !line.begins_block || line.has_colon || line.spoiled {
            return false;
        }
        let at = self.last_end;
        self.report(
            Diagnostic::error(
                codes::MISSING_COLON,
                self.span(at, at),
                "expected `:` at the end of this header, found the end of the line",
            )
            .with_label("`:` is missing here")
            .with_help("write `:` before the block"),
        );
        self.pending.push_back(Token::Colon);
        true
    }

    fn open_block(&mut self, column: usize) {
        if self.layout.is_too_deep() {
            self.too_many_blocks();
            self.pending.extend([Token::Bad, Token::Newline]);
            return self.close_blocks(0);
        }
        self.pending.push_back(Token::Indent);
        self.layout.blocks.push(Block { column, real: true, elifs: 0 });
    }

    /// Reports blocks that are nested too deep and ends the text there.
    pub(super) fn too_many_blocks(&mut self) {
        let span = self.span(self.at, self.at);
        self.report(
            Diagnostic::error(codes::TOO_DEEP, span, "this block is nested too deep")
                .with_label(format!("deeper than {} blocks", limits::BLOCKS))
                .with_note("the rest of the file was not read")
                .with_help("move inner blocks to functions of their own"),
        );
        self.at = self.text.len();
    }

    fn unexpected_indent(&mut self, column: usize) {
        if !self.layout.line.spoiled {
            let expected = self.layout.column();
            let span = self.span(self.layout.indent_start, self.at);
            self.report(
                Diagnostic::error(
                    codes::INDENT,
                    span,
                    format!("expected an indent of {expected} spaces, found {column}"),
                )
                .with_label("the line above opens no block")
                .with_help("only the line after a `:` is indented further")
                .with_fix(" ".repeat(expected)),
            );
        }
        self.layout.blocks.push(Block { column, real: false, elifs: 0 });
    }

    /// Reports a header without a block and supplies an empty one.
    fn missing_block(&mut self) {
        let at = self.last_end;
        self.report(
            Diagnostic::error(
                codes::MISSING_BLOCK,
                self.span(at, at),
                "expected an indented block after this header, found none",
            )
            .with_label("a block must follow")
            .with_help("indent the lines of the block, or write `pass` for an empty one"),
        );
        self.pending.extend([Token::Indent, Token::Pass, Token::Newline, Token::Dedent]);
    }

    /// Closes the blocks that are indented further than `column`. A line between the indents of two blocks is taken for
    /// one of the nearer block: the lines after it are not wrong too.
    fn close_blocks(&mut self, column: usize) {
        let column = self.matching(column);
        while self.layout.column() > column {
            if let Some(block) = self.layout.blocks.pop()
                && block.real
            {
                self.pending.push_back(Token::Dedent);
            }
        }
    }

    /// The indent of the block that a line at `column` belongs to.
    fn matching(&mut self, column: usize) -> usize {
        let columns = || self.layout.blocks.iter().map(|block| block.column);
        let outer = columns().filter(|&other| other <= column).max().unwrap_or(0);
        let inner = columns().filter(|&other| other > column).min();
        let Some(inner) = inner.filter(|_| outer != column) else { return outer };
        let nearest = if column - outer < inner - column { outer } else { inner };
        self.report(
            Diagnostic::error(
                codes::INDENT,
                self.span(self.layout.indent_start, self.at),
                format!("this indent of {column} spaces matches no open block"),
            )
            .with_label(format!("blocks here have {outer} or {inner} spaces"))
            .with_help("indent it like the block that it belongs to")
            .with_fix(" ".repeat(nearest)),
        );
        nearest
    }

    /// The text is over: the last line ends and every block closes.
    pub(super) fn end_of_text(&mut self) {
        if self.layout.joined {
            if !self.brackets.is_empty() {
                self.close_all(None);
            }
            self.pending.push_back(Token::Newline);
            self.finished = true;
        } else if !self.brackets.is_empty() {
            self.close_all(None);
        } else if self.layout.line.started {
            self.layout.line_start = true;
        } else {
            self.finished = true;
        }
    }

    /// Gives up the open brackets, because the text ended or a statement begins at `next`.
    pub(super) fn close_all(&mut self, next: Option<usize>) {
        let found = next.map_or(self.text.len(), |at| at);
        if let Some(open) = self.brackets.outermost()
            && self.errors.get() <= limits::ERRORS
        {
            let (at, byte) = (open.at, char::from(open.byte));
            self.unclosed.push(self.span(at, found));
            let diagnostic = Diagnostic::error(
                codes::BRACKET,
                self.span(at, at + 1),
                format!("`{byte}` is never closed"),
            )
            .with_label("opened here");
            self.report(match next {
                Some(next) => diagnostic
                    .with_place(self.span(next, next + 1), "a new statement begins here")
                    .with_help("close the bracket before the next statement"),
                None => diagnostic.with_help("close the bracket"),
            });
        }
        self.brackets.clear();
        self.pending.push_back(Token::Bad);
        self.layout.line.spoiled = true;
        if let Some(next) = next {
            let before = &self.text[..next];
            self.at = before.rfind('\n').map_or(next, |line_end| line_end + 1);
            self.layout.line_start = true;
        }
        self.layout.crossed = false;
    }

    /// A `#` comment, up to its line's end.
    pub(super) fn comment(&mut self, own_line: bool) {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        let text = rest[..length].trim_end();
        let own_line = own_line || self.layout.crossed;
        let span: Span = self.span(self.at, self.at + text.len());
        self.comments.push(Comment { span, text: text.to_string(), own_line });
        self.at += length;
    }
}
