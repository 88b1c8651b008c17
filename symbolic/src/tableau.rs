//! Proofs of formulas: the negation is taken apart into facts, branch by branch, until every branch
//! is impossible.

use crate::claims::Formula;
use crate::context::Context;
use crate::engine::Engine;
use crate::proof::Goal;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// How many case splits each branch may nest.
const SPLITS: u32 = 4;

/// Whether something is taken to hold or to fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Holds,
    Fails,
}

impl Sign {
    fn opposite(self) -> Self {
        if self == Sign::Holds { Sign::Fails } else { Sign::Holds }
    }
}

/// What a branch still has to take in.
#[derive(Clone)]
enum Item<'a> {
    Formula(&'a Formula, Sign),
    Claim(Claim),
}

/// What an item amounts to.
enum Parts<'a> {
    All(Vec<Item<'a>>),
    One(Vec<Vec<Item<'a>>>),
    Fact(Claim),
}

/// One way in which the formula might fail.
#[derive(Clone)]
struct Branch<'a> {
    context: Context,
    goal: Goal,
    items: Vec<Item<'a>>,
    /// Choices that are left: one list of items of each must hold.
    choices: Vec<Vec<Vec<Item<'a>>>>,
}

impl Engine {
    /// Whether `formula` has a value and holds for every assignment that satisfies the context.
    pub(crate) fn proves_formula(&mut self, context: &Context, formula: &Formula) -> bool {
        if let Formula::Claim(claim) = formula {
            return self.proves(context, claim);
        }
        if !self.is_defined(context, formula) {
            return false;
        }
        self.closes(Branch {
            context: context.clone(),
            goal: Goal::default(),
            items: vec![Item::Formula(formula, Sign::Fails)],
            choices: Vec::new(),
        })
    }

    /// Whether every part that is looked at, from left to right, has a value.
    fn is_defined(&mut self, context: &Context, formula: &Formula) -> bool {
        match formula {
            Formula::True | Formula::False => true,
            Formula::Claim(claim) => self.proves_defined(context, claim),
            Formula::Not(operand) => self.is_defined(context, operand),
            Formula::And(parts) => self.are_defined(context, parts, Sign::Holds),
            Formula::Or(parts) => self.are_defined(context, parts, Sign::Fails),
            Formula::Implies(parts) => {
                let mut inner = context.clone();
                self.is_defined(context, &parts.0) && {
                    self.take_in(&mut inner, Item::Formula(&parts.0, Sign::Holds));
                    self.is_defined(&inner, &parts.1)
                }
            }
        }
    }

    /// Whether each part has a value where those before it have the sign.
    fn are_defined(&mut self, context: &Context, parts: &[Formula], sign: Sign) -> bool {
        let mut context = context.clone();
        for part in parts {
            if !self.is_defined(&context, part) {
                return false;
            }
            self.take_in(&mut context, Item::Formula(part, sign));
        }
        true
    }

    /// Adds to the context what follows from an item without branching.
    fn take_in(&mut self, context: &mut Context, item: Item<'_>) {
        match parts_of(item) {
            Parts::All(items) => items.into_iter().for_each(|item| self.take_in(context, item)),
            Parts::Fact(claim) => self.assert(context, &claim),
            Parts::One(_) => {}
        }
    }

    /// Whether no assignment satisfies the branch.
    fn closes(&mut self, mut branch: Branch<'_>) -> bool {
        while let Some(item) = branch.items.pop() {
            if self.spend(5).is_none() {
                return false;
            }
            match parts_of(item) {
                Parts::All(items) => branch.items.extend(items.into_iter().rev()),
                Parts::One(choices) => branch.choices.push(choices),
                Parts::Fact(claim) if claim.relation == Relation::NotEqual => {
                    self.assert(&mut branch.context, &claim);
                    branch.choices.push(sides(&claim));
                }
                Parts::Fact(claim) => self.take(&mut branch, &claim),
            }
        }
        // The choice with the fewest ways first.
        let fewest = (0..branch.choices.len()).min_by_key(|&index| branch.choices[index].len());
        let Some(index) = fewest else {
            return self.refutes(&branch.context, &branch.goal, SPLITS);
        };
        let choice = branch.choices.remove(index);
        self.is_infeasible(&branch.context, &branch.goal.at_least_zero, &branch.goal.zero)
            || choice.into_iter().all(|items| self.closes(Branch { items, ..branch.clone() }))
    }

