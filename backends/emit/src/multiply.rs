//! A product of matrices as a call of the prelude's: which loop goes over rows, which over columns, and how
//! far apart elements are. Only where every access is proved to be in bounds; else the loops stay loops.

use crate::OUT_OF_MEMORY;
use crate::expressions::grouped;
use crate::printer::Printer;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::products::{At, Panels, Product, Roles, mentions};
use std::collections::BTreeMap;

/// Loops that were entered as one.
#[derive(Default)]
pub(crate) struct Entered {
    /// The numbers of iterations, as C.
    pub(crate) stops: BTreeMap<ScalarId, String>,
    /// Conditions that are to be closed: what is inside of them runs where all loops before do.
    pub(crate) conditions: usize,
}

impl Printer<'_, '_> {
    /// Prints a statement as a call, if it is a product; else nothing. Of a batch whose loops are `parallel` each product is a call within
    /// those.
    pub(crate) fn multiply(&mut self, stmt: &Stmt) -> bool {
        let Some(product) = Product::of(self.program, stmt) else { return false };
        let Some(roles) = Roles::of(self.program, &self.ranges, &product) else { return false };
        let is_parallel =
            matches!(&stmt.kind, StmtKind::For { kind: LoopKind::Parallel, .. }) && !self.is_cuda();
        // A product neither asks which elements were written nor notes those that it writes.
        let accesses = [roles.left, roles.right, product.out];
        let is_watched = accesses.iter().any(|at| self.notes_elements(at.buffer));
        if is_watched || (is_parallel && !roles.outer.is_empty()) {
            return false;
        }
        let print = |printer: &mut Self| printer.product(&product, &roles).then_some(());
        let printed = self.attempt(print).is_some();
        match product.dtype {
            DType::F64 => self.multiplies_f64 |= printed,
            _ => self.multiplies |= printed,
        }
        printed
    }

