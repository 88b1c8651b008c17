//! Calls of operators as placements see them, and the same calls on a shard.

use crate::layout::{Axes, Layout, is_legal};
use relax_semantics::ops::{Infer, Kind, Known, Obligation, Operand, Operator, passed};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement, shard_extent};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Module, VarId};
use relax_theorems::placement::{Argument, Block, Call, Strategy, candidates, holds};

/// A call with the variables that are its operands; a constant is no variable.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) call: Call,
    /// The variable of each operand.
    pub(crate) vars: Vec<Option<VarId>>,
}

/// Dims and dtype of a tensor.
pub(crate) fn tensor(annotation: &Annotation) -> Option<(Vec<Dim>, DType)> {
    let tensor = annotation.as_tensor()?;
    Some((tensor.extents.dims()?.to_vec(), tensor.dtype?))
}

/// Those of a tensor, or of each field of a tuple of tensors.
fn tensors(annotation: &Annotation) -> Option<Vec<(Vec<Dim>, DType)>> {
    match annotation {
        Annotation::Tuple(fields) => fields.iter().map(tensor).collect(),
        single => tensor(single).map(|single| vec![single]),
    }
}

impl Site {
    /// A call of a row.
    ///
    /// # Errors
    /// What is not supported in it.
    pub(crate) fn of(
        row: &'static Operator,
        (args, attrs): (&[Atom], &[(Name, Atom)]),
        result: &Annotation,
        annotation: &dyn Fn(VarId) -> Option<Annotation>,
    ) -> Result<Self, String> {
        let bound = passed(row, args, attrs).map_err(|_| "its arguments do not fit".to_owned())?;
        let mut reader = Reader { annotation, operands: Vec::new(), vars: Vec::new() };
        let mut read = Vec::new();
        for (param, atom) in row.params.iter().zip(&bound) {
            read.push(match (atom, param.default) {
                (Some(atom), _) => reader.argument(atom)?,
                (None, Some(literal)) => Argument::Known(literal.known()),
                (None, None) => return Err("its arguments do not fit".to_owned()),
            });
        }
        if bound.len() > row.params.len() {
            return Err("it takes any number of arguments".to_owned());
        }
        let results = tensors(result)
            .filter(|each| !each.is_empty())
            .ok_or("the dims of its result are not known")?;
        let Reader { operands, vars, .. } = reader;
        Ok(Self { call: Call { row, args: read, operands, results }, vars })
    }
}

struct Reader<'a> {
    annotation: &'a dyn Fn(VarId) -> Option<Annotation>,
    operands: Vec<(Vec<Dim>, DType)>,
    vars: Vec<Option<VarId>>,
}

impl Reader<'_> {
    fn argument(&mut self, atom: &Atom) -> Result<Argument, String> {
        match atom {
            Atom::Tuple(items) | Atom::List(items) if items.iter().any(is_value) => {
                let numbers =
                    items.iter().map(|item| self.operand(item)).collect::<Result<_, _>>()?;
                Ok(Argument::Tensors(numbers))
            }
            value if is_value(value) => self.operand(value).map(Argument::Tensor),
            other => known(other)
                .map(Argument::Known)
                .ok_or_else(|| "an argument is not supported".to_owned()),
        }
    }

    fn operand(&mut self, atom: &Atom) -> Result<usize, String> {
        let (annotation, var) = match atom {
            Atom::Var(var) => {
                ((self.annotation)(*var).ok_or("an operand is not known")?, Some(*var))
            }
            Atom::Constant(constant) => {
                let dims = constant
                    .shape
                    .iter()
                    .map(|&dim| Dim::Int(i64::try_from(dim).unwrap_or(i64::MAX)));
                (Annotation::tensor(dims.collect(), constant.dtype), None)
            }
            Atom::External(external) => (external.annotation.clone(), None),
            _ => return Err("an operand is no tensor".to_owned()),
        };
        self.operands.push(tensor(&annotation).ok_or("the dims of an operand are not known")?);
        self.vars.push(var);
        Ok(self.operands.len() - 1)
    }
}

pub(crate) fn is_value(atom: &Atom) -> bool {
    matches!(atom, Atom::Var(_) | Atom::Constant(_) | Atom::External(_))
}

