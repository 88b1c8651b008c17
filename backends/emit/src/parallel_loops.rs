//! `parallel` loops as threads: a function over a range of iterations, called by each thread with its chunk. Loops that are `parallel`
//! directly within each other are one range.
//!
//! Iterations carry no dependence, which `parallelize_loops` proved, so an element is computed as before. A loop that may trap reports
//! alike: of its chunks the first one that traps reports, which is the first iteration that traps.

use crate::outline::{Shared, total};
use crate::printer::Printer;
use relax_semantics::tir::walk::{visit, visit_own};
use relax_syntax::dim::Dim;
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::products::mentions;

/// What an element function costs, in operations.
const CALL: usize = 8;

/// Loops that are `parallel` directly within each other, whose bounds do not depend on each other.
struct ParallelNest<'s> {
    loops: Vec<&'s Loop>,
    body: &'s [Stmt],
}

impl<'s> ParallelNest<'s> {
    fn of(stmt: &'s Stmt) -> Option<Self> {
        let mut found = Self { loops: Vec::new(), body: std::slice::from_ref(stmt) };
        while let [Stmt { kind: StmtKind::For { loops, kind: LoopKind::Parallel, body }, .. }] =
            found.body
        {
            let bounds = loops.iter().flat_map(|item| [item.start.clone(), item.stop.clone()]);
            let bounds: Vec<TExpr> = bounds.collect();
            if found.loops.iter().any(|item| mentions(&bounds, item.var)) {
                break;
            }
            found.loops.extend(loops);
            found.body = body;
        }
        (!found.loops.is_empty()).then_some(found)
    }
}

/// How iterations of one loop are counted in C.
struct Counter {
    var: ScalarId,
    /// The number of an iteration, from 0 on: the variable itself where the loop begins there.
    name: String,
    extent: String,
    start: String,
}

impl Counter {
    fn begins_at_0(&self, printer: &Printer) -> bool {
        self.name == printer.scalars[&self.var]
    }
}

impl Printer<'_, '_> {
    /// Prints a `parallel` loop so, where threads are at hand: not within another one.
    pub(crate) fn parallel_loop(&mut self, stmt: &Stmt) -> bool {
        if self.is_cuda() || self.threads != "threads" {
            return false;
        }
        let Some(nest) = ParallelNest::of(stmt) else { return false };
        let counted: Vec<Counter> = nest.loops.iter().map(|item| self.counter(item)).collect();
        let aside = self.leave();
        self.line("if (from >= to) return 0;");
        let range = ("from".to_owned(), "to".to_owned());
        let is_split = match (nest.loops.as_slice(), counted.as_slice()) {
            ([item], [counter]) if counter.begins_at_0(self) => {
                self.guarded_loop(item, &range, nest.body)
            }
            _ => false,
        };
        if !is_split {
            self.odometer(&counted);
            self.iteration(&nest, &counted);
            self.turn(&counted);
        }
        let outlined = self.come_back(aside);
        let (name, used) = (self.part_name(), self.used(&outlined));
        self.define_part(&name, &used, &outlined);
        let extents: Vec<String> = counted.into_iter().map(|counter| counter.extent).collect();
        let work = self.work(nest.body);
        self.call_part(&name, &used, &total(&extents), &work);
        true
    }

    fn counter(&mut self, item: &Loop) -> Counter {
        let own = self.scalars[&item.var].clone();
        if item.start == TExpr::Int(0) {
            let extent = self.iterations(item, None);
            return Counter { var: item.var, name: own, extent, start: "0".to_owned() };
        }
        let start = self.bound(&item.start, "start");
        let extent = self.iterations(item, Some(&start));
        Counter { var: item.var, name: self.names.fresh("at"), extent, start }
    }

