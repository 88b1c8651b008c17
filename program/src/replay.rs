//! Graph replay: a program that records graphs is called again, and the second call replays them.
//!
//! What is wrong with a graph shows only then: that it reads an argument of the first call, or writes to
//! the memory of its result.

use crate::compare::{Relation, compare};
use crate::frontend::{Ran, RunOptions, interpreter};
use relax_semantics::interp::Interpreter;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::ir::{AttrValue, Body, Callee, Expr, Function, Module, attr};

/// Names of the built-ins begin like this, and so do the traps of them.
const GRAPHS: &str = "builtin.cuda_graph";

/// Whether a module calls functions that are recorded.
#[must_use]
pub fn has_graphs(module: &Module) -> bool {
    fn in_body(body: &Body) -> bool {
        body.bindings().any(|binding| match &binding.expr {
            Expr::Call { callee: Callee::Operator(name), .. } => name.starts_with(GRAPHS),
            Expr::If { then, otherwise, .. } => in_body(then) || in_body(otherwise),
            _ => false,
        })
    }
    module.functions().any(|function| function.lambda.body.as_ref().is_some_and(in_body))
}

/// As [`crate::frontend::run`]. Where graphs were recorded, the function is called again with other
/// elements of the same shapes, then with the same arguments: that must give the same, and leave the
/// first result as it was.
#[must_use]
pub fn run_again(
    module: &Module,
    function: &str,
    arguments: Vec<Value>,
    options: &RunOptions,
) -> Ran {
    let mut interpreter = interpreter(module, options);
    let first = interpreter.call_function(function, arguments.clone());
    let printed = interpreter.printed.clone();
    let result = match first {
        Ok(first) if interpreter.has_graphs() => {
            again(&mut interpreter, module, function, &arguments, first)
        }
        Ok(first) => interpreter.read(function, first),
        Err(stop) => Err(stop),
    };
    Ran { result, printed }
}

fn again(
    interpreter: &mut Interpreter,
    module: &Module,
    function: &str,
    arguments: &[Value],
    first: Value,
) -> Result<Value, Stop> {
    if let Some(called) = module.function(function) {
        let others = others(called, arguments);
        if let Err(Stop::Trap(trap)) = interpreter.call(function, others)
            && trap.id.starts_with(GRAPHS)
        {
            return Err(Stop::Trap(trap));
        }
    }
    let last = interpreter.call(function, arguments.to_vec())?;
    let first = interpreter.read(function, first)?;
    match compare(Relation::Equal, &first, &last) {
        Ok(()) => Ok(first),
        Err(why) => {
            let message = format!("replayed, it gives another value: {why}");
            Err(Stop::trap(format!("{GRAPHS}_run_or_capture/C4"), message))
        }
    }
}

/// Arguments of the same shapes; what follows the inputs of a function are its weights, which stay.
fn others(function: &Function, arguments: &[Value]) -> Vec<Value> {
    let inputs = match attr(&function.lambda.attrs, "num_input") {
        Some(AttrValue::Int(inputs)) => usize::try_from(*inputs).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let others = arguments.iter().enumerate().map(|(at, value)| match value {
        Value::Tensor(tensor) if at < inputs => Value::Tensor(other(tensor)),
        value => value.clone(),
    });
    others.collect()
}

/// Integers may be places, so they stay.
fn other(tensor: &Tensor) -> Tensor {
    if !tensor.dtype().is_float() || tensor.undefined_elements().is_some() {
        return tensor.clone();
    }
    Tensor::from_floats(tensor.dtype(), tensor.to_floats() + 1.0)
}
