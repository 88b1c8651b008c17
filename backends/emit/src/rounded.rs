//! Products of rows of bytes with quantized weights, as calls of a routine of the prelude that sums integers by blocks: the dot
//! instructions of processors take bytes. Only where sums of floats may be formed in any order, and where no access may trap.

use crate::printer::Printer;
use crate::{MOST_SEQUENCES, OUT_OF_MEMORY};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, TExpr};
use relax_tir::products::{At, SumOfProducts, mentions};
use relax_tir::quantized::{BLOCK, Factor, Minimum, Quantized, RoundedProduct};
use std::collections::BTreeSet;

/// The factors of the scale, then those of the minimum, two of each.
fn in_places<'e>(w: &Quantized<'e>) -> [Option<Factor<'e>>; 4] {
    let least = w.minimum.as_ref().map_or(&[][..], |minimum| &minimum.factors);
    [w.scale.first(), w.scale.get(1), least.first(), least.get(1)].map(Option::<&_>::copied)
}

/// The formats of a text, each once.
pub(crate) fn definitions(formats: &BTreeSet<String>) -> String {
    let each = formats.iter().map(|format| {
        let name = format.split(',').next().unwrap_or_default().to_ascii_uppercase();
        format!("\n#if !defined {name}\n#define {name}\nRX_BLOCK_FORMAT({format})\n#endif\n")
    });
    each.collect()
}

/// Which loops are which.
struct Roles<'s> {
    /// Around the call.
    outer: Vec<&'s Loop>,
    rows: Vec<&'s Loop>,
    column: &'s Loop,
}

impl Printer<'_, '_> {
    /// Prints a statement as such a product, if it is one; else nothing.
    pub(crate) fn rounded(&mut self, stmt: &Stmt) -> bool {
        if self.is_cuda() {
            return false;
        }
        let Some(sum) = SumOfProducts::of(self.program, stmt) else { return false };
        let Some(product) = RoundedProduct::of(self.program, &sum) else { return false };
        let Some(roles) = self.rounded_roles(&product) else { return false };
        let print = |printer: &mut Self| printer.rounded_product(&product, &roles);
        let Some(format) = self.attempt(print) else { return false };
        self.block_formats.insert(format);
        true
    }

