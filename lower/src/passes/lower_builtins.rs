//! Calls of built-ins get every operand at the place of its parameter, under the full name: a machine
//! that runs them needs no operator table.

use relax_rewrite::blocks::for_each_binding;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::{Family, Kind, Operator, by_position, lookup};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Binding, Callee, Definition, Expr, Module};

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_builtins",
    doc: "Writes out the operands of built-ins by position, those that were left out included.",
    from: Phase::P23,
    to: Phase::P23,
    until: Phase::P23,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut lowered = 0;
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && let Some(body) = &mut function.lambda.body
        {
            for_each_binding(body, &mut |binding| lowered += usize::from(write_out(binding)));
        }
    }
    context.count("wrote out", lowered, "calls of built-ins");
    Ok(result)
}

/// Whether the call changed.
fn write_out(binding: &mut Binding) -> bool {
    let Expr::Call { callee: Callee::Operator(name), args, attrs } = &mut binding.expr else {
        return false;
    };
    let Some(row) = lookup(name).filter(|row| is_lowered(row)) else { return false };
    let Some(all) = by_position(row, args, attrs) else { return false };
    let changed = !attrs.is_empty() || all.len() != args.len();
    *name = Name::new(row.name);
    *args = all;
    attrs.clear();
    changed
}

/// Rows that take further operands have no place for those with a default.
fn is_lowered(row: &Operator) -> bool {
    matches!(row.family, Family::Memory | Family::Builtins)
        && row.params.iter().all(|param| param.kind != Kind::Rest)
}