    fn product(&mut self, product: &Product, roles: &Roles) -> bool {
        let all: Vec<&Loop> = product.loops.iter().copied().chain([product.along]).collect();
        let Some(entered) = self.enter_all(&all) else { return false };
        let stop = |var: ScalarId| entered.stops[&var].clone();
        let around = roles.outer.len();
        for item in &roles.outer {
            self.open(item.var, &stop(item.var));
        }
        let before = self.lines.len();
        let inner: Vec<ScalarId> = roles
            .rows
            .iter()
            .chain([&roles.column])
            .chain([&product.along])
            .map(|l| l.var)
            .collect();
        let row = roles.rows.last().map(|item| item.var);
        let along = product.along.var;
        let prefix = if product.dtype == DType::F64 { "rx64" } else { "rx" };
        let left = self.matrix(prefix, roles.left, &inner, row, Some(along));
        let right = self.matrix(prefix, roles.right, &inner, Some(along), Some(roles.column.var));
        let out = self.first_element(product.out, &inner);
        let out_row = row.map_or_else(|| "0".to_owned(), |var| self.stride(product.out, var));
        if self.lines.len() != before {
            return false;
        }
        let rows: Vec<String> = roles.rows.iter().map(|item| stop(item.var)).collect();
        let each = self.rows_of_a_matrix(product.out, &roles.rows, &rows);
        let rows = if rows.is_empty() { "1".to_owned() } else { rows.join(" * ") };
        let (columns, depth) = (stop(roles.column.var), stop(along));
        let guard =
            if product.only_with_terms { format!("{depth} > 0 && ") } else { String::new() };
        let Some(finish) = self.finish(product, roles) else { return false };
        let threads = self.threads;
        let routine = match each.as_deref() {
            None => format!("{prefix}_product"),
            Some("1") => format!("{prefix}_product_rows"),
            Some(each) => format!("({each} == 1 ? {prefix}_product_rows : {prefix}_product)"),
        };
        let call = format!(
            "{guard}{routine}({threads}, {rows}, {columns}, {depth}, {left}, {right}, {out}, {out_row}, {finish})"
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        for _ in 0..around + entered.conditions {
            self.close();
        }
        true
    }

    /// How many rows a matrix of a batch has, as C, where the bits of a matrix may not depend on the others of its batch; `None` where
    /// all rows are of one matrix. The result has the batch first, then rows, then columns; a dim of 1 may have no loop.
    pub(crate) fn rows_of_a_matrix(
        &self,
        out: At,
        rows: &[&Loop],
        extents: &[String],
    ) -> Option<String> {
        let [leading @ .., _] = out.indices else { return None };
        if !self.is_batch_invariant || leading.len() < 2 {
            return None;
        }
        let vars = leading.iter().filter_map(TExpr::as_scalar);
        let is_whole = vars.eq(rows.iter().map(|item| item.var));
        match (leading.last()?, extents.last()) {
            (TExpr::Int(0), Some(_)) if is_whole => Some("1".to_owned()),
            (TExpr::Scalar(_), Some(last)) if is_whole && rows.len() > 1 => Some(last.clone()),
            _ => None,
        }
    }

    /// Enters loops, outermost first, that are independent of each other. `None` where one is not.
    pub(crate) fn enter_all(&mut self, loops: &[&Loop]) -> Option<Entered> {
        let mut entered = Entered::default();
        let mut asked = 0;
        for (at, item) in loops.iter().enumerate() {
            let stop = std::slice::from_ref(&item.stop);
            if loops.iter().any(|other| mentions(stop, other.var)) {
                return None;
            }
            let (mark, shared, learned) = (self.mark(), self.shared.len(), self.learned.clone());
            self.facts.push();
            let mut stop = self.index(&item.stop);
            self.facts.pop();
            if self.lines.len() != mark.lines() {
                // Nothing is known of what is asked once more.
                self.forget(mark);
                self.shared.truncate(shared);
                self.learned = learned;
                // How often an inner loop runs is not asked where one around it does not, and asking may stop.
                if at > 0 {
                    let runs = |item: &&Loop| format!("{} > 0", grouped(&entered.stops[&item.var]));
                    let around: Vec<String> = loops[asked..at].iter().map(runs).collect();
                    self.line(&format!("if ({}) {{", around.join(" && ")));
                    self.indent += 1;
                    entered.conditions += 1;
                    asked = at;
                }
                stop = self.index(&item.stop);
            }
            entered.stops.insert(item.var, stop);
        }
        for item in loops {
            self.ranges.enter(self.facts, item);
        }
        Some(entered)
    }

    /// The epilogue: what is made of the sums, which lie where the result goes, block by block. A function and its frame, as
    /// arguments; `None` where something may stop it.
    fn finish(&mut self, product: &Product, roles: &Roles) -> Option<String> {
        if product.finish.is_none() && product.tail.is_empty() {
            return Some("NULL, NULL".to_owned());
        }
        let aside = self.leave();
        self.line("for (int64_t row = r0; row < r1; row++) {");
        self.indent += 1;
        self.open_block(&roles.rows, roles.column);
        let plain = self.finish_sums(product);
        self.body(product.tail);
        (0..3).for_each(|_| self.close());
        let outlined = self.come_back(aside);
        let (name, used) = (self.part_name(), self.used(&outlined));
        if !plain || !outlined.is_plain() {
            return None;
        }
        let given = ["r0", "r1", "c0", "c1"].map(|name| ("int64_t", name));
        self.define_block(&name, &used, &given, &outlined);
        let values: String = used.iter().map(|shared| format!("{}, ", shared.name)).collect();
        let frame = self.names.fresh("frame");
        self.line(&format!("const struct {name}_frame {frame} = {{{values}0}};"));
        Some(format!("{name}_block, &{frame}"))
    }

    /// The rows of a product from the number of one, and its columns.
    fn open_block(&mut self, rows: &[&Loop], column: &Loop) {
        self.line("{");
        self.indent += 1;
        let mut rest = "row".to_owned();
        for (at, item) in rows.iter().enumerate().rev() {
            let (name, extent) = (self.scalars[&item.var].clone(), self.index(&item.stop));
            let value = if at == 0 { rest.clone() } else { format!("{rest} % {extent}") };
            self.line(&format!("const int64_t {name} = {value};"));
            rest = format!("({rest} / {extent})");
        }
        let name = self.scalars[&column.var].clone();
        self.line(&format!("for (int64_t {name} = c0; {name} < c1; {name}++) {{"));
        self.indent += 1;
    }

    /// Whether nothing else is printed on the way.
    fn finish_sums(&mut self, product: &Product) -> bool {
        let Some((value, sum)) = &product.finish else { return true };
        let before = self.lines.len();
        let values = self.indices(product.out.indices);
        let at = self.element(product.out.buffer, product.out.indices, values);
        let own = format!("{}[{at}]", self.buffers[&product.out.buffer]);
        let known = self.replaced.len();
        self.replaced.push(sum.clone(), own.clone());
        let text = self.expr(value, product.dtype);
        self.replaced.truncate(known);
        let plain = self.lines.len() == before;
        self.line(&format!("{own} = {text};"));
        plain
    }

    pub(crate) fn open(&mut self, var: ScalarId, stop: &str) {
        let name = self.scalars[&var].clone();
        self.share("int64_t", &name);
        self.line(&format!("for (int64_t {name} = 0; {name} < {stop}; {name}++) {{"));
        self.indent += 1;
    }

    pub(crate) fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    /// `(rx_matrix){&X[…], 4, 1}`, or of panels `(rx_matrix){&P[…], 64, 1, 64 * k}`; the name begins with `prefix`.
    pub(crate) fn matrix(
        &mut self,
        prefix: &str,
        at: At,
        inner: &[ScalarId],
        row: Option<ScalarId>,
        column: Option<ScalarId>,
    ) -> String {
        let first = self.first_element(at, inner);
        if let Some(panels) = at.panels().filter(|panels| Some(panels.column) == column) {
            let next = self.extent_names(at.buffer).split_off(at.indices.len() - 2).join(" * ");
            return format!("({prefix}_matrix){{{first}, {}, 1, {next}}}", panels.width);
        }
        let stride =
            |var: Option<ScalarId>| var.map_or_else(|| "0".to_owned(), |var| self.stride(at, var));
        format!("({prefix}_matrix){{{first}, {}, {}}}", stride(row), stride(column))
    }

    /// The element where the inner loops begin, all checks of the access made: lines where some is left.
    pub(crate) fn first_element(&mut self, at: At, inner: &[ScalarId]) -> String {
        let values = self.indices(at.indices);
        self.element(at.buffer, at.indices, values.clone());
        let in_panels = at.panels().filter(|panels| inner.contains(&panels.column));
        let of_panels = |index: &TExpr| {
            let mentioned = |panels: Panels| mentions(std::slice::from_ref(index), panels.column);
            in_panels.is_some_and(mentioned)
        };
        let starts = at.indices.iter().zip(values).map(|(index, text)| match index.as_scalar() {
            Some(var) if inner.contains(&var) => "0".to_owned(),
            _ if of_panels(index) => "0".to_owned(),
            _ => text,
        });
        let starts: Vec<String> = starts.collect();
        let extents = self.extent_names(at.buffer);
        let name = &self.buffers[&at.buffer];
        format!("&{name}[{}]", crate::checks::offset(&starts, &extents))
    }

    /// How far apart elements are along a loop.
    pub(crate) fn stride(&self, at: At, var: ScalarId) -> String {
        let Some(place) = at.indices.iter().position(|index| index.as_scalar() == Some(var)) else {
            return "0".to_owned();
        };
        let after = self.extent_names(at.buffer).split_off(place + 1);
        if after.is_empty() { "1".to_owned() } else { after.join(" * ") }
    }
}
