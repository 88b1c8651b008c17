//! Which patterns there are: those of the module, `module_attr("pattern.cublas.matmul", "…")`, and then
//! those of the target.

use super::text::{Rule, parse};
use crate::pass::{Device, Settings};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Module};
use relax_syntax::span::Span;

/// A text that is no pattern: known to the table of codes.
const PATTERN: &str = "RX0311";
/// Before the name of the function in an attribute of a module.
const PREFIX: &str = "pattern.";

/// Sections of patterns by target.
const BUILTIN: &str = include_str!("builtin.patterns");

/// All patterns for a module, the first to be tried first.
///
/// # Errors
/// A text that is no pattern.
pub(crate) fn registry(module: &Module, settings: &Settings) -> Result<Vec<Rule>, Diagnostic> {
    let mut rules = Vec::new();
    for (key, value) in &module.attrs {
        let Some(function) = key.strip_prefix(PREFIX) else { continue };
        let AttrValue::Str(text) = value else {
            return Err(wrong(key, "a pattern is a text"));
        };
        rules.push(parse(function, text).map_err(|why| wrong(key, &why.to_string()))?);
    }
    rules.extend(builtin(settings.device));
    Ok(rules)
}

fn wrong(key: &str, why: &str) -> Diagnostic {
    let message = format!("the module attribute `{key}` is no pattern: {why}");
    Diagnostic::error(PATTERN, Span::default(), message)
        .with_help("write a call of operators: `relu(matmul(x, w)) where dim(x, 0) >= 2`")
}

/// Those of a device.
fn builtin(device: Device) -> Vec<Rule> {
    let rules =
        section(device.name()).into_iter().flat_map(|(function, text)| written_out(function, text));
    rules
        .map(|(function, text)| {
            parse(&function, &text).unwrap_or_else(|why| panic!("invariant: {function}: {why}"))
        })
        .collect()
}

/// The lines of a section: names and what they stand for.
fn section(name: &str) -> Vec<(&'static str, &'static str)> {
    let header = format!("[{name}]");
    let lines = BUILTIN.lines().skip_while(|line| line.trim() != header).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    own.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = ")).collect()
}

/// The functions and patterns that a line stands for: of `cublas.* = products where …` each of that section.
fn written_out(function: &str, text: &str) -> Vec<(String, String)> {
    let Some(library) = function.strip_suffix('*') else {
        return vec![(function.to_owned(), text.to_owned())];
    };
    let (name, own) = text.split_once(" where ").unwrap_or((text, ""));
    let each = section(name.trim()).into_iter().map(|(function, text)| {
        let (pattern, common) = text.split_once(" where ").unwrap_or((text, ""));
        let conditions: Vec<&str> = [common, own].into_iter().filter(|c| !c.is_empty()).collect();
        let conditions = match conditions.as_slice() {
            [] => String::new(),
            all => format!(" where {}", all.join(", ")),
        };
        (format!("{library}{function}"), format!("{pattern}{conditions}"))
    });
    each.collect()
}
