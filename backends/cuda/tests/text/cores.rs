//! Products for tensor cores: the printed text on the processor, where `shim.h` has the lanes of a warp lay out what they hold as the
//! PTX ISA says, against the loops of the scheduled program in the interpreter, at sizes on both sides of blocks and tiles.

use super::cases::{Case, case};
use super::compile::nvrtc;
use super::run::{near, run};
use super::shim::{Shim, compiler};
use super::{printed, programs_of, scheduled};
use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_emit::cuda::{CudaKernel, CudaSource};
use relax_lower::gpu::Limits;
use relax_rewrite::pass::Exactness;
use relax_semantics::ops;
use relax_semantics::tir::{Compiled, Mode, Options};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("cores.rx");
/// Two warps, and a grid of two dims.
const LIMITS: Limits = Limits { threads: 64, blocks: 3, shared: 48 << 10, busy: 3 };
/// Of `n`, `m`, `k` and `b`. A warp has 32 rows and 32 columns, and loads 32 terms.
const SIZES: [[i64; 4]; 11] = [
    [0, 5, 9, 1],
    [17, 0, 3, 2],
    [16, 8, 0, 1],
    [1, 1, 1, 3],
    [15, 9, 33, 1],
    [16, 8, 16, 2],
    [17, 9, 15, 0],
    [33, 31, 32, 1],
    [64, 32, 64, 1],
    [65, 33, 31, 2],
    [97, 70, 40, 1],
];
/// What the routines of tensor cores are, and what they might be by mistake.
const MISTAKES: [(&str, &str); 8] = [
    ("lane / 16 * segment + lane % 16 * 8", "lane / 16 * segment + lane % 8 * 8"),
    ("lane / 16 * segment + lane % 16 * 8", "lane / 8 % 2 * segment + lane % 8 * 8"),
    ("lane / 8 % 2 * segment + (lane / 16", "lane / 16 * segment + (lane / 8 % 2"),
    ("lane / 8 % 2 * segment + lane % 8 * 8", "lane % 16 * 8"),
    ("rx_two_turned(held, tile + lane % 16", "rx_two_turned(held, tile + lane % 8"),
    ("rx_two_turned(held,", "rx_two(held,"),
    (" * 4], left[", " * 2], left["),
    ("rx_copied();\n", "\n"),
];

/// One of so many mistakes is planted.
const PLANTED: usize = 4;

/// A text in which threads meet before they wait for what they copy.
fn meeting_early(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for at in 1..lines.len() {
        if lines[at - 1].trim() == "rx_copied();" && lines[at].trim() == "__syncthreads();" {
            lines.swap(at - 1, at);
        }
    }
    lines.join("\n")
}

fn programs(limits: Limits) -> Vec<TensorProgram> {
    scheduled(&programs_of("cores", TEXT), limits, Exactness::Rounded(DType::F32))
}

/// The text for the limits of a device, which takes seconds.
fn of_device() -> &'static CudaSource {
    static SOURCE: OnceLock<CudaSource> = OnceLock::new();
    SOURCE.get_or_init(|| printed(&programs(Limits::default())))
}

fn cases(program: &TensorProgram) -> Vec<Case> {
    let sizes = SIZES.iter().zip(1..);
    let drawn = sizes.filter_map(|([n, m, k, b], seed)| {
        let sizes = BTreeMap::from([("n", *n), ("m", *m), ("k", *k), ("b", *b)]);
        case(program, &|name| sizes[name], seed)
    });
    drawn.collect()
}

/// What the loops of the text give.
pub(super) fn wanted(program: &TensorProgram, case: &Case) -> Vec<relax_semantics::tensor::Tensor> {
    let limits = ops::Limits { steps: u64::MAX, ..ops::Limits::default() };
    let options = Options { limits, mode: Mode::Sequential };
    let compiled = Compiled::new(program).expect("it is well-formed");
    let ran = compiled.run(case.tensors.clone(), &case.ints, &options, &mut u64::MAX.clone());
    ran.expect("it never stops")
}

/// The first case in which a text gives something else than what is wanted.
pub(super) fn first_difference(text: &str, source: &CudaSource, wanted: &Wanted) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = [false, true].map(|way| Shim::of(text, &source.kernels, folder.path(), way));
    source.kernels.iter().zip(wanted).find_map(|(kernel, cases)| {
        let wrong = |(case, want): &(Case, Vec<_>)| {
            devices.iter().find_map(|device| difference(kernel, device, case, want))
        };
        cases.iter().find_map(wrong)
    })
}

/// Cases of each program, with what they give.
pub(super) type Wanted = Vec<Vec<(Case, Vec<relax_semantics::tensor::Tensor>)>>;