    /// Adds a claim to the branch.
    fn take(&mut self, branch: &mut Branch<'_>, claim: &Claim) {
        if let Some((poly, _)) = self.claimed(&branch.context, claim) {
            match claim.relation {
                Relation::AtMost | Relation::Less => branch.goal.at_least_zero.push(poly),
                Relation::Equal | Relation::Divides => branch.goal.zero.push(poly),
                Relation::NotEqual => {}
            }
        }
        self.assert(&mut branch.context, claim);
    }
}

/// The two ways not to be equal.
fn sides(claim: &Claim) -> Vec<Vec<Item<'static>>> {
    let (left, right) = (&claim.left, &claim.right);
    let less = Claim::new(left.clone(), Relation::Less, right.clone());
    let greater = Claim::new(right.clone(), Relation::Less, left.clone());
    vec![vec![Item::Claim(less)], vec![Item::Claim(greater)]]
}

fn parts_of(item: Item<'_>) -> Parts<'_> {
    let (formula, sign) = match item {
        Item::Claim(claim) => return Parts::Fact(claim),
        Item::Formula(formula, sign) => (formula, sign),
    };
    match (formula, sign) {
        (Formula::True, Sign::Holds) | (Formula::False, Sign::Fails) => Parts::All(Vec::new()),
        (Formula::True, Sign::Fails) | (Formula::False, Sign::Holds) => Parts::One(Vec::new()),
        (Formula::Claim(claim), Sign::Holds) => Parts::Fact(claim.clone()),
        (Formula::Claim(claim), Sign::Fails) => Parts::Fact(opposite(claim)),
        (Formula::Not(operand), _) => Parts::All(vec![Item::Formula(operand, sign.opposite())]),
        (Formula::And(parts), Sign::Holds) | (Formula::Or(parts), Sign::Fails) => {
            Parts::All(parts.iter().map(|part| Item::Formula(part, sign)).collect())
        }
        (Formula::And(parts), Sign::Fails) | (Formula::Or(parts), Sign::Holds) => {
            Parts::One(first_with(parts, sign))
        }
        (Formula::Implies(parts), Sign::Holds) => Parts::One(vec![
            vec![Item::Formula(&parts.0, Sign::Fails)],
            vec![Item::Formula(&parts.0, Sign::Holds), Item::Formula(&parts.1, Sign::Holds)],
        ]),
        (Formula::Implies(parts), Sign::Fails) => Parts::All(vec![
            Item::Formula(&parts.0, Sign::Holds),
            Item::Formula(&parts.1, Sign::Fails),
        ]),
    }
}

/// The first part with the sign is this one or that one; the parts before it do not have it, which
/// is why divisions that they guard have values.
fn first_with(parts: &[Formula], sign: Sign) -> Vec<Vec<Item<'_>>> {
    let way = |index: usize| {
        let mut items = vec![Item::Formula(&parts[index], sign)];
        let before = parts[..index].iter();
        items.extend(before.map(|part| Item::Formula(part, sign.opposite())));
        items
    };
    (0..parts.len()).map(way).collect()
}

/// The claim that holds where `claim`, which has a value, fails.
pub(crate) fn opposite(claim: &Claim) -> Claim {
    let (left, right) = (claim.left.clone(), claim.right.clone());
    match claim.relation {
        Relation::Equal => Claim::new(left, Relation::NotEqual, right),
        Relation::NotEqual => Claim::new(left, Relation::Equal, right),
        Relation::AtMost => Claim::new(right, Relation::Less, left),
        Relation::Less => Claim::new(right, Relation::AtMost, left),
        Relation::Divides => {
            Claim::new(Dim::op(DimOp::FloorMod, right, left), Relation::NotEqual, Dim::Int(0))
        }
    }
}
