//! Calls of library functions, as the operators that define them.

use super::evaluate::{Ran, Side};
use super::values::Value;
use relax_semantics::library::function;
use relax_semantics::ops::Known;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::facts::Answer;

impl Side<'_> {
    /// What a call gives. `None` for a name without a definition, arguments that do not fit it, and a result that is not
    /// proved to have the declared dims.
    pub(super) fn library(&mut self, bound: &[Value]) -> Ran<Option<Value>> {
        let [Value::Known(Known::Str(name)), args, Value::Known(Known::Annotation(declared))] =
            bound
        else {
            return Ok(None);
        };
        let (Some(function), Annotation::Tensor(declared)) = (function(name), &**declared) else {
            return Ok(None);
        };
        let args = match args {
            Value::Tuple(items) => items.clone(),
            single => vec![single.clone()],
        };
        let mut results: Vec<Value> = Vec::new();
        for step in function.steps {
            let operands = step.operands(&args, |at, field| match (results.get(at), field) {
                (Some(Value::Tuple(fields)), Some(field)) => fields.get(field).cloned().ok_or(()),
                (Some(result), None) => Ok(result.clone()),
                _ => Err(()),
            });
            let Ok(operands) = operands else { return Ok(None) };
            let attrs = step.attrs.iter();
            let attrs = attrs.map(|(key, value)| (Name::new(key), spelled(value.known())));
            let Ok(result) = self.operator(&Name::new(step.operator), operands, attrs.collect())
            else {
                return Ok(None);
            };
            results.push(result);
        }
        let Some(result) = results.pop() else { return Ok(None) };
        self.declared(result, declared)
    }

    /// The result in the declared dtype, if it has the declared dims.
    fn declared(&mut self, result: Value, declared: &TensorType) -> Ran<Option<Value>> {
        let Value::Entry(id) = result else { return Ok(None) };
        let Annotation::Tensor(found) = self.annotation(id).clone() else { return Ok(None) };
        let (Some(dims), Some(wanted)) = (found.extents.dims(), declared.extents.dims()) else {
            return Ok(None);
        };
        let mut pairs = dims.iter().zip(wanted);
        let is_same = dims.len() == wanted.len()
            && pairs.all(|(a, b)| self.facts.equal(a, b) == Answer::Proved);
        match declared.dtype {
            _ if !is_same => Ok(None),
            Some(dtype) if found.dtype != Some(dtype) => {
                let dtype = Value::Known(Known::Str(Name::new(dtype.name())));
                self.operator(&Name::new("astype"), vec![result, dtype], Vec::new()).map(Some)
            }
            _ => Ok(Some(result)),
        }
    }
}

/// A literal as the value of its text, where a list is a tuple.
fn spelled(known: Known) -> Value {
    match known {
        Known::List(items) => Value::Tuple(items.into_iter().map(Value::Known).collect()),
        other => Value::Known(other),
    }
}
