//! Proofs of rules: both sides have the same extents, demand the same, and have equal elements.

use super::basis::at_units;
use super::comparison::compare;
use super::denoter::{Denoter, Stops, extent};
use super::normal::Normalizer;
use super::operands::Operands;
use super::poly::{Atom, Poly};
use super::program::{WHERE, WHERE_NOT};
use super::ranges::assume_index;
use super::term::{Binder, Domain, FoldOp, Known, Reals, Stuck, Term, Test, mentions, unknown};
use crate::rules::instance::{Types, dtype_of};
use crate::rules::rule::{Axis, Kind, Node, Operand, Rule};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// What a denotation says of one side: compared with deduction by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deduced {
    /// The axes.
    pub(crate) shape: Vec<Axis>,
    /// The element type.
    pub(crate) dtype: DType,
}

/// Assumes what a rule assumes of its dims.
pub(crate) fn assume_conditions(rule: &Rule, facts: &mut dyn Facts) {
    let assume = |facts: &mut dyn Facts, name: Name| {
        facts.assume(Claim::new(0, Relation::AtMost, Dim::Var(name)));
    };
    for name in rule.dims() {
        assume(facts, name);
    }
    for group in rule.groups() {
        assume(facts, format!("*{group}").into());
    }
    // An extent that is an expression is one of a tensor that there is.
    for param in &rule.params {
        let Operand::Tensor(axes, _) = &param.what else { continue };
        for axis in axes {
            if let Axis::Dim(dim @ Dim::Op(..)) = axis {
                facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        }
    }
    for condition in &rule.conditions {
        facts.assume(condition.clone());
    }
}

/// The meaning of a side, as far as deduction tells it too.
pub(crate) fn deduced(
    rule: &Rule,
    types: &Types,
    node: &Node,
    facts: &mut dyn Facts,
) -> Result<Deduced, String> {
    let mut denoter = denoter(rule, types, facts);
    let found = denoter.shape(node).and_then(|shape| Ok((shape, denoter.dtype(node)?)));
    found.map(|(shape, dtype)| Deduced { shape, dtype }).map_err(said)
}

fn denoter<'a>(rule: &'a Rule, types: &'a Types, facts: &'a mut dyn Facts) -> Denoter<'a> {
    let reals = match rule.kind {
        Kind::Exact => Reals::Nowhere,
        Kind::Approximate => Reals::InsteadOfFloats,
    };
    Denoter { params: &rule.params, types, reals, facts, fresh: 0, stops: Vec::new() }
}

pub(crate) fn said(stuck: Stuck) -> String {
    match stuck {
        Stuck::Unknown(why) => why,
        Stuck::Split(Test::Dims(claim)) => format!("it is not known whether {claim}"),
        Stuck::Split(Test::Element(_)) => "it depends on an element".to_owned(),
    }
}

/// Proves that both sides of a rule are equal, under facts in which its conditions are assumed.
///
/// # Errors
/// Why there is no proof.
pub(crate) fn prove_equal(rule: &Rule, types: &Types, facts: &mut dyn Facts) -> Result<(), String> {
    same_stops(rule, types, facts)?;
    let mut denoter = denoter(rule, types, facts);
    let shape = denoter.shape(&rule.left).map_err(said)?;
    let other = denoter.shape(&rule.right).map_err(said)?;
    let alike =
        shape.len() == other.len() && shape.iter().zip(&other).all(|(a, b)| denoter.same(a, b));
    if !alike {
        return Err(format!("the extents are {shape:?} and {other:?}"));
    }
    if denoter.dtype(&rule.left) != denoter.dtype(&rule.right) {
        return Err("the dtypes differ".to_owned());
    }
    let at = denoter.indices(&shape);
    at.iter().for_each(|binder| assume_index(binder, &mut *denoter.facts));
    let index: Vec<Dim> = at.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    let left = denoter.element(&rule.left, &index).map_err(said)?;
    let right = denoter.element(&rule.right, &index).map_err(said)?;
    let operands = operands(rule, types);
    let outcome = compare(&left, &right, &mut *denoter.facts, &operands);
    let Err(why) = outcome else { return Ok(()) };
    let Some(units) = at_units(rule, &mut denoter, &left, &right) else { return Err(why) };
    units.places.iter().for_each(|place| assume_index(place, &mut *denoter.facts));
    compare(&units.left, &units.right, facts, &operands)
        .map_err(|units| format!("{why}; of unit tensors, {units}"))
}

