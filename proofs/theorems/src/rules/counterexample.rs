//! The smallest case in which the sides of a rule differ, as a program.

use super::annotate::ranks_up_to;
use super::expression::default;
use super::instance::{Types, dtype_of, expanded, samples, type_choices};
use super::numeric::{Data, Sizes, attribute_of, compared, satisfies};
use super::rule::{Arg, Call, Node, Operand, Rule};
use relax_semantics::random::Random;
use relax_semantics::show::show_number;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use std::fmt::{self, Write};

/// A case in which the sides of a rule differ.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is said of the case: dims and difference.
    pub why: String,
    /// A program of which `main` returns both sides.
    pub program: String,
}

/// The sizes that are tried, before all sums of them.
const SIZES: [i64; 5] = [0, 1, 2, 3, 5];
/// Assignments of sizes that are tried.
const MOST_ASSIGNMENTS: usize = 2_000;
/// Draws of data for each.
const DRAWS: usize = 3;

/// The case with the least dims in which the sides of a rule differ, where one is found at all.
pub(super) fn counterexample(rule: &Rule) -> Option<Counterexample> {
    let choices = type_choices(rule, samples);
    let instances: Vec<Rule> =
        ranks_up_to(rule, 2).iter().map(|ranks| expanded(rule, ranks)).collect();
    let of_instance =
        |instance| assignments(instance).into_iter().map(move |sizes| (instance, sizes));
    let mut cases: Vec<(&Rule, Sizes)> = instances.iter().flat_map(of_instance).collect();
    cases.sort_by_key(|(_, sizes)| sizes.values().sum::<i64>());
    let mut random = Random::new(0, &rule.name);
    for (instance, sizes) in &cases {
        for types in &choices {
            for draw in 0..2 * DRAWS {
                let data = Data { wild: draw >= DRAWS };
                let found = compared(instance, types, sizes, &mut random, data);
                if let Some((inputs, Err(why))) = found {
                    return Some(shown(rule, instance, types, sizes, &inputs, &why));
                }
            }
        }
    }
    None
}

/// Sizes of the dims that satisfy the conditions, those of few dims first.
fn assignments(rule: &Rule) -> Vec<Sizes> {
    let dims = rule.variables();
    let mut all = vec![Sizes::new()];
    for name in &dims {
        let room = (MOST_ASSIGNMENTS / all.len().max(1)).clamp(1, SIZES.len());
        // Where there are many dims, the last ones are small.
        let sizes = if room < 2 { &SIZES[1..2] } else { &SIZES[..room] };
        all = all
            .iter()
            .flat_map(|known| sizes.iter().map(move |size| (known, *size)))
            .map(|(known, size)| {
                let mut more = known.clone();
                more.insert(name.clone(), size);
                more
            })
            .collect();
    }
    all.retain(|sizes| satisfies(rule, sizes));
    all
}

fn shown(
    rule: &Rule,
    instance: &Rule,
    types: &Types,
    sizes: &Sizes,
    inputs: &[Option<Tensor>],
    why: &str,
) -> Counterexample {
    let mut dims: Vec<String> = sizes
        .iter()
        .map(|(name, size)| format!("{} = {size}", name.trim_start_matches('*')))
        .collect();
    dims.extend(
        types.iter().filter_map(|(kind, dtype)| Some(format!("{} = {dtype}", kind.class()?))),
    );
    let place = if dims.is_empty() { String::new() } else { format!("{}: ", dims.join(", ")) };
    let why = format!("{place}{why}");
    let mut program =
        format!("# Both sides of {}, which differ at {why}\ndef main():\n", rule.name);
    for (param, input) in instance.params.iter().zip(inputs) {
        if let (Operand::Tensor(..), Some(tensor)) = (&param.what, input) {
            let _ = writeln!(program, "    {} = {}", param.name, literal(tensor));
        }
    }
    let text = Text { rule: instance, types, sizes };
    for (name, node) in [("left", &instance.left), ("right", &instance.right)] {
        let _ = writeln!(program, "    {name} = {}", text.node(node));
    }
    program.push_str("    return (left, right)\n");
    Counterexample { why, program }
}

/// A tensor as it is written in a program.
fn literal(tensor: &Tensor) -> String {
    if tensor.is_empty() {
        let dims: Vec<String> = tensor.shape().iter().map(ToString::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        return format!("zeros(({}{comma}), \"{}\")", dims.join(", "), tensor.dtype());
    }
    let mut elements = (0..tensor.len()).map(|at| show_number(tensor.dtype(), tensor.number(at)));
    format!("const({}, \"{}\")", nested(tensor.shape(), &mut elements), tensor.dtype())
}

fn nested(shape: &[usize], elements: &mut dyn Iterator<Item = String>) -> String {
    match shape.split_first() {
        None => elements.next().unwrap_or_default(),
        Some((&extent, inner)) => {
            let items: Vec<String> = (0..extent).map(|_| nested(inner, elements)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Expressions of a rule without symbols.
struct Text<'a> {
    rule: &'a Rule,
    types: &'a Types,
    sizes: &'a Sizes,
}

impl Text<'_> {
    fn node(&self, node: &Node) -> String {
        match node {
            Node::Param(at) => self.rule.params[*at].name.to_string(),
            Node::Part(whole, at) => format!("{}[{at}]", self.node(whole)),
            Node::Constant(value, kind) => {
                let dtype = dtype_of(kind, self.types);
                format!("const({}, \"{dtype}\")", number(*value, dtype.is_float()))
            }
            Node::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &Call) -> String {
        let mut args = Vec::new();
        let mut is_named = false;
        for (param, arg) in call.row.params.iter().zip(&call.args) {
            if param.default.is_some_and(|literal| default(literal) == *arg) {
                is_named = true;
                continue;
            }
            let written = match arg {
                Arg::Node(node) => self.node(node),
                Arg::Nodes(nodes) => {
                    let items: Vec<String> = nodes.iter().map(|node| self.node(node)).collect();
                    format!("[{}]", items.join(", "))
                }
                other => attribute_of(other, param.kind, self.types, self.sizes)
                    .map_or_else(|| "None".to_owned(), |value| written(&value)),
            };
            args.push(if is_named { format!("{}={written}", param.name) } else { written });
        }
        format!("{}({})", call.row.short_name(), args.join(", "))
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::Prim(dtype, number) => show_number(*dtype, *number),
        Value::Str(text) => format!("{text:?}"),
        Value::Tuple(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        _ => "None".to_owned(),
    }
}

fn number(value: f64, is_float: bool) -> String {
    if is_float { format!("{value:?}") } else { format!("{value:.0}") }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
