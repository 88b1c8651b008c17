//! Calls on shards: what a rank calls in the place of a call, where that is proved to give the shards of its results.

use super::calls::tensors;
use super::{Argument, Block, Call, Strategy, holds};
use relax_semantics::ops::{Infer, Kind, Known, Obligation, Operand};
use relax_syntax::annotation::{Annotation, Placement, Reduction, shard_extent};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::Module;

/// The call on the shards of a strategy along an axis of a mesh with so many workers, where it is proved to give the shards of the results.
/// The strategy is one of [`super::candidates`], or replicated.
pub fn on_shards(
    call: &Call,
    strategy: &Strategy,
    (axis, workers): (usize, &Dim),
    module: &Module,
    facts: &mut dyn Facts,
) -> Option<Call> {
    let cut = strategy.operands.iter().chain([&strategy.result]);
    if !cut.into_iter().any(|placement| matches!(placement, Placement::Sharded(_))) {
        return Some(call.clone());
    }
    let has_rows = no_shard_is_empty(call, strategy, workers, facts);
    if let Placement::Partial(reduction) = strategy.result
        && reduction != Reduction::Sum
        && !has_rows
    {
        return None;
    }
    let block = Block {
        begin: Dim::Var(format!("begin#{axis}").into()),
        extent: Dim::Var(format!("extent#{axis}").into()),
    };
    if !shards_are_blocks(call, strategy, workers, facts) {
        return None;
    }
    let local = on_block(call, strategy, (&block, i64::from(has_rows)), module, facts)?;
    holds(call, &local, strategy, &block, facts).ok()?;
    Some(local)
}

/// The greatest of an empty shard is none of the terms, so no shard may be empty.
fn no_shard_is_empty(
    call: &Call,
    strategy: &Strategy,
    workers: &Dim,
    facts: &mut dyn Facts,
) -> bool {
    let mut extents =
        strategy.operands.iter().zip(&call.operands).filter_map(|(placement, (dims, _))| {
            match placement {
                Placement::Sharded(axis) => Some(dims[*axis].clone()),
                _ => None,
            }
        });
    let Some(extent) = extents.next() else { return false };
    let last = Dim::op(DimOp::Sub, workers.clone(), Dim::Int(1));
    let last = shard_extent(&extent, workers, &last);
    facts.decide(&Claim::new(1, Relation::AtMost, last)) == Answer::Proved
}

/// Whether the shards of cut axes are the same block: where one of a block is several elements of an axis, the shards of that axis
/// must have as many times the elements, as where the ranks divide the extent.
fn shards_are_blocks(
    call: &Call,
    strategy: &Strategy,
    workers: &Dim,
    facts: &mut dyn Facts,
) -> bool {
    let operands = call.operands.iter().zip(&strategy.operands).zip(&strategy.units);
    let mut cut: Vec<(Dim, i64)> = operands
        .filter_map(|(((dims, _), placement), unit)| match placement {
            Placement::Sharded(axis) => Some((dims[*axis].clone(), *unit)),
            _ => None,
        })
        .collect();
    if let Placement::Sharded(axis) = strategy.result {
        cut.push((call.results[0].0[axis].clone(), strategy.result_unit));
    }
    if cut.iter().all(|(_, unit)| *unit == 1) {
        return true;
    }
    let Some((whole, _)) = cut.iter().find(|(_, unit)| *unit == 1).cloned() else { return false };
    let rows = |extent: &Dim| Dim::op(DimOp::CeilDiv, extent.clone(), workers.clone());
    cut.iter().all(|(extent, unit)| {
        let times = Dim::op(DimOp::Mul, rows(&whole), Dim::Int(*unit));
        facts.equal(&rows(extent), &times) == Answer::Proved
    })
}

