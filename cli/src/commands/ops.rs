//! `relax ops`: the operator table, for people, tools, and as the reference in the documentation.

use super::unknown::unknown;
use crate::args::{Format, OpsArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_rewrite::passes::legalize_ops::why_it_stays;
use relax_semantics::check::meant;
use relax_semantics::ops::{self, Effect, Operator, reference};
use relax_syntax::foreign::Ours;
use serde_json::json;
use std::fmt::Write;

pub(super) fn ops(args: &OpsArgs, terminal: &mut Terminal) -> Outcome {
    if args.markdown {
        let text = reference::markdown();
        terminal.tell(&text, || json!({ "type": "page", "text": text }))?;
        return Ok(Exit::Fine);
    }
    let rows: Vec<&Operator> = match &args.name {
        None => ops::all().collect(),
        Some(name) => match ops::lookup(name) {
            Some(row) => vec![row],
            None => {
                let ours = match meant(name) {
                    Some(Ours::Operator(ours)) => Some(ours),
                    Some(Ours::Form(form)) => Some(form),
                    None => None,
                };
                if let Some(ours) = ours {
                    return Err(Failure::usage(format!(
                        "there is no operator `{name}`; write `{ours}`"
                    )));
                }
                let known: Vec<&str> = ops::all().map(Operator::short_name).collect();
                return Err(unknown("operator", name, &known));
            }
        },
    };
    let text = match (terminal.format, &args.name) {
        (Format::Json, _) => rows.iter().map(|row| json_line(row)).collect(),
        (Format::Text, None) => table(&rows),
        (Format::Text, Some(_)) => rows.iter().map(|row| details(row)).collect(),
    };
    terminal.result(&text)?;
    Ok(Exit::Fine)
}

/// One line an operator, under its family.
fn table(rows: &[&Operator]) -> String {
    let mut text = String::new();
    let mut family = None;
    for row in rows {
        if family != Some(row.family) {
            let _ = writeln!(
                text,
                "{}{}",
                if family.is_some() { "\n" } else { "" },
                row.family.title()
            );
            family = Some(row.family);
        }
        let _ = writeln!(text, "  {}", row.signature());
    }
    text
}

fn details(row: &Operator) -> String {
    let mut text = format!("{}\n\n{}\n", row.signature(), row.doc);
    if !row.aliases.is_empty() || row.short_name() != row.name {
        let mut names = vec![row.name];
        names.extend(row.aliases);
        let _ = writeln!(text, "\nAlso known as: {}", names.join(", "));
    }
    if !row.params.is_empty() {
        text.push_str("\nParameters:\n");
        let width = row.params.iter().map(|param| param.name.len()).max().unwrap_or(0);
        for param in row.params {
            let _ = writeln!(text, "  {:width$}  {}", param.name, param.described());
        }
    }
    if !row.constraints.is_empty() {
        text.push_str("\nConstraints:\n");
        for constraint in row.constraints {
            let _ = writeln!(text, "  {}/{}  {}", row.short_name(), constraint.id, constraint.text);
        }
    }
    if row.effect == Effect::Impure {
        text.push_str("\nImpure: it may not stand in a dataflow block.\n");
    }
    let _ = writeln!(text, "\nTraps, constraints aside: {}.", row.traps.words());
    let _ = match why_it_stays(row) {
        None => writeln!(text, "\nTensor program: `legalize_ops` has one."),
        Some(why) => writeln!(text, "\nNo tensor program: {why}."),
    };
    text
}

fn json_line(row: &Operator) -> String {
    let params = row.params.iter().map(|param| {
        json!({
            "name": param.name,
            "alias": param.alias,
            "kind": param.kind.words(),
            "default": param.default.map(|default| default.to_string()),
        })
    });
    let constraints = row.constraints.iter().map(|constraint| {
        json!({ "id": format!("{}/{}", row.short_name(), constraint.id), "text": constraint.text })
    });
    let line = json!({
        "type": "operator",
        "name": row.name,
        "aliases": row.aliases,
        "family": row.family.title(),
        "doc": row.doc,
        "tensor_program": why_it_stays(row).is_none(),
        "pure": row.effect == Effect::Pure,
        "traps": row.traps.words(),
        "params": params.collect::<Vec<_>>(),
        "constraints": constraints.collect::<Vec<_>>(),
    });
    format!("{line}\n")
}
