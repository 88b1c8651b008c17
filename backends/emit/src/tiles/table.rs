//! What was measured on a machine, as text: the facts of the processor, and what each tile takes. It is an input of a
//! build like the program: with the same table the same code is made, on any machine.

use super::{Hardware, Isa, Tile, filter_by_isa};
use std::fmt::Write;

/// The first line.
const HEADER: &str = "relax tiles 1";

/// Picoseconds that a tile takes for one term of all its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// With the right side packed, in the first cache.
    pub packed: u64,
    /// With the right side as it lies, in the second cache.
    pub in_place: u64,
}

/// A tile that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Which.
    pub tile: Tile,
    /// What it takes.
    pub times: Times,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its facts.
    pub hardware: Hardware,
    /// Every tile of [`filter_by_isa`], in that order.
    pub tiles: Vec<Measured>,
    /// Picoseconds to pack a vector of the right matrix whose rows are dense, and one whose columns are.
    pub pack: u64,
    /// See `pack`.
    pub turn: u64,
    /// To read a vector from behind the second cache.
    pub far: u64,
    /// To pack an element of the left matrix.
    pub left: u64,
}

impl Table {
    /// The built-in model: a core of 3 GHz with two pipes for operations and two for loads, and a latency of
    /// four cycles. Only relations between the numbers decide.
    #[must_use]
    pub fn built_in(hardware: Hardware) -> Self {
        let cycle = 333;
        let times = |tile: Tile| {
            let (rows, vectors) = (tile.rows, tile.vectors);
            // In half cycles: operations, loads, and one operation after the other on each sum.
            let halves = (rows * vectors).max(rows + vectors).max(8);
            let packed = halves * cycle / 2;
            Times { packed, in_place: packed * 33 / 32 }
        };
        let bytes = 4 * hardware.isa.lanes();
        let tiles = filter_by_isa(&hardware);
        let tiles = tiles.into_iter().map(|tile| Measured { tile, times: times(tile) }).collect();
        let pack = bytes * cycle / 16;
        Self { hardware, tiles, pack, turn: 2 * pack, far: bytes * cycle / 8, left: cycle / 2 }
    }

    /// As text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Hardware { isa, l1, l2, l3, cores } = self.hardware;
        let mut text =
            format!("{HEADER}\nisa {}\nl1 {l1}\nl2 {l2}\nl3 {l3}\ncores {cores}\n", isa.name());
        let Self { pack, turn, far, left, .. } = self;
        let _ = writeln!(text, "pack {pack}\nturn {turn}\nfar {far}\nleft {left}");
        for Measured { tile: Tile { rows, vectors }, times } in &self.tiles {
            let _ = writeln!(text, "tile {rows} {vectors} {} {}", times.packed, times.in_place);
        }
        text
    }

    /// From text.
    ///
    /// # Errors
    /// What is wrong with it, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(HEADER) {
            return Err(format!("line 1: a table of tiles begins with `{HEADER}`"));
        }
        let mut field = |name: &str| {
            let (at, line) = lines.next().ok_or(format!("`{name}` is missing"))?;
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            value.map(str::to_owned).ok_or(format!("line {}: `{name}` is expected", at + 1))
        };
        let isa = field("isa")?;
        let isa = Isa::named(&isa).ok_or(format!("line 2: there is no `{isa}`"))?;
        let mut number = |name: &str| -> Result<u64, String> {
            let text = field(name)?;
            let value = text.parse().ok().filter(|value| *value < 1 << 40);
            value.ok_or(format!("`{name} {text}`: a number below 2^40 is expected"))
        };
        let (l1, l2, l3) = (number("l1")?, number("l2")?, number("l3")?);
        let hardware = Hardware { isa, l1, l2, l3, cores: number("cores")? };
        let [pack, turn, far, left] =
            [number("pack")?, number("turn")?, number("far")?, number("left")?];
        let tiles =
            lines.map(|(at, line)| measured(line, at + 1)).collect::<Result<Vec<_>, _>>()?;
        let own: Vec<Tile> = tiles.iter().map(|measured| measured.tile).collect();
        if own != filter_by_isa(&hardware) {
            return Err(format!("its tiles are not those of `{}`: measure again", isa.name()));
        }
        Ok(Self { hardware, tiles, pack, turn, far, left })
    }

    /// A number that tells tables apart: FNV-1a with 64 bits of the text.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.to_text().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

fn measured(line: &str, at: usize) -> Result<Measured, String> {
    let wrong = || format!("line {at}: `tile ROWS VECTORS PACKED IN_PLACE` is expected");
    let words = line.strip_prefix("tile ").ok_or_else(wrong)?;
    let numbers: Vec<u64> =
        words.split(' ').map(|word| word.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    match numbers.as_slice() {
        &[rows, vectors, packed, in_place] if packed.max(in_place) < 1 << 40 => {
            Ok(Measured { tile: Tile { rows, vectors }, times: Times { packed, in_place } })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_its_text() {
        for isa in Isa::ALL {
            let table = Table::built_in(Hardware::assumed(isa));
            assert_eq!(Table::parse(&table.to_text()), Ok(table.clone()));
            let mut other = table.clone();
            other.far += 1;
            assert_ne!(table.digest(), other.digest());
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let text = Table::built_in(Hardware::assumed(Isa::Avx2)).to_text();
        let wrong = |from: &str, to: &str| Table::parse(&text.replacen(from, to, 1)).unwrap_err();
        assert!(wrong("tiles 1", "tiles 2").contains("line 1"));
        assert!(wrong("avx2", "sse9").contains("sse9"));
        assert!(wrong("l2 ", "l4 ").contains("`l2` is expected"));
        assert!(wrong("cores 2", "cores two").contains("cores two"));
        assert!(wrong("tile 1 2", "tile 1 x").contains("ROWS"));
        assert!(wrong("tile 1 2", "tile 7 2").contains("measure again"));
    }
}
