//! Which patterns there are: those of the module, `module_attr("pattern.cublas.matmul", "…")`, and then
//! those of the target.

use super::text::{Rule, parse};
use crate::pass::{Settings, Target};
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
    rules.extend(builtin(settings.target));
    Ok(rules)
}

fn wrong(key: &str, why: &str) -> Diagnostic {
    let message = format!("the module attribute `{key}` is no pattern: {why}");
    Diagnostic::error(PATTERN, Span::default(), message)
        .with_help("write a call of operators: `relu(matmul(x, w)) where dim(x, 0) >= 2`")
}

/// Those of a target.
fn builtin(target: Target) -> Vec<Rule> {
    let section = match target {
        Target::Cpu => "[cpu]",
        Target::Wgpu => "[wgpu]",
        Target::Cuda => "[cuda]",
    };
    let lines = BUILTIN.lines().skip_while(|line| line.trim() != section).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    let rules = own.filter_map(|line| line.split_once(" = "));
    rules
        .map(|(function, text)| {
            parse(function.trim(), text)
                .unwrap_or_else(|why| panic!("invariant: {function}: {why}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_semantics::library::FUNCTIONS;

    #[test]
    fn every_pattern_of_a_target_has_a_library_function() {
        assert!(builtin(Target::Cpu).is_empty());
        let rules = builtin(Target::Cuda);
        assert!(rules.len() > 4);
        for rule in rules {
            let known = FUNCTIONS.iter().any(|function| rule.function == function.name);
            assert!(known, "{}", rule.function);
        }
    }
}
