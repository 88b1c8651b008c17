//! Two entries are equal when their elements are, as terms over the elements of what both are made of.

use super::constants::all_integers;
use super::evaluate::Side;
use super::stops::Stop;
use super::values::{Applied, Argument, Call, Def, Id, Table, Value};
use crate::denotation::computed::{self, Op, Tensor};
use crate::denotation::denoter::{Denoter, Stops};
use crate::denotation::program::{self, Called, Written};
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Known, Reals, Term, Test, unknown};
use crate::denotation::theorem::{alike_stops, compare, said};
use crate::rules::rule::{self, Arg, Axis, ElementType, Entry, Node, Operand, Param};
use relax_semantics::ops::{self, Defined, Kind, Known as Spelled};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// What turns entries into terms.
pub(super) struct Elements<'a> {
    pub(super) table: &'a Table,
    pub(super) facts: &'a mut dyn Facts,
    pub(super) fresh: &'a mut usize,
    /// Entries that are not taken apart.
    shared: BTreeSet<Id>,
    /// Programs that were run.
    ran: BTreeMap<Id, Written>,
    /// How many more entries may be taken apart.
    left: usize,
}

/// Entries that one element may be made of.
const MOST: usize = 400;
/// Entries that only one of two is made of.
const MOST_APART: usize = 60;
/// Entries of both that are few enough to take all of them apart.
const MOST_TOGETHER: usize = 16;

impl<'a> Elements<'a> {
    pub(super) fn new(table: &'a Table, facts: &'a mut dyn Facts, fresh: &'a mut usize) -> Self {
        Self { table, facts, fresh, shared: BTreeSet::new(), ran: BTreeMap::new(), left: MOST }
    }