    fn rounded_roles<'s>(&self, product: &RoundedProduct<'s>) -> Option<Roles<'s>> {
        let RoundedProduct { activations: x, weights: w, out, .. } = product;
        let left = [x.reads(), vec![*out]].concat();
        let accesses = [left.clone(), w.reads()].concat();
        let even = product.loops.iter().all(|item| {
            item.start == TExpr::Int(0)
                && accesses.iter().all(|at| at.has_at_most_one_place(item.var))
                && mentions(out.indices, item.var)
        });
        // A product neither asks which elements were written nor notes those that it writes.
        let is_watched = accesses.iter().any(|at| self.notes_elements(at.buffer));
        if !even || is_watched || mentions(out.indices, product.along.var) {
            return None;
        }
        let of = |found: &Quantized, item: &Loop| {
            found.reads().iter().any(|at| mentions(at.indices, item.var))
        };
        let last = out.indices.last()?.as_scalar();
        let column = *product.loops.iter().find(|item| Some(item.var) == last)?;
        let rows = self.chain(&product.loops, &left, &|item| of(x, item) && !of(w, item));
        let is_inner =
            |item: &Loop| item.var == column.var || rows.iter().any(|row| row.var == item.var);
        let outer = product.loops.iter().filter(|item| !is_inner(item)).copied().collect();
        Some(Roles { outer, rows, column })
    }

    /// The format of the weights, as the prelude's macro takes it.
    fn rounded_product(&mut self, product: &RoundedProduct, roles: &Roles) -> Option<String> {
        let all: Vec<&Loop> = product.loops.iter().copied().chain([product.along]).collect();
        let entered = self.enter_all(&all)?;
        let stop = |item: &&Loop| entered.stops[&item.var].clone();
        for item in &roles.outer {
            self.open(item.var, &stop(item));
        }
        let before = self.lines.len();
        let rest = self
            .ranges
            .dim(&product.along.stop)
            .map(|terms| Dim::op(DimOp::FloorMod, terms, Dim::Int(BLOCK)));
        if !self.proves(rest, Relation::AtMost, Some(Dim::Int(0))) {
            return None;
        }
        let inner: Vec<ScalarId> =
            roles.rows.iter().chain([&roles.column, &product.along]).map(|item| item.var).collect();
        let row = roles.rows.last().map(|item| item.var);
        let column = roles.column.var;
        let (x, w) = (&product.activations, &product.weights);
        let term = product.along.var;
        let of_rows = |at: At| {
            let stride = row.map_or_else(|| "0".to_owned(), |row| self.stride(at, row));
            format!("{}, {stride}", self.first_of_terms(at, &inner, term))
        };
        let activations: Vec<String> = x.reads().into_iter().map(of_rows).collect();
        let weights = self.weights(w, &inner, (column, term));
        let format = self.block_format(w);
        let name = format.split(',').next().unwrap_or_default();
        let first = self.first_element(product.out, &inner);
        let out_row = row.map_or_else(|| "0".to_owned(), |row| self.stride(product.out, row));
        if self.lines.len() != before {
            return None;
        }
        let extents: Vec<String> = roles.rows.iter().map(stop).collect();
        let rows = crate::outline::total(&extents);
        let is_few = match self.rows_of_a_matrix(product.out, &roles.rows, &extents) {
            Some(each) => format!("{each} < RX_FEW"),
            // Rows of a batch may have become those of one matrix.
            None if self.is_batch_invariant => format!("{rows} <= {MOST_SEQUENCES}"),
            None => format!("{rows} < RX_FEW"),
        };
        let (columns, terms) = (stop(&roles.column), stop(&product.along));
        let threads = self.threads;
        let call = format!(
            "rx_product_rounded({threads}, &{name}, {name}_columns, {rows}, {is_few}, {columns}, {terms}, (rx_byte_rows){{{}}}, {weights}, {first}, {out_row})",
            activations.join(", ")
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        (0..roles.outer.len() + entered.conditions).for_each(|_| self.close());
        Some(format)
    }

    fn weights(
        &mut self,
        w: &Quantized,
        inner: &[ScalarId],
        (column, term): (ScalarId, ScalarId),
    ) -> String {
        let mut matrix = |at: At| {
            let bytes = self.program.buffer(at.buffer).dtype.size();
            let first = self.first_of_terms(at, inner, term);
            (first, self.stride(at, column), bytes)
        };
        let mut of_bytes = |at: At| {
            let (first, row, bytes) = matrix(at);
            format!("(const uint8_t *){first}, ({row}) * {bytes}")
        };
        let data = of_bytes(w.data);
        let high = w.high.map_or_else(|| "NULL, 0".to_owned(), of_bytes);
        let factors = in_places(w).map(|factor| match factor {
            None => "{NULL, 0}".to_owned(),
            Some(factor) => {
                let (first, row, _) = matrix(factor.at);
                format!("{{{first}, {row}}}")
            }
        });
        format!("(rx_quantized){{{data}, {high}, {{{}}}}}", factors.join(", "))
    }

    /// A name, then the fields of `rx_block_format`.
    fn block_format(&self, w: &Quantized) -> String {
        // The routine takes bytes as unsigned ones.
        let (flip, zero) = if w.is_signed { (128, w.zero + 128) } else { (0, w.zero) };
        let minimum = match &w.minimum {
            None => 0,
            Some(Minimum { is_subtracted: false, .. }) => 1,
            Some(Minimum { is_subtracted: true, .. }) => -1,
        };
        let kinds = in_places(w).map(|factor| {
            factor.map_or("NO_FACTOR", |factor| match self.program.buffer(factor.at.buffer).dtype {
                DType::F32 => "FACTOR_F32",
                DType::F16 => "FACTOR_F16",
                DType::U8 => "FACTOR_U8",
                _ => "FACTOR_I8",
            })
        });
        let terms = in_places(w).map(|factor| factor.map_or(BLOCK, |factor| factor.terms));
        let named = |(kind, terms): (&&str, &i64)| match kind.strip_prefix("FACTOR_") {
            None => "_0".to_owned(),
            Some(kind) => format!("_{}x{terms}", kind.to_ascii_lowercase()),
        };
        let sign = ["m", "", "p"][usize::try_from(minimum + 1).unwrap_or_default()];
        let name: String = kinds.iter().zip(&terms).map(named).collect();
        let (bits, group) = (w.bits, w.group());
        let kinds = kinds.map(|kind| format!("RX_{kind}")).join(", ");
        let terms = terms.map(|terms| terms.to_string()).join(", ");
        format!(
            "rx_blocks_{bits}_{flip}_{zero}{name}{sign}, {bits}, {group}, {flip}, {zero}, {minimum}, {{{kinds}}}, {{{terms}}}"
        )
    }

    /// As [`Self::first_element`], of an access whose last index is 0 at the first term.
    fn first_of_terms(&mut self, at: At, inner: &[ScalarId], term: ScalarId) -> String {
        let values = self.indices(at.indices);
        self.element(at.buffer, at.indices, values.clone());
        let starts = at.indices.iter().zip(values).map(|(index, text)| match index.as_scalar() {
            Some(var) if inner.contains(&var) => "0".to_owned(),
            _ if mentions(std::slice::from_ref(index), term) => "0".to_owned(),
            _ => text,
        });
        let starts: Vec<String> = starts.collect();
        let extents = self.extent_names(at.buffer);
        format!("&{}[{}]", self.buffers[&at.buffer], crate::checks::offset(&starts, &extents))
    }
}