fn difference(
    kernel: &CudaKernel,
    device: &Shim,
    case: &Case,
    want: &[relax_semantics::tensor::Tensor],
) -> Option<String> {
    let got = run(kernel, device, case).expect("there is no limit").expect("it never stops");
    let differs = |(want, got)| near(want, got).err();
    let why = want.iter().zip(&got).find_map(differs)?;
    Some(format!("{} at {:?}: {why}", kernel.name, case.dims))
}

#[test]
fn tensor_cores_do_what_the_loops_say() {
    if compiler().is_none() {
        requirement::skip(
            "RELAX_REQUIRE_CC",
            "no C++ compiler to run CUDA source on the processor",
        );
        return;
    }
    let programs = programs(LIMITS);
    let source = printed(&programs);
    let wanted: Wanted = programs
        .iter()
        .map(|program| {
            let cases = cases(program).into_iter();
            cases.map(|case| (case.clone(), wanted(program, &case))).collect()
        })
        .collect();
    assert_eq!(first_difference(&source.text, &source, &wanted), None);
    let without = source.text.replace("#define RX_TENSOR_CORES 1", "#define RX_TENSOR_CORES 0");
    assert_ne!(without, source.text);
    assert_eq!(first_difference(&without, &source, &wanted), None, "by loops");
    let early = meeting_early(&source.text);
    assert!(first_difference(&early, &source, &wanted).is_some(), "early barriers pass");
    // Each is compiled twice, as C++.
    for (from, to) in Sample::of("planted mistakes of tensor cores", PLANTED).take(MISTAKES) {
        let wrong = source.text.replace(from, to);
        assert_ne!(wrong, source.text, "`{from}` is in the text");
        assert!(first_difference(&wrong, &source, &wanted).is_some(), "`{to}` passes");
    }
}

#[test]
fn each_product_is_for_tensor_cores_and_never_stops() {
    let source = of_device();
    assert_eq!(source.kernels.len(), 7);
    for kernel in &source.kernels {
        assert_eq!(kernel.sites, [], "{}: {}", kernel.name, kernel.checks);
        assert_eq!(kernel.alone, None, "{}", kernel.name);
    }
    let count = |what: &str| source.text.matches(what).count();
    // Two in each: while one tile is multiplied, the other one is loaded.
    assert_eq!((count("rx_mma_f16(&"), count("rx_mma_bf16(&")), (12, 4));
    assert_eq!(count("#if RX_TENSOR_CORES\n"), 17);
    // Of both factors, before the loop and twice in it, but not of the one that is computed.
    assert_eq!(count("rx_copy(&tile"), 8 * 6 - 3 - 6);
    assert_eq!(count("#if 0"), 0);
}

/// Devices before sm_80 have no such instruction, and run the loops.
#[test]
fn tensor_cores_compile_where_they_are() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = &of_device().text;
    let wrong = text.replace("mma.sync.aligned.m16n8k16", "mma.sync.aligned.m16n8k17");
    assert_ne!(&wrong, text);
    for architecture in ["sm_80", "sm_90"] {
        nvrtc.compile(text, architecture).expect("it compiles");
        assert!(nvrtc.compile(&wrong, architecture).is_err(), "{architecture} has no `mma`");
    }
    nvrtc.compile(&wrong, "sm_75").expect("the loops compile");
}

#[test]
fn the_host_chooses_tensor_cores_where_they_have_enough_rows() {
    let source = of_device();
    let of = |name: &str, shapes: &[&[i64]]| {
        let kernel = source.kernels.iter().find(|kernel| &*kernel.name == name);
        let plan = kernel.expect("a kernel of this name").plan(shapes, &[]).expect("a plan");
        plan.sizes.iter().map(|sizes| sizes.blocks()).collect::<Vec<_>>()
    };
    let halves = |n: i64, m: i64| of("halves", &[&[n, 64], &[64, m], &[n, m]]);
    assert_eq!(halves(129, 129), [4, 0]);
    assert_eq!(halves(16, 64), [1, 0]);
    assert_eq!(halves(15, 64), [0, 4]);
    assert_eq!(halves(0, 64), [0, 0]);
    assert_eq!(of("weights", &[&[16, 70], &[70, 40], &[16, 40]]), [1, 0]);
    assert_eq!(of("weights", &[&[1, 70], &[70, 40], &[1, 40]]), [0, 3]);
    // Where the rows are known, by columns.
    assert_eq!(of("whole", &[&[64, 33], &[33, 8], &[64, 8]]), [1, 0]);
    assert_eq!(of("whole", &[&[64, 33], &[33, 7], &[64, 7]]), [0, 4]);
}
