//! Equality up to rounding: whether two programs that round in different places compute the same real numbers.
//!
//! Last digits say nothing here: both programs are run again in f64, where every float of them is an f64, constants
//! and inputs with the values that they have. A program's own deviation, its result beside that of its f64 run, is the
//! rounding that it accumulates; in f64 the same steps round by 2⁻⁵³ in the place of the unit of the narrow dtype, so
//! that of the two deviations as much is left. What differs in f64 by more than [`MULTIPLE`] times that is no rounding.
//!
//! What is seen counts as at least half a unit of the largest number among inputs and results: the interpreter adds
//! up in f64 whatever the dtype, so that cancellation of large terms shows in the f64 runs alone. A program whose
//! intermediate values are much larger than both, and cancel, may be called different; none is called the same by
//! that.

mod programs;

use programs::widened_program;
use relax_semantics::check::{Phase, check};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::{Atom, Body, Constant, Definition, Expr, Function, Module};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many times the rounding that is seen may be left: what was seen may be less than usual by luck.
const MULTIPLE: f64 = 64.0;

/// The results of two programs, and of the same programs in f64.
#[derive(Clone, Copy, Debug)]
pub struct Results<'v> {
    /// As they are.
    pub rounded: (&'v Value, &'v Value),
    /// In f64.
    pub wide: (&'v Value, &'v Value),
    /// The largest magnitude among the inputs.
    pub inputs: f64,
}

/// The largest magnitude among some values; what is not finite does not count.
#[must_use]
pub fn largest_magnitude(values: &[Value]) -> f64 {
    let of = |value: &Value| match value {
        Value::Tensor(tensor) if tensor.dtype().class() == Class::Float => {
            largest(tensor.len(), &|place| tensor.number(place).as_f64().abs())
        }
        Value::Tuple(items) => largest_magnitude(items),
        Value::Prim(_, Number::Float(value)) => value.abs(),
        _ => 0.0,
    };
    largest(values.len(), &|place| of(&values[place]))
}

fn largest(length: usize, of: &dyn Fn(usize) -> f64) -> f64 {
    (0..length).map(of).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// Holds the second program against the first. Elements that are no real number in f64 say nothing.
///
/// # Errors
/// The first difference, as a sentence.
pub fn agree(results: Results) -> Result<(), String> {
    match (results.rounded, results.wide) {
        ((Value::Tensor(a), Value::Tensor(b)), (Value::Tensor(c), Value::Tensor(d))) => {
            tensors((a, b), (c, d), results.inputs)
        }
        ((Value::Tuple(a), Value::Tuple(b)), (Value::Tuple(c), Value::Tuple(d))) => {
            let rounded = a.iter().zip(b);
            rounded.zip(c.iter().zip(d)).enumerate().try_for_each(|(at, (rounded, wide))| {
                agree(Results { rounded, wide, inputs: results.inputs })
                    .map_err(|why| format!("item {at}: {why}"))
            })
        }
        _ => Ok(()),
    }
}

fn tensors(
    rounded: (&Tensor, &Tensor),
    wide: (&Tensor, &Tensor),
    inputs: f64,
) -> Result<(), String> {
    let dtype = rounded.0.dtype();
    let lengths = [rounded.0.len(), rounded.1.len(), wide.0.len(), wide.1.len()];
    if dtype.class() != Class::Float || lengths.iter().any(|length| *length != lengths[0]) {
        return Ok(());
    }
    let at = |tensor: &Tensor, place: usize| tensor.number(place).as_f64();
    let scale = largest(lengths[0], &|place| at(wide.0, place).abs()).max(inputs);
    let own =
        |a: &Tensor, b: &Tensor| largest(lengths[0], &|place| (at(a, place) - at(b, place)).abs());
    let unit = unit_of(dtype);
    let seen = own(rounded.0, wide.0) + own(rounded.1, wide.1) + unit * scale;
    let allowed = MULTIPLE * seen * (unit_of(DType::F64) / unit);
    for place in 0..lengths[0] {
        let (a, b) = (at(wide.0, place), at(wide.1, place));
        if !a.is_finite() || !b.is_finite() {
            continue;
        }
        if (a - b).abs() > allowed {
            return Err(format!(
                "in f64, element {place} is {a:e} and {b:e}, which no rounding explains"
            ));
        }
        if at(rounded.0, place).is_finite() && !at(rounded.1, place).is_finite() {
            return Err(format!("element {place} is {a:e}, which the second cannot compute"));
        }
    }
    Ok(())
}

/// Half the distance of neighbouring numbers beside 1.
fn unit_of(dtype: DType) -> f64 {
    let digits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    };
    libm::ldexp(1.0, -digits)
}

