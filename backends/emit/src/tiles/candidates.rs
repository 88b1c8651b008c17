//! Candidates from the bottom up (Vortex, section 5.1, algorithm 2): tiles that the registers hold, then blocks of
//! whole tiles that the caches hold.

use super::Hardware;

/// Level 0: `rows` x `vectors` accumulators in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tile {
    /// Rows of the left matrix.
    pub rows: u64,
    /// Vectors of columns.
    pub vectors: u64,
}

/// Level 1: what of the right matrix stays in a cache while tiles pass over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocks {
    /// Vectors in a panel: a line of it is read for each term.
    pub panel: u64,
    /// Terms that are summed before the next block.
    pub terms: u64,
    /// Panels side by side.
    pub panels: u64,
}

/// The widest tile: more vectors leave too few rows.
const WIDEST: u64 = 4;
/// Blocks of more terms would make the bound on the error of a sum larger.
const MOST_TERMS: u64 = 384;
/// Terms come in so many: whole lines of caches.
const STEP: u64 = 64;

/// Tiles whose accumulators fit the registers beside a line of the right matrix and elements of the left.
/// Those of one vector are left out: what is loaded for a row would serve one operation alone.
#[must_use]
pub fn filter_by_isa(hardware: &Hardware) -> Vec<Tile> {
    let isa = hardware.isa;
    let beside = |tile: &Tile| tile.vectors + isa.registers_of_left();
    let fits = |tile: &Tile| tile.rows * tile.vectors + beside(tile) <= isa.registers();
    let of = |vectors| (1..=hardware.isa.registers()).map(move |rows| Tile { rows, vectors });
    (2..=WIDEST).flat_map(of).filter(fits).collect()
}

/// Blocks with the tiles that divide them: panels of whole tiles, the left side of a tile in three quarters of the first cache, a
/// block and what is loaded for the next one in three quarters of the second. Of each panel the largest, since each block reads and
/// writes the result once.
#[must_use]
pub fn filter_by_multiples(hardware: &Hardware, tiles: &[Tile]) -> Vec<(Blocks, Vec<Tile>)> {
    let mut found = Vec::new();
    for panel in 2..=WIDEST {
        let divides = |tile: &&Tile| panel % tile.vectors == 0;
        let own: Vec<Tile> = tiles.iter().filter(divides).copied().collect();
        let Some(rows) = own.iter().map(|tile| tile.rows).max() else { continue };
        let terms = (hardware.l1 * 3 / 4 / (4 * rows)).min(MOST_TERMS) / STEP * STEP;
        let terms = terms.max(STEP);
        let line = 4 * panel * hardware.isa.lanes();
        let panels = (hardware.l2 * 3 / 8 / (line * terms)).max(1);
        found.push((Blocks { panel, terms, panels }, own));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn tiles_fit_the_registers() {
        let tiles = filter_by_isa(&Hardware::assumed(Isa::Avx512));
        assert_eq!(tiles.len(), 29);
        for (rows, vectors) in [(14, 2), (9, 3), (6, 4)] {
            assert!(tiles.contains(&Tile { rows, vectors }));
            assert!(!tiles.contains(&Tile { rows: rows + 1, vectors }));
        }
        let tiles = filter_by_isa(&Hardware::assumed(Isa::Avx2));
        assert!(tiles.contains(&Tile { rows: 6, vectors: 2 }));
        assert!(!tiles.contains(&Tile { rows: 7, vectors: 2 }));
        let tiles = filter_by_isa(&Hardware::assumed(Isa::Neon));
        for (rows, vectors) in [(11, 2), (7, 3), (5, 4)] {
            assert!(tiles.contains(&Tile { rows, vectors }));
            assert!(!tiles.contains(&Tile { rows: rows + 1, vectors }));
        }
    }

    #[test]
    fn blocks_are_whole_tiles_in_caches() {
        for isa in Isa::ALL {
            let hardware = Hardware::assumed(isa);
            let found = filter_by_multiples(&hardware, &filter_by_isa(&hardware));
            assert_eq!(found.len(), 3, "{isa:?}");
            for (blocks, tiles) in found {
                assert!(tiles.iter().all(|tile| blocks.panel % tile.vectors == 0));
                let bytes = 4 * blocks.panel * isa.lanes() * blocks.terms * blocks.panels;
                assert!(bytes <= hardware.l2 && blocks.terms % STEP == 0, "{isa:?} {blocks:?}");
            }
        }
    }
}
