//! Recurrences: values that each iteration makes of the ones before. What is known becomes a sum, a product,
//! a greatest or least; the rest is a function, named by its step, of where it begins and of the rows that it
//! goes through, in their order.

use super::loops::{rebuilt, state};
use crate::denotation::names::{ADD, MAXIMUM, MINIMUM, MULTIPLY};
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// One step for each state, over `state#0` and so on; the last value of the first state is wanted.
pub(crate) struct Recurrence {
    /// That of the first state.
    pub(crate) dtype: DType,
    pub(crate) inits: Vec<Term>,
    pub(crate) steps: Vec<Term>,
    /// Each from 0, the first outermost.
    pub(crate) binders: Vec<Binder>,
}

/// The value after all iterations.
pub(crate) fn iterated(recurrence: Recurrence, facts: &mut dyn Facts) -> Known<Term> {
    let Recurrence { dtype, mut inits, steps, mut binders } = recurrence;
    if let ([step], false) = (steps.as_slice(), steps.iter().any(has_state)) {
        return Ok(last(step, &inits[0], &binders));
    }
    // A loop whose step is a loop of the same kind: one over both.
    let (shapes, rows) = match flat(&steps, inits.len()) {
        Some((shapes, rows, inner)) => {
            binders.extend(inner);
            (shapes, rows)
        }
        None => {
            let mut rows = Vec::new();
            let shapes = steps.iter().map(|step| split(step, &mut rows));
            (shapes.collect::<Known<Vec<_>>>()?, rows)
        }
    };
    if let ([shape], [row]) = (shapes.as_slice(), rows.as_slice())
        && let Some(term) = simple(dtype, shape, &inits[0], row, &binders, facts)
    {
        return Ok(term);
    }
    let domain = Domain::Bits;
    let name = format!("{ITERATE}{dtype} {shapes:?}");
    let row = Term::apply(domain, "row", rows);
    let all = Term::Fold(domain, FoldOp::Row("rows".into(), Vec::new()), binders, Box::new(row));
    inits.push(all);
    Ok(Term::apply(domain, &name, inits))
}

/// Begins the name of an iteration that has no other one; its dtype follows.
pub(super) const ITERATE: &str = "iterate ";

/// What does not look at the state: that of the last iteration, if there is one.
fn last(step: &Term, init: &Term, binders: &[Binder]) -> Term {
    let (name, extent) = &binders[0];
    let end = Dim::op(DimOp::Sub, extent.clone(), Dim::Int(1));
    let value = step.substitute(&[(name.clone(), end)].into());
    // Not asked here: within the loop there is an iteration.
    Term::choose(Claim::new(1, Relation::AtMost, extent.clone()), value, init.clone())
}

/// A step that is itself an iteration from its own state on.
fn flat(steps: &[Term], count: usize) -> Option<(Vec<Term>, Vec<Term>, Vec<Binder>)> {
    let [Term::Apply(_, name, args)] = steps else { return None };
    if !name.starts_with(ITERATE) || args.len() != count + 1 || args[0] != state(0) {
        return None;
    }
    let Term::Fold(_, FoldOp::Row(..), binders, row) = args.last()? else { return None };
    let Term::Apply(_, _, rows) = &**row else { return None };
    if rows.iter().any(has_state) {
        return None;
    }
    // The step stands in the name: what it was is read back from the shapes known here.
    let shape = known_shape(name)?;
    Some((vec![shape], rows.clone(), binders.clone()))
}

/// The steps of one state and one row that have a law, by their names.
fn known_shape(name: &str) -> Option<Term> {
    let each = [ADD, MULTIPLY, MAXIMUM, MINIMUM, "greater or first", "lesser or first"];
    let (state, row) = (state(0), row(0));
    for function in each {
        for domain in [Domain::Bits, Domain::Ring] {
            for args in [vec![state.clone(), row.clone()], vec![row.clone(), state.clone()]] {
                let shape = Term::apply(domain, function, args);
                if name.ends_with(&format!(" {:?}", [&shape])) {
                    return Some(shape);
                }
            }
        }
    }
    None
}

fn row(at: usize) -> Term {
    Term::Scalar(format!("row#{at}").into())
}

