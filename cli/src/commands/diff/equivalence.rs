//! `relax equiv`: whether two programs have the same values and traps. Random cases look for a difference first; then the functions are
//! compared by `relax-validation`, which shares its obligations, and its certificates, with compilations.

use super::pairs::pairs;
use super::reproduction::refuse_path;
use super::{counts, different, object};
use crate::args::{DiffArgs, EquivArgs, KernelCheckArgs, NumericsArgs};
use crate::commands::at_most_one_stdin;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of, shown_name, write_whole};
use crate::terminal::Terminal;
use relax_driver::differential::{Other, Tally};
use relax_driver::equivalence::{Finding, Trust, Verdict, alone, findings};
use relax_program::compare::Relation;
use serde_json::json;

pub(in crate::commands) fn equiv(args: &EquivArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(path) = &args.save {
        refuse_path(path)?;
    }
    at_most_one_stdin([args.left.as_path(), args.right.as_path()])?;
    for path in [&args.left, &args.right] {
        if kind_of(path)? == FileKind::Module {
            let name = shown_name(path);
            return Err(Failure::usage(format!(
                "{name}: of the machine code of a module file nothing is proved; `relax diff` compares it on random inputs"
            )));
        }
    }
    let asked = as_diff(args);
    let found = pairs(&asked, terminal)?.into_iter().next();
    let (mut routes, names) = found.expect("invariant: of two texts there is one pair");
    let Other::Text { module, relation, wide, .. } = &mut routes.other else {
        unreachable!("invariant: no backend was asked for");
    };
    if !args.up_to_rounding {
        (*relation, *wide) = (Relation::Equal, None);
    }
    let other = module.clone();
    if args.entry.is_none()
        && let Some(why) = alone(&routes.left, &other)
    {
        terminal.tell(
            &format!("different: {why}\n"),
            || json!({ "type": "equiv", "verdict": "different", "why": why }),
        )?;
        return Ok(Exit::Wrong);
    }
    let mut tallies = Vec::new();
    for name in names {
        let mut tally = Tally::default();
        let watch = &mut |cases| terminal.doing(format!("`{name}`: {cases} of {}", args.cases));
        if let Some(difference) = routes.function(&name, &mut tally, watch) {
            return different(&asked, &routes, &difference, terminal);
        }
        tallies.push((name, tally));
    }
    terminal.doing("proving that they are equal".to_owned());
    let (found, certificate) = findings(&routes, tallies)
        .map_err(|text| Failure::Message { exit: Exit::Internal, text })?;
    let exit = show(args, &found, terminal)?;
    if let (Some(path), Some(certificate)) = (&args.certificate, &certificate)
        && exit != Exit::Wrong
    {
        write_whole(path, certificate.text().as_bytes())?;
    }
    Ok(exit)
}

fn as_diff(args: &EquivArgs) -> DiffArgs {
    DiffArgs {
        file: args.left.clone(),
        model: args.model.clone(),
        against: Some(args.right.clone()),
        grad: false,
        backend: None,
        entry: args.entry.clone(),
        params: args.params.clone(),
        cases: args.cases,
        seed: args.seed,
        save: args.save.clone(),
        numerics: NumericsArgs::default(),
        kernel_check: KernelCheckArgs::default(),
    }
}

fn text(finding: &Finding, verdict: Verdict) -> String {
    let Finding { function, tally, .. } = finding;
    let (how, cases) = (finding.how(), counts(tally));
    match verdict {
        Verdict::Equal => format!("`{function}`: equal for all dims and inputs, {how}\n"),
        Verdict::Vacuous => {
            format!("`{function}`: equal, {how}, but no case had a value: {cases}\n")
        }
        Verdict::Open => format!("`{function}`: open: {how}; no case differs: {cases}\n"),
        Verdict::Different => format!("`{function}`: different: {how}\n"),
    }
}

fn line(finding: &Finding, verdict: Verdict) -> serde_json::Value {
    let mut line = object(&finding.tally);
    line["type"] = json!("equiv");
    line["function"] = json!(finding.function.as_str());
    line["verdict"] = json!(verdict.word());
    line["how"] = json!(finding.how());
    line
}

fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Equal => Exit::Fine,
        Verdict::Vacuous => Exit::Vacuous,
        Verdict::Open => Exit::Partial,
        Verdict::Different => Exit::Wrong,
    }
}

/// A line for each function, and the verdict on all.
fn show(args: &EquivArgs, findings: &[Finding], terminal: &mut Terminal) -> Result<Exit, Failure> {
    let trust = if args.trust.is_none() { Trust::Rules } else { Trust::Solver };
    let mut worst = Verdict::Equal;
    for finding in findings {
        let verdict = finding.verdict(trust);
        worst = worst.max(verdict);
        terminal.tell(&text(finding, verdict), || line(finding, verdict))?;
    }
    let count = |verdict| findings.iter().filter(|each| each.verdict(trust) == verdict).count();
    let (equal, all) = (count(Verdict::Equal), findings.len());
    if all > 1 {
        let text = format!("{}: {equal} of {all} functions are equal\n", worst.word());
        terminal.tell(
            &text,
            || json!({ "type": "summary", "verdict": worst.word(), "equal": equal, "of": all }),
        )?;
    }
    Ok(exit(worst))
}
