//! Runs of the local program by all ranks in one process, on global tensors: arguments are cut into shards, and results
//! are put together. Copies that differ between ranks stop the run.

use crate::layout::{Layout, stages};
use crate::lower::global_dims;
use crate::signature::Layouts;
use relax_semantics::interp::Options;
use relax_semantics::ops::{Limits, apply, lookup, own_rows, without_rows};
use relax_semantics::ranks::{self, Mesh, RanRank, cause};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement, shard_extent};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The global value, or what stopped the run, with the rank.
    pub result: Result<Value, (usize, Stop)>,
    /// Lines that ranks printed, rank after rank.
    pub printed: Vec<(usize, String)>,
}

/// A tensor that is stored elsewhere, of which each rank reads its part.
pub trait Stored {
    /// The extents of the whole.
    fn shape(&self) -> &[usize];

    /// What it is, for processes to compare.
    fn description(&self) -> String;

    /// Consecutive indices of each axis.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn part(&self, part: &[Range<usize>]) -> Result<Tensor, Stop>;
}

/// The parts of stored arguments that were read: ranks with the same part share it.
type Read = BTreeMap<(usize, Vec<(usize, usize)>), Tensor>;

/// A global argument.
#[derive(Clone)]
pub enum Argument<'a> {
    /// A value that is there.
    Value(Value),
    /// A tensor that is not.
    Stored(&'a dyn Stored),
}

impl From<Value> for Argument<'_> {
    fn from(value: Value) -> Self {
        Argument::Value(value)
    }
}

/// Layouts on a mesh with these extents.
#[derive(Clone, Copy)]
struct Placed<'a> {
    layouts: &'a Layouts,
    mesh: &'a Mesh,
}

/// Runs the local program `local` of a function with global arguments, in the interpreter. The layouts are on a mesh with the extents of
/// `mesh`.
#[must_use]
pub fn run<'a, A: Clone + Into<Argument<'a>>>(
    function: &Function,
    (layouts, mesh): (impl Into<Layouts>, &Mesh),
    local: &Module,
    arguments: &[A],
    options: &Options,
) -> Ran {
    run_by(function, (layouts, mesh), arguments, |given| {
        ranks::run(local, mesh, &function.name, given, options)
    })
}

/// The same by whatever calls the local program on all ranks, with the arguments of each.
pub fn run_by<'a, A: Clone + Into<Argument<'a>>>(
    function: &Function,
    (layouts, mesh): (impl Into<Layouts>, &Mesh),
    arguments: &[A],
    call: impl FnOnce(Vec<Vec<Value>>) -> Result<Vec<RanRank>, Stop>,
) -> Ran {
    let placed = Placed { layouts: &layouts.into(), mesh };
    let arguments: Vec<Argument> = arguments.iter().cloned().map(Into::into).collect();
    let stopped = |stop| Ran { result: Err((0, stop)), printed: Vec::new() };
    let ran = match shards(function, placed, &arguments).and_then(call) {
        Ok(ran) => ran,
        Err(stop) => return stopped(stop),
    };
    results(placed, ran)
}

/// The same on one rank, whose others run elsewhere: `call` runs it with its arguments, and gives what came of all ranks to one of
/// them.
pub fn run_one<'a, A: Clone + Into<Argument<'a>>>(
    function: &Function,
    (layouts, mesh): (impl Into<Layouts>, &Mesh),
    (arguments, rank): (&[A], usize),
    call: impl FnOnce(Result<Vec<Value>, Stop>) -> Option<Vec<RanRank>>,
) -> Option<Ran> {
    let placed = Placed { layouts: &layouts.into(), mesh };
    let arguments: Vec<Argument> = arguments.iter().cloned().map(Into::into).collect();
    let given = global_values(function, placed, &arguments)
        .and_then(|values| shards_of(placed, (&arguments, &values), rank, &mut Read::new()));
    call(given).map(|ran| results(placed, ran))
}

