//! Rules out of files on the command line: read, proved with progress, and warned of where they are not proved.

use crate::exit::{Exit, Failure};
use crate::files::read_text;
use crate::terminal::Terminal;
use relax_rewrite::saturation::own_rules::{self, Proofs, RuleError, Unproved};
use relax_rewrite::saturation::{Options, Report};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_theorems::rules::{Rule, Verdict};
use std::collections::BTreeSet;
use std::path::Path;

pub(super) use own_rules::{NONE, counterexample, is_file, said};

fn failure(error: RuleError) -> Failure {
    match error {
        RuleError::List(text) => Failure::usage(text),
        RuleError::File(text) => Failure::Message { exit: Exit::Wrong, text },
    }
}

fn proving<T>(terminal: &mut Terminal, work: impl FnOnce(&mut Proofs) -> T) -> T {
    work(&mut Proofs {
        prover: &mut || Box::new(Prover::new()),
        progress: &mut |rule| terminal.doing(format!("proving {rule}")),
    })
}

/// The rules of a file with what is known of each, in their order.
pub(super) fn judged(
    path: &Path,
    terminal: &mut Terminal,
) -> Result<Vec<(Rule, Verdict)>, Failure> {
    let text = read_text(path)?;
    let file = path.display().to_string();
    proving(terminal, |proofs| own_rules::judged(&file, &text, proofs)).map_err(failure)
}

/// Families and files in a list, separated by commas, as rules that may be used, and the names of those that are not proved.
pub(super) fn listed(
    list: &str,
    unproved: bool,
    terminal: &mut Terminal,
) -> Result<(Options, BTreeSet<Name>), Failure> {
    let unproved = match unproved {
        true => Unproved::Used,
        false => Unproved::Refused("--unproved uses it all the same"),
    };
    let items = list.split(',').map(str::trim);
    proving(terminal, |proofs| own_rules::listed(items, unproved, read_text, failure, proofs))
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
