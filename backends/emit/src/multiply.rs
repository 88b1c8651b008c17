//! A product of matrices as a call of the prelude's: which loop goes over rows, which over columns, and how
//! far apart elements are. Only where every access is proved to be in bounds; else the loops stay loops.

use crate::OUT_OF_MEMORY;
use crate::expressions::grouped;
use crate::parallelize::{Plain, is_whole};
use crate::printer::Printer;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, TExpr};
use relax_tir::analysis::dependence::{Nest, are_independent};
use relax_tir::products::{At, Panels, Product, mentions};
use std::collections::BTreeMap;

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

impl Roles<'_> {
    /// The loops over elements of a product that has none around it, rows first.
    fn elements(&self) -> Vec<ScalarId> {
        self.rows.iter().copied().chain([self.column]).map(|item| item.var).collect()
    }

    /// Whether a nest goes over the same elements and does something with each.
    fn fits(&self, next: &Plain) -> bool {
        let own: Vec<&Loop> = self.rows.iter().copied().chain([self.column]).collect();
        let same = |(a, b): (&&Loop, &Loop)| is_whole(a) && a.start == b.start && a.stop == b.stop;
        self.outer.is_empty()
            && next.is_straight()
            && own.len() == next.loops.len()
            && own.iter().zip(next.loops).all(same)
    }
}

/// Loops that were entered as one.
#[derive(Default)]
pub(crate) struct Entered {
    /// The numbers of iterations, as C.
    pub(crate) stops: BTreeMap<ScalarId, String>,
    /// Conditions that are to be closed: what is inside of them runs where all loops before do.
    pub(crate) conditions: usize,
}

impl Printer<'_, '_> {
    /// Prints a statement as a call, if it is a product; else nothing.
    pub(crate) fn multiply(&mut self, stmt: &Stmt) -> bool {
        self.try_multiply(stmt, &[])
    }

    /// Prints a product, and as many of the statements after it as can be done with each block of it: the
    /// number of those.
    pub(crate) fn multiply_and(&mut self, stmt: &Stmt, after: &[Stmt]) -> Option<usize> {
        let product = Product::of(self.program, stmt)?;
        let roles = self.roles(&product)?;
        let first = Nest { vars: roles.elements(), stmt };
        let mut followers: Vec<Plain> = Vec::new();
        for stmt in after {
            let Some(next) = Plain::of(stmt).filter(|next| roles.fits(next)) else { break };
            followers.push(next);
            let others = followers.iter().map(|next| next.nest(next.loops.len()));
            let nests: Vec<Nest> = std::iter::once(first.clone()).chain(others).collect();
            if product.only_with_terms || !are_independent(&nests) {
                followers.pop();
                break;
            }
        }
        loop {
            if self.try_multiply(stmt, &followers) {
                return Some(followers.len());
            }
            followers.pop()?;
        }
    }

    /// How many loops there are around a product, if they are the outermost ones.
    pub(crate) fn loops_around(&self, product: &Product) -> Option<usize> {
        let outer = self.roles(product)?.outer;
        let leads = product.loops.iter().zip(&outer).all(|(a, b)| a.var == b.var);
        leads.then_some(outer.len())
    }

    fn try_multiply(&mut self, stmt: &Stmt, followers: &[Plain]) -> bool {
        let Some(product) = Product::of(self.program, stmt) else { return false };
        let Some(roles) = self.roles(&product) else { return false };
        let print = |printer: &mut Self| printer.product(&product, &roles, followers).then_some(());
        let printed = self.attempt(print).is_some();
        self.multiplies |= printed;
        printed
    }

