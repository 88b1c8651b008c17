//! Nest recognition: a tensor program as one nest of loops around one computation, where it is that.
//!
//! Recognized are a plain store, and an accumulation whose first value is set in `init()`, under
//! `if k == 0:` for every reduction axis `k`, or by a store before the reduction loops. It may be formed
//! in a buffer of its own, of the dims of the output and a wider dtype, from which a store after the
//! reduction loops computes the output. Everything else is not a nest: other allocations, barriers, branches, several stages, sharded loops, ranges that do not
//! start at 0 or whose bounds are no dims, tiles whose loops together make an index.

use super::values::Scalars;
use crate::dims::as_dim;
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BinOp, BufferId, Intrinsic, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where the first value of an accumulation is set.
#[derive(Debug)]
enum First {
    /// At the first value of these loop variables, which are all that are not written to.
    AtFirst(BTreeSet<ScalarId>),
    /// In `init()` of a block without explicit axes.
    Implicit,
}

/// One loop nest with its statements.
#[derive(Debug)]
pub struct Nest<'p> {
    /// The scalars that it binds.
    pub scalars: Scalars<'p>,
    /// Loop variables with their extents.
    pub extents: BTreeMap<ScalarId, Dim>,
    pub(super) output: BufferId,
    /// The loop variable at each index that is written; `None` for 0 where the extent is 1.
    pub written: Vec<Option<ScalarId>>,
    /// Loop variables that are no index of what is written.
    pub(super) reduced: BTreeSet<ScalarId>,
    /// What is read to bind scalars, and by the stores: in these expressions.
    pub read: Vec<&'p TExpr>,
    /// Whether some block names its axes.
    pub has_axes: bool,
    /// What a nest without reduction axes stores.
    pub stored: Option<&'p TExpr>,
    /// What an accumulation adds or combines; no operation where the whole value says it.
    pub(super) term: Option<(Option<BinOp>, Term<'p>)>,
    /// Its first value.
    pub(super) initial: Option<&'p TExpr>,
    /// Whether the output is computed from the accumulation, which has a buffer of its own.
    pub(super) is_finished: bool,
}

/// What is combined with the value so far.
#[derive(Debug, Clone, Copy)]
pub(super) enum Term<'p> {
    One(&'p TExpr),
    /// The factors of an `fma`.
    Product(&'p TExpr, &'p TExpr),
    /// Some other function of the value so far.
    Whole(&'p TExpr),
}

/// A store: buffer, indices, operation, value.
#[derive(Debug, Clone, Copy)]
struct Store<'p> {
    buffer: BufferId,
    indices: &'p [TExpr],
    update: Option<BinOp>,
    value: &'p TExpr,
}

#[derive(Debug, Default)]
struct NestBuilder<'p> {
    scalars: Scalars<'p>,
    extents: BTreeMap<ScalarId, Dim>,
    read: Vec<&'p TExpr>,
    has_axes: bool,
    first: Option<(First, Store<'p>)>,
    /// The buffer that an accumulation is formed in, and the output that is computed from it.
    wide: Option<(BufferId, BufferId)>,
}

impl<'p> Nest<'p> {
    /// `None` when the program is something else.
    pub fn of(program: &'p TensorProgram) -> Option<Self> {
        let output = output_of(program)?;
        let (mut wide, mut body) = (None, program.body.as_deref()?);
        if let [Stmt { kind: StmtKind::Alloc(own), .. }, rest @ ..] = body {
            let same = program.buffer(*own).shape == program.buffer(output).shape;
            wide = same.then_some((*own, output));
            body = rest;
        }
        Self::of_statements(program, body, output, wide)
    }

    /// Statements of a program that write every element of one buffer.
    pub fn of_body(program: &'p TensorProgram, body: &'p [Stmt], output: BufferId) -> Option<Self> {
        Self::of_statements(program, body, output, None)
    }

