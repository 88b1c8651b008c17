//! Write coverage: which statements write every element of a buffer.
//!
//! Nests over the whole shape are recognized here, and nests that count their iterations over blocks and
//! threads in [`launches`].

pub(crate) mod launches;

use crate::dims::as_expr;
use crate::kernel_kind::{Nest, output_of};
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Whether some statement of a body writes every element of a buffer, whatever the dims are.
#[must_use]
pub fn is_covered(program: &TensorProgram, body: &[Stmt], buffer: BufferId) -> bool {
    covered_where(program, body, buffer).is_some_and(|positive| positive.is_empty())
}

/// The dims that must be at least 1 for some statement of a body to write every element of a buffer; `None` where nobody knows
/// of one that does.
#[must_use]
pub fn covered_where(
    program: &TensorProgram,
    body: &[Stmt],
    buffer: BufferId,
) -> Option<BTreeSet<Dim>> {
    let ways = body.iter().filter_map(|stmt| {
        let both = covered_by_branches(program, stmt, buffer);
        let stmt = std::slice::from_ref(stmt);
        let nest = Nest::of_body(program, stmt, buffer).and_then(|nest| nest.writes_all_where());
        let each = WholeLoopStores::of(program, stmt, buffer).into_iter();
        let each = each.filter(|found| found.slice.iter().all(|part| *part == Part::All));
        let each = each.map(|found| found.positive);
        both.into_iter().chain(nest).chain(each).min_by_key(BTreeSet::len)
    });
    ways.min_by_key(BTreeSet::len)
}

/// The same for a condition: one of its branches runs, nobody knows which, so that each must write every element.
fn covered_by_branches(
    program: &TensorProgram,
    stmt: &Stmt,
    buffer: BufferId,
) -> Option<BTreeSet<Dim>> {
    let StmtKind::If { then, otherwise, .. } = &stmt.kind else { return None };
    let mut positive = covered_where(program, then, buffer)?;
    positive.extend(covered_where(program, otherwise, buffer)?);
    Some(positive)
}

/// Elements of a buffer, by axis.
pub type Slice = Vec<Part>;

/// Which indices of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// All of them.
    All,
    /// The one with this value.
    At(TExpr),
    /// Those from 0 to a bound of dims.
    Below(TExpr),
}

/// Elements that a statement writes whatever the dims are. Indices are of variables that are bound around it.
#[must_use]
pub fn written_slices(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> Vec<Slice> {
    let found = WholeLoopStores::of(program, std::slice::from_ref(stmt), buffer);
    found.into_iter().filter(|it| it.positive.is_empty()).map(|it| it.slice).collect()
}

/// What a store at the variables of whole loops comes to.
#[derive(Clone, Debug)]
struct WrittenElements {
    slice: Slice,
    /// The dims that must be at least 1 for that.
    positive: BTreeSet<Dim>,
}

/// Adds what is not known yet, so that conditions in conditions do not multiply it.
fn note(found: &mut Vec<WrittenElements>, written: WrittenElements) {
    let is_known = found
        .iter()
        .any(|own| own.slice == written.slice && own.positive.is_subset(&written.positive));
    if !is_known {
        found.push(written);
    }
}

/// The stores to a buffer in some statements, where they stand in whole loops, blocks and nothing else: with others before and
/// after them, as where a sum is formed first.
struct WholeLoopStores<'s> {
    program: &'s TensorProgram,
    shape: &'s [Dim],
    buffer: BufferId,
    /// Around the place.
    loops: Vec<&'s Loop>,
    /// Conditions that hold there.
    guards: Vec<&'s TExpr>,
    /// Names of values that were given in the statements.
    named: BTreeSet<ScalarId>,
    found: Vec<WrittenElements>,
    /// By condition what both of its branches write, which does not depend on what is around: conditions in conditions are
    /// looked at once.
    joined: BTreeMap<*const Stmt, Vec<WrittenElements>>,
}

impl<'s> WholeLoopStores<'s> {
    fn of(program: &'s TensorProgram, body: &'s [Stmt], buffer: BufferId) -> Vec<WrittenElements> {
        let mut stores = Self::new(program, buffer);
        stores.search(body);
        stores.found
    }

    fn new(program: &'s TensorProgram, buffer: BufferId) -> Self {
        WholeLoopStores {
            program,
            shape: &program.buffer(buffer).shape,
            buffer,
            loops: Vec::new(),
            guards: Vec::new(),
            named: BTreeSet::new(),
            found: Vec::new(),
            joined: BTreeMap::new(),
        }
    }

