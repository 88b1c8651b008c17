//! Lines whose values nothing reads: StableHLO programs have no side effects but assertions, and what the import makes of
//! scalars and broadcasts is often not needed.

use crate::argument::Arg;
use crate::builder::{Builder, Line, V};
use std::collections::BTreeSet;

pub(super) fn prune(builder: &mut Builder, outputs: &[V]) {
    let mut read: BTreeSet<V> = outputs.iter().copied().collect();
    let lines = std::mem::take(&mut builder.lines);
    builder.lines = pruned(lines, &mut read);
}

fn pruned(lines: Vec<Line>, read: &mut BTreeSet<V>) -> Vec<Line> {
    let mut kept = Vec::new();
    // A comment stands before the lines of its operation.
    let mut is_followed = false;
    for mut line in lines.into_iter().rev() {
        if let Line::If { then, otherwise, .. } = &mut line {
            *then = pruned(std::mem::take(then), read);
            *otherwise = pruned(std::mem::take(otherwise), read);
        }
        if let Line::Define { lines, returns, .. } = &mut line {
            read.extend(&*returns);
            *lines = pruned(std::mem::take(lines), read);
        }
        let is_needed = match &line {
            Line::Call { targets, .. }
            | Line::Apply { targets, .. }
            | Line::Fields { targets, .. } => targets.iter().any(|target| read.contains(target)),
            Line::Alias { target, .. } => read.contains(target),
            Line::Comment(_) => is_followed,
            // A cast binds dims, and a branch gives values by aliases.
            _ => true,
        };
        if is_needed {
            uses(&line, read);
            is_followed = !matches!(line, Line::Comment(_));
            kept.push(line);
        }
    }
    kept.reverse();
    kept
}

fn uses(line: &Line, read: &mut BTreeSet<V>) {
    match line {
        Line::Call { args, .. } => args.iter().for_each(|arg| used(arg, read)),
        Line::Cast { from, .. }
        | Line::ShapeCast { from, .. }
        | Line::Alias { from, .. }
        | Line::Fields { from, .. } => _ = read.insert(*from),
        Line::Assert { condition, message } => {
            used(condition, read);
            used(message, read);
        }
        Line::Apply { args, .. } => read.extend(args),
        Line::Define { lines, returns, .. } => {
            read.extend(returns);
            lines.iter().for_each(|line| uses(line, read));
        }
        Line::If { condition, then, otherwise } => {
            read.insert(*condition);
            then.iter().chain(otherwise).for_each(|line| uses(line, read));
        }
        Line::Comment(_) => {}
    }
}

fn used(arg: &Arg, read: &mut BTreeSet<V>) {
    match arg {
        Arg::V(v) => _ = read.insert(*v),
        Arg::Many(vs) => read.extend(vs),
        Arg::Key(_, arg) => used(arg, read),
        _ => {}
    }
}
