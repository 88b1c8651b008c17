//! `relax rules`: the rewrite rules, and how far each is proved.

use super::unknown::unknown;
use crate::args::{Format, RulesArgs};
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_symbolic::Prover;
use relax_theorems::rules::{self, Rule, Status};
use serde_json::json;
use std::fmt::Write;

pub(super) fn rules(args: &RulesArgs, terminal: &mut Terminal) -> Outcome {
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
    let mut text = format!("{}\n\n", rules::source(rule).trim_end());
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
    let line = json!({
        "type": "rule",
        "name": rule.name.as_str(),
        "family": rule.family.as_str(),
        "kind": rule.kind.word(),
        "direction": rule.direction.word(),
        "status": status.word(),
        "why": why,
        "reason": rule.reason,
    });
    format!("{line}\n")
}
