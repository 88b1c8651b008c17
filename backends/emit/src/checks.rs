//! Checks: each is a place where the kernel may stop, or is left out because the prover shows that it
//! never fails.

use crate::Site;
use crate::message::Message;
use crate::printer::Printer;
use relax_semantics::tir::ranges::is_proved;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BufferId, TExpr};
use relax_tir::index_bounds::is_within;
use std::collections::BTreeSet;
use std::fmt;

/// What became of the checks of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// In the text, the boundary not counted.
    pub found: usize,
    /// Shown never to fail.
    pub elided: usize,
}

impl Checks {
    /// In the kernel.
    #[must_use]
    pub fn left(&self) -> usize {
        self.found - self.elided
    }
}

impl fmt::Display for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} checks, {} elided, {} left", self.found, self.elided, self.left())
    }
}

impl Printer<'_, '_> {
    /// The number that stands for a place where the kernel may stop.
    pub(crate) fn site(&mut self, trap: impl Into<Name>, message: impl Into<Message>) -> usize {
        let site = Site {
            trap: trap.into(),
            message: message.into().without_values(),
            values: 0,
            span: self.span,
        };
        self.numbered(site)
    }

    /// The same with values, and C that notes these before the kernel stops; kernels of devices note nothing.
    pub(crate) fn noted(
        &mut self,
        trap: impl Into<Name>,
        message: impl Into<Message>,
    ) -> (usize, String) {
        let message = message.into();
        if self.is_cuda() {
            return (self.site(trap, message), String::new());
        }
        let (message, values, note) = message.noted();
        let site = Site { trap: trap.into(), message, values, span: self.span };
        (self.numbered(site), note)
    }

    fn numbered(&mut self, site: Site) -> usize {
        if let Some(known) = self.sites.iter().position(|other| *other == site) {
            return known + 1;
        }
        self.sites.push(site);
        self.sites.len()
    }

    /// Stops where a condition of C holds.
    pub(crate) fn stop_if(
        &mut self,
        condition: &str,
        trap: impl Into<Name>,
        message: impl Into<Message>,
    ) {
        let (site, note) = self.noted(trap, message);
        let stops =
            if self.is_out_of_range { &mut self.stops_out_of_range } else { &mut self.stops };
        stops.insert(site);
        if self.is_cuda() {
            self.cuda().stops += 1;
            self.line(&format!("if ({condition}) {{ rx_stop(rx_status, {site}); return; }}"));
            return;
        }
        self.line(&format!("if ({condition}) {{ {note}status = {site}; goto done; }}"));
        self.may_stop = true;
    }

    /// Counts a check, and whether it is left out.
    pub(crate) fn counted(&mut self, elided: Elided) {
        self.checks.found += 1;
        self.checks.elided += usize::from(elided == Elided::Yes);
    }

    /// Whether a claim on index expressions holds.
    pub(crate) fn proves(
        &mut self,
        left: Option<Dim>,
        relation: Relation,
        right: Option<Dim>,
    ) -> bool {
        let (Some(left), Some(right)) = (left, right) else { return false };
        is_proved(self.facts, &Claim::new(left, relation, right))
    }

    /// Whether index arithmetic stays in i64.
    pub(crate) fn stays(&mut self, expr: &TExpr) -> bool {
        let numbers: Vec<Dim> = self.extents.iter().chain(&self.learned.numbers).cloned().collect();
        self.ranges.stays_in_i64(self.facts, expr, &numbers)
            || self.learn_extents() && self.ranges.stays_in_i64(self.facts, expr, &numbers)
    }

    /// A tensor that has elements lies in memory, so that none of its extents is near the limit of i64. Whether that
    /// says something new.
    fn learn_extents(&mut self) -> bool {
        let program = self.program;
        let mut is_new = false;
        for id in program.buffer_params() {
            let info = program.buffer(id);
            let zero = || Some(Dim::Int(0));
            if self.learned.in_memory.contains(&id)
                || info.shape.iter().all(|dim| matches!(dim, Dim::Int(_)))
                || !info
                    .shape
                    .iter()
                    .all(|dim| self.proves(zero(), Relation::Less, Some(dim.clone())))
            {
                continue;
            }
            self.learned.in_memory.insert(id);
            let most = i64::MAX / i64::try_from(info.dtype.size()).unwrap_or(1);
            for dim in &info.shape {
                self.facts.assume(Claim::new(dim.clone(), Relation::AtMost, most));
            }
            is_new = true;
        }
        is_new
    }

