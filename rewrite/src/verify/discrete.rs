//! Whether integers and truth values of a module may depend on how floats are rounded.

use crate::pass::Exactness;
use relax_program::compare::Relation;
use relax_semantics::check::{Phase, check};
use relax_semantics::concrete::Concrete;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId};

/// How results of a module are compared where floats may differ by more than is known.
#[must_use]
pub fn relation_of_rounded(module: &Module) -> Relation {
    let checked = check(module, &mut Concrete, Phase::P0);
    let of = |function: &Function| match (
        &function.lambda.body,
        checked.annotations.get(&function.name),
    ) {
        (Some(body), Some(annotations)) => of_body(body, annotations),
        (Some(_), None) => Relation::Typed,
        (None, _) => Relation::Shaped,
    };
    module.functions().map(of).max().unwrap_or(Relation::Shaped)
}

/// The relation of two results where one may be rounded as `exactness` says.
#[must_use]
pub fn relation_of(exactness: Exactness, module: &Module) -> Relation {
    match exactness {
        Exactness::Exact => Relation::Equal,
        Exactness::Approximate => Relation::Close,
        Exactness::Rounded(_) => relation_of_rounded(module),
        Exactness::Reals => Relation::Shaped,
    }
}

/// Rounding may decide the extents of what a call of an operator gives where deduction does not know them, as those of the different
/// elements of a tensor, and all that is no float where a call is given floats.
fn of_body(body: &Body, annotations: &[Annotation]) -> Relation {
    let known = |var: VarId| annotations.get(var.0 as usize);
    let of_var = |var: VarId| known(var).map_or(Kinds::BOTH, kinds);
    let of = |binding: &Binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(_), .. }
            if known(binding.var).is_some_and(has_unknown_extents) =>
        {
            Relation::Ranked
        }
        Expr::Call { args, .. } if of_atoms(args, &of_var).floats && of_var(binding.var).others => {
            Relation::Typed
        }
        Expr::If { then, otherwise, .. } => {
            of_body(then, annotations).max(of_body(otherwise, annotations))
        }
        // What it does with its parameters is not looked at.
        Expr::Closure(_) => Relation::Typed,
        Expr::Call { .. } | Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => Relation::Shaped,
    };
    body.bindings().map(of).max().unwrap_or(Relation::Shaped)
}

fn has_unknown_extents(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(tensor) => tensor.extents.dims().is_none(),
        Annotation::Tuple(items) => items.iter().any(has_unknown_extents),
        _ => false,
    }
}

fn of_atoms(atoms: &[Atom], of_var: &dyn Fn(VarId) -> Kinds) -> Kinds {
    let each = atoms.iter().map(|atom| match atom {
        Atom::Var(var) => of_var(*var),
        Atom::Tuple(items) | Atom::List(items) => of_atoms(items, of_var),
        _ => Kinds::default(),
    });
    each.fold(Kinds::default(), Kinds::and)
}

/// What elements an annotation may have.
#[derive(Clone, Copy, Default)]
struct Kinds {
    floats: bool,
    others: bool,
}

impl Kinds {
    const BOTH: Self = Self { floats: true, others: true };

    fn and(self, other: Self) -> Self {
        Self { floats: self.floats || other.floats, others: self.others || other.others }
    }
}

fn kinds(annotation: &Annotation) -> Kinds {
    match annotation {
        Annotation::Tensor(tensor) => match tensor.dtype {
            Some(dtype) => Kinds { floats: dtype.is_float(), others: !dtype.is_float() },
            None => Kinds::BOTH,
        },
        Annotation::Tuple(items) => items.iter().map(kinds).fold(Kinds::default(), Kinds::and),
        Annotation::Prim(dtype) => Kinds { floats: dtype.is_float(), others: !dtype.is_float() },
        Annotation::Object | Annotation::DTensor(_) => Kinds::BOTH,
        Annotation::Shape(_) | Annotation::Callable(_) => Kinds::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_program::frontend::Program;
    use relax_syntax::span::Source;

    #[test]
    fn what_rounding_decides_is_any() {
        for (value, relation) in [
            ("exp(x)", Relation::Shaped),
            ("argmax(x, axis=1)", Relation::Typed),
            ("unique(exp(x))", Relation::Ranked),
            ("nonzero(greater(x, exp(x)))", Relation::Ranked),
        ] {
            let text = format!("def main(x: Tensor((\"n\", 4), \"f32\")):\n    return {value}\n");
            let program = Program::load(Source::new("program", text));
            assert!(!program.has_errors(), "{value}: {:#?}", program.diagnostics);
            assert_eq!(relation_of_rounded(&program.module), relation, "{value}");
        }
    }
}
