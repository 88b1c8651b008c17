//! The cost model (Vortex, section 5.2): from what tiles take to what a product takes. `prelude/choice.h` computes the
//! same at run time, where extents are known; a test holds the two against each other.

use super::{Blocks, Measured, Table, Tile, Times, filter_by_multiples};

/// What is chosen of the candidates for a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the numbers come from.
    pub table: Table,
    /// Level 1.
    pub blocks: Blocks,
    /// The tile for each number of rows, from 1 on, and what it takes for the width of a panel.
    pub tiles: Vec<Measured>,
}

/// How the right matrix lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Its rows are dense.
    Rows,
    /// Anything else, as its columns being dense.
    Turned,
    /// It is packed already.
    Panels,
}

/// The version of a product that some extents get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Into how many tiles the rows are spread evenly.
    pub tiles: u64,
    /// Columns of a block.
    pub columns: u64,
    /// Whether the right matrix is packed first.
    pub packs: bool,
}

impl Plan {
    /// The candidates that cost least over all small numbers of rows.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let tiles: Vec<Tile> = table.tiles.iter().map(|measured| measured.tile).collect();
        let plans =
            filter_by_multiples(&table.hardware, &tiles).into_iter().map(|(blocks, own)| {
                let tiles = best_tiles(table, blocks.panel, &own);
                Self { table: table.clone(), blocks, tiles }
            });
        // Wider panels come last: they win where they cost the same.
        let cheaper = |a: &Self, b: &Self| a.typical().total_cmp(&b.typical());
        let best =
            plans.reduce(|best, next| if cheaper(&next, &best).is_gt() { best } else { next });
        best.expect("invariant: every processor has panels of two vectors")
    }

    /// The most rows of a tile.
    fn rows(&self) -> u64 {
        self.tiles.len() as u64
    }

    /// Columns of a panel.
    #[must_use]
    pub fn panel(&self) -> u64 {
        self.blocks.panel * self.table.hardware.isa.lanes()
    }

    /// Columns of a block that the second cache holds.
    fn block(&self) -> u64 {
        self.blocks.panels * self.panel()
    }

    /// For one term and column, of products with few rows.
    fn typical(&self) -> f64 {
        let columns = self.block();
        let cost = |m: u64| {
            self.cost(m, columns, Right::Rows, self.choose(m, columns, Right::Rows)) / m as f64
        };
        (1..=64).map(cost).sum::<f64>() / columns as f64
    }

    /// Picoseconds for one term of every element of `m` x `n`.
    #[must_use]
    pub fn cost(&self, m: u64, n: u64, right: Right, choice: Choice) -> f64 {
        let of = |rows: u64| {
            let times = self.tiles[rows as usize - 1].times;
            (if choice.packs || right == Right::Panels { times.packed } else { times.in_place })
                as f64
        };
        let (rows, more) = (m / choice.tiles, m % choice.tiles);
        let panels = n.div_ceil(self.panel()) as f64;
        let blocks = n.div_ceil(choice.columns) as f64;
        let mut tiles = (choice.tiles - more) as f64 * of(rows);
        if more > 0 {
            tiles += more as f64 * of(rows + 1);
        }
        // A block that the second cache does not hold is loaded again for each further tile while that computes.
        let loads = (choice.tiles - 1) as f64 * self.line(self.table.far) as f64;
        if choice.columns > self.block() && loads > tiles {
            tiles = loads;
        }
        if choice.packs {
            let Table { pack, turn, .. } = self.table;
            tiles += self.line(if right == Right::Rows { pack } else { turn }) as f64;
        }
        panels * tiles + blocks * m as f64 * self.table.left as f64
    }

    /// What a line of a panel takes, where a vector takes so much.
    pub(super) fn line(&self, vector: u64) -> u64 {
        vector * self.blocks.panel
    }

    /// The cheapest version; of equal ones the first. `m` and `n` are not 0.
    #[must_use]
    pub fn choose(&self, m: u64, n: u64, right: Right) -> Choice {
        let least = m.div_ceil(self.rows());
        let (block, whole) = (self.block(), n.next_multiple_of(self.panel()));
        let mut best = Choice { tiles: least, columns: block, packs: right != Right::Panels };
        let mut cost = self.cost(m, n, right, best);
        let versions = match right {
            Right::Rows => 0..6,
            Right::Turned => 4..6,
            Right::Panels => 0..4,
        };
        for version in versions {
            let columns = if version & 2 == 0 { block } else { whole };
            let next = Choice { tiles: least + (version & 1), columns, packs: version >= 4 };
            if next.tiles > m || (next.columns == whole && whole < block) {
                continue;
            }
            let other = self.cost(m, n, right, next);
            if other < cost {
                (best, cost) = (next, other);
            }
        }
        best
    }
}

/// Of each number of rows the tile that takes least for the width of a panel; of equal ones the widest, which loads
/// elements of the left matrix less often.
fn best_tiles(table: &Table, panel: u64, own: &[Tile]) -> Vec<Measured> {
    let most = own.iter().map(|tile| tile.rows).max().unwrap_or(0);
    let mut best = Vec::new();
    for rows in 1..=most {
        let candidates = table.tiles.iter().filter(|measured| own.contains(&measured.tile));
        let of_panel = |measured: &Measured| {
            let strips = panel / measured.tile.vectors;
            let Times { packed, in_place } = measured.times;
            let times = Times { packed: packed * strips, in_place: in_place * strips };
            Measured { tile: measured.tile, times }
        };
        let fitting = candidates.filter(|measured| measured.tile.rows == rows).map(of_panel);
        best.extend(
            fitting
                .min_by_key(|measured| (measured.times.packed, u64::MAX - measured.tile.vectors)),
        );
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::{Hardware, Isa};
    use super::*;

    fn plan(isa: Isa) -> Plan {
        Plan::of(&Table::built_in(Hardware::assumed(isa)))
    }

    #[test]
    fn few_rows_get_wide_tiles() {
        let plan = plan(Isa::Avx512);
        let widths: Vec<u64> = plan.tiles.iter().map(|measured| measured.tile.vectors).collect();
        assert_eq!(widths, [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(plan.blocks, Blocks { panel: 4, terms: 384, panels: 4 });
    }

    #[test]
    fn the_choice_follows_the_rows() {
        for isa in Isa::ALL {
            let plan = plan(isa);
            let few = plan.choose(5, 2304, Right::Rows);
            assert!(!few.packs && few.columns == 2304, "{isa:?} {few:?}");
            assert!(plan.choose(2000, 2304, Right::Rows).packs, "{isa:?}");
            assert!(plan.choose(5, 2304, Right::Turned).packs, "{isa:?}");
        }
    }
}