/// The result of all ranks.
fn results(placed: Placed, ran: Vec<RanRank>) -> Ran {
    let lines = ran
        .iter()
        .enumerate()
        .flat_map(|(rank, ran)| ran.printed.iter().map(move |line| (rank, line.clone())));
    let printed = lines.collect();
    if let Some(stop) = cause(&ran) {
        return Ran { result: Err(stop), printed };
    }
    let values = ran.into_iter().filter_map(|ran| ran.result.ok()).collect::<Vec<_>>();
    Ran { result: joined(placed, &values).map_err(|stop| (0, stop)), printed }
}

/// The values of symbolic dims that stand alone in the parameters.
fn bound(function: &Function, arguments: &[Argument]) -> BTreeMap<Name, i64> {
    let mut values = BTreeMap::new();
    let integers = |shape: &[usize]| -> Vec<i64> { shape.iter().map(|&dim| number(dim)).collect() };
    for (&param, argument) in function.lambda.params.iter().zip(arguments) {
        let (dims, extents): (Option<&[Dim]>, Vec<i64>) =
            match (function.param_annotation(param), argument) {
                (Annotation::Shape(extents), Argument::Value(Value::Shape(dims))) => {
                    (extents.dims(), dims.clone())
                }
                (annotation, Argument::Value(Value::Tensor(tensor))) => {
                    (annotation.dims(), integers(tensor.shape()))
                }
                (annotation, Argument::Stored(stored)) => {
                    (annotation.dims(), integers(stored.shape()))
                }
                _ => (None, Vec::new()),
            };
        for (dim, extent) in dims.unwrap_or_default().iter().zip(extents) {
            if let Dim::Var(name) = dim {
                values.entry(name.clone()).or_insert(extent);
            }
        }
    }
    values
}

/// The arguments of each rank.
fn shards(
    function: &Function,
    placed: Placed,
    arguments: &[Argument],
) -> Result<Vec<Vec<Value>>, Stop> {
    let values = global_values(function, placed, arguments)?;
    let workers: usize = placed.mesh.extents.iter().product();
    let mut read = Read::new();
    let of_rank = |worker| shards_of(placed, (arguments, &values), worker, &mut read);
    (0..workers).map(of_rank).collect()
}

/// The values of the symbolic extents of the mesh and of the symbolic dims that the local program takes.
fn global_values(
    function: &Function,
    Placed { layouts, mesh }: Placed,
    arguments: &[Argument],
) -> Result<Vec<i64>, Stop> {
    if arguments.len() != layouts.params.len() {
        let message = format!(
            "`{}` takes {} arguments, found {}",
            function.name,
            layouts.params.len(),
            arguments.len()
        );
        return Err(Stop::trap("boundary/arguments", message));
    }
    demand_stages(layouts, mesh)?;
    let axes = layouts.axes.workers.iter().zip(&mesh.extents);
    let of_mesh = axes.filter(|(own, _)| own.as_int().is_none());
    let of_mesh = of_mesh.map(|(_, extent)| Ok(number(*extent)));
    let values = bound(function, arguments);
    let value = |name: Name| {
        let unbound = || Stop::trap("boundary/dim", format!("no argument binds the dim `{name}`"));
        values.get(&name).copied().ok_or_else(unbound)
    };
    of_mesh.chain(global_dims(function).into_iter().map(value)).collect()
}

/// Demands of parameters and results that the mesh has the worker that alone has them.
fn demand_stages(layouts: &Layouts, mesh: &Mesh) -> Result<(), Stop> {
    let params = layouts.params.iter().flatten();
    for (axis, stage) in params.chain(&layouts.results).flat_map(|layout| stages(layout)) {
        let extent = mesh.extents[axis];
        if stage >= extent {
            let message = format!(
                "`O[{stage}]` names a worker that axis {axis} of \"{}\" does not have: it has {extent}",
                mesh.name
            );
            return Err(Stop::trap("boundary/stage", message));
        }
    }
    Ok(())
}

