//! What tiles take on this machine, measured through the same compiler and the same text as kernels. Of many calls the
//! shortest counts, so that other processes disturb little.
#![allow(unsafe_code)] // the measuring kernel is called

use crate::library::{Function, Tensor};
use crate::{Cache, Compiler, Error, Text, hardware};
use relax_emit::tiles::{
    Hardware, Measured, Plan, Right, Table, Tile, Times, filter_by_isa, level0_text,
};
use std::path::PathBuf;
use std::time::Instant;

/// Terms of the blocks that are measured: the built-in plan's.
fn terms(hardware: &Hardware) -> usize {
    Plan::of(&Table::built_in(Hardware::assumed(hardware.isa))).blocks.terms as usize
}

/// Columns of the right matrix that tiles in place walk over. No power of two, which would meet the same sets of a cache.
const COLUMNS: usize = 17 * 32;
/// Calls of which the shortest counts.
const CALLS: usize = 60;
/// Picoseconds in a second.
const PICO: f64 = 1e12;

/// What a call of the measuring kernel does.
#[derive(Clone, Copy)]
enum Run {
    Packed(usize),
    InPlace(usize),
    Pack,
    Turn,
    Left,
    Far,
}

impl Run {
    /// The kernel's number for it, and for the tile.
    fn numbers(self) -> (i64, i64) {
        let of = |tile: usize| i64::try_from(tile).unwrap_or(i64::MAX);
        match self {
            Self::Packed(tile) => (0, of(tile)),
            Self::InPlace(tile) => (1, of(tile)),
            Self::Pack => (2, 0),
            Self::Turn => (3, 0),
            Self::Left => (4, 0),
            Self::Far => (5, 0),
        }
    }
}

/// Memory that the kernel works on, and how it is called.
struct Bench<'l> {
    function: Function<'l>,
    buffers: [Vec<f32>; 4],
    shapes: [[i64; 2]; 4],
}

impl<'l> Bench<'l> {
    fn new(function: Function<'l>, hardware: &Hardware) -> Self {
        let deep = terms(hardware);
        // Behind the second cache, but in the last one where there is one.
        let far = (4 * hardware.l2).min((hardware.l3 / 2).max(2 * hardware.l2)) as usize / 4;
        let sizes = [[deep, 32], [deep, COLUMNS], [deep + 1, COLUMNS], [far, 1]];
        let buffers = sizes.map(|[rows, columns]| vec![0.5; rows * columns + 64]);
        let shapes = sizes.map(|size| size.map(|extent| extent as i64));
        Self { function, buffers, shapes }
    }

    fn call(&mut self, ints: &[i64; 5]) {
        let Self { function, buffers, shapes } = self;
        let tensors: Vec<Tensor> = buffers
            .iter_mut()
            .zip(shapes.iter())
            .map(|(data, shape)| Tensor { data: data.as_mut_ptr().cast(), shape: shape.as_ptr() })
            .collect();
        // SAFETY: the buffers are as large as the kernel assumes: 32 rows on the left; the right side and what it is packed to
        // of `COLUMNS` columns, which no count exceeds; and nothing else uses them.
        let _ = unsafe { function.call(&tensors, ints, None) };
    }

    /// Picoseconds of a call that does `count` pieces, for one of them.
    fn piece(&mut self, run: Run, count: usize, pieces: usize) -> u64 {
        let (kind, tile) = run.numbers();
        let mut least = f64::INFINITY;
        for _ in 0..CALLS {
            let start = Instant::now();
            self.call(&[kind, tile, count as i64, 0, 0]);
            least = least.min(start.elapsed().as_secs_f64());
        }
        ((least * PICO / pieces as f64).round() as u64).max(1)
    }
}

/// Measures this machine: some seconds.
///
/// # Errors
/// A missing or failing compiler, a cache that cannot be written, an object that cannot be loaded.
pub fn measure(compiler: &Compiler, cache: &Cache) -> Result<Table, Error> {
    let hardware = hardware();
    let library = cache.object(&Text::of(&level0_text(&hardware)), compiler)?.load()?;
    let mut bench = Bench::new(library.function("relax_level0")?, &hardware);
    let deep = terms(&hardware);
    let lanes = hardware.isa.lanes() as usize;
    let vectors = COLUMNS / lanes;
    let mut tiles = Vec::new();
    for (at, tile) in filter_by_isa(&hardware).into_iter().enumerate() {
        let Tile { vectors: width, .. } = tile;
        let count = vectors / width as usize;
        let packed = bench.piece(Run::Packed(at), count, count * deep);
        let in_place = bench.piece(Run::InPlace(at), count, count * deep);
        tiles.push(Measured { tile, times: Times { packed, in_place } });
    }
    let packing = vectors / 4 * 4;
    let pack = bench.piece(Run::Pack, packing, packing * deep);
    let turn = bench.piece(Run::Turn, packing, packing * deep);
    let rows = Plan::of(&Table::built_in(Hardware::assumed(hardware.isa))).tiles.len();
    let left = bench.piece(Run::Left, 8, 8 * rows * deep);
    let far = bench.shapes[3][0] as usize / lanes;
    let far = bench.piece(Run::Far, 1, far);
    Ok(Table { hardware, tiles, pack, turn, far, left })
}

/// What kernels choose for extents, to be held against [`Plan::choose`].
#[derive(Clone, Debug)]
pub struct Choices {
    /// For each of the extents: tiles of rows, columns of a block, and whether the right side is packed.
    pub chosen: Vec<(u64, u64, bool)>,
    /// The least seconds that a choice took, afresh and remembered.
    pub seconds: [f64; 2],
}

/// What the kernels of the built-in table choose for extents.
///
/// # Errors
/// As of [`measure`].
pub fn choices(
    extents: &[(u64, u64, Right)],
    compiler: &Compiler,
    cache: &Cache,
) -> Result<Choices, Error> {
    let hardware = hardware();
    let library = cache.object(&Text::of(&level0_text(&hardware)), compiler)?.load()?;
    let mut bench = Bench::new(library.function("relax_level0")?, &hardware);
    let mut seconds = [f64::INFINITY; 2];
    let mut chosen = Vec::new();
    for &(m, n, right) in extents {
        for (kind, least) in [7, 6].into_iter().zip(&mut seconds) {
            let start = Instant::now();
            let lies = match right {
                Right::Turned => 0,
                Right::Rows => 1,
                Right::Panels => 2,
            };
            bench.call(&[kind, lies, 1000, m as i64, n as i64]);
            *least = least.min(start.elapsed().as_secs_f64() / 1000.0);
        }
        let result = &bench.buffers[2];
        chosen.push((result[0] as u64, result[1] as u64, result[2] != 0.0));
    }
    Ok(Choices { chosen, seconds })
}

impl Cache {
    /// Where what was measured on this machine is kept.
    #[must_use]
    pub fn tiles(&self) -> PathBuf {
        self.folder().join(format!("tiles-{:016x}.txt", Compiler::processor()))
    }
}
