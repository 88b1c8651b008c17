//! The questions that the provers of this process are asked, noted on request: what compilations need, to measure it.
//! Passes make provers of their own in many places, so the list is one of the process.

use crate::claims::Formula;
use crate::statement::is_of_name;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many distinct questions are kept; further ones are counted.
const MOST: usize = 1 << 20;

static IS_NOTING: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Questions> = Mutex::new(Questions { known: BTreeMap::new(), dropped: 0 });

/// A question as text, in the language of statements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// What was assumed, in order.
    pub facts: Vec<String>,
    /// What was asked.
    pub statement: String,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The first answer: `proved`, `refuted` or `unknown`.
    pub answer: &'static str,
    /// How often it was worked on; what a prover remembers is not asked again.
    pub times: u64,
}

/// Distinct questions, in the order of their text.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Each with what became of it.
    pub known: BTreeMap<Question, Asked>,
    /// How many more were asked after the list was full.
    pub dropped: u64,
}

/// Notes questions from here on.
pub fn start() {
    *noted() = Questions::default();
    IS_NOTING.store(true, Ordering::Relaxed);
}

/// Ends that, and gives what was asked.
#[must_use]
pub fn finish() -> Questions {
    IS_NOTING.store(false, Ordering::Relaxed);
    std::mem::take(&mut *noted())
}

fn noted() -> MutexGuard<'static, Questions> {
    // A list of texts is whole after each step.
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn note(facts: &[Claim], formula: &Formula, answer: &Answer) {
    if !IS_NOTING.load(Ordering::Relaxed) {
        return;
    }
    let question = question(facts, formula);
    let mut noted = noted();
    if let Some(asked) = noted.known.get_mut(&question) {
        asked.times += 1;
    } else if noted.known.len() == MOST {
        noted.dropped += 1;
    } else {
        noted.known.insert(question, Asked { answer: answer.word(), times: 1 });
    }
}

/// The question as statements can be read: variables of passes, such as those of a called function, have names that no text has.
fn question(facts: &[Claim], formula: &Formula) -> Question {
    let mut names = BTreeSet::new();
    facts.iter().for_each(|fact| fact.visit_vars(&mut |name| _ = names.insert(name)));
    formula.visit_dims(&mut |dim| dim.visit_vars(&mut |name| _ = names.insert(name)));
    let mut taken: BTreeSet<String> = names.iter().map(|name| (**name).to_string()).collect();
    let mut map = BTreeMap::new();
    for name in names.into_iter().filter(|name| !is_readable(name)) {
        let mut readable = format!("_{}", name.replace(|letter| !is_of_name(letter), "_"));
        while !taken.insert(readable.clone()) {
            readable.insert(0, '_');
        }
        map.insert(name.clone(), Dim::Var(Name::new(readable)));
    }
    let facts = facts.iter().map(|fact| fact.substitute(&map).to_string()).collect();
    Question { facts, statement: formula.substitute(&map).to_string() }
}

fn is_readable(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::facts::Relation;

    #[test]
    fn a_question_reads_back_and_means_the_same() {
        let var = |name: &str| Dim::Var(Name::new(name));
        let facts = [Claim::new(0, Relation::AtMost, var("n 1"))];
        let claim = Claim::new(var("'n"), Relation::Less, var("n 1"));
        let formula = Formula::implies(
            Formula::Claim(Claim::new(var("_n_1"), Relation::Equal, var("n:1"))),
            Formula::negation(Formula::Claim(claim)),
        );
        let Question { facts, statement } = question(&facts, &formula);
        assert_eq!(facts, ["0 <= __n_1"]);
        assert_eq!(statement, "implies(_n_1 == ___n_1, not (__n < __n_1))");
        let read = crate::statement::formula(&statement).expect("it is a statement");
        assert_eq!(read.to_string(), statement);
    }
}
