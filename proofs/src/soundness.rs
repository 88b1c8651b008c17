//! Tests of the rules against evaluation: whatever line is tried, what it gives is true under an
//! assignment under which the facts before it are; and what a statement opens to says neither more
//! nor less than the statement, as another parser reads it.

#[path = "../tests/certificates/reading.rs"]
mod reading;

use crate::ends::End;
use crate::known::Known;
use crate::line::Line;
use crate::polynomial::Algebra;
use crate::rules::Rules;
use crate::statement::{Fact, Opened, Sign, Status};
use crate::steps::Steps;
use crate::text;
use num_bigint::Sign as NumberSign;
use proptest::prelude::*;
use reading::Assignment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const RULES: &str = include_str!("../../symbolic/rules/dims.rules");

type RuleNames = Vec<(&'static str, BTreeSet<&'static str>)>;

/// The names of the rules, each with its variables.
fn rule_names() -> RuleNames {
    let texts = RULES.lines().map(|line| line.split('#').next().unwrap_or_default());
    let named = texts.filter_map(|line| line.split_once(':'));
    let variables = |text| text::variables(text).expect("a rule").into_iter().collect();
    named.map(|(name, text)| (name.trim(), variables(text))).collect()
}

fn is_true(fact: &Fact, names: &Assignment, algebra: &mut Algebra) -> bool {
    match fact {
        Fact::Number(poly, sign) => {
            let value = algebra.value(poly, names).sign();
            match sign {
                Sign::AtLeastZero => value != NumberSign::Minus,
                Sign::Zero => value == NumberSign::NoSign,
                Sign::NotZero => value != NumberSign::NoSign,
            }
        }
        Fact::Stated(statement, status) => {
            let opened = statement.open(*status, algebra).expect("small statements");
            match opened {
                Opened::Facts(facts) => all_true(&facts, names, algebra),
                Opened::Cases(cases) => any_true(&cases, names, algebra),
            }
        }
    }
}

fn all_true(facts: &[Fact], names: &Assignment, algebra: &mut Algebra) -> bool {
    facts.iter().all(|fact| is_true(fact, names, algebra))
}

fn any_true(cases: &[Vec<Fact>], names: &Assignment, algebra: &mut Algebra) -> bool {
    cases.iter().any(|case| all_true(case, names, algebra))
}