/// A value with every float as an f64.
#[must_use]
pub fn widened_value(value: &Value) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(widened_tensor(tensor)),
        Value::Tuple(items) => Value::Tuple(items.iter().map(widened_value).collect()),
        Value::Prim(dtype, Number::Float(value)) => {
            Value::Prim(widened_type(*dtype), Number::Float(*value))
        }
        other => other.clone(),
    }
}

/// Values of constants with every float as an f64.
#[must_use]
pub fn widened_values(values: &BTreeMap<Name, Tensor>) -> BTreeMap<Name, Tensor> {
    values.iter().map(|(name, tensor)| (name.clone(), widened_tensor(tensor))).collect()
}

fn widened_tensor(tensor: &Tensor) -> Tensor {
    if tensor.dtype().class() == Class::Float { tensor.cast(DType::F64) } else { tensor.clone() }
}

fn widened_type(dtype: DType) -> DType {
    if dtype.class() == Class::Float { DType::F64 } else { dtype }
}

/// A module with every float as an f64; `None` where it has closures, or tensor programs of which that makes no program: two literals
/// of which nothing says a dtype stay f32.
#[must_use]
pub fn widened(module: &Module) -> Option<Module> {
    let widen = |definition: &Definition| match definition {
        Definition::Graph(function) => Some(Definition::Graph(widened_function(function)?)),
        Definition::Tensor(program) => Some(Definition::Tensor(widened_program(program))),
    };
    let definitions = module.definitions.iter().map(widen).collect::<Option<Vec<_>>>()?;
    let made = Module { attrs: module.attrs.clone(), definitions };
    let has_programs =
        made.definitions.iter().any(|definition| matches!(definition, Definition::Tensor(_)));
    let phase = Phase::of_module(&made).unwrap_or(Phase::P0);
    (!has_programs || check(&made, &mut Prover::new(), phase).is_ok()).then_some(made)
}

fn widened_function(function: &Function) -> Option<Function> {
    let mut made = function.clone();
    for info in &mut made.vars {
        info.annotation = info.annotation.as_ref().map(annotation);
    }
    made.lambda.result = made.lambda.result.as_ref().map(annotation);
    match &mut made.lambda.body {
        Some(found) => body(found).then_some(made),
        None => Some(made),
    }
}

/// Whether there is nothing in the way.
fn body(found: &mut Body) -> bool {
    atom(&mut found.result);
    found.blocks.iter_mut().flat_map(|block| &mut block.bindings).all(|binding| {
        match &mut binding.expr {
            Expr::Atom(operand) | Expr::Get(operand, _) => atom(operand),
            Expr::Call { args, attrs, .. } => {
                args.iter_mut().for_each(atom);
                attrs.iter_mut().for_each(|(_, value)| atom(value));
            }
            Expr::If { condition, then, otherwise } => {
                atom(condition);
                return body(then) && body(otherwise);
            }
            Expr::MatchCast(operand, wanted) => {
                atom(operand);
                *wanted = annotation(wanted);
            }
            Expr::Closure(_) => return false,
        }
        true
    })
}

fn atom(found: &mut Atom) {
    match found {
        Atom::Str(text) => {
            if DType::parse(text).is_some_and(|dtype| dtype.class() == Class::Float) {
                *text = Name::new(DType::F64.name());
            }
        }
        Atom::Constant(constant) => {
            let Constant { shape, dtype, data } = &**constant;
            let (shape, dtype, data) = (shape.clone(), widened_type(*dtype), data.clone());
            *constant = Arc::new(Constant { shape, dtype, data });
        }
        Atom::External(external) => {
            let mut wide = (**external).clone();
            wide.annotation = annotation(&wide.annotation);
            *external = Arc::new(wide);
        }
        Atom::Tuple(items) | Atom::List(items) => items.iter_mut().for_each(atom),
        Atom::Annotation(known) => *known = Arc::new(annotation(known)),
        Atom::Var(_)
        | Atom::Global(_)
        | Atom::Dim(_)
        | Atom::Float(_)
        | Atom::Bool(_)
        | Atom::None
        | Atom::Shape(_) => {}
    }
}