    fn of_statements(
        program: &'p TensorProgram,
        body: &'p [Stmt],
        output: BufferId,
        wide: Option<(BufferId, BufferId)>,
    ) -> Option<Self> {
        let is_finished = wide.is_some();
        let mut walk = NestBuilder { wide, ..NestBuilder::default() };
        let store = walk.body(body)?;
        if store.buffer != output {
            return None;
        }
        let shape = &program.buffer(output).shape;
        let written = walk.written(store.indices, shape)?;
        let spatial: BTreeSet<ScalarId> = written.iter().flatten().copied().collect();
        let reduced = walk.extents.keys().copied().filter(|var| !spatial.contains(var)).collect();
        let NestBuilder { scalars, extents, read, has_axes, first, .. } = walk;
        let (stored, term, initial) = (None, None, None);
        let nest = Nest {
            scalars,
            extents,
            output,
            written,
            reduced,
            read,
            has_axes,
            stored,
            term,
            initial,
            is_finished,
        };
        nest.complete(store, first)
    }

    /// A statement that combines with the elements of a buffer, whose first values something else sets.
    /// It is taken for a nest that writes `output`, which has the same shape.
    pub(super) fn of_update(
        program: &'p TensorProgram,
        stmt: &'p [Stmt],
        buffer: BufferId,
        output: BufferId,
    ) -> Option<Self> {
        let mut walk = NestBuilder::default();
        let store = walk.body(stmt)?;
        let written = walk.written(store.indices, &program.buffer(buffer).shape)?;
        let spatial: BTreeSet<ScalarId> = written.iter().flatten().copied().collect();
        let reduced: BTreeSet<ScalarId> =
            walk.extents.keys().copied().filter(|var| !spatial.contains(var)).collect();
        let (op, term) = accumulated(store)?;
        let NestBuilder { scalars, extents, mut read, has_axes, first, .. } = walk;
        let Term::One(value) = term else { return None };
        read.push(value);
        let fits = store.buffer == buffer && first.is_none() && !reduced.is_empty();
        let (stored, initial, term) = (None, None, Some((op, term)));
        fits.then_some(Nest {
            scalars,
            extents,
            output,
            written,
            reduced,
            read,
            has_axes,
            stored,
            term,
            initial,
            is_finished: false,
        })
    }

    fn complete(mut self, store: Store<'p>, first: Option<(First, Store<'p>)>) -> Option<Self> {
        let Some((first, initial)) = first else {
            // Without reduction axes each element is written once.
            let once = self.reduced.is_empty() && store.update.is_none();
            self.read.push(store.value);
            self.stored = Some(store.value);
            return once.then_some(self);
        };
        let same_place = initial.buffer == store.buffer && initial.indices == store.indices;
        if self.reduced.is_empty() || !same_place || initial.update.is_some() {
            return None;
        }
        let (op, term) = accumulated(store)?;
        let terms = match term {
            Term::One(term) | Term::Whole(term) => vec![term],
            Term::Product(a, b) => vec![a, b],
        };
        let all_at_first = match first {
            First::AtFirst(vars) => vars == self.reduced,
            First::Implicit => {
                let used = terms.iter().flat_map(|term| self.scalars.sources(term).loops);
                self.reduced.is_subset(&used.collect())
            }
        };
        self.read.push(initial.value);
        self.read.extend(terms);
        self.term = Some((op, term));
        self.initial = Some(initial.value);
        let initial = self.scalars.sources(initial.value).loops;
        (all_at_first && initial.is_disjoint(&self.reduced)).then_some(self)
    }

    /// Whether each element is written whatever the dims are: the first value of an accumulation may be
    /// set within its loops.
    pub fn writes_all(&self) -> bool {
        self.writes_all_where().is_some_and(|positive| positive.is_empty())
    }

    /// The dims that must be at least 1 for that.
    #[must_use]
    pub fn writes_all_where(&self) -> Option<BTreeSet<Dim>> {
        let mut positive = BTreeSet::new();
        for var in &self.reduced {
            match self.extents.get(var)? {
                Dim::Int(1..) => {}
                Dim::Int(_) => return None,
                dim => _ = positive.insert(dim.clone()),
            }
        }
        Some(positive)
    }

    pub(super) fn is_reduction(&self) -> bool {
        self.term.is_some()
    }

    /// Whether a sum of products of different inputs is made for each place of some spatial axis.
    pub(super) fn sums_products(&self) -> bool {
        let Some((Some(BinOp::Add), term)) = self.term else { return false };
        let spatial = self.written.iter().any(Option::is_some);
        spatial
            && match term {
                Term::Product(a, b) => self.of_different_inputs(a, b),
                Term::One(term) => self.is_product(term),
                Term::Whole(_) => false,
            }
    }

    fn is_product(&self, term: &TExpr) -> bool {
        match self.scalars.resolve(term) {
            TExpr::Cast(_, operand) => self.is_product(operand),
            TExpr::Binary(BinOp::Mul, factors) => self.of_different_inputs(&factors.0, &factors.1),
            _ => false,
        }
    }

    fn of_different_inputs(&self, a: &TExpr, b: &TExpr) -> bool {
        let (a, b) = (self.scalars.sources(a).buffers, self.scalars.sources(b).buffers);
        !a.is_empty() && !b.is_empty() && a.union(&b).count() > 1
    }
}

