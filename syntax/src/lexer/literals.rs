//! Numbers and strings.

use super::{Lexer, Token, is_word};
use crate::Name;
use crate::codes;
use crate::diagnostic::Diagnostic;

impl<'s> Lexer<'s> {
    /// Reads the number at `digits`; it is negative when that is behind a `-` at the current place.
    pub(super) fn number(&mut self, digits: usize) -> Token<'s> {
        let start = self.at;
        let negative = digits > start;
        let (end, is_float) = number_end(self.text.as_bytes(), digits);
        self.at = end;
        let literal = &self.text[digits..end];
        let read = if is_float { float(literal) } else { integer(literal) };
        match read.and_then(|token| if negative { negate(token) } else { Ok(token) }) {
            Ok(token) => token,
            Err(wrong) => {
                self.report_number(start, wrong);
                Token::Bad
            }
        }
    }

    fn report_number(&mut self, start: usize, wrong: Wrong) {
        let span = self.span(start, self.at);
        let diagnostic = match wrong {
            Wrong::Form(help) => Diagnostic::error(
                codes::NUMBER,
                span,
                "expected a number, found digits that form none",
            )
            .with_help(help),
            Wrong::IntegerRange => {
                Diagnostic::error(codes::NUMBER_RANGE, span, "this integer does not fit in 64 bits")
                    .with_note(format!("the range is {} to {}", i64::MIN, u64::MAX))
            }
            Wrong::FloatRange => {
                Diagnostic::error(codes::NUMBER_RANGE, span, "this float is too large for 64 bits")
                    .with_help("write `inf` for infinity")
            }
        };
        self.report(diagnostic);
    }

    /// Reads a string in single, double or triple quotes.
    pub(super) fn string(&mut self) -> Token<'s> {
        let start = self.at;
        let quote = self.byte(0);
        let triple = self.text.as_bytes()[start..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        let content = self.at;
        let errors_before = self.errors.get();
        let mut resolved: Option<String> = None;
        let mut copied = content;
        loop {
            let Some(&byte) = self.text.as_bytes().get(self.at) else {
                return self.unclosed_string(start, triple);
            };
            match byte {
                b'\n' if !triple => return self.unclosed_string(start, triple),
                b'\\' => {
                    let so_far = &self.text[copied..self.at];
                    resolved.get_or_insert_default().push_str(so_far);
                    let character = self.escape();
                    resolved.get_or_insert_default().extend(character);
                    copied = self.at;
                }
                b'\r' if self.byte(1) == b'\n' => {
                    if !triple {
                        return self.unclosed_string(start, triple);
                    }
                    let so_far = &self.text[copied..self.at];
                    resolved.get_or_insert_default().push_str(so_far);
                    self.at += 1;
                    copied = self.at;
                }
                _ if byte == quote && self.closes(quote, triple) => break,
                _ => self.at += 1,
            }
        }
        let last = &self.text[copied..self.at];
        self.at += if triple { 3 } else { 1 };
        if self.errors.get() > errors_before {
            return Token::Bad;
        }
        Token::Str(match resolved {
            None => Name::new(last),
            Some(text) => Name::from(text + last),
        })
    }

    fn closes(&self, quote: u8, triple: bool) -> bool {
        !triple || (self.byte(1) == quote && self.byte(2) == quote)
    }

    fn unclosed_string(&mut self, start: usize, triple: bool) -> Token<'s> {
        let end = if triple { (start + 3).min(self.text.len()) } else { self.at };
        let place =
            if triple { "the file ends before it does" } else { "the line ends before it does" };
        self.report(
            Diagnostic::error(codes::STRING, self.span(start, end), "this string is never closed")
                .with_label(place)
                .with_help("end the string with the quote that it begins with"),
        );
        Token::Bad
    }

    /// Resolves the escape at the current place; an unknown one is reported.
    fn escape(&mut self) -> Option<char> {
        let start = self.at;
        let escaped = self.text[start + 1..].chars().next();
        self.at += 1 + escaped.map_or(0, char::len_utf8);
        let resolved = match escaped {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some('0') => Some('\0'),
            Some(same @ ('\\' | '\'' | '"')) => Some(same),
            Some('x') => self.hexadecimal_pair(),
            Some('u') => self.code_point(),
            Some('\n') | None => {
                self.at = start + 1;
                None
            }
            _ => None,
        };
        if resolved.is_none() {
            self.report(
                Diagnostic::error(
                    codes::ESCAPE,
                    self.span(start, self.at),
                    "expected an escape, found a `\\` that begins none",
                )
                .with_help("escapes are `\\n \\t \\r \\0 \\\\ \\' \\\" \\x41 \\u{1f600}`; write `\\\\` for a `\\`"),
            );
        }
        resolved
    }

    fn hexadecimal_pair(&mut self) -> Option<char> {
        let digits = self.text.get(self.at..self.at + 2)?;
        let value = hexadecimal(digits)?;
        self.at += 2;
        char::from_u32(value)
    }

    fn code_point(&mut self) -> Option<char> {
        let inside = self.text[self.at..].strip_prefix('{')?;
        let length = inside.bytes().take(7).position(|byte| byte == b'}')?;
        let value = hexadecimal(&inside[..length])?;
        self.at += length + 2;
        char::from_u32(value)
    }
}

