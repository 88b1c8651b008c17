//! Programs compiled and run.
#![allow(unsafe_code)] // kernels are called

use super::cases::{Case, is_workspace};
use relax_cpu::{Cache, Compiler, Function, Library, Part, Tensor as Argument, Threads};
use relax_emit::{Checks, Kernel, Site, print_c};
use relax_lower::passes::fuse_loops::fused;
use relax_lower::passes::parallelize_loops::parallelized;
use relax_runtime::program::Numerics;
use relax_semantics::tensor::{Data, Tensor};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::{Attrs, Definition, Module, TensorProgram};

/// Programs of one C file.
const CHUNK: usize = 80;

/// Everything that was compiled.
pub(super) struct All<'p> {
    pub(super) kernels: Vec<Built<'p>>,
    pub(super) left_out: Vec<(Name, String)>,
    pub(super) checks: Checks,
    /// Checks on dims in innermost loops.
    pub(super) innermost: usize,
    /// The C text.
    pub(super) text: String,
}

/// A program with its code.
pub(super) struct Built<'p> {
    pub(super) program: &'p TensorProgram,
    kernel: Kernel,
    library: &'static Library,
}

/// Compiles all programs, two compilers at a time.
pub(super) fn build_all(programs: &[TensorProgram], sums: Numerics) -> All<'_> {
    build_all_with(programs, sums, &[])
}

/// As the processor's kernels are scheduled: with epilogues of products, and loops on threads.
fn scheduled(module: &Module, numerics: Numerics) -> Module {
    let mut facts = Prover::new();
    let (module, ..) = fused(module, numerics, &mut facts);
    parallelized(&module, numerics, &mut facts).0
}

/// The same with more flags.
pub(super) fn build_all_with<'p>(
    programs: &'p [TensorProgram],
    sums: Numerics,
    flags: &[&str],
) -> All<'p> {
    build_all_as(programs, sums, (flags, &Attrs::default()))
}

/// The same in modules with these attributes.
pub(super) fn build_all_as<'p>(
    programs: &'p [TensorProgram],
    sums: Numerics,
    (flags, attrs): (&[&str], &Attrs),
) -> All<'p> {
    // One for all tests: most are linked with the same routines.
    let cache = Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"));
    let compiler =
        Compiler::of_system().expect("a C compiler").with_flag("-O2").with_flag("-DRX_GRAIN=1");
    let compiler = flags.iter().fold(compiler, |compiler, flag| compiler.with_flag(flag));
    let chunks: Vec<&[TensorProgram]> = programs.chunks(CHUNK).collect();
    let one = |chunk: &&[TensorProgram]| {
        let definitions = chunk.iter().cloned().map(Definition::Tensor).collect();
        let module = Module { definitions, attrs: attrs.clone() };
        let source = print_c(&scheduled(&module, sums), &mut Prover::new(), sums);
        let library = relax_cpu::build(&source, &compiler, &cache);
        let library = library.unwrap_or_else(|error| panic!("{error}"));
        (source, &*Box::leak(Box::new(library)))
    };
    let (first, second) = chunks.split_at(chunks.len() / 2);
    let built = std::thread::scope(|scope| {
        let other = scope.spawn(|| second.iter().map(one).collect::<Vec<_>>());
        let mut built: Vec<_> = first.iter().map(one).collect();
        built.extend(other.join().expect("the other thread ends"));
        built
    });
    let mut all = All {
        kernels: Vec::new(),
        left_out: Vec::new(),
        checks: Checks::default(),
        innermost: 0,
        text: String::new(),
    };
    for (source, library) in built {
        all.text += &source.text;
        all.left_out.extend(source.left_out);
        for kernel in source.kernels {
            let program = programs.iter().find(|program| program.name == kernel.name);
            let program = program.expect("invariant: it was printed");
            all.checks.found += kernel.checks.found;
            all.checks.elided += kernel.checks.elided;
            all.innermost += kernel.innermost.on_dims;
            all.kernels.push(Built { program, kernel, library });
        }
    }
    all
}

