//! The table: how many mutants of each part were found, and which were not.

use crate::equal::Equal;
use crate::hunt::{Outcome, Verdict};
use crate::modules::{PARTS, part_of};
use crate::sites::Mutant;
use crate::tree::BUGS;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What there is to count.
pub(crate) struct Table<'a> {
    pub(crate) mutants: &'a [Mutant],
    pub(crate) refused: &'a BTreeSet<u32>,
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) equal: &'a [Equal],
}

/// The name of the part of the list of bugs.
pub(crate) const SEEDED: &str = "seeded bugs";

/// The part that a mutant counts for.
pub(crate) fn part(mutant: &Mutant) -> &'static str {
    if mutant.number >= BUGS { SEEDED } else { part_of(&mutant.file).unwrap_or_default() }
}

impl Table<'_> {
    /// The table as text, in Markdown.
    pub(crate) fn print(&self) -> String {
        let outcomes: BTreeMap<u32, &Outcome> =
            self.outcomes.iter().map(|outcome| (outcome.number, outcome)).collect();
        let mut text = String::from(
            "| part | mutants | not compiled | tried | equal | by tests | of those by a hang | by fuzzing | left | found |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        let names = PARTS.iter().map(|part| part.name).chain([SEEDED]);
        for name in names {
            let of_part: Vec<&Mutant> =
                self.mutants.iter().filter(|mutant| part(mutant) == name).collect();
            self.row(name, &of_part, &outcomes, &mut text);
        }
        text.push_str("\nLeft:\n\n");
        for mutant in self.mutants {
            let Some(outcome) = outcomes.get(&mutant.number) else { continue };
            if is_left(outcome.verdict) && !self.is_equal(mutant) {
                let Mutant { number, file, line, function, edit, text: source } = mutant;
                let seen =
                    if outcome.verdict == Verdict::Unreached { " (not reached)" } else { "" };
                let _ = writeln!(
                    text,
                    "- {number} {file}:{line} `{function}`: {edit}{seen}: `{source}`"
                );
            }
        }
        text
    }

    fn is_equal(&self, mutant: &Mutant) -> bool {
        self.equal.iter().any(|equal| equal.is(mutant))
    }

    fn row(
        &self,
        name: &str,
        mutants: &[&Mutant],
        outcomes: &BTreeMap<u32, &Outcome>,
        text: &mut String,
    ) {
        let refused = mutants.iter().filter(|mutant| self.refused.contains(&mutant.number)).count();
        let tried: Vec<(&Mutant, Verdict)> = mutants
            .iter()
            .filter_map(|mutant| Some((*mutant, outcomes.get(&mutant.number)?.verdict)))
            .collect();
        let of = |wanted: &[Verdict]| {
            tried.iter().filter(|(_, verdict)| wanted.contains(verdict)).count()
        };
        let left = tried
            .iter()
            .filter(|(mutant, verdict)| is_left(*verdict) && !self.is_equal(mutant))
            .count();
        let equal = of(&[Verdict::Survived, Verdict::Unreached]) - left;
        let (tests, hung, fuzzed) =
            (of(&[Verdict::Caught, Verdict::Hung]), of(&[Verdict::Hung]), of(&[Verdict::Fuzzed]));
        let counted = tried.len() - equal;
        let score = 100.0 * (tests + fuzzed) as f64 / counted.max(1) as f64;
        let _ = writeln!(
            text,
            "| {name} | {} | {refused} | {} | {equal} | {tests} | {hung} | {fuzzed} | {left} | {score:.1} % |",
            mutants.len(),
            tried.len(),
        );
    }
}

pub(crate) fn is_left(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Survived | Verdict::Unreached)
}
