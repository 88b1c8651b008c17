//! Placements of a call on one axis of a mesh, derived from its index functions.
//!
//! An axis of the results may be cut where every operand is read at exactly the index of this axis, or not at it at all. Where axes
//! are merged or split, as heads are, the index is a multiple of that of an operand, or the other way round ([`cuts`]).
//! A contracted axis may be cut where the results become partial reductions. Operators that are linear in partial
//! operands give partial results. What is found so is accepted after a proof: the call on a block of the operands has,
//! over the reals, the elements of the block of the results, for every block of every extent ([`holds`]).

pub mod blocks;
pub mod calls;
mod cuts;
mod extremes;

use crate::denotation::comparison::compare;
use crate::denotation::denoter::Denoter;
use crate::denotation::fuel;
use crate::denotation::linear::is_linear;
use crate::denotation::operands::Operands;
use crate::denotation::program::{Asked, rebuilt};
use crate::denotation::ranges::assume_index;
use crate::denotation::stepwise::{Op, Steps, Tensor};
use crate::denotation::term::{FoldOp, Known, Reals, Term, Test};
use crate::denotation::theorem::said;
use crate::rules::rule::{self, Arg, Axis, ElementType, Node, Operand, Param};
use crate::validation::prove::spelled;
use extremes::commutes;
use relax_semantics::ops::{Known as Spelled, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::{Placement, Reduction};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Steps that the placements of one call may take.
const FUEL: u64 = 60_000;

/// A call of an operator on tensors of known dims.
#[derive(Clone)]
pub struct Call {
    /// The operator's row.
    pub row: &'static Operator,
    /// One a parameter.
    pub args: Vec<Argument>,
    /// Dims and dtype of each tensor among the arguments.
    pub operands: Vec<(Vec<Dim>, DType)>,
    /// Dims and dtype of each result.
    pub results: Vec<(Vec<Dim>, DType)>,
}

/// An argument of a parameter.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor, by its number among the operands.
    Tensor(usize),
    /// A tuple of tensors.
    Tensors(Vec<usize>),
    /// What the text spells.
    Known(Spelled),
}

/// A placement of each operand on one mesh axis, and that of all results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// One an operand.
    pub operands: Vec<Placement>,
    /// Of each result.
    pub result: Placement,
    /// How many elements of the cut axis of each operand one of the block is.
    pub units: Vec<i64>,
    /// The same of the cut axis of the results.
    pub result_unit: i64,
}

/// Some consecutive elements of an axis.
#[derive(Clone, Debug)]
pub struct Block {
    /// The first element.
    pub begin: Dim,
    /// The number of elements.
    pub extent: Dim,
}

impl Strategy {
    /// Every rank has all operands whole and computes the whole result.
    #[must_use]
    pub fn replicated(operands: usize) -> Self {
        Self::exact(vec![Placement::Replicated; operands], Placement::Replicated)
    }

    /// All cut axes have the same extent.
    fn exact(operands: Vec<Placement>, result: Placement) -> Self {
        let units = vec![1; operands.len()];
        Self { operands, result, units, result_unit: 1 }
    }
}

impl Block {
    /// So many elements for each of the block.
    #[must_use]
    pub fn times(&self, unit: i64) -> Self {
        let times = |dim: &Dim| match unit {
            1 => dim.clone(),
            _ => Dim::op(DimOp::Mul, dim.clone(), Dim::Int(unit)),
        };
        Self { begin: times(&self.begin), extent: times(&self.extent) }
    }
}

fn name_of(operand: usize) -> Name {
    format!("x#{operand}").into()
}

/// The element of a result at an index.
fn element(
    call: &Call,
    part: usize,
    at: &[Dim],
    facts: &mut dyn Facts,
    fresh: &mut usize,
) -> Known<Term> {
    by_rule(call, part, at, facts, fresh).or_else(|_| by_steps(call, part, at, facts, fresh))
}

