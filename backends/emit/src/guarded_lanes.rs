//! Lanes of a block whose values are guarded, as those of padding: one loop for those where the guard holds, and others for those before
//! and after, none of them with a condition.

use crate::printer::Printer;
use relax_semantics::tir::walk::{Place, expr};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{ScalarId, TExpr};
use relax_tir::guards::{Chosen, Guard, beside, choices, only};
use relax_tir::index_bounds::Known;
use relax_tir::products::mentions;

/// A loop over lanes that writes each.
pub(crate) struct Lanes<'l> {
    pub(crate) lane: &'l str,
    pub(crate) count: &'l str,
    /// The variable of the columns, and its value at the first lane.
    pub(crate) column: &'l str,
    pub(crate) start: &'l str,
    /// Where lanes are written.
    pub(crate) to: &'l str,
}

/// The value of each lane as C.
pub(crate) enum LaneValue {
    Plain(String),
    Split(Split),
}

/// A value under one guard.
pub(crate) struct Split {
    range: GuardRange,
    within: String,
    /// What copies lanes, where that is an element of f32 or f64 for each lane which lies beside that for the one before.
    copies: Option<&'static str>,
    without: String,
}

/// Where a guard holds, as C.
pub(crate) struct GuardRange {
    /// Conditions on other things than the variable, as one.
    holds: String,
    low: Vec<String>,
    high: Vec<String>,
    /// What is declared to be the begin and the end.
    pub(crate) names: [String; 2],
}

impl Printer<'_, '_> {
    /// A value that is split by a variable where one guard, of this variable and of no elements, decides all choices in it, and as it is
    /// elsewhere. Whoever calls it sees from lines that were printed that something may stop it.
    pub(crate) fn lane_value(&mut self, value: &TExpr, var: ScalarId, dtype: DType) -> LaneValue {
        let plain = self.expr(value, dtype);
        let choices = choices(value);
        let Some(condition) = only(&choices) else { return LaneValue::Plain(plain) };
        let Some(guard) = self.guard(condition, var) else { return LaneValue::Plain(plain) };
        let (mark, before) = (self.mark(), self.lines.len());
        let split = self.split(value, (condition, &guard), var, dtype);
        match split {
            Some(split) if self.lines.len() == before => LaneValue::Split(split),
            _ => {
                self.forget(mark);
                LaneValue::Plain(plain)
            }
        }
    }

    /// A condition as a range of a variable. Arithmetic on elements is left out: it wraps, so that `i - d >= 0` is no range of `i`.
    pub(crate) fn guard(&self, condition: &TExpr, var: ScalarId) -> Option<Guard> {
        let guard = Guard::of(condition, var)?;
        let mut ends = guard.low.iter().chain(&guard.high);
        ends.all(|end| self.typing.is_index(end)).then_some(guard)
    }

    fn split(
        &mut self,
        value: &TExpr,
        (condition, guard): (&TExpr, &Guard),
        var: ScalarId,
        dtype: DType,
    ) -> Option<Split> {
        let range = self.guard_range(guard);
        let chosen = |holds| expr(value, &mut Chosen { condition, holds }, Place::Value);
        let (then, otherwise) = (chosen(true), chosen(false));
        let print = |printer: &mut Self, known, value: &TExpr| {
            printer.aside(known, |own| own.expr(value, dtype))
        };
        let (within, first) = print(self, Known::Holds(condition), &then);
        let (without, second) = print(self, Known::Fails(condition), &otherwise);
        let copies = self.copy_of_elements_beside(&then, var);
        let plain = first.is_empty() && second.is_empty();
        plain.then_some(Split { range, within, copies, without })
    }

    fn copy_of_elements_beside(&self, value: &TExpr, var: ScalarId) -> Option<&'static str> {
        let TExpr::Load { buffer, indices } = value else { return None };
        let (last, before) = indices.split_last()?;
        let copies = match self.program.buffer(*buffer).dtype {
            DType::F32 => "rx_copy_lanes",
            DType::F64 => "rx64_copy_lanes",
            _ => return None,
        };
        (beside(last, var).is_some() && !mentions(before, var)).then_some(copies)
    }

    /// The range of a guard as C.
    pub(crate) fn guard_range(&mut self, guard: &Guard) -> GuardRange {
        let others = guard.others.iter().map(|other| self.expr(other, DType::Bool));
        let others: Vec<String> = others.collect();
        let holds = if others.is_empty() { "1".to_owned() } else { others.join(" && ") };
        let names = ["from", "upto"].map(|wish| self.names.fresh(wish));
        let (low, high) = (self.indices(&guard.low), self.indices(&guard.high));
        GuardRange { holds, low, high, names }
    }

    /// Declares where the range begins and ends between two values of the variable, or between numbers of lanes of which the first one
    /// has the value `first`, which is not negative. Both are the end of all where the range is empty. Its ends may be near those of i64:
    /// nothing is subtracted from a negative one.
    pub(crate) fn bound_range(
        &mut self,
        range: &GuardRange,
        (start, stop): (&str, &str),
        first: Option<&str>,
    ) {
        let [from, upto] = &range.names;
        self.line(&format!("int64_t {from} = {start}, {upto} = {stop};"));
        for low in &range.low {
            self.line(&first.map_or_else(
                || format!("if ({low} > {from}) {from} = {low};"),
                |first| format!("if ({low} > {first} + {from}) {from} = {low} - ({first});"),
            ));
        }
        for high in &range.high {
            self.line(&first.map_or_else(
                || format!("if ({high} < {upto}) {upto} = {high};"),
                |first| {
                    let end = format!("{high} > {first} ? {high} - ({first}) : 0");
                    format!("if ({high} < {first} + {upto}) {upto} = {end};")
                },
            ));
        }
        let holds = &range.holds;
        self.line(&format!("if (!({holds}) || {from} >= {upto}) {from} = {upto} = {stop};"));
    }

    /// The loop over lanes.
    pub(crate) fn write_lanes(&mut self, lanes: &Lanes, value: &LaneValue) {
        match value {
            LaneValue::Plain(value) => self.some_lanes(lanes, ("0", lanes.count), value),
            LaneValue::Split(split) => {
                let [from, upto] = &split.range.names;
                let count = lanes.count;
                self.bound_range(&split.range, ("0", count), Some(lanes.start));
                self.some_lanes(lanes, ("0", from), &split.without);
                if let Some(copies) = split.copies {
                    let Lanes { column, start, to, .. } = lanes;
                    self.line(&format!("if ({from} < {upto}) {{"));
                    self.line(&format!("    const int64_t {column} = {start} + {from};"));
                    let (to, source) = (format!("{to} + {from}"), &split.within);
                    self.line(&format!("    {copies}({to}, &{source}, {upto} - {from});"));
                    self.line("}");
                } else {
                    self.some_lanes(lanes, (from, upto), &split.within);
                }
                self.some_lanes(lanes, (upto, count), &split.without);
            }
        }
    }

    fn some_lanes(&mut self, lanes: &Lanes, (from, upto): (&str, &str), value: &str) {
        let Lanes { lane, column, start, to, .. } = lanes;
        self.line(&format!("for (int64_t {lane} = {from}; {lane} < {upto}; {lane}++) {{"));
        self.line(&format!("    const int64_t {column} = {start} + {lane};"));
        self.line(&format!("    {to}[{lane}] = {value};"));
        self.line("}");
    }
}
