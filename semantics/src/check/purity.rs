//! Which bindings may stand in a dataflow block: those without effect and without control flow.

use crate::ops::{Effect, called_by_name, lookup, only_checks};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Callee, Expr, Module, VarId};

/// What a dataflow block may not hold, as the subject of a sentence; none where `expr` may stand in one.
/// `has_effect` is whether calls of a function of the module have an effect, `annotation` the one deduced of a variable.
pub fn forbidden_in_dataflow<'a>(
    module: &Module,
    has_effect: &dyn Fn(&Name) -> bool,
    annotation: &dyn Fn(VarId) -> &'a Annotation,
    expr: &Expr,
) -> Option<String> {
    match expr {
        Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => None,
        Expr::If { .. } => Some("an `if`".to_owned()),
        Expr::Closure(_) => Some("a nested function".to_owned()),
        Expr::Call { callee: Callee::Operator(name), args, .. } => {
            let row = lookup(name)?;
            // A check of a call that is made elsewhere has no effect, whatever is called.
            let called = called_by_name(row, args.first()).filter(|_| !only_checks(row));
            let row = called.unwrap_or(row);
            let impure = row.effect == Effect::Impure;
            impure.then(|| format!("`{}`, which has an effect,", row.name))
        }
        Expr::Call { callee: Callee::Global(name), .. } => {
            if module.function(name).is_none() {
                return Some("a call in destination-passing style".to_owned());
            }
            has_effect(name).then(|| format!("`{name}`, which has an effect,"))
        }
        Expr::Call { callee: Callee::Var(var), .. } => match annotation(*var) {
            Annotation::Callable(Some(signature)) => {
                (!signature.pure).then(|| "a call with an effect".to_owned())
            }
            Annotation::Callable(None) | Annotation::Object => {
                Some("a call of a function of which nothing is known".to_owned())
            }
            // No function: another error says so.
            _ => None,
        },
    }
}