/// The arguments of one rank.
fn shards_of(
    placed: Placed,
    (arguments, values): (&[Argument], &[i64]),
    worker: usize,
    read: &mut Read,
) -> Result<Vec<Value>, Stop> {
    let (at, layouts) = (placed.mesh.coordinates(worker), placed.layouts);
    let mut world: Vec<i64> = at.iter().map(|&rank| number(rank)).collect();
    world.extend(values);
    let mut given = vec![Value::Shape(world)];
    for (number, (argument, layout)) in arguments.iter().zip(&layouts.params).enumerate() {
        given.push(match (argument, layout) {
            (Argument::Value(Value::Tensor(tensor)), Some(layout)) => {
                Value::Tensor(shard(tensor, layout, &at, placed.mesh)?)
            }
            (Argument::Value(value), _) => value.clone(),
            (Argument::Stored(stored), layout) => {
                let replicated = layouts.axes.replicated();
                let layout = layout.as_ref().unwrap_or(&replicated);
                let part = part(stored.shape(), layout, &at, placed.mesh)?;
                let key = part.iter().map(|range| (range.start, range.end)).collect();
                Value::Tensor(match read.entry((number, key)) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(place) => place.insert(stored.part(&part)?).clone(),
                })
            }
        });
    }
    Ok(given)
}

/// The indices of each axis of a tensor that a worker has.
fn part(
    shape: &[usize],
    layout: &Layout,
    at: &[usize],
    mesh: &Mesh,
) -> Result<Vec<Range<usize>>, Stop> {
    let mut part: Vec<Range<usize>> = shape.iter().map(|&extent| 0..extent).collect();
    for (axis, placement) in layout.iter().enumerate() {
        let cut = match placement {
            Placement::Sharded(cut) => cut,
            Placement::Only(stage) if *stage != at[axis] => {
                // A scalar has no rows.
                part.iter_mut().take(1).for_each(|rows| *rows = 0..0);
                continue;
            }
            _ => continue,
        };
        let Some(own) = part.get_mut(*cut) else { return Err(no_axis(*cut)) };
        let extent = number(own.len());
        let (begin, rows) = own_rows(extent, (mesh.extents[axis], at[axis]));
        let [begin, rows] = [begin, rows].map(|number| usize::try_from(number).unwrap_or(0));
        *own = own.start + begin..own.start + begin + rows;
    }
    Ok(part)
}

fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn no_axis(cut: usize) -> Stop {
    Stop::trap("boundary/rank", format!("there is no axis {cut} to cut"))
}

/// The part of a tensor that a worker has.
fn shard(tensor: &Tensor, layout: &Layout, at: &[usize], mesh: &Mesh) -> Result<Tensor, Stop> {
    let mut tensor = tensor.clone();
    for (axis, placement) in layout.iter().enumerate() {
        let cut = match placement {
            Placement::Sharded(cut) => cut,
            Placement::Only(stage) if *stage != at[axis] => {
                tensor = without_rows(&tensor)?;
                continue;
            }
            _ => continue,
        };
        if *cut >= tensor.rank() {
            return Err(no_axis(*cut));
        }
        let integer = |value: i64| Value::int(value);
        let (rank, cut) = (number(at[axis]), number(*cut));
        let args = vec![
            Value::Tensor(tensor),
            integer(number(mesh.extents[axis])),
            integer(rank),
            integer(cut),
        ];
        tensor = computed("spmd.own_shard", args)?;
    }
    Ok(tensor)
}

fn computed(operator: &str, args: Vec<Value>) -> Result<Tensor, Stop> {
    let row = lookup(operator).expect("invariant: the table has the row");
    match apply(row, args, Vec::new(), &Limits::default(), None)? {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Stop::Unsupported(format!("a tensor, found {}", other.kind()))),
    }
}

