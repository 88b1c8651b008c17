//! Failures on their way to Python: the classes of `relaxc/_errors.py`, with the code, the place and the notes as attributes.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relax_program::frontend::title_of;
use relax_semantics::stop::Stop;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::span::{Source, Span};

/// The class of an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    Program,
    Argument,
    Trap,
    Limit,
    Unsupported,
    Compiler,
    File,
    Internal,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Program => "ProgramError",
            Self::Argument => "ArgumentError",
            Self::Trap => "Trap",
            Self::Limit => "LimitError",
            Self::Unsupported => "UnsupportedError",
            Self::Compiler => "CompilerError",
            Self::File => "FileError",
            Self::Internal => "InternalError",
        }
    }
}

/// File, line and column, both from 1.
type Place = (String, usize, usize);

/// What is raised. It is made without the GIL.
#[derive(Debug)]
pub(crate) struct Failure {
    class: Class,
    message: String,
    code: String,
    place: Option<Place>,
    notes: Vec<String>,
    found: Vec<Finding>,
    cause: Option<PyErr>,
}

impl Failure {
    pub(crate) fn new(class: Class, message: impl std::fmt::Display) -> Self {
        let (code, notes, found) = (String::new(), Vec::new(), Vec::new());
        Self { class, message: message.to_string(), code, place: None, notes, found, cause: None }
    }

    pub(crate) fn argument(message: impl std::fmt::Display) -> Self {
        Self::new(Class::Argument, message)
    }

    /// With the exception of the library that an argument is of.
    pub(crate) fn because(self, cause: PyErr) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// A mistake in a file that is no program, at its place.
    pub(crate) fn at(source: &Source, span: Span, message: String, help: Option<String>) -> Self {
        let notes = help.into_iter().collect();
        Self { place: Some(place(source, span)), notes, ..Self::new(Class::Program, message) }
    }

    /// A program that is wrong. Its place is that of the first error.
    pub(crate) fn program(source: &Source, diagnostics: &[Diagnostic]) -> Self {
        let found: Vec<Finding> =
            diagnostics.iter().map(|diagnostic| Finding::of(source, diagnostic)).collect();
        let first = found.iter().find(|finding| finding.severity == "error");
        let Some(first) = first.or(found.first()) else {
            return Self::new(Class::Internal, "a program without errors was refused");
        };
        let (message, code) = (first.message.clone(), first.code.to_owned());
        let (place, notes) = (Some(first.place.clone()), first.notes.clone());
        Self { class: Class::Program, message, code, place, notes, found, cause: None }
    }

    /// A call that gives no value.
    pub(crate) fn stop(source: &Source, stop: &Stop) -> Self {
        match stop {
            Stop::Trap(trap) => {
                let mut notes = trap.notes.clone();
                notes
                    .extend(trap.function.as_ref().map(|name| format!("in the function `{name}`")));
                let is_placed = !trap.span.is_synthetic() && !source.text.is_empty();
                let place = is_placed.then(|| place(source, trap.span));
                let (code, message) = (trap.id.clone(), trap.message.clone());
                Self { code, place, notes, ..Self::new(Class::Trap, message) }
            }
            Stop::Exhausted { .. } => Self::new(Class::Limit, stop),
            Stop::Unsupported(_) => Self::new(Class::Unsupported, stop),
        }
    }

    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        self.exception(py).unwrap_or_else(|error| error)
    }

    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let class = py.import("relaxc._errors")?.getattr(self.class.name())?;
        let facts = PyDict::new(py);
        facts.set_item("code", self.code)?;
        facts.set_item("place", self.place)?;
        facts.set_item("notes", PyTuple::new(py, self.notes)?)?;
        let found: Vec<_> = self.found.into_iter().map(Finding::into_tuple).collect();
        facts.set_item("diagnostics", found)?;
        let error = PyErr::from_value(class.call((self.message,), Some(&facts))?);
        error.set_cause(py, self.cause);
        Ok(error)
    }
}

fn place(source: &Source, span: Span) -> Place {
    let (line, column) = source.line_column(span.start);
    (source.name.to_string(), line, column)
}

/// A diagnostic as `relaxc.Diagnostic` has it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: &'static str,
    code: &'static str,
    message: String,
    place: Place,
    notes: Vec<String>,
    help: Option<String>,
}

/// The fields of `relaxc.Diagnostic`, in order.
pub(crate) type FindingTuple =
    (&'static str, &'static str, String, Place, Vec<String>, Option<String>);

impl Finding {
    pub(crate) fn of(source: &Source, diagnostic: &Diagnostic) -> Self {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut notes = diagnostic.notes.clone();
        let label = &diagnostic.primary.text;
        if !label.is_empty() && Some(label.as_str()) != title_of(diagnostic.code) {
            notes.insert(0, label.clone());
        }
        Self {
            severity,
            code: diagnostic.code,
            message: diagnostic.message.clone(),
            place: place(source, diagnostic.primary.span),
            notes,
            help: diagnostic.help.clone(),
        }
    }

    pub(crate) fn into_tuple(self) -> FindingTuple {
        (self.severity, self.code, self.message, self.place, self.notes, self.help)
    }
}

impl Failure {
    /// With the name of the argument that is wrong.
    pub(crate) fn of_argument(mut self, name: &str) -> Self {
        self.message = format!("argument `{name}`: {}", self.message);
        self
    }
}

impl Failure {
    /// The diagnostics of a program that does not read; the failure itself where there are none.
    pub(crate) fn findings(self) -> Result<Vec<Finding>, Self> {
        if self.found.is_empty() { Err(self) } else { Ok(self.found) }
    }
}
