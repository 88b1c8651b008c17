//! Kernels of which the host chooses one by the shapes that come, and what is proved of them: a kernel that never stops need not be
//! waited for, and can be in graphs.

use super::{each, printed, programs_of, scheduled};
use relax_emit::cuda::{CudaKernel, CudaSource};
use relax_lower::gpu::{Choices, Limits, schedule_by};
use relax_rewrite::classes::Tree;
use relax_rewrite::pass::{Device, Exactness};
use relax_symbolic::Prover;
use relax_syntax::ir::TensorProgram;

const TEXT: &str = include_str!("versions.rx");

fn programs() -> Vec<TensorProgram> {
    programs_of("versions", TEXT)
}

fn source() -> CudaSource {
    printed(&scheduled(&programs(), Limits::default(), Exactness::Approximate))
}

/// Products as a tree says, and nothing else.
fn learned(text: &str) -> CudaSource {
    let tree = Tree::parse(&text.lines().collect::<Vec<_>>(), 1).expect("it is a tree");
    let choices = Choices { products: Some(&tree), ..Choices::of(Device::Cuda, Exactness::Exact) };
    let named =
        |program: &TensorProgram| ["product", "products", "weights"].contains(&&*program.name);
    let bound = each(programs().into_iter().filter(named).collect(), |program| {
        schedule_by(&program, &mut Prover::new(), &choices).expect("it is scheduled")
    });
    printed(&bound)
}

fn kernel<'s>(source: &'s CudaSource, name: &str) -> &'s CudaKernel {
    let found = source.kernels.iter().find(|kernel| &*kernel.name == name);
    found.expect("a kernel of this name")
}

/// The blocks of each launch of a kernel.
fn blocks(kernel: &CudaKernel, shapes: &[&[i64]]) -> Vec<u64> {
    let plan = kernel.plan(shapes, &[]).expect("a plan");
    plan.sizes.iter().map(|sizes| sizes.blocks()).collect()
}

#[test]
fn no_kernel_may_stop() {
    let source = source();
    assert_eq!(source.kernels.len(), 26);
    for kernel in &source.kernels {
        assert_eq!(kernel.sites, [], "{}: {}", kernel.name, kernel.checks);
    }
}

#[test]
fn the_host_chooses_vectors_where_rows_are_of_whole_ones() {
    let source = source();
    let of = |name: &str, shapes: &[&[i64]]| blocks(kernel(&source, name), shapes);
    assert_eq!(of("row", &[&[4096], &[4096]]), [4, 0]);
    assert_eq!(of("row", &[&[4097], &[4097]]), [0, 17]);
    assert_eq!(of("row", &[&[0], &[0]]), [0, 0]);
    assert_eq!(of("rows", &[&[3, 8], &[8], &[3, 8]]), [1, 0]);
    assert_eq!(of("rows", &[&[4, 7], &[7], &[4, 7]]), [0, 1]);
    // Eight elements of two bytes.
    assert_eq!(of("halves", &[&[512, 32], &[512, 32]]), [8, 0]);
    assert_eq!(of("halves", &[&[512, 36], &[512, 36]]), [0, 72]);
    // Where all rows are, there is no other kernel.
    assert_eq!(of("whole", &[&[4, 768], &[768], &[4, 768]]), [3]);
    assert_eq!(of("declared", &[&[4, 768], &[4, 768]]), [6]);
    // Where none are, or elements lie elsewhere, there are no vectors.
    assert_eq!(of("odd", &[&[512, 7], &[512, 7]]), [14]);
    assert_eq!(of("elsewhere", &[&[512, 8], &[512, 8]]), [16]);
    assert_eq!(of("in_place", &[&[512, 8]]), [16]);
    assert_eq!(of("handed", &[&[64, 64], &[64, 64]]), [4, 0, 4, 0]);
}

#[test]
fn vectors_are_loaded_and_stored_at_once() {
    let source = source();
    let count = |what: &str| source.text.matches(what).count();
    assert_eq!(count("*)&X[") + count("*)&G[") + count("*)&T["), 10);
    assert_eq!(count("rx_vector<uint16_t, 8> X_vector"), 1);
    assert_eq!(count("rx_vector<uint16_t, 4> G_vector"), 1);
    assert_eq!(count("rx_vector<double, 2> Y_vector"), 1);
}

#[test]
fn columns_are_shared_where_they_are_long() {
    let source = source();
    let of = |name: &str, n: i64| blocks(kernel(&source, name), &[&[n, 1024], &[1024]]);
    assert_eq!(of("columns", 32), [32, 0]);
    assert_eq!(of("columns", 31), [0, 4]);
    assert_eq!(of("columns", 0), [0, 4]);
    assert_eq!(of("long_columns", 40), [32]);
    assert_eq!(of("short_columns", 31), [4]);
}

