//! Translation units: the C file of many kernels is one text to read, and with `-DRX_PART=k` its unit `k`, so that two
//! processes of a compiler share the work. The routines of products are a unit of their own: they are the same for all texts with
//! one plan of tiles, and take a compiler longer than most kernels.

use crate::prelude::{self, Uses};
use crate::tiles::Table;

/// The text of one kernel, and what it needs of the prelude.
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) uses: Uses,
}

/// Bytes of kernels from which on a file is made of parts; a process of a compiler and its prelude take as long as some ten
/// thousand.
const LARGE: usize = 40_000;
/// A byte of kernels with products takes a compiler about twice as long as one of other kernels.
const PRODUCTS: usize = 2;
/// `RX_PART` of the routines: none of the kernels.
pub(crate) const ROUTINES: u32 = 9;

/// A C file and its units.
#[derive(Debug)]
pub(crate) struct Units {
    /// The whole file; part `k` of it where `RX_PART` is defined as `k`.
    pub(crate) text: String,
    pub(crate) parts: u32,
    /// The text of the routines that parts only declare.
    pub(crate) routines: Option<String>,
}

pub(crate) fn units(pieces: &[Piece], tiles: Option<&Table>) -> Units {
    let uses = pieces.iter().fold(Uses::default(), |uses, piece| uses.or(piece.uses));
    let mut text = prelude::text(uses);
    let routines = uses.any_products().then(|| {
        let (interface, routines) = (prelude::interface(uses, tiles), prelude::routines(uses));
        text.push_str(&interface);
        text.push_str(&format!(
            "\n#if !defined(RX_PART)\n{}\n#endif\n",
            routines.trim_matches('\n')
        ));
        let part = format!("#define RX_PART {ROUTINES}\n");
        part + &prelude::text(Uses::default()) + &interface + &routines
    });
    let all: usize = pieces.iter().map(|piece| piece.text.len()).sum();
    let sides = sides(pieces);
    let is_divided = all >= LARGE && sides.contains(&0) && sides.contains(&1);
    if !is_divided {
        pieces.iter().for_each(|piece| text.push_str(&piece.text));
        return Units { text, parts: 1, routines };
    }
    for (piece, side) in pieces.iter().zip(&sides) {
        text.push_str(&within(*side, &piece.text));
    }
    Units { text, parts: 2, routines }
}

/// The part of each piece: all products in the first, the others where less is.
fn sides(pieces: &[Piece]) -> Vec<u32> {
    let of_products =
        pieces.iter().filter(|piece| piece.uses.any_products()).map(|piece| piece.text.len());
    let mut taken = [of_products.sum::<usize>() * PRODUCTS, 0];
    let side = |piece: &Piece| {
        if piece.uses.any_products() {
            return 0;
        }
        let side = usize::from(taken[1] <= taken[0]);
        taken[side] += piece.text.len();
        u32::from(side == 1)
    };
    pieces.iter().map(side).collect()
}

fn within(part: u32, text: &str) -> String {
    let text = text.trim_matches('\n');
    format!("\n#if !defined(RX_PART) || RX_PART == {part}\n{text}\n#endif\n")
}

#[cfg(test)]
mod tests {
    use super::{Piece, Units, Uses, units};

    fn pieces(count: usize, products: usize) -> Vec<Piece> {
        let piece = |at: usize| {
            let filler = "    (void)0;\n".repeat(300);
            let uses = Uses { multiplies: at < products, ..Uses::default() };
            Piece { text: format!("\nint k{at}(void) {{\n{filler}}}\n"), uses }
        };
        (0..count).map(piece).collect()
    }

    /// What a compiler sees of a part.
    fn kernels_of(text: &str, part: u32) -> Vec<String> {
        let mut seen = true;
        let mut kernels = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("#if !defined(RX_PART) || RX_PART == ") {
                Some(of) => seen = of == part.to_string(),
                None if line == "#endif" => seen = true,
                None if seen && line.starts_with("int k") => kernels.push(line.to_owned()),
                None => {}
            }
        }
        kernels
    }

    #[test]
    fn every_kernel_is_in_one_part() {
        for (count, products) in [(20, 0), (20, 1), (20, 5), (20, 19), (12, 6)] {
            let Units { text, parts, routines } = units(&pieces(count, products), None);
            assert_eq!(parts, 2, "{count} {products}");
            assert_eq!(routines.is_some(), products > 0);
            let [first, second] = [kernels_of(&text, 0), kernels_of(&text, 1)];
            assert_eq!(first.len() + second.len(), count, "{count} {products}");
            assert!(first.iter().all(|kernel| !second.contains(kernel)));
            assert!(first.len() >= products && !second.is_empty());
        }
    }

    #[test]
    fn few_kernels_and_products_alone_are_one_part() {
        for (count, products) in [(0, 0), (1, 0), (3, 1), (20, 20)] {
            let Units { text, parts, routines } = units(&pieces(count, products), None);
            assert_eq!(parts, 1, "{count} {products}");
            assert!(!text.contains("#if !defined(RX_PART) ||"));
            assert_eq!(routines.is_some(), products > 0);
        }
    }
}
