//! What a factor that is computed reads for each column: it is asked for before it is needed, and elements of f16 become those of f32
//! by vectors.

use crate::printer::Printer;
use crate::weighing::{TERMS, stays_for_terms};
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr};
use relax_tir::products::mentions;

/// Bytes that come from memory together.
const LINE: usize = 64;

/// Terms that a block is ahead of what is asked for.
const AHEAD: i64 = 4;

/// An element that is read for each column.
pub(crate) struct Source {
    load: TExpr,
    dtype: DType,
    /// As C: `w[k * c + j]`.
    element: String,
    /// Whether it is the same for [`TERMS`] terms that follow a multiple of it.
    pub(crate) stays: bool,
}

/// An expression that reads its elements of f16 from arrays.
pub(crate) struct Widened {
    /// The arrays, and the calls that fill them but for the array and how many elements.
    pub(crate) wide: Vec<(String, String)>,
    pub(crate) value: String,
}

impl Printer<'_, '_> {
    /// The elements of an expression that lie side by side along the columns, each once, those of other rows for other terms. None where
    /// something decides whether they are read.
    pub(crate) fn sources(
        &mut self,
        factor: &TExpr,
        column: ScalarId,
        term: ScalarId,
    ) -> Vec<Source> {
        let (mut loads, mut decides) = (Vec::new(), false);
        visit(factor, &mut |part| {
            decides |= matches!(part, TExpr::Select(_) | TExpr::Binary(BinOp::And | BinOp::Or, _));
            if let TExpr::Load { indices, .. } = part
                && let Some((last, before)) = indices.split_last()
                && last.as_scalar() == Some(column)
                && !mentions(before, column)
                && mentions(before, term)
                && !loads.contains(part)
            {
                loads.push(part.clone());
            }
        });
        if decides {
            return Vec::new();
        }
        let mut sources = Vec::new();
        for load in loads {
            let TExpr::Load { buffer, indices } = &load else { continue };
            let values = self.indices(indices);
            let at = self.element(*buffer, indices, values);
            sources.push(Source {
                dtype: self.program.buffer(*buffer).dtype,
                element: format!("{}[{at}]", self.buffers[buffer]),
                stays: stays_for_terms(&load, term),
                load,
            });
        }
        sources
    }

    /// An expression, printed already, as one that reads its elements of these dtypes from arrays where they lie as f32, which a vector
    /// instruction made of them; compilers make ten of the conversion of one f16. As it is where it has none.
    pub(crate) fn widened(
        &mut self,
        (value, text): (&TExpr, &str),
        sources: &[Source],
        dtypes: &[DType],
        element: impl Fn(&str) -> String,
    ) -> Widened {
        let held = self.replaced.len();
        let mut wide = Vec::new();
        for source in sources.iter().filter(|source| dtypes.contains(&source.dtype)) {
            let name = self.names.fresh("wide");
            let whole = match source.dtype {
                DType::F16 => source.load.clone(),
                // Where it is not converted it stays an integer.
                _ => TExpr::Cast(DType::F32, Box::new(source.load.clone())),
            };
            self.replaced.push(whole, element(&name));
            wide.push((name, format!("rx_widen_{}(&{}", source.dtype, source.element)));
        }
        if wide.is_empty() {
            return Widened { wide, value: text.to_owned() };
        }
        let value = self.expr(value, DType::F32);
        self.replaced.truncate(held);
        Widened { wide, value }
    }

    /// Asks for the elements of so many columns.
    pub(crate) fn ask_for_columns(
        &mut self,
        source: &Source,
        (column, at): (&str, &str),
        (lane, lanes): (&str, &str),
    ) {
        let in_line = LINE / source.dtype.size();
        self.line(&format!("for (int64_t {lane} = 0; {lane} < {lanes}; {lane} += {in_line}) {{"));
        self.line(&format!("    const int64_t {column} = c0 + {at} + {lane};"));
        self.line(&format!("    __builtin_prefetch(&{});", source.element));
        self.line("}");
    }

    /// Asks for what a panel of terms further down is computed from.
    pub(crate) fn ask_for_terms(
        &mut self,
        sources: &[Source],
        (column, at): (&str, &str),
        (own, term): (&str, &str),
        lanes: (&str, &str),
    ) {
        for source in sources {
            let ahead = if source.stays { TERMS } else { AHEAD };
            let every = if source.stays { TERMS } else { 1 };
            self.line(&format!("if ({term} % {every} == 0 && {term} + {ahead} < deep) {{"));
            self.indent += 1;
            self.line(&format!("const int64_t {own} = k0 + {term} + {ahead};"));
            self.ask_for_columns(source, (column, at), lanes);
            self.close();
        }
    }
}
