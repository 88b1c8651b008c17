//! Tensor programs that decode a quantized matrix, `w[i, j] = scale * integer`, maybe with a minimum, as one value per element.

use relax_semantics::tir::walk::{Place, Rewrite, expr};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, Param, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::products::flat;
use relax_tir::quantized::{BLOCK, Quantized};
use std::collections::BTreeMap;

/// What a program decodes.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) program: TensorProgram,
    /// Loops over rows and terms.
    pub(super) loops: [Loop; 2],
    /// What is stored.
    pub(super) value: TExpr,
    /// Its inputs; the output follows them.
    pub(super) inputs: Vec<BufferId>,
    pub(super) out: BufferId,
    /// The place among the inputs of one whose rows have an element for so many terms, a multiple of [`BLOCK`].
    widest: (usize, i64),
}

impl Decoder {
    pub(super) fn of(program: &TensorProgram) -> Option<Self> {
        let (loops, inner) = flat(program.body.as_deref()?);
        let [row, term] = loops[..] else { return None };
        let (last, before) = inner.split_last()?;
        let mut values = Values::default();
        before.iter().try_for_each(|stmt| values.bind(stmt))?;
        let StmtKind::Store { buffer, indices, update: None, value } = &last.kind else {
            return None;
        };
        let value = expr(value, &mut values, Place::Value);
        let own = [row.var, term.var].map(TExpr::Scalar);
        let whole = [row, term].iter().all(|item| item.start == TExpr::Int(0));
        let buffers = program.params.iter().map(|param| match param {
            Param::Buffer(buffer) => Some(*buffer),
            _ => None,
        });
        let mut inputs = buffers.collect::<Option<Vec<BufferId>>>()?;
        let out = inputs.pop()?;
        if !whole || *indices != own || *buffer != out || program.buffer(out).dtype != DType::F32 {
            return None;
        }
        let found = Quantized::of(program, &value, term.var)?;
        let rows = found.reads();
        let is_row = rows.iter().all(|at| at.indices.len() == 2 && at.indices[0] == own[0]);
        let widest = found.factors().max_by_key(|factor| factor.terms)?;
        let place = inputs.iter().position(|input| *input == widest.at.buffer)?;
        let widest = (place, widest.terms);
        let loops = [row.clone(), term.clone()];
        let fits = is_row && widest.1 % BLOCK == 0;
        fits.then(|| Self { program: program.clone(), loops, value, inputs, out, widest })
    }

    /// Terms of a row and their blocks, where `rows` are the dims of each input.
    pub(super) fn extents(&self, rows: &[Vec<Dim>]) -> Option<[Dim; 2]> {
        let [_, elements] = &rows.get(self.widest.0)?[..] else { return None };
        let times = |by: i64| match by {
            1 => elements.clone(),
            by => Dim::op(DimOp::Mul, elements.clone(), Dim::Int(by)),
        };
        Some([times(self.widest.1), times(self.widest.1 / BLOCK)])
    }

    /// The same in the program itself.
    pub(super) fn own_extents(&self) -> Option<[Dim; 2]> {
        let rows = self.inputs.iter().map(|input| self.program.buffer(*input).shape.clone());
        self.extents(&rows.collect::<Vec<_>>())
    }

    /// Names that the program uses.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        let buffers = self.inputs.iter().map(|input| &self.program.buffer(*input).name);
        buffers.chain(self.program.dims.iter().map(|dim| &dim.name))
    }
}

/// Values of names.
#[derive(Default)]
struct Values(BTreeMap<ScalarId, TExpr>);

impl Values {
    fn bind(&mut self, stmt: &Stmt) -> Option<()> {
        let StmtKind::Let { var, value } = &stmt.kind else { return None };
        let value = expr(value, self, Place::Value);
        self.0.insert(*var, value);
        Some(())
    }
}

impl Rewrite for Values {
    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        self.0.get(&part.as_scalar()?).cloned()
    }
}
