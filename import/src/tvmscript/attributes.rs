//! Attributes of functions and modules, from TVM's dictionaries.

use super::tree::{argument, arguments, bare, call, callee, is_call, taken};
use super::{Turned, refuse};
use relax_syntax::ast::{Expr, ExprKind, Statement};

/// `{"k": v}` as one line each.
pub(super) fn attributes(given: &Expr, directive: &str) -> Turned<Vec<Statement>> {
    let Some(dictionary) = taken(given, 0, &[]).filter(|d| is_call(d, &["dict_"])) else {
        return refuse(given.span, "attributes are a dictionary");
    };
    let mut lines = Vec::new();
    for pair in arguments(dictionary).chunks(2) {
        let [key, value] = pair else { return refuse(given.span, "a key without a value") };
        let value = match callee(&value.value) {
            Some("T.bool" | "T.int64" | "T.int32" | "R.str") => {
                taken(&value.value, 0, &[]).cloned()
            }
            _ => Some(value.value.clone()),
        };
        let plain = |value: &Expr| {
            matches!(
                value.kind,
                ExprKind::Str(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)
            )
        };
        let Some(value) = value.filter(plain) else {
            return refuse(given.span, "an attribute that is no string and no number");
        };
        let ExprKind::Str(word) = &key.value.kind else {
            return refuse(key.value.span, "a key is a string");
        };
        // What TVM alone reads.
        if matches!(word.as_str(), "global_symbol" | "tir.noalias" | "tirx.noalias") {
            continue;
        }
        let value = match (&value.kind, word.as_str()) {
            (ExprKind::Bool(set), "relax.force_pure") if *set => continue,
            _ => value,
        };
        let pair = vec![argument(key.value.clone()), argument(value)];
        lines.push(bare(call(directive, pair, given.span)));
    }
    Ok(lines)
}
