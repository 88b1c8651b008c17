//! Findings for people: the source line underlined, with everything else that belongs to it.

use super::Finding;
use ariadne::{CharSet, Color, Config, IndexType, Label, Report, ReportKind, Source as Lines};
use relax_syntax::span::{Source, Span};
use std::io::Write;
use std::ops::Range;

/// Lines longer than this are not drawn: a terminal is no place for them.
const LONGEST_LINE: usize = 400;

type Place = (String, Range<usize>);

pub(super) fn draw(bytes: &mut Vec<u8>, source: &Source, findings: &[Finding], color: bool) {
    let mut lines = (source.name.clone(), Lines::from(source.text.as_str()));
    for finding in findings {
        let Some(primary) = finding.primary.as_ref().filter(|_| is_drawable(source, finding))
        else {
            plain(bytes, source, finding);
            continue;
        };
        let heading = finding.heading();
        let kind = ReportKind::Custom(&heading, shade(finding.severity));
        let report = report(kind, source, finding, clipped(source, primary.span), color);
        let mut drawn = Vec::new();
        // Writing to memory does not fail.
        let _ = report.write(&mut lines, &mut drawn);
        bytes.extend_from_slice(&if color { drawn } else { without_escapes(&drawn) });
    }
}

/// Without terminal escapes: ariadne colors the name of a custom kind whatever it is told.
fn without_escapes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == 0x1b {
            bytes.find(u8::is_ascii_alphabetic);
        } else {
            plain.push(byte);
        }
    }
    plain
}

/// Every place is one of the text, on a line that a terminal can show.
fn is_drawable(source: &Source, finding: &Finding) -> bool {
    let mut labels = finding.primary.iter().chain(&finding.secondary);
    labels.all(|label| {
        let (line, _) = source.line_column(label.span.start);
        !label.span.is_synthetic() && source.line(line).len() <= LONGEST_LINE
    })
}

fn report<'a>(
    kind: ReportKind<'a>,
    source: &Source,
    finding: &Finding,
    at: Range<usize>,
    color: bool,
) -> Report<'a, Place> {
    let shade = shade(finding.severity);
    let config = Config::default()
        .with_index_type(IndexType::Byte)
        .with_color(color)
        .with_char_set(CharSet::Unicode)
        .with_tab_width(4);
    let place = (source.name.clone(), at);
    let text = finding.primary.as_ref().map_or("", |label| label.text.as_str());
    let mut labels = vec![(place.1.clone(), shade, text)];
    for label in &finding.secondary {
        labels.push((clipped(source, label.span), Color::Cyan, label.text.as_str()));
    }
    // In the order of the text, or the drawing would fall into pieces.
    labels.sort_by_key(|(place, ..)| place.start);
    let mut builder = Report::build(kind, place).with_config(config).with_message(&finding.message);
    for (place, color, text) in labels {
        builder.add_label(labelled((source.name.clone(), place), color, text));
    }
    builder.with_notes(&finding.notes);
    builder.with_helps(&finding.help);
    builder.finish()
}

fn labelled(place: Place, color: Color, text: &str) -> Label<Place> {
    Label::new(place).with_color(color).with_message(text)
}

fn shade(severity: &str) -> Color {
    if severity == "warning" { Color::Yellow } else { Color::Red }
}

/// The part of a span on its first line, within the text.
fn clipped(source: &Source, span: Span) -> Range<usize> {
    let text = &source.text;
    let start = boundary(text, span.start as usize);
    let end = boundary(text, (span.end as usize).max(start));
    let length = text[start..end].split('\n').next().map_or(0, str::len);
    start..start + length
}

/// The last place of a character at or before a byte.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Without a drawing: the place in front, the way compilers have always done it.
fn plain(bytes: &mut Vec<u8>, source: &Source, finding: &Finding) {
    let place = finding.primary.as_ref().filter(|label| !label.span.is_synthetic());
    let place = place.map_or_else(String::new, |label| {
        let (line, column) = source.line_column(label.span.start);
        format!("{}:{line}:{column}: ", source.name)
    });
    let _ = writeln!(bytes, "{place}{}: {}", finding.heading(), finding.message);
    for note in &finding.notes {
        let _ = writeln!(bytes, "  note: {note}");
    }
    if let Some(help) = &finding.help {
        let _ = writeln!(bytes, "  help: {help}");
    }
}