/// The elements of a tensor, which nothing else uses.
macro_rules! elements {
    ($data:expr, $($variant:ident)*) => {
        match $data {
            $(Data::$variant(array) => {
                array.as_slice_mut().expect("invariant: row-major").as_mut_ptr().cast()
            })*
        }
    };
}

impl Built<'_> {
    /// The buffers after a run, or where it stopped: the same, bit for bit, in one part and in several.
    pub(super) fn run(&self, case: &Case) -> Result<Vec<Tensor>, Site> {
        let alone = self.run_with(case, None);
        let parts = self.run_with(
            case,
            Some(&Threads { count: 3, run: backwards, steps: std::ptr::null_mut() }),
        );
        match (&alone, &parts) {
            (Ok(alone), Ok(parts)) => {
                for (alone, parts) in alone.iter().zip(parts) {
                    let same = bits(alone) == bits(parts);
                    assert!(same, "{}: {alone:?} {parts:?}", self.program.name);
                }
            }
            (Err(alone), Err(parts)) => assert_eq!(alone, parts),
            _ => panic!("{}: {alone:?} {parts:?}", self.program.name),
        }
        alone
    }

    fn run_with(&self, case: &Case, threads: Option<&Threads>) -> Result<Vec<Tensor>, Site> {
        let mut data: Vec<Data> = case.tensors.iter().map(|tensor| tensor.data().clone()).collect();
        let shapes: Vec<Vec<i64>> = case
            .tensors
            .iter()
            .map(|tensor| tensor.shape().iter().map(|&extent| extent as i64).collect())
            .collect();
        let arguments: Vec<Argument> = data
            .iter_mut()
            .zip(&shapes)
            .map(|(data, shape)| Argument {
                data: elements!(data, F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool),
                shape: shape.as_ptr(),
            })
            .collect();
        let function = self.library.function(&self.kernel.symbol).expect("the kernel is there");
        // SAFETY: the case has a tensor of the declared dtype and rank for each buffer, none shared.
        let status = unsafe { function.call(&arguments, &case.ints, threads) };
        match usize::try_from(status).expect("a status is not negative") {
            0 => Ok(data.into_iter().map(Tensor::from_data).collect()),
            site => Err(self.kernel.sites[site - 1].clone()),
        }
    }

    /// Whether nothing reads a buffer of the parameters after the program.
    pub(super) fn is_workspace(&self, at: usize) -> bool {
        is_workspace(self.program, at)
    }
}

/// The status of a function that looks at no argument.
pub(super) fn called_with_nothing(function: &Function<'_>) -> i32 {
    // SAFETY: it reads none of its arguments.
    unsafe { function.call(&[], &[], None) }
}

/// Runs all parts, the last one first.
unsafe extern "C" fn backwards(
    _: *const Threads,
    parts: i64,
    part: Part,
    context: *mut std::ffi::c_void,
) -> i32 {
    let mut first = 0;
    for at in (0..parts).rev() {
        // SAFETY: the kernel passes a context of its own.
        let status = unsafe { part(context, at) };
        if status != 0 {
            first = status;
        }
    }
    first
}

/// Elements that are the same have the same.
pub(super) fn bits(tensor: &Tensor) -> Vec<u64> {
    (0..tensor.len()).map(|at| tensor.number(at).as_f64().to_bits()).collect()
}

/// Whether a product or a conversion underflows meanwhile on this thread, as the processor notes; `None` where its flags are not
/// known here.
pub(super) fn underflows(meanwhile: impl FnOnce()) -> Option<bool> {
    unsafe extern "C" {
        safe fn feclearexcept(excepts: i32) -> i32;
        safe fn fetestexcept(excepts: i32) -> i32;
    }
    // FE_UNDERFLOW of <fenv.h>.
    let underflow = match std::env::consts::ARCH {
        "x86_64" => 0x10,
        "aarch64" => 0x08,
        _ => return None,
    };
    feclearexcept(underflow);
    meanwhile();
    Some(fetestexcept(underflow) != 0)
}
