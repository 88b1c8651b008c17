//! Calls of the function with other variables as operands, each in the layout that the call wants.

use crate::layout::Layout;
use crate::program::visit_bindings;
use crate::propagate::Branch;
use relax_semantics::ops::{Param, lookup, passed};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, Binding, Block, BlockKind, Body, Callee, Expr, Function, VarId};
use relax_theorems::placement::calls::is_value;
use std::collections::{BTreeMap, BTreeSet};

/// The variables that hold a value in each of its layouts.
pub(crate) type Names = BTreeMap<(VarId, Layout), VarId>;

/// A name that no other variable has, made of this one.
pub(crate) fn unused(taken: &mut BTreeSet<Name>, base: &str) -> Name {
    let mut own = Name::from(base);
    let mut number = 0;
    while !taken.insert(own.clone()) {
        number += 1;
        own = format!("{base}_{number}").into();
    }
    own
}

/// The expression that a function with a plan binds to a variable.
pub(crate) fn bound(function: &Function, var: VarId) -> &Expr {
    let mut found = None;
    visit_bindings(function, &mut |binding| {
        if binding.var == var {
            found = Some(binding);
        }
    });
    &found.expect("invariant: the plan is of this function").expr
}

/// The body of planned bindings, with the results of a function with a plan in the layouts that were planned.
pub(crate) fn body(
    function: &Function,
    results: &[(VarId, Layout)],
    names: &Names,
    bindings: Vec<Binding>,
) -> Body {
    let own = function.lambda.body.as_ref().expect("invariant: a function with a plan has a body");
    let named = results.iter().map(|(var, layout)| Atom::Var(names[&(*var, layout.clone())]));
    let mut named: Vec<Atom> = named.collect();
    let result = match &own.result {
        Atom::Tuple(_) => Atom::Tuple(named),
        _ => named.swap_remove(0),
    };
    Body { blocks: blocks(bindings), result }
}

/// A branch of planned bindings, which gives its results in a layout: a tuple where it gave one.
pub(crate) fn branch(
    own: &Branch,
    layout: &Layout,
    is_tuple: bool,
    names: &Names,
    bindings: Vec<Binding>,
) -> Body {
    let named = own.results.iter().map(|var| Atom::Var(names[&(*var, layout.clone())]));
    let mut named: Vec<Atom> = named.collect();
    let result = if is_tuple { Atom::Tuple(named) } else { named.swap_remove(0) };
    Body { blocks: blocks(bindings), result }
}

pub(crate) fn blocks(bindings: Vec<Binding>) -> Vec<Block> {
    match bindings.is_empty() {
        true => Vec::new(),
        false => vec![Block { kind: BlockKind::Plain, bindings }],
    }
}

/// A planned binding over the variables of `names`; `other` rewrites the arguments that are no tensors.
pub(crate) fn rewritten(
    expr: &Expr,
    (operands, layout): (&[Layout], &Layout),
    names: &Names,
    other: &mut dyn FnMut(&Param, &Atom) -> Atom,
) -> Expr {
    match expr {
        Expr::MatchCast(Atom::Var(of), annotation) => {
            let of = names[&(*of, layout.clone())];
            Expr::MatchCast(Atom::Var(of), annotation.clone())
        }
        Expr::Get(Atom::Var(of), field) => {
            Expr::Get(Atom::Var(names[&(*of, layout.clone())]), *field)
        }
        Expr::Call { callee: Callee::Operator(name), args, attrs } => {
            let row = lookup(name).expect("invariant: a planned call has a row");
            let bound = passed(row, args, attrs).expect("invariant: a planned call fits its row");
            // Operands count in the order of the parameters.
            let mut layouts = operands.iter();
            let mut new: Vec<(*const Atom, Atom)> = Vec::new();
            for (param, atom) in row.params.iter().zip(bound) {
                let Some(atom) = atom else { continue };
                let own = if is_value(atom) || items(atom).iter().any(is_value) {
                    operand(atom, names, &mut layouts)
                } else {
                    other(param, atom)
                };
                new.push((std::ptr::from_ref(atom), own));
            }
            let new = |atom: &Atom| {
                let found = new.iter().find(|(own, _)| std::ptr::eq(*own, atom));
                found.map_or_else(|| atom.clone(), |(_, new)| new.clone())
            };
            Expr::Call {
                callee: Callee::Operator(name.clone()),
                args: args.iter().map(new).collect(),
                attrs: attrs.iter().map(|(key, atom)| (key.clone(), new(atom))).collect(),
            }
        }
        other => other.clone(),
    }
}

fn items(atom: &Atom) -> &[Atom] {
    match atom {
        Atom::Tuple(items) | Atom::List(items) => items,
        _ => &[],
    }
}

fn operand<'l>(atom: &Atom, names: &Names, layouts: &mut impl Iterator<Item = &'l Layout>) -> Atom {
    let mut each =
        |items: &[Atom]| items.iter().map(|item| operand_in(item, names, layouts)).collect();
    match atom {
        Atom::Tuple(items) => Atom::Tuple(each(items)),
        Atom::List(items) => Atom::List(each(items)),
        single => operand_in(single, names, layouts),
    }
}

fn operand_in<'l>(
    atom: &Atom,
    names: &Names,
    layouts: &mut impl Iterator<Item = &'l Layout>,
) -> Atom {
    let layout = layouts.next().expect("invariant: an operand has a layout");
    match atom {
        Atom::Var(var) => Atom::Var(names[&(*var, layout.clone())]),
        constant => constant.clone(),
    }
}
