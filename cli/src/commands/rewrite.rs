//! `relax rewrite`: a program rewritten by proved rules, and why each region became what it is.

use super::loading::{Given, load};
use super::own_rules;
use crate::args::{Format, ModelArgs, RewriteArgs, SaturationArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_program::frontend::print;
use relax_rewrite::pipeline::Failed;
use relax_rewrite::saturation::{
    self, Extraction, FormCounts, FunctionReport, Options, Report, RuleKind, Uses, saturate_module,
    version_module,
};
use relax_semantics::check::Checked;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

/// Rules that are listed as the most expensive.
const LISTED: usize = 15;

pub(super) fn rewrite(args: &RewriteArgs, terminal: &mut Terminal) -> Outcome {
    let (mut options, unproved) = options(&args.rules, terminal)?;
    options.clock = args.times.then_some(nanoseconds as fn() -> u64);
    let kind = kind(&args.rules);
    let Some(checked) = prepared(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    let facts = &mut Prover::new();
    terminal.doing(format!("rewriting {}", args.file.display()));
    if args.versions {
        let (module, _) = version_module(&checked, facts, None, &options, kind);
        own_rules::warn_of_unproved(&unproved, terminal);
        terminal.program(&print(&tidied(&module)?))?;
        return Ok(Exit::Fine);
    }
    let is_explained = args.explain || !unproved.is_empty();
    let extraction = if is_explained { Extraction::Explained } else { Extraction::Cheapest };
    let (module, report) = saturate_module(&checked, facts, &options, kind, extraction);
    own_rules::warn_of_uses(&report, &unproved, terminal);
    if !options.own.is_empty() {
        own_rules::warn_of_limits(&report, terminal);
    }
    match (args.explain, terminal.format) {
        (false, _) => terminal.program(&print(&tidied(&module)?))?,
        (true, Format::Text) => terminal.result(&explanation(&report))?,
        (true, Format::Json) => terminal.result(&lines(&report))?,
    }
    Ok(Exit::Fine)
}

/// Since the command asked first.
fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The rules and limits that the command line asks for, and the names of the rules among them that are not proved.
pub(super) fn options(
    args: &SaturationArgs,
    terminal: &mut Terminal,
) -> Result<(Options, BTreeSet<Name>), Failure> {
    let (mut options, unproved) = match &args.rules {
        Some(list) => own_rules::listed(list, args.unproved, terminal)?,
        None => Default::default(),
    };
    for limit in &args.limit {
        options
            .set_limit(limit)
            .map_err(|why| Failure::usage(format!("--limit {limit}: {why}")))?;
    }
    Ok((options, unproved))
}

pub(super) fn kind(args: &SaturationArgs) -> RuleKind {
    if args.approximate { RuleKind::Approximate } else { RuleKind::Exact }
}

/// A program, normalized; `None` when it is wrong.
pub(super) fn prepared(
    path: &Path,
    model: &ModelArgs,
    terminal: &mut Terminal,
) -> Result<Option<Checked>, Failure> {
    let Some(Given { program, .. }) = load(path, model, terminal)? else { return Ok(None) };
    match saturation::prepared(&program.module, &mut Prover::new()) {
        Ok(checked) => Ok(Some(checked)),
        Err(Failed::Refused { diagnostics, .. } | Failed::Broken { diagnostics, .. }) => {
            show_diagnostics(terminal, &program.source, &diagnostics);
            Ok(None)
        }
        Err(Failed::Stopped { why, .. }) => Err(Failure::usage(why)),
    }
}

fn tidied(module: &Module) -> Result<Module, Failure> {
    saturation::tidied(module, &mut Prover::new())
        .map_err(|failed| Failure::usage(format!("the rewritten program is refused: {failed:?}")))
}

/// What led to each form, an object a region, and then the rules that took most work.
fn lines(report: &Report) -> String {
    let mut text = String::new();
    for function in &report.functions {
        for region in &function.regions {
            let outputs: Vec<&str> = region.outputs.iter().map(AsRef::as_ref).collect();
            let leaf = |at: usize| region.leaf(at);
            let steps = region.explained.iter().map(|step| {
                let (before, after) = (step.before.text(&leaf), step.after.text(&leaf));
                json!({ "before": before, "after": after, "rule": step.rule.to_string() })
            });
            let object = json!({
                "type": "rewrite",
                "function": function.name.to_string(),
                "outputs": outputs,
                "steps": steps.collect::<Vec<_>>(),
            });
            let _ = writeln!(text, "{object}");
        }
    }
    let rules = report.most_expensive(LISTED).into_iter().map(|(name, uses)| {
        let Uses { tried, asked, nodes, matches, applications, nanoseconds } = uses;
        json!({
            "rule": name.to_string(), "tried": tried, "asked": asked, "nodes": nodes, "matches": matches,
            "applied": applications, "nanoseconds": nanoseconds,
        })
    });
    let FormCounts { looked_for, cheaper, unproved, most_saved } = report.forms;
    let object = json!({
        "type": "rewrites",
        "rewritten": report.rewritten,
        "regions": report.regions,
        "saturated": report.saturated,
        "forms": {
            "looked_for": looked_for,
            "cheaper_than_greedy": cheaper,
            "not_proved_cheapest": unproved,
            "most_saved_percent": most_saved,
        },
        "rules": rules.collect::<Vec<_>>(),
    });
    let _ = writeln!(text, "{object}");
    text
}

/// What led to each form, and what it took.
fn explanation(report: &Report) -> String {
    let mut text = String::new();
    for function in &report.functions {
        of_function(function, &mut text);
    }
    let (regions, saturated) = (report.regions, report.saturated);
    let _ = writeln!(
        text,
        "{} of {regions} regions rewritten, {saturated} saturated",
        report.rewritten
    );
    let FormCounts { looked_for, cheaper, unproved, most_saved } = report.forms;
    let _ = write!(text, "{looked_for} forms looked for, {cheaper} cheaper than the greedy one");
    if cheaper > 0 {
        let _ = write!(text, ", by up to {most_saved} %");
    }
    let _ = writeln!(text, "; {unproved} not proved to be the cheapest");
    expensive(report, &mut text);
    text
}

/// The rules that took most work: counts are the same in every run, times are shown where they were asked for.
fn expensive(report: &Report, text: &mut String) {
    let listed = report.most_expensive(LISTED);
    let width = listed.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, uses) in listed {
        let Uses { tried, asked, nodes, matches, applications, nanoseconds } = uses;
        let _ = write!(
            text,
            "  {name:width$}  {tried:5} tried, {asked:4} asked, {nodes:4} nodes, {matches:5} matches, \
             {applications:4} applied"
        );
        if nanoseconds > 0 {
            let _ = write!(text, ", {:.2} ms", nanoseconds as f64 / 1e6);
        }
        text.push('\n');
    }
}

fn of_function(function: &FunctionReport, text: &mut String) {
    for region in &function.regions {
        let outputs: Vec<&str> = region.outputs.iter().map(AsRef::as_ref).collect();
        let _ = writeln!(text, "{}: {}", function.name, outputs.join(", "));
        let leaf = |at: usize| region.leaf(at);
        for step in &region.explained {
            let (before, after) = (step.before.text(&leaf), step.after.text(&leaf));
            let _ = writeln!(text, "  {before}\n    -> {after}    by {}", step.rule);
        }
        if region.explained.is_empty() {
            let _ = writeln!(text, "  calls that are the same are made once");
        }
        text.push('\n');
    }
}