    fn roles<'s>(&self, product: &Product<'s>) -> Option<Roles<'s>> {
        let [a, b] = product.factors;
        let along = product.along.var;
        let last = product.out.indices.last()?.as_scalar()?;
        let (left, right) = match (mentions(a.indices, last), mentions(b.indices, last)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        let column = *product.loops.iter().find(|item| item.var == last)?;
        let in_panels = right.panels().is_some_and(|panels| {
            let width = Some(Dim::Int(panels.width));
            panels.column == last
                && self.program.buffer(right.buffer).shape.last() == width.as_ref()
        });
        let own = |var| {
            let of_right = at_most_one_place(right, var) || (in_panels && var == last);
            of_right && [left, product.out].iter().all(|at| at_most_one_place(*at, var))
        };
        let vars = product.loops.iter().map(|item| item.var);
        // A product neither asks which elements were written nor notes those that it writes.
        let is_watched = [a, b, product.out].iter().any(|at| self.notes_elements(at.buffer));
        if !vars.chain([along]).all(own) || mentions(product.out.indices, along) || is_watched {
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
    pub(crate) fn follows(&self, accesses: &[At], outer: &Loop, inner: &Loop) -> bool {
        accesses.iter().all(|at| {
            let place = |var| at.indices.iter().position(|index| index.as_scalar() == Some(var));
            let (Some(first), Some(second)) = (place(outer.var), place(inner.var)) else {
                return false;
            };
            let extent = &self.program.buffer(at.buffer).shape[second];
            first + 1 == second && self.ranges.dim(&inner.stop).as_ref() == Some(extent)
        })
    }

    fn product(&mut self, product: &Product, roles: &Roles, followers: &[Plain]) -> bool {
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
        let done = self.finish(product, roles, followers);
        let Some(finish) = done else { return false };
        let threads = self.threads;
        let call = format!(
            "{guard}rx_product({threads}, {rows}, {columns}, {depth}, {left}, {right}, {out}, {out_row}, {finish})"
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        for _ in 0..around + entered.conditions {
            self.close();
        }
        true
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

    /// What is made of the sums, which lie where the result goes, block by block: a function and its frame, as
    /// arguments. `None` where something may stop it.
    fn finish(&mut self, product: &Product, roles: &Roles, followers: &[Plain]) -> Option<String> {
        if product.finish.is_none() && followers.is_empty() {
            return Some("NULL, NULL".to_owned());
        }
        let aside = self.leave();
        self.line("for (int64_t row = r0; row < r1; row++) {");
        self.indent += 1;
        let plain = self.finish_sums(product, roles);
        for next in followers {
            self.follow(next);
        }
        self.close();
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

    fn finish_sums(&mut self, product: &Product, roles: &Roles) -> bool {
        let Some((value, sum)) = &product.finish else { return true };
        self.open_block(&roles.rows, roles.column);
        let before = self.lines.len();
        let values = self.indices(product.out.indices);
        let at = self.element(product.out.buffer, product.out.indices, values);
        let own = format!("{}[{at}]", self.buffers[&product.out.buffer]);
        let known = self.replaced.len();
        self.replaced.push(sum.clone(), own.clone());
        let text = self.expr(value, DType::F32);
        self.replaced.truncate(known);
        let plain = self.lines.len() == before;
        self.line(&format!("{own} = {text};"));
        self.close();
        self.close();
        plain
    }

    /// A nest over the same elements.
    fn follow(&mut self, next: &Plain) {
        self.facts.push();
        let within = self.learned.clone();
        self.span = next.stmt.span;
        let (column, rows) = next.loops.split_last().expect("invariant: it fits the product");
        let rows: Vec<&Loop> = rows.iter().collect();
        self.open_block(&rows, column);
        for item in next.loops {
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
        }
        self.body(next.body);
        self.close();
        self.close();
        self.learned = within;
        self.facts.pop();
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

    /// `(rx_matrix){&X[…], 4, 1}`, or of panels `(rx_matrix){&P[…], 64, 1, 64 * k}`.
    pub(crate) fn matrix(
        &mut self,
        at: At,
        inner: &[ScalarId],
        row: Option<ScalarId>,
        column: Option<ScalarId>,
    ) -> String {
        let first = self.first_element(at, inner);
        if let Some(panels) = at.panels().filter(|panels| Some(panels.column) == column) {
            let next = self.extent_names(at.buffer).split_off(at.indices.len() - 2).join(" * ");
            return format!("(rx_matrix){{{first}, {}, 1, {next}}}", panels.width);
        }
        let stride =
            |var: Option<ScalarId>| var.map_or_else(|| "0".to_owned(), |var| self.stride(at, var));
        format!("(rx_matrix){{{first}, {}, {}}}", stride(row), stride(column))
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

/// Whether a loop variable is an index of its own, or none of them mentions it.
pub(crate) fn at_most_one_place(at: At, var: ScalarId) -> bool {
    let own = at.indices.iter().filter(|index| index.as_scalar() == Some(var)).count();
    let within = at.indices.iter().filter(|index| mentions(std::slice::from_ref(*index), var));
    own == within.count() && own <= 1
}
