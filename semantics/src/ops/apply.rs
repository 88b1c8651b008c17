//! One call of an operator on values: bind, check the constraints, evaluate.

use super::{
    BindError, Eval, Evaluate, Infer, Kind, Limits, Machine, Operand, Operator, Reject, bind,
};
use crate::concrete::Concrete;
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::Module;

/// Applies `row` to values. Rows that need the interpreter get `machine`.
///
/// # Errors
/// A trap `<op>/C<n>` for a constraint that fails, and whatever evaluation says.
pub fn apply(
    row: &'static Operator,
    positional: Vec<Value>,
    keywords: Vec<(Name, Value)>,
    limits: &Limits,
    machine: Option<&mut dyn Machine>,
) -> Result<Value, Stop> {
    let values = bind(row, positional, keywords, &|literal| literal.value())
        .map_err(|error| bind_trap(row, &error))?;
    refuse_opaque(row, &values)?;
    let operands: Vec<_> = values.iter().map(Operand::of_value).collect();
    let out = deduce(row, &operands, machine.as_ref().map(|machine| machine.module()))?;
    let eval = Eval { row, values: &values, out: &out, limits };
    match (row.eval, machine) {
        (Evaluate::Elementwise(own), _) => (own.eval)(&eval, &own),
        (Evaluate::Values(run), _) => run(&eval),
        (Evaluate::Machine(run), Some(machine)) => run(&eval, machine),
        (Evaluate::Machine(_), None) => {
            Err(Stop::Unsupported(format!("`{}` outside of a program", row.name)))
        }
    }
}

/// Checks the constraints of `row` on operands of which tensors are given by their annotations.
///
/// # Errors
/// The trap that [`apply`] gives for tensors with these annotations.
pub fn check_constraints(
    row: &'static Operator,
    operands: Vec<Value>,
    module: Option<&Module>,
) -> Result<Value, Stop> {
    described_call(row, operands, Vec::new(), module).map(|_| Value::Tuple(Vec::new()))
}

/// The operands of a call in the order of the parameters, of which tensors are given by their annotations, and the annotation of the
/// result.
///
/// # Errors
/// As [`check_constraints`].
pub fn described_call(
    row: &'static Operator,
    positional: Vec<Value>,
    keywords: Vec<(Name, Value)>,
    module: Option<&Module>,
) -> Result<(Vec<Value>, Annotation), Stop> {
    let values = bind(row, positional, keywords, &|literal| literal.value())
        .map_err(|error| bind_trap(row, &error))?;
    let operands = values.iter().map(Operand::of_value).collect();
    let out = deduce(row, &Operand::all_described(row, operands), module)?;
    Ok((values, out))
}

/// Deduction takes a value of which no annotation tells anything for one of which nothing is known.
fn refuse_opaque(row: &'static Operator, values: &[Value]) -> Result<(), Stop> {
    for (param, value) in row.params.iter().zip(values) {
        if matches!(param.kind, Kind::Value | Kind::Rest) {
            continue;
        }
        if let Some(opaque) = opaque(value) {
            let message =
                format!("`{}` must be {}, found {opaque}", param.name, param.kind.words());
            return Err(Stop::trap(format!("{}/kind", row.short_name()), message));
        }
    }
    Ok(())
}

/// A storage or a heap, or one among the fields of a tuple.
fn opaque(value: &Value) -> Option<&'static str> {
    match value {
        Value::Storage(_) | Value::Heap(_) => Some(value.kind()),
        Value::Tuple(items) => items.iter().find_map(opaque),
        _ => None,
    }
}

/// What the row deduces from these very operands.
pub(super) fn deduce(
    row: &'static Operator,
    operands: &[Operand],
    module: Option<&Module>,
) -> Result<Annotation, Stop> {
    let facts = &mut Concrete;
    let mut infer = Infer { row, operands, facts, obligations: Vec::new(), module };
    let out = (row.infer)(&mut infer).map_err(|reject| reject_trap(row, &reject))?;
    // With numbers for dims everything is decided but what has no value (overflow, division by 0).
    infer.obligations.first().map_or(Ok(out), |obligation| {
        let claim = &obligation.claim;
        let message = format!("`{}` and `{}` have no common value here", claim.left, claim.right);
        Err(Stop::trap(format!("{}/{}", row.short_name(), obligation.constraint), message))
    })
}

fn reject_trap(row: &Operator, reject: &Reject) -> Stop {
    Stop::trap(format!("{}/{}", row.short_name(), reject.constraint), reject.message.clone())
}

fn bind_trap(row: &Operator, error: &BindError) -> Stop {
    Stop::trap(format!("{}/arguments", row.short_name()), error.to_string())
}