/// The last buffer among the parameters.
pub fn output_of(program: &TensorProgram) -> Option<BufferId> {
    program.buffer_params().next_back()
}

/// What a store combines with the value that is there.
fn accumulated(store: Store) -> Option<(Option<BinOp>, Term)> {
    let own = |expr: &TExpr| {
        matches!(expr, TExpr::Load { buffer, indices }
            if *buffer == store.buffer && indices == store.indices)
    };
    match (store.update, store.value) {
        (Some(op), term) => combines(op).then_some((Some(op), Term::One(term))),
        (None, TExpr::Binary(op, operands)) if combines(*op) => {
            let term = match (own(&operands.0), own(&operands.1)) {
                (true, false) => &operands.1,
                (false, true) => &operands.0,
                _ => return None,
            };
            Some((Some(*op), Term::One(term)))
        }
        (None, TExpr::Call(Intrinsic::Fma, operands)) => match operands.as_slice() {
            [a, b, sum] if own(sum) => Some((Some(BinOp::Add), Term::Product(a, b))),
            _ => None,
        },
        (None, value) => {
            let (mut so_far, mut others) = (false, false);
            visit(value, &mut |part| match part {
                part if own(part) => so_far = true,
                TExpr::Load { buffer, .. } => others |= *buffer == store.buffer,
                _ => {}
            });
            (so_far && !others).then_some((None, Term::Whole(value)))
        }
    }
}

fn combines(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Add
            | BinOp::Mul
            | BinOp::Min
            | BinOp::Max
            | BinOp::And
            | BinOp::Or
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor
    )
}

