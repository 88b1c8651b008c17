//! Whether integers and truth values of a module may depend on how floats are rounded.

use crate::pass::Exactness;
use relax_program::compare::Relation;
use relax_semantics::check::{Phase, check};
use relax_semantics::concrete::Concrete;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};

/// How results of a module are compared where floats may differ by more than is known.
#[must_use]
pub fn relation_of_rounded(module: &Module) -> Relation {
    let checked = check(module, &mut Concrete, Phase::P0);
    let known = |function: &Function| checked.annotations.get(&function.name);
    let counted = module.functions().any(|function| {
        let body = function.lambda.body.as_ref();
        known(function).zip(body).is_some_and(|(annotations, body)| counts(body, annotations))
    });
    if counted {
        return Relation::Ranked;
    }
    let discrete = module.functions().any(|function| match known(function) {
        Some(annotations) => makes_discrete(function, annotations),
        None => function.lambda.body.is_some(),
    });
    if discrete { Relation::Typed } else { Relation::Shaped }
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

/// Whether some call is given floats and gives something else.
fn makes_discrete(function: &Function, annotations: &[Annotation]) -> bool {
    function.lambda.body.as_ref().is_some_and(|body| of_body(body, annotations))
}

fn of_body(body: &Body, annotations: &[Annotation]) -> bool {
    let of_var = |var: VarId| annotations.get(var.0 as usize).map_or(Kinds::BOTH, kinds);
    body.bindings().any(|binding| match &binding.expr {
        Expr::Call { args, .. } => of_atoms(args, &of_var).floats && of_var(binding.var).others,
        Expr::If { then, otherwise, .. } => {
            of_body(then, annotations) || of_body(otherwise, annotations)
        }
        // What it does with its parameters is not looked at.
        Expr::Closure(_) => true,
        Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => false,
    })
}

/// Whether elements decide extents: what a call of an operator gives has extents that deduction does not know, such as those of different
/// elements of a tensor. A rounded element may be one more.
fn counts(body: &Body, annotations: &[Annotation]) -> bool {
    body.bindings().any(|binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(_), .. } => {
            annotations.get(binding.var.0 as usize).is_some_and(has_unknown_extents)
        }
        Expr::If { then, otherwise, .. } => {
            counts(then, annotations) || counts(otherwise, annotations)
        }
        _ => false,
    })
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
