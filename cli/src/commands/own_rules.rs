//! Rules out of files: each is proved before it is used, or refused with a program that shows what is wrong with it.

use crate::exit::{Exit, Failure};
use crate::files::read_text;
use crate::terminal::Terminal;
use relax_rewrite::saturation::{Options, Report};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_theorems::rules::{self, FAMILIES, Refusal, Rule, Verdict, judge, read_rules};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Whether an argument names a file, and not a rule or a family.
pub(super) fn is_file(argument: &str) -> bool {
    Path::new(argument).extension().is_some_and(|ending| ending == "rx")
}

/// The rules of a file with what is known of each, in their order.
pub(super) fn judged(
    path: &Path,
    terminal: &mut Terminal,
) -> Result<Vec<(Rule, Verdict)>, Failure> {
    let wrong = |text: String| Failure::Message { exit: Exit::Wrong, text };
    let text = read_text(path)?;
    let shown = path.display().to_string();
    let family = shown.strip_suffix(".rx").unwrap_or(&shown);
    let read = read_rules(family, &text).map_err(|found| wrong(found.join("\n")))?;
    let known: BTreeSet<Name> = rules::all().into_iter().map(|rule| rule.name).collect();
    if let Some(rule) = read.iter().find(|rule| known.contains(&rule.name)) {
        let name = &rule.name;
        return Err(wrong(format!(
            "{shown}: relax has a rule `{name}` of its own: give this one another name"
        )));
    }
    let judged = read.into_iter().map(|rule| {
        terminal.doing(format!("proving {}", rule.name));
        let verdict = judge(&rule, &mut || Box::new(Prover::new()));
        (rule, verdict)
    });
    Ok(judged.collect())
}

/// The rules of a file, and whether each is proved. Unless `unproved` is given, all must be; none may be refused.
fn usable(
    path: &Path,
    unproved: bool,
    terminal: &mut Terminal,
) -> Result<Vec<(Rule, bool)>, Failure> {
    let mut usable = Vec::new();
    for (rule, verdict) in judged(path, terminal)? {
        match &verdict {
            Verdict::Proved(_) => usable.push((rule, true)),
            Verdict::Tested(..) if unproved => usable.push((rule, false)),
            _ => {
                let (file, name, said) = (path.display(), &rule.name, said(&verdict));
                let program =
                    counterexample(&verdict).map_or(String::new(), |text| format!("\n{text}"));
                let way = match verdict {
                    Verdict::Tested(..) => "; --unproved uses it all the same",
                    _ => "",
                };
                let text = format!("{file}: the rule `{name}` is not used: {said}{way}{program}");
                return Err(Failure::Message { exit: Exit::Wrong, text });
            }
        }
    }
    Ok(usable)
}

/// Families and files in a list, separated by commas, as rules that may be used, and the names of those that are not proved.
pub(super) fn listed(
    list: &str,
    unproved: bool,
    terminal: &mut Terminal,
) -> Result<(Options, BTreeSet<Name>), Failure> {
    let mut options = Options::default();
    let mut not_proved = BTreeSet::new();
    let mut families = Vec::new();
    for item in list.split(',').map(str::trim) {
        match item {
            "all" => families.extend(FAMILIES.iter().map(|(family, _)| Name::new(family))),
            file if is_file(file) => {
                for (rule, is_proved) in usable(Path::new(file), unproved, terminal)? {
                    if !is_proved {
                        not_proved.insert(rule.name.clone());
                    }
                    options.own.push(Arc::new(rule));
                }
            }
            family => families.push(Options::family(family).map_err(Failure::usage)?),
        }
    }
    are_different(&options.own)?;
    options.families = Some(families);
    Ok((options, not_proved))
}

/// Rules of several files have names of their own.
fn are_different(own: &[Arc<Rule>]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match own.iter().find(|rule| !names.insert(&rule.name)) {
        None => Ok(()),
        Some(rule) => Err(Failure::usage(format!("two rules have the name `{}`", rule.name))),
    }
}

/// What is known of a rule, as tables say it.
pub(super) fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Proved(status) => status.to_string(),
        Verdict::Tested(why, cases) => {
            format!("no proof ({why}), and no counterexample in {cases} cases")
        }
        Verdict::Refused(refusal) => refusal.to_string(),
    }
}

/// The program that shows that a rule is wrong.
pub(super) fn counterexample(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Refused(Refusal::Wrong(found)) => Some(&found.program),
        _ => None,
    }
}

/// Says where rules that are not proved gave a region its form.
pub(super) fn warn_of_uses(report: &Report, unproved: &BTreeSet<Name>, terminal: &mut Terminal) {
    let applied: Vec<&Name> = unproved.iter().filter(|rule| report.is_applied(rule)).collect();
    for function in &report.functions {
        for region in &function.regions {
            let outputs: Vec<&str> = region.outputs.iter().map(AsRef::as_ref).collect();
            let place = format!("{}: {}", function.name, outputs.join(", "));
            // A term that is too large has no explanation.
            if region.explained.is_empty() {
                for rule in &applied {
                    terminal.warn(&format!(
                        "{place}: maybe rewritten by `{rule}`, which is not proved"
                    ));
                }
            }
            let used: BTreeSet<&str> = region
                .explained
                .iter()
                .map(|step| step.base())
                .filter(|rule| unproved.iter().any(|name| name == rule))
                .collect();
            for rule in used {
                terminal.warn(&format!("{place}: rewritten by `{rule}`, which is not proved"));
            }
        }
    }
}

/// Says which rules are not proved where it is not known which of them were used.
pub(super) fn warn_of_unproved(unproved: &BTreeSet<Name>, terminal: &mut Terminal) {
    for rule in unproved {
        terminal.warn(&format!("the rule `{rule}` is not proved: versions may depend on it"));
    }
}

/// Says where a limit ended the search, and which rule made most of what there was.
pub(super) fn warn_of_limits(report: &Report, terminal: &mut Terminal) {
    let most = report.uses.iter().max_by_key(|(_, uses)| uses.nodes);
    for (limit, regions) in &report.limited {
        let by = most.map_or(String::new(), |(rule, uses)| {
            format!("; most terms, {}, are those of `{rule}`", uses.nodes)
        });
        let s = if *regions == 1 { "" } else { "s" };
        terminal
            .warn(&format!("the search in {regions} region{s} ended at the limit of {limit}{by}"));
    }
}
