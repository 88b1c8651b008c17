//! Tensor parallelism of a program without layouts: each weight is cut along the axis with which the fewest bytes are moved.

use crate::data::place;
use crate::layout::declared_meshes;
use crate::propagate::{Plan, Step, propagate};
use relax_semantics::check::mesh_extents;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, Function, Module, VarId};
use std::collections::BTreeMap;

/// Weights of which all combinations of axes are compared; of more, one after the other is.
const TOGETHER: usize = 4;

/// Rounds over the weights, each of which compares the axes of one while the others stay.
const ROUNDS: usize = 3;

/// A weight, and the number of its axes.
type Weight = (VarId, usize);

/// The module in which each weight of a function is cut along the last axis of the module's mesh, at the axis with which the function moves the
/// fewest bytes at `sizes` of its dims. Weights are the parameters that are named, or if none is, those without a layout that have two
/// axes or more and no symbolic dim. Calls of functions have been inlined.
///
/// # Errors
/// Where the module does not declare one mesh, there is no such function, a name is none of its tensors without layout, there are no weights, or
/// layouts cannot be chosen however they are cut.
pub fn cut_weights(
    module: &Module,
    function: &str,
    named: &[Name],
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<Module, String> {
    let [mesh] = declared_meshes(module)[..] else {
        return Err("the program must declare one mesh".to_owned());
    };
    let axes = mesh_extents(module, mesh)?.len();
    let own = module.functions().find(|own| own.name == *function);
    let own = own.ok_or_else(|| format!("there is no function `{function}`"))?;
    let weights = weights(own, named)?;
    let cut = |chosen: &[usize]| {
        let mut result = module.clone();
        for definition in &mut result.definitions {
            let Definition::Graph(own) = definition else { continue };
            if own.name != *function {
                continue;
            }
            for (&(weight, _), &at) in weights.iter().zip(chosen) {
                place(own, weight, mesh, (axes, axes - 1), at);
            }
        }
        result
    };
    let mut cost = |chosen: &[usize]| {
        let module = cut(chosen);
        let own = module.functions().find(|own| own.name == *function)?;
        propagate(&module, own, sizes, facts).ok().map(|plan| Cost::of(&plan, &weights))
    };
    let counts: Vec<usize> = weights.iter().map(|(_, axes)| *axes).collect();
    let best = match weights.len() {
        0..=TOGETHER => together(&counts, &mut cost),
        _ => in_turn(&counts, &mut cost),
    };
    best.map(|chosen| cut(&chosen))
        .ok_or_else(|| "no layout is found with weights that are cut".to_owned())
}

/// What a plan costs, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// Redistributions of weights: who cuts a weight wants no rank to have all of it.
    weights: usize,
    /// Bytes that are moved at the sizes of the plan.
    bytes: i128,
    movements: usize,
}

impl Cost {
    fn of(plan: &Plan, weights: &[Weight]) -> Self {
        let is_weight = |step: &Step| match step {
            Step::Move { var, .. } => weights.iter().any(|(weight, _)| weight == var),
            _ => false,
        };
        let movements = || plan.moves().flat_map(|(_, movements)| movements);
        let bytes = movements().map(|movement| {
            let bytes = movement.bytes.eval(&|name| plan.samples.get(name).copied());
            bytes.map_or(i128::from(i64::MAX), i128::from)
        });
        Self {
            weights: plan.moves().filter(|(step, _)| is_weight(step)).count(),
            bytes: bytes.sum(),
            movements: movements().count(),
        }
    }
}

/// The cost of cutting each weight at one of its axes; `None` where there are no layouts.
type Costs<'a> = dyn FnMut(&[usize]) -> Option<Cost> + 'a;

/// The best of all combinations.
fn together(counts: &[usize], cost: &mut Costs<'_>) -> Option<Vec<usize>> {
    let combinations: usize = counts.iter().product();
    let chosen = |mut number: usize| -> Vec<usize> {
        let axis = |count: &usize| {
            let axis = number % count;
            number /= count;
            axis
        };
        counts.iter().map(axis).collect()
    };
    let each = (0..combinations).map(chosen);
    let costs = each.filter_map(|chosen| Some((cost(&chosen)?, chosen)));
    costs.min_by_key(|(cost, _)| *cost).map(|(_, chosen)| chosen)
}

/// Weights one after the other, from the last axis of each on: columns of the first product are cut where the second sums over them.
fn in_turn(counts: &[usize], cost: &mut Costs<'_>) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = counts.iter().map(|count| count - 1).collect();
    let mut best = cost(&chosen);
    for _ in 0..ROUNDS {
        let before = chosen.clone();
        for (at, &count) in counts.iter().enumerate() {
            for axis in (0..count).filter(|axis| *axis != before[at]) {
                let mut other = chosen.clone();
                other[at] = axis;
                let found = cost(&other);
                if found.is_some() && best.is_none_or(|best| found < Some(best)) {
                    (best, chosen) = (found, other);
                }
            }
        }
        if chosen == before {
            break;
        }
    }
    best.map(|_| chosen)
}

fn weights(function: &Function, named: &[Name]) -> Result<Vec<Weight>, String> {
    let plain = function.lambda.params.iter().filter_map(|&param| {
        let Annotation::Tensor(tensor) = function.param_annotation(param) else { return None };
        Some((param, tensor.extents.dims().filter(|dims| !dims.is_empty())?))
    });
    let plain: Vec<(VarId, &[Dim])> = plain.collect();
    if named.is_empty() {
        let is_weight =
            |dims: &[Dim]| dims.len() >= 2 && dims.iter().all(|dim| dim.as_int().is_some());
        let weights = plain.iter().filter(|(_, dims)| is_weight(dims));
        let weights: Vec<Weight> = weights.map(|(param, dims)| (*param, dims.len())).collect();
        return match weights.is_empty() {
            true => Err(format!(
                "no parameter of `{}` has two axes, no symbolic dim and no layout: name the weights",
                function.name
            )),
            false => Ok(weights),
        };
    }
    let weight = |name: &Name| {
        let found = plain.iter().find(|(param, _)| function.var(*param).name == *name);
        let found = found.map(|(param, dims)| (*param, dims.len()));
        found.ok_or_else(|| {
            format!(
                "`{name}` is no parameter of `{}` that is a tensor without a layout",
                function.name
            )
        })
    };
    named.iter().map(weight).collect()
}
