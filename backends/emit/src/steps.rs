//! The limit of steps: a kernel takes its iterations from the steps that are left before it begins them, and stops where there
//! are too few.
//!
//! An iteration of a loop is a step. Where the bounds of a nest are arithmetic on dims, the steps of the whole nest are known at
//! the call: the function that is called takes them at once, and the loops are those of a kernel without a limit. Other nests take
//! theirs where they begin: bounds that depend on elements, scalars or loops around, and nests under a condition. A nest of few
//! iterations under a condition counts as if the condition held, so that the loop around it has no branch more.
//!
//! The sum does not depend on threads, so a limit has the same outcome on any number of them.

use crate::printer::Printer;
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, Stmt, StmtKind, TExpr, UnOp};
use std::collections::BTreeSet;

/// Steps under a condition that are taken whether it holds or not.
const FEW: f64 = 64.0;

/// A number of steps: a sum of a literal and of terms of type `double` in C.
#[derive(Clone, Debug, Default)]
struct Steps {
    literal: f64,
    terms: Vec<String>,
}

impl Steps {
    fn add(&mut self, other: Self) {
        self.literal += other.literal;
        self.terms.extend(other.terms);
    }

    /// So many times these and the iterations themselves.
    fn times(mut self, literal: f64, factors: &[String]) -> Self {
        self.literal += 1.0;
        if literal == 0.0 {
            return Self::default();
        }
        if factors.is_empty() && self.terms.is_empty() {
            return Self { literal: literal * self.literal, terms: Vec::new() };
        }
        let mut product = factors.to_vec();
        if self.terms.is_empty() {
            product.push(format!("{:?}", literal * self.literal));
        } else {
            product.push(format!("({})", self.text()));
            product.push(format!("{literal:?}"));
        }
        product.retain(|factor| factor != "1.0");
        Self { literal: 0.0, terms: vec![product.join(" * ")] }
    }

    fn text(&self) -> String {
        let literal = (self.literal != 0.0).then(|| format!("{:?}", self.literal));
        self.terms.iter().cloned().chain(literal).collect::<Vec<_>>().join(" + ")
    }

    fn is_few(&self) -> bool {
        self.terms.is_empty() && self.literal <= FEW
    }
}

impl Printer<'_, '_> {
    /// Looks for the nests that take their steps where they begin.
    pub(crate) fn count_steps(&mut self, body: &[Stmt]) {
        let mut own = BTreeSet::new();
        self.find_own(body, true, &mut own);
        if !own.is_empty() {
            self.steps = Some(self.names.fresh("steps"));
        }
        self.takes_own = own;
    }

    /// Loops of nests whose steps are not among those of what is around them.
    fn find_own(&self, statements: &[Stmt], is_counted: bool, own: &mut BTreeSet<ScalarId>) {
        for stmt in statements {
            match &stmt.kind {
                StmtKind::For { loops, body, .. } => {
                    if !is_counted || self.trips_at_call(loops).is_none() {
                        own.extend(loops.iter().map(|item| item.var));
                    }
                    self.find_own(body, true, own);
                }
                StmtKind::Block { init, body, .. } => {
                    self.find_own(init, is_counted && self.steps_of(init).is_few(), own);
                    self.find_own(body, is_counted, own);
                }
                StmtKind::If { then, otherwise, .. } => {
                    for side in [then, otherwise] {
                        self.find_own(side, is_counted && self.steps_of(side).is_few(), own);
                    }
                }
                _ => {}
            }
        }
    }

    /// The steps of statements but for nests that take their own.
    fn steps_of(&self, statements: &[Stmt]) -> Steps {
        let mut all = Steps::default();
        for stmt in statements {
            match &stmt.kind {
                StmtKind::For { loops, body, .. } => {
                    if let Some((literal, factors)) = self.trips_at_call(loops) {
                        all.add(self.steps_of(body).times(literal, &factors));
                    }
                }
                StmtKind::Block { init, body, .. } => {
                    all.add(self.few_steps_of(init));
                    all.add(self.steps_of(body));
                }
                StmtKind::If { then, otherwise, .. } => {
                    all.add(self.few_steps_of(then));
                    all.add(self.few_steps_of(otherwise));
                }
                _ => {}
            }
        }
        all
    }

    /// Those of statements under a condition.
    fn few_steps_of(&self, statements: &[Stmt]) -> Steps {
        Some(self.steps_of(statements)).filter(Steps::is_few).unwrap_or_default()
    }

    /// The iterations of a nest as a literal and factors, if they are known at the call.
    fn trips_at_call(&self, loops: &[Loop]) -> Option<(f64, Vec<String>)> {
        let (mut literal, mut factors) = (1.0, Vec::new());
        for item in loops {
            match (&item.start, &item.stop) {
                (TExpr::Int(start), TExpr::Int(stop)) => {
                    literal *= (*stop as f64 - *start as f64).max(0.0);
                }
                (TExpr::Int(0), TExpr::Dim(name)) => {
                    factors.push(format!("(double){}", self.dims.get(name)?))
                }
                (start, stop) => {
                    let (start, stop) = (self.known_at_call(start)?, self.known_at_call(stop)?);
                    factors.push(format!("rx_trips({start}, {stop})"));
                }
            }
        }
        Some((literal, factors))
    }

