//! The meaning of a tensor program: each element of what it writes, as a term over elements of what it reads.
//!
//! Statements are run in order on contents of buffers, which are regions of elements written last over what
//! was there before. A loop is run once, for any iteration; what it does as a whole follows from that
//! ([`loops`]): either no two iterations write the same element, so that an element tells its iteration
//! ([`region`]), or all write the same ones, which is a fold. Anything else has no meaning here.

mod access;
mod boundary;
mod flattened;
mod folding;
mod loops;
mod region;
mod scalar;

pub(crate) use boundary::boundary;
pub(crate) use loops::rebuilt;
pub(crate) use scalar::{float, integer, replaced};

use super::composed::composed;
use super::denoter::Stops;
use super::fuel;
use super::term::{Binder, Domain, Known, Term, unknown};
use boundary::bound_dims;
use region::{Content, Region};
use relax_semantics::tir::{Sources, Typing, reductions};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BufferId, Check, Loop, Param, ScalarId, Stmt, StmtKind, TExpr,
};
use scalar::Condition;
use std::collections::BTreeMap;

/// What a scalar of the program holds.
#[derive(Clone, Debug)]
struct Scalar(Term);

/// A loop around the statement that is run.
#[derive(Clone, Debug)]
struct Frame {
    var: ScalarId,
    name: Name,
    start: Dim,
    stop: Dim,
}

impl Frame {
    /// Whether it has one iteration, by its numbers.
    fn is_single(&self) -> bool {
        matches!((&self.start, &self.stop), (Dim::Int(start), Dim::Int(stop)) if start.checked_add(1) == Some(*stop))
    }
}

/// What runs one program.
pub(crate) struct Machine<'a> {
    program: &'a TensorProgram,
    typing: Typing<'a>,
    /// What its symbolic variables stand for.
    dims: BTreeMap<Name, Dim>,
    /// The tensors that it is given.
    given: BTreeMap<Name, DType>,
    facts: &'a mut dyn Facts,
    fresh: &'a mut usize,
    contents: Vec<Content>,
    scalars: Vec<Option<Scalar>>,
    sources: Sources,
    frames: Vec<Frame>,
    /// Conditions under which statements and expressions are run, and whether each holds.
    path: Vec<(Condition, bool)>,
    /// Elements that a check found to be indices: of which extent, for all values of the binders.
    checked: Vec<(Term, Dim, Vec<Binder>)>,
    asked: Asked,
    /// Where it may stop the program.
    stops: Vec<Stops>,
}

/// What a program does when it is called.
pub(crate) struct Written {
    /// What each buffer of the parameters holds afterwards.
    contents: Vec<Content>,
    shapes: Vec<Vec<Dim>>,
    /// Where it may stop.
    pub(crate) stops: Vec<Stops>,
}

/// A call of a program: what its buffers and scalars are.
pub(crate) struct Called<'a> {
    pub(crate) program: &'a TensorProgram,
    /// The name of what each parameter that is a buffer holds; none where nothing is written yet.
    pub(crate) buffers: Vec<Option<Name>>,
    /// The dims of each.
    pub(crate) shapes: Vec<Vec<Dim>>,
    /// The scalars, in the order of their parameters.
    pub(crate) scalars: Vec<Dim>,
    /// What is asked.
    pub(crate) asked: Asked,
}

/// Conditions on the way to a stop, which stand after what it is about: one that must hold, and one that must not.
pub(crate) const WHERE: &str = "where";
pub(crate) const WHERE_NOT: &str = "where not";

/// What is asked of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What it writes, where it does not stop.
    Elements,
    /// And where it may stop.
    Stops,
}

