//! Loop parallelization: the iterations of the outermost nests are cut into chunks for threads where no loop carries a
//! dependence, and the nests that follow a product of matrices are fused with it block by block, while the block is in a cache.
//!
//! Iterations of one nest run in another order then, but an element is computed as before. A nest that may trap
//! stays alone: of its chunks the first one that traps reports, which is the first iteration that traps. Nests
//! run together only where none traps.

use crate::outline::{Shared, total};
use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::analysis::dependence::{Nest, are_independent};
use relax_tir::dims::as_dim;
use relax_tir::index_bounds::assume;
use relax_tir::products::Product;
use relax_tir::unique_bindings::are_same_but_names;

/// What an element function costs, in operations.
const CALL: usize = 8;

/// A nest whose loops begin at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'s> {
    pub(crate) loops: &'s [Loop],
    pub(crate) body: &'s [Stmt],
    pub(crate) stmt: &'s Stmt,
}

impl<'s> Plain<'s> {
    pub(crate) fn of(stmt: &'s Stmt) -> Option<Self> {
        let StmtKind::For { loops, kind, body } = &stmt.kind else { return None };
        if !kind.is_sequential() {
            return None;
        }
        let allocates = |stmt: &Stmt| {
            let mut found = false;
            visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
                found |= matches!(stmt.kind, StmtKind::Alloc(_));
            });
            found
        };
        (!allocates(stmt)).then_some(Self { loops, body, stmt })
    }

    pub(crate) fn nest(&self, count: usize) -> Nest<'s> {
        let vars = self.loops[..count].iter().map(|item| item.var).collect();
        Nest { vars, stmt: self.stmt }
    }

    /// Whether one statement after the other is all there is in the loops.
    pub(crate) fn is_straight(&self) -> bool {
        let stores =
            |stmt: &Stmt| matches!(stmt.kind, StmtKind::Store { .. } | StmtKind::Let { .. });
        self.body.iter().all(stores)
    }

    /// How many loops, from the outermost on, begin at 0 and have literals and dims alone as their bounds.
    fn whole(&self) -> usize {
        let of_dims = |item: &&Loop| item.start == TExpr::Int(0) && as_dim(&item.stop).is_some();
        self.loops.iter().take_while(of_dims).count()
    }

    /// The nest within its first loops.
    fn within(&self, count: usize) -> Stmt {
        let loops = self.loops[count..].to_vec();
        let kind = StmtKind::For { loops, kind: LoopKind::Grid, body: self.body.to_vec() };
        Stmt { kind, span: self.stmt.span }
    }
}

pub(crate) fn is_whole(item: &Loop) -> bool {
    item.start == TExpr::Int(0) && matches!(item.stop, TExpr::Int(_) | TExpr::Dim(_))
}

