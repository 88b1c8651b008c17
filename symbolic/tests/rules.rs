//! The e-graph's rules are theorems: each is proved by z3 over all integers, as the lock file says,
//! and what is a little wrong about a rule is found out. `RELAX_BLESS=1` writes the lock file.
#![cfg(feature = "z3")]

mod mutants;
mod query_text;
mod rule_file;

use relax_symbolic::claims::Formula;
use relax_symbolic::{Encoding, Prover, prove_with_encoding};
use relax_syntax::Name;
use relax_syntax::facts::{Answer, Counterexample, Facts};
use rule_file::{Entry, Lemma, Rule, Statement, lock, rules, write_lock};
use std::collections::{BTreeMap, BTreeSet};

/// Steps that are tried for a new rule; the last take some ten seconds.
const EFFORTS: [u32; 4] = [50_000, 500_000, 5_000_000, 20_000_000];
/// Steps that are tried with a lemma, of which there are many.
const LEMMA_EFFORTS: [u32; 2] = [50_000, 1_000_000];
/// Wrong mutants of a rule that must be found out.
const MUTANTS: usize = 10;
/// Assignments that are evaluated to find out a mutant.
const SAMPLES: usize = 40_000;

/// The steps of a proof; it may use what is known already.
fn proof(
    statement: &Statement,
    known: Option<Formula>,
    encoding: Encoding,
    rlimit: u32,
) -> Option<u32> {
    let equation = Formula::Claim(statement.equation.clone());
    let goal = match known {
        Some(known) => Formula::implies(known, equation),
        None => equation,
    };
    let outcome = prove_with_encoding(&statement.conditions, &goal, encoding, rlimit);
    outcome.proved.then_some(outcome.used)
}

/// Whether an entry is good for its rule; `earlier` are those that stand before it.
fn is_proved_by(rule: &Rule, entry: &Entry, earlier: &[Rule]) -> bool {
    let known = match &entry.lemma {
        None => None,
        Some(lemma) => match earlier.iter().find(|rule| rule.name == lemma.name) {
            Some(rule) => Some(rule.statement.renamed(&lemma.with)),
            None => return false,
        },
    };
    proof(&rule.statement, known, entry.encoding, entry.rlimit).is_some()
}

/// The cheaper encoding that proves the rule, and four times the steps it took, in round numbers:
/// another release of z3 may need some more.
fn entry_of(rule: &Rule, earlier: &[Rule]) -> Option<Entry> {
    let entry = |(used, encoding), lemma| {
        let rlimit = (used / 10_000 + 1) * 40_000;
        Entry { hash: rule.hash(), encoding, rlimit, lemma }
    };
    for effort in EFFORTS {
        let prove = |encoding| Some((proof(&rule.statement, None, encoding, effort)?, encoding));
        if let Some(found) = Encoding::ALL.into_iter().filter_map(prove).min() {
            return Some(entry(found, None));
        }
    }
    // The rule just before is the likeliest to help.
    let lemmas = || earlier.iter().rev().flat_map(|earlier| lemmas(rule, earlier));
    for effort in LEMMA_EFFORTS {
        for (lemma, known) in lemmas() {
            let prove = |encoding| {
                let known = Some(known.clone());
                Some((proof(&rule.statement, known, encoding, effort)?, encoding))
            };
            if let Some(found) = Encoding::ALL.into_iter().find_map(prove) {
                return Some(entry(found, Some(lemma)));
            }
        }
    }
    None
}

/// An earlier rule with all choices of variables of `rule` for its own, and what it says then.
fn lemmas(rule: &Rule, earlier: &Rule) -> Vec<(Lemma, Formula)> {
    let (own, theirs) = (rule.statement.variables(), earlier.statement.variables());
    let mut maps: Vec<BTreeMap<Name, Name>> = vec![BTreeMap::new()];
    for variable in theirs {
        let extended = maps.iter().flat_map(|map| {
            let free = own.iter().filter(|name| map.values().all(|taken| taken != *name));
            free.map(|name| {
                let mut map = map.clone();
                map.insert(variable.clone(), name.clone());
                map
            })
        });
        maps = extended.collect();
    }
    let lemma = |with| {
        let known = earlier.statement.renamed(&with);
        (Lemma { name: earlier.name.clone(), with }, known)
    };
    maps.into_iter().map(lemma).collect()
}

fn blesses() -> bool {
    std::env::var_os("RELAX_BLESS").is_some_and(|value| value == "1")
}

#[test]
fn names_are_unique() {
    let rules = rules();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names.len(), rules.len(), "two rules share a name");
}

