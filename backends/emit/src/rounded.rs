//! Products of rows of bytes with quantized weights, as calls of a routine of the prelude that sums integers by blocks: the dot
//! instructions of processors take bytes. Only where sums of floats may be formed in any order, and where no access may trap.

use crate::OUT_OF_MEMORY;
use crate::multiply::at_most_one_place;
use crate::printer::Printer;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, TExpr};
use relax_tir::products::{At, SumOfProducts, mentions};
use relax_tir::quantized::{BLOCK, Quantized, RoundedProduct};

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
        let printed = self.attempt(print).is_some();
        self.rounds |= printed;
        printed
    }

    fn rounded_roles<'s>(&self, product: &RoundedProduct<'s>) -> Option<Roles<'s>> {
        let RoundedProduct { activations: x, weights: w, out, .. } = product;
        let accesses = [x.data, x.scale, w.data, w.scale, *out];
        let even = product.loops.iter().all(|item| {
            item.start == TExpr::Int(0)
                && accesses.iter().all(|at| at_most_one_place(*at, item.var))
                && mentions(out.indices, item.var)
        });
        // A product neither asks which elements were written nor notes those that it writes.
        let is_watched = accesses.iter().any(|at| self.notes_elements(at.buffer));
        if !even || is_watched || mentions(out.indices, product.along.var) {
            return None;
        }
        let of = |found: &Quantized, item: &Loop| {
            mentions(found.data.indices, item.var) || mentions(found.scale.indices, item.var)
        };
        let last = out.indices.last()?.as_scalar();
        let column = *product.loops.iter().find(|item| Some(item.var) == last)?;
        let left = [x.data, x.scale, *out];
        let rows = self.chain(&product.loops, &left, &|item| of(x, item) && !of(w, item));
        let is_inner =
            |item: &Loop| item.var == column.var || rows.iter().any(|row| row.var == item.var);
        let outer = product.loops.iter().filter(|item| !is_inner(item)).copied().collect();
        Some(Roles { outer, rows, column })
    }

    fn rounded_product(&mut self, product: &RoundedProduct, roles: &Roles) -> Option<()> {
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
        let activations = [x.data, x.scale].map(|at| {
            let stride = row.map_or_else(|| "0".to_owned(), |row| self.stride(at, row));
            format!("{}, {stride}", self.first_of_terms(at, &inner, product.along.var))
        });
        let weights = self.weights(w, &inner, (column, product.along.var));
        let first = self.first_element(product.out, &inner);
        let out_row = row.map_or_else(|| "0".to_owned(), |row| self.stride(product.out, row));
        if self.lines.len() != before {
            return None;
        }
        let rows = crate::outline::total(&roles.rows.iter().map(stop).collect::<Vec<_>>());
        let (columns, terms) = (stop(&roles.column), stop(&product.along));
        let threads = self.threads;
        let call = format!(
            "rx_product_rounded({threads}, {rows}, {columns}, ({terms}) / {BLOCK}, (rx_byte_rows){{{}}}, {weights}, {first}, {out_row})",
            activations.join(", ")
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        (0..roles.outer.len() + entered.conditions).for_each(|_| self.close());
        Some(())
    }

    fn weights(
        &mut self,
        w: &Quantized,
        inner: &[ScalarId],
        (column, term): (ScalarId, ScalarId),
    ) -> String {
        let dtype = |at: At| self.program.buffer(at.buffer).dtype;
        let (bytes, is_half) = (dtype(w.data).size(), dtype(w.scale) == DType::F16);
        let [data, scale] = [w.data, w.scale].map(|at| self.first_of_terms(at, inner, term));
        let [data_row, scale_row] = [w.data, w.scale].map(|at| self.stride(at, column));
        // The routine takes bytes as unsigned ones.
        let (flip, zero) = if w.is_signed { (128, w.zero + 128) } else { (0, w.zero) };
        format!(
            "(rx_quantized){{(const uint8_t *){data}, ({data_row}) * {bytes}, {scale}, {scale_row}, {}, {flip}, {zero}, {}}}",
            w.bits,
            i32::from(is_half)
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