fn operands(rule: &Rule, types: &Types) -> Operands {
    let params = rule.params.iter().filter_map(|param| match &param.what {
        Operand::Tensor(_, kind) => Some((param.name.clone(), dtype_of(kind, types))),
        Operand::Float => None,
    });
    Operands::of(params)
}

/// Both sides stop the program for the same elements.
fn same_stops(rule: &Rule, types: &Types, facts: &mut dyn Facts) -> Result<(), String> {
    let operands = operands(rule, types);
    let mut sides = Vec::new();
    for (at, node) in [&rule.left, &rule.right].into_iter().enumerate() {
        let mut denoter = denoter(rule, types, &mut *facts);
        // The names of one side are not those of the other.
        denoter.fresh = at * 10_000;
        denoter.note_stops(node).map_err(said)?;
        sides.push(denoter.stops);
    }
    alike_stops(&sides[0], &sides[1], facts, &operands)
}

/// Two lists of stops are the same conditions on the same elements, in each case of the claims that decide them.
pub(crate) fn alike_stops(
    left: &[Stops],
    right: &[Stops],
    facts: &mut dyn Facts,
    operands: &Operands,
) -> Result<(), String> {
    alike_in_cases(left, right, facts, operands, MAX_CASES)
}

/// Claims one in the other that stops may be divided by.
const MAX_CASES: usize = 4;

fn alike_in_cases(
    left: &[Stops],
    right: &[Stops],
    facts: &mut dyn Facts,
    operands: &Operands,
    depth: usize,
) -> Result<(), String> {
    if left.is_empty() && right.is_empty()
        || facts.decide(&Claim::new(1, Relation::AtMost, 0)) == Answer::Proved
    {
        return Ok(());
    }
    let claim = match alike_here(left, right, facts, operands) {
        Err(Stuck::Split(Test::Dims(claim))) if depth > 0 => claim,
        other => return other.map_err(said),
    };
    for claim in [claim.clone(), claim.opposite()] {
        facts.push();
        facts.assume(claim);
        let outcome = alike_in_cases(left, right, facts, operands, depth - 1);
        facts.pop();
        outcome?;
    }
    Ok(())
}

fn alike_here(
    left: &[Stops],
    right: &[Stops],
    facts: &mut dyn Facts,
    operands: &Operands,
) -> Known<()> {
    let mut own = Normalizer::new(facts, operands);
    let found = alike_by(&mut own, left, right);
    own.of_free_indices(found)
}

fn alike_by(own: &mut Normalizer, left: &[Stops], right: &[Stops]) -> Known<()> {
    own.literal(0.0)?;
    own.literal(1.0)?;
    let (left, right) = (stop_atoms(own, left)?, stop_atoms(own, right)?);
    for (these, those) in [(&left, &right), (&right, &left)] {
        for stop in these {
            let mut met = false;
            for other in those {
                met |= own.same_atom(stop, other)?;
            }
            if !met {
                return unknown("only one side stops the program for some elements");
            }
        }
    }
    Ok(())
}

/// Conditions on all elements, as atoms: equal atoms are equal conditions.
fn stop_atoms(own: &mut Normalizer, stops: &[Stops]) -> Known<Vec<Atom>> {
    let mut atoms = Vec::new();
    for stop in stops {
        atoms.extend(stop_parts(own, &stop.what, &stop.over, &stop.terms, 4)?);
    }
    Ok(atoms)
}