/// Runs a program on named buffers.
pub(crate) fn run(called: &Called, facts: &mut dyn Facts, fresh: &mut usize) -> Known<Written> {
    let program = called.program;
    let Some(body) = &program.body else { return unknown("a program without a body") };
    let Ok(typing) = Typing::new(program) else { return unknown("an ill-formed program") };
    let dims = bound_dims(program, &called.shapes, &called.scalars)?;
    let dtypes = program.buffer_params().map(|id| program.buffer(id).dtype);
    let given = called.buffers.iter().zip(dtypes);
    let given = given.filter_map(|(held, dtype)| Some((held.clone()?, dtype))).collect();
    facts.push();
    let mut machine = Machine {
        program,
        typing,
        dims,
        given,
        facts,
        fresh,
        contents: vec![Content::unwritten(); program.buffers.len()],
        scalars: vec![None; program.scalars.len()],
        sources: Sources::default(),
        frames: Vec::new(),
        path: Vec::new(),
        checked: Vec::new(),
        asked: called.asked,
        stops: Vec::new(),
    };
    let done = machine.enter(called).and_then(|()| machine.body(body));
    let contents = std::mem::take(&mut machine.contents);
    let stops = std::mem::take(&mut machine.stops);
    machine.facts.pop();
    done?;
    let buffers = program.buffer_params().map(|id| id.0 as usize);
    let contents = buffers.map(|id| contents[id].clone()).collect();
    Ok(Written { contents, shapes: called.shapes.clone(), stops })
}

/// The element of a buffer after the call.
pub(crate) fn element(
    written: &Written,
    buffer: usize,
    at: &[Dim],
    facts: &mut dyn Facts,
    fresh: &mut usize,
) -> Known<Term> {
    let shape = &written.shapes[buffer];
    region::Reader { facts, fresh }.read(&written.contents[buffer], shape, at)
}