    fn search(&mut self, body: &'s [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::For { loops, kind, body } if kind.is_sequential() => {
                    let outer = self.loops.len();
                    self.loops.extend(loops);
                    self.search(body);
                    self.loops.truncate(outer);
                }
                StmtKind::Block { axes, body, .. } if axes.is_empty() => self.search(body),
                StmtKind::If { condition, then, otherwise } => {
                    for both in self.both(stmt, [then, otherwise]) {
                        let Some(mut written) = self.written_elements(&both.slice) else {
                            continue;
                        };
                        written.positive.extend(both.positive);
                        note(&mut self.found, written);
                    }
                    self.guards.push(condition);
                    self.search(then);
                    self.guards.pop();
                }
                StmtKind::Let { var, .. } => _ = self.named.insert(*var),
                StmtKind::Store { buffer, indices, update: None, .. } if *buffer == self.buffer => {
                    let stored = indices.iter().cloned().map(Part::At).collect();
                    if let Some(written) = self.written_elements(&stored) {
                        note(&mut self.found, written);
                    }
                }
                _ => {}
            }
        }
    }

    /// What both branches of a condition write within one iteration of the loops around. Each iteration may take another branch:
    /// were slices of all iterations compared, `Y[i, j]` in one branch and `Y[j, i]` in the other would be whole alike.
    fn both(&mut self, condition: &'s Stmt, branches: [&'s [Stmt]; 2]) -> Vec<WrittenElements> {
        if let Some(known) = self.joined.get(&std::ptr::from_ref(condition)) {
            return known.clone();
        }
        let [then, otherwise] = branches.map(|body| {
            let mut own = Self::new(self.program, self.buffer);
            std::mem::swap(&mut own.joined, &mut self.joined);
            own.search(body);
            self.joined = own.joined;
            own.found
        });
        let mut both = Vec::new();
        for own in then {
            for other in otherwise.iter().filter(|other| other.slice == own.slice) {
                let positive = own.positive.union(&other.positive).cloned().collect();
                note(&mut both, WrittenElements { slice: own.slice.clone(), positive });
            }
        }
        self.joined.insert(std::ptr::from_ref(condition), both.clone());
        both
    }

    /// What an iteration of the loops around writes, in all of them.
    fn written_elements(&self, stored: &Slice) -> Option<WrittenElements> {
        let axes = stored.iter().zip(self.shape).map(|(part, dim)| match part {
            Part::At(index) => self.axis(index, dim),
            whole => Some(whole.clone()),
        });
        let slice: Slice = axes.collect::<Option<_>>()?;
        let indices = stored.iter().zip(self.shape).filter_map(|(part, dim)| match part {
            Part::At(index) => Some((index, dim)),
            Part::All | Part::Below(_) => None,
        });
        let indices: Vec<(&TExpr, &Dim)> = indices.collect();
        let blocks = indices.iter();
        let blocks: Vec<Blocks> =
            blocks.filter_map(|(index, dim)| Blocks::of(&self.loops, index, dim)).collect();
        // Where something else must hold as well, nobody knows which elements are stored.
        if !self.guards.iter().all(|guard| blocks.iter().any(|blocks| blocks.guard == **guard)) {
            return None;
        }
        let mut positive = BTreeSet::new();
        for item in &self.loops {
            let at = TExpr::Scalar(item.var);
            let places = indices.iter().filter(|(index, _)| **index == at).count();
            let of_blocks = blocks.iter().filter(|blocks| blocks.loops.contains(&item.var)).count();
            let places = places + of_blocks;
            match (places, &item.stop) {
                (1, _) => {}
                (0, TExpr::Int(1..)) if item.start == TExpr::Int(0) => {}
                (0, TExpr::Dim(name)) if item.start == TExpr::Int(0) => {
                    positive.insert(Dim::Var(name.clone()));
                }
                _ => return None,
            }
        }
        Some(WrittenElements { slice, positive })
    }

    /// What an index comes to.
    fn axis(&self, index: &TExpr, dim: &Dim) -> Option<Part> {
        if *index == TExpr::Int(0) && *dim == Dim::Int(1) {
            return Some(Part::All);
        }
        if let TExpr::Scalar(var) = index
            && let Some(item) = self.loops.iter().find(|item| item.var == *var)
        {
            if item.start != TExpr::Int(0) {
                return None;
            }
            if item.stop == as_expr(dim) {
                return Some(Part::All);
            }
            return is_fixed(&item.stop).then(|| Part::Below(item.stop.clone()));
        }
        if let Some(blocks) = Blocks::of(&self.loops, index, dim) {
            let is_guarded = self.guards.iter().any(|guard| **guard == blocks.guard);
            return (blocks.is_even || is_guarded).then_some(Part::All);
        }
        let mut is_fixed = true;
        visit(index, &mut |part| {
            is_fixed &= match part {
                TExpr::Load { .. } => false,
                TExpr::Scalar(var) => {
                    !self.named.contains(var) && self.loops.iter().all(|item| item.var != *var)
                }
                _ => true,
            };
        });
        is_fixed.then(|| Part::At(index.clone()))
    }
}

