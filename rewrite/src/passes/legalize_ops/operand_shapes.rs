//! Shapes among the operands of calls: they have no negative extents, and a run that has one stops before the call.

use super::Legalizer;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Binding, Callee, Expr};
use relax_syntax::span::Span;

impl Legalizer<'_> {
    /// A shape has no negative extents: those of operands that nothing else asks are asked before the call.
    pub(super) fn check_extents(
        &mut self,
        shapes: &[Vec<Dim>],
        asked: &[Dim],
        span: Span,
        before: &mut Vec<Binding>,
    ) {
        for dims in shapes {
            let natural = |dim: &Dim, facts: &mut dyn Facts| {
                facts.decide(&Claim::new(0, Relation::AtMost, dim.clone())) == Answer::Proved
            };
            if dims.iter().any(|dim| !asked.contains(dim) && !natural(dim, self.facts)) {
                self.bound("extents", Expr::Atom(Atom::Shape(dims.clone())), span, before);
            }
        }
    }
}

/// The shapes that are spelled among arguments.
pub(super) fn shapes(args: &[Atom], attrs: &[(Name, Atom)]) -> Vec<Vec<Dim>> {
    let all = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
    let shapes = all.filter_map(|atom| match atom {
        Atom::Shape(dims) => Some(dims.clone()),
        _ => None,
    });
    shapes.collect()
}

/// The values of scalars that a call of a tensor program gives as a shape. It gets them as a list, which may have negative ones.
pub(super) fn scalar_arguments(expr: &mut Expr) -> Option<Vec<Dim>> {
    let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return None };
    let params = lookup(name)?.params;
    let position = params.iter().position(|param| param.name == "sym_args")?;
    let names = [Some(params[position].name), params[position].alias];
    let is_named = |key: &Name| names.into_iter().flatten().any(|name| key == name);
    let named = attrs.iter_mut().find(|(key, _)| is_named(key)).map(|(_, atom)| atom);
    let atom = args.get_mut(position).or(named)?;
    let Atom::Shape(dims) = atom else { return None };
    let dims = std::mem::take(dims);
    *atom = Atom::List(dims.iter().cloned().map(Atom::Dim).collect());
    Some(dims)
}
