//! Inputs: sizes and values for the functions of a case.

use crate::case::Case;
use crate::session::Statistics;
use relax_program::frontend::RunOptions;
use relax_program::signature::{Dims, dim_of_size, random_value};
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_syntax::ir::Function;

/// Sizes that find bugs.
const SIZES: [i64; 8] = [0, 1, 2, 3, 5, 4, 7, 8];
/// Bytes of one random tensor, and steps of a run.
const MAX_BYTES: u64 = 4 << 20;
const MAX_STEPS: u64 = 2_000_000;

/// How runs are limited.
pub(super) fn options() -> RunOptions {
    RunOptions { steps: Some(MAX_STEPS), ..RunOptions::default() }
}

/// Dims of a case: the first ones are all alike.
fn dims(case: &Case, function: &Function, index: usize) -> Dims {
    let mut random = Random::new(case.seed, &format!("{}/{index}", function.name));
    let variables = function.dims.iter().filter(|dim| dim.in_signature);
    variables
        .map(|variable| {
            let drawn = usize::try_from(random.int(&(0..=7))).unwrap_or(0);
            let size = if index < 2 { SIZES[index] } else { SIZES[drawn] };
            (variable.name.clone(), dim_of_size(variable, size))
        })
        .collect()
}

/// Dims and values of a call, of every other one those at the edges of their dtypes; none where its signature has no values, which is counted.
pub(super) fn drawn(
    case: &Case,
    function: &Function,
    index: usize,
    statistics: &mut Statistics,
) -> Option<(Dims, Vec<Value>)> {
    with_edges(case, function, (index, index % 2 == 1), statistics)
}

/// The same, of values that are not at the edges of their dtypes.
pub(super) fn drawn_plain(
    case: &Case,
    function: &Function,
    index: usize,
    statistics: &mut Statistics,
) -> Option<(Dims, Vec<Value>)> {
    with_edges(case, function, (index, false), statistics)
}

fn with_edges(
    case: &Case,
    function: &Function,
    (index, edges): (usize, bool),
    statistics: &mut Statistics,
) -> Option<(Dims, Vec<Value>)> {
    let dims = dims(case, function, index);
    let arguments = arguments(case, function, &dims, edges);
    statistics.unfit += u64::from(arguments.is_none());
    Some((dims, arguments?))
}

/// Values in these dims.
fn arguments(case: &Case, function: &Function, dims: &Dims, edges: bool) -> Option<Vec<Value>> {
    let params = function.lambda.params.iter();
    let values = params.map(|&param| {
        let mut random = Random::new(case.seed, &function.var(param).name);
        if edges {
            random = random.with_edges();
        }
        let annotation = function.param_annotation(param);
        random_value(annotation, dims, &mut random, &(-4..=4), MAX_BYTES).ok()
    });
    values.collect()
}
