//! Plans as C: numbers for the prelude's routine, for the vectors that the C compiler has; and the program that measures.

use super::{Hardware, Isa, Measured, Plan, Table, Tile, Times, filter_by_isa};
use crate::prelude::{self, Uses};
use std::fmt::Write;

/// The plans for each kind of vectors: the given one for its own, the built-in model's for the others.
pub(crate) fn plan_text(table: Option<&Table>) -> String {
    let mut text = String::from("/* How products are cut, chosen by the cost model. */\n");
    for (at, isa) in Isa::ALL.into_iter().enumerate() {
        match isa.condition() {
            Some(condition) => {
                let word = if at == 0 { "#if" } else { "#elif" };
                let _ = writeln!(text, "{word} {condition}");
            }
            None => text.push_str("#else\n"),
        }
        if let Some(table) = table.filter(|table| table.hardware.isa == isa) {
            let _ = writeln!(text, "/* Measured: table {:016x}. */", table.digest());
            numbers(&Plan::of(table), &mut text);
        } else {
            numbers(&Plan::of(&Table::built_in(Hardware::assumed(isa))), &mut text);
        }
    }
    text.push_str("#endif\n");
    text
}

fn numbers(plan: &Plan, text: &mut String) {
    let blocks = plan.blocks;
    let tiles: Vec<Tile> = plan.tiles.iter().map(|measured| measured.tile).collect();
    let _ = writeln!(text, "#define RX_ROWS {}", tiles.len());
    let _ = writeln!(text, "#define RX_PANEL ({} * RX_LANES)", blocks.panel);
    let _ = writeln!(text, "#define RX_KC {}", blocks.terms);
    let _ = writeln!(text, "#define RX_NC ({} * RX_PANEL)", blocks.panels);
    let _ = writeln!(text, "#define RX_LARGE {}", 2 * plan.table.hardware.l2);
    let _ = writeln!(text, "#define RX_TILES(X) {}", listed(&tiles));
    let times = |of: fn(&Times) -> u64| {
        let all = plan.tiles.iter().map(|Measured { times, .. }| of(times).to_string());
        all.collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(text, "#define RX_PACKED_PS {{{}}}", times(|times| times.packed));
    let _ = writeln!(text, "#define RX_IN_PLACE_PS {{{}}}", times(|times| times.in_place));
    let Table { pack, turn, far, left, .. } = plan.table;
    for (name, vector) in [("PACK", pack), ("TURN", turn), ("FAR", far)] {
        let _ = writeln!(text, "#define RX_{name}_PS {}", plan.line(vector));
    }
    let _ = writeln!(text, "#define RX_LEFT_PS {left}");
}

fn listed(tiles: &[Tile]) -> String {
    let each = tiles.iter().map(|Tile { rows, vectors }| format!("X({rows}, {vectors})"));
    each.collect::<Vec<_>>().join(" ")
}

/// A C file with the kernel `relax_level0`, which runs what a [`Table`] has the times of: tensors for the left side, the right
/// side, the result and the memory that is read from afar; integers for what is run, which tile, and how often.
#[must_use]
pub fn level0_text(hardware: &Hardware) -> String {
    let tiles = listed(&filter_by_isa(hardware));
    let measuring = include_str!("../prelude/level0.h");
    let uses = Uses { multiplies: true, ..Uses::default() };
    let prelude =
        prelude::text(Uses::default()) + &prelude::interface(uses, None) + &prelude::routines(uses);
    format!("{prelude}\n#define RX_CANDIDATES(X) {tiles}\n{measuring}")
}