    /// An element of an entry, over elements of those that are not taken apart.
    fn element(&mut self, id: Id, at: &[Dim], is_root: bool) -> Known<Term> {
        let id = self.table.find(id);
        if self.shared.contains(&id) && !is_root {
            return Ok(Term::Read(self.table.name(id), at.to_vec()));
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return unknown("an element is made of too much");
        }
        let term = match self.table.get(id).def.clone() {
            Def::Opaque | Def::Constant(_) => {
                return Ok(Term::Read(self.table.name(id), at.to_vec()));
            }
            Def::Unwritten => return unknown("an element that nothing wrote"),
            Def::Operator(applied, part) => self.of_operator(&applied, part, at)?,
            Def::Program(call, buffer) => {
                if !self.ran.contains_key(&id) {
                    let written = self.run(&call)?;
                    self.ran.insert(id, written);
                }
                program::element(&self.ran[&id], buffer, at, &mut *self.facts, &mut *self.fresh)?
            }
            Def::Choice(condition, a, b) => {
                let condition = self.element(condition, &[], false)?;
                let (a, b) = (self.element(a, at, false)?, self.element(b, at, false)?);
                return Ok(Term::If(Test::Element(Box::new(condition)), Box::new(a), Box::new(b)));
            }
        };
        program::rebuilt(&term, &mut |term| match term {
            Term::Read(name, at) => match self.table.named(name) {
                Some(id) => self.element(id, at, false).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        })
    }

    fn run(&mut self, call: &Call) -> Known<Written> {
        let held = |id: &Option<Id>| match id {
            Some(id) if !matches!(self.table.get(*id).def, Def::Unwritten) => {
                Some(self.table.name(*id))
            }
            _ => None,
        };
        let called = Called {
            program: &call.program,
            buffers: call.buffers.iter().map(held).collect(),
            shapes: call.shapes.clone(),
            scalars: call.scalars.clone(),
        };
        program::run(&called, &mut *self.facts, &mut *self.fresh)
    }

    fn tensor(&self, id: Id) -> Known<Tensor> {
        match self.table.tensor(id) {
            Some((dims, dtype)) => {
                Ok(Tensor { name: self.table.name(id), dims: dims.to_vec(), dtype })
            }
            None => unknown("a tensor of unknown dims"),
        }
    }

    fn of_operator(&mut self, applied: &Applied, part: usize, at: &[Dim]) -> Known<Term> {
        let (mut tensors, mut attrs) = (Vec::new(), BTreeMap::new());
        for (param, arg) in applied.row.params.iter().zip(&applied.args) {
            match arg {
                Argument::Tensor(id) => tensors.push((param.name, self.tensor(*id)?)),
                Argument::Tensors(ids) => {
                    for id in ids {
                        tensors.push((param.name, self.tensor(*id)?));
                    }
                }
                Argument::Known(known) => {
                    attrs.insert(param.name, known.clone());
                }
            }
        }
        let mut op = Op {
            row: applied.row,
            tensors,
            attrs,
            results: applied.results.clone(),
            facts: &mut *self.facts,
            fresh: &mut *self.fresh,
        };
        if let Some(term) = computed::element(&mut op, part, at) {
            return term;
        }
        self.with_denoter(applied, |denoter, node| {
            if applied.results.len() > 1 {
                denoter.element(&Node::Part(Box::new(node.clone()), part), at)
            } else {
                denoter.element(node, at)
            }
        })
    }

    /// The call as a rule would state it.
    fn with_denoter<T>(
        &mut self,
        applied: &Applied,
        run: impl FnOnce(&mut Denoter, &Node) -> Known<T>,
    ) -> Known<T> {
        let (mut params, mut args) = (Vec::new(), Vec::new());
        for (param, arg) in applied.row.params.iter().zip(&applied.args) {
            let mut node = |id: Id| {
                let tensor = self.tensor(id)?;
                let axes = tensor.dims.into_iter().map(Axis::Dim).collect();
                let kind = ElementType::Fixed(tensor.dtype);
                params.push(Param { name: tensor.name, what: Operand::Tensor(axes, kind) });
                Ok(Node::Param(params.len() - 1))
            };
            args.push(match arg {
                Argument::Tensor(id) => Arg::Node(node(*id)?),
                Argument::Tensors(ids) => {
                    Arg::Nodes(ids.iter().map(|id| node(*id)).collect::<Known<_>>()?)
                }
                Argument::Known(known) => spelled(known, param.kind, &applied.results[0].0)?,
            });
        }
        let types = BTreeMap::new();
        let mut denoter = Denoter {
            params: &params,
            types: &types,
            reals: Reals::Nowhere,
            facts: &mut *self.facts,
            fresh: *self.fresh,
            stops: Vec::new(),
        };
        let node = Node::Call(rule::Call { row: applied.row, args });
        let result = run(&mut denoter, &node);
        *self.fresh = denoter.fresh;
        result
    }

    /// Where an entry may stop the program.
    fn stops(&mut self, stop: &Stop) -> Known<Vec<Stops>> {
        let mut found = self.all_stops(stop)?;
        found.retain(|stop| !self.never(stop));
        Ok(found)
    }

    /// Whether the elements that a stop is about are spelled, and none of them stops the program.
    fn never(&self, stop: &Stops) -> bool {
        let Some(Term::Read(name, _)) = stop.terms.first() else { return false };
        let Some(id) = self.table.named(name) else { return false };
        let Def::Constant(constant) = &self.table.get(id).def else { return false };
        let below = match stop.terms.get(1) {
            Some(Term::Extent(Dim::Int(extent))) => i128::from(*extent),
            _ => 0,
        };
        let dtype = self.table.tensor(id).map_or(DType::I8, |(_, dtype)| dtype);
        let defined = match stop.what.as_str() {
            "tir/division_by_zero" => Some(Defined::Nonzero),
            "tir/shift" => Some(Defined::BelowWidth),
            what => defined_of(what),
        };
        all_integers(constant, |value| match (defined, stop.what.as_str()) {
            (Some(defined), _) => defined.covers(dtype, value, value),
            (None, "index/range" | "tir/out_of_bounds") => (0..below).contains(&value),
            (None, _) => false,
        })
    }

    fn all_stops(&mut self, stop: &Stop) -> Known<Vec<Stops>> {
        match stop {
            Stop::Program(_, call) => Ok(self.run(call)?.stops),
            Stop::Operator(_, applied) => self.with_denoter(applied, |denoter, node| {
                denoter.note_stops(node)?;
                Ok(std::mem::take(&mut denoter.stops))
            }),
            Stop::Claim(claim) => unknown(format!("only one side checks {claim}")),
            Stop::Opaque(what) => unknown(format!("only one side may stop: {what}")),
        }
    }

    fn bools(&self) -> BTreeSet<Name> {
        let ids = 0..self.table.entries.len();
        ids.filter(|&id| matches!(self.table.tensor(id), Some((_, DType::Bool))))
            .map(|id| self.table.name(id))
            .collect()
    }

    /// Whether two entries have equal elements.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn equal(&mut self, a: Id, b: Id) -> Result<(), String> {
        let (a, b) = (self.table.find(a), self.table.find(b));
        if a == b {
            return Ok(());
        }
        let (Some((x, m)), Some((y, n))) = (self.table.tensor(a), self.table.tensor(b)) else {
            return Err("values of which the dims are not known".into());
        };
        let (x, y) = (x.to_vec(), y.to_vec());
        let alike = m == n && x.len() == y.len();
        if !alike || !x.iter().zip(&y).all(|(x, y)| self.facts.equal(x, y) == Answer::Proved) {
            return Err("the shapes or dtypes are not known to be equal".into());
        }
        let (of_a, of_b) = (self.table.reached(a), self.table.reached(b));
        let common = &of_a & &of_b;
        let apart = of_a.len() + of_b.len() - 2 * common.len();
        if apart > MOST_APART {
            return Err("too much differs between two bindings that are equal".into());
        }
        let first = self.equal_over(common, a, b, &x);
        if first.is_ok() || of_a.len() + of_b.len() > MOST_TOGETHER {
            return first;
        }
        // What both are made of may hide that they are equal.
        let second = self.equal_over(BTreeSet::new(), a, b, &x);
        if second.is_ok() { second } else { first }
    }

