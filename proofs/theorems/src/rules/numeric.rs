//! Both sides of a rule in the reference interpreter, at small sizes: a check of the denotation itself,
//! and what finds that a mutant is wrong.

use super::annotate::ranks_up_to;
use super::instance::{Ranks, Types, dtype_of, expanded, known, samples, type_choices};
use super::rule::{Arg, Axis, Kind, Node, Operand, Rule};
use relax_semantics::ops::{Kind as ParamKind, Known, Limits, apply};
use relax_semantics::random::Random;
use relax_semantics::show::show_number;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::{Value, tensor_type};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

/// What came of evaluating a rule at small sizes.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Cases in which both sides gave the same value.
    pub equal: usize,
    /// Cases in which both stopped alike.
    pub stopped: usize,
    /// The first difference.
    pub difference: Option<String>,
}

/// The sizes of dims.
const SIZES: [i64; 5] = [2, 3, 1, 0, 5];
/// Cases a rule.
const CASES: usize = 60;
/// Elements an operand may have.
const MAX_ELEMENTS: usize = 5_000;
/// Bytes that a result may take.
const MAX_BYTES: u64 = 16 << 20;

/// The sizes of dims.
pub(super) type Sizes = BTreeMap<Name, i64>;

/// Evaluates both sides of a rule at small sizes on random data.
#[must_use]
pub fn evaluate(rule: &Rule) -> Comparison {
    let mut comparison = Comparison::default();
    let choices = type_choices(rule, samples);
    let mut random = Random::new(0, &rule.name);
    let instances: Vec<Rule> =
        ranks_up_to(rule, 2).iter().map(|ranks: &Ranks| expanded(rule, ranks)).collect();
    let mut done = 0;
    // Few sizes satisfy some conditions: many are drawn.
    for case in 0..CASES * 40 {
        if done >= CASES || comparison.difference.is_some() {
            break;
        }
        let instance = &instances[case % instances.len()];
        let types = &choices[(case / instances.len()) % choices.len()];
        let Some(sizes) = draw(instance, case, &mut random) else { continue };
        done += 1;
        let wild = random.int(&(0..=1)) == 1;
        compare(instance, types, &sizes, &mut random, Data { wild }, &mut comparison);
    }
    comparison
}

/// What elements are drawn.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// With infinities, NaN, zeros and extreme integers among them.
    pub(super) wild: bool,
}

/// Sizes that satisfy the conditions.
fn draw(rule: &Rule, case: usize, random: &mut Random) -> Option<Sizes> {
    let pick = |random: &mut Random| SIZES[random.int(&(0..=4)) as usize];
    let mut sizes = Sizes::new();
    for name in rule.variables() {
        let size = if case < SIZES.len() * 2 { SIZES[case % SIZES.len()] } else { pick(random) };
        sizes.insert(name, size);
    }
    satisfies(rule, &sizes).then_some(sizes)
}

/// Whether the conditions hold, and extents are no less than 0.
pub(super) fn satisfies(rule: &Rule, sizes: &Sizes) -> bool {
    let holds = rule.conditions.iter().all(|condition| condition.holds(sizes) == Some(true));
    let fits = |param: &super::rule::Param| match &param.what {
        Operand::Tensor(axes, _) => axes.iter().all(|axis| {
            let Axis::Dim(dim) = axis else { return false };
            value_of(dim, sizes).is_some_and(|size| size >= 0)
        }),
        Operand::Float => true,
    };
    holds && rule.params.iter().all(fits)
}

fn value_of(dim: &Dim, sizes: &Sizes) -> Option<i64> {
    dim.eval(&|name| sizes.get(name).copied()).ok()
}

fn compare(
    rule: &Rule,
    types: &Types,
    sizes: &Sizes,
    random: &mut Random,
    data: Data,
    comparison: &mut Comparison,
) {
    let Some((_, outcome)) = compared(rule, types, sizes, random, data) else { return };
    match outcome {
        Ok(Outcome::Equal) => comparison.equal += 1,
        Ok(Outcome::Stopped) => comparison.stopped += 1,
        Err(why) => {
            let types: Vec<String> = types.values().map(ToString::to_string).collect();
            comparison.difference = Some(format!("{sizes:?} {}: {why}", types.join(" ")));
        }
    }
}

/// How the sides are alike.
pub(super) enum Outcome {
    Equal,
    Stopped,
}

