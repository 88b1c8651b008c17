//! Gradients against central differences in the reference interpreter: for each parameter the derivative along a
//! random direction, which every element of its gradient is part of.

use crate::passes::gradient::adjoint_name;
use crate::verify::compare_values;
use relax_program::compare::Relation;
use relax_program::frontend::{RunOptions, run};
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

/// Steps, one after the other: a kink between the two points of one is seldom between those of the next.
const STEPS: [f64; 3] = [1e-5, 1e-6, 4e-5];
/// Of the greater derivative, and of 1 and the loss: what truncation and rounding leave at these steps.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-6;

/// What came of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// So many gradients agree, of which some have an element other than 0.
    Agree {
        /// Parameters whose gradient was compared.
        gradients: usize,
        /// Those that are not all 0.
        nonzero: usize,
    },
    /// The function itself stops on these arguments.
    Stops(Stop),
    /// The loss, or a derivative by both ways, is not finite.
    NotFinite,
}

/// Calls a function of an f64 program and the one that the pass `gradient` made of it. `wrt` are its parameters
/// in the order of the gradients, by position.
///
/// # Errors
/// The first gradient that differs, or what the function of gradients does wrong otherwise.
pub fn compare(
    module: &Module,
    function: &str,
    wrt: &[usize],
    arguments: &[Value],
    seed: u64,
) -> Result<Outcome, String> {
    let options = RunOptions::default();
    let call = |name: &str, arguments: Vec<Value>| run(module, name, arguments, &options).result;
    let want = match call(function, arguments.to_vec()) {
        Ok(want) => want,
        Err(stop) => return Ok(Outcome::Stops(stop)),
    };
    let adjoint = adjoint_name(&Name::new(function));
    let got = call(&adjoint, arguments.to_vec())
        .map_err(|stop| format!("`{adjoint}` stops where `{function}` does not: {stop:?}"))?;
    let Value::Tuple(parts) = &got else { return Err(format!("`{adjoint}` gives no tuple")) };
    let [result, Value::Tuple(gradients)] = parts.as_slice() else {
        return Err(format!("`{adjoint}` gives no pair of the result and the gradients"));
    };
    compare_values(Relation::Equal, &want, result, arguments)
        .map_err(|why| format!("`{adjoint}` gives another result: {why}"))?;
    let loss = loss_of(&want)?;
    if !loss.is_finite() {
        return Ok(Outcome::NotFinite);
    }
    let mut nonzero = 0;
    for (&at, gradient) in wrt.iter().zip(gradients) {
        let (Value::Tensor(value), Value::Tensor(gradient)) = (&arguments[at], gradient) else {
            return Err("a parameter or its gradient is no tensor".to_owned());
        };
        if value.shape() != gradient.shape() || gradient.dtype() != DType::F64 {
            let (own, given) = (value.shape(), gradient.shape());
            return Err(format!(
                "the gradient of parameter {at}, of shape {own:?}, has shape {given:?}"
            ));
        }
        let moved = |direction: &Tensor, by: f64| {
            let mut arguments = arguments.to_vec();
            arguments[at] = Value::Tensor(along(value, direction, by));
            loss_of(&call(function, arguments).map_err(|stop| format!("{stop:?}"))?)
        };
        if !agrees(at, gradient, loss, &moved, seed)? {
            return Ok(Outcome::NotFinite);
        }
        nonzero += usize::from(gradient.to_floats().iter().any(|own| *own != 0.0));
    }
    Ok(Outcome::Agree { gradients: gradients.len(), nonzero })
}

/// Whether a gradient is the derivative along a direction, by one of the steps; false where neither is finite.
fn agrees(
    at: usize,
    gradient: &Tensor,
    loss: f64,
    moved: &dyn Fn(&Tensor, f64) -> Result<f64, String>,
    seed: u64,
) -> Result<bool, String> {
    let mut why = String::new();
    for (round, step) in (0_u64..).zip(STEPS) {
        let mut random = Random::new(seed ^ (round << 32), &format!("direction {at}"));
        let direction = random.normal_tensor(DType::F64, gradient.shape());
        let told = dot(gradient, &direction);
        let (Ok(after), Ok(before)) = (moved(&direction, step), moved(&direction, -step)) else {
            why = "the function stops beside the arguments".to_owned();
            continue;
        };
        let found = (after - before) / (2.0 * step);
        let room = RELATIVE * told.abs().max(found.abs()) + ABSOLUTE * (1.0 + loss.abs());
        if (told - found).abs() <= room {
            return Ok(true);
        }
        if !told.is_finite() && !found.is_finite() {
            return Ok(false);
        }
        why = format!(
            "the derivative by parameter {at} along a random direction is {found} by differences, {told} by the gradient"
        );
    }
    Err(why)
}

/// The loss in a result.
fn loss_of(result: &Value) -> Result<f64, String> {
    match result {
        Value::Tensor(tensor) if tensor.len() == 1 => Ok(tensor.to_floats().sum()),
        Value::Tuple(fields) if !fields.is_empty() => loss_of(&fields[0]),
        _ => Err("the result has no loss".to_owned()),
    }
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    (a.to_floats() * b.to_floats()).sum()
}

fn along(value: &Tensor, direction: &Tensor, by: f64) -> Tensor {
    Tensor::from_floats(DType::F64, value.to_floats() + direction.to_floats() * by)
}
