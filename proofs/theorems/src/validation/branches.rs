//! Conditionals: the value of the branch that is taken, and traps of one branch only.

use super::evaluate::{Ran, Scope, Side};
use super::prove::Elements;
use super::stops::{Guard, Stop, Test as Decides, never};
use super::values::{Def, Value, cells_of};
use crate::denotation::term::{Term, Test};
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::{Answer, Claim, Facts};
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
        let condition = &self.settled(condition.clone());
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
        let (outer, slots) = (self.learnt, self.heaps.slots.clone());
        let mut stored = Vec::new();
        for (holds, body) in [(true, then), (false, otherwise)] {
            self.branch.push(format!("{key} is {holds}"));
            self.facts.push();
            let test = match (&claims, condition) {
                (Some(claims), _) => Some(Decides::Dims(claims.clone())),
                (None, Value::Entry(id)) => Some(Decides::Element(self.table.find(*id))),
                (None, _) => None,
            };
            let guard = test.map(|test| Guard { test, holds });
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
            stored.push(std::mem::replace(&mut self.heaps.slots, slots.clone()));
        }
        // Where one branch always stops, what there is afterwards comes from the other one.
        if let [true, false] | [false, true] = left.as_slice() {
            let taken = usize::from(left[1]);
            self.cells[..before.len()].copy_from_slice(&held[taken]);
            self.heaps.slots = stored.swap_remove(taken);
            return Ok(results.swap_remove(taken));
        }
        self.heaps.keep_common(stored.swap_remove(0), &stored[0]);
        let asked = Asked::of(condition, claims.as_deref());
        let held = held[0].iter().zip(&held[1]).enumerate();
        for (at, (a, b)) in held {
            let (a, b) = (Value::Entry(*a), Value::Entry(*b));
            if let Value::Entry(id) = self.chosen(&asked, &a, &b)? {
                self.cells[at] = id;
            }
        }
        self.chosen(&asked, &results[0], &results[1])
    }

    fn chosen(&mut self, asked: &Asked, a: &Value, b: &Value) -> Ran<Value> {
        let condition = asked.condition;
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
                let items = pairs.map(|(x, y)| self.chosen(asked, x, y));
                Ok(Value::Tuple(items.collect::<Ran<_>>()?))
            }
            (Value::Entry(x), Value::Entry(y)) => {
                let key = format!("{} ? {} : {}", self.key(condition), self.key(&a), self.key(&b));
                let [one, other] = [x, y].map(|id| self.annotation(*id).clone());
                let common = asked.common(&one, &other, self.facts);
                let alike = common.is_some();
                let annotation = common.unwrap_or(Annotation::Object);
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

/// What a branch asks.
struct Asked<'v> {
    condition: &'v Value,
    /// What is known of dims where it holds, and where it does not.
    sides: [Vec<Claim>; 2],
}

impl<'v> Asked<'v> {
    /// `claims` are those of which a truth value says that all hold.
    fn of(condition: &'v Value, claims: Option<&[Claim]>) -> Self {
        let sides = [true, false].map(|holds| {
            let guard =
                |claims: &[Claim]| Guard { test: Decides::Dims(claims.to_vec()), holds }.known();
            claims.map_or_else(Vec::new, guard)
        });
        Self { condition, sides }
    }

    /// The annotation that what the first branch gives has where it is taken, and what the other one gives there.
    fn common(&self, a: &Annotation, b: &Annotation, facts: &mut dyn Facts) -> Option<Annotation> {
        if a == b {
            return Some(a.clone());
        }
        let (one, other) = (a.as_tensor()?, b.as_tensor()?);
        let (x, y) = (one.extents.dims()?, other.extents.dims()?);
        if one.dtype.is_none() || one.dtype != other.dtype || x.len() != y.len() {
            return None;
        }
        let mut equal = |known: &[Claim]| {
            facts.push();
            known.iter().for_each(|claim| facts.assume(claim.clone()));
            let mut pairs = x.iter().zip(y);
            let equal = pairs.all(|(x, y)| x == y || facts.equal(x, y) == Answer::Proved);
            facts.pop();
            equal
        };
        // Where the one is taken its dims are those of the other.
        if equal(&self.sides[0]) {
            return Some(b.clone());
        }
        equal(&self.sides[1]).then(|| a.clone())
    }
}

/// The claims of which a term says that all hold.
fn claims_of(term: &Term) -> Option<Vec<Claim>> {
    match term {
        Term::Number(_, value) if *value == 0.0 => Some(vec![never()]),
        Term::Number(..) => Some(Vec::new()),
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