/// The global value of local ones.
fn joined(placed: Placed, values: &[Value]) -> Result<Value, Stop> {
    let (layouts, is_tuple) = (placed.layouts, matches!(values.first(), Some(Value::Tuple(_))));
    if !is_tuple && layouts.results.len() != 1 {
        let wanted = layouts.results.len();
        return Err(Stop::Unsupported(format!("one result where {wanted} have layouts")));
    }
    let mut results = Vec::new();
    for (number, layout) in layouts.results.iter().enumerate() {
        let part = |value: &Value| match value {
            Value::Tuple(items) => items.get(number).cloned(),
            single => Some(single.clone()),
        };
        let tensors: Option<Vec<Tensor>> = values
            .iter()
            .map(|value| match part(value) {
                Some(Value::Tensor(tensor)) => Some(tensor),
                _ => None,
            })
            .collect();
        let tensors =
            tensors.ok_or_else(|| Stop::Unsupported("a result that is no tensor".to_owned()))?;
        results.push(Value::Tensor(together(placed.mesh, layout, tensors, 0)?));
    }
    Ok(if is_tuple { Value::Tuple(results) } else { results.swap_remove(0) })
}

/// The tensors of consecutive workers, which differ in the coordinates from `axis` on, as one.
fn together(
    mesh: &Mesh,
    layout: &Layout,
    tensors: Vec<Tensor>,
    axis: usize,
) -> Result<Tensor, Stop> {
    let Some(placement) = layout.get(axis) else {
        return Ok(tensors.into_iter().next().expect("invariant: a mesh has a worker"));
    };
    let size = tensors.len() / mesh.extents[axis];
    let parts = tensors.chunks(size).map(|part| together(mesh, layout, part.to_vec(), axis + 1));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    match placement {
        Placement::Sharded(cut) => {
            check_extents(mesh, &parts, *cut, axis)?;
            let axis = Value::int(number(*cut));
            computed(
                "concat",
                vec![Value::Tuple(parts.into_iter().map(Value::Tensor).collect()), axis],
            )
        }
        Placement::Only(stage) => {
            let has_rows = |(rank, part): (usize, &Tensor)| {
                rank != *stage && part.shape().first().is_some_and(|rows| *rows > 0)
            };
            if let Some(rank) = parts.iter().enumerate().position(has_rows) {
                let message = format!(
                    "a result that rank {stage} of axis {axis} alone has has rows on rank {rank}"
                );
                return Err(Stop::trap("ranks/shard", message));
            }
            let own = parts.into_iter().nth(*stage);
            Ok(own.expect("invariant: the mesh has the worker of each stage"))
        }
        _ => match parts.iter().position(|part| !part.same_as(&parts[0])) {
            Some(rank) => {
                let message = format!(
                    "a result that every rank has whole differs on the ranks 0 and {rank} of axis {axis}"
                );
                Err(Stop::trap("ranks/copies", message))
            }
            None => Ok(parts.into_iter().next().expect("invariant: a mesh has a worker")),
        },
    }
}

/// Demands that parts have the extents of shards.
fn check_extents(mesh: &Mesh, parts: &[Tensor], cut: usize, axis: usize) -> Result<(), Stop> {
    let extents: Vec<i64> = parts
        .iter()
        .map(|part| part.shape().get(cut).map_or(-1, |&extent| number(extent)))
        .collect();
    let whole = Dim::Int(extents.iter().sum());
    for (rank, extent) in extents.iter().enumerate() {
        let workers = Dim::Int(number(mesh.extents[axis]));
        let wanted = shard_extent(&whole, &workers, &Dim::Int(number(rank)));
        if wanted != Dim::Int(*extent) {
            let message = format!(
                "the shard of rank {rank} of axis {axis} has {extent} of {whole} rows, not {wanted}"
            );
            return Err(Stop::trap("ranks/shard", message));
        }
    }
    Ok(())
}
