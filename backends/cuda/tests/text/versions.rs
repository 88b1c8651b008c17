//! Kernels of which the host chooses one by the shapes that come, and what is proved of them: a kernel that never stops need not be
//! waited for, and can be in graphs.

use super::{printed, scheduled};
use relax_corpus::pipeline::Program;
use relax_emit::cuda::{CudaKernel, CudaSource};
use relax_lower::gpu::{Limits, Order};
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

const TEXT: &str = include_str!("versions.rx");

fn source() -> CudaSource {
    let module = Program::load(Source::new("versions", TEXT)).module;
    let programs = module.definitions.into_iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    });
    let programs: Vec<TensorProgram> = programs.collect();
    printed(&scheduled(&programs, Limits::default(), Order::Free))
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
fn no_kernel_but_trees_may_stop() {
    let source = source();
    assert_eq!(source.kernels.len(), 17);
    // Of sums by a tree not every element is shown to be there.
    let has_tree = |kernel: &&CudaKernel| kernel.name.contains("columns");
    for kernel in source.kernels.iter().filter(|kernel| !has_tree(kernel)) {
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
