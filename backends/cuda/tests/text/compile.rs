//! Every kernel of the corpus, compiled by NVRTC for two architectures, a part with each commit. What is left out, and what one thread runs
//! alone though it has loops bound to threads, stands in `tests/left_out.txt` with the reasons: it may change only when somebody looks.

use super::programs::programs;
use super::{each, printed, printed_with, scheduled};
use relax_corpus::sample::Sample;
use relax_cuda::{Error, Nvrtc};
use relax_emit::cuda::CudaSource;
use relax_lower::gpu::Limits;
use relax_rewrite::pass::Exactness;
use relax_semantics::concrete::Concrete;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Programs of one text.
const CHUNK: usize = 120;
/// One text in so many is compiled.
const TEXTS: usize = 12;
/// What is asked is whether there is code, not how quick it is.
const QUICKLY: [&str; 1] = ["--ptxas-options=-O0"];
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90"];

/// The compiler that `./setup.sh nvrtc` puts there, or another one that is named.
pub(super) fn nvrtc() -> Option<Nvrtc> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/nvrtc");
    let found = if std::env::var_os("RELAX_NVRTC").is_none() && fetched.is_dir() {
        Nvrtc::in_folder(&fetched)
    } else {
        Nvrtc::find()
    };
    match found {
        Ok(nvrtc) => Some(nvrtc),
        Err(why) if std::env::var_os("RELAX_REQUIRE_NVRTC").is_some() => panic!("{why}"),
        Err(why) => {
            eprintln!("skipped: no kernel is compiled for CUDA, as {why}");
            None
        }
    }
}

#[test]
fn every_kernel_compiles() {
    let written = programs();
    let [kept, free, cores] =
        [Exactness::Exact, Exactness::Approximate, Exactness::Rounded(DType::F32)]
            .map(|exactness| scheduled(written, Limits::default(), exactness));
    let beside = |others: &[TensorProgram], known: &[TensorProgram]| {
        let fresh = others.iter().zip(known).filter(|(other, known)| other != known);
        fresh.map(|(other, _)| other.clone()).collect::<Vec<TensorProgram>>()
    };
    let others = [beside(&free, &kept), beside(&cores, &free)].concat();
    let programs = [kept, others].concat();
    // Each text has programs from everywhere, so that a part of the texts is a part of everything.
    let number = programs.len().div_ceil(CHUNK);
    let chunk =
        |at| programs.iter().skip(at).step_by(number).cloned().collect::<Vec<TensorProgram>>();
    hold_all(&each((0..number).collect(), |at| printed_with(&chunk(at), &mut Concrete)));
    let Some(nvrtc) = nvrtc() else { return };
    let texts = Sample::of("texts that NVRTC compiles", TEXTS);
    // Which checks are left is asked of the prover, which takes most of the time: of what is compiled only.
    let sources: Vec<String> = each(texts.take(0..number).collect(), |at| printed(&chunk(at)).text);
    // Each text for one of them; the next one for the other.
    let both = sources.iter().enumerate().flat_map(|(at, source)| {
        let [first, second] = ARCHITECTURES;
        let order = if at % 2 == 0 { [first, second] } else { [second, first] };
        order.map(|architecture| (source, architecture))
    });
    let compiled = Sample::of("architectures of a text", ARCHITECTURES.len()).take(both);
    each(compiled.collect(), |(source, architecture)| {
        if let Err(error) = nvrtc.compile_with(source, architecture, &QUICKLY) {
            panic!("{architecture}: {error}");
        }
    });
}

/// What is printed of all programs, and what not. That does not depend on which checks are proved.
fn hold_all(sources: &[CudaSource]) {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for source in sources {
        for (name, why) in &source.left_out {
            reasons.entry(format!("left out: {why}")).or_default().push(name.to_string());
        }
        for kernel in &source.kernels {
            count += 1;
            if let Some(why) = &kernel.alone {
                let name = kernel.name.to_string();
                reasons.entry(format!("by one thread: {why}")).or_default().push(name);
            }
        }
    }
    assert!(count > 2000, "{count} kernels");
    hold_reasons(&reasons);
}

fn hold_reasons(reasons: &BTreeMap<String, Vec<String>>) {
    let mut text = String::new();
    for (why, names) in reasons {
        // Numbers at the end of names are places in the list of all programs.
        let mut short: Vec<&str> =
            names.iter().filter_map(|name| name.rsplit_once('_')).map(|(name, _)| name).collect();
        short.sort_unstable();
        let _ = writeln!(text, "{}: {why}: {}", names.len(), short.join(" "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/left_out.txt");
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(&path, text).expect("the list can be written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, text, "RELAX_BLESS=1 writes the list anew");
}

#[test]
fn mistakes_are_found() {
    let Some(nvrtc) = nvrtc() else { return };
    let programs: Vec<TensorProgram> = programs().iter().take(4).cloned().collect();
    let text = printed(&programs).text;
    nvrtc.compile(&text, "sm_80").expect("as it was printed it compiles");
    let planted = [
        ("int64_t", "int65_t"),
        ("rx_stop(uint32_t *status", "rx_stop(uint32_t status"),
        ("__global__", "__globe__"),
        ("< ", "<< < "),
    ];
    for (from, to) in planted {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "`{from}` is in the text");
        let found = nvrtc.compile(&wrong, "sm_80");
        assert!(matches!(found, Err(Error::Compile { .. })), "`{to}` passes");
    }
}

/// What the assembler says of two kernels: shared memory that the text has, and more live numbers than there are registers for them.
#[test]
fn what_kernels_take_is_reported() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"
        extern "C" __global__ void __launch_bounds__(256) shares(float *x) {
            __shared__ float tile[1024];
            tile[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = tile[1023 - threadIdx.x];
        }
        extern "C" __global__ void __launch_bounds__(1024, 2) spills(double *x) {
            double own[64];
            for (int i = 0; i < 64; i++) own[i] = x[i * 1024 + threadIdx.x];
            __syncthreads();
            for (int i = 0; i < 64; i++) x[i * 1024 + threadIdx.x] = own[63 - i] * own[i];
        }"#;
    let found = nvrtc.resources(text, "sm_90").expect("it is CUDA C++");
    let names: Vec<&str> = found.iter().map(|one| one.function.as_str()).collect();
    assert_eq!(names, ["shares", "spills"]);
    assert_eq!((found[0].shared, found[0].spilled), (4096, [0, 0]));
    assert_eq!(found[0].occupancy(256), 100);
    assert_eq!(found[1].registers, 32, "two blocks of 1024 threads have no more");
    assert!(found[1].spilled.iter().all(|bytes| *bytes > 0), "{found:?}");
    let wrong = nvrtc.resources(text, "sm_1");
    assert!(matches!(wrong, Err(Error::Compile { .. })), "{wrong:?}");
}
