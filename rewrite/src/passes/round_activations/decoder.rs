//! Tensor programs that decode a quantized matrix, `w[i, j] = scale * integer`, as one value per element.

use relax_semantics::tir::walk::{Place, Rewrite, expr};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Param, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::products::{At, flat};
use relax_tir::quantized::Quantized;
use std::collections::BTreeMap;

/// What a program decodes, and which of its parameters it reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decoder {
    /// The place of the integers among the parameters.
    pub(super) data: usize,
    pub(super) data_dtype: DType,
    /// The place of the scales among the parameters.
    pub(super) scale: usize,
    pub(super) scale_dtype: DType,
    pub(super) bits: u8,
    pub(super) zero: i64,
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
        let [Param::Buffer(_), Param::Buffer(_), Param::Buffer(out)] = program.params[..] else {
            return None;
        };
        if !whole || *indices != own || *buffer != out {
            return None;
        }
        let found = Quantized::of(program, &value, term.var)?;
        let is_row = |at: At| at.indices.len() == 2 && at.indices[0] == TExpr::Scalar(row.var);
        let place = |at: At| program.params.iter().position(|of| *of == Param::Buffer(at.buffer));
        let dtype = |at: At| program.buffer(at.buffer).dtype;
        (program.buffer(out).dtype == DType::F32 && is_row(found.data) && is_row(found.scale))
            .then_some(Self {
                data: place(found.data)?,
                data_dtype: dtype(found.data),
                scale: place(found.scale)?,
                scale_dtype: dtype(found.scale),
                bits: found.bits,
                zero: found.zero,
            })
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
