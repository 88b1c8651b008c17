//! The body of one program within another: its buffers, scalars and symbolic variables are those of
//! the whole.

use relax_semantics::tir::walk::{Place, Rewrite, statements};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, ScalarId, ScalarInfo, Stmt, StmtKind, TExpr};
use relax_tir::dims::as_expr;
use std::collections::{BTreeMap, BTreeSet};

/// A program that is put into another one.
pub(super) struct Stage<'p> {
    pub(super) program: &'p TensorProgram,
    /// What stands for its symbolic variables.
    pub(super) dims: BTreeMap<Name, Dim>,
    /// What the whole calls extents of buffers that it is given which are no variables but, say, `n * 2`.
    pub(super) extents: Vec<(TExpr, Dim)>,
    /// What stands for its scalar parameters.
    pub(super) scalars: BTreeMap<ScalarId, Dim>,
    /// The buffers of the whole that it is given.
    pub(super) buffers: BTreeMap<BufferId, BufferId>,
}

/// The tables of the whole.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) buffers: Vec<BufferInfo>,
    pub(super) scalars: Vec<ScalarInfo>,
    /// Names that no scalar may have.
    pub(super) taken: BTreeSet<Name>,
}

impl Tables {
    pub(super) fn buffer(&mut self, mut info: BufferInfo) -> BufferId {
        info.name = self.free(&info.name);
        self.taken.insert(info.name.clone());
        let id = u32::try_from(self.buffers.len()).expect("invariant: few buffers");
        self.buffers.push(info);
        BufferId(id)
    }

    fn free(&self, wanted: &Name) -> Name {
        let numbered = (1_u32..).map(|number| Name::new(format!("{wanted}_{number}")));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        names
            .find(|name| !self.taken.contains(name))
            .expect("invariant: there are more names than are taken")
    }
}

impl Stage<'_> {
    /// The statements, with what they bind put into the tables. Scalars get names that nothing else
    /// has: statements of other stages stand beside them.
    pub(super) fn statements(&self, body: &[Stmt], tables: &mut Tables) -> Vec<Stmt> {
        let mut placed = Placed { stage: self, buffers: self.buffers.clone(), first: 0, tables };
        placed.allocations(body);
        placed.scalars(body);
        statements(body, &mut placed)
    }

    fn dim(&self, dim: &Dim) -> Dim {
        dim.substitute(&self.dims)
    }
}

struct Placed<'s, 't> {
    stage: &'s Stage<'s>,
    buffers: BTreeMap<BufferId, BufferId>,
    /// Where its scalars begin.
    first: u32,
    tables: &'t mut Tables,
}

impl Placed<'_, '_> {
    fn allocations(&mut self, body: &[Stmt]) {
        relax_semantics::tir::walk::visit_statements(body, &mut |stmt| {
            let StmtKind::Alloc(id) = &stmt.kind else { return };
            let mut info = self.stage.program.buffer(*id).clone();
            info.shape.iter_mut().for_each(|dim| *dim = self.stage.dim(dim));
            self.buffers.insert(*id, self.tables.buffer(info));
        });
    }

    /// What is bound within a loop is seen there only, so that the next stage may have it again;
    /// what is bound beside the loops is seen to the end.
    fn scalars(&mut self, body: &[Stmt]) {
        self.first = u32::try_from(self.tables.scalars.len()).expect("invariant: few scalars");
        let own: Vec<ScalarInfo> = self.stage.program.scalars.clone();
        let names: BTreeSet<Name> = own.iter().map(|scalar| scalar.name.clone()).collect();
        let around: BTreeSet<ScalarId> = body
            .iter()
            .filter_map(|stmt| match stmt.kind {
                StmtKind::Let { var, .. } => Some(var),
                _ => None,
            })
            .collect();
        let mut renamed: BTreeMap<Name, Name> = BTreeMap::new();
        for name in &names {
            // No name of the stage itself, but for the one that it has already.
            let free = self.tables.taken.contains(name) || !around.is_empty();
            if free {
                let mut wanted = Name::new(format!("{name}_{}", self.first));
                while names.contains(&wanted) || self.tables.taken.contains(&wanted) {
                    wanted = Name::new(format!("{wanted}_"));
                }
                renamed.insert(name.clone(), wanted);
            }
        }
        for (at, mut info) in (0..).zip(own) {
            if let Some(name) = renamed.get(&info.name) {
                info.name = name.clone();
            }
            if around.contains(&ScalarId(at)) {
                self.tables.taken.insert(info.name.clone());
            }
            self.tables.scalars.push(info);
        }
    }
}

impl Rewrite for Placed<'_, '_> {
    fn buffer(&mut self, id: BufferId) -> BufferId {
        *self.buffers.get(&id).expect("invariant: a buffer is a parameter or allocated")
    }

    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        ScalarId(id.0 + self.first)
    }

    fn replace(&mut self, expr: &TExpr, place: Place) -> Option<TExpr> {
        let of_extent = || self.stage.extents.iter().find(|(own, _)| own == expr);
        let dim = match expr {
            TExpr::Dim(name) => self.stage.dims.get(name)?,
            TExpr::Scalar(id) => self.stage.scalars.get(id)?,
            // As the next stage says it, so that both have the same loops.
            TExpr::Binary(..) if place == Place::Index => &of_extent()?.1,
            _ => return None,
        };
        let value = as_expr(dim);
        let has_dtype = place == Place::Index || mentions_variable(dim);
        // A literal takes the dtype of what is around it; a symbolic variable was an i64.
        Some(if has_dtype { value } else { TExpr::Cast(DType::I64, Box::new(value)) })
    }
}

fn mentions_variable(dim: &Dim) -> bool {
    !dim.vars_all(&|_| false)
}

/// Whether a dim can be computed in a tensor program.
pub(super) fn is_computable(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => true,
        // There is no such operation of scalars.
        Dim::Op(DimOp::CeilDiv, _) => false,
        Dim::Op(_, operands) => is_computable(&operands.0) && is_computable(&operands.1),
    }
}