/// The operands, and how the sides are alike or differ.
type Compared = (Vec<Option<Tensor>>, Result<Outcome, String>);

/// Compares the sides on some data; `None` where nothing of these sizes can be compared.
pub(super) fn compared(
    rule: &Rule,
    types: &Types,
    sizes: &Sizes,
    random: &mut Random,
    data: Data,
) -> Option<Compared> {
    let inputs = inputs(rule, types, sizes, random, data)?;
    let run = |node: &Node| value(types, sizes, &inputs, node);
    let outcome = match (run(&rule.left), run(&rule.right)) {
        (Ok(a), Ok(b)) => same(rule, &a, &b, &inputs).map(|()| Outcome::Equal),
        (Err(Stop::Trap(_)), Err(Stop::Trap(_))) => Ok(Outcome::Stopped),
        (Err(Stop::Trap(trap)), Ok(_)) => Err(format!("only the left side stops: {trap}")),
        (Ok(_), Err(Stop::Trap(trap))) => Err(format!("only the right side stops: {trap}")),
        // Too large to be compared: that is no difference.
        (Err(Stop::Exhausted { .. }), _) | (_, Err(Stop::Exhausted { .. })) => return None,
        (Err(other), _) | (_, Err(other)) => Err(other.to_string()),
    };
    Some((inputs, outcome))
}

fn inputs(
    rule: &Rule,
    types: &Types,
    sizes: &Sizes,
    random: &mut Random,
    data: Data,
) -> Option<Vec<Option<Tensor>>> {
    let mut inputs = Vec::new();
    for param in &rule.params {
        let Operand::Tensor(axes, kind) = &param.what else {
            inputs.push(None);
            continue;
        };
        let mut shape = Vec::new();
        for axis in axes {
            let Axis::Dim(dim) = axis else { return None };
            shape.push(usize::try_from(value_of(dim, sizes)?).ok()?);
        }
        let count = shape.iter().try_fold(1, |count: usize, &extent| count.checked_mul(extent));
        if count.is_none_or(|count| count > MAX_ELEMENTS) {
            return None;
        }
        let dtype = dtype_of(kind, types);
        let tensor = random.tensor(dtype, &shape, &(-3..=4));
        inputs.push(Some(match (data.wild, rule.kind) {
            (true, Kind::Exact) => made_wild(tensor, random),
            // Over the reals nothing is said of infinities and NaN.
            (true, Kind::Approximate) => with_zeros(tensor, random),
            (false, _) => tensor,
        }));
    }
    Some(inputs)
}

/// With some zeros, of which quotients and roots have no value.
fn with_zeros(tensor: Tensor, random: &mut Random) -> Tensor {
    if !tensor.dtype().is_float() {
        return tensor;
    }
    let one_in = if tensor.len() == 1 { 2 } else { 6 };
    let floats = tensor
        .to_floats()
        .mapv_into(|value| if random.int(&(1..=one_in)) == 1 { 0.0 } else { value });
    Tensor::from_floats(tensor.dtype(), floats)
}

/// With some elements replaced by those that laws break on.
fn made_wild(tensor: Tensor, random: &mut Random) -> Tensor {
    const FLOATS: [f64; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        6.0e4,
    ];
    const INTS: [i128; 4] = [0, -1, 127, -128];
    let dtype = tensor.dtype();
    if dtype.is_float() {
        let floats = tensor.to_floats().mapv_into(|value| match random.int(&(0..=14)) {
            at @ 0..=11 => FLOATS[at as usize],
            _ => value,
        });
        Tensor::from_floats(dtype, floats)
    } else if dtype.is_integer() {
        let ints = tensor.to_ints().mapv_into(|value| match random.int(&(0..=7)) {
            at @ 0..=3 => INTS[at as usize],
            _ => value,
        });
        Tensor::from_ints(dtype, ints)
    } else {
        tensor
    }
}

