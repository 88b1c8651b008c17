//! Two entries are equal when their elements are, as terms over the elements of what both are made of.

use super::constants::{self, all_integers};
use super::dims_of_terms::as_dim;
use super::evaluate::Side;
use super::stops::Stop;
use super::values::{Applied, Argument, Call, Def, Id, Table, Value};
use crate::denotation::comparison::compare;
use crate::denotation::denoter::{Denoter, Stops};
use crate::denotation::operands::Operands;
use crate::denotation::program::{self, Asked, Called, Written};
use crate::denotation::ranges::assume_index;
use crate::denotation::stepwise::{Op, Steps, Tensor, formula, is_told};
use crate::denotation::term::{Domain, Known, Reals, Term, Test, unknown};
use crate::denotation::theorem::said;
use crate::rules::rule::{self, Arg, Axis, ElementType, Entry, Node, Operand, Param};
use relax_semantics::ops::{self, Defined, Kind, Known as Spelled};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
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
    /// Those of operators.
    steps: BTreeMap<Id, Known<Steps>>,
    /// Whether steps come before what rules see.
    prefers_steps: bool,
    /// How many more entries may be taken apart.
    left: usize,
}

/// Entries that one element may be made of.
const MOST: usize = 400;
/// Entries that only one of two is made of.
const MOST_APART: usize = 60;
/// Movements that a constant is followed through.
const MOST_MOVES: usize = 16;
/// Entries of both that are few enough to take all of them apart.
const MOST_TOGETHER: usize = 16;

impl<'a> Elements<'a> {
    pub(super) fn new(table: &'a Table, facts: &'a mut dyn Facts, fresh: &'a mut usize) -> Self {
        let (shared, ran, steps) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Self { table, facts, fresh, shared, ran, steps, prefers_steps: false, left: MOST }
    }

