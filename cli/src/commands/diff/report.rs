//! A difference for the user: the function, the case, and how to run it again.

use super::reproduction::Reproduction;
use super::routes::Difference;
use relax_program::spec::{Typing, literal};
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use serde_json::json;
use std::collections::BTreeMap;

/// Characters of a value that is shown.
pub(super) const LONGEST: usize = 2000;

/// A value as the command line takes it; one that is too long, as its annotation.
fn shown(value: &Value) -> String {
    let shown = literal(value, Typing::Written).unwrap_or_else(|| value.kind().to_owned());
    if shown.len() > LONGEST { value.annotation().to_string() } else { shown }
}

/// The names of the parameters of the function that differs.
pub(super) fn params<'m>(left: &'m Module, difference: &Difference) -> Vec<&'m Name> {
    let function = left.function(&difference.function);
    let params = function
        .iter()
        .flat_map(|function| function.lambda.params.iter().map(|&id| &function.var(id).name));
    params.collect()
}

/// Enough to run the case again.
pub(super) fn describe(left: &Module, difference: &Difference, again: &Reproduction) -> String {
    use std::fmt::Write;
    let Difference { function, case, why, .. } = difference;
    let mut text = format!("different: `{function}`, case {}: {why}\n", case.number);
    for (name, value) in &case.dims {
        let _ = writeln!(text, "  {name} = {value}");
    }
    for (name, value) in params(left, difference).into_iter().zip(&case.arguments) {
        let _ = writeln!(text, "  --input '{name}={}'", shown(value));
    }
    for (what, command) in [("expected", &again.expected), ("found", &again.found)] {
        if let Some(command) = command {
            let _ = writeln!(text, "  {what}: {command}");
        }
    }
    for path in &again.saved {
        let _ = writeln!(text, "  saved: {}", path.display());
    }
    for note in &again.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text
}

/// The same for tools.
pub(super) fn object(
    left: &Module,
    difference: &Difference,
    again: &Reproduction,
) -> serde_json::Value {
    let Difference { function, case, why, expected, found } = difference;
    let result = |result: &Result<Value, Stop>| match result {
        Ok(value) => json!({ "spec": shown(value) }),
        Err(stop) => json!({ "stop": stop.to_string() }),
    };
    let inputs = params(left, difference).into_iter().zip(&case.arguments);
    let inputs: Vec<_> = inputs
        .map(|(name, value)| json!({ "name": name.as_str(), "spec": shown(value) }))
        .collect();
    let dims: BTreeMap<&str, i64> =
        case.dims.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    json!({
        "type": "diff",
        "verdict": "different",
        "function": function.as_str(),
        "case": case.number,
        "why": why,
        "dims": dims,
        "inputs": inputs,
        "expected": result(expected),
        "found": result(found),
        "commands": { "expected": again.expected, "found": again.found },
        "saved": again.saved,
        "notes": again.notes,
    })
}