    /// Checks the indices of an access, already evaluated, and gives the element's offset.
    pub(crate) fn element(
        &mut self,
        buffer: BufferId,
        indices: &[TExpr],
        mut values: Vec<String>,
    ) -> String {
        let shape = self.program.buffer(buffer).shape.clone();
        let extents = self.extent_names(buffer);
        let mut outside = Vec::new();
        for (axis, (index, extent)) in indices.iter().zip(&shape).enumerate() {
            let dim = self.ranges.dim(index);
            if self.is_within(dim.as_ref(), index, extent) {
                continue;
            }
            if !is_plain(&values[axis]) {
                values[axis] = self.temporary("int64_t", &values[axis]);
            }
            outside
                .push((axis, format!("(uint64_t){} >= (uint64_t){}", values[axis], extents[axis])));
            self.learn_within(dim, extent);
        }
        let elided = if outside.is_empty() { Elided::Yes } else { Elided::No };
        self.counted(elided);
        if elided == Elided::No {
            self.stop_outside(buffer, &outside, (&values, &extents));
        }
        offset(&values, &extents)
    }

    /// Stops where an index is outside of its extent; the message is about the first such axis.
    fn stop_outside(
        &mut self,
        buffer: BufferId,
        outside: &[(usize, String)],
        (values, extents): (&[String], &[String]),
    ) {
        let name = self.program.buffer(buffer).name.clone();
        let conditions: Vec<&str> = outside.iter().map(|(_, condition)| &**condition).collect();
        let first = |of: &dyn Fn(usize) -> String| {
            let (last, others) = outside.split_last().expect("invariant: some index is checked");
            others.iter().rev().fold(of(last.0), |rest, (axis, condition)| {
                format!("({condition}) ? {} : {rest}", of(*axis))
            })
        };
        let own = [
            first(&|axis| values[axis].clone()),
            first(&|axis| extents[axis].clone()),
            first(&|axis| axis.to_string()),
        ];
        let all = vec!["{}"; values.len()].join(", ");
        let words =
            format!("index {{}} is outside of 0..{{}} in dim {{}} of `{name}`, at {name}[{all}]");
        let values = own.into_iter().chain(values.iter().cloned()).collect();
        let message = Message::with(words, values);
        self.stop_if(&conditions.join(" || "), "tir/out_of_bounds", message);
    }

    pub(crate) fn is_within(&mut self, dim: Option<&Dim>, index: &TExpr, extent: &Dim) -> bool {
        let Some(dim) = dim else {
            return self.ranges.is_integer_within(self.facts, index, extent);
        };
        let known = (dim.clone(), extent.clone());
        if self.learned.within.contains(&known) {
            return true;
        }
        let within = is_within(&self.ranges, self.facts, index, extent);
        if within {
            self.learned.within.insert(known);
        }
        within
    }

    /// After its check an index is known to be in bounds, as long as its scalars are visible.
    fn learn_within(&mut self, dim: Option<Dim>, extent: &Dim) {
        let Some(dim) = dim else { return };
        self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
        self.facts.assume(Claim::new(dim.clone(), Relation::Less, extent.clone()));
        self.learned.within.insert((dim, extent.clone()));
    }
}

/// What checks before have shown, as long as the scalars in it are visible.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    /// Indices that are within an extent.
    within: BTreeSet<(Dim, Dim)>,
    /// Sums and products that are an i64.
    pub(crate) numbers: Vec<Dim>,
    /// Parameters with elements.
    in_memory: BTreeSet<BufferId>,
}

/// Whether a check is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elided {
    Yes,
    No,
}

/// Whether an expression of C is one name or number.
pub(crate) fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `(i * 4 + j) * n + k`, without what is 0.
pub(crate) fn offset(values: &[String], extents: &[String]) -> String {
    let mut text = "0".to_owned();
    for (value, extent) in values.iter().zip(extents) {
        let before = match text.as_str() {
            "0" => None,
            plain if is_plain(plain) => Some(format!("{text} * {extent}")),
            _ => Some(format!("({text}) * {extent}")),
        };
        text = match before {
            None => value.clone(),
            Some(before) if value == "0" => before,
            Some(before) => format!("{before} + {value}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn offsets_are_those_of_rows() {
        let text = |values: &[&str], extents: &[&str]| {
            let owned =
                |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            offset(&owned(values), &owned(extents))
        };
        assert_eq!(text(&["i", "j", "k"], &["m", "4", "n"]), "(i * 4 + j) * n + k");
        assert_eq!(text(&["0", "j", "0"], &["m", "4", "n"]), "j * n");
        assert_eq!(text(&[], &[]), "0");
    }
}
