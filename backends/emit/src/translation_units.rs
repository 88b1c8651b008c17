//! Translation units: the C file of many kernels is one text to read, and with `-DRX_PART=k` its unit `k`, so that two
//! processes of a compiler share the work.

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
/// A byte of products takes a compiler about three times as long as one of other kernels: they are unrolled for each size
/// of a tile. `cc -O3` took 1.4 s for the six products of a sentence encoder, 0.6 s for its other fifteen kernels.
const PRODUCTS: usize = 3;

/// The file, and how many parts it has.
pub(crate) fn text(pieces: &[Piece], tiles: Option<&Table>) -> (String, u32) {
    let uses = pieces.iter().fold(Uses::default(), |uses, piece| uses.or(piece.uses));
    let products = if uses.multiplies { prelude::products(tiles) } else { String::new() };
    let mut text = prelude::text(uses);
    let all: usize = pieces.iter().map(|piece| piece.text.len()).sum();
    let sides = sides(pieces, products.len() * PRODUCTS);
    let is_divided = all >= LARGE && sides.contains(&0) && sides.contains(&1);
    if !is_divided {
        text.push_str(&products);
        pieces.iter().for_each(|piece| text.push_str(&piece.text));
        return (text, 1);
    }
    if uses.multiplies {
        text.push_str(&within(0, &products));
    }
    for (piece, side) in pieces.iter().zip(&sides) {
        text.push_str(&within(*side, &piece.text));
    }
    (text, 2)
}

/// The part of each piece: all products in the first, the others where less is.
fn sides(pieces: &[Piece], products: usize) -> Vec<u32> {
    let of_products =
        pieces.iter().filter(|piece| piece.uses.multiplies).map(|piece| piece.text.len());
    let mut taken = [products + of_products.sum::<usize>() * PRODUCTS, 0];
    let side = |piece: &Piece| {
        if piece.uses.multiplies {
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
    use super::{Piece, Uses, text};

    fn pieces(count: usize, products: usize) -> Vec<Piece> {
        let piece = |at: usize| {
            let filler = "    (void)0;\n".repeat(300);
            let uses = Uses { multiplies: at < products, rows: false };
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
            let (text, parts) = text(&pieces(count, products), None);
            assert_eq!(parts, 2, "{count} {products}");
            let [first, second] = [kernels_of(&text, 0), kernels_of(&text, 1)];
            assert_eq!(first.len() + second.len(), count, "{count} {products}");
            assert!(first.iter().all(|kernel| !second.contains(kernel)));
            assert!(first.len() >= products && !second.is_empty());
        }
    }

    #[test]
    fn few_kernels_and_products_alone_are_one_part() {
        for (count, products) in [(0, 0), (1, 0), (3, 1), (20, 20)] {
            let (text, parts) = text(&pieces(count, products), None);
            assert_eq!(parts, 1, "{count} {products}");
            assert!(!text.contains("#if !defined(RX_PART)"));
        }
    }
}
