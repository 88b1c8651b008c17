//! Statements in a certificate: how they open to facts or cases, and how their truth is proved.

use super::lines::{Case, End, Fact, Id, Line, Relation};
use super::prove::{Author, Way};
use crate::atoms::Atom;
use crate::claims::Formula;
use crate::context::Context;
use crate::egraph::Instance;
use crate::polynomial::{Poly, floor_div};
use crate::proof::Goal;
use crate::tableau::opposite;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation as Compare};

/// How many case splits each branch may nest.
const SPLITS: u32 = 6;
/// Steps of the engine for each branch.
const FUEL: u32 = 20_000;
/// What a branch takes from the steps of an attempt, beside the polynomials: what needs more branches than that is for the engine,
/// which knows more of each.
const BRANCH: u32 = 100;

/// What a statement is taken to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Holds,
    /// It has a value and is false.
    Fails,
    /// It has no value.
    Undefined,
}

/// A part of a statement with its status.
type Item<'f> = (&'f Formula, Status);

/// What a statement opens to.
enum Opened<'f> {
    /// Parts that all are so.
    Items(Vec<Item<'f>>),
    /// One of these.
    Ways(Vec<Vec<Item<'f>>>),
    /// Polynomial facts, and what the engine is told of them.
    Facts(Vec<Fact>, Vec<Claim>),
    /// One of these.
    Alternatives(Vec<(Vec<Fact>, Vec<Claim>)>),
}

/// What divides a branch into cases.
#[derive(Clone)]
enum Choice<'f> {
    Statement(Id, Item<'f>),
    /// What is not 0 is above or below.
    Sides(Id, Fact, Claim),
}

/// Work that is left in a branch.
#[derive(Clone, Default)]
pub(crate) struct Pending<'f> {
    /// Statements that are facts, with their numbers.
    pub(crate) items: Vec<(Id, Item<'f>)>,
    choices: Vec<Choice<'f>>,
    /// Instances of rules that were not used yet.
    pub(crate) instances: Vec<Instance>,
    pub(crate) context: Context,
    goal: Goal,
}

impl<'f> Pending<'f> {
    /// With what the engine knows.
    pub(crate) fn new(context: Context, items: Vec<(Id, Item<'f>)>) -> Self {
        Self { items, context, ..Self::default() }
    }
}

impl Author<'_> {
    /// Why the branch with these statements is absurd.
    pub(crate) fn absurd(&mut self, mut pending: Pending<'_>) -> Option<End> {
        while let Some((id, item)) = pending.items.pop() {
            self.take(&mut pending, id, item)?;
            if let Some(absurd) = self.branch.absurd {
                return Some(End::Closed(absurd));
            }
        }
        let end = match self.way {
            Way::Arguments => {
                self.fuel = self.fuel.checked_sub(BRANCH)?;
                self.absurd_by_arguments()
            }
            Way::Engine => {
                self.use_rules(&mut pending);
                self.by_engine(&mut pending)
            }
        };
        if end.is_some() {
            return end;
        }
        if pending.choices.is_empty() {
            return None;
        }
        match pending.choices.remove(0) {
            Choice::Statement(id, item) => self.by_cases(&pending, id, item),
            Choice::Sides(id, fact, claim) => self.by_sides(&pending, id, &fact.poly, &claim),
        }
    }

    /// Opens a statement where that gives facts.
    fn take<'f>(&mut self, pending: &mut Pending<'f>, id: Id, item: Item<'f>) -> Option<()> {
        match self.opened(item)? {
            Opened::Items(parts) => {
                let ids: Vec<Id> = parts.iter().map(|_| self.fresh()).collect();
                self.lines.push(Line::Open(id, ids.clone()));
                pending.items.extend(ids.into_iter().zip(parts).rev());
            }
            Opened::Facts(facts, claims) => {
                let ids: Vec<Id> = facts.iter().map(|_| self.fresh()).collect();
                self.lines.push(Line::Open(id, ids.clone()));
                for (id, fact) in ids.iter().zip(&facts) {
                    self.learn(*id, fact);
                }
                if let (Some(id), Some(fact), Some(claim)) =
                    (ids.last(), facts.last(), claims.last())
                    && fact.relation == Relation::NotEqual
                {
                    pending.choices.push(Choice::Sides(*id, fact.clone(), claim.clone()));
                }
                self.tell_engine(pending, &claims);
            }
            Opened::Ways(ways) if ways.is_empty() => self.branch.absurd = Some(id),
            Opened::Alternatives(ways) if ways.is_empty() => self.branch.absurd = Some(id),
            Opened::Ways(_) | Opened::Alternatives(_) => {
                pending.choices.push(Choice::Statement(id, item));
            }
        }
        Some(())
    }

    /// Lets the engine know claims that became facts, and follows what it concludes.
    fn tell_engine(&mut self, pending: &mut Pending<'_>, claims: &[Claim]) {
        if self.way == Way::Arguments {
            return;
        }
        for claim in claims {
            self.engine.fuel = FUEL;
            let (context, goal) = (&mut pending.context, &mut pending.goal);
            let ((), events) = self.engine.observed(|engine| {
                if let Some((poly, _)) = engine.claimed(context, claim) {
                    match claim.relation {
                        Compare::AtMost | Compare::Less => goal.at_least_zero.push(poly),
                        Compare::Equal | Compare::Divides => goal.zero.push(poly),
                        Compare::NotEqual => {}
                    }
                }
                engine.assert(context, claim);
            });
            self.replay(&events);
        }
        self.link_as_read();
    }

    /// Without further cases of statements: by the engine alone.
    fn by_engine(&mut self, pending: &mut Pending<'_>) -> Option<End> {
        let context = &pending.context;
        let goal = &mut pending.goal;
        self.engine.fuel = FUEL;
        let (refuted, events) = self.engine.observed(|engine| {
            let mut rebuilt = |polys: &[Poly]| -> Vec<Poly> {
                let polys = polys.iter().filter_map(|poly| engine.rebuild(context, poly));
                polys.filter(|poly| !poly.is_zero()).collect()
            };
            let at_least_zero = rebuilt(&goal.at_least_zero);
            *goal = Goal { at_least_zero, zero: rebuilt(&goal.zero) };
            engine.refutes(context, goal, SPLITS)
        });
        if refuted { self.replay(&events) } else { None }
    }

    fn by_cases(&mut self, pending: &Pending<'_>, id: Id, item: Item<'_>) -> Option<End> {
        let cases = match self.opened(item)? {
            Opened::Ways(ways) => {
                let ways = ways.into_iter().map(|way| self.way(pending, way));
                ways.collect::<Option<Vec<Case>>>()?
            }
            Opened::Alternatives(ways) => {
                let ways = ways.iter().map(|(facts, claims)| self.told(pending, facts, claims));
                ways.collect::<Option<Vec<Case>>>()?
            }
            Opened::Items(_) | Opened::Facts(..) => return None,
        };
        Some(End::Cases(id, cases))
    }

    /// `claim` says `a != b`.
    fn by_sides(
        &mut self,
        pending: &Pending<'_>,
        id: Id,
        poly: &Poly,
        claim: &Claim,
    ) -> Option<End> {
        let less = Claim::new(claim.left.clone(), Compare::Less, claim.right.clone());
        let greater = Claim::new(claim.right.clone(), Compare::Less, claim.left.clone());
        let above = Fact { poly: poly.plus(-1)?, relation: Relation::AtLeast };
        let below = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let cases = [(above, greater), (below, less)];
        let cases = cases.into_iter().map(|(fact, claim)| self.told(pending, &[fact], &[claim]));
        Some(End::Sides(id, cases.collect::<Option<Vec<Case>>>()?))
    }

    /// The case where these parts of a statement are so.
    fn way<'f>(&mut self, pending: &Pending<'f>, way: Vec<Item<'f>>) -> Option<Case> {
        let mut pending = pending.clone();
        let ids: Vec<Id> = way.iter().map(|_| self.fresh()).collect();
        pending.items.extend(ids.iter().copied().zip(way).rev());
        let Case { proof, .. } = self.block(&[], |author, _| author.absurd(pending))?;
        Some(Case { ids, proof })
    }

    /// The case where these facts hold, which the engine reads as these claims.
    pub(crate) fn told(
        &mut self,
        pending: &Pending<'_>,
        facts: &[Fact],
        claims: &[Claim],
    ) -> Option<Case> {
        let mut pending = pending.clone();
        self.block(facts, |author, _| {
            author.tell_engine(&mut pending, claims);
            let absurd = author.branch.absurd.map(End::Closed);
            absurd.or_else(|| author.absurd(pending))
        })
    }

    fn opened<'f>(&mut self, (formula, status): Item<'f>) -> Option<Opened<'f>> {
        use Status::{Fails, Holds, Undefined};
        let one = |item| Opened::Items(vec![item]);
        Some(match (formula, status) {
            (Formula::True, Holds) | (Formula::False, Fails) => Opened::Items(Vec::new()),
            (Formula::True | Formula::False, _) => Opened::Ways(Vec::new()),
            (Formula::Claim(claim), _) => return self.opened_claim(claim, status),
            (Formula::Not(operand), Holds) => one((operand, Fails)),
            (Formula::Not(operand), Fails) => one((operand, Holds)),
            (Formula::Not(operand), Undefined) => one((operand, Undefined)),
            (Formula::And(parts) | Formula::Or(parts), _) => {
                let [a, b] = parts.as_slice() else { return None };
                let (go_on, stop) = if matches!(formula, Formula::And(_)) {
                    (Holds, Fails)
                } else {
                    (Fails, Holds)
                };
                if status == go_on {
                    Opened::Items(vec![(a, go_on), (b, go_on)])
                } else {
                    let first = if status == Undefined { Undefined } else { stop };
                    Opened::Ways(vec![vec![(a, first)], vec![(a, go_on), (b, first)]])
                }
            }
            (Formula::Implies(parts), Fails) => {
                Opened::Items(vec![(&parts.0, Holds), (&parts.1, Fails)])
            }
            (Formula::Implies(parts), _) => {
                let first = if status == Undefined { Undefined } else { Fails };
                Opened::Ways(vec![
                    vec![(&parts.0, first)],
                    vec![(&parts.0, Holds), (&parts.1, status)],
                ])
            }
        })
    }

    fn opened_claim<'f>(&mut self, claim: &Claim, status: Status) -> Option<Opened<'f>> {
        let mut divisors = Vec::new();
        let left = self.read(&claim.left, &mut divisors)?;
        let right = self.read(&claim.right, &mut divisors)?;
        let mut known: (Vec<Fact>, Vec<Claim>) = divisors.iter().map(nonzero).unzip();
        if status == Status::Undefined {
            let case = |(index, (poly, dim)): (usize, &(Poly, Dim))| {
                let (mut facts, mut claims): (Vec<Fact>, Vec<Claim>) =
                    divisors[..index].iter().map(nonzero).unzip();
                facts.push(Fact { poly: poly.clone(), relation: Relation::Equal });
                claims.push(Claim::new(dim.clone(), Compare::Equal, 0));
                (facts, claims)
            };
            return Some(Opened::Alternatives(divisors.iter().enumerate().map(case).collect()));
        }
        let told = if status == Status::Holds { claim.clone() } else { opposite(claim) };
        let (poly, relation) = match told.relation {
            Compare::Equal => (left.sub(&right)?, Relation::Equal),
            Compare::NotEqual if claim.relation != Compare::Divides => {
                (left.sub(&right)?, Relation::NotEqual)
            }
            // The sides of `told` are turned around where `claim` fails.
            Compare::AtMost | Compare::Less => {
                let distance =
                    if status == Status::Holds { right.sub(&left)? } else { left.sub(&right)? };
                let strict = i128::from(told.relation == Compare::Less);
                (distance.plus(-strict)?, Relation::AtLeast)
            }
            Compare::Divides | Compare::NotEqual => {
                let atom = Atom::Div(right.clone(), left.clone());
                let quotient = self.engine.atoms.intern(atom)?;
                if let (Some(divisor), Some(of)) = (left.as_constant(), right.as_constant())
                    && divisor > 0
                {
                    // The engine calculates with numbers and concludes nothing on the operation.
                    self.equate(quotient, &Poly::constant(floor_div(of, divisor)));
                }
                let quotient = Poly::atom(quotient);
                let rest = right.sub(&left.mul(&quotient)?)?;
                let unequal = nonzero(&(left.clone(), claim.left.clone()));
                if status == Status::Fails {
                    let mut zero = known.clone();
                    zero.0.push(Fact { poly: left, relation: Relation::Equal });
                    zero.1.push(Claim::new(claim.left.clone(), Compare::Equal, 0));
                    known.0.extend([unequal.0, Fact { poly: rest, relation: Relation::NotEqual }]);
                    known.1.extend([unequal.1, told]);
                    return Some(Opened::Alternatives(vec![zero, known]));
                }
                known.0.push(unequal.0);
                (rest, Relation::Equal)
            }
        };
        known.0.push(Fact { poly, relation });
        known.1.push(told);
        Some(Opened::Facts(known.0, known.1))
    }

    /// The polynomial of a dim as the checker reads it, and its divisors.
    pub(crate) fn read(&mut self, dim: &Dim, divisors: &mut Vec<(Poly, Dim)>) -> Option<Poly> {
        let (op, operands) = match dim {
            Dim::Int(value) => return Some(Poly::constant(i128::from(*value))),
            Dim::Var(name) if self.meaning.contains_key(name) => {
                return self.meaning.get(name).cloned();
            }
            Dim::Var(name) => {
                return Some(Poly::atom(self.engine.atoms.intern(Atom::Var(name.clone()))?));
            }
            Dim::Op(op, operands) => (op, operands),
        };
        let a = self.read(&operands.0, divisors)?;
        let b = self.read(&operands.1, divisors)?;
        let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv);
        if divides && b.as_constant().is_none_or(|value| value == 0) {
            divisors.push((b.clone(), operands.1.clone()));
        }
        let mut operation = |atom: Atom| {
            let id = self.engine.atoms.intern(atom)?;
            self.as_read.push(id);
            Some(Poly::atom(id))
        };
        match op {
            DimOp::Add => a.add(&b),
            DimOp::Sub => a.sub(&b),
            DimOp::Mul => a.mul(&b),
            DimOp::FloorDiv => operation(Atom::Div(a, b)),
            DimOp::FloorMod => a.sub(&b.mul(&operation(Atom::Div(a.clone(), b.clone()))?)?),
            DimOp::CeilDiv => operation(Atom::Div(a.scale(-1)?, b))?.scale(-1),
            DimOp::Min => operation(Atom::Min(vec![a, b])),
            DimOp::Max => operation(Atom::Max(vec![a, b])),
        }
    }
}

fn nonzero((poly, dim): &(Poly, Dim)) -> (Fact, Claim) {
    let fact = Fact { poly: poly.clone(), relation: Relation::NotEqual };
    (fact, Claim::new(dim.clone(), Compare::NotEqual, 0))
}
