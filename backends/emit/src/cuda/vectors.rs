//! Loops over neighbouring elements of which each buffer has all at once: one load, or one store, for all of them.
//!
//! That takes elements which begin where a vector may ([`ALIGNED`]: the host looks where buffers begin, and rows are of whole
//! vectors), which are all there, and which no iteration loads after another one stored. Else it is a loop like any other.

use super::{ALIGNED, Per, Place, Workspace};
use crate::dtypes::{is_half, stored};
use crate::printer::Printer;
use relax_semantics::tir::walk::{loaded, mentions, stored as written, visit, visit_own};
use relax_syntax::dim::Dim;
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// A loop over the elements of vectors.
pub(super) struct Lanes<'s> {
    pub(super) item: &'s Loop,
    pub(super) width: i64,
    pub(super) body: &'s [Stmt],
    /// Scalars that may differ between elements.
    names: BTreeSet<ScalarId>,
    /// What of them is bound to a value.
    values: BTreeMap<ScalarId, &'s TExpr>,
}

/// Elements of a buffer, one for each iteration.
pub(super) struct Vector<'s> {
    pub(super) buffer: BufferId,
    indices: &'s [TExpr],
    /// Those of the first one.
    pub(super) first: Vec<TExpr>,
    is_stored: bool,
}

impl<'s> Lanes<'s> {
    fn of(kind: &LoopKind, loops: &'s [Loop], body: &'s [Stmt]) -> Option<Self> {
        let [item @ Loop { var, start: TExpr::Int(0), stop: TExpr::Int(width @ 2..) }] = loops
        else {
            return None;
        };
        let mut lanes = Self {
            item,
            width: *width,
            body,
            names: BTreeSet::from([*var]),
            values: BTreeMap::new(),
        };
        for stmt in body {
            match &stmt.kind {
                StmtKind::Let { var, value } => {
                    lanes.names.insert(*var);
                    lanes.values.insert(*var, value);
                }
                StmtKind::Store { update: None, .. } => {}
                _ => return None,
            }
        }
        let is_apart = loaded(body).is_disjoint(&written(body));
        (*kind == LoopKind::Vectorized && is_apart).then_some(lanes)
    }

    pub(super) fn varies(&self, expr: &TExpr) -> bool {
        mentions(expr, &self.names)
    }

    /// The number of a vector of which each iteration has the element of its own number.
    fn vector(&self, index: &TExpr) -> Option<TExpr> {
        match index {
            TExpr::Scalar(var) => self.vector(self.values.get(var)?),
            TExpr::Binary(BinOp::Add, both) if both.1 == TExpr::Scalar(self.item.var) => {
                let TExpr::Binary(BinOp::Mul, factors) = &both.0 else { return None };
                let fits = factors.1 == TExpr::Int(self.width) && !self.varies(&factors.0);
                fits.then(|| both.0.clone())
            }
            _ => None,
        }
    }

    /// Elements that lie side by side.
    pub(super) fn of_access(
        &self,
        (buffer, indices): (BufferId, &'s [TExpr]),
    ) -> Option<Vector<'s>> {
        let (last, before) = indices.split_last()?;
        let first = self.vector(last).filter(|_| !before.iter().any(|index| self.varies(index)))?;
        let first = before.iter().cloned().chain([first]).collect();
        Some(Vector { buffer, indices, first, is_stored: false })
    }

    /// All that is stored, and what is loaded side by side. None where something is stored elsewhere.
    fn vectors(&self) -> Option<Vec<Vector<'s>>> {
        let mut found: Vec<Vector<'_>> = Vec::new();
        for stmt in self.body {
            if let StmtKind::Store { buffer, indices, .. } = &stmt.kind {
                let again = found.iter().any(|other| other.buffer == *buffer);
                let vector = self.of_access((*buffer, indices)).filter(|_| !again)?;
                found.push(Vector { is_stored: true, ..vector });
            }
        }
        for stmt in self.body {
            visit_own(stmt, &mut |expr| {
                visit(expr, &mut |part| {
                    let TExpr::Load { buffer, indices } = part else { return };
                    let is_known =
                        |other: &Vector<'_>| other.buffer == *buffer && other.indices == indices;
                    if !found.iter().any(is_known) {
                        found.extend(self.of_access((*buffer, indices)));
                    }
                });
            });
        }
        Some(found)
    }
}

