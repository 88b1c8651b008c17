//! Operators, brackets, and characters that mean nothing in the language.

use super::{Lexer, Read, Token, limits};
use crate::ast::BinaryOp;
use crate::codes;
use crate::diagnostic::Diagnostic;

impl<'s> Lexer<'s> {
    /// Reads an operator, a bracket, a number that begins with a point, or reports what it is not.
    pub(super) fn symbol(&mut self) -> Read<'s> {
        match self.byte(0) {
            b'(' => self.open(b'(', Token::OpenParen),
            b'[' => self.open(b'[', Token::OpenBracket),
            b')' => self.close(b'(', Token::CloseParen),
            b']' => self.close(b'[', Token::CloseBracket),
            b',' => {
                self.brackets.next_part();
                self.take(1, Token::Comma)
            }
            b'.' if self.byte(1).is_ascii_digit() => Some(self.number(self.at)),
            b'.' if self.byte(1) == b'.' && self.byte(2) == b'.' => self.take(3, Token::Ellipsis),
            b'-' => self.minus(),
            b'@' if self.layout.takes_back_line() => {
                self.close_all(Some(self.at));
                None
            }
            // At the start of a line it begins a decorator.
            b'@' if self.after_operand => self.take(1, Token::Infix(BinaryOp::MatMul)),
            first => match operator(first, self.byte(1), self.byte(2)) {
                Some((width, token)) => self.take(width, token),
                None => self.foreign_operator(),
            },
        }
    }

    fn take(&mut self, width: usize, token: Token<'s>) -> Read<'s> {
        self.at += width;
        Some(token)
    }

    /// `->`, `-=`, a negative literal, or `-`.
    fn minus(&mut self) -> Read<'s> {
        match self.byte(1) {
            b'>' => return self.take(2, Token::Arrow),
            b'=' => return self.take(2, Token::Update(BinaryOp::Sub)),
            _ => {}
        }
        if !self.after_operand {
            let rest = &self.text.as_bytes()[self.at + 1..];
            let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
            let digit = match (rest.get(blanks), rest.get(blanks + 1)) {
                (Some(b'.'), Some(next)) => next.is_ascii_digit(),
                (Some(first), _) => first.is_ascii_digit(),
                _ => false,
            };
            if digit {
                return Some(self.number(self.at + 1 + blanks));
            }
        }
        self.take(1, Token::Minus)
    }

    fn open(&mut self, byte: u8, token: Token<'s>) -> Read<'s> {
        let start = self.at;
        self.at += 1;
        if self.muted {
            self.brackets.muted += 1;
        } else if !self.brackets.open(byte, start) {
            let (what, limit) = if self.brackets.len() > limits::BRACKETS {
                ("this bracket", format!("{} brackets", limits::BRACKETS))
            } else {
                ("this expression", format!("{} levels", limits::EXPRESSION))
            };
            self.pending.push_back(Token::Bad);
            self.too_deep(start, what, &limit);
        }
        Some(token)
    }

    /// Closes a bracket; one that does not match is reported and replaced by what does.
    fn close(&mut self, opener: u8, token: Token<'s>) -> Read<'s> {
        let start = self.at;
        self.at += 1;
        if self.muted {
            self.brackets.muted = self.brackets.muted.saturating_sub(1);
            return Some(token);
        }
        let Some(innermost) = self.brackets.innermost() else {
            self.report(
                Diagnostic::error(
                    codes::BRACKET,
                    self.span(start, start + 1),
                    format!("{} closes no bracket", token.describe()),
                )
                .with_label("nothing is open here")
                .with_help("remove it, or open the bracket before"),
            );
            return None;
        };
        let (byte, opened) = (innermost.byte, innermost.at);
        if byte == opener {
            self.brackets.close();
            return Some(token);
        }
        self.mismatch(byte, opened, start, &token);
        if self.brackets.holds(opener) {
            // The inner bracket was forgotten: close it and read the closer again.
            self.at = start;
        }
        self.brackets.close();
        Some(if byte == b'(' { Token::CloseParen } else { Token::CloseBracket })
    }

    fn mismatch(&mut self, byte: u8, opened: usize, at: usize, found: &Token<'_>) {
        let closer = if byte == b'(' { ')' } else { ']' };
        self.report(
            Diagnostic::error(
                codes::BRACKET,
                self.span(at, at + 1),
                format!("expected `{closer}`, found {}", found.describe()),
            )
            .with_label(format!("`{closer}` is missing here"))
            .with_place(
                self.span(opened, opened + 1),
                format!("`{}` was opened here", char::from(byte)),
            ),
        );
    }

    /// Operators of other languages, each with what is written here.
    fn foreign_operator(&mut self) -> Read<'s> {
        let start = self.at;
        let (width, help, token) = match (self.byte(0), self.byte(1)) {
            (b'&', b'&') => (2, "write `and`", Some(Token::Infix(BinaryOp::And))),
            (b'|', b'|') => (2, "write `or`", Some(Token::Infix(BinaryOp::Or))),
            (b':', b'=') => (2, "write `=`: a binding is a statement", Some(Token::Equals)),
            (b'!', _) => (1, "write `not`", Some(Token::Not)),
            (b';', _) => (1, "write each statement on a line of its own", None),
            _ => return self.unknown_characters(),
        };
        let spelling = &self.text[start..start + width];
        self.report(
            Diagnostic::error(
                codes::FOREIGN_OPERATOR,
                self.span(start, start + width),
                format!("`{spelling}` is not an operator of the language"),
            )
            .with_help(help),
        );
        self.at += width;
        if token.is_none() && self.brackets.is_empty() {
            return self.end_at_semicolon();
        }
        token
    }

    /// Reads on as if the line ended at the `;`.
    fn end_at_semicolon(&mut self) -> Read<'s> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', ';', '\r']);
        self.at = self.text.len() - rest.len();
        let line_is_over = rest.is_empty() || rest.starts_with(['\n', '#']);
        if line_is_over { None } else { Some(Token::Newline) }
    }

    /// Reports a run of characters that can be in no token.
    pub(super) fn unknown_characters(&mut self) -> Read<'s> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest
            .char_indices()
            .skip(1)
            .find(|(_, next)| next.is_ascii() && !is_unknown(*next))
            .map_or(rest.len(), |(at, _)| at);
        self.at += length;
        if self.layout.spoil() {
            // One report a line: a second brace closes the first, more letters are more of a word.
            return Some(Token::Bad);
        }
        let first = rest.chars().next().unwrap_or('\0');
        let (shown, help) = match first {
            '\0' => ("a NUL byte".to_string(), Some("is this a text file?")),
            '\u{feff}' => ("a byte order mark".to_string(), Some("remove it")),
            '{' | '}' => (format!("`{first}`"), Some("blocks are indented; there are no braces")),
            '\\' => ("`\\`".to_string(), Some("a `\\` joins lines only as the last character")),
            '\r' => ("a carriage return inside a line".to_string(), None),
            '.' => {
                ("`.`".to_string(), Some("a name holds its dots without blanks: `builtin.copy`"))
            }
            _ if first.is_control() => (format!("the control character {first:?}"), None),
            _ if first.is_alphanumeric() => {
                (format!("`{first}`"), Some("names are made of `A-Z a-z 0-9 _`"))
            }
            _ => (format!("`{first}`"), None),
        };
        let span = self.span(start, self.at);
        let mut diagnostic =
            Diagnostic::error(codes::CHARACTER, span, format!("expected a token, found {shown}"));
        diagnostic.help = help.map(str::to_string);
        self.report(diagnostic);
        Some(Token::Bad)
    }
}

