//! Rules that are a little wrong: what a slip of the pen would have left of a rule.

use crate::rule_file::Statement;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeSet;

/// The mutants of a statement, each once, the likelier slips first.
pub(crate) fn mutants(statement: &Statement) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    all.extend(dropped_conditions(statement));
    all.extend(other_relations(statement));
    for kind in [constants, operators, exchanged, variables, operands, shifted] {
        all.extend(changed_dims(statement, kind));
    }
    let mut seen = BTreeSet::new();
    all.retain(|mutant| mutant != statement && seen.insert(mutant.to_string()));
    all
}

fn dropped_conditions(statement: &Statement) -> Vec<Statement> {
    let without = |index| {
        let mut mutant = statement.clone();
        mutant.conditions.remove(index);
        mutant
    };
    (0..statement.conditions.len()).map(without).collect()
}

/// Conditions with a neighbouring relation or exchanged sides.
fn other_relations(statement: &Statement) -> Vec<Statement> {
    let mut mutants = Vec::new();
    for (index, Claim { left, relation, right }) in statement.conditions.iter().enumerate() {
        let near: &[Relation] = match relation {
            Relation::Less => &[Relation::AtMost, Relation::NotEqual],
            Relation::AtMost => &[Relation::NotEqual, Relation::Less],
            Relation::Equal => &[Relation::AtMost, Relation::NotEqual],
            Relation::NotEqual => &[Relation::AtMost, Relation::Equal],
            Relation::Divides => &[Relation::AtMost],
        };
        let near = near.iter().map(|other| Claim::new(left.clone(), *other, right.clone()));
        let mirror = Claim::new(right.clone(), *relation, left.clone());
        for condition in near.chain([mirror]) {
            let mut mutant = statement.clone();
            mutant.conditions[index] = condition;
            mutants.push(mutant);
        }
    }
    mutants
}

/// The statement with one place of one dim changed, for all dims, places and changes.
fn changed_dims(
    statement: &Statement,
    changes: fn(&Dim, &BTreeSet<Name>) -> Vec<Dim>,
) -> Vec<Statement> {
    let names = statement.variables();
    let claims = || statement.conditions.iter().chain([&statement.equation]);
    let mut mutants = Vec::new();
    let mut put = |index: usize, claim: Claim| {
        let mut mutant = statement.clone();
        *mutant.conditions.get_mut(index).unwrap_or(&mut mutant.equation) = claim;
        mutants.push(mutant);
    };
    // The equation's changes come first: it is the last of the claims.
    for (index, claim) in claims().enumerate().collect::<Vec<_>>().into_iter().rev() {
        for left in changed(&claim.left, &names, changes) {
            put(index, Claim { left, ..claim.clone() });
        }
        for right in changed(&claim.right, &names, changes) {
            put(index, Claim { right, ..claim.clone() });
        }
    }
    mutants
}

/// `dim` with the changes at its root, and then those inside.
fn changed(
    dim: &Dim,
    names: &BTreeSet<Name>,
    changes: fn(&Dim, &BTreeSet<Name>) -> Vec<Dim>,
) -> Vec<Dim> {
    let mut all = changes(dim, names);
    if let Dim::Op(op, operands) = dim {
        let (a, b) = (&operands.0, &operands.1);
        let op = |a: Dim, b: Dim| Dim::Op(*op, Box::new((a, b)));
        all.extend(changed(a, names, changes).into_iter().map(|a| op(a, b.clone())));
        all.extend(changed(b, names, changes).into_iter().map(|b| op(a.clone(), b)));
    }
    all
}

fn constants(dim: &Dim, _: &BTreeSet<Name>) -> Vec<Dim> {
    let Dim::Int(value) = dim else { return Vec::new() };
    vec![Dim::Int(value + 1), Dim::Int(value - 1)]
}

fn operators(dim: &Dim, _: &BTreeSet<Name>) -> Vec<Dim> {
    let Dim::Op(op, operands) = dim else { return Vec::new() };
    let others: &[DimOp] = match op {
        DimOp::Add => &[DimOp::Sub, DimOp::Mul],
        DimOp::Sub => &[DimOp::Add],
        DimOp::Mul => &[DimOp::Add],
        DimOp::FloorDiv => &[DimOp::CeilDiv, DimOp::FloorMod],
        DimOp::FloorMod => &[DimOp::FloorDiv],
        DimOp::CeilDiv => &[DimOp::FloorDiv],
        DimOp::Min => &[DimOp::Max],
        DimOp::Max => &[DimOp::Min],
    };
    others.iter().map(|other| Dim::Op(*other, operands.clone())).collect()
}

/// Operands of an operation whose operands have an order.
fn exchanged(dim: &Dim, _: &BTreeSet<Name>) -> Vec<Dim> {
    let ordered = [DimOp::Sub, DimOp::FloorDiv, DimOp::FloorMod, DimOp::CeilDiv];
    match dim {
        Dim::Op(op, operands) if ordered.contains(op) => {
            vec![Dim::Op(*op, Box::new((operands.1.clone(), operands.0.clone())))]
        }
        _ => Vec::new(),
    }
}

/// Another variable of the rule.
fn variables(dim: &Dim, names: &BTreeSet<Name>) -> Vec<Dim> {
    let Dim::Var(own) = dim else { return Vec::new() };
    names.iter().filter(|name| *name != own).cloned().map(Dim::Var).collect()
}

/// One operand in place of the operation.
fn operands(dim: &Dim, _: &BTreeSet<Name>) -> Vec<Dim> {
    let Dim::Op(_, operands) = dim else { return Vec::new() };
    vec![operands.0.clone(), operands.1.clone()]
}

/// Off by one.
fn shifted(dim: &Dim, _: &BTreeSet<Name>) -> Vec<Dim> {
    let by = |op| Dim::Op(op, Box::new((dim.clone(), Dim::Int(1))));
    vec![by(DimOp::Add), by(DimOp::Sub)]
}
