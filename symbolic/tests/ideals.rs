//! Equalities between products, as reshapes give them: what follows from them as an ideal is proved without the solver.

use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, Stage, statement};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts};
use std::collections::BTreeMap;

/// Not proved: each fails somewhere.
const FALSE_CLAIMS: &[&str] = &[
    "n*m == k*l |- n == k",
    "n*m == k*l |- n*m*h == k*l*g",
    "n*m == k*l |- n*m*h < k*l*h",
    "n*m == 0; n >= 0; m >= 0 |- n == 0",
    "n*m == 0; n >= 0; m >= 0 |- m == 0",
    "n*m == n*k |- m == k",
    "n*n == m*m |- n == m",
    "2*a*b == 3*c*d |- a*b*h == c*d*h",
    "2*a*b == 4*c*d + 2 |- a*b*h == 2*c*d*h",
    "a*b == -(c*d) |- a*b*h == c*d*h",
    "u2*u3 == u0*u1; u0 != 0 |- u2 % u0 == 0",
    "u2*u3 == u0*u1 + 1; u0 >= 2 |- (u2*u3) % u0 == 0",
    "n*m == k*l; n*m*h <= 100 |- k*l <= 100",
];

/// Without a value for some assignment.
const WITHOUT_VALUE: &[&str] = &[
    "u2*u3 == u0*u1 |- (u2*u3) // u0 == u1",
    "u2*u3 == u0*u1 |- (u2*u3) % u0 == 0",
    "n*m == k*l |- k*l // (n*m) == k*l // (k*l)",
];

fn formula(text: &str) -> Formula {
    statement::formula(text).unwrap_or_else(|why| panic!("`{text}`: {why:?}"))
}

fn claim(text: &str) -> Claim {
    match formula(text) {
        Formula::Claim(claim) => claim,
        other => panic!("`{text}` is not one relation: {other:?}"),
    }
}

/// The facts and what is asked.
fn split(text: &str) -> (Vec<Claim>, Formula) {
    let (facts, query) = text.split_once("|-").expect("a turnstile");
    let facts = facts.split(';').filter(|fact| !fact.trim().is_empty());
    (facts.map(claim).collect(), formula(query))
}

fn ask(text: &str) -> (Answer, Stage) {
    let (facts, query) = split(text);
    let mut prover = Prover::new();
    facts.into_iter().for_each(|fact| prover.assume(fact));
    let verdict = prover.judge(&query);
    (verdict.answer, verdict.stage)
}

#[test]
fn what_follows_from_equalities_of_products_is_proved() {
    let proved = (Answer::Proved, Stage::Polynomial);
    let claims = include_str!("ideal_claims.txt").lines().filter(|line| !line.starts_with('#'));
    let missed: Vec<_> = claims.filter(|text| ask(text) != proved).collect();
    assert!(missed.is_empty(), "not proved: {missed:#?}");
}

#[test]
fn nothing_else_is_proved() {
    for text in FALSE_CLAIMS.iter().chain(WITHOUT_VALUE) {
        assert_ne!(ask(text).0, Answer::Proved, "{text}");
    }
}

/// Names of variables, from the first on.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// How many questions that are left are given to the solver.
const TO_SOLVER: usize = 10;
/// The solver's steps for one question.
const SOLVER_LIMIT: u32 = 100_000;
/// Random questions of each kind.
const QUESTIONS: usize = 400;
/// How many members of ideals are decided, in a thousand.
const MEMBERS_DECIDED: usize = 990;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).expect("small")).expect("below")
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let index = self.below(list.len());
        &list[index]
    }
}

/// A sum of products: variables in rising order, and a number.
type Terms = BTreeMap<Vec<usize>, i64>;

fn add(sum: &mut Terms, variables: &[usize], number: i64) {
    let mut variables = variables.to_vec();
    variables.sort_unstable();
    *sum.entry(variables).or_default() += number;
}

fn product(terms: &Terms, variables: &[usize], number: i64) -> Terms {
    let mut product = Terms::new();
    for (own, value) in terms {
        add(&mut product, &[own.as_slice(), variables].concat(), value * number);
    }
    product
}

fn value(terms: &Terms, values: &[i64; 5]) -> i64 {
    let each = terms.iter().map(|(variables, number)| {
        variables.iter().map(|index| values[*index]).product::<i64>() * number
    });
    each.sum()
}