#[test]
fn every_rule_is_proved_as_the_lock_file_says() {
    let rules = rules();
    let mut entries = lock();
    let mut findings = Vec::new();
    if blesses() {
        entries.retain(|name, _| rules.iter().any(|rule| rule.name == *name));
    }
    for (index, rule) in rules.iter().enumerate() {
        let earlier = &rules[..index];
        let known = entries.get(&rule.name).filter(|entry| entry.hash == rule.hash());
        if known.is_some_and(|known| is_proved_by(rule, known, earlier)) {
            continue;
        }
        if blesses()
            && let Some(entry) = entry_of(rule, earlier)
        {
            entries.insert(rule.name.clone(), entry);
            continue;
        }
        let what = match (entries.get(&rule.name), known) {
            (None, _) => "has no entry",
            (_, None) => "has another text than its entry",
            _ => "is not proved as its entry says",
        };
        findings.push(format!("{} {what}: {}", rule.name, rule.text));
        if blesses() {
            entries.remove(&rule.name);
        }
    }
    let unruly = entries.keys().filter(|name| rules.iter().all(|rule| rule.name != **name));
    findings.extend(unruly.map(|name| format!("{name} has an entry and no rule")));
    if blesses() {
        write_lock(&rules, &entries);
    }
    assert!(findings.is_empty(), "RELAX_BLESS=1 tries to prove these:\n{}", findings.join("\n"));
}

/// What evaluation says of a statement at one assignment.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// A condition does not hold, so nothing is said.
    Outside,
    Holds,
    /// The equation fails or has no value.
    Wrong,
}

fn look(statement: &Statement, values: &Counterexample) -> Look {
    if !statement.conditions.iter().all(|condition| condition.holds(values) == Some(true)) {
        return Look::Outside;
    }
    if statement.equation.holds(values) == Some(true) { Look::Holds } else { Look::Wrong }
}

/// Assignments: first those near 0, then random ones.
fn assignments(statement: &Statement, count: usize) -> impl Iterator<Item = Counterexample> {
    let names = statement.variables();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |index| {
        let span = if index < count / 2 { 7 } else { 41 };
        let mut value = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from((state >> 33) % span).expect("small")
                - i64::try_from(span / 3).expect("small")
        };
        names.iter().map(|name| (name.clone(), value())).collect()
    })
}

#[test]
fn evaluation_agrees_with_every_rule() {
    for Rule { name, statement, .. } in rules() {
        let mut held = 0;
        for values in assignments(&statement, SAMPLES / 10) {
            let look = look(&statement, &values);
            assert!(look != Look::Wrong, "{name} is wrong at {values:?}: {statement}");
            held += usize::from(look == Look::Holds);
        }
        assert!(held > 0, "{name}: no assignment satisfies the conditions: {statement}");
    }
}

/// What becomes of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    /// An assignment was evaluated that shows it wrong.
    Evaluated,
    /// An assignment by the prover, which evaluates too.
    Refuted,
    /// It is a theorem as well.
    Proved,
    Undecided,
}

fn fate(rule: &Statement, mutant: &Statement) -> Fate {
    let is_wrong =
        |samples| assignments(mutant, samples).any(|values| look(mutant, &values) == Look::Wrong);
    if is_wrong(SAMPLES / 20) {
        return Fate::Evaluated;
    }
    let mut prover = Prover::with_solver(1_000_000);
    mutant.conditions.iter().for_each(|condition| prover.assume(condition.clone()));
    // A rule with stronger conditions holds as the rule does.
    let implied = rule.equation == mutant.equation
        && rule.conditions.iter().all(|condition| prover.decide(condition) == Answer::Proved);
    if implied {
        return Fate::Proved;
    }
    match prover.decide(&mutant.equation) {
        Answer::Proved => Fate::Proved,
        Answer::Refuted(_) => Fate::Refuted,
        Answer::Unknown if is_wrong(SAMPLES) => Fate::Evaluated,
        Answer::Unknown => Fate::Undecided,
    }
}

/// The first wrong mutants of a rule are found out, and no proof of one is found.
#[test]
fn what_is_a_little_wrong_is_found_out() {
    let mut fates: BTreeMap<Fate, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for rule in rules() {
        let mut wrong = 0;
        for mutant in mutants::mutants(&rule.statement) {
            let fate = fate(&rule.statement, &mutant);
            *fates.entry(fate).or_default() += 1;
            if fate == Fate::Undecided {
                findings.push(format!("{}: not decided: {mutant}", rule.name));
            }
            if fate == Fate::Evaluated || fate == Fate::Refuted {
                wrong += 1;
                for encoding in Encoding::ALL {
                    if proof(&mutant, None, encoding, 10_000).is_some() {
                        findings.push(format!("{}: proved and wrong: {mutant}", rule.name));
                    }
                }
            }
            if wrong == MUTANTS {
                break;
            }
        }
        if wrong < MUTANTS {
            findings.push(format!("{}: only {wrong} wrong mutants", rule.name));
        }
    }
    eprintln!("mutants: {fates:?}");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