/// As rules see the operator, over the reals.
fn by_rule(
    call: &Call,
    part: usize,
    at: &[Dim],
    facts: &mut dyn Facts,
    fresh: &mut usize,
) -> Known<Term> {
    let param = |(number, (dims, dtype)): (usize, &(Vec<Dim>, DType))| {
        let axes = dims.iter().cloned().map(Axis::Dim).collect();
        let what = Operand::Tensor(axes, ElementType::Fixed(*dtype));
        Param { name: name_of(number), what }
    };
    let params: Vec<Param> = call.operands.iter().enumerate().map(param).collect();
    let arg = |(param, arg): (&relax_semantics::ops::Param, &Argument)| match arg {
        Argument::Tensor(number) => Ok(Arg::Node(Node::Param(*number))),
        Argument::Tensors(numbers) => {
            Ok(Arg::Nodes(numbers.iter().map(|number| Node::Param(*number)).collect()))
        }
        Argument::Known(known) => spelled(known, param.kind, &call.results[0].0),
    };
    let args = call.row.params.iter().zip(&call.args).map(arg).collect::<Known<_>>()?;
    let types = BTreeMap::new();
    let mut denoter = Denoter {
        params: &params,
        types: &types,
        reals: Reals::InsteadOfFloats,
        facts,
        fresh: *fresh,
        stops: Vec::new(),
    };
    let node = Node::Call(rule::Call { row: call.row, args });
    let term = if call.results.len() > 1 {
        denoter.element(&Node::Part(Box::new(node), part), at)
    } else {
        denoter.element(&node, at)
    };
    *fresh = denoter.fresh;
    term
}

/// As a tensor program computes it.
fn by_steps(
    call: &Call,
    part: usize,
    at: &[Dim],
    facts: &mut dyn Facts,
    fresh: &mut usize,
) -> Known<Term> {
    let (mut tensors, mut attrs) = (Vec::new(), BTreeMap::new());
    let tensor = |number: usize| {
        let (dims, dtype) = call.operands[number].clone();
        Tensor { name: name_of(number), dims, dtype, range: None }
    };
    for (param, arg) in call.row.params.iter().zip(&call.args) {
        match arg {
            Argument::Tensor(number) => tensors.push((param.name, tensor(*number))),
            Argument::Tensors(numbers) => {
                tensors.extend(numbers.iter().map(|number| (param.name, tensor(*number))));
            }
            Argument::Known(known) => drop(attrs.insert(param.name, known.clone())),
        }
    }
    let op = Op { row: call.row, tensors, attrs, results: call.results.clone() };
    Steps::of(&op, Asked::Elements, facts, fresh)?.element(part, at, facts, fresh)
}

/// A fresh index in each dim.
fn indices(dims: &[Dim], fresh: &mut usize) -> Vec<(Name, Dim)> {
    let each = dims.iter().map(|dim| {
        *fresh += 1;
        (Name::from(format!("o#{fresh}")), dim.clone())
    });
    each.collect()
}

fn variables(binders: &[(Name, Dim)]) -> Vec<Dim> {
    binders.iter().map(|(name, _)| Dim::Var(name.clone())).collect()
}

/// What a term reads, and every other dim in it.
#[derive(Default)]
struct Seen {
    reads: Vec<(Name, Vec<Dim>)>,
    others: Vec<Dim>,
    /// Reductions: operator, variable and extent.
    folds: Vec<(FoldOp, Name, Dim)>,
}

impl Seen {
    fn visit(&mut self, term: &Term) {
        match term {
            Term::Read(name, at) => self.reads.push((name.clone(), at.clone())),
            Term::Number(..) | Term::Scalar(_) => {}
            Term::Extent(dim) => self.others.push(dim.clone()),
            Term::Apply(_, _, args) => args.iter().for_each(|arg| self.visit(arg)),
            Term::If(test, then, otherwise) => {
                match test {
                    Test::Dims(claim) => {
                        self.others.extend([claim.left.clone(), claim.right.clone()])
                    }
                    Test::Element(term) => self.visit(term),
                }
                self.visit(then);
                self.visit(otherwise);
            }
            Term::Fold(_, op, binders, body) => {
                if let FoldOp::Row(_, at) = op {
                    self.others.extend(at.iter().cloned());
                }
                for (name, extent) in binders {
                    self.others.push(extent.clone());
                    self.folds.push((op.clone(), name.clone(), extent.clone()));
                }
                self.visit(body);
            }
            Term::Lookup(index, (name, extent), body) => {
                self.others.push(extent.clone());
                self.folds.push((
                    FoldOp::Row("lookup".into(), Vec::new()),
                    name.clone(),
                    extent.clone(),
                ));
                self.visit(index);
                self.visit(body);
            }
        }
    }
}

