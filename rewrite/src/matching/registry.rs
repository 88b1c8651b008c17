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

#[cfg(test)]
mod tests {
    use super::*;
    use relax_semantics::library::function;

    #[test]
    fn every_pattern_of_a_target_has_a_library_function() {
        for target in [Device::Cpu, Device::Wgpu, Device::Cuda] {
            for rule in builtin(target) {
                assert!(function(&rule.function).is_some(), "{}", rule.function);
            }
        }
        assert!(builtin(Device::Wgpu).is_empty());
    }

    /// A section in the place of a name, with the conditions of both lines.
    #[test]
    fn a_line_for_a_section_stands_for_each_line_of_it() {
        let names = |target| -> Vec<String> {
            builtin(target).iter().map(|rule| rule.function.to_string()).collect()
        };
        let products = |library: &str| {
            let each = ["_bias_gelu", "_bias_relu", "_bias", "_gelu", "_relu", ""];
            each.map(|epilogue| format!("{library}.matmul{epilogue}")).to_vec()
        };
        assert_eq!(names(Device::Cpu), products("native"));
        let norms = vec!["cutlass.rms_norm".to_owned(); 3];
        let all = [products("cublas"), products("cublas"), norms].concat();
        assert_eq!(names(Device::Cuda), all);
        let conditions = |target, at: usize| builtin(target)[at].conditions.len();
        assert_eq!([0, 2, 5].map(|at| conditions(Device::Cpu, at)), [2, 2, 0]);
        assert_eq!([0, 5, 6].map(|at| conditions(Device::Cuda, at)), [6, 4, 7]);
    }
}
