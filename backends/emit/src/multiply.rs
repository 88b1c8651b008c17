//! A product of matrices as a call of the prelude's: which loop goes over rows, which over columns, and how
//! far apart elements are. Only where every access is proved to be in bounds; else the loops stay loops.

use crate::OUT_OF_MEMORY;
use crate::printer::Printer;
use crate::products::{At, Product, mentions};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, TExpr};

/// Which loops are which.
#[derive(Clone, Debug)]
struct Roles<'s> {
    left: At<'s>,
    right: At<'s>,
    /// Around the call.
    outer: Vec<&'s Loop>,
    /// Over rows, outermost first, which together step through the left matrix evenly.
    rows: Vec<&'s Loop>,
    column: &'s Loop,
}

impl Printer<'_, '_> {
    /// Prints a statement as a call, if it is a product; else nothing.
    pub(crate) fn multiply(&mut self, stmt: &Stmt) -> bool {
        let Some(product) = Product::of(self.program, stmt) else { return false };
        let Some(roles) = self.roles(&product) else { return false };
        let kept = (self.lines.len(), self.sites.len(), self.checks, self.may_stop);
        let outside = self.within.clone();
        self.facts.push();
        let printed = self.product(&product, &roles);
        self.facts.pop();
        self.within = outside;
        if !printed {
            self.lines.truncate(kept.0);
            self.sites.truncate(kept.1);
            (self.checks, self.may_stop) = (kept.2, kept.3);
        }
        self.multiplies |= printed;
        printed
    }