/// The strategies of a call that its index functions suggest, besides that of [`Strategy::replicated`].
pub fn candidates(call: &Call, facts: &mut dyn Facts) -> Vec<Strategy> {
    let (found, _) = fuel::limited(FUEL, || suggested(call, facts));
    found.unwrap_or_default()
}

fn suggested(call: &Call, facts: &mut dyn Facts) -> Known<Vec<Strategy>> {
    let mut fresh = 0;
    let (mut parts, mut strategies) = (Vec::new(), Vec::new());
    facts.push();
    for (part, (dims, _)) in call.results.iter().enumerate() {
        let own = indices(dims, &mut fresh);
        own.iter().for_each(|binder| assume_index(binder, facts));
        let term = element(call, part, &variables(&own), facts, &mut fresh);
        let Ok(term) = term else {
            facts.pop();
            return Ok(strategies);
        };
        let mut seen = Seen::default();
        seen.visit(&term);
        parts.push((own, seen, term));
    }
    let rank = call.results.iter().map(|(dims, _)| dims.len()).min().unwrap_or(0);
    for axis in 0..rank {
        let of_part = |(own, seen, _): &(Vec<(Name, Dim)>, Seen, Term)| {
            cuts::of(seen, call, (&own[axis].0, &own[axis].1), facts)
        };
        let each: Option<Vec<_>> = parts.iter().map(of_part).collect();
        if let Some(each) = each
            && let Some((first, rest)) = each.split_first()
            && rest.iter().all(|other| other == first)
        {
            let cuts::Cut { operands, units, unit } = first.clone();
            let result = Placement::Sharded(axis);
            strategies.push(Strategy { operands, result, units, result_unit: unit });
        }
    }
    if let [(_, seen, term)] = &parts[..] {
        strategies.extend(contractions(call, seen, term, facts));
        strategies.extend(carried(call, term));
    }
    facts.pop();
    Ok(strategies)
}

fn reduction_of(op: &FoldOp) -> Option<Reduction> {
    match op {
        FoldOp::Add => Some(Reduction::Sum),
        FoldOp::Max => Some(Reduction::Max),
        FoldOp::Min => Some(Reduction::Min),
        FoldOp::Multiply | FoldOp::Row(..) => None,
    }
}

/// Cuts of a contracted axis of a term that is a reduction.
fn contractions(call: &Call, seen: &Seen, term: &Term, facts: &mut dyn Facts) -> Vec<Strategy> {
    let Term::Fold(_, op, binders, _) = term else { return Vec::new() };
    let Some(reduction) = reduction_of(op) else { return Vec::new() };
    // Truth values have no reduction over ranks.
    if call.results.iter().any(|(_, dtype)| *dtype == DType::Bool) {
        return Vec::new();
    }
    let mut strategies = Vec::new();
    for (name, extent) in binders {
        if let Some(cut) = cuts::of(seen, call, (name, extent), facts)
            && cut.is_exact()
            && cut.operands.iter().any(|placement| matches!(placement, Placement::Sharded(_)))
        {
            strategies.push(Strategy::exact(cut.operands, Placement::Partial(reduction)));
        }
    }
    strategies
}

/// Partial operands that make the result partial.
fn carried(call: &Call, term: &Term) -> Vec<Strategy> {
    let count = call.operands.len();
    let mut sets: Vec<Vec<bool>> =
        (0..count).map(|one| (0..count).map(|other| other == one).collect()).collect();
    if count > 1 {
        sets.push(vec![true; count]);
    }
    let mut strategies = Vec::new();
    for reduction in Reduction::ALL {
        for set in &sets {
            let numbers = |numbers: &[bool]| {
                let own = numbers.iter().enumerate().filter(|(_, own)| **own);
                own.map(|(number, _)| name_of(number)).collect::<BTreeSet<_>>()
            };
            let is_bool = call.operands.iter().any(|(_, dtype)| *dtype == DType::Bool);
            let carries = match reduction {
                Reduction::Sum => is_linear(term, &numbers(set)),
                _ => commutes(term, &numbers(set), reduction),
            };
            if carries && !is_bool {
                let place = |own: &bool| {
                    if *own { Placement::Partial(reduction) } else { Placement::Replicated }
                };
                let operands = set.iter().map(place).collect();
                strategies.push(Strategy::exact(operands, Placement::Partial(reduction)));
            }
        }
    }
    strategies
}