impl Printer<'_, '_> {
    /// A loop over the elements of vectors; false where it is none.
    pub(crate) fn vector_loop(&mut self, kind: &LoopKind, loops: &[Loop], body: &[Stmt]) -> bool {
        let is_thread = self.cuda.as_ref().is_some_and(|cuda| cuda.place == Place::Thread);
        let Some(lanes) = Lanes::of(kind, loops, body).filter(|_| is_thread) else { return false };
        if self.copy(&lanes) {
            return true;
        }
        let Some(mut vectors) = lanes.vectors() else { return false };
        let fits: Vec<bool> =
            vectors.iter().map(|vector| self.are_side_by_side(&lanes, vector)).collect();
        let all_stored = vectors.iter().zip(&fits).all(|(vector, fits)| *fits || !vector.is_stored);
        let mut fits = fits.into_iter();
        vectors.retain(|_| fits.next() == Some(true));
        if !all_stored || vectors.is_empty() {
            return false;
        }
        self.vectors(&lanes, &vectors);
        true
    }

    /// Whether all elements of a vector are there, behind an address where one may begin.
    pub(super) fn are_side_by_side(&mut self, lanes: &Lanes<'_>, vector: &Vector<'_>) -> bool {
        let info = self.program.buffer(vector.buffer);
        let shape = info.shape.clone();
        let is_param = self.program.is_param(vector.buffer);
        let is_whole =
            |other: &Workspace| other.buffer == vector.buffer && other.per == Per::Program;
        let is_of_host =
            is_param || self.cuda.iter().any(|cuda| cuda.workspaces.iter().any(is_whole));
        let bytes =
            i64::try_from(info.dtype.size()).ok().and_then(|size| size.checked_mul(lanes.width));
        let fits = bytes.is_some_and(|bytes| bytes <= ALIGNED && ALIGNED % bytes == 0);
        if !is_of_host || !fits || self.notes_elements(vector.buffer) {
            return false;
        }
        let row = shape.last().cloned();
        if !self.proves(Some(Dim::Int(lanes.width)), Relation::Divides, row) {
            return false;
        }
        let (within, ranges) = (self.learned.clone(), self.ranges.clone());
        self.facts.push();
        self.ranges.enter(self.facts, lanes.item);
        for stmt in lanes.body {
            if let StmtKind::Let { var, value } = &stmt.kind {
                self.ranges.bind(*var, value);
            }
        }
        let are_there = vector.indices.iter().zip(&shape).all(|(index, extent)| {
            let dim = self.ranges.dim(index);
            self.is_within(dim.as_ref(), index, extent)
        });
        self.facts.pop();
        (self.learned, self.ranges) = (within, ranges);
        are_there
    }

    fn vectors(&mut self, lanes: &Lanes<'_>, vectors: &[Vector<'_>]) {
        let lane = self.scalars[&lanes.item.var].clone();
        let replaced = self.replaced.len();
        let (mut stores, mut addresses) = (BTreeMap::new(), Vec::new());
        for vector in vectors {
            let info = self.program.buffer(vector.buffer);
            let (dtype, buffer) = (info.dtype, self.buffers[&vector.buffer].clone());
            let of = format!("rx_vector<{}, {}>", stored(dtype), lanes.width);
            let values = self.indices(&vector.first);
            let at = self.element(vector.buffer, &vector.first, values);
            let name = self.names.fresh(&format!("{buffer}_vector"));
            let element = format!("{name}.at[{lane}]");
            if vector.is_stored {
                self.line(&format!("{of} {name};"));
                addresses.push(format!("*({of} *)&{buffer}[{at}] = {name};"));
                stores.insert(vector.buffer, element);
                continue;
            }
            self.line(&format!("const {of} {name} = *(const {of} *)&{buffer}[{at}];"));
            let (of, indices) = (vector.buffer, vector.indices.to_vec());
            let value =
                if is_half(dtype) { format!("rx_f32_of_{dtype}({element})") } else { element };
            self.replaced.push(TExpr::Load { buffer: of, indices }, value);
        }
        self.cuda().lanes = stores;
        self.line(&format!("for (int64_t {lane} = 0; {lane} < {}; {lane}++) {{", lanes.width));
        self.indent += 1;
        self.facts.push();
        let within = self.learned.clone();
        self.ranges.enter(self.facts, lanes.item);
        self.sources.bind_loop(lanes.item);
        self.starts.insert(lanes.item.var, "0".to_owned());
        self.body(lanes.body);
        self.close();
        self.learned = within;
        self.facts.pop();
        self.cuda().lanes.clear();
        self.replaced.truncate(replaced);
        addresses.iter().for_each(|line| self.line(line));
    }
}
