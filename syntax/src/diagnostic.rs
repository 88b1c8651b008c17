//! Diagnostics: what is wrong with a program, as data. Rendering is the command's business.

use crate::span::Span;

/// What `relax explain` says about one stable code.
#[derive(Clone, Copy, Debug)]
pub struct CodeInfo {
    /// `RX` and four digits. RX01: text; RX02: names, annotations, deduction; RX03:
    /// well-formedness; RX04: tensor programs; RX05: operators; RX06: inputs and files.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it means, an example, and what to do.
    pub explanation: &'static str,
}

/// Declares the codes of a chapter: a constant each, and the table `CODES` of what there is to say.
/// `NAME = "RX0201", "title", "explanation";` a line.
#[macro_export]
macro_rules! diagnostic_codes {
    ($($name:ident = $code:literal, $title:literal, $explanation:literal;)*) => {
        $(#[doc = $title]
        pub const $name: &str = $code;)*
        /// Every code of this chapter.
        pub static CODES: &[$crate::diagnostic::CodeInfo] = &[$($crate::diagnostic::CodeInfo {
            code: $code,
            title: $title,
            explanation: $explanation,
        }),*];
    };
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is wrong.
    Error,
    /// The program is odd.
    Warning,
}

/// A piece of the source that a diagnostic speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is to see there.
    pub text: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, in one sentence: expected and found.
    pub message: String,
    /// The place it is about.
    pub primary: Label,
    /// Other places: where a variable was bound, the other operand, …
    pub secondary: Vec<Label>,
    /// Facts worth adding, such as a counterexample.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error of `code` at `span`.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// The same as a warning.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Says what is to see at the primary place.
    #[must_use]
    pub fn with_label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Points at one more place.
    #[must_use]
    pub fn with_place(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