/// Characters that begin no token, so that a run of them is one error.
fn is_unknown(character: char) -> bool {
    character.is_ascii_control() && !matches!(character, '\n' | '\t' | '\r')
        || matches!(character, '$' | '?' | '`' | '{' | '}')
}

/// The operators and signs: their width and token.
fn operator(first: u8, second: u8, third: u8) -> Option<(usize, Token<'static>)> {
    use BinaryOp as B;
    let infix = |op, width| Some((width, Token::Infix(op)));
    let update = |op| Some((2, Token::Update(op)));
    match (first, second, third) {
        (b'=', b'=', _) => infix(B::Equal, 2),
        (b'!', b'=', _) => infix(B::NotEqual, 2),
        (b'<', b'=', _) => infix(B::LessEqual, 2),
        (b'<', b'<', _) => infix(B::ShiftLeft, 2),
        (b'<', ..) => infix(B::Less, 1),
        (b'>', b'=', _) => infix(B::GreaterEqual, 2),
        (b'>', b'>', _) => infix(B::ShiftRight, 2),
        (b'>', ..) => infix(B::Greater, 1),
        (b'&', b'&', _) | (b'|', b'|', _) | (b':', b'=', _) => None,
        (b'&', ..) => infix(B::BitAnd, 1),
        (b'|', ..) => infix(B::BitOr, 1),
        (b'^', ..) => infix(B::BitXor, 1),
        (b'*', b'*', _) => infix(B::Power, 2),
        (b'/', b'/', _) => infix(B::FloorDiv, 2),
        (b'*', b'=', _) => update(B::Mul),
        (b'/', b'=', _) => update(B::Div),
        (b'+', b'=', _) => update(B::Add),
        (b'*', ..) => infix(B::Mul, 1),
        (b'/', ..) => infix(B::Div, 1),
        (b'+', ..) => infix(B::Add, 1),
        (b'%', ..) => infix(B::Mod, 1),
        (b'=', ..) => Some((1, Token::Equals)),
        (b':', ..) => Some((1, Token::Colon)),
        (b'~', ..) => Some((1, Token::Tilde)),
        (b'@', ..) => Some((1, Token::At)),
        _ => None,
    }
}
