//! The picture of memory: storages over the steps of each function, tensors as boxes in them.

use super::shown;
use crate::sizes::binary;
use relax_lower::report::{FunctionMemory, StorageUse, TensorUse};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

/// The value of every dim, where none is given.
const DRAWN: i64 = 128;

/// Width of the boxes of one function and their height, in pixels.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
/// Left of the boxes the bytes stand, right of them the names of the storages, and below them the steps.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 170.0;
const BELOW: f64 = 48.0;
const LINE: f64 = 14.0;
/// What one letter takes.
const LETTER: f64 = 6.5;
/// Marks of an axis, about.
const MARKS: f64 = 5.0;

/// Where the boxes of a function are drawn, and in which scale.
struct Area {
    top: f64,
    per_step: f64,
    per_byte: f64,
    bytes: f64,
    steps: usize,
}

pub(super) fn picture(functions: &[FunctionMemory], given: &BTreeMap<Name, i64>) -> String {
    let mut document = Document::new().set("font-family", "sans-serif").set("font-size", 11);
    let mut top = LINE;
    for function in functions {
        let dims = function.dims.iter();
        let dims: BTreeMap<Name, i64> =
            dims.map(|dim| (dim.clone(), given.get(dim).copied().unwrap_or(DRAWN))).collect();
        let title = format!("{}: {}", function.function, shown(functions, function, &dims));
        document = document.add(Text::new(title).set("x", LINE).set("y", top));
        document = document.add(boxes(function, &dims, top + LINE));
        top += LINE + HEIGHT + BELOW;
    }
    let legend = "gray: a storage while it is held; blue: a tensor in it, from where it is written to where it is last read";
    document = document.add(Text::new(legend).set("x", LINE).set("y", top));
    let (width, height) = (LEFT + WIDTH + RIGHT, top + LINE);
    let document = document.set("viewBox", (0, 0, width, height)).set("width", width);
    format!("{document}\n")
}

fn boxes(function: &FunctionMemory, dims: &BTreeMap<Name, i64>, top: f64) -> Group {
    let bytes = |dim: &Dim| dim.eval(&|name| dims.get(name).copied()).unwrap_or(0) as f64;
    let total: f64 = function.storages.iter().map(|storage| bytes(&storage.bytes)).sum();
    let area = Area {
        top,
        per_step: WIDTH / (function.length + 1) as f64,
        per_byte: HEIGHT / total.max(1.0),
        bytes: total,
        steps: function.length,
    };
    let mut group = area.axes();
    let mut starts = Vec::with_capacity(function.storages.len());
    let mut next = 0.0;
    for StorageUse { name, bytes: size, from, to } in &function.storages {
        let title = format!("{name}: {size} bytes, steps {from} to {to}");
        let held = bytes(size);
        group = group.add(area.rectangle((*from, *to), (next, held), "#f4f4f4", title));
        if held * area.per_byte >= LINE {
            let label = format!("{name}, {}", binary(held));
            group = group.add(area.beside(next + held / 2.0, label));
        }
        starts.push(next);
        next += held;
    }
    for TensorUse { name, storage, offset, bytes: size, from, to } in &function.tensors {
        let title = format!("{name}: {size} bytes at {offset}, steps {from} to {to}");
        let (start, held) = (starts[*storage] + bytes(offset), bytes(size));
        group = group.add(area.rectangle((*from, *to), (start, held), "#8ab6d6", title));
        let width = (to + 1 - from.min(to)) as f64 * area.per_step;
        if held * area.per_byte >= LINE && width >= (name.len() + 1) as f64 * LETTER {
            group = group.add(area.inside(*from, start + held / 2.0, name));
        }
    }
    group
}

impl Area {
    fn x(&self, step: usize) -> f64 {
        LEFT + step as f64 * self.per_step
    }

    fn y(&self, byte: f64) -> f64 {
        self.top + byte * self.per_byte
    }

    fn rectangle(
        &self,
        (from, to): (usize, usize),
        (start, size): (f64, f64),
        fill: &str,
        title: String,
    ) -> Rectangle {
        Rectangle::new()
            .set("x", self.x(from))
            .set("width", (to + 1 - from.min(to)) as f64 * self.per_step)
            .set("y", self.y(start))
            .set("height", size * self.per_byte)
            .set("fill", fill)
            .set("stroke", "#333")
            .set("stroke-width", 0.5)
            .add(Title::new(title))
    }

    fn beside(&self, byte: f64, label: String) -> Text {
        Text::new(label).set("x", LEFT + WIDTH + 6.0).set("y", self.y(byte) + 4.0)
    }

    fn inside(&self, step: usize, byte: f64, label: &Name) -> Text {
        let text = Text::new(label.to_string());
        // What lies above the box shows its title all the same.
        let text = text.set("pointer-events", "none");
        text.set("x", self.x(step) + 3.0).set("y", self.y(byte) + 4.0)
    }

    /// Bytes on the left, which are numbered from the top, and steps below.
    fn axes(&self) -> Group {
        let bottom = self.top + HEIGHT;
        let mut group = Group::new();
        let line = |from: (f64, f64), to: (f64, f64)| {
            let line = Line::new().set("x1", from.0).set("y1", from.1);
            line.set("x2", to.0).set("y2", to.1).set("stroke", "#333").set("stroke-width", 0.5)
        };
        group = group.add(line((LEFT, self.top), (LEFT, bottom)));
        group = group.add(line((LEFT, bottom), (LEFT + WIDTH, bottom)));
        let mark = power_of_two(self.bytes / MARKS);
        for at in marks(mark, self.bytes) {
            let y = self.y(at);
            let text = Text::new(binary(at)).set("text-anchor", "end");
            group = group.add(line((LEFT - 4.0, y), (LEFT, y)));
            group = group.add(text.set("x", LEFT - 6.0).set("y", y + 4.0));
        }
        let mark = one_two_five(self.steps as f64 / (2.0 * MARKS));
        for at in marks(mark, self.steps as f64) {
            let x = LEFT + (at + 0.5) * self.per_step;
            let text = Text::new(format!("{at:.0}")).set("text-anchor", "middle");
            group = group.add(line((x, bottom), (x, bottom + 4.0)));
            group = group.add(text.set("x", x).set("y", bottom + LINE + 2.0));
        }
        let label = Text::new("step").set("text-anchor", "end");
        group.add(label.set("x", LEFT - 6.0).set("y", bottom + LINE + 2.0))
    }
}

/// The marks of an axis from 0 to `last`.
fn marks(each: f64, last: f64) -> impl Iterator<Item = f64> {
    (0u32..).map(move |count| f64::from(count) * each).take_while(move |at| *at <= last)
}

/// The next power of two, and 1 at least.
fn power_of_two(least: f64) -> f64 {
    least.max(1.0).log2().ceil().exp2()
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn one_two_five(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1.0).log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= least);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_few_marks() {
        assert_eq!(
            [0.0, 0.2, 1.0, 1.5, 3.0, 7.0, 11.0, 60.0].map(one_two_five),
            [1.0, 1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0]
        );
        assert_eq!([0.0, 1.0, 3.0, 4.0, 5.0].map(power_of_two), [1.0, 1.0, 4.0, 4.0, 8.0]);
        assert_eq!(marks(2.0, 5.0).collect::<Vec<_>>(), [0.0, 2.0, 4.0]);
    }
}
