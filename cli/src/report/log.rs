//! Findings for continuous integration: a SARIF 2.1.0 log, or annotations of GitHub's workflows.
//!
//! The log has five kinds of objects; crates for SARIF generate types of its whole schema, so it is written here.

use super::Finding;
use relax_program::frontend::code_tables;
use relax_syntax::diagnostic::{Applicability, Fix};
use relax_syntax::span::{Source, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Who reads the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Sarif,
    Github,
}

/// Findings as they come.
pub(crate) struct Log {
    reader: Reader,
    results: Vec<Value>,
    /// Places of rules in the log, by their ids.
    rules: BTreeMap<String, usize>,
    /// In the order in which they were met.
    listed: Vec<Value>,
    annotations: String,
    /// Why the command did not do its work.
    failures: Vec<String>,
}

impl Log {
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            reader,
            results: Vec::new(),
            rules: BTreeMap::new(),
            listed: Vec::new(),
            annotations: String::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, source: &Source, finding: &Finding) {
        match self.reader {
            Reader::Sarif => self.result(source, finding),
            Reader::Github => self.annotation(source, finding),
        }
    }

    /// Notes why the command did not do its work.
    pub(crate) fn fail(&mut self, why: &str) {
        match self.reader {
            Reader::Sarif => self.failures.push(why.to_owned()),
            Reader::Github => _ = writeln!(self.annotations, "::error::{}", data(why)),
        }
    }

    /// The whole log.
    pub(crate) fn text(&self) -> String {
        match self.reader {
            Reader::Github => self.annotations.clone(),
            Reader::Sarif => format!("{}\n", self.sarif()),
        }
    }

    fn sarif(&self) -> Value {
        let notification = |why: &String| json!({ "level": "error", "message": { "text": why } });
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "relax",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": self.listed,
                } },
                "columnKind": "unicodeCodePoints",
                "invocations": [{
                    "executionSuccessful": self.failures.is_empty(),
                    "toolExecutionNotifications":
                        self.failures.iter().map(notification).collect::<Vec<_>>(),
                }],
                "results": self.results,
            }],
        })
    }

    fn result(&mut self, source: &Source, finding: &Finding) {
        let mut result = json!({
            "level": level(finding),
            "message": { "text": message(finding) },
            "locations": [location(source, finding.primary.as_ref().map(|label| label.span), None)],
        });
        if !finding.code.is_empty() {
            result["ruleId"] = json!(finding.code);
            result["ruleIndex"] = json!(self.rule(&finding.code));
        }
        let related = finding.secondary.iter();
        let related: Vec<Value> =
            related.map(|label| location(source, Some(label.span), Some(&label.text))).collect();
        if !related.is_empty() {
            result["relatedLocations"] = json!(related);
        }
        let certain = |fix: &&Fix| fix.applicability == Applicability::Certain;
        if let Some(fix) = finding.fix.as_ref().filter(certain).filter(|_| is_of_file(source)) {
            result["fixes"] = json!([edit(source, fix, finding.help.as_deref())]);
        }
        self.results.push(result);
    }

    /// The place of a rule in the list.
    fn rule(&mut self, code: &str) -> usize {
        if let Some(&index) = self.rules.get(code) {
            return index;
        }
        let mut rule = json!({ "id": code });
        let info = code_tables().into_iter().flatten().find(|info| info.code == code);
        if let Some(info) = info {
            rule["shortDescription"] = json!({ "text": info.title });
            rule["fullDescription"] = json!({ "text": info.explanation });
        }
        self.listed.push(rule);
        self.rules.insert(code.to_owned(), self.listed.len() - 1);
        self.listed.len() - 1
    }

    fn annotation(&mut self, source: &Source, finding: &Finding) {
        let level = if level(finding) == "warning" { "warning" } else { "error" };
        let mut properties = vec![format!("file={}", property(&source.name))];
        let primary = finding.primary.as_ref().filter(|label| !label.span.is_synthetic());
        if let Some(label) = primary.filter(|_| is_of_file(source)) {
            let (line, column) = source.line_column(label.span.start);
            let (end_line, end_column) = source.line_column(label.span.end.max(label.span.start));
            properties.push(format!("line={line},endLine={end_line}"));
            // Columns are for places on one line.
            if line == end_line {
                properties.push(format!("col={column},endColumn={end_column}"));
            }
        }
        if !finding.code.is_empty() {
            properties.push(format!("title={}", property(&finding.code)));
        }
        let (properties, message) = (properties.join(","), data(&message(finding)));
        let _ = writeln!(self.annotations, "::{level} {properties}::{message}");
    }
}