/// The value of hexadecimal digits, without the sign that `from_str_radix` would allow.
fn hexadecimal(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// What is wrong with a number.
enum Wrong {
    /// Its form; with what to do.
    Form(&'static str),
    IntegerRange,
    FloatRange,
}

/// Where the number at `start` ends, letters that are wrong in it included; and whether it has a
/// point or an exponent.
fn number_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(b'\n');
    let prefixed = at(start) == b'0' && matches!(at(start + 1) | 32, b'x' | b'b' | b'o');
    let mut end = start;
    let mut is_float = false;
    loop {
        match at(end) {
            b'e' | b'E' if !prefixed => {
                let signed = matches!(at(end + 1), b'+' | b'-') && at(end + 2).is_ascii_digit();
                is_float |= signed || at(end + 1).is_ascii_digit();
                end += if signed { 2 } else { 1 };
            }
            b'.' if !prefixed && !is_float && (at(end + 1), at(end + 2)) != (b'.', b'.') => {
                is_float = true;
                end += 1;
            }
            byte if is_word(byte) => end += 1,
            _ => return (end, is_float),
        }
    }
}

/// The digits without their underscores, each of which must stand between two digits.
fn without_underscores(digits: &str) -> Result<std::borrow::Cow<'_, str>, Wrong> {
    if !digits.contains('_') {
        return Ok(digits.into());
    }
    let bytes = digits.as_bytes();
    let beside_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let fits = (0..bytes.len())
        .filter(|&at| bytes[at] == b'_')
        .all(|at| at > 0 && beside_digit(at - 1) && beside_digit(at + 1));
    if fits {
        Ok(digits.replace('_', "").into())
    } else {
        Err(Wrong::Form("an underscore stands between two digits: `1_000`"))
    }
}

fn integer(literal: &str) -> Result<Token<'static>, Wrong> {
    let (radix, digits) = match literal.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &literal[2..]),
        [b'0', b'o' | b'O', ..] => (8, &literal[2..]),
        [b'0', b'b' | b'B', ..] => (2, &literal[2..]),
        _ => (10, literal),
    };
    let digits = without_underscores(digits)?;
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(Wrong::Form("integers are written `17`, `1_000`, `0x1f`, `0o17` or `0b101`"));
    }
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err(Wrong::Form("leave out the leading zeros, or write `0o17` for octal"));
    }
    match u64::from_str_radix(&digits, radix) {
        Ok(value) => Ok(i64::try_from(value).map_or(Token::BigInt(value), Token::Int)),
        Err(_) => Err(Wrong::IntegerRange),
    }
}

fn float(literal: &str) -> Result<Token<'static>, Wrong> {
    let digits = without_underscores(literal)?;
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Token::Float(value)),
        Ok(_) => Err(Wrong::FloatRange),
        Err(_) => Err(Wrong::Form("floats are written `1.0`, `.5`, `1e-5` or `2.5e3`")),
    }
}

fn negate(token: Token<'static>) -> Result<Token<'static>, Wrong> {
    match token {
        Token::Int(value) => Ok(Token::Int(-value)),
        Token::BigInt(value) if value == i64::MIN.unsigned_abs() => Ok(Token::Int(i64::MIN)),
        Token::BigInt(_) => Err(Wrong::IntegerRange),
        Token::Float(value) => Ok(Token::Float(-value)),
        other => Ok(other),
    }
}
