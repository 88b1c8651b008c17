//! Findings on their way to the user: diagnostics and traps, for people and for tools.
//!
//! Text is drawn by `ariadne`: it takes plain byte ranges and labels, where `miette` wants an error
//! type a message and a graphical handler; and it writes the same bytes everywhere.

mod drawn;
mod json;
mod log;

pub(crate) use log::{Log, Reader};

use crate::args::Format;
use crate::exit::Exit;
use crate::terminal::Terminal;
use relax_program::frontend::title_of;
use relax_semantics::stop::{Stop, Trap};
use relax_syntax::diagnostic::{Diagnostic, Fix, Label, Part, Severity};
use relax_syntax::span::Source;
use std::path::Path;

/// What is shown: a diagnostic or a trap.
pub(crate) struct Finding {
    /// `error`, `warning`, `trap`, `exhausted`, `unsupported`
    pub(crate) severity: &'static str,
    /// `RX0203`, `match_cast/dim`; empty when there is none.
    pub(crate) code: String,
    /// One sentence.
    pub(crate) message: String,
    /// The place, where there is one.
    pub(crate) primary: Option<Label>,
    /// Other places.
    pub(crate) secondary: Vec<Label>,
    /// Facts.
    pub(crate) notes: Vec<String>,
    /// What to do.
    pub(crate) help: Option<String>,
    /// An edit that does it.
    pub(crate) fix: Option<Fix>,
}

impl Finding {
    /// `error[RX0203]`
    fn heading(&self) -> String {
        if self.code.is_empty() {
            self.severity.to_owned()
        } else {
            format!("{}[{}]", self.severity, self.code)
        }
    }
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Self {
        Finding {
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            code: diagnostic.code.to_owned(),
            message: diagnostic.message.clone(),
            primary: Some(titled(diagnostic)),
            secondary: diagnostic.secondary.clone(),
            notes: diagnostic.notes.clone(),
            help: diagnostic.help.clone(),
            fix: diagnostic.fix.as_deref().cloned(),
        }
    }
}

/// The primary label; one that says nothing says what the code is about.
fn titled(diagnostic: &Diagnostic) -> Label {
    let mut label = diagnostic.primary.clone();
    if label.text.is_empty() {
        label.text = title_of(diagnostic.code).unwrap_or(diagnostic.code).to_owned();
    }
    label
}

impl From<&Trap> for Finding {
    fn from(trap: &Trap) -> Self {
        let mut notes = trap.notes.clone();
        notes
            .extend(trap.function.as_ref().map(|function| format!("in the function `{function}`")));
        let label = |span, text: &str| Label { span, part: Part::Whole, text: text.to_owned() };
        let here = |span| label(span, "this check failed");
        let place = |(span, text): &(_, String)| label(*span, text);
        Finding {
            severity: "trap",
            code: trap.id.clone(),
            message: trap.message.clone(),
            primary: (!trap.span.is_synthetic()).then(|| here(trap.span)),
            secondary: trap.places.iter().map(place).collect(),
            notes,
            help: None,
            fix: None,
        }
    }
}

/// The node of an imported model whose lines are at this place: the comment above them.
pub(crate) fn node_at(source: &Source, start: u32) -> Option<&str> {
    let is_model = Path::new(&source.name).extension().is_some_and(|extension| extension == "onnx");
    let (line, _) = source.line_column(start);
    let above = (1..line).rev().map(|line| source.line(line)).filter(|_| is_model);
    let mut inside = above.take_while(|text| text.starts_with(' ') || text.is_empty());
    inside.find_map(|text| text.trim_start().strip_prefix("# "))
}

/// A run of a text that ended without a value, and what the exit code says of it.
pub(crate) fn finding_of_stop(stop: &Stop, source: &Source) -> (Finding, Exit) {
    let plain = |severity, message: String, help: Option<&str>| Finding {
        severity,
        code: String::new(),
        message,
        primary: None,
        secondary: Vec::new(),
        notes: Vec::new(),
        help: help.map(str::to_owned),
        fix: None,
    };
    match stop {
        Stop::Trap(trap) => {
            let mut finding = Finding::from(trap.as_ref());
            let node = (!trap.span.is_synthetic()).then(|| node_at(source, trap.span.start));
            let note = |node| {
                format!("in the node `{node}` of the model, which `relax import` prints as text")
            };
            finding.notes.extend(node.flatten().map(note));
            (finding, Exit::Stopped)
        }
        Stop::Exhausted { resource, .. } => {
            let help = match *resource {
                "memory" => Some("raise the limit with --max-memory"),
                "steps" => Some("raise the limit with --max-steps"),
                _ => None,
            };
            (plain("exhausted", stop.to_string(), help), Exit::Stopped)
        }
        Stop::Unsupported(_) => (plain("unsupported", stop.to_string(), None), Exit::Missing),
    }
}

/// Shows findings, in order.
pub(crate) fn show(terminal: &mut Terminal, source: &Source, findings: &[Finding]) {
    if let Some(log) = terminal.log() {
        findings.iter().for_each(|finding| log.add(source, finding));
        return;
    }
    let mut bytes = Vec::new();
    match terminal.format {
        Format::Text => drawn::draw(&mut bytes, source, findings, terminal.color),
        Format::Json => {
            for finding in findings {
                bytes.extend_from_slice(json::line(source, finding).as_bytes());
            }
        }
    }
    terminal.message(&bytes);
}

/// Shows diagnostics and counts them; `Wrong` when one of them is an error.
pub(crate) fn show_diagnostics(
    terminal: &mut Terminal,
    source: &Source,
    diagnostics: &[Diagnostic],
) -> Exit {
    let findings: Vec<Finding> = diagnostics.iter().map(Finding::from).collect();
    show(terminal, source, &findings);
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let warnings = diagnostics.len() - errors;
    terminal.shown.errors += errors;
    terminal.shown.warnings += warnings;
    if errors + warnings > 0 {
        terminal.note(&format!("{}: {}", source.name, counts(errors, warnings)));
        terminal.offer_explanation(diagnostics[0].code);
    }
    if errors > 0 { Exit::Wrong } else { Exit::Fine }
}

fn counts(errors: usize, warnings: usize) -> String {
    let count = |number: usize, word: &str| {
        (number > 0).then(|| format!("{number} {word}{}", if number == 1 { "" } else { "s" }))
    };
    let parts: Vec<String> =
        [count(errors, "error"), count(warnings, "warning")].into_iter().flatten().collect();
    parts.join(", ")
}

/// A failure of the command itself, for tools.
pub(crate) fn json_message(exit: Exit, text: &str) -> String {
    let value = serde_json::json!({
        "type": "failure",
        "exit": exit.code(),
        "message": text,
    });
    format!("{value}\n")
}