impl<'p> NestBuilder<'p> {
    /// The one store of a body, for which its loops are.
    fn body(&mut self, statements: &'p [Stmt]) -> Option<Store<'p>> {
        let mut rest = statements;
        while let [Stmt { kind: StmtKind::Let { var, value }, .. }, others @ ..] = rest {
            self.scalars.bind(*var, value);
            self.read.push(value);
            rest = others;
        }
        match rest {
            [only] => match &only.kind {
                StmtKind::For { loops, kind, body } => {
                    self.loops(loops, kind)?;
                    self.body(body)
                }
                StmtKind::Block { axes, init, body, .. } => {
                    self.block(axes, init)?;
                    self.body(body)
                }
                _ => as_store(only),
            },
            [first, accumulation @ Stmt { kind: StmtKind::For { .. }, .. }, last]
                if self.wide.is_some() =>
            {
                let (own, output) = self.wide.take()?;
                let last = as_store(last).filter(|last| last.update.is_none())?;
                let accumulation = [first, accumulation];
                let store = self.accumulation(accumulation)?;
                let is_of_it = store.buffer == own && last.buffer == output;
                let same = store.indices == last.indices && reads_only(last.value, store);
                if let Some((_, initial)) = &mut self.first {
                    initial.buffer = output;
                }
                (is_of_it && same).then_some(Store { buffer: output, ..store })
            }
            [first, accumulation @ Stmt { kind: StmtKind::For { .. }, .. }] => {
                self.accumulation([first, accumulation])
            }
            [Stmt { kind: StmtKind::If { condition, then, otherwise }, .. }, last] => {
                let ([initial], true) = (then.as_slice(), otherwise.is_empty()) else {
                    return None;
                };
                let mut vars = BTreeSet::new();
                self.at_first(condition, &mut vars)?;
                self.sets_first(First::AtFirst(vars), as_store(initial)?)?;
                as_store(last)
            }
            _ => None,
        }
    }

    /// A first value, and the loops that combine others with it.
    fn accumulation(&mut self, [first, others]: [&'p Stmt; 2]) -> Option<Store<'p>> {
        let StmtKind::For { loops, kind, body } = &others.kind else { return None };
        let before: BTreeSet<ScalarId> = self.extents.keys().copied().collect();
        self.loops(loops, kind)?;
        let initial = as_store(first)?;
        let store = self.body(body)?;
        let within = self.extents.keys().copied().filter(|var| !before.contains(var));
        let within = within.collect();
        self.sets_first(First::AtFirst(within), initial)?;
        Some(store)
    }

    fn sets_first(&mut self, first: First, store: Store<'p>) -> Option<()> {
        let alone = self.first.is_none();
        self.first = Some((first, store));
        alone.then_some(())
    }

    fn loops(&mut self, loops: &'p [Loop], kind: &LoopKind) -> Option<()> {
        if matches!(kind, LoopKind::Shard { .. }) {
            return None;
        }
        for item in loops {
            if item.start != TExpr::Int(0) {
                return None;
            }
            self.extents.insert(item.var, as_dim(&item.stop)?);
            self.scalars.bind_loop(item.var);
        }
        Some(())
    }

    fn block(&mut self, axes: &'p [Axis], init: &'p [Stmt]) -> Option<()> {
        let mut reduced = BTreeSet::new();
        self.has_axes |= !axes.is_empty();
        for axis in axes {
            let sources = self.scalars.sources(&axis.value);
            if axis.kind == AxisKind::Reduce {
                reduced.extend(sources.loops);
            }
            self.scalars.bind(axis.var, &axis.value);
            self.read.push(&axis.value);
        }
        match init {
            [] => Some(()),
            [initial] => {
                let first = match axes {
                    [] => First::Implicit,
                    _ => First::AtFirst(reduced),
                };
                self.sets_first(first, as_store(initial)?)
            }
            _ => None,
        }
    }

    /// The loop variables that a condition compares with 0, one after the other.
    fn at_first(&self, condition: &TExpr, vars: &mut BTreeSet<ScalarId>) -> Option<()> {
        let TExpr::Binary(op, operands) = condition else { return None };
        let (a, b) = (&operands.0, &operands.1);
        match op {
            BinOp::And => {
                self.at_first(a, vars)?;
                self.at_first(b, vars)
            }
            BinOp::Equal => {
                let var = if self.scalars.is_zero(b) { a } else { b };
                let other = if self.scalars.is_zero(b) { b } else { a };
                let var = self.scalars.lone(var)?;
                vars.insert(var);
                (self.scalars.is_zero(other) && self.extents.contains_key(&var)).then_some(())
            }
            _ => None,
        }
    }

    /// The loop variables at the indices of a store, when together they go through every element of
    /// the buffer once.
    fn written(&self, indices: &[TExpr], shape: &[Dim]) -> Option<Vec<Option<ScalarId>>> {
        let mut seen = BTreeSet::new();
        let mut written = Vec::with_capacity(indices.len());
        for (index, extent) in indices.iter().zip(shape) {
            if self.scalars.is_zero(index) && *extent == Dim::Int(1) {
                written.push(None);
                continue;
            }
            let var = self.scalars.lone(index)?;
            if self.extents.get(&var) != Some(extent) || !seen.insert(var) {
                return None;
            }
            written.push(Some(var));
        }
        Some(written)
    }
}

/// Whether an expression reads nothing but what a store writes.
fn reads_only(expr: &TExpr, store: Store) -> bool {
    let mut only = true;
    visit(expr, &mut |part| {
        if let TExpr::Load { buffer, indices } = part {
            only &= *buffer == store.buffer && indices == store.indices;
        }
    });
    only
}

fn as_store(stmt: &Stmt) -> Option<Store<'_>> {
    match &stmt.kind {
        StmtKind::Store { buffer, indices, update, value } => {
            Some(Store { buffer: *buffer, indices, update: *update, value })
        }
        _ => None,
    }
}
