//! A position in MLIR text: characters, words and literals, and errors with line and column.

use crate::reason::ImportError;
use std::ops::Range;

pub(super) type Parsed<T> = Result<T, ImportError>;

/// Nesting of regions, attributes and types.
const DEEPEST: usize = 128;

pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    depth: usize,
    /// The last line that was asked for, and where it begins.
    line: (usize, usize),
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0, line: (1, 0) }
    }

    pub(super) fn line(&mut self) -> usize {
        let (mut line, from) = if self.line.1 <= self.at { self.line } else { (1, 0) };
        line += self.text.as_bytes()[from..self.at].iter().filter(|&&b| b == b'\n').count();
        self.line = (line, self.at);
        line
    }

    pub(super) fn error<T>(&self, why: impl std::fmt::Display) -> Parsed<T> {
        Err(error_at(self.text, self.at, why))
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        let rest = &self.text[self.at..];
        let found: String = rest.chars().take_while(|c| !c.is_whitespace()).take(24).collect();
        match found.as_str() {
            "" if rest.is_empty() => self.error(format!("expected {what}, found the end")),
            found => self.error(format!("expected {what}, found `{found}`")),
        }
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST {
            return self.error(format!("more than {DEEPEST} levels of nesting"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Passes over white space and comments.
    pub(super) fn space(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            if !self.text[self.at..].starts_with("//") {
                return;
            }
            self.at = self.text[self.at..].find('\n').map_or(bytes.len(), |end| self.at + end);
        }
    }

    pub(super) fn peek(&mut self) -> Option<char> {
        self.space();
        self.text[self.at..].chars().next()
    }

    pub(super) fn is_next(&mut self, text: &str) -> bool {
        self.space();
        self.text[self.at..].starts_with(text)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.is_next(text);
        if found {
            self.at += text.len();
        }
        found
    }

    pub(super) fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { self.expected(&format!("`{text}`")) }
    }

    fn run(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The word that is next, without passing over it; empty where there is none.
    pub(super) fn peek_word(&mut self) -> &'t str {
        self.space();
        let before = self.at;
        let word = self.word_or_nothing();
        self.at = before;
        word
    }

    fn word_or_nothing(&mut self) -> &'t str {
        self.space();
        match self.text[self.at..].chars().next() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'))
            }
            _ => "",
        }
    }

    pub(super) fn word(&mut self) -> Parsed<&'t str> {
        match self.word_or_nothing() {
            "" => self.expected("a word"),
            word => Ok(word),
        }
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// A name after `%`, `@`, `#`, `!` or `^`.
    pub(super) fn name(&mut self, mark: char) -> Parsed<String> {
        if self.peek() != Some(mark) {
            return self.expected(&format!("`{mark}` and a name"));
        }
        self.at += 1;
        if mark == '@' && self.text[self.at..].starts_with('"') {
            return self.string();
        }
        match self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-')) {
            "" => self.expected("a name"),
            name => Ok(name.to_owned()),
        }
    }

    /// Digits after `#`, as in `%0#1`, where they follow at once.
    pub(super) fn index(&mut self) -> Parsed<usize> {
        if !self.text[self.at..].starts_with('#') {
            return Ok(0);
        }
        self.at += 1;
        let digits = self.run(|c| c.is_ascii_digit());
        digits.parse().or_else(|_| self.expected("the number of a result"))
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        if self.peek() != Some('"') {
            return self.expected("a string");
        }
        let range = self.string_range()?;
        let mut bytes = Vec::new();
        let mut rest = self.text[range].bytes();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            match rest.next() {
                Some(b'n') => bytes.push(b'\n'),
                Some(b't') => bytes.push(b'\t'),
                Some(first) if first.is_ascii_hexdigit() => {
                    let digits = [first, rest.next().unwrap_or(b'0')];
                    let digits = std::str::from_utf8(&digits).unwrap_or("3f");
                    bytes.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
                }
                Some(other) => bytes.push(other),
                None => {}
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Where the inside of a string stands.
    pub(super) fn string_range(&mut self) -> Parsed<Range<usize>> {
        self.space();
        let begin = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = begin;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return self.error("a string without its end"),
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        Ok(begin..end)
    }

    /// The text of a number.
    pub(super) fn number(&mut self) -> Parsed<&'t str> {
        self.space();
        let before = self.at;
        let _ = self.text[self.at..].starts_with('-').then(|| self.at += 1);
        if self.text[self.at..].starts_with("0x") {
            self.at += 2;
            let _ = self.run(|c| c.is_ascii_hexdigit());
        } else {
            let _ = self.run(|c| c.is_ascii_digit());
            if self.text[self.at..].starts_with('.') {
                self.at += 1;
                let _ = self.run(|c| c.is_ascii_digit());
            }
            let rest = &self.text.as_bytes()[self.at..];
            if matches!(rest, [b'e' | b'E', b'+' | b'-' | b'0'..=b'9', ..]) {
                self.at += 2;
                let _ = self.run(|c| c.is_ascii_digit());
            }
        }
        let text = &self.text[before..self.at];
        if !text.bytes().any(|b| b.is_ascii_digit()) {
            self.at = before;
            return self.expected("a number");
        }
        Ok(text)
    }

    pub(super) fn int(&mut self) -> Parsed<i128> {
        let text = self.number()?;
        text.parse().or_else(|_| self.error(format!("`{text}` is no integer that fits")))
    }

    /// Passes over what stands between an opening bracket and its closing one.
    pub(super) fn balanced(&mut self) -> Parsed<&'t str> {
        if !matches!(self.peek(), Some('(' | '[' | '{' | '<')) {
            return self.expected("a bracket");
        }
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.string_range()?;
                    continue;
                }
                Some(b'(' | b'[' | b'{' | b'<') => depth += 1,
                // An arrow closes nothing.
                Some(b'>') if self.at > 0 && bytes[self.at - 1] == b'-' => {}
                Some(b')' | b']' | b'}' | b'>') => depth = depth.saturating_sub(1),
                Some(_) => {}
                None => {
                    self.at = begin;
                    return self.error("a bracket without its end");
                }
            }
            self.at += 1;
            if depth == 0 {
                return Ok(&self.text[begin + 1..self.at - 1]);
            }
        }
    }
}

pub(super) fn error_at(text: &str, at: usize, why: impl std::fmt::Display) -> ImportError {
    let before = &text[..at.min(text.len())];
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    ImportError::Malformed(format!("line {line}, column {column} of the StableHLO text: {why}"))
}

pub(super) fn error_of_bytes(bytes: &[u8], at: usize) -> ImportError {
    let text = std::str::from_utf8(&bytes[..at]).unwrap_or_default();
    error_at(text, at, "this is no UTF-8")
}