    /// The number of iterations of a loop. That of computed bounds is 0 where they are negative, as two negative ones have a product that
    /// is not.
    fn iterations(&mut self, item: &Loop, start: Option<&str>) -> String {
        let stop = self.bound(&item.stop, "stop");
        if start.is_none() {
            let is_size = matches!(item.stop, TExpr::Int(0..) | TExpr::Dim(_));
            let dim = self.ranges.dim(&item.stop);
            if is_size || self.proves(Some(Dim::Int(0)), Relation::AtMost, dim) {
                return stop;
            }
        }
        let start = start.unwrap_or("0");
        let name = self.names.fresh("extent");
        // Unsigned: a difference beyond i64 is that of a loop which no machine finishes, but must not be undefined.
        let difference = format!("(int64_t)((uint64_t){stop} - (uint64_t){start})");
        self.line(&format!("const int64_t {name} = {stop} > {start} ? {difference} : 0;"));
        self.share("int64_t", &name);
        name
    }

    /// Loop variables from the number of an iteration.
    fn odometer(&mut self, counted: &[Counter]) {
        if let [Counter { name, .. }] = counted {
            self.line(&format!("for (int64_t {name} = from; {name} < to; {name}++) {{"));
            self.indent += 1;
            return;
        }
        let mut rest = "from".to_owned();
        for Counter { name, extent, .. } in counted.iter().skip(1).rev() {
            self.line(&format!("int64_t {name} = {rest} % {extent};"));
            rest = format!("({rest} / {extent})");
        }
        self.line(&format!("int64_t {} = {rest};", counted[0].name));
        self.line("for (; from < to; from++) {");
        self.indent += 1;
    }

    /// To the next iteration.
    fn turn(&mut self, counted: &[Counter]) {
        if counted.len() > 1 {
            let mut text = String::new();
            for Counter { name, extent, .. } in counted.iter().skip(1).rev() {
                text.push_str(&format!("if (++{name} == {extent}) {{ {name} = 0; "));
            }
            let first = &counted[0].name;
            text.push_str(&format!("{first}++; {}", "}".repeat(counted.len() - 1)));
            self.line(&text);
        }
        self.close();
    }

    fn iteration(&mut self, nest: &ParallelNest, counted: &[Counter]) {
        self.facts.push();
        let (within, shared) = (self.learned.clone(), self.shared.len());
        self.line("{");
        self.indent += 1;
        for (item, counter) in nest.loops.iter().zip(counted) {
            let own = self.scalars[&item.var].clone();
            if !counter.begins_at_0(self) {
                let (start, at) = (&counter.start, &counter.name);
                self.line(&format!("const int64_t {own} = {start} + {at};"));
            }
            self.share("int64_t", &own);
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
            self.starts.insert(item.var, counter.start.clone());
        }
        self.body(nest.body);
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

    /// The C code, without comments, of a kernel with these statements.
    fn code(body: &str) -> String {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"n\", \"m\"), \"f32\"), Y: Buffer((\"n\", \"m\"), \"f32\")):\n{body}"
        );
        let module = Program::load(Source::new("rows", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        let lines = source.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn parts(body: &str) -> usize {
        code(body).matches("threads->run(").count()
    }

    #[test]
    fn parallel_loops_run_on_threads_and_no_others_do() {
        let rows = |kind: &str| {
            parts(&format!(
                "    for i in {kind}(n):\n        for j in serial(m):\n            Y[i, j] = X[i, j] * 2.0\n"
            ))
        };
        assert_eq!(rows("parallel"), 1);
        for kind in ["serial", "grid", "vectorized", "unroll"] {
            assert_eq!(rows(kind), 0, "{kind}");
        }
    }

    #[test]
    fn parallel_loops_directly_within_each_other_are_one_range() {
        let within = "    for i in parallel(n):\n        for j in parallel(m):\n            Y[i, j] = X[i, j]\n";
        let text = code(within);
        assert_eq!(text.matches("threads->run(").count(), 1);
        assert!(text.contains("int64_t j = from % m;"), "{text}");
        let in_turn = "    for t in serial(3):\n        for i in parallel(1, n):\n            Y[i, t] = X[i, t]\n";
        let text = code(in_turn);
        assert_eq!(text.matches("threads->run(").count(), 1);
        assert!(text.contains("const int64_t i = 1 + at;"), "{text}");
    }

    #[test]
    fn a_parallel_loop_within_a_part_runs_there() {
        let within = "    for i in parallel(n):\n        Y[i, 0] = 0.0\n        for j in parallel(m):\n            Y[i, j] = X[i, j]\n";
        assert_eq!(parts(within), 1);
    }
}