/// Whether the call on a block of its operands gives the block of its results, or its term of them, for every block.
///
/// # Errors
/// Why that is not known.
pub fn holds(
    call: &Call,
    local: &Call,
    strategy: &Strategy,
    block: &Block,
    facts: &mut dyn Facts,
) -> Result<(), String> {
    facts.push();
    let (found, _) = fuel::limited(FUEL, || {
        Ok((0..call.results.len())
            .try_for_each(|part| part_holds((call, local), strategy, block, part, facts)))
    });
    facts.pop();
    found.map_err(said).and_then(|found| found)
}

fn shifted(begin: &Dim, index: &Dim) -> Dim {
    Dim::op(DimOp::Add, begin.clone(), index.clone())
}

fn part_holds(
    (call, local): (&Call, &Call),
    strategy: &Strategy,
    block: &Block,
    part: usize,
    facts: &mut dyn Facts,
) -> Result<(), String> {
    let mut fresh = 0;
    for dim in [&block.begin, &block.extent] {
        facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
    }
    let own = indices(&local.results[part].0, &mut fresh);
    own.iter().for_each(|binder| assume_index(binder, facts));
    let at = variables(&own);
    let mut whole = at.clone();
    if let Placement::Sharded(axis) = strategy.result {
        let block = block.times(strategy.result_unit);
        let end = shifted(&block.begin, &block.extent);
        facts.assume(Claim::new(end, Relation::AtMost, call.results[part].0[axis].clone()));
        whole[axis] = shifted(&block.begin, &at[axis]);
    }
    let global = element(call, part, &whole, facts, &mut fresh).map_err(said)?;
    let expected = match strategy.result {
        Placement::Partial(_) => {
            term_of_block(&global, strategy, block).ok_or("no reduction over a cut axis")?
        }
        _ => global,
    };
    let found = element(local, part, &at, facts, &mut fresh).map_err(said)?;
    let found = rebuilt(&found, &mut |term| {
        let Term::Read(name, at) = term else { return Ok(None) };
        let placed =
            strategy.operands.iter().enumerate().find(|(number, _)| name_of(*number) == *name);
        Ok(placed.and_then(|(number, placement)| match placement {
            Placement::Sharded(axis) => {
                let (mut at, block) = (at.clone(), block.times(strategy.units[number]));
                at[*axis] = shifted(&block.begin, &at[*axis]);
                Some(Term::Read(name.clone(), at))
            }
            _ => None,
        }))
    });
    let found = found.map_err(said)?;
    compare(&expected, &found, facts, &Operands::default())
}

/// The reduction over a block only of the index at which cut operands are read.
fn term_of_block(term: &Term, strategy: &Strategy, block: &Block) -> Option<Term> {
    let Term::Fold(domain, op, binders, body) = term else { return None };
    let mut seen = Seen::default();
    seen.visit(body);
    let cut = |name: &Name| {
        seen.reads.iter().any(|(operand, at)| {
            strategy.operands.iter().enumerate().any(|(number, placement)| {
                matches!(placement, Placement::Sharded(axis)
                    if name_of(number) == *operand && at[*axis] == Dim::Var(name.clone()))
            })
        })
    };
    let mut own = binders.iter().filter(|(name, _)| cut(name));
    let (Some((index, _)), None) = (own.next(), own.next()) else { return None };
    let map = BTreeMap::from([(index.clone(), shifted(&block.begin, &Dim::Var(index.clone())))]);
    let of_block = |(name, extent): &(Name, Dim)| {
        (name.clone(), if name == index { block.extent.clone() } else { extent.clone() })
    };
    let binders = binders.iter().map(of_block).collect();
    Some(Term::Fold(*domain, op.clone(), binders, Box::new(body.substitute(&map))))
}