impl Printer<'_, '_> {
    /// The statements of the program itself.
    pub(crate) fn outermost(&mut self, statements: &[Stmt]) {
        let binds = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let { .. });
        // Maps of the program's own are not at hand in parts.
        let is_own = |buffer: &BufferId| !self.program.is_param(*buffer);
        let spreads = !self.watched.keys().any(is_own) && !statements.iter().any(binds);
        self.nests(statements, spreads);
    }

    /// One after the other, on threads where a nest `spreads`.
    fn nests(&mut self, statements: &[Stmt], spreads: bool) {
        self.facts.push();
        let within = self.learned.clone();
        let mut rest = statements;
        while let [stmt, after @ ..] = rest {
            self.span = stmt.span;
            self.take_steps(stmt);
            if spreads && self.versions(stmt) {
                rest = after;
                continue;
            }
            let more = if spreads { self.spread(stmt, after) } else { None };
            if more.is_none() {
                self.stmt(stmt);
            }
            let (with, later) = after.split_at(more.unwrap_or(0));
            // They have the loops of the first statement.
            with.iter().for_each(|stmt| self.take_steps(stmt));
            rest = later;
        }
        self.learned = within;
        self.facts.pop();
    }

    /// Prints both versions of a nest, if a statement is a choice between them.
    fn versions(&mut self, stmt: &Stmt) -> bool {
        let StmtKind::If { condition, then, otherwise } = &stmt.kind else { return false };
        if !are_same_but_names(then, otherwise) {
            return false;
        }
        let text = self.expr(condition, DType::Bool);
        self.line(&format!("if ({text}) {{"));
        self.facts.push();
        assume(&self.ranges, self.facts, condition);
        self.indent += 1;
        self.nests(then, true);
        self.indent -= 1;
        self.facts.pop();
        self.line("} else {");
        self.indent += 1;
        let outer = std::mem::replace(&mut self.is_out_of_range, true);
        self.nests(otherwise, true);
        self.is_out_of_range = outer;
        self.close();
        true
    }

    /// Prints a nest as parts, or a product, with as many of the statements after it as it gives.
    fn spread(&mut self, stmt: &Stmt, after: &[Stmt]) -> Option<usize> {
        let first = Plain::of(stmt)?;
        let any_order = self.sums == Numerics::Reassociated && !self.takes_steps_within(stmt);
        if any_order
            && let Some(product) = Product::of(self.program, stmt)
            && let Some(outer) = self.loops_around(&product)
        {
            return if outer == 0 {
                self.multiply_and(stmt, after)
            } else {
                self.spread_products(first, outer, after)
            };
        }
        if any_order && (self.rounded(stmt) || self.fill(stmt)) {
            return Some(0);
        }
        let mut count = first.whole();
        while count > 0 && !are_independent(&[first.nest(count)]) {
            count -= 1;
        }
        if count > 1 && count == first.loops.len() && first.is_straight() {
            count -= 1;
        }
        (count > 0 && self.part(&[first], count)).then_some(0)
    }

    /// Products in a loop, and what follows in the same loops.
    fn spread_products(&mut self, first: Plain, outer: usize, after: &[Stmt]) -> Option<usize> {
        let mut group = vec![first];
        for stmt in after {
            let Some(next) = Plain::of(stmt) else { break };
            let same = next.loops.len() >= outer
                && first.loops[..outer]
                    .iter()
                    .zip(next.loops)
                    .all(|(a, b)| is_whole(a) && a.start == b.start && a.stop == b.stop);
            group.push(next);
            let nests: Vec<Nest> =
                if same { group.iter().map(|nest| nest.nest(outer)).collect() } else { Vec::new() };
            if nests.is_empty() || !are_independent(&nests) {
                group.pop();
                break;
            }
        }
        while !group.is_empty() && first.whole() >= outer {
            if are_independent(&[first.nest(outer)]) && self.part(&group, outer) {
                return Some(group.len() - 1);
            }
            group.pop();
        }
        None
    }

    /// Prints nests in one loop over the iterations of their first loops, as a part for threads. Several of
    /// them only where nothing but a lack of memory stops one.
    fn part(&mut self, nests: &[Plain], count: usize) -> bool {
        let kept = self.mark();
        let extents: Vec<String> =
            nests[0].loops[..count].iter().map(|item| self.iterations(item)).collect();
        let aside = self.leave();
        let sites = self.sites.len();
        self.line("if (from >= to) return 0;");
        let range = ("from".to_owned(), "to".to_owned());
        let is_split = match nests {
            [Plain { loops: [item], body, .. }] => self.guarded_loop(item, &range, body),
            _ => false,
        };
        if !is_split {
            self.iterations_of(nests, count, &extents);
        }
        let outlined = self.come_back(aside);
        let stops = |site: &crate::Site| site.trap.as_str() != crate::OUT_OF_MEMORY;
        if nests.len() > 1 && self.sites[sites..].iter().any(stops) {
            self.forget(kept);
            return false;
        }
        let (name, used) = (self.part_name(), self.used(&outlined));
        self.define_part(&name, &used, &outlined);
        let work: Vec<String> = nests.iter().map(|nest| self.work(&[nest.within(count)])).collect();
        self.call_part(&name, &used, &total(&extents), &work.join(" + "));
        true
    }

    /// One loop over the iterations of the first loops of nests.
    fn iterations_of(&mut self, nests: &[Plain], count: usize, extents: &[String]) {
        let vars: Vec<ScalarId> = nests[0].loops[..count].iter().map(|item| item.var).collect();
        self.odometer(&vars, extents);
        for nest in nests {
            self.iteration(nest, count, &vars);
        }
        self.turn(&vars, extents);
    }

    /// The number of iterations of a loop that begins at 0. That of computed bounds is 0 where they are negative, as two negative ones
    /// have a product that is not.
    fn iterations(&mut self, item: &Loop) -> String {
        let stop = self.bound(&item.stop, "stop");
        let is_size = matches!(item.stop, TExpr::Int(0..) | TExpr::Dim(_));
        let dim = self.ranges.dim(&item.stop);
        if is_size || self.proves(Some(Dim::Int(0)), Relation::AtMost, dim) {
            return stop;
        }
        let name = self.names.fresh("extent");
        self.line(&format!("const int64_t {name} = {stop} > 0 ? {stop} : 0;"));
        self.share("int64_t", &name);
        name
    }

    /// Loop variables from the number of an iteration.
    fn odometer(&mut self, vars: &[ScalarId], extents: &[String]) {
        let names: Vec<String> = vars.iter().map(|var| self.scalars[var].clone()).collect();
        if let [name] = names.as_slice() {
            self.line(&format!("for (int64_t {name} = from; {name} < to; {name}++) {{"));
            self.indent += 1;
            return;
        }
        let mut rest = "from".to_owned();
        for (name, extent) in names.iter().zip(extents).skip(1).rev() {
            self.line(&format!("int64_t {name} = {rest} % {extent};"));
            rest = format!("({rest} / {extent})");
        }
        self.line(&format!("int64_t {} = {rest};", names[0]));
        self.line("for (; from < to; from++) {");
        self.indent += 1;
    }

    /// To the next iteration.
    fn turn(&mut self, vars: &[ScalarId], extents: &[String]) {
        let names: Vec<String> = vars.iter().map(|var| self.scalars[var].clone()).collect();
        if names.len() > 1 {
            let carried = names.iter().zip(extents).skip(1).rev();
            let conditions: Vec<String> =
                carried.map(|(name, extent)| format!("++{name} == {extent}")).collect();
            let mut text = String::new();
            for (at, condition) in conditions.iter().enumerate() {
                let name = &names[names.len() - 1 - at];
                text.push_str(&format!("if ({condition}) {{ {name} = 0; "));
            }
            text.push_str(&format!("{}++; {}", names[0], "}".repeat(conditions.len())));
            self.line(&text);
        }
        self.indent -= 1;
        self.line("}");
    }

    /// One nest within its first loops, which are those of the first nest.
    fn iteration(&mut self, nest: &Plain, count: usize, vars: &[ScalarId]) {
        self.facts.push();
        let (within, shared) = (self.learned.clone(), self.shared.len());
        self.span = nest.stmt.span;
        self.line("{");
        self.indent += 1;
        for (item, var) in nest.loops[..count].iter().zip(vars) {
            if item.var != *var {
                let (own, first) = (self.scalars[&item.var].clone(), self.scalars[var].clone());
                self.line(&format!("const int64_t {own} = {first};"));
            }
            let own = self.scalars[&item.var].clone();
            self.share("int64_t", &own);
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
            self.starts.insert(item.var, "0".to_owned());
        }
        if nest.loops.len() > count {
            self.stmt(&nest.within(count));
        } else {
            self.body(nest.body);
        }
        self.close();
        self.shared.truncate(shared);
        self.learned = within;
        self.facts.pop();
    }

    pub(crate) fn part_name(&mut self) -> String {
        self.parts += 1;
        format!("rx_{}_{}", self.symbol, self.parts)
    }

    /// About how many operations statements are, as C.
    fn work(&self, statements: &[Stmt]) -> String {
        let each = statements.iter().map(|stmt| match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                let mut text = String::new();
                for item in loops {
                    let extent = match &item.stop {
                        TExpr::Int(value) => format!("(double){value}"),
                        stop => self.known_at_call(stop).unwrap_or_else(|| "16.0".to_owned()),
                    };
                    text.push_str(&format!("{extent} * "));
                }
                text + &format!("({})", self.work(body))
            }
            StmtKind::Block { init, body, .. } => {
                format!("{} + {}", self.work(init), self.work(body))
            }
            StmtKind::If { then, otherwise, .. } => {
                format!("{} + {}", self.work(then), self.work(otherwise))
            }
            _ => {
                let mut calls = 0;
                let mut count =
                    |part: &TExpr| calls += usize::from(matches!(part, TExpr::Call(..)));
                visit_own(stmt, &mut |expr| visit(expr, &mut count));
                (1 + CALL * calls).to_string()
            }
        });
        let each: Vec<String> = each.collect();
        if each.is_empty() { "0".to_owned() } else { each.join(" + ") }
    }

    /// The parameters of the kernel, as parts share them.
    pub(crate) fn share_parameters(&mut self, parameters: &[(String, String)]) {
        let shared = parameters.iter().cloned();
        self.shared = shared.map(|(of, name)| Shared { of, name }).collect();
    }
}