/// The call on a block, of at least so many elements, of each axis that a strategy cuts.
fn on_block(
    call: &Call,
    strategy: &Strategy,
    (block, least): (&Block, i64),
    module: &Module,
    facts: &mut dyn Facts,
) -> Option<Call> {
    let mut local = call.clone();
    let operands = local.operands.iter_mut().zip(&strategy.operands).zip(&strategy.units);
    for (((dims, _), placement), unit) in operands {
        if let Placement::Sharded(axis) = placement {
            dims[*axis] = block.times(*unit).extent;
        }
    }
    let extent = &block.times(strategy.result_unit).extent;
    let result = match strategy.result {
        Placement::Sharded(axis) => Some(axis),
        _ => None,
    };
    for (param, arg) in call.row.params.iter().zip(&mut local.args) {
        if let (Argument::Known(Known::List(items)), Some(axis)) = (arg, result)
            && is_shape(param.kind)
        {
            let own = &call.results[0].0;
            if items.len() == own.len() && names(&items[axis], &own[axis], facts) {
                items[axis] = Known::Dim(extent.clone());
            }
        }
    }
    facts.push();
    facts.assume(Claim::new(least, Relation::AtMost, block.extent.clone()));
    let operands = call.operands.iter().zip(&strategy.operands).zip(&strategy.units);
    for (((dims, _), placement), unit) in operands {
        if let Placement::Sharded(axis) = placement {
            let own = block.times(*unit).extent;
            facts.assume(Claim::new(own, Relation::AtMost, dims[*axis].clone()));
        }
    }
    let results = is_accepted(&local, call, module, facts).filter(|results| {
        let mut fits = |(dims, _): &(Vec<Dim>, DType), axis: usize| {
            dims.get(axis).is_some_and(|dim| facts.equal(dim, extent) == Answer::Proved)
        };
        result.is_none_or(|axis| results.iter().all(|own| fits(own, axis)))
    });
    facts.pop();
    local.results = results?;
    Some(local)
}

/// The results of a call on a block, where its constraints hold for every block if those of the whole call hold.
fn is_accepted(
    local: &Call,
    call: &Call,
    module: &Module,
    facts: &mut dyn Facts,
) -> Option<Vec<(Vec<Dim>, DType)>> {
    let (results, obligations) = deduced(local, module, facts)?;
    if !obligations.is_empty() {
        let (_, whole) = deduced(call, module, facts)?;
        whole.into_iter().for_each(|obligation| facts.assume(obligation.claim));
    }
    let mut holds = |own: &Obligation| facts.decide(&own.claim) == Answer::Proved;
    obligations.iter().all(&mut holds).then_some(results)
}

/// Whether a parameter is the shape of the result.
pub fn is_shape(kind: Kind) -> bool {
    matches!(kind, Kind::Shape | Kind::InferredShape | Kind::OptionalShape)
}

/// Whether an entry of a shape is this dim of the result.
pub fn names(entry: &Known, dim: &Dim, facts: &mut dyn Facts) -> bool {
    matches!(entry, Known::Dim(own) if *own != Dim::Int(-1) && facts.equal(own, dim) == Answer::Proved)
}

type Deduced = (Vec<(Vec<Dim>, DType)>, Vec<Obligation>);

/// Dims and dtypes of the results, as deduction finds them, and the constraints that it leaves to a run.
fn deduced(call: &Call, module: &Module, facts: &mut dyn Facts) -> Option<Deduced> {
    let annotation = |number: &usize| {
        let (dims, dtype) = call.operands[*number].clone();
        Annotation::tensor(dims, dtype)
    };
    let operand = |arg: &Argument| match arg {
        Argument::Tensor(number) => Operand { annotation: annotation(number), known: None },
        Argument::Tensors(numbers) => Operand {
            annotation: Annotation::Tuple(numbers.iter().map(annotation).collect()),
            known: None,
        },
        Argument::Known(known) => Operand::of_known(known.clone()),
    };
    let operands: Vec<Operand> = call.args.iter().map(operand).collect();
    // What is left to a run is assumed by deduction, but is not known here.
    facts.push();
    let mut infer = Infer {
        row: call.row,
        operands: &operands,
        facts: &mut *facts,
        obligations: Vec::new(),
        module: Some(module),
    };
    let result = (call.row.infer)(&mut infer);
    let obligations = infer.obligations;
    facts.pop();
    Some((tensors(&result.ok()?)?, obligations))
}
