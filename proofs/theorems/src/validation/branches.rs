//! Conditionals: the value of the branch that is taken, and traps of one branch only.

use super::evaluate::{Ran, Scope, Side};
use super::prove::Elements;
use super::stops::{Guard, Stop, never};
use super::values::{Def, Value, cells_of};
use crate::denotation::term::{Term, Test};
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::{Answer, Claim};
use relax_syntax::ir::Body;

impl Side<'_> {
    /// A stop, where the branches around are taken.
    pub(super) fn guarded(&self, stop: Stop) -> Stop {
        let guards: Option<Vec<Guard>> = self.guards.iter().cloned().collect();
        match guards {
            Some(guards) if guards.is_empty() => stop,
            Some(guards) => Stop::Guarded(guards, Box::new(stop)),
            None => Stop::Opaque(format!("{}: {}", self.branch.join(": "), stop.key())),
        }
    }

    /// The claims on dims of which a truth value says that all hold.
    fn claims(&mut self, condition: &Value) -> Option<Vec<Claim>> {
        let Value::Entry(id) = self.settled(condition.clone()) else { return None };
        let mut fresh = self.fresh + 100_000;
        let mut elements = Elements::new(self.table, &mut *self.facts, &mut fresh);
        claims_of(&elements.scalar(id).ok()?)
    }

    /// Whether this branch stops the program for all dims that lead to it.
    fn is_never_left(&mut self) -> bool {
        self.facts.decide(&never()) == Answer::Proved
    }

    pub(super) fn choice(
        &mut self,
        scope: &mut Scope,
        condition: &Value,
        then: &Body,
        otherwise: &Body,
    ) -> Ran<Value> {
        let claims = self.claims(condition);
        if let Some(claims) = &claims {
            let mut holds = |claim: &Claim| self.facts.decide(claim) == Answer::Proved;
            if claims.iter().all(&mut holds) {
                return self.body(scope, then);
            }
            if claims.iter().any(|claim| holds(&claim.opposite())) {
                return self.body(scope, otherwise);
            }
        }
        let key = self.key(condition);
        let before = self.cells.clone();
        let (mut results, mut held, mut left) = (Vec::new(), Vec::new(), Vec::new());
        let outer = self.learnt;
        for (holds, body) in [(true, then), (false, otherwise)] {
            self.branch.push(format!("{key} is {holds}"));
            self.facts.push();
            let guard = claims.clone().map(|claims| Guard { claims, holds });
            for claim in guard.iter().flat_map(Guard::known) {
                self.learnt = true;
                self.facts.assume(claim);
            }
            self.guards.push(guard);
            let dims = scope.dims.clone();
            let result = self.body(scope, body);
            scope.dims = dims;
            left.push(claims.is_none() || !self.is_never_left());
            self.guards.pop();
            self.facts.pop();
            self.branch.pop();
            self.learnt = outer;
            results.push(result?);
            held.push(self.cells[..before.len()].to_vec());
            self.cells[..before.len()].copy_from_slice(&before);
        }
        // Where one branch always stops, what there is afterwards comes from the other one.
        if let [true, false] | [false, true] = left.as_slice() {
            let taken = usize::from(left[1]);
            self.cells[..before.len()].copy_from_slice(&held[taken]);
            return Ok(results.swap_remove(taken));
        }
        let held = held[0].iter().zip(&held[1]).enumerate();
        for (at, (a, b)) in held {
            let (a, b) = (Value::Entry(*a), Value::Entry(*b));
            if let Value::Entry(id) = self.chosen(condition, &a, &b)? {
                self.cells[at] = id;
            }
        }
        self.chosen(condition, &results[0], &results[1])
    }

    fn chosen(&mut self, condition: &Value, a: &Value, b: &Value) -> Ran<Value> {
        if a == b {
            return Ok(a.clone());
        }
        // Of memory only what it holds now is chosen: nobody may write to what has two names.
        [a, b].into_iter().for_each(|value| self.viewed.extend(cells_of(value)));
        let (a, b) = (self.settled(a.clone()), self.settled(b.clone()));
        if self.key(&a) == self.key(&b) {
            return Ok(a);
        }
        match (&a, &b) {
            (Value::Tuple(x), Value::Tuple(y)) if x.len() == y.len() => {
                let pairs = x.iter().zip(y);
                let items = pairs.map(|(x, y)| self.chosen(condition, x, y));
                Ok(Value::Tuple(items.collect::<Ran<_>>()?))
            }
            (Value::Entry(x), Value::Entry(y)) => {
                let key = format!("{} ? {} : {}", self.key(condition), self.key(&a), self.key(&b));
                let annotation = self.annotation(*x).clone();
                let alike = annotation == *self.annotation(*y);
                let annotation = if alike { annotation } else { Annotation::Object };
                let def = match condition {
                    Value::Entry(id) if alike => Def::Choice(*id, *x, *y),
                    _ => Def::Opaque,
                };
                Ok(Value::Entry(self.table.entry(key, || (annotation, def))))
            }
            _ => {
                let key = format!("{} ? {} : {}", self.key(condition), self.key(&a), self.key(&b));
                Ok(self.opaque(key, Annotation::Object, None))
            }
        }
    }
}

/// The claims of which a term says that all hold.
fn claims_of(term: &Term) -> Option<Vec<Claim>> {
    match term {
        Term::If(Test::Dims(claim), then, otherwise) => match (&**then, &**otherwise) {
            (Term::Number(_, 1.0), Term::Number(_, 0.0)) => Some(vec![claim.clone()]),
            (Term::Number(_, 0.0), Term::Number(_, 1.0)) => Some(vec![claim.opposite()]),
            _ => None,
        },
        Term::Apply(_, name, args) if name == "logical_and" => {
            let each: Option<Vec<_>> = args.iter().map(claims_of).collect();
            Some(each?.concat())
        }
        _ => None,
    }
}
