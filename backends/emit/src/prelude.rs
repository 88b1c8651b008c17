//! What every C file begins with: the calling convention, and the operations that C lacks.

use crate::tiles::{Table, plan_text};
use relax_runtime::program::Numerics;

/// The parts, in order.
const PARTS: &[&str] = &[
    include_str!("prelude/abi.h"),
    include_str!("prelude/notes.h"),
    include_str!("prelude/integers.h"),
    include_str!("prelude/memory.h"),
    include_str!("prelude/rounding.h"),
    include_str!("prelude/floats.h"),
    include_str!("prelude/library.h"),
    include_str!("prelude/functions.h"),
    include_str!("prelude/threads.h"),
];
/// What kernels see of products of matrices, after the plan of how they are cut.
const INTERFACE: &[&str] = &[
    include_str!("prelude/lanes.h"),
    include_str!("prelude/matrix.h"),
    include_str!("prelude/routines.h"),
];
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
    /// Products of matrices.
    pub(crate) multiplies: bool,
    /// Products of rounded rows.
    pub(crate) rounds: bool,
    /// Routines for rows.
    pub(crate) rows: bool,
}

impl Uses {
    /// What either calls.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            multiplies: self.multiplies | other.multiplies,
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
pub(crate) fn interface(table: Option<&Table>) -> String {
    format!("\n{}\n{}", plan_text(table), INTERFACE.join("\n"))
}

/// The routines that the interface declares.
pub(crate) fn routines() -> String {
    format!("\n{}", ROUTINES.join("\n"))
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