fn annotation(known: &Annotation) -> Annotation {
    match known {
        Annotation::Prim(dtype) => Annotation::Prim(widened_type(*dtype)),
        Annotation::Tensor(TensorType { extents, dtype }) => {
            let dtype = dtype.map(widened_type);
            Annotation::Tensor(TensorType { extents: extents.clone(), dtype })
        }
        Annotation::Tuple(items) => Annotation::Tuple(items.iter().map(annotation).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Relation, compare};
    use crate::frontend::{Program, RunOptions, run};
    use crate::spec::Context;
    use relax_syntax::span::Source;

    /// The result of a program at a value, and that in f64.
    fn results(text: &str, value: &Value) -> (Value, Value) {
        let program = Program::load(Source::new("case", text));
        let wide = widened(&program.module).expect("there is nothing in the way");
        let call = |module: &Module, value: &Value| {
            run(module, "main", vec![value.clone()], &RunOptions::default())
                .result
                .expect("a value")
        };
        (call(&program.module, value), call(&wide, &widened_value(value)))
    }

    /// Whether two bodies of one vector agree at some elements.
    fn same(left: &str, right: &str, x: &str) -> Result<(), String> {
        let value =
            Context::default().read("x", x, None).expect("the SPECs of these tests are right");
        let results = [left, right].map(|body| {
            let text = format!("def main(x: Tensor((\"n\",), \"f32\")):\n    return {body}\n");
            results(&text, &value)
        });
        let [(a, c), (b, d)] = &results;
        let inputs = largest_magnitude(&[value]);
        agree(Results { rounded: (a, b), wide: (c, d), inputs })
    }

    #[test]
    fn what_rounds_elsewhere_agrees() {
        let (left, right) =
            ("sum(divide(x, const(3.0, \"f32\")))", "divide(sum(x), const(3.0, \"f32\"))");
        for x in ["[1.5, 2.25, -3.0]", "[10000.0, 0.001, -10000.0]", "zeros(0)", "[0.1, 0.2, 0.3]"]
        {
            assert_eq!(same(left, right, x), Ok(()), "{x}");
        }
    }

    #[test]
    fn tensor_programs_agree_as_operators_do() {
        let text = |order: &str, factor: &str| {
            format!(
                r#"
def main(x: Tensor(("n",), "f32")):
    return call_tir(total, [x], Tensor((), "f32"))

@tensorir_function
def total(X: Buffer(("n",), "f32"), Y: Buffer((), "f32")):
    half = 0.5
    Y[()] = 0.0
    for i in range(n):
        Y[()] += f32(X[{order}]) * half * {factor}
"#
            )
        };
        let value = Context::default().read("x", "[10000.0, 0.001, -10000.0, 0.1]", None);
        let value = value.expect("the SPECs of these tests are right");
        let results = |order, factor| results(&text(order, factor), &value);
        let (a, c) = results("i", "2.0");
        let (b, d) = results("n - 1 - i", "2.0");
        assert!(compare(Relation::Equal, &a, &b).is_err());
        let inputs = largest_magnitude(std::slice::from_ref(&value));
        assert_eq!(agree(Results { rounded: (&a, &b), wide: (&c, &d), inputs }), Ok(()));
        let (b, d) = results("n - 1 - i", "2.0001");
        assert!(agree(Results { rounded: (&a, &b), wide: (&c, &d), inputs }).is_err());
    }

    #[test]
    fn what_is_another_number_does_not() {
        let right = "multiply(x, const(1.0000001, \"f32\"))";
        assert!(same("multiply(x, const(1.0, \"f32\"))", right, "[1.5, 2.25]").is_err());
        assert!(same("exp(x)", "add(exp(x), const(1e-9, \"f32\"))", "[0.5, 0.25]").is_err());
    }

    #[test]
    fn what_is_no_real_number_says_nothing() {
        assert_eq!(same("divide(x, x)", "exp(subtract(x, x))", "[0.0, 2.0]"), Ok(()));
        assert!(same("log(exp(x))", "add(x, x)", "[0.5]").is_err());
        assert!(same("x", "log(exp(x))", "[200.0]").is_err());
    }
}
