//! `shape_assertion`: what JAX requires of the dims of inputs.
//!
//! Equal dims and bounds of a dim become the types of the inputs, which a call checks. Other claims are assertions of the
//! program with JAX's message. All are facts from there on.

use super::call::Call;
use super::syntax::Attribute;
use super::walk::{Walk, printable};
use crate::argument::{Arg, key};
use crate::builder::{Content, Line, Origin, V};
use crate::model::Bound;
use crate::reason::{Done, invalid};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use std::collections::BTreeMap;

/// Longer messages are cut.
const LONGEST: usize = 400;

pub(super) fn assertion(call: &mut Call) -> Done<Vec<V>> {
    let condition = call.arg(0)?;
    let message = message(call);
    if let Some(known) = call.tensor(condition) {
        return match known.len() == 1 && known.number(0).as_f64() != 0.0 {
            true => Ok(Vec::new()),
            false => invalid(format!("it never holds: {message}")),
        };
    }
    let Some(claim) = call.walk.claims.get(&condition).cloned() else {
        call.walk.assert(condition, &message);
        return Ok(Vec::new());
    };
    if call.proves(&claim) || call.walk.declare(&claim) {
        return Ok(Vec::new());
    }
    if call.proves(&claim.opposite()) {
        return invalid(format!("it never holds: {message}"));
    }
    call.walk.assert(condition, &message);
    call.facts.assume(claim);
    Ok(Vec::new())
}

/// JAX's message without what it says of all inputs; dims instead of the places of values.
fn message(call: &Call) -> String {
    let text = match call.attribute("error_message") {
        Some(Attribute::Str(text)) => text.as_str(),
        _ => "a shape assertion",
    };
    let end = text.find("Using the following polymorphic").unwrap_or(text.len());
    let mut text = text[..end].trim().to_owned();
    for (index, &v) in call.args.iter().skip(1).enumerate() {
        let shown = match call.elements(v).as_deref() {
            Some([dim]) => dim.to_string(),
            _ => "a computed number".to_owned(),
        };
        text = text.replace(&format!("{{{index}}}"), &shown);
    }
    text.replace(['{', '}'], "")
}

impl Walk<'_> {
    fn assert(&mut self, condition: V, message: &str) {
        let message: String =
            message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
        let message = key("format", message.as_str());
        self.builder.lines.push(Line::Assert { condition: condition.into(), message });
    }

    /// Makes a claim a part of the signature, where it can be.
    fn declare(&mut self, claim: &Claim) -> bool {
        let (left, right) = (&claim.left, &claim.right);
        let is_own = |dim: &Dim| matches!(dim, Dim::Var(name) if self.builder.variables.get(&**name) == Some(&Origin::Signature));
        let less = i64::from(claim.relation == Relation::Less);
        let declared = match claim.relation {
            Relation::Equal => self.unify(left, right) || self.unify(right, left),
            Relation::AtMost | Relation::Less => match (left.as_int(), right.as_int()) {
                (Some(lower), _) if is_own(right) && lower.checked_add(less).is_some() => {
                    self.bound(right, Bound { lower: Some(lower + less), upper: None });
                    true
                }
                (_, Some(upper)) if is_own(left) && upper.checked_sub(less).is_some() => {
                    self.bound(left, Bound { lower: None, upper: Some(upper - less) });
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if declared {
            let relation = match claim.relation {
                Relation::Equal => "==",
                Relation::AtMost => "<=",
                _ => "<",
            };
            let shown = |dim: &Dim| {
                let name = dim.to_string();
                self.unnamed.get(&name).cloned().unwrap_or(name)
            };
            let text = format!("{} {relation} {}", shown(left), shown(right));
            self.declared.push(printable(&text));
        }
        declared
    }

    /// Replaces a variable that only one dim of the inputs has by what that dim must be.
    fn unify(&mut self, variable: &Dim, by: &Dim) -> bool {
        let Dim::Var(name) = variable else { return false };
        let variables = &self.builder.variables;
        let is_own = |name: &Name| variables.get(&**name) == Some(&Origin::Signature);
        let is_free = is_own(name) && !self.named.contains(&**name);
        let binds = by.vars_all(&|other| is_own(other) && other != name);
        if !is_free || !binds {
            return false;
        }
        let map = BTreeMap::from([(name.clone(), by.clone())]);
        for info in &mut self.builder.values {
            substitute(&mut info.dims, &map);
            if let Content::Dims(dims) = &mut info.content {
                substitute(dims, &map);
            }
        }
        for line in &mut self.builder.lines {
            match line {
                Line::Call { args, .. } => args.iter_mut().for_each(|arg| replaced(arg, &map)),
                Line::ShapeCast { dims, .. } => substitute(dims, &map),
                _ => {}
            }
        }
        for claim in self.claims.values_mut() {
            *claim = claim.substitute(&map);
        }
        self.rounded.values_mut().for_each(|rounded| rounded.substitute(&map));
        let bound = self.builder.bounded.remove(&**name);
        self.builder.variables.remove(&**name);
        if let Some(bound) = bound {
            self.bound(by, bound);
        }
        true
    }
}

fn substitute(dims: &mut [Dim], map: &BTreeMap<Name, Dim>) {
    dims.iter_mut().for_each(|dim| *dim = dim.substitute(map));
}

fn replaced(arg: &mut Arg, map: &BTreeMap<Name, Dim>) {
    match arg {
        Arg::Dim(dim) => *dim = dim.substitute(map),
        Arg::Dims(dims) | Arg::Shape(dims) => substitute(dims, map),
        Arg::Key(_, arg) => replaced(arg, map),
        _ => {}
    }
}