#[test]
fn rows_are_a_blocks_where_they_are_long_else_a_warps() {
    let source = source();
    let of = |name: &str, n: i64, m: i64| blocks(kernel(&source, name), &[&[n, m], &[n, m]]);
    // Blocks of one row, and of eight.
    assert_eq!(of("softmax", 4096, 2048), [4096, 0]);
    assert_eq!(of("softmax", 4096, 2047), [0, 512]);
    assert_eq!(of("softmax", 4096, 100), [0, 512]);
    assert_eq!(of("softmax", 9, 33), [0, 2]);
    assert_eq!(of("softmax", 1, 1), [0, 1]);
    assert_eq!(of("softmax", 3, 0), [0, 1]);
    assert_eq!(of("softmax", 0, 2000), [0, 0]);
    // Where the text says how long they are, there is no other kernel.
    assert_eq!(of("short_rows", 4097, 100), [513]);
    assert_eq!(of("bounded_rows", 16, 1000), [2]);
    assert_eq!(of("long_rows", 4096, 2048), [4096]);
    let layers =
        |b: i64, n: i64, m: i64| blocks(kernel(&source, "layers"), &[&[b, n, m], &[m], &[b, n, m]]);
    assert_eq!(layers(3, 5, 768), [0, 2]);
    assert_eq!(layers(3, 5, 4096), [15, 0]);
    // Everything is one row.
    assert_eq!(blocks(kernel(&source, "all_of_it"), &[&[5, 7], &[]]), [1]);
}

#[test]
fn long_rows_are_cut_into_pieces_where_there_are_few() {
    let source = source();
    // Pieces, what they come to, and blocks of whole ones.
    let all = |n: i64, m: i64| blocks(kernel(&source, "sum_of_all"), &[&[n, m], &[]]);
    assert_eq!(all(5, 7), [0, 0, 1]);
    assert_eq!(all(1, 131_071), [0, 0, 1]);
    assert_eq!(all(512, 256), [128, 1, 0]);
    // Those of rows, and rows of a warp each last.
    let rows = |n: i64, m: i64| blocks(kernel(&source, "sums_of_rows"), &[&[n, m], &[n]]);
    assert_eq!(rows(127, 16_384), [127 * 16, 16, 0, 0]);
    assert_eq!(rows(128, 16_384), [0, 0, 128, 0]);
    assert_eq!(rows(127, 16_383), [0, 0, 127, 0]);
    assert_eq!(rows(127, 2047), [0, 0, 0, 16]);
}

/// Whatever the extents are, one version has blocks; which one, the tree says. Where two extents are open, the first one decides, and
/// the other is taken to be as much.
#[test]
fn the_host_chooses_products_as_a_tree_says() {
    let source = learned("if m < 20\nelements\nelse\nsquares\n");
    for kernel in &source.kernels {
        assert_eq!(kernel.sites, [], "{}: {}", kernel.name, kernel.checks);
    }
    let weights = |source: &CudaSource, n: i64| {
        blocks(kernel(source, "weights"), &[&[n, 768], &[768, 384], &[n, 384]])
    };
    // Squares of 128 rows and columns, and 256 elements.
    assert_eq!(weights(&source, 19), [0, 29]);
    assert_eq!(weights(&source, 20), [3, 0]);
    assert_eq!(weights(&source, 0), [0, 0]);
    let product = |source: &CudaSource, [n, m, p]: [i64; 3]| {
        blocks(kernel(source, "product"), &[&[n, m], &[m, p], &[n, p]])
    };
    assert_eq!(product(&source, [19, 5, 100]), [0, 8]);
    assert_eq!(product(&source, [20, 5, 100]), [1, 0]);
    // 768 * 384 * 4 is 1179648.
    let source = learned("if m*n*k < 1179648\ntiles\nelse\nelements\n");
    assert_eq!(weights(&source, 3), [0, 24]);
    assert_eq!(weights(&source, 4), [6, 0]);
    // Of three versions the last two are there.
    let source = learned("if m < 2\nelements\nelse\nif m < 64\ntiles\nelse\nsquares\n");
    assert_eq!(weights(&source, 1), [0, 24]);
    assert_eq!(weights(&source, 63), [0, 96]);
    assert_eq!(weights(&source, 64), [3, 0]);
    // Where one is for all, there is no other.
    assert_eq!(weights(&learned("squares\n"), 1), [3]);
    assert_eq!(weights(&learned("if n < 400\nelements\nelse\ntiles\n"), 1), [2]);
    // Where there are no tensor cores, squares stand for them.
    assert_eq!(weights(&learned("cores\n"), 64), [3]);
}