fn value(
    types: &Types,
    sizes: &Sizes,
    inputs: &[Option<Tensor>],
    node: &Node,
) -> Result<Value, Stop> {
    let unsupported = || Stop::Unsupported("this expression".to_owned());
    match node {
        Node::Param(at) => inputs[*at].clone().map(Value::Tensor).ok_or_else(unsupported),
        Node::Constant(value, kind) => {
            let dtype = dtype_of(kind, types);
            let number =
                if dtype.is_float() { Number::Float(*value) } else { Number::Int(*value as i128) };
            Ok(Value::Tensor(Tensor::scalar(dtype, number)))
        }
        Node::Part(whole, at) => match self::value(types, sizes, inputs, whole)? {
            Value::Tuple(items) => items.into_iter().nth(*at).ok_or_else(unsupported),
            _ => Err(unsupported()),
        },
        Node::Call(call) => {
            let mut args = Vec::with_capacity(call.args.len());
            for (param, arg) in call.row.params.iter().zip(&call.args) {
                args.push(match arg {
                    Arg::Node(node) => self::value(types, sizes, inputs, node)?,
                    Arg::Nodes(nodes) => Value::Tuple(
                        nodes
                            .iter()
                            .map(|node| self::value(types, sizes, inputs, node))
                            .collect::<Result<_, _>>()?,
                    ),
                    other => {
                        attribute_of(other, param.kind, types, sizes).ok_or_else(unsupported)?
                    }
                });
            }
            let limits = Limits { tensor_bytes: MAX_BYTES, ..Limits::default() };
            apply(call.row, args, Vec::new(), &limits, None)
        }
    }
}

/// The value of an argument that is no tensor.
pub(super) fn attribute_of(
    arg: &Arg,
    kind: ParamKind,
    types: &Types,
    sizes: &Sizes,
) -> Option<Value> {
    attribute(&known(arg, kind, types), sizes)
}

fn attribute(known: &Known, sizes: &Sizes) -> Option<Value> {
    Some(match known {
        Known::None => Value::None,
        Known::Dim(dim) => Value::int(value_of(dim, sizes)?),
        Known::Float(value) => Value::Prim(DType::F64, Number::Float(*value)),
        Known::Bool(value) => Value::Prim(DType::Bool, Number::Int(i128::from(*value))),
        Known::Str(text) => Value::Str(text.clone()),
        Known::List(items) => Value::Tuple(
            items.iter().map(|item| attribute(item, sizes)).collect::<Option<Vec<_>>>()?,
        ),
        Known::Annotation(_) | Known::Global(_) => return None,
    })
}

/// Bit for bit, or for approximate rules within an error that the magnitudes allow.
fn same(rule: &Rule, a: &Value, b: &Value, inputs: &[Option<Tensor>]) -> Result<(), String> {
    let (Value::Tensor(a), Value::Tensor(b)) = (a, b) else {
        return Err("the sides are no tensors".to_owned());
    };
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        let [a, b] = [a, b].map(tensor_type);
        return Err(format!("the sides are {a} and {b}"));
    }
    for at in 0..a.len() {
        let (x, y) = (a.number(at), b.number(at));
        if !alike(rule.kind, a.dtype(), (x, y), inputs) {
            let [x, y] = [x, y].map(|number| show_number(a.dtype(), number));
            return Err(format!("element {at} is {x} and {y}"));
        }
    }
    Ok(())
}

fn alike(kind: Kind, dtype: DType, pair: (Number, Number), inputs: &[Option<Tensor>]) -> bool {
    match (kind, pair) {
        (_, (Number::Int(x), Number::Int(y))) => x == y,
        (Kind::Exact, (Number::Float(x), Number::Float(y))) => {
            x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
        }
        // Where one side has no value, the other must not have one either.
        (Kind::Approximate, (Number::Float(x), Number::Float(y))) => {
            let neither = !x.is_finite() && !y.is_finite();
            neither || x == y || (x - y).abs() <= bound(dtype, inputs, x)
        }
        _ => false,
    }
}

/// How far apart results may be: the sum over the sides' roundings of what each may add. Both sides are
/// short expressions over standard normal data and reductions of at most 125 elements, so intermediate
/// magnitudes stay below the square of the largest times that length.
fn bound(dtype: DType, inputs: &[Option<Tensor>], value: f64) -> f64 {
    let unit = match dtype {
        DType::F16 => f64::EPSILON * 2.0_f64.powi(42),
        DType::BF16 => f64::EPSILON * 2.0_f64.powi(45),
        DType::F32 => f64::EPSILON * 2.0_f64.powi(29),
        _ => f64::EPSILON,
    };
    let largest = inputs.iter().flatten().flat_map(|tensor| {
        (0..tensor.len()).map(|at| tensor.number(at).as_f64().abs()).filter(|x| x.is_finite())
    });
    let largest = largest.fold(1.0, f64::max);
    32.0 * unit * (largest * largest * 8.0).max(value.abs())
}