impl Machine<'_> {
    fn fresh(&mut self, kind: &str) -> Name {
        *self.fresh += 1;
        format!("{kind}#{}", self.fresh).into()
    }

    fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    fn dim_var(&self, name: &Name) -> Dim {
        self.dims.get(name).cloned().unwrap_or_else(|| Dim::Var(name.clone()))
    }

    fn dim(&self, dim: &Dim) -> Dim {
        dim.substitute(&self.dims)
    }

    fn shape(&self, buffer: BufferId) -> Vec<Dim> {
        self.program.buffer(buffer).shape.iter().map(|dim| self.dim(dim)).collect()
    }

    /// Binds what the call gives; dims that do not fit are where it stops.
    fn enter(&mut self, called: &Called) -> Known<()> {
        let (mut buffers, mut scalars) = (0, called.scalars.iter());
        let program = self.program;
        for param in &program.params {
            match param {
                Param::Buffer(id) => {
                    for (formal, actual) in self.shape(*id).iter().zip(&called.shapes[buffers]) {
                        self.needs("boundary/dim", Relation::Equal, formal, actual);
                        self.facts.assume(Claim::new(
                            formal.clone(),
                            Relation::Equal,
                            actual.clone(),
                        ));
                    }
                    if let Some(name) = &called.buffers[buffers] {
                        self.contents[id.0 as usize] = Content::input(name.clone());
                    }
                    buffers += 1;
                }
                Param::Dim(_) => {
                    scalars.next();
                }
                Param::Scalar(id) => {
                    let Some(value) = scalars.next() else { return unknown("too few scalars") };
                    self.scalars[id.0 as usize] = Some(Scalar(Term::Extent(value.clone())));
                }
            }
        }
        for dim in &program.dims {
            let own = self.dim_var(&dim.name);
            for (bound, low) in [(dim.lower, true), (dim.upper, false)] {
                let Some(bound) = bound else { continue };
                let (a, b) =
                    if low { (Dim::Int(bound), &own) } else { (own.clone(), &Dim::Int(bound)) };
                let b = b.clone();
                self.needs("boundary/dim", Relation::AtMost, &a, &b);
                self.facts.assume(Claim::new(a, Relation::AtMost, b));
            }
            if let Some(factor) = dim.multiple_of {
                self.needs("boundary/dim", Relation::Divides, &Dim::Int(factor), &own);
                self.facts.assume(Claim::new(factor, Relation::Divides, own));
            }
        }
        Ok(())
    }

    /// Runs under a condition.
    fn under<T>(
        &mut self,
        condition: &Condition,
        holds: bool,
        run: impl FnOnce(&mut Self) -> Known<T>,
    ) -> Known<T> {
        self.facts.push();
        condition.claims(holds).into_iter().for_each(|claim| self.facts.assume(claim));
        self.path.push((condition.clone(), holds));
        let result = run(self);
        self.path.pop();
        self.facts.pop();
        result
    }

    /// Runs statements under a condition: what they write is there where it holds. Until they are done what they write
    /// counts as such, so that a loop among them is seen as it is.
    fn guarded(
        &mut self,
        condition: &Condition,
        holds: bool,
        body: &[Stmt],
        run: impl FnOnce(&mut Self) -> Known<()>,
    ) -> Known<()> {
        let buffers = loops::stored(body);
        let outer: Vec<usize> =
            buffers.iter().map(|id| self.contents[id.0 as usize].begin()).collect();
        self.under(condition, holds, run)?;
        for (id, outer) in buffers.into_iter().zip(outer) {
            let written = self.contents[id.0 as usize].end(outer);
            let (saved, shape) = (self.contents[id.0 as usize].clone(), self.shape(id));
            for region in written {
                let old = self.within(&region.binders, |own| {
                    own.under(condition, !holds, |own| own.read(&saved, &shape, &region.index))
                })?;
                let value = region.value;
                let value =
                    if holds { condition.choose(value, old) } else { condition.choose(old, value) };
                fuel::spend(fuel::size(&value))?;
                self.contents[id.0 as usize].write(Region { value, ..region });
            }
        }
        Ok(())
    }

    /// The loops around as binders from 0, and the shift of each.
    fn around(&self) -> (Vec<Binder>, BTreeMap<Name, Dim>) {
        let (mut binders, mut shifts) = (Vec::new(), BTreeMap::new());
        for frame in &self.frames {
            let extent = Dim::op(DimOp::Sub, frame.stop.clone(), frame.start.clone());
            binders.push((frame.name.clone(), extent.substitute(&shifts)));
            if frame.start != Dim::Int(0) {
                let start = frame.start.substitute(&shifts);
                let moved = Dim::op(DimOp::Add, Dim::Var(frame.name.clone()), start);
                shifts.insert(frame.name.clone(), moved);
            }
        }
        (binders, shifts)
    }

    /// Notes that the program stops here unless something holds of these terms, and of the path.
    fn stop(&mut self, what: &str, mut terms: Vec<Term>) {
        if self.asked == Asked::Elements {
            return;
        }
        let (over, shifts) = self.around();
        for (condition, holds) in &self.path {
            let truth = condition.clone().value();
            let name = if *holds { WHERE } else { WHERE_NOT };
            terms.push(Term::apply(Domain::Bits, name, vec![truth]));
        }
        terms.iter().for_each(|term| fuel::burn(fuel::size(term)));
        let terms = terms.iter().map(|term| term.substitute(&shifts)).collect();
        self.stops.push(Stops { what: what.to_owned(), over, terms });
    }

    /// Notes a stop unless a claim is proved.
    fn needs(&mut self, what: &str, relation: Relation, a: &Dim, b: &Dim) {
        if self.asked == Asked::Elements {
            return;
        }
        let claim = Claim::new(a.clone(), relation, b.clone());
        if !self.proves(&claim) {
            let what = format!("{what} {relation:?}");
            self.stop(&what, vec![Term::Extent(a.clone()), Term::Extent(b.clone())]);
        }
    }

    fn body(&mut self, statements: &[Stmt]) -> Known<()> {
        statements.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Known<()> {
        fuel::spend(1)?;
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => self.nest(loops, body),
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                let dtype = self.program.buffer(*buffer).dtype;
                let mut value = self.value(value, dtype)?;
                if let Some(op) = update {
                    let old = self.load(*buffer, indices)?;
                    value = self.operation(*op, dtype, old, value)?;
                }
                self.store(*buffer, indices, value)
            }
            StmtKind::Let { var, value } => {
                let dtype = self.typing.dtype(value);
                let term = self.value(value, dtype)?;
                fuel::spend(fuel::size(&term))?;
                let term = composed(term, dtype, &|name| self.given.get(name).copied());
                self.scalars[var.0 as usize] = Some(Scalar(term));
                self.sources.bind(*var, value);
                Ok(())
            }
            StmtKind::If { condition, then, otherwise } => {
                let condition = self.condition(condition)?;
                for (holds, body) in [(true, then), (false, otherwise)] {
                    self.guarded(&condition, holds, body, |own| own.body(body))?;
                }
                Ok(())
            }
            StmtKind::Alloc(id) => {
                for extent in self.shape(*id) {
                    self.needs("shape/negative", Relation::AtMost, &Dim::Int(0), &extent);
                }
                self.contents[id.0 as usize] = Content::unwritten();
                Ok(())
            }
            StmtKind::Barrier => unknown("a barrier"),
            StmtKind::Check(check) => self.check(check),
        }
    }

    fn check(&mut self, check: &Check) -> Known<()> {
        let condition = self.condition(&check.condition)?;
        if let Condition::Claim(claim) = &condition
            && self.proves(claim)
        {
            return Ok(());
        }
        if !self.path.is_empty() {
            self.stop(&check.trap, vec![condition.value()]);
            return Ok(());
        }
        match access::index_check(&condition) {
            Some((index, extent)) => {
                let (over, shifts) = self.around();
                let index = index.substitute(&shifts);
                self.checked.push((index.clone(), extent.clone(), over));
                self.stop("index/range", vec![index, Term::Extent(extent)]);
            }
            None => self.stop(&check.trap, vec![condition.value()]),
        }
        Ok(())
    }

    fn nest(&mut self, loops: &[Loop], body: &[Stmt]) -> Known<()> {
        if let Some(done) = self.threads(loops, body) {
            return done;
        }
        let mut frames = Vec::new();
        for item in loops {
            let (start, stop) = (self.bound(&item.start)?, self.bound(&item.stop)?);
            let name = self.fresh("i");
            frames.push(Frame { var: item.var, name, start, stop });
            self.sources.bind_loop(item);
        }
        self.repeat(&frames, body)
    }

    fn bound(&mut self, expr: &TExpr) -> Known<Dim> {
        match self.value(expr, DType::I64)? {
            Term::Extent(dim) => Ok(dim),
            _ => unknown("a loop whose range elements or cases tell"),
        }
    }

    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) -> Known<()> {
        let mut firsts: Vec<Condition> = Vec::new();
        let equal = |a, b| Condition::Claim(Claim::new(a, Relation::Equal, b));
        for axis in axes {
            let (extent, value) = (self.bound(&axis.extent)?, self.bound(&axis.value)?);
            self.needs("tir/axis_range", Relation::AtMost, &Dim::Int(0), &value);
            self.needs("tir/axis_range", Relation::Less, &value, &extent);
            self.scalars[axis.var.0 as usize] = Some(Scalar(Term::Extent(value.clone())));
            if axis.kind == AxisKind::Reduce {
                firsts.push(equal(value, Dim::Int(0)));
            }
        }
        if axes.is_empty() && !init.is_empty() {
            for var in reductions(&self.sources, init, body) {
                if self.is_number(var) {
                    continue;
                }
                let Some(frame) = self.frames.iter().find(|frame| frame.var == var) else {
                    return unknown("a reduction axis without a loop");
                };
                firsts.push(equal(Dim::Var(frame.name.clone()), frame.start.clone()));
            }
        }
        self.sources.bind_axes(axes);
        if !init.is_empty() {
            let all = firsts.into_iter().reduce(|a, b| Condition::Both(Box::new(a), Box::new(b)));
            match all {
                None => self.body(init)?,
                Some(condition) => {
                    self.guarded(&condition, true, init, |own| own.body(init))?;
                }
            }
        }
        self.body(body)
    }

    /// Whether a loop variable is a number, as that of a loop with one iteration is.
    fn is_number(&self, var: ScalarId) -> bool {
        matches!(self.scalars[var.0 as usize], Some(Scalar(Term::Extent(Dim::Int(_)))))
    }

    /// Writes an element.
    fn store(&mut self, buffer: BufferId, indices: &[TExpr], value: Term) -> Known<()> {
        fuel::spend(fuel::size(&value))?;
        let shape = self.shape(buffer);
        let mut at = Vec::with_capacity(indices.len());
        for (expr, extent) in indices.iter().zip(&shape) {
            let Term::Extent(index) = self.value(expr, DType::I64)? else {
                return unknown("a store at a place that elements or cases tell");
            };
            self.in_bounds(&index, extent);
            at.push(index);
        }
        self.contents[buffer.0 as usize].write(Region { binders: Vec::new(), index: at, value });
        Ok(())
    }

    fn content(&mut self, buffer: BufferId, shape: &[Dim], at: &[Dim]) -> Known<Term> {
        let content = self.contents[buffer.0 as usize].clone();
        self.read(&content, shape, at)
    }

    fn read(&mut self, content: &Content, shape: &[Dim], at: &[Dim]) -> Known<Term> {
        region::Reader { facts: &mut *self.facts, fresh: &mut *self.fresh }.read(content, shape, at)
    }
}
