//! Findings for tools: one JSON object a line.

use super::Finding;
use relax_syntax::diagnostic::{Applicability, Fix, Label};
use relax_syntax::span::{Source, Span};
use serde_json::{Value, json};

/// The line of a finding, its line break included. Lines and columns count from 1, columns in
/// characters; the end is exclusive.
pub(super) fn line(source: &Source, finding: &Finding) -> String {
    let mut object = json!({
        "type": "finding",
        "file": source.name,
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
        "labels": labels(source, finding),
        "notes": finding.notes,
        "help": finding.help,
        "edit": finding.fix.as_ref().map(edit),
        "suggestion": finding.fix.as_ref().map(|fix| &fix.replacement),
        "fix": finding.fix.as_ref().filter(|fix| fix.applicability == Applicability::Certain).map(fix),
    });
    if let (Some(primary), Value::Object(fields)) = (&finding.primary, &mut object)
        && let Value::Object(place) = place(source, primary.span)
    {
        fields.extend(place);
    }
    format!("{object}\n")
}

/// An edit of the text, and whether a tool may apply it without asking.
fn edit(edit: &Fix) -> Value {
    let mut value = fix(edit);
    value["certain"] = json!(edit.applicability == Applicability::Certain);
    value
}

/// An edit of the text: a range of its bytes, and what replaces it.
fn fix(fix: &Fix) -> Value {
    json!({ "start": fix.span.start, "end": fix.span.end, "replacement": fix.replacement })
}

fn labels(source: &Source, finding: &Finding) -> Vec<Value> {
    let all = finding.primary.iter().chain(&finding.secondary);
    let shown = all.filter(|label| !label.text.is_empty() && !label.span.is_synthetic());
    shown.map(|label| labelled(source, label)).collect()
}

fn labelled(source: &Source, label: &Label) -> Value {
    let mut value = place(source, label.span);
    value["text"] = json!(label.text);
    value
}

fn place(source: &Source, span: Span) -> Value {
    let (line, column) = source.line_column(span.start);
    let (end_line, end_column) = source.line_column(span.end.max(span.start));
    json!({ "line": line, "column": column, "end_line": end_line, "end_column": end_column })
}