/// A condition on all elements; where it is another from some index on, one for each part.
fn stop_parts(
    own: &mut Normalizer,
    what: &str,
    over: &[Binder],
    terms: &[Term],
    depth: usize,
) -> Known<Vec<Atom>> {
    let claim = match stop_atom(own, what, over, terms) {
        Err(Stuck::Split(Test::Dims(claim))) if depth > 0 => claim,
        other => return other.map(|atom| atom.into_iter().collect()),
    };
    let inner = |name: &Name| over.iter().any(|(binder, _)| binder == name);
    if !mentions(&claim.left, &inner) && !mentions(&claim.right, &inner) {
        return Err(Stuck::Split(Test::Dims(claim)));
    }
    for (at, (k, n)) in over.iter().enumerate() {
        let about =
            mentions(&claim.left, &|name| name == k) || mentions(&claim.right, &|name| name == k);
        let Some(mut point) = (if about { own.point(&claim, k) } else { None }) else { continue };
        // One index alone is cut out where it is the first, which it is behind a cut there.
        let is_first = claim.relation == Relation::Equal
            && own.proves(&Claim::new(point.clone(), Relation::AtMost, 0));
        if is_first {
            point = Dim::Int(1);
        }
        let inside = own.proves(&Claim::new(0, Relation::AtMost, point.clone()))
            && own.proves(&Claim::new(point.clone(), Relation::AtMost, n.clone()));
        if mentions(&point, &|name| name == k) || !inside {
            continue;
        }
        let (mut first, mut second) = (over.to_vec(), over.to_vec());
        first[at].1 = point.clone();
        second[at].1 = Dim::op(DimOp::Sub, n.clone(), point.clone());
        let moved = Dim::op(DimOp::Add, Dim::Var(k.clone()), point);
        let map = std::iter::once((k.clone(), moved)).collect();
        let shifted: Vec<Term> = terms.iter().map(|term| term.substitute(&map)).collect();
        let mut parts = stop_parts(own, what, &first, terms, depth - 1)?;
        parts.extend(stop_parts(own, what, &second, &shifted, depth - 1)?);
        return Ok(parts);
    }
    unknown(format!("where the program stops depends on {claim}"))
}

/// None where a condition on the way to it never holds.
fn stop_atom(
    own: &mut Normalizer,
    what: &str,
    over: &[Binder],
    terms: &[Term],
) -> Known<Option<Atom>> {
    let body = own.within(over, |own| {
        let mut normal = Vec::new();
        for term in terms {
            if let Some((condition, holds)) = on_the_way(term) {
                let truth = own.normal(condition)?;
                match own.truth_of(&truth) {
                    Some(value) if value == holds => continue,
                    Some(_) => return Ok(None),
                    None => {}
                }
            }
            normal.push(own.normal(term)?);
        }
        let atom = Atom::Apply(Domain::Ring, what.into(), normal);
        Ok(Some(Poly::atom(own.intern(atom)?)))
    })?;
    let Some(body) = body else { return Ok(None) };
    let mut used = Vec::new();
    for binder in over {
        let names = std::iter::once(binder.0.clone()).collect();
        if own.depends(&body, &names) || !own.at_least(&binder.1, 1) {
            used.push(binder.clone());
        }
    }
    if used.len() > 4 {
        return unknown("many indices");
    }
    Ok(Some(Atom::Fold(Domain::Ring, FoldOp::Max, used, body)))
}

/// A condition on the way to a stop, and whether it must hold.
fn on_the_way(term: &Term) -> Option<(&Term, bool)> {
    let Term::Apply(Domain::Bits, name, args) = term else { return None };
    match (name.as_str(), args.as_slice()) {
        (WHERE, [condition]) => Some((condition, true)),
        (WHERE_NOT, [condition]) => Some((condition, false)),
        _ => None,
    }
}

/// The extents of a shape, those of groups as the product of their dims.
pub(crate) fn extents(shape: &[Axis]) -> Vec<Dim> {
    shape.iter().map(extent).collect()
}
