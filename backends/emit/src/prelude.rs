//! What every C file begins with: the calling convention, and the operations that C lacks.

use crate::tiles::{Table, plan_text};
use relax_runtime::program::Numerics;

/// The parts, in order.
const PARTS: &[&str] = &[
    include_str!("prelude/abi.h"),
    include_str!("prelude/unroll.h"),
    include_str!("prelude/notes.h"),
    include_str!("prelude/integers.h"),
    include_str!("prelude/memory.h"),
    include_str!("prelude/rounding.h"),
    include_str!("prelude/floats.h"),
    include_str!("prelude/library.h"),
    include_str!("prelude/functions.h"),
    include_str!("prelude/threads.h"),
];
/// Vectors, of f32 and of f64.
const LANES: &str = include_str!("prelude/lanes.h");
const LANES_F64: &str = include_str!("prelude/lanes_f64.h");
/// What kernels see of products of matrices, after the plan of how they are cut.
const INTERFACE: &[&str] = &[include_str!("prelude/matrix.h"), include_str!("prelude/calls.h")];
/// Parts of products whose right matrix is computed, of f32 and of f64.
const FILLING: &str = include_str!("prelude/routines.h");
const FILLING_F64: &str = include_str!("prelude/routines_f64.h");
/// The routines of products, which are the same for all texts.
const ROUTINES: &[&str] = &[
    include_str!("prelude/pack.h"),
    include_str!("prelude/gemm.h"),
    include_str!("prelude/narrow.h"),
    include_str!("prelude/choice.h"),
    include_str!("prelude/product.h"),
];

/// Rows that are read as a whole.
const ROWS: &str = include_str!("prelude/rows.h");

/// Products of rows of bytes with quantized weights.
const ROUNDED: &[&str] = &[
    include_str!("prelude/rounded.h"),
    include_str!("prelude/rounded_vnni.h"),
    include_str!("prelude/rounded_product.h"),
];

/// What kernels call of the parts that only some of them need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    /// Products of f32 matrices.
    pub(crate) multiplies: bool,
    /// Products of f64 matrices.
    pub(crate) multiplies_f64: bool,
    /// Products of rounded rows.
    pub(crate) rounds: bool,
    /// Routines for rows.
    pub(crate) rows: bool,
}

impl Uses {
    /// Whether any products.
    pub(crate) fn any_products(self) -> bool {
        self.multiplies || self.multiplies_f64
    }

    /// What either calls.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            multiplies: self.multiplies | other.multiplies,
            multiplies_f64: self.multiplies_f64 | other.multiplies_f64,
            rounds: self.rounds | other.rounds,
            rows: self.rows | other.rows,
        }
    }
}

/// The prelude, with what kernels use but for products.
pub(crate) fn text(uses: Uses) -> String {
    let rows = uses.rows.then_some(ROWS);
    let rounded = if uses.rounds { ROUNDED } else { &[] };
    let parts = PARTS.iter().chain(&rows).chain(rounded);
    parts.copied().collect::<Vec<&str>>().join("\n")
}

/// The prelude of a text without rows and products.
#[must_use]
pub fn prelude() -> String {
    text(Uses::default())
}

/// What follows it where some kernel has a product of matrices, cut as a table of times says: declarations.
pub(crate) fn interface(uses: Uses, table: Option<&Table>) -> String {
    let plan = plan_text(table);
    let common = INTERFACE.join("\n");
    let f32s = || format!("\n{plan}\n{LANES}\n{common}\n{FILLING}");
    let f64s = || format!("\n{}\n{LANES_F64}\n{}\n{FILLING_F64}", of_f64(&plan), of_f64(&common));
    let parts = [uses.multiplies.then(f32s), uses.multiplies_f64.then(f64s)];
    parts.into_iter().flatten().collect()
}

/// The routines that the interface declares.
pub(crate) fn routines(uses: Uses) -> String {
    let common = ROUTINES.join("\n");
    let f32s = || format!("\n{common}");
    let f64s = || format!("\n{}", of_f64(&common));
    let parts = [uses.multiplies.then(f32s), uses.multiplies_f64.then(f64s)];
    parts.into_iter().flatten().collect()
}

/// What names of the routines are the same for all dtypes.
const SHARED: &[&str] =
    &["rx_threads", "rx_begin", "RX_GRAIN", "RX_PART", "RX_ROUTINE", "RX_UNROLL"];

/// The routines of f32 as those of f64: their names begin with `rx64_` and `RX64_`. A vector of f64 has as many bytes and half as
/// many lanes, so blocks of so many vectors are as large, and a tile takes as long.
fn of_f64(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + text.len() / 8);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        let (prefix, own) = match word.split_at_checked(3) {
            Some(("rx_", own)) => ("rx64_", own),
            Some(("RX_", own)) => ("RX64_", own),
            _ => ("", word),
        };
        match word {
            "float" => result.push_str("double"),
            "f32" => result.push_str("f64"),
            shared if SHARED.contains(&shared) => result.push_str(shared),
            _ => result.extend([prefix, own]),
        }
        let between = after.find(is_part).unwrap_or(after.len());
        let (between, after) = after.split_at(between);
        result.push_str(between);
        rest = after;
    }
    result
}

/// What CUDA has in another way, before what is the same.
const CUDA: &str = include_str!("prelude/cuda.h");

/// Operations that are the same in C and CUDA, then functions as CUDA has them.
const CUDA_PARTS: &[&str] = &[
    include_str!("prelude/integers.h"),
    include_str!("prelude/rounding.h"),
    include_str!("prelude/floats.h"),
    include_str!("prelude/cuda_functions.h"),
    include_str!("prelude/cuda_cores.h"),
];

/// The prelude of CUDA: without the headers and the lanes of C, each function one of the device.
pub(crate) fn cuda_text(sums: Numerics) -> String {
    let is_of_c = |line: &&str| line.starts_with("#include") || line.starts_with("#pragma omp");
    let shared = CUDA_PARTS.iter().map(|part| {
        let lines: Vec<&str> = part.lines().filter(|line| !is_of_c(line)).collect();
        lines.join("\n")
    });
    let numerics = match sums {
        Numerics::Exact => "",
        Numerics::Reassociated => "#define RX_ANY_ORDER 1\n",
    };
    let parts = std::iter::once(format!("{numerics}{}", CUDA.trim_end())).chain(shared);
    let text = parts.collect::<Vec<String>>().join("\n\n") + "\n";
    text.replace("static inline", "static __device__ inline")
}

#[cfg(test)]
mod tests {
    use super::{FILLING, FILLING_F64, INTERFACE, LANES, PARTS, ROUNDED, ROUTINES, ROWS};
    use std::collections::{BTreeMap, BTreeSet};

    /// A text may have every part, and a macro that a later one defines again changes what kernels after it say.
    #[test]
    fn a_macro_is_defined_in_one_part() {
        let parts = [PARTS, INTERFACE, ROUTINES, ROUNDED].concat();
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for part in parts.into_iter().chain([LANES, FILLING, FILLING_F64, ROWS]) {
            let defined = part.lines().filter_map(|line| {
                let name =
                    line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
                let name = name.trim_start();
                name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
            });
            for name in defined.collect::<BTreeSet<&str>>() {
                *found.entry(name).or_default() += 1;
            }
        }
        assert!(found.len() > 40, "{found:?}");
        found.retain(|_, parts| *parts > 1);
        assert!(found.is_empty(), "{found:?}");
    }
}
