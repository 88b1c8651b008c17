//! Diagnostics: what is wrong with a program, as data. Rendering is the command's business.

use crate::Name;
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

/// A part of the binding, call or function at a span. The IR has one span a binding;
/// [`crate::places::locate`] finds the part in the syntax tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The value of a binding.
    Value,
    /// The annotation of a binding.
    Annotation,
    /// The name of what a call calls.
    Callee,
    /// A positional argument of a call, counted from 0.
    Argument(usize),
    /// A keyword argument: the value.
    Keyword(Name),
    /// A keyword argument: the name.
    KeywordName(Name),
    /// The annotation of a parameter of a function, counted from 0.
    Parameter(usize),
    /// What stands after `->`.
    Result,
    /// The operand of the last `return`.
    Returned,
}

/// Whether a tool may apply a fix without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applicability {
    /// It is what was meant.
    Certain,
    /// It is one of several things that may have been meant.
    Possible,
}

/// An edit that mends a mistake: the text that replaces a part of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What is replaced; empty for an insertion.
    pub span: Span,
    /// The part of it that is replaced.
    pub part: Part,
    /// By what. Lines after its first are indented like the line of the span.
    pub replacement: String,
    /// Whether a tool may apply it.
    pub applicability: Applicability,
}

/// A piece of the source that a diagnostic speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// Which part of it.
    pub part: Part,
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
    /// An edit that does it; in a box, as few diagnostics have one and all of them are results.
    pub fix: Option<Box<Fix>>,
}

impl Diagnostic {
    /// An error of `code` at `span`.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: Label { span, part: Part::Whole, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// The same about a part of the primary place.
    #[must_use]
    pub fn at(mut self, part: Part) -> Self {
        self.primary.part = part;
        self
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
    pub fn with_place(self, span: Span, text: impl Into<String>) -> Self {
        self.with_part(span, Part::Whole, text)
    }

    /// Points at a part of one more place.
    #[must_use]
    pub fn with_part(mut self, span: Span, part: Part, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, part, text: text.into() });
        self
    }

    /// Says that replacing the primary place by `replacement` mends it.
    #[must_use]
    pub fn with_fix(self, replacement: impl Into<String>) -> Self {
        let (span, part) = (self.primary.span, self.primary.part.clone());
        self.with_edit(Fix {
            span,
            part,
            replacement: replacement.into(),
            applicability: Applicability::Certain,
        })
    }

    /// Says that replacing the primary place by `replacement` may be what was meant.
    #[must_use]
    pub fn with_possible_fix(self, replacement: impl Into<String>) -> Self {
        let mut diagnostic = self.with_fix(replacement);
        if let Some(fix) = &mut diagnostic.fix {
            fix.applicability = Applicability::Possible;
        }
        diagnostic
    }

    /// Says that an edit mends it.
    #[must_use]
    pub fn with_edit(mut self, fix: Fix) -> Self {
        self.fix = Some(Box::new(fix));
        self
    }

    /// Suggests other words for the one at the primary place: "did you mean `relu`?"
    #[must_use]
    pub fn with_suggestions(self, near: &[&str]) -> Self {
        let Some(first) = near.first() else { return self };
        let help = format!("did you mean {}?", crate::suggest::quoted(near));
        let diagnostic = self.with_help(help);
        if near.len() > 1 {
            diagnostic.with_possible_fix(*first)
        } else {
            diagnostic.with_fix(*first)
        }
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
