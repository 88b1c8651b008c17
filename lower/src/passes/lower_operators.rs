//! Operators that no tensor program stands for become calls of the reference library.
//!
//! The call is that of the operator in all but its spelling, so that deduction, checks and traps are
//! the same. What it gives is memory of its own: no plan covers it.

use relax_rewrite::blocks::for_each_binding;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_rewrite::passes::legalize_ops::tensor_operator;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, Binding, Callee, Definition, Expr, Module};

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_operators",
    doc: "Turns the tensor operators that are left into calls of the reference library.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// The built-in that calls an operator of the table.
pub(crate) const CALL_OPERATOR: &str = "builtin.call_operator";

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut done = 0;
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && let Some(body) = &mut function.lambda.body
        {
            for_each_binding(body, &mut |binding| {
                if tensor_operator(&binding.expr).is_some() {
                    call_by_name(binding);
                    done += 1;
                }
            });
        }
    }
    context.count("lowered", done, "operators to the reference library");
    Ok(result)
}

/// `op(x, axis=1)` becomes `builtin.call_operator("op", x, axis=1)`.
pub(crate) fn call_by_name(binding: &mut Binding) {
    if let Expr::Call { callee: Callee::Operator(name), args, .. } = &mut binding.expr {
        args.insert(0, Atom::Str(name.clone()));
        *name = Name::new(CALL_OPERATOR);
    }
}