fn text(terms: &Terms) -> String {
    let each = terms.iter().filter(|(_, number)| **number != 0).map(|(variables, number)| {
        let names = variables.iter().map(|index| format!(" * {}", NAMES[*index]));
        format!("({number}){}", names.collect::<String>())
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "0".to_owned() } else { each.join(" + ") }
}

/// Equalities that hold under an assignment.
struct World {
    values: [i64; 5],
    /// Sums that are 0.
    equalities: Vec<Terms>,
    /// Bounds that hold.
    bounds: Vec<Claim>,
}

fn variables(random: &mut Random, least: usize, most: usize) -> Vec<usize> {
    let count = least + random.below(most - least + 1);
    (0..count).map(|_| random.below(NAMES.len())).collect()
}

fn world(random: &mut Random) -> World {
    let values = std::array::from_fn(|_| *random.of(&[-2, -1, 0, 1, 1, 2, 2, 3]));
    let mut equalities = Vec::new();
    let wanted = 1 + random.below(3);
    while equalities.len() < wanted {
        let mut sum = Terms::new();
        let (left, right) = (*random.of(&[1, 1, 1, 1, 2, 3]), *random.of(&[1, 1, 1, 1, 2, -1]));
        add(&mut sum, &variables(random, 2, 3), left);
        add(&mut sum, &variables(random, 1, 3), -right);
        let rest = value(&sum, &values);
        // Mostly products alone, as reshapes have them.
        if rest == 0 || random.below(8) == 0 {
            add(&mut sum, &[], -rest);
            equalities.push(sum);
        }
    }
    let mut bounds = Vec::new();
    for (name, value) in NAMES.iter().zip(values) {
        for low in [0, 1] {
            if value >= low && random.below(2) == 0 {
                bounds.push(claim(&format!("{name} >= {low}")));
            }
        }
    }
    World { values, equalities, bounds }
}

/// A sum as an equality: some terms left, the others right.
fn sides(random: &mut Random, sum: &Terms) -> (Terms, Terms) {
    let (mut left, mut right) = (Terms::new(), Terms::new());
    for (variables, number) in sum {
        // What cancels, and a part of the number, may stand on both sides.
        let own = if random.below(2) == 0 { *number } else { 0 };
        add(&mut left, variables, own);
        add(&mut right, variables, own - number);
    }
    (left, right)
}

impl World {
    fn claims(&self, random: &mut Random) -> Vec<Claim> {
        let mut claims = self.bounds.clone();
        for sum in &self.equalities {
            let (left, right) = sides(random, sum);
            claims.insert(
                random.below(claims.len() + 1),
                claim(&format!("{} == {}", text(&left), text(&right))),
            );
        }
        claims
    }

    /// A sum of multiples of the equalities.
    fn member(&self, random: &mut Random) -> Terms {
        let mut sum = Terms::new();
        for _ in 0..1 + random.below(2) {
            let equality = random.of(&self.equalities);
            let by = *random.of(&[1, 1, -1, 2, -3]);
            for (variables, number) in product(equality, &variables(random, 1, 2), by) {
                add(&mut sum, &variables, number);
            }
        }
        sum
    }

    /// All small assignments that satisfy the facts.
    fn models(&self, facts: &[Claim]) -> Vec<Counterexample> {
        let mut models = Vec::new();
        for index in 0..6_usize.pow(5) {
            let digit = |place: u32| i64::try_from(index / 6_usize.pow(place) % 6).expect("small");
            let values: [i64; 5] =
                std::array::from_fn(|at| digit(u32::try_from(at).expect("small")) - 2);
            if self.equalities.iter().any(|sum| value(sum, &values) != 0) {
                continue;
            }
            let model: Counterexample = NAMES.into_iter().map(Into::into).zip(values).collect();
            if facts.iter().all(|fact| fact.holds(&model) == Some(true)) {
                models.push(model);
            }
        }
        models
    }
}

/// A claim that follows from `sum == 0`, in one of several forms.
fn consequence(sum: &Terms, random: &mut Random) -> Formula {
    let (left, right) = sides(random, sum);
    let (left, right) = (text(&left), text(&right));
    formula(&match random.below(7) {
        0 => format!("{left} <= {right}"),
        1 => format!("{left} < {right} + 1"),
        2 => format!("({left}) // 4 == ({right}) // 4"),
        3 => format!("min({left}, 2) == min({right}, 2)"),
        _ => format!("{left} == {right}"),
    })
}

fn prover(facts: &[Claim]) -> Prover {
    let mut prover = Prover::new();
    facts.iter().for_each(|fact| prover.assume(fact.clone()));
    prover
}

fn shown(facts: &[Claim], query: &Formula) -> String {
    let facts: Vec<String> = facts.iter().map(ToString::to_string).collect();
    format!("{} |- {query}", facts.join("; "))
}

fn holds_everywhere(models: &[Counterexample], facts: &[Claim], query: &Formula) {
    for model in models {
        assert_eq!(query.holds(model), Some(true), "{} at {model:?}", shown(facts, query));
    }
}

#[test]
fn members_of_ideals_are_proved() {
    let mut random = Random(11);
    let mut undecided = Vec::new();
    for _ in 0..QUESTIONS {
        let world = world(&mut random);
        let facts = world.claims(&mut random);
        let query = consequence(&world.member(&mut random), &mut random);
        let model = NAMES.into_iter().map(Into::into).zip(world.values).collect();
        assert_eq!(query.holds(&model), Some(true), "{}", shown(&facts, &query));
        let verdict = prover(&facts).judge(&query);
        if (verdict.answer, verdict.stage) != (Answer::Proved, Stage::Polynomial) {
            undecided.push(shown(&facts, &query));
        }
    }
    let decided = QUESTIONS - undecided.len();
    eprintln!("{decided} of {QUESTIONS} members; not: {undecided:#?}");
    assert!(decided * 1000 >= QUESTIONS * MEMBERS_DECIDED, "{undecided:#?}");
}

/// One number more, one variable another: most of these do not follow.
#[test]
fn random_claims_that_are_proved_hold() {
    let mut random = Random(12);
    let (mut proved, mut refuted, mut undecided, mut by_solver) = (0, 0, 0, Vec::new());
    for _ in 0..QUESTIONS {
        let world = world(&mut random);
        let facts = world.claims(&mut random);
        let mut sum = world.member(&mut random);
        match random.below(3) {
            0 => add(&mut sum, &[], 1),
            1 => add(&mut sum, &variables(&mut random, 1, 3), 1),
            _ => {
                let (first, number) = sum.pop_first().expect("there is a term");
                add(
                    &mut sum,
                    &variables(&mut random, first.len().max(1), first.len().max(1)),
                    number,
                );
            }
        }
        let query = consequence(&sum, &mut random);
        match prover(&facts).decide_formula(&query) {
            Answer::Proved => {
                proved += 1;
                holds_everywhere(&world.models(&facts), &facts, &query);
            }
            Answer::Refuted(_) => refuted += 1,
            Answer::Unknown if undecided == TO_SOLVER => {}
            Answer::Unknown => {
                undecided += 1;
                let mut prover = prover(&facts);
                prover.limit_solver(Some(SOLVER_LIMIT));
                if prover.decide_formula(&query) == Answer::Proved {
                    by_solver.push(shown(&facts, &query));
                }
            }
        }
    }
    eprintln!(
        "of {QUESTIONS} random claims {proved} proved, {refuted} refuted; by the solver alone: {by_solver:#?}"
    );
    assert!(proved >= 40, "{proved}");
    assert!(by_solver.len() * 5 <= proved, "{by_solver:#?}");
}

/// Divisors are variables of the equalities.
#[test]
fn quotients_by_sides_of_equalities_are_proved_where_they_hold() {
    let mut random = Random(13);
    let (mut proved, mut exact) = (0, 0);
    for _ in 0..QUESTIONS {
        let world = world(&mut random);
        let mut facts = world.claims(&mut random);
        let divisor = random.below(NAMES.len());
        if world.values[divisor] == 0 {
            continue;
        }
        facts.push(claim(&format!("{} != 0", NAMES[divisor])));
        let quotient = variables(&mut random, 1, 2);
        // quotient * divisor and a member
        let mut sum = world.member(&mut random);
        add(&mut sum, &[quotient.as_slice(), &[divisor]].concat(), 1);
        let mut quotient = Terms::from([(quotient, 1)]);
        let wrong = random.below(4) == 0;
        if wrong {
            add(&mut quotient, &variables(&mut random, 0, 1), 1);
        }
        let query =
            formula(&format!("({}) // {} == {}", text(&sum), NAMES[divisor], text(&quotient)));
        exact += usize::from(!wrong);
        if prover(&facts).decide_formula(&query) == Answer::Proved {
            proved += usize::from(!wrong);
            holds_everywhere(&world.models(&facts), &facts, &query);
        }
    }
    eprintln!("{proved} of {exact} quotients");
    assert!(proved * 100 >= exact * 90, "{proved} of {exact}");
}

/// What was asked and forgotten before, and scopes that are closed, leave nothing.
#[test]
fn answers_do_not_depend_on_closed_scopes() {
    let mut random = Random(14);
    let mut asked = Prover::new();
    for _ in 0..QUESTIONS / 4 {
        let (outer, inner) = (world(&mut random), world(&mut random));
        let (facts, more) = (outer.claims(&mut random), inner.claims(&mut random));
        let queries = [
            consequence(&outer.member(&mut random), &mut random),
            consequence(&inner.member(&mut random), &mut random),
        ];
        asked.push();
        facts.iter().for_each(|fact| asked.assume(fact.clone()));
        asked.push();
        more.iter().for_each(|fact| asked.assume(fact.clone()));
        queries.iter().for_each(|query| _ = asked.decide_formula(query));
        asked.pop();
        for query in &queries {
            let new = prover(&facts).decide_formula(query);
            assert_eq!(asked.decide_formula(query), new, "{}", shown(&facts, query));
        }
        asked.pop();
        for query in &queries {
            let new = Prover::new().decide_formula(query);
            assert_eq!(asked.decide_formula(query), new, "{query}");
        }
    }
}
