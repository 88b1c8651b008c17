//! Tensor programs that are rewritten: what is new gets names that nothing else has.

use relax_semantics::tir::walk::{Rewrite, statements, visit_statements};
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, ScalarId, ScalarInfo, Stmt, StmtKind};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A program that gets more scalars and buffers.
pub(crate) struct Writer {
    pub(crate) program: TensorProgram,
    taken: BTreeSet<Name>,
}

impl Writer {
    pub(crate) fn of(program: &TensorProgram) -> Self {
        let scalars = program.scalars.iter().map(|info| info.name.clone());
        let buffers = program.buffers.iter().map(|info| info.name.clone());
        let dims = program.dims.iter().map(|dim| dim.name.clone());
        let taken = scalars.chain(buffers).chain(dims).collect();
        Self { program: program.clone(), taken }
    }

    fn name(&mut self, base: &str) -> Name {
        let numbered = (1..).map(|number| Name::new(format!("{base}_{number}")));
        let mut names = std::iter::once(Name::new(base)).chain(numbered);
        let name = names.find(|name| !self.taken.contains(name));
        let name = name.expect("invariant: there are more numbers than names");
        self.taken.insert(name.clone());
        name
    }

    /// A scalar of the program that has no other use yet; a loop's has a dtype, one of a binding none.
    pub(crate) fn scalar(&mut self, base: &str, dtype: Option<DType>, span: Span) -> ScalarId {
        let info = ScalarInfo { name: self.name(base), dtype, span };
        let id = ScalarId(u32::try_from(self.program.scalars.len()).unwrap_or(u32::MAX));
        self.program.scalars.push(info);
        id
    }

    /// A buffer of the program that has no other use yet.
    pub(crate) fn buffer(&mut self, base: &str, info: BufferInfo) -> BufferId {
        let name = self.name(base);
        let id = BufferId(u32::try_from(self.program.buffers.len()).unwrap_or(u32::MAX));
        self.program.buffers.push(BufferInfo { name, ..info });
        id
    }

    /// A statement for the second time in the program: what it binds has names of its own.
    pub(crate) fn renamed(&mut self, stmt: &Stmt) -> Stmt {
        let mut bound = Vec::new();
        let stmt = std::slice::from_ref(stmt);
        visit_statements(stmt, &mut |stmt| match &stmt.kind {
            StmtKind::For { loops, .. } => bound.extend(loops.iter().map(|item| item.var)),
            StmtKind::Block { axes, .. } => bound.extend(axes.iter().map(|axis| axis.var)),
            StmtKind::Let { var, .. } => bound.push(*var),
            _ => {}
        });
        let names = bound.into_iter().map(|var| {
            let info = self.program.scalar(var).clone();
            (var, self.scalar(info.name.as_str(), info.dtype, info.span))
        });
        let mut names = Renamed(names.collect());
        statements(stmt, &mut names).remove(0)
    }

    /// A loop variable becomes the name of a value.
    pub(crate) fn is_bound(&mut self, var: ScalarId) {
        self.program.scalars[var.0 as usize].dtype = None;
    }
}

struct Renamed(BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}