    fn equal_over(
        &mut self,
        shared: BTreeSet<Id>,
        a: Id,
        b: Id,
        dims: &[Dim],
    ) -> Result<(), String> {
        self.shared = shared;
        self.left = MOST;
        let mut at = Vec::new();
        self.facts.push();
        for dim in dims {
            *self.fresh += 1;
            let binder: (Name, Dim) = (format!("o#{}", self.fresh).into(), dim.clone());
            assume_index(&binder, &mut *self.facts);
            at.push(Dim::Var(binder.0));
        }
        let terms = self.element(a, &at, true).and_then(|a| Ok((a, self.element(b, &at, true)?)));
        let bools = self.bools();
        let outcome = match terms {
            Ok((a, b)) => compare(&a, &b, &mut *self.facts, &bools, &mut Vec::new()),
            Err(stuck) => Err(said(stuck)),
        };
        self.facts.pop();
        outcome
    }
}

/// The integers of which the operator with this constraint, such as `divide/C3`, has a result.
fn defined_of(constraint: &str) -> Option<Defined> {
    let row = ops::lookup(constraint.strip_suffix("/C3")?)?;
    row.elementwise()?.partial.map(|partial| partial.defined)
}

/// An argument that the text spells, as a rule states it.
pub(crate) fn spelled(known: &Spelled, kind: Kind, result: &[Dim]) -> Known<Arg> {
    let entry = |known: &Spelled| match known {
        Spelled::Dim(dim) => Ok(Entry::One(dim.clone())),
        _ => unknown("a list of something else"),
    };
    Ok(match (known, kind) {
        (_, Kind::InferredShape) => Arg::List(result.iter().cloned().map(Entry::One).collect()),
        (Spelled::None, _) => Arg::None,
        (Spelled::Str(text), Kind::DType | Kind::OptionalDType) => match DType::parse(text) {
            Some(dtype) => Arg::Type(ElementType::Fixed(dtype)),
            None => return unknown("no dtype"),
        },
        (Spelled::Str(text), _) => Arg::Str(text.clone()),
        (Spelled::Dim(Dim::Int(value)), Kind::Float | Kind::OptionalFloat) => {
            Arg::Float(*value as f64)
        }
        (Spelled::Dim(dim), Kind::Dims | Kind::OptionalDims) => {
            Arg::List(vec![Entry::One(dim.clone())])
        }
        (Spelled::Dim(dim), _) => Arg::Integer(dim.clone()),
        (Spelled::Float(value), _) => Arg::Float(*value),
        (Spelled::Bool(value), _) => Arg::Bool(*value),
        (Spelled::List(items), _) => Arg::List(items.iter().map(entry).collect::<Known<_>>()?),
        _ => return unknown("an argument of another kind"),
    })
}

impl Side<'_> {
    /// Two bindings of the same name: if they are equal, what is made of them is compared no deeper.
    pub(super) fn meet(&mut self, known: &Value, value: &Value) {
        let (known, value) = (known.clone(), self.settled(value.clone()));
        match (&known, &value) {
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b).for_each(|(a, b)| self.meet(a, b));
            }
            (Value::Entry(a), Value::Entry(b)) => {
                let mut fresh = self.fresh + 100_000;
                let equal = Elements::new(self.table, &mut *self.facts, &mut fresh).equal(*a, *b);
                if equal.is_ok() {
                    self.table.merge(*a, *b);
                }
            }
            _ => {}
        }
    }
}

/// Whether a claim holds wherever the other side checks all of its own. If that is so both ways, either both sides stop or none.
fn follows(claim: &Claim, others: &[Stop], plain: &mut dyn Facts) -> bool {
    plain.push();
    for stop in others {
        if let Stop::Claim(other) = stop {
            plain.assume(other.clone());
        }
    }
    let answer = plain.decide(claim);
    plain.pop();
    answer == Answer::Proved
}

/// Both sides stop the program alike.
pub(super) fn same_stops(
    elements: &mut Elements,
    plain: &mut dyn Facts,
    before: &[Stop],
    after: &[Stop],
) -> Result<(), String> {
    let only = |these: &[Stop], those: &[Stop]| -> Vec<Stop> {
        these.iter().filter(|stop| !those.contains(stop)).cloned().collect()
    };
    // What both sides check holds afterwards on both.
    for stop in before.iter().filter(|stop| after.contains(stop)) {
        if let Stop::Claim(claim) = stop {
            plain.assume(claim.clone());
        }
    }
    let mut lists = Vec::new();
    for (stops, others) in [(only(before, after), after), (only(after, before), before)] {
        let mut list = Vec::new();
        for stop in stops {
            if let Stop::Claim(claim) = &stop
                && follows(claim, others, plain)
            {
                continue;
            }
            list.extend(elements.stops(&stop).map_err(said)?);
        }
        lists.push(list);
    }
    let bools = elements.bools();
    alike_stops(&lists[0], &lists[1], &mut *elements.facts, &bools)
}