/// Whether a bound is the same in every iteration of all loops.
#[must_use]
pub fn is_fixed(bound: &TExpr) -> bool {
    let mut fixed = true;
    visit(bound, &mut |part| fixed &= !matches!(part, TExpr::Scalar(_) | TExpr::Load { .. }));
    fixed
}

/// An axis that two loops go through, one over blocks of some places and one over those: `block * 64 + i`, where `block` runs
/// to `(n - 1) // 64 + 1` and `i` to 64, or to `min(64, n)`.
struct Blocks {
    loops: [ScalarId; 2],
    /// `i < n - block * 64`, for places of the last block that are past the end.
    guard: TExpr,
    /// There are none.
    is_even: bool,
}

impl Blocks {
    fn of(loops: &[&Loop], index: &TExpr, dim: &Dim) -> Option<Self> {
        let TExpr::Binary(BinOp::Add, both) = index else { return None };
        let (TExpr::Binary(BinOp::Mul, start), &TExpr::Scalar(within)) = (&both.0, &both.1) else {
            return None;
        };
        let (&TExpr::Scalar(block), &TExpr::Int(size @ 1..)) = (&start.0, &start.1) else {
            return None;
        };
        let find = |var| loops.iter().find(|item| item.var == var && item.start == TExpr::Int(0));
        let (outer, inner) = (find(block)?, find(within)?);
        let extent = as_expr(dim);
        let (count, sizes) = match &extent {
            TExpr::Int(extent @ 0..) => {
                let count = extent.div_euclid(size) + i64::from(extent.rem_euclid(size) > 0);
                (TExpr::Int(count), vec![TExpr::Int(size)])
            }
            extent => {
                let last = TExpr::binary(BinOp::Sub, extent.clone(), TExpr::Int(1));
                let full = TExpr::binary(BinOp::FloorDiv, last, TExpr::Int(size));
                let least = TExpr::binary(BinOp::Min, TExpr::Int(size), extent.clone());
                (TExpr::binary(BinOp::Add, full, TExpr::Int(1)), vec![TExpr::Int(size), least])
            }
        };
        let is_even = matches!(extent, TExpr::Int(extent) if extent % size == 0);
        let goes = outer.stop == count && sizes.contains(&inner.stop);
        let left = TExpr::binary(BinOp::Sub, extent, both.0.clone());
        let guard = TExpr::binary(BinOp::Less, both.1.clone(), left);
        goes.then_some(Self { loops: [block, within], guard, is_even })
    }
}

/// Whether a statement writes every element of a buffer, whatever the dims are, and reads none of them
/// before.
#[must_use]
pub fn initializes(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let Some(nest) = Nest::of_body(program, std::slice::from_ref(stmt), buffer) else {
        return false;
    };
    let mut reads = false;
    for expr in &nest.read {
        visit(expr, &mut |part| {
            reads |= matches!(part, TExpr::Load { buffer: read, .. } if *read == buffer);
        });
    }
    nest.writes_all() && !reads
}

/// Whether a program that ends has written every element of its last buffers, so many outputs.
#[must_use]
pub fn writes_outputs(program: &TensorProgram, count: usize) -> bool {
    let buffers: Vec<BufferId> = program.buffer_params().collect();
    let (Some(body), Some(first)) = (&program.body, buffers.len().checked_sub(count)) else {
        return false;
    };
    buffers[first..].iter().all(|buffer| is_covered(program, body, *buffer))
}

/// Whether a program that ends has written every element of its output.
#[must_use]
pub fn writes_output(program: &TensorProgram) -> bool {
    let Some((body, output)) = program.body.as_ref().zip(output_of(program)) else { return false };
    Nest::of(program).is_some_and(|nest| nest.writes_all()) || is_covered(program, body, output)
}