    fn roles<'s>(&self, product: &Product<'s>) -> Option<Roles<'s>> {
        let [a, b] = product.factors;
        let along = product.along.var;
        let last = lone(product.out.indices.last()?)?;
        let (left, right) = match (mentions(a.indices, last), mentions(b.indices, last)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        let column = *product.loops.iter().find(|item| item.var == last)?;
        let every = [left, right, product.out];
        let own = |var| every.iter().all(|at| at_most_one_place(*at, var));
        let vars = product.loops.iter().map(|item| item.var);
        if !vars.chain([along]).all(own) || mentions(product.out.indices, along) {
            return None;
        }
        let written = |item: &&Loop| mentions(product.out.indices, item.var);
        if !product.loops.iter().all(written) {
            return None;
        }
        let of_rows =
            |item: &Loop| mentions(left.indices, item.var) && !mentions(right.indices, item.var);
        let mut rows: Vec<&Loop> = Vec::new();
        for item in product.loops.iter().rev().filter(|item| item.var != last) {
            let inner = rows.first().copied();
            let fits = inner.is_none_or(|inner| self.follows(&[left, product.out], item, inner));
            if of_rows(item) && fits {
                rows.insert(0, item);
            }
        }
        let outer = product.loops.iter().copied();
        let outer = outer
            .filter(|item| item.var != last && rows.iter().all(|row| row.var != item.var))
            .collect();
        Some(Roles { left, right, outer, rows, column })
    }

    /// Whether in both accesses a step of `outer` is a whole round of `inner`.
    fn follows(&self, accesses: &[At], outer: &Loop, inner: &Loop) -> bool {
        accesses.iter().all(|at| {
            let place = |var| at.indices.iter().position(|index| lone(index) == Some(var));
            let (Some(first), Some(second)) = (place(outer.var), place(inner.var)) else {
                return false;
            };
            let extent = &self.program.buffer(at.buffer).shape[second];
            first + 1 == second && self.ranges.dim(&inner.stop).as_ref() == Some(extent)
        })
    }

    fn product(&mut self, product: &Product, roles: &Roles) -> bool {
        let all = || product.loops.iter().copied().chain([product.along]);
        let mut stops = Vec::new();
        for item in all() {
            if !matches!(item.stop, TExpr::Int(_) | TExpr::Dim(_)) {
                return false;
            }
            stops.push((item.var, self.index(&item.stop)));
        }
        for item in all() {
            self.ranges.enter(self.facts, item);
        }
        let stop = |var: ScalarId| {
            let found = stops.iter().find(|(other, _)| *other == var);
            found.map_or_else(String::new, |(_, text)| text.clone())
        };
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
        let left = self.matrix(roles.left, &inner, row, Some(along));
        let right = self.matrix(roles.right, &inner, Some(along), Some(roles.column.var));
        let out = self.first_element(product.out, &inner);
        let out_row = row.map_or_else(|| "0".to_owned(), |var| self.stride(product.out, var));
        if self.lines.len() != before {
            return false;
        }
        let rows: Vec<String> = roles.rows.iter().map(|item| stop(item.var)).collect();
        let rows = if rows.is_empty() { "1".to_owned() } else { rows.join(" * ") };
        let (columns, depth) = (stop(roles.column.var), stop(along));
        let guard =
            if product.only_with_terms { format!("{depth} > 0 && ") } else { String::new() };
        let call = format!(
            "{guard}rx_product({rows}, {columns}, {depth}, {left}, {right}, {out}, {out_row})"
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        let done = self.finish(product, roles, &stop);
        for _ in 0..around {
            self.close();
        }
        done
    }

    /// What is made of each sum, which lies where the result goes.
    fn finish(
        &mut self,
        product: &Product,
        roles: &Roles,
        stop: &dyn Fn(ScalarId) -> String,
    ) -> bool {
        let Some((value, sum)) = &product.finish else { return true };
        for item in roles.rows.iter().chain([&roles.column]) {
            self.open(item.var, &stop(item.var));
        }
        let before = self.lines.len();
        let values = self.indices(product.out.indices);
        let at = self.element(product.out.buffer, product.out.indices, values);
        let own = format!("{}[{at}]", self.buffers[&product.out.buffer]);
        self.replaced = Some((sum.clone(), own.clone()));
        let text = self.expr(value, DType::F32);
        self.replaced = None;
        let plain = self.lines.len() == before;
        self.line(&format!("{own} = {text};"));
        for _ in 0..=roles.rows.len() {
            self.close();
        }
        plain
    }

    pub(crate) fn open(&mut self, var: ScalarId, stop: &str) {
        let name = self.scalars[&var].clone();
        self.line(&format!("for (int64_t {name} = 0; {name} < {stop}; {name}++) {{"));
        self.indent += 1;
    }

    pub(crate) fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    /// `(rx_matrix){&X[…], 4, 1}`
    fn matrix(
        &mut self,
        at: At,
        inner: &[ScalarId],
        row: Option<ScalarId>,
        column: Option<ScalarId>,
    ) -> String {
        let first = self.first_element(at, inner);
        let stride =
            |var: Option<ScalarId>| var.map_or_else(|| "0".to_owned(), |var| self.stride(at, var));
        format!("(rx_matrix){{{first}, {}, {}}}", stride(row), stride(column))
    }

    /// The element where the inner loops begin, all checks of the access made: lines where some is left.
    fn first_element(&mut self, at: At, inner: &[ScalarId]) -> String {
        let values = self.indices(at.indices);
        self.element(at.buffer, at.indices, values.clone());
        let starts = at.indices.iter().zip(values).map(|(index, text)| match lone(index) {
            Some(var) if inner.contains(&var) => "0".to_owned(),
            _ => text,
        });
        let starts: Vec<String> = starts.collect();
        let extents = self.extent_names(at.buffer);
        let name = &self.buffers[&at.buffer];
        format!("&{name}[{}]", crate::checks::offset(&starts, &extents))
    }

    /// How far apart elements are along a loop.
    fn stride(&self, at: At, var: ScalarId) -> String {
        let Some(place) = at.indices.iter().position(|index| lone(index) == Some(var)) else {
            return "0".to_owned();
        };
        let after = self.extent_names(at.buffer).split_off(place + 1);
        if after.is_empty() { "1".to_owned() } else { after.join(" * ") }
    }
}

fn lone(index: &TExpr) -> Option<ScalarId> {
    if let TExpr::Scalar(var) = index { Some(*var) } else { None }
}

/// Whether a loop variable is an index of its own, or none of them mentions it.
fn at_most_one_place(at: At, var: ScalarId) -> bool {
    let own = at.indices.iter().filter(|index| lone(index) == Some(var)).count();
    let within = at.indices.iter().filter(|index| mentions(std::slice::from_ref(*index), var));
    own == within.count() && own <= 1
}
