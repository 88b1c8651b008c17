//! Operators that only give a tensor another shape become views: the same bytes, nothing to compute.
//!
//! What is left to run time stays an operator, whose trap it is.

use relax_rewrite::blocks::for_each_binding;
use relax_rewrite::dims::evaluates_when_it_fits;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, Binding, Callee, Definition, Expr, Module, VarId};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_views",
    doc: "Turns reshape and its kin, where nothing is left to check, into views of the same bytes.",
    from: Phase::P0,
    to: Phase::P0,
    exactness: Exactness::Exact,
    run,
};

/// Rows whose result has the elements of their first operand, in the same order.
const VIEWS: [&str; 5] = ["reshape", "flatten", "nn.batch_flatten", "expand_dims", "squeeze"];

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let annotations = &context.checked.annotations[&function.name];
        let left = &context.checked.left_in(&function.name).vars;
        let mut walk = Walk { annotations, left, done: 0, found: 0 };
        if let Some(body) = &mut function.lambda.body {
            for_each_binding(body, &mut |binding| walk.binding(binding));
        }
        done += walk.done;
        found += walk.found;
    }
    context.count_of("lowered", done, found, "views");
    Ok(result)
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    left: &'a BTreeSet<VarId>,
    done: usize,
    found: usize,
}

impl Walk<'_> {
    fn binding(&mut self, binding: &mut Binding) {
        if is_view(&binding.expr) {
            self.found += 1;
            if let Some(view) = self.view(binding) {
                binding.expr = view;
                self.done += 1;
            }
        }
    }

    fn view(&self, binding: &Binding) -> Option<Expr> {
        let Expr::Call { args, .. } = &binding.expr else { return None };
        let dims = self.annotations[binding.var.0 as usize].as_tensor()?.extents.dims()?;
        let operand @ Atom::Var(_) = args.first()? else { return None };
        let settled = !self.left.contains(&binding.var) && dims.iter().all(evaluates_when_it_fits);
        let args = vec![operand.clone(), Atom::Shape(dims.to_vec())];
        let callee = Callee::Operator(Name::new("memory.view"));
        settled.then(|| Expr::Call { callee, args, attrs: Vec::new() })
    }
}

fn is_view(expr: &Expr) -> bool {
    let Expr::Call { callee: Callee::Operator(name), .. } = expr else { return false };
    lookup(name).is_some_and(|row| VIEWS.contains(&row.name))
}
