//! `relax rules`: the rewrite rules, and how far each is proved.

use super::own_rules;
use super::unknown::unknown;
use crate::args::{Format, RulesArgs};
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_symbolic::Prover;
use relax_theorems::rules::{self, Rule, Status, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

pub(super) fn rules(args: &RulesArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(file) = args.name.as_deref().filter(|name| own_rules::is_file(name)) {
        return of_file(Path::new(file), terminal);
    }
    let all = rules::all();
    if let Some(name) = &args.name
        && !all.iter().any(|rule| rule.name == name)
    {
        let known: Vec<&str> = all.iter().map(|rule| rule.name.as_str()).collect();
        return Err(unknown("rule", name, &known));
    }
    if let Some(family) = &args.family
        && !rules::FAMILIES.iter().any(|(name, _)| name == family)
    {
        let known: Vec<&str> = rules::FAMILIES.iter().map(|(name, _)| *name).collect();
        return Err(unknown("family", family, &known));
    }
    let wanted = all.into_iter().filter(|rule| {
        args.name.as_ref().is_none_or(|name| rule.name == name)
            && args.family.as_ref().is_none_or(|family| rule.family == family)
    });
    let found: Vec<(Rule, Status)> = wanted
        .map(|rule| {
            terminal.doing(format!("proving {}", rule.name));
            let status = if args.prove { proved(&rule) } else { rules::status_of(&rule) };
            (rule, status)
        })
        .filter(|(_, status)| !args.unproved || !status.is_proved())
        .collect();
    let text = match (terminal.format, &args.name) {
        (Format::Json, _) => found.iter().map(json_line).collect(),
        (Format::Text, None) => table(&found),
        (Format::Text, Some(_)) => found.iter().map(details).collect(),
    };
    terminal.result(&text)?;
    Ok(Exit::Fine)
}

/// The rules of a file, with a counterexample to each that is wrong.
fn of_file(path: &Path, terminal: &mut Terminal) -> Outcome {
    let found = own_rules::judged(path, terminal)?;
    let is_proved = |verdict: &Verdict| matches!(verdict, Verdict::Proved(_));
    let text = match terminal.format {
        Format::Json => found.iter().map(verdict_line).collect(),
        Format::Text => {
            let width = found.iter().map(|(rule, _)| rule.name.len()).max().unwrap_or(0);
            let mut text = String::new();
            for (rule, verdict) in &found {
                let (kind, said) = (rule.kind.word(), own_rules::said(verdict));
                let refused = if matches!(verdict, Verdict::Refused(_)) { "refused: " } else { "" };
                let _ = writeln!(text, "{:width$}  {kind:<11}  {refused}{said}", rule.name);
                for line in own_rules::counterexample(verdict).into_iter().flat_map(str::lines) {
                    let _ = writeln!(text, "    {line}");
                }
            }
            let proved = found.iter().filter(|(_, verdict)| is_proved(verdict)).count();
            let _ = writeln!(text, "\n{} rules, {proved} of them proved", found.len());
            text
        }
    };
    terminal.result(&text)?;
    let all = found.iter().all(|(_, verdict)| is_proved(verdict));
    Ok(if all { Exit::Fine } else { Exit::Wrong })
}

fn verdict_line((rule, verdict): &(Rule, Verdict)) -> String {
    let why = (!matches!(verdict, Verdict::Proved(_))).then(|| own_rules::said(verdict));
    let mut line = object(rule, verdict.word(), why.as_deref());
    line["counterexample"] = json!(own_rules::counterexample(verdict));
    format!("{line}\n")
}

fn proved(rule: &Rule) -> Status {
    rules::prove(rule, &mut || Box::new(Prover::new()))
}

/// One line a rule, under its family; then how many there are of each status.
fn table(found: &[(Rule, Status)]) -> String {
    let width = found.iter().map(|(rule, _)| rule.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut family = None;
    for (rule, status) in found {
        if family != Some(&rule.family) {
            let gap = if family.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{gap}{}", rule.family);
            family = Some(&rule.family);
        }
        let (kind, status) = (rule.kind.word(), said(status));
        let _ = writeln!(text, "  {:width$}  {kind:<11}  {status}", rule.name);
    }
    let proved = found.iter().filter(|(_, status)| status.is_proved()).count();
    if !found.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{} rules, {proved} of them proved", found.len());
    text
}

/// The status, and where a proof was tried in vain the reason.
fn said(status: &Status) -> String {
    match status {
        Status::Unproved(why) if !why.is_empty() => format!("{status}: {why}"),
        status => status.to_string(),
    }
}

fn details((rule, status): &(Rule, Status)) -> String {
    let mut text = format!("{}\n\n", rule.text.trim_end());
    let _ = writeln!(text, "Family: {}", rule.family);
    let _ = writeln!(text, "Status: {}", said(status));
    let dropped = rule.dropped();
    if !dropped.is_empty() {
        let _ = writeln!(text, "Only where this never stops: {}", dropped.join(", "));
    }
    text
}

fn json_line((rule, status): &(Rule, Status)) -> String {
    let why = match status {
        Status::Unproved(why) if !why.is_empty() => Some(why),
        _ => None,
    };
    format!("{}\n", object(rule, status.word(), why.map(String::as_str)))
}

fn object(rule: &Rule, status: &str, why: Option<&str>) -> Value {
    json!({
        "type": "rule",
        "name": rule.name.as_str(),
        "family": rule.family.as_str(),
        "kind": rule.kind.word(),
        "direction": rule.direction.word(),
        "status": status,
        "why": why,
        "reason": rule.reason,
    })
}
