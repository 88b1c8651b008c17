//! The first obligation of a rule: deduction gives both sides the same annotation, under its conditions,
//! and leaves the same to run time.

use super::instance::{Ranks, Types, deduced, dtype_of};
use super::rule::{Arg, Axis, Call, Node, Operand, Param, Rule};
use crate::denotation::theorem;
use relax_semantics::ops::{Infer, Operand as Known};
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};

/// What deduction says of a side: its annotation, and what is left to run time.
pub(super) struct Side {
    pub(super) annotation: Annotation,
    pub(super) left: Vec<Claim>,
}

/// Deduces the annotation of an expression of a rule without groups.
pub(super) fn side(
    params: &[Param],
    types: &Types,
    node: &Node,
    facts: &mut dyn Facts,
) -> Result<Side, String> {
    let mut left = Vec::new();
    // Deduction goes on as if what it leaves to run time held; the other side must not profit from it.
    facts.push();
    let annotation = annotation(params, types, node, facts, &mut left);
    facts.pop();
    Ok(Side { annotation: annotation?, left })
}

fn annotation(
    params: &[Param],
    types: &Types,
    node: &Node,
    facts: &mut dyn Facts,
    left: &mut Vec<Claim>,
) -> Result<Annotation, String> {
    match node {
        Node::Param(at) => match &params[*at].what {
            Operand::Tensor(axes, kind) => {
                Ok(Annotation::tensor(theorem::extents(axes), dtype_of(kind, types)))
            }
            Operand::Float => Err("a float is no tensor".to_owned()),
        },
        Node::Constant(_, kind) => Ok(Annotation::tensor(Vec::new(), dtype_of(kind, types))),
        Node::Part(whole, at) => match annotation(params, types, whole, facts, left)? {
            Annotation::Tuple(mut items) if *at < items.len() => Ok(items.swap_remove(*at)),
            other => Err(format!("{other} has no part {at}")),
        },
        Node::Call(call) => {
            let mut operands = Vec::with_capacity(call.args.len());
            for (param, arg) in call.row.params.iter().zip(&call.args) {
                operands.push(match arg {
                    Arg::Node(node) => {
                        let annotation = annotation(params, types, node, facts, left)?;
                        Known { annotation, known: None }
                    }
                    Arg::Nodes(nodes) => {
                        let parts = nodes
                            .iter()
                            .map(|node| annotation(params, types, node, facts, left))
                            .collect::<Result<_, _>>()?;
                        Known { annotation: Annotation::Tuple(parts), known: None }
                    }
                    other => deduced(other, param.kind, types),
                });
            }
            infer(call, &operands, facts, left)
        }
    }
}

fn infer(
    call: &Call,
    operands: &[Known],
    facts: &mut dyn Facts,
    left: &mut Vec<Claim>,
) -> Result<Annotation, String> {
    let row = call.row;
    let mut infer = Infer { row, operands, facts, obligations: Vec::new(), module: None };
    let found = (row.infer)(&mut infer).map_err(|reject| {
        format!("{}/{}: {}", row.short_name(), reject.constraint, reject.message)
    })?;
    left.extend(infer.obligations.into_iter().map(|obligation| obligation.claim));
    Ok(found)
}

/// Proves that both sides of an instance have the same annotation and leave the same to run time.
/// `facts` hold the conditions; afterwards also what is left to run time on both sides.
///
/// # Errors
/// What differs.
pub(super) fn same_annotation(
    rule: &Rule,
    types: &Types,
    facts: &mut dyn Facts,
) -> Result<(), String> {
    let a = side(&rule.params, types, &rule.left, facts)?;
    let b = side(&rule.params, types, &rule.right, facts)?;
    same(&a.annotation, &b.annotation, facts)?;
    for (these, those) in [(&a.left, &b.left), (&b.left, &a.left)] {
        facts.push();
        these.iter().for_each(|claim| facts.assume(claim.clone()));
        let open = those.iter().find(|claim| facts.decide(claim) != Answer::Proved).cloned();
        facts.pop();
        if let Some(claim) = open {
            return Err(format!("only one side checks {claim} at run time"));
        }
    }
    a.left.into_iter().for_each(|claim| facts.assume(claim));
    Ok(())
}

fn same(a: &Annotation, b: &Annotation, facts: &mut dyn Facts) -> Result<(), String> {
    let differ = || format!("the sides are {a} and {b}");
    let (Annotation::Tensor(x), Annotation::Tensor(y)) = (a, b) else { return Err(differ()) };
    let (Extents::Known(m), Extents::Known(n)) = (&x.extents, &y.extents) else {
        return Err(format!("the dims of {a} are not known"));
    };
    let alike = x.dtype == y.dtype && x.dtype.is_some() && m.len() == n.len();
    if alike && m.iter().zip(n).all(|(m, n)| facts.equal(m, n) == Answer::Proved) {
        Ok(())
    } else {
        Err(differ())
    }
}

/// Holds the denotation of both sides against deduction: the same extents and dtype.
///
/// # Errors
/// Where they differ.
pub(super) fn same_denotation(
    rule: &Rule,
    types: &Types,
    facts: &mut dyn Facts,
) -> Result<(), String> {
    for node in [&rule.left, &rule.right] {
        let want = side(&rule.params, types, node, facts)?.annotation;
        let found = theorem::deduced(rule, types, node, facts)?;
        let shape: Vec<Dim> = theorem::extents(&found.shape);
        let found = Annotation::tensor(shape, found.dtype);
        same(&want, &found, facts).map_err(|why| format!("denotation and deduction: {why}"))?;
    }
    Ok(())
}

/// Every number of axes up to `most` for the groups of a rule, all the same.
pub(super) fn ranks_up_to(rule: &Rule, most: usize) -> Vec<Ranks> {
    let groups = rule.groups();
    if groups.is_empty() {
        return vec![Ranks::new()];
    }
    (0..=most).map(|rank| groups.iter().map(|group| (group.clone(), rank)).collect()).collect()
}

/// Whether an operand has an axis of its own.
pub(super) fn has_groups(rule: &Rule) -> bool {
    let group = |axis: &Axis| matches!(axis, Axis::Group(_));
    rule.params.iter().any(|param| match &param.what {
        Operand::Tensor(axes, _) => axes.iter().any(group),
        Operand::Float => false,
    })
}
