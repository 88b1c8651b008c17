//! Operators that only give a tensor another shape become views: the same bytes, nothing to compute.
//!
//! Where a constraint is left to run time, the operator's check stands before the view.

use relax_rewrite::blocks::with_bindings_before;
use relax_rewrite::constraint_check::{
    Left, assume_checked, check_binding, constraint_check, left_claims,
};
use relax_rewrite::dims::assume_declared;
use relax_rewrite::names::{Defined, Names};
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_rewrite::reached::Reached;
use relax_semantics::check::Phase;
use relax_semantics::ops::{Operator, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Definition, Expr, Module, VarId, VarInfo};
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_views",
    doc: "Turns reshape and its kin into views of the same bytes, behind the operator's check where one is left to \
          run time.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let annotations = &context.checked.annotations[&function.name];
        let left = left_claims(context.checked, &function.name);
        let names = defined.seen_from(function);
        let reached = Reached::of(function);
        let facts = &mut *context.facts;
        facts.push();
        assume_declared(facts, &function.dims);
        let vars = &mut function.vars;
        let mut walk = Walk { annotations, left, names, vars, reached, facts, done: 0, found: 0 };
        if let Some(body) = &mut function.lambda.body {
            walk.body(body);
        }
        walk.facts.pop();
        done += walk.done;
        found += walk.found;
    }
    context.count_of("lowered", done, found, "views");
    Ok(result)
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    left: BTreeMap<VarId, Vec<Left>>,
    names: Names,
    vars: &'a mut Vec<VarInfo>,
    reached: Reached,
    facts: &'a mut dyn Facts,
    done: usize,
    found: usize,
}

impl Walk<'_> {
    fn body(&mut self, body: &mut Body) {
        with_bindings_before(body, &mut |binding, before| {
            self.binding(binding, before);
            self.reached.exists(&self.annotations[binding.var.0 as usize]);
        });
    }

    fn binding(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.branch(then);
            self.branch(otherwise);
        }
        self.reached.passed(&binding.expr);
        let Some(row) = view_row(&binding.expr) else { return };
        self.found += 1;
        let Some((check, view)) = self.view(row, binding) else { return };
        binding.expr = view;
        if let Some(check) = check {
            let span = self.vars[binding.var.0 as usize].span;
            before.push(check_binding(check, (&mut self.names, &mut *self.vars), span));
        }
        self.done += 1;
    }

    /// What a branch evaluates is known in it alone.
    fn branch(&mut self, body: &mut Body) {
        let before = self.reached.clone();
        self.facts.push();
        self.body(body);
        self.facts.pop();
        self.reached = before;
    }

    /// The view, and the check before it where a constraint is left to run time.
    fn view(&mut self, row: &'static Operator, binding: &Binding) -> Option<(Option<Expr>, Expr)> {
        let Expr::Call { args, attrs, .. } = &binding.expr else { return None };
        let operand @ Atom::Var(var) = args.first()? else { return None };
        let left = self.left.remove(&binding.var).unwrap_or_default();
        let left = left.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let mut check = None;
        if !left.is_empty() {
            let from = self.annotations[var.0 as usize].as_tensor()?;
            self.all_evaluate(from.extents.dims()?).then_some(())?;
            check = Some(constraint_check(row, args, attrs, self.annotations)?);
            assume_checked(&left, self.facts);
        }
        let dims = self.dims(args, binding.var)?;
        let args = vec![operand.clone(), Atom::Shape(dims)];
        let callee = Callee::Operator(Name::new("memory.view"));
        Some((check, Expr::Call { callee, args, attrs: Vec::new() }))
    }

    fn all_evaluate(&mut self, dims: &[Dim]) -> bool {
        dims.iter().all(|dim| self.reached.evaluates(dim, self.facts))
    }

    /// The dims of the result, as the call evaluates them where they stand in it.
    fn dims(&mut self, args: &[Atom], var: VarId) -> Option<Vec<Dim>> {
        if let [_, Atom::Shape(dims)] = args
            && !dims.contains(&Dim::Int(-1))
        {
            return Some(dims.clone());
        }
        let dims = self.annotations[var.0 as usize].dims()?;
        if self.all_evaluate(dims) {
            return Some(dims.to_vec());
        }
        // In canonical order a product may overflow before its factor 0; in the order of the extents it does not.
        let Atom::Var(operand) = args.first()? else { return None };
        let from = self.annotations[operand.0 as usize].dims()?;
        let flat = Dim::product(from);
        (dims.len() == 1 && self.all_evaluate(std::slice::from_ref(&flat))).then(|| vec![flat])
    }
}

fn view_row(expr: &Expr) -> Option<&'static Operator> {
    let Expr::Call { callee: Callee::Operator(name), .. } = expr else { return None };
    lookup(name).filter(|row| row.is_view())
}