fn term() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["x", "y", "z"]).prop_map(str::to_owned),
        (-3..4i8).prop_map(|number| number.to_string()),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "//", "%"]);
        let function = prop::sample::select(vec!["min", "max", "ceildiv"]);
        prop_oneof![
            (inner.clone(), operator.clone(), inner.clone())
                .prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, o, b)| format!("({a}) {o} ({b})")),
            (function, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            inner.prop_map(|a| format!("-({a})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let relation = prop::sample::select(vec!["==", "!=", "<=", "<", ">=", ">"]);
    let leaf = prop_oneof![
        4 => (term(), relation, term()).prop_map(|(a, r, b)| format!("{a} {r} {b}")),
        1 => (term(), term()).prop_map(|(a, b)| format!("divides({a}, {b})")),
        1 => prop::sample::select(vec!["True", "False"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let connective = prop::sample::select(vec!["and", "or"]);
        prop_oneof![
            (inner.clone(), connective.clone(), inner.clone())
                .prop_map(|(p, c, q)| format!("{p} {c} {q}")),
            (inner.clone(), connective, inner.clone())
                .prop_map(|(p, c, q)| format!("({p}) {c} ({q})")),
            (inner.clone(), inner.clone()).prop_map(|(p, q)| format!("implies({p}, {q})")),
            inner.prop_map(|p| format!("not {p}")),
        ]
    })
}

fn assignment() -> impl Strategy<Value = Assignment> {
    [-4..5i128, -4..5i128, -4..5i128].prop_map(|values| {
        ["x", "y", "z"].iter().map(|name| (*name).to_owned()).zip(values).collect()
    })
}

/// True facts on terms, of all kinds.
fn facts(terms: &[String], names: &Assignment, algebra: &mut Algebra) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (index, text) in terms.iter().enumerate() {
        let poly = text::term(text, algebra).expect("a small term");
        let value = i32::try_from(algebra.value(&poly, names)).expect("a small value");
        let zero = algebra.linear(1, &poly, -value).expect("small");
        let slack = index as i32 % 3;
        let (above, sign) = if value >= slack { (1, -slack) } else { (-1, value + slack) };
        let one_side = algebra.linear(above, &poly, sign).expect("small");
        if index == 0 {
            let below = algebra.linear(-1, &zero, 0).expect("small");
            facts.push(Fact::Number(zero.clone(), Sign::AtLeastZero));
            facts.push(Fact::Number(below, Sign::AtLeastZero));
        }
        facts.push(Fact::Number(zero, Sign::Zero));
        facts.push(Fact::Number(one_side, Sign::AtLeastZero));
        if value != 0 {
            facts.push(Fact::Number(poly.clone(), Sign::NotZero));
            let apart = algebra.linear(value.signum(), &poly, -1).expect("small");
            facts.push(Fact::Number(apart, Sign::AtLeastZero));
        }
    }
    facts
}

/// A line of any kind, about any facts and terms.
fn line(pick: &[u8; 7], count: usize, terms: &[String]) -> String {
    let f = |n: usize| usize::from(pick[n]) % count;
    let t = |n: usize| &terms[usize::from(pick[n]) % terms.len()];
    let small = |n: usize| i16::from(pick[n] % 7) - 1;
    let part = if pick[5].is_multiple_of(2) { "low" } else { "high" };
    match pick[0] % 16 {
        0 => format!(
            "{{\"lin\": [[{}, \"{}\"], [{}, \"{}\"]], \"plus\": \"{}\"}}",
            f(1),
            small(2),
            f(3),
            t(4),
            small(5)
        ),
        1 => format!("{{\"equation\": [[{}, \"{}\"], [{}, \"{}\"]]}}", f(1), t(2), f(3), t(4)),
        2 => format!("{{\"rewrite\": {}, \"with\": [[{}, \"{}\"]]}}", f(1), f(2), t(3)),
        3 => format!("{{\"divide\": {}, \"by\": \"{}\"}}", f(1), small(2)),
        4 => format!("{{\"negate\": {}}}", f(1)),
        5 => format!("{{\"apart\": {}}}", f(1)),
        6 => format!("{{\"times\": [{}, {}]}}", f(1), f(2)),
        7 => format!("{{\"square\": \"{}\"}}", t(1)),
        8 => format!("{{\"both\": [{}, {}]}}", f(1), f(2)),
        9 => format!(
            "{{\"quotient\": \"({}) // ({})\", \"part\": \"{part}\", \"sign\": {}}}",
            t(1),
            t(2),
            f(3)
        ),
        10 => {
            format!("{{\"extreme\": \"min({}, {})\", \"argument\": {}}}", t(1), t(2), pick[3] % 3)
        }
        11 => {
            format!("{{\"extreme\": \"max({}, {})\", \"argument\": {}}}", t(1), t(2), pick[3] % 3)
        }
        12 => format!("{{\"choose\": \"min({}, {})\"}}", t(1), t(2)),
        13 => format!("{{\"split\": \"{}\"}}", t(1)),
        14 => format!("{{\"sides\": {}}}", f(1)),
        _ => format!("{{\"closed\": {}}}", f(1)),
    }
}

/// An instance of a rule, with the facts that its conditions would have where they are true.
fn instance(
    pick: &[u8; 7],
    terms: &[String],
    names: &Assignment,
    steps: &mut Steps<'_>,
) -> Option<Fact> {
    static ALL: LazyLock<RuleNames> = LazyLock::new(rule_names);
    let all = &*ALL;
    let (name, variables) = &all[usize::from(pick[0]) % all.len()];
    let mut given = BTreeMap::new();
    for (index, variable) in variables.iter().enumerate() {
        let text = &terms[usize::from(pick[index + 1]) % terms.len()];
        given.insert((*variable).to_owned(), text::term(text, &mut steps.algebra).ok()?);
    }
    let rules = steps.rules.as_ref().expect("there are rules");
    let instance = rules.instance(name, &given, &mut steps.algebra).ok()?;
    let (poly, sign) = instance.difference;
    all_true(&instance.conditions, names, &mut steps.algebra).then_some(Fact::Number(poly, sign))
}

fn steps() -> Steps<'static> {
    let rules = Some(Rules::read(RULES).expect("right rules"));
    Steps { algebra: Algebra::new(), rules, rules_used: BTreeSet::new() }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.unwrap_or(2_000))
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn statements_open_to_what_they_say(text in statement(), names in assignment()) {
        let mut algebra = Algebra::new();
        let statement = text::statement(&text, &mut algebra).expect("a statement");
        let truth = reading::truth(&reading::parse(&text).expect("a statement"), &names);
        let status = match truth {
            Some(true) => Status::Holds,
            Some(false) => Status::Fails,
            None => Status::Undefined,
        };
        for claimed in [Status::Holds, Status::Fails, Status::Undefined] {
            let fact = Fact::Stated(statement.clone(), claimed);
            prop_assert_eq!(is_true(&fact, &names, &mut algebra), claimed == status, "{} {:?}", text, claimed);
        }
    }

    #[test]
    fn polynomials_read_back(text in term()) {
        let mut algebra = Algebra::new();
        let poly = text::term(&text, &mut algebra).expect("a small term");
        let shown = algebra.text(&poly);
        if !shown.ends_with("...") {
            prop_assert_eq!(text::term(&shown, &mut algebra), Ok(poly), "{}", shown);
        }
    }

    #[test]
    fn lines_give_only_what_is_true(
        terms in prop::collection::vec(term(), 1..5),
        names in assignment(),
        picks in prop::collection::vec(any::<[u8; 7]>(), 1..60),
    ) {
        let mut steps = steps();
        let mut known = Known::default();
        let mut count = 0;
        for fact in facts(&terms, &names, &mut steps.algebra) {
            prop_assert!(is_true(&fact, &names, &mut steps.algebra));
            known.add(count, fact).expect("rising numbers");
            count += 1;
        }
        for pick in &picks {
            let text = line(pick, count as usize, &terms);
            let read = || Line::read(&text).expect("an object");
            if let Ok(Some(fact)) = steps.derived(&mut read(), &known) {
                prop_assert!(is_true(&fact, &names, &mut steps.algebra), "{} {}", text, steps.text(&fact));
                known.add(count, fact).expect("rising numbers");
                count += 1;
            } else if let Ok(end) = steps.end(&mut read(), &known) {
                match end {
                    End::Closed => prop_assert!(false, "{} closes what can be", text),
                    End::Divided(cases) => {
                        prop_assert!(any_true(&cases, &names, &mut steps.algebra), "{}", text);
                    }
                }
            }
            if let Some(fact) = instance(pick, &terms, &names, &mut steps) {
                prop_assert!(is_true(&fact, &names, &mut steps.algebra), "{:?}", pick);
            }
        }
    }
}