    /// An element of an entry, over elements of those that are not taken apart.
    pub(super) fn element(&mut self, id: Id, at: &[Dim], is_root: bool) -> Known<Term> {
        let id = self.table.find(id);
        if let Def::Constant(constant) = &self.table.get(id).def
            && let Some(number) = constants::element(constant, at)
        {
            return Ok(number);
        }
        if self.shared.contains(&id) && !is_root {
            return Ok(Term::Read(self.table.name(id), at.to_vec()));
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return unknown("an element is made of too much");
        }
        let term = match self.table.get(id).def.clone() {
            Def::Opaque | Def::Unseen | Def::Constant(_) => {
                return Ok(Term::Read(self.table.name(id), at.to_vec()));
            }
            Def::Unwritten => return unknown("an element that nothing wrote"),
            Def::Operator(applied, part) => self.of_operator(id, &applied, part, at)?,
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
        self.expanded(&term)
    }

    /// The element of a tensor without axes.
    pub(super) fn scalar(&mut self, id: Id) -> Known<Term> {
        match self.table.tensor(id) {
            Some(([], _)) => self.element(id, &[], true),
            _ => unknown("no scalar"),
        }
    }

    /// The term with what entries are in the place of their elements.
    fn expanded(&mut self, term: &Term) -> Known<Term> {
        program::rebuilt(term, &mut |term| match term {
            Term::Read(name, at) => match self.table.named(name) {
                Some(id) => self.element(id, at, false).map(Some),
                None => Ok(None),
            },
            Term::Apply(domain, name, args) => {
                let others =
                    args.iter().map(|arg| self.expanded(arg)).collect::<Known<Vec<_>>>()?;
                if let Some(claim) = compared_dims(name, &others) {
                    let truth = |value| Term::Number(Domain::Bits, value);
                    return Ok(Some(Term::choose(claim, truth(1.0), truth(0.0))));
                }
                let name = program::replaced(name, args, &others, || self.dtype_of(args))?;
                Ok(Some(Term::Apply(*domain, name, others)))
            }
            _ => Ok(None),
        })
    }

    /// The dtype of the first element that is read in some of these terms.
    fn dtype_of(&self, terms: &[Term]) -> Option<DType> {
        terms.iter().find_map(|term| match term {
            Term::Read(name, _) => Some(self.table.tensor(self.table.named(name)?)?.1),
            Term::Apply(_, _, args) => self.dtype_of(args),
            Term::If(_, then, otherwise) => self
                .dtype_of(std::slice::from_ref(then))
                .or_else(|| self.dtype_of(std::slice::from_ref(otherwise))),
            Term::Fold(_, _, _, body) | Term::Lookup(_, _, body) => {
                self.dtype_of(std::slice::from_ref(body))
            }
            Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => None,
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
            asked: Asked::Stops,
        };
        program::run(&called, &mut *self.facts, &mut *self.fresh)
    }

    fn tensor(&self, id: Id) -> Known<Tensor> {
        match self.table.tensor(id) {
            Some((dims, dtype)) => {
                let (name, dims) = (self.table.name(id), dims.to_vec());
                Ok(Tensor { name, dims, dtype, range: self.range(id) })
            }
            None => unknown("a tensor of unknown dims"),
        }
    }

    /// The least and greatest of the integers that a constant spells, or a movement of one.
    fn range(&self, id: Id) -> Option<(i128, i128)> {
        // Entries that were proved equal may be made of each other.
        let mut id = id;
        for _ in 0..MOST_MOVES {
            match &self.table.get(self.table.find(id)).def {
                Def::Constant(constant) => return constant.integer_range(),
                Def::Operator(applied, _) if applied.row.moves_elements() => {
                    let Argument::Tensor(moved) = applied.args[0] else { return None };
                    id = moved;
                }
                _ => return None,
            }
        }
        None
    }

    /// As rules see it, where they say what is computed, for that asks less of dims; else as its steps compute it.
    fn of_operator(&mut self, id: Id, applied: &Applied, part: usize, at: &[Dim]) -> Known<Term> {
        if applied.row.elementwise().is_some() {
            let op = self.operation(applied)?;
            let term = formula(&op, at, &mut *self.facts, &mut *self.fresh);
            return term.unwrap_or_else(|| self.by_steps(id, applied, part, at));
        }
        if self.prefers_steps {
            let steps = self.by_steps(id, applied, part, at);
            return steps.or_else(|_| self.by_rule(applied, part, at));
        }
        let seen = self.by_rule(applied, part, at);
        if seen.as_ref().is_ok_and(is_told) {
            return seen;
        }
        self.by_steps(id, applied, part, at).or(seen)
    }

    fn by_steps(&mut self, id: Id, applied: &Applied, part: usize, at: &[Dim]) -> Known<Term> {
        if !self.steps.contains_key(&id) {
            let steps = self.stepwise(applied, Asked::Elements);
            self.steps.insert(id, steps);
        }
        match &self.steps[&id] {
            Ok(steps) => steps.element(part, at, &mut *self.facts, &mut *self.fresh),
            Err(stuck) => Err(stuck.clone()),
        }
    }

    fn by_rule(&mut self, applied: &Applied, part: usize, at: &[Dim]) -> Known<Term> {
        self.with_denoter(applied, |denoter, node| {
            if applied.results.len() > 1 {
                denoter.element(&Node::Part(Box::new(node.clone()), part), at)
            } else {
                denoter.element(node, at)
            }
        })
    }

    fn stepwise(&mut self, applied: &Applied, asked: Asked) -> Known<Steps> {
        let op = self.operation(applied)?;
        Steps::of(&op, asked, &mut *self.facts, &mut *self.fresh)
    }

    fn operation(&self, applied: &Applied) -> Known<Op> {
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
        Ok(Op { row: applied.row, tensors, attrs, results: applied.results.clone() })
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
    pub(super) fn stops(&mut self, stop: &Stop) -> Known<Vec<Stops>> {
        let mut found = self.all_stops(stop)?;
        found.retain(|stop| !self.never(stop));
        Ok(found)
    }

    /// Whether the elements that a stop is about are spelled, and none of them stops the program.
    fn never(&self, stop: &Stops) -> bool {
        let mut read = BTreeSet::new();
        let asked = stop.terms.first().map(|term| {
            program::rebuilt(term, &mut |term| {
                if let Term::Read(name, _) = term {
                    read.insert(name.clone());
                }
                Ok(None)
            })
        });
        let (Some(Ok(_)), Some(name), 1) = (asked, read.first(), read.len()) else { return false };
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
            Stop::Operator(_, applied) => match self.stepwise(applied, Asked::Stops) {
                Ok(steps) => Ok(steps.into_stops()),
                Err(_) => self.with_denoter(applied, |denoter, node| {
                    denoter.note_stops(node)?;
                    Ok(std::mem::take(&mut denoter.stops))
                }),
            },
            Stop::Claim(claim) => unknown(format!("only one side checks {claim}")),
            Stop::Opaque(what) => unknown(format!("only one side may stop: {what}")),
            Stop::Guarded(..) => unknown(format!("only one side may stop: {}", stop.key())),
        }
    }

    pub(super) fn operands(&self) -> Operands {
        let ids = 0..self.table.entries.len();
        Operands::of(ids.filter_map(|id| Some((self.table.name(id), self.table.tensor(id)?.1))))
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
        // What both are made of may hide that they are equal, and so may what rules see.
        self.prefers_steps = true;
        let second = self.equal_over(BTreeSet::new(), a, b, &x);
        self.prefers_steps = false;
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
        self.alike(dims, |own, at| Ok((own.element(a, at, true)?, own.element(b, at, true)?)))
    }

    /// Whether rules see an element of an operator's call as its steps compute it.
    pub(super) fn is_seen_alike(&mut self, id: Id) -> Result<(), String> {
        let Def::Operator(applied, part) = self.table.get(id).def.clone() else {
            return Err("no call of an operator".into());
        };
        let dims = applied.results[part].0.clone();
        self.alike(&dims, |own, at| {
            let seen = own.by_rule(&applied, part, at)?;
            Ok((seen, own.by_steps(id, &applied, part, at)?))
        })
    }

    /// Whether two terms are equal at every index below these extents.
    fn alike(
        &mut self,
        dims: &[Dim],
        terms: impl FnOnce(&mut Self, &[Dim]) -> Known<(Term, Term)>,
    ) -> Result<(), String> {
        let mut at = Vec::new();
        self.facts.push();
        for dim in dims {
            *self.fresh += 1;
            let binder: (Name, Dim) = (format!("o#{}", self.fresh).into(), dim.clone());
            assume_index(&binder, &mut *self.facts);
            at.push(Dim::Var(binder.0));
        }
        let terms = terms(self, &at);
        let operands = self.operands();
        let outcome = match terms {
            Ok((a, b)) => compare(&a, &b, &mut *self.facts, &operands),
            Err(stuck) => Err(said(stuck)),
        };
        self.facts.pop();
        outcome
    }
}

/// The claim that a comparison of dims is.
fn compared_dims(name: &str, operands: &[Term]) -> Option<Claim> {
    let [a, b] = operands else { return None };
    let (a, b) = (as_dim(a)?, as_dim(b)?);
    Some(match name {
        "equal" => Claim::new(a, Relation::Equal, b),
        "not_equal" => Claim::new(a, Relation::NotEqual, b),
        "less" => Claim::new(a, Relation::Less, b),
        "less_equal" => Claim::new(a, Relation::AtMost, b),
        "greater" => Claim::new(b, Relation::Less, a),
        "greater_equal" => Claim::new(b, Relation::AtMost, a),
        _ => return None,
    })
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