    /// Arithmetic on dims, as a `double` of C.
    pub(crate) fn known_at_call(&self, expr: &TExpr) -> Option<String> {
        match expr {
            TExpr::Int(value) => Some(format!("{:?}", *value as f64)),
            TExpr::Dim(name) => Some(format!("(double){}", self.dims.get(name)?)),
            // `ceildiv(a, b)` is `-(-a // b)`.
            TExpr::Unary(UnOp::Negate, operand) => {
                Some(format!("-{}", self.known_at_call(operand)?))
            }
            TExpr::Binary(op, both) => {
                let (a, b) = (self.known_at_call(&both.0)?, self.known_at_call(&both.1)?);
                let by_literal = matches!(both.1, TExpr::Int(1..));
                match op {
                    BinOp::Add => Some(format!("({a} + {b})")),
                    BinOp::Sub => Some(format!("({a} - {b})")),
                    BinOp::Mul => Some(format!("({a} * {b})")),
                    BinOp::Min => Some(format!("fmin({a}, {b})")),
                    BinOp::Max => Some(format!("fmax({a}, {b})")),
                    BinOp::FloorDiv if by_literal => Some(format!("floor({a} / {b})")),
                    BinOp::Mod if by_literal => Some(format!("({a} - {b} * floor({a} / {b}))")),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What the function that is called does before it calls the body.
    pub(crate) fn take_steps_at_call(&self, body: &[Stmt]) -> String {
        let steps = self.steps_of(body).text();
        if steps.is_empty() {
            return String::new();
        }
        format!("    if (rx_spend(rx_left(threads), {steps})) return RX_OUT_OF_STEPS;\n")
    }

    /// Takes the steps of a nest that takes its own.
    pub(crate) fn take_steps(&mut self, stmt: &Stmt) {
        let StmtKind::For { loops, body, .. } = &stmt.kind else { return };
        let Some(left) = self.steps.clone() else { return };
        if !loops.iter().any(|item| self.takes_own.contains(&item.var)) {
            return;
        }
        // The checks of the bounds count where the loops are printed.
        let checks = self.checks;
        let mut trips = Vec::new();
        for item in loops {
            let (start, stop) = (self.index(&item.start), self.index(&item.stop));
            trips.push(format!("rx_trips((double){start}, (double){stop})"));
        }
        self.checks = checks;
        let steps = self.steps_of(body).times(1.0, &trips).text();
        self.line(&format!(
            "if (rx_spend({left}, {steps})) {{ status = RX_OUT_OF_STEPS; goto done; }}"
        ));
        self.may_stop = true;
    }

    /// Whether a nest within a statement takes its own steps: then no routine takes the place of the statement.
    pub(crate) fn takes_steps_within(&self, stmt: &Stmt) -> bool {
        if self.takes_own.is_empty() {
            return false;
        }
        let StmtKind::For { body, .. } = &stmt.kind else { return false };
        let mut found = false;
        visit_statements(body, &mut |stmt| {
            if let StmtKind::For { loops, .. } = &stmt.kind {
                found |= loops.iter().any(|item| self.takes_own.contains(&item.var));
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use crate::print_c;
    use relax_program::frontend::Program;
    use relax_runtime::program::Numerics;
    use relax_symbolic::Prover;
    use relax_syntax::span::Source;

    /// What is taken where, in the C code of a kernel with these statements.
    fn taken(body: &str) -> Vec<String> {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"n\", \"m\"), \"f32\"), K: Buffer((1,), \"i64\"), Y: Buffer((\"n\", \"m\"), \"f32\")):\n\
             {body}"
        );
        let module = Program::load(Source::new("steps", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        let (_, code) = source.text.split_once("def f(").expect("the program as a comment");
        let lines = code.lines().filter_map(|line| line.trim().strip_prefix("if (rx_spend("));
        lines.map(|line| line.split(") {").next().unwrap_or(line).to_owned()).collect()
    }

    #[test]
    fn steps_of_bounds_on_dims_are_taken_at_the_call() {
        let nest = "    for i in range(n):\n        for j in range(1, m // 2 + 1):\n            Y[i, j] = X[i, j]\n        for k in range(4):\n            Y[i, 0] = X[i, 0]\n";
        let trips = "rx_trips(1.0, (floor((double)m / 2.0) + 1.0))";
        assert_eq!(
            taken(nest),
            [format!("rx_left(threads), (double)n * ({trips} + 5.0))) return RX_OUT_OF_STEPS;")]
        );
        assert_eq!(taken("    Y[0, 0] = X[0, 0]\n"), [""; 0]);
        let blocks = "    for i in range(ceildiv(n, 64)):\n        Y[i, 0] = X[i, 0]\n";
        let trips = "rx_trips(0.0, -floor(-(double)n / 64.0))";
        assert_eq!(taken(blocks), [format!("rx_left(threads), {trips})) return RX_OUT_OF_STEPS;")]);
    }

    #[test]
    fn nests_with_other_bounds_take_theirs_where_they_begin() {
        let nest = "    for i in range(n):\n        for j in range(K[0]):\n            Y[i, 0] = X[i, 0]\n";
        let own = "steps, rx_trips((double)INT64_C(0), (double)stop))";
        let found = taken(nest);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("steps, rx_trips((double)"), "{found:?} {own}");
        assert!(found[1].starts_with("rx_left(threads), (double)n"), "{found:?}");
    }

    #[test]
    fn few_iterations_under_a_condition_count_as_if_it_held() {
        let under = |stop: &str| {
            taken(&format!(
                "    for i in range(n):\n        if K[0] > i:\n            for j in range({stop}):\n                Y[i, 0] = X[i, 0]\n"
            ))
        };
        assert_eq!(under("64").len(), 1);
        assert_eq!(under("65").len(), 2);
        assert_eq!(under("m").len(), 2);
    }
}