#[test]
fn every_rule_has_instances() {
    for (name, variables) in rule_names() {
        let mut steps = steps();
        let mut given = BTreeMap::new();
        for variable in variables {
            let poly = text::term(variable, &mut steps.algebra).expect("a variable");
            given.insert(variable.to_owned(), poly);
        }
        let rules = steps.rules.as_ref().expect("there are rules");
        let instance = rules.instance(name, &given, &mut steps.algebra);
        assert!(instance.is_ok(), "{name}: {:?}", instance.err());
    }
}

/// The tries above are no use where every line is refused.
#[test]
fn most_kinds_of_lines_are_tried() {
    let names: Assignment = [("x".to_owned(), 7), ("y".to_owned(), 2), ("z".to_owned(), -3)].into();
    let terms = ["x", "y", "z * y", "x // y", "4 * x"].map(str::to_owned);
    let (mut steps, mut known) = (steps(), Known::default());
    let facts = facts(&terms, &names, &mut steps.algebra);
    let count = facts.len();
    for (id, fact) in (0..).zip(facts) {
        known.add(id, fact).expect("rising numbers");
    }
    let mut accepted = BTreeSet::new();
    for kind in 0..16u8 {
        for n in 0..20_000u32 {
            let digit = |place: u32| (n / 13_u32.pow(place) % 13) as u8;
            let pick = [kind, digit(0), digit(1), digit(2), digit(3), digit(0), 0];
            let read = || Line::read(&line(&pick, count, &terms)).expect("an object");
            let derived = matches!(steps.derived(&mut read(), &known), Ok(Some(_)));
            if derived || steps.end(&mut read(), &known).is_ok() {
                accepted.insert(kind);
                break;
            }
        }
    }
    // All but `closed`, of which nothing that is true is accepted.
    assert_eq!(accepted, (0..15).collect());
}
