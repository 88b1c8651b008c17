//! A difference for the user: the function, the case, and how to run it again.

use super::bindings::Origin;
use super::reproduction::Reproduction;
use relax_driver::differential::Difference;
use relax_program::signature::Dims;
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

/// A difference and all that is known of it.
pub(super) struct Shown<'d> {
    pub(super) left: &'d Module,
    pub(super) difference: &'d Difference,
    pub(super) origin: Origin,
    pub(super) again: Reproduction,
}

impl Shown<'_> {
    /// Enough to run the case again.
    pub(super) fn text(&self) -> String {
        use std::fmt::Write;
        let Difference { function, case, why, .. } = self.difference;
        let mut text = format!("different: `{function}`, case {}: {why}\n", case.number);
        for (name, value) in &case.dims {
            let drawn = case.drawn.get(name).filter(|drawn| *drawn != value);
            let drawn = drawn.map_or_else(String::new, |drawn| format!(" (drawn: {drawn})"));
            let _ = writeln!(text, "  {name} = {value}{drawn}");
        }
        for (name, value) in params(self.left, self.difference).into_iter().zip(&case.arguments) {
            let _ = writeln!(text, "  --input '{name}={}'", shown(value));
        }
        let Origin { binding, kernel, why_not } = &self.origin;
        if let Some(binding) = binding {
            let kernel = kernel.as_ref().map(|name| format!(" (kernel `{name}`)"));
            let _ = writeln!(
                text,
                "  first binding that differs: `{binding}`{}",
                kernel.unwrap_or_default()
            );
        }
        if let Some(why) = why_not {
            let _ = writeln!(text, "  first binding that differs: none is named, since {why}");
        }
        self.commands(&mut text);
        text
    }

    fn commands(&self, text: &mut String) {
        let again = &self.again;
        for (what, command) in [("expected", &again.expected), ("found", &again.found)] {
            if let Some(command) = command {
                text.push_str(&format!("  {what}: {command}\n"));
            }
        }
        for path in &again.saved {
            text.push_str(&format!("  saved: {}\n", path.display()));
        }
        for note in &again.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
    }

    /// The same for tools.
    pub(super) fn object(&self) -> serde_json::Value {
        let Difference { function, case, why, expected, found } = self.difference;
        let result = |result: &Result<Value, Stop>| match result {
            Ok(value) => json!({ "spec": shown(value) }),
            Err(stop) => json!({ "stop": stop.to_string() }),
        };
        let inputs = params(self.left, self.difference).into_iter().zip(&case.arguments);
        let input =
            |(name, value): (&Name, &Value)| json!({ "name": name.as_str(), "spec": shown(value) });
        let dims = |dims: &Dims| -> BTreeMap<String, i64> {
            dims.iter().map(|(name, value)| (name.to_string(), *value)).collect()
        };
        json!({
            "type": "diff",
            "verdict": "different",
            "function": function.as_str(),
            "case": case.number,
            "why": why,
            "dims": dims(&case.dims),
            "drawn_dims": dims(&case.drawn),
            "inputs": inputs.map(input).collect::<Vec<_>>(),
            "expected": result(expected),
            "found": result(found),
            "binding": self.origin.binding.as_ref().map(Name::as_str),
            "kernel": self.origin.kernel,
            "no_binding": self.origin.why_not,
            "commands": { "expected": self.again.expected, "found": self.again.found },
            "saved": self.again.saved,
            "notes": self.again.notes,
        })
    }
}