/// Whether places are in the file of that name: those of a model are in the text that was made of it.
fn is_of_file(source: &Source) -> bool {
    ![".onnx", ".aten.json", ".mlir", ".stablehlo"].iter().any(|end| source.name.ends_with(end))
}

fn level(finding: &Finding) -> &'static str {
    if finding.severity == "warning" { "warning" } else { "error" }
}

/// What is wrong, what is known of it, and what to do.
fn message(finding: &Finding) -> String {
    let mut text = finding.message.clone();
    for note in &finding.notes {
        let _ = write!(text, "\n{note}");
    }
    if let Some(help) = &finding.help {
        let _ = write!(text, "\nHelp: {help}");
    }
    text
}

fn location(source: &Source, span: Option<Span>, text: Option<&str>) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": uri(&source.name) } });
    if let Some(span) = span.filter(|span| !span.is_synthetic() && is_of_file(source)) {
        place["region"] = region(source, span);
    }
    let mut location = json!({ "physicalLocation": place });
    if let Some(text) = text {
        location["message"] = json!({ "text": text });
    }
    location
}

/// Lines and columns count from 1, columns in characters; the end is exclusive.
fn region(source: &Source, span: Span) -> Value {
    let (line, column) = source.line_column(span.start);
    let (end_line, end_column) = source.line_column(span.end.max(span.start));
    json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column })
}

fn edit(source: &Source, fix: &Fix, help: Option<&str>) -> Value {
    json!({
        "description": { "text": help.unwrap_or("replace it") },
        "artifactChanges": [{
            "artifactLocation": { "uri": uri(&source.name) },
            "replacements": [{
                "deletedRegion": region(source, fix.span),
                "insertedContent": { "text": fix.replacement },
            }],
        }],
    })
}

/// A path as a relative reference of RFC 3986, or a URI of a file where it is absolute.
fn uri(path: &str) -> String {
    let mut text = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => _ = write!(text, "%{byte:02X}"),
        }
    }
    text
}

/// The message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::diagnostic::{Label, Part};

    #[test]
    fn places_of_a_model_are_none_of_its_file() {
        let label = Label { span: Span::new(0, 3), part: Part::Whole, text: "here".to_owned() };
        let finding = Finding {
            severity: "warning",
            code: "RX0501".to_owned(),
            message: "it fails".to_owned(),
            primary: Some(label),
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
            fix: None,
        };
        for (name, is_there) in [("m.rx", true), ("m.onnx", false)] {
            let source = Source::new(name, "def main");
            for reader in [Reader::Sarif, Reader::Github] {
                let mut log = Log::new(reader);
                log.add(&source, &finding);
                let text = log.text();
                assert!(text.contains(name) && text.contains("it fails"), "{text}");
                assert_eq!(text.contains("region") || text.contains("line="), is_there, "{text}");
            }
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(uri("a b/ü.rx"), "a%20b/%C3%BC.rx");
        assert_eq!(uri("/a/<x>"), "file:///a/%3Cx%3E");
        assert_eq!(data("100 %\nok"), "100 %25%0Aok");
        assert_eq!(property("C:x,y"), "C%3Ax%2Cy");
    }
}