/// The step with names for what does not look at a state.
fn split(step: &Term, rows: &mut Vec<Term>) -> Known<Term> {
    let mut note = |term: &Term| {
        let known = rows.iter().position(|other| other == term);
        row(known.unwrap_or_else(|| {
            rows.push(term.clone());
            rows.len() - 1
        }))
    };
    if !has_state(step) {
        return Ok(if matches!(step, Term::Number(..)) { step.clone() } else { note(step) });
    }
    match step {
        Term::Scalar(_) => Ok(step.clone()),
        Term::Apply(domain, name, args) => {
            let args = args.iter().map(|arg| split(arg, rows)).collect::<Known<_>>()?;
            Ok(Term::Apply(*domain, name.clone(), args))
        }
        Term::If(test, then, otherwise) => {
            let condition = match test {
                Test::Dims(claim) => {
                    let truth = |value| Term::Number(Domain::Bits, value);
                    note(&Term::choose(claim.clone(), truth(1.0), truth(0.0)))
                }
                Test::Element(term) => split(term, rows)?,
            };
            let (then, otherwise) = (split(then, rows)?, split(otherwise, rows)?);
            Ok(Term::If(Test::Element(Box::new(condition)), Box::new(then), Box::new(otherwise)))
        }
        _ => unknown("a loop that looks up elements by what it computes"),
    }
}

/// Whether a state is in a term.
pub(super) fn has_state(term: &Term) -> bool {
    let mut found = false;
    let _ = rebuilt(term, &mut |term| {
        found |= matches!(term, Term::Scalar(name) if name.starts_with("state#"));
        Ok(None)
    });
    found
}

/// Sums, products, greatest and least.
fn simple(
    dtype: DType,
    shape: &Term,
    init: &Term,
    data: &Term,
    binders: &[Binder],
    facts: &mut dyn Facts,
) -> Option<Term> {
    let Term::Apply(domain, name, args) = shape else { return None };
    let pair = [state(0), row(0)];
    if !(args.as_slice() == pair || args.iter().rev().eq(pair.iter())) {
        return None;
    }
    let fold = |op| Term::Fold(*domain, op, binders.to_vec(), Box::new(data.clone()));
    let ring = *domain == Domain::Ring;
    let begins_with = |value: f64| match init {
        Term::Number(_, number) => number.to_bits() == value.to_bits(),
        Term::Extent(Dim::Int(number)) => *number as f64 == value,
        _ => false,
    };
    match name.as_str() {
        ADD if ring && begins_with(0.0) => Some(fold(FoldOp::Add)),
        MULTIPLY if ring && begins_with(1.0) => Some(fold(FoldOp::Multiply)),
        ADD | MULTIPLY if ring => {
            let op = if name == ADD { FoldOp::Add } else { FoldOp::Multiply };
            Some(Term::apply(*domain, name, vec![init.clone(), fold(op)]))
        }
        ADD if begins_with(0.0) => {
            Some(fold(FoldOp::Row(format!("sum of {dtype}").into(), Vec::new())))
        }
        MULTIPLY if begins_with(1.0) => {
            Some(fold(FoldOp::Row(format!("product of {dtype}").into(), Vec::new())))
        }
        MAXIMUM | MINIMUM => {
            // From the first element on: that counts once.
            let map = binders.iter().map(|(name, _)| (name.clone(), Dim::Int(0))).collect();
            let some = binders.iter().all(|(_, extent)| {
                let claim = Claim::new(1, Relation::AtMost, extent.clone());
                facts.decide(&claim) == Answer::Proved
            });
            let op = if name == MAXIMUM { FoldOp::Max } else { FoldOp::Min };
            (some && data.substitute(&map) == *init).then(|| fold(op))
        }
        _ => None,
    }
}

/// A step in which the first iteration begins anew: the step without that, and where it begins.
pub(super) fn peeled(step: &Term, state: &Term, var: &Name, start: &Dim) -> Option<(Term, Term)> {
    let mut init = None;
    let step = rebuilt(step, &mut |term| {
        let Some(found) = beginning(term, state, var, start) else { return Ok(None) };
        match &init {
            Some(known) if *known != found => unknown("two ways to begin"),
            _ => {
                init = Some(found);
                Ok(Some(state.clone()))
            }
        }
    });
    Some((step.ok()?, init?))
}

/// `init if var == start else state`, within tests that do not look at the variable.
fn beginning(term: &Term, state: &Term, var: &Name, start: &Dim) -> Option<Term> {
    let Term::If(Test::Dims(claim), then, otherwise) = term else { return None };
    if **otherwise != *state {
        return None;
    }
    let first = claim.relation == Relation::Equal
        && claim.left == Dim::Var(var.clone())
        && claim.right == *start;
    if first {
        // Inner tests of the same kind may stand in it; it is the value there that counts.
        return Some((**then).clone());
    }
    let about =
        mentions(&claim.left, &|name| name == var) || mentions(&claim.right, &|name| name == var);
    if about {
        return None;
    }
    let inner = beginning(then, state, var, start)?;
    Some(Term::choose(claim.clone(), inner, state.clone()))
}
