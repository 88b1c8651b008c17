//! Rules out of files: each is proved before it is used, or refused with a program that shows what is wrong with it.

use super::Options;
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_theorems::rules::{self, FAMILIES, Refusal, Rule, Verdict, judge, read_rules};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What a pipeline is given for no rules at all, in the place of a list.
pub const NONE: &str = "none";

/// Whether an item of a list of rules names a file, and not a rule or a family.
#[must_use]
pub fn is_file(item: &str) -> bool {
    Path::new(item).extension().is_some_and(|ending| ending == "rx")
}

/// Why a list of rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The list is wrong: there is no such family, or a name is given twice.
    List(String),
    /// A file of rules, or a rule in it, is wrong.
    File(String),
}

/// What becomes of rules of files that have neither a proof nor a counterexample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproved<'a> {
    /// They are used.
    Used,
    /// They are refused; the text says how they can be used all the same.
    Refused(&'a str),
}

/// How rules are proved.
pub struct Proofs<'a> {
    /// Makes a prover that knows nothing yet.
    pub prover: &'a mut dyn FnMut() -> Box<dyn Facts>,
    /// Is called with the name of each rule before it is proved.
    pub progress: &'a mut dyn FnMut(&Name),
}

/// The rules in the text of a file with what is known of each, in their order.
///
/// # Errors
/// The text has no rules, or a rule has the name of one of this program.
pub fn judged(
    file: &str,
    text: &str,
    proofs: &mut Proofs,
) -> Result<Vec<(Rule, Verdict)>, RuleError> {
    let family = file.strip_suffix(".rx").unwrap_or(file);
    let read = read_rules(family, text).map_err(|found| RuleError::File(found.join("\n")))?;
    let known: BTreeSet<Name> = rules::all().into_iter().map(|rule| rule.name).collect();
    if let Some(rule) = read.iter().find(|rule| known.contains(&rule.name)) {
        let name = &rule.name;
        return Err(RuleError::File(format!(
            "{file}: relax has a rule `{name}` of its own: give this one another name"
        )));
    }
    let judged = read.into_iter().map(|rule| {
        (proofs.progress)(&rule.name);
        let verdict = judge(&rule, proofs.prover);
        (rule, verdict)
    });
    Ok(judged.collect())
}

/// The rules of a file, and whether each is proved. None may be refused.
fn usable(
    file: &str,
    text: &str,
    unproved: Unproved,
    proofs: &mut Proofs,
) -> Result<Vec<(Rule, bool)>, RuleError> {
    let mut usable = Vec::new();
    for (rule, verdict) in judged(file, text, proofs)? {
        let way = match (&verdict, unproved) {
            (Verdict::Proved(_), _) => {
                usable.push((rule, true));
                continue;
            }
            (Verdict::Tested(..), Unproved::Used) => {
                usable.push((rule, false));
                continue;
            }
            (Verdict::Tested(..), Unproved::Refused(way)) => format!("; {way}"),
            (Verdict::Refused(_), _) => String::new(),
        };
        let (name, said) = (&rule.name, said(&verdict));
        let program = counterexample(&verdict).map_or(String::new(), |text| format!("\n{text}"));
        return Err(RuleError::File(format!(
            "{file}: the rule `{name}` is not used: {said}{way}{program}"
        )));
    }
    Ok(usable)
}

/// Families, `all` and files as the rules that are used, and the names of those that are not proved. `read` gives the text of a file,
/// `wrong` an error of the caller.
///
/// # Errors
/// Those of `read`; a family that there is none of; a rule that is wrong, or not proved where it must be.
pub fn listed<'i, E>(
    items: impl IntoIterator<Item = &'i str>,
    unproved: Unproved,
    read: fn(&Path) -> Result<String, E>,
    wrong: fn(RuleError) -> E,
    proofs: &mut Proofs,
) -> Result<(Options, BTreeSet<Name>), E> {
    let mut options = Options::default();
    let mut not_proved = BTreeSet::new();
    let mut families = Vec::new();
    for item in items {
        match item {
            "all" => families.extend(FAMILIES.iter().map(|(family, _)| Name::new(family))),
            file if is_file(file) => {
                let text = read(Path::new(file))?;
                for (rule, is_proved) in usable(file, &text, unproved, proofs).map_err(wrong)? {
                    if !is_proved {
                        not_proved.insert(rule.name.clone());
                    }
                    options.own.push(Arc::new(rule));
                }
            }
            family => {
                families.push(Options::family(family).map_err(|why| wrong(RuleError::List(why)))?)
            }
        }
    }
    // Rules of several files have names of their own.
    let mut names = BTreeSet::new();
    if let Some(rule) = options.own.iter().find(|rule| !names.insert(&rule.name)) {
        return Err(wrong(RuleError::List(format!("two rules have the name `{}`", rule.name))));
    }
    options.families = Some(families);
    Ok((options, not_proved))
}

/// What is known of a rule, as tables say it.
#[must_use]
pub fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Proved(status) => status.to_string(),
        Verdict::Tested(why, cases) => {
            format!("no proof ({why}), and no counterexample in {cases} cases")
        }
        Verdict::Refused(refusal) => refusal.to_string(),
    }
}

/// The program that shows that a rule is wrong.
#[must_use]
pub fn counterexample(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Refused(Refusal::Wrong(found)) => Some(&found.program),
        _ => None,
    }
}