#[cfg(test)]
mod tests {
    use crate::print_c;
    use relax_program::frontend::Program;
    use relax_runtime::program::Numerics;
    use relax_symbolic::Prover;
    use relax_syntax::span::Source;

    /// The C code, without comments, of a kernel whose outermost loop is of this kind.
    fn code(kind: &str, body: &str) -> String {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"n\", \"m\"), \"f32\"), Y: Buffer((\"n\", \"m\"), \"f32\")):\n    \
                 for i in {kind}(n):\n        \
                     for j in serial(m):\n            {body}\n"
        );
        let module = Program::load(Source::new("rows", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        let lines = source.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn has_threads(code: &str) -> bool {
        code.contains("threads->run(")
    }

    #[test]
    fn a_parallel_loop_runs_on_threads_as_a_serial_one_does() {
        for body in
            ["Y[i, j] = X[i, j] * 2.0", "Y[i, j] = X[i, m - 1 - j] + 1.0", "Y[i, 0] = X[i, j]"]
        {
            let parallel = code("parallel", body);
            assert!(has_threads(&parallel), "{body}");
            assert_eq!(parallel, code("serial", body));
        }
    }

    #[test]
    fn a_parallel_loop_that_carries_a_dependence_gets_no_threads() {
        for body in [
            "Y[0, j] += X[i, j]",
            "Y[i, j] = Y[max(i - 1, 0), j] + X[i, j]",
            "Y[i // 2, j] = X[i, j]",
        ] {
            assert!(!has_threads(&code("parallel", body)), "{body}");
        }
    }

    #[test]
    fn loops_that_fix_how_they_run_get_no_threads() {
        for kind in ["vectorized", "unroll"] {
            assert!(!has_threads(&code(kind, "Y[i, j] = X[i, j]")), "{kind}");
        }
    }
}