fn known(atom: &Atom) -> Option<Known> {
    Some(match atom {
        Atom::Dim(dim) => Known::Dim(dim.clone()),
        Atom::Float(value) => Known::Float(*value),
        Atom::Bool(value) => Known::Bool(*value),
        Atom::Str(text) => Known::Str(text.clone()),
        Atom::None => Known::None,
        Atom::Shape(dims) => Known::List(dims.iter().cloned().map(Known::Dim).collect()),
        Atom::Tuple(items) | Atom::List(items) => {
            Known::List(items.iter().map(known).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// A layout of each operand and of the results under which a call on shards is the shard of the call.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) operands: Vec<Layout>,
    pub(crate) result: Layout,
}

/// Every choice whose placements are proved for all dims.
pub(crate) fn choices(
    site: &Site,
    axes: &Axes,
    module: &Module,
    facts: &mut dyn Facts,
) -> Vec<Choice> {
    let none = Choice { operands: vec![Vec::new(); site.call.operands.len()], result: Vec::new() };
    let mut found = vec![(none, site.call.clone())];
    for axis in 0..axes.ranks.len() {
        let mut next = Vec::new();
        for (choice, call) in found {
            let mut strategies = vec![Strategy::replicated(call.operands.len())];
            strategies.extend(candidates(&call, facts));
            for strategy in strategies {
                let Some(local) = proved(&call, &strategy, axis, (axes, module), facts) else {
                    continue;
                };
                let mut choice = choice.clone();
                for (layout, placement) in choice.operands.iter_mut().zip(&strategy.operands) {
                    layout.push(*placement);
                }
                choice.result.push(strategy.result);
                if choice.operands.iter().chain([&choice.result]).all(|layout| is_legal(layout)) {
                    next.push((choice, local));
                }
            }
        }
        found = next;
    }
    found.into_iter().map(|(choice, _)| choice).collect()
}

/// The call on the shards of a strategy, where it is proved to give the shards of the results.
fn proved(
    call: &Call,
    strategy: &Strategy,
    axis: usize,
    (axes, module): (&Axes, &Module),
    facts: &mut dyn Facts,
) -> Option<Call> {
    let cut = strategy.operands.iter().chain([&strategy.result]);
    if !cut.into_iter().any(|placement| matches!(placement, Placement::Sharded(_))) {
        return Some(call.clone());
    }
    if let Placement::Partial(reduction) = strategy.result
        && reduction != relax_syntax::annotation::Reduction::Sum
        && !no_shard_is_empty(call, strategy, axes.workers(axis), facts)
    {
        return None;
    }
    let block = Block {
        begin: Dim::Var(format!("begin#{axis}").into()),
        extent: Dim::Var(format!("extent#{axis}").into()),
    };
    if !shards_are_blocks(call, strategy, axes.workers(axis), facts) {
        return None;
    }
    let least = i64::from(no_shard_is_empty(call, strategy, axes.workers(axis), facts));
    let local = on_block(call, strategy, (&block, least), module, facts)?;
    holds(call, &local, strategy, &block, facts).ok()?;
    Some(local)
}

/// The greatest of an empty shard is none of the terms, so no shard may be empty.
fn no_shard_is_empty(
    call: &Call,
    strategy: &Strategy,
    workers: i64,
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
    let last = shard_extent(&extent, workers, &Dim::Int(workers - 1));
    facts.decide(&Claim::new(1, Relation::AtMost, last)) == Answer::Proved
}

/// Whether the shards of cut axes are the same block: where one of a block is several elements of an axis, the shards of that axis
/// must have as many times the elements, as where the ranks divide the extent.
fn shards_are_blocks(
    call: &Call,
    strategy: &Strategy,
    workers: i64,
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
    let rows = |extent: &Dim| Dim::op(DimOp::CeilDiv, extent.clone(), Dim::Int(workers));
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
pub(crate) fn is_shape(kind: Kind) -> bool {
    matches!(kind, Kind::Shape | Kind::InferredShape | Kind::OptionalShape)
}

/// Whether an entry of a shape is this dim of the result.
fn names(entry: &Known, dim: &Dim, facts: &mut dyn Facts) -> bool {
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

/// The atoms of a shape with the local extents of the result.
pub(crate) fn localized(
    atom: &Atom,
    dims: &[Dim],
    layout: &[Placement],
    axes: &Axes,
    facts: &mut dyn Facts,
) -> Atom {
    let local = axes.local(dims, layout);
    let mut entry = |at: usize, own: &Dim| {
        let is_cut = layout.contains(&Placement::Sharded(at));
        if is_cut && names(&Known::Dim(own.clone()), &dims[at], facts) {
            local[at].clone()
        } else {
            own.clone()
        }
    };
    match atom {
        Atom::Shape(entries) if entries.len() == dims.len() => {
            Atom::Shape(entries.iter().enumerate().map(|(at, own)| entry(at, own)).collect())
        }
        Atom::Tuple(items) | Atom::List(items) if items.len() == dims.len() => {
            let item = |(at, item): (usize, &Atom)| match item {
                Atom::Dim(own) => Atom::Dim(entry(at, own)),
                other => other.clone(),
            };
            let items = items.iter().enumerate().map(item).collect();
            if matches!(atom, Atom::Tuple(_)) { Atom::Tuple(items) } else { Atom::List(items) }
        }
        other => other.clone(),
    }
}

/// The bounds of declared variables, and that no dim is negative.
pub(crate) fn assume_declared(function: &relax_syntax::ir::Function, facts: &mut dyn Facts) {
    for dim in &function.dims {
        let var = Dim::Var(dim.name.clone());
        facts.assume(Claim::new(dim.lower.unwrap_or(0).max(0), Relation::AtMost, var.clone()));
        if let Some(upper) = dim.upper {
            facts.assume(Claim::new(var.clone(), Relation::AtMost, upper));
        }
        if let Some(step) = dim.multiple_of {
            facts.assume(Claim::new(
                Dim::op(DimOp::FloorMod, var, Dim::Int(step)),
                Relation::Equal,
                0,
            ));
        }
    }
}
