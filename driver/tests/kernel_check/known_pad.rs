//! A known miscompilation: GCC 12 turns guarded loads of a `pad` into masked vector loads and reads wrong elements. The printer
//! keeps such loads out of if-conversion; without that the kernel check finds it.

use super::planted::verdict;
use relax_corpus::requirement::has_avx2;
use relax_corpus::script::executable;
use relax_cpu::{Cache, Compiler};
use relax_driver::{Budget, BuildError, KernelCheck, Target, Verdict, build_cpu, lower};
use relax_emit::print_c;
use relax_lower::program::Around;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::tensor::{LoopKind, Stmt, StmtKind};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::Path;

fn lowered() -> (Program, Module) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/regressions/guarded_reads.rx");
    lowered_text(std::fs::read_to_string(path).expect("it is in the corpus"))
}

fn lowered_text(text: String) -> (Program, Module) {
    let program = Program::load(Source::new("guarded_reads", text));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let lowered = lower(&Target::default(), &program.module, &Settings::default(), &mut Unwatched);
    let lowered = lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module;
    (program, lowered)
}

/// The program without threads: GCC miscompiles the nest as it stands in the text, not the one over a range of iterations.
fn on_one_thread(program: &TensorProgram) -> TensorProgram {
    let mut program = program.clone();
    program.body.iter_mut().for_each(|body| serial(body));
    program
}

fn serial(body: &mut [Stmt]) {
    for stmt in body {
        if let StmtKind::For { kind, body, .. } = &mut stmt.kind {
            *kind = LoopKind::Serial;
            serial(body);
        }
    }
}

#[test]
fn a_known_miscompilation_is_found() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let compiler = Compiler::of_system().expect("a C compiler");
    let (_, lowered) = lowered();
    let mut found = Vec::new();
    for definition in &lowered.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let program = &on_one_thread(program);
        let definitions = vec![Definition::Tensor(program.clone())];
        let module = Module { definitions, ..Module::default() };
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        let plain = source.text.replace("__asm__ volatile(\"\");", "");
        assert_ne!(plain, source.text, "the load is guarded");
        let [plain, guarded] = [&plain, &source.text]
            .map(|text| verdict(program, &source.kernels[0], (text, &compiler, &cache)));
        assert!(matches!(guarded, Verdict::Agrees { .. }), "{guarded:?}");
        found.push(plain);
    }
    let differ = found.iter().filter(|verdict| matches!(verdict, Verdict::Differs { .. })).count();
    eprintln!("{}: {differ} of {} miscompiled: {found:?}", compiler.version(), found.len());
    // Other compilers are right; for those the planted mistakes stand.
    if compiler.version().contains(" 12.2.") && has_avx2() {
        assert!(differ > 0, "{found:?}");
    }
}

/// A compiler that changes a value in the text: always, or unless it is told to optimize less.
fn wrong_compiler(folder: &Path, unless: &str) -> Compiler {
    let text = format!(
        "for each; do\n  case $each in --version|{unless}) exec cc \"$@\";; *.c) text=$each;; esac\ndone\n\
         sed -i 's/rx_i64_of_f64(2.0)/rx_i64_of_f64(3.0)/' \"$text\"\nexec cc \"$@\"\n"
    );
    script(&folder.join(unless), &text)
}

/// A compiler that is a text for the shell, in a folder of its own.
pub(super) fn script(folder: &Path, text: &str) -> Compiler {
    std::fs::create_dir_all(folder).expect("the parent is writable");
    let path = folder.join("compiler");
    executable(&path, text);
    Compiler::named(path.to_str().expect("a path of text")).expect("it has a version")
}

#[test]
fn miscompiled_kernels_are_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let (program, lowered) = lowered();
    let none = BTreeMap::new();
    let around = Around { externals: &none, source: &program.source, signatures: &program.module };
    let build = |compiler: &Compiler, check| {
        build_cpu(&lowered, &around, Numerics::Exact, (compiler, &cache), check)
    };
    let compiler = wrong_compiler(folder.path(), "-O1");
    let unchecked = build(&compiler, KernelCheck::Off).expect("it is compiled");
    assert_eq!(unchecked.metadata.kernel_check, None);
    // The second time, verdicts come from the cache.
    for _ in 0..2 {
        let image = build(&compiler, KernelCheck::default());
        let image = image.unwrap_or_else(|error| panic!("{error}"));
        let check = image.metadata.kernel_check.expect("it was checked");
        assert_ne!(image.object, unchecked.object);
        assert_eq!((check.agree, check.unchecked.len()), (4, 0), "{check:?}");
        assert_eq!(check.miscompiled.len(), 2, "{check:?}");
        for (_, why) in &check.miscompiled {
            assert!(why.contains("expected 2, found 3"), "{why}");
            assert!(why.contains(compiler.version()), "{why}");
        }
    }
    let compiler = wrong_compiler(folder.path(), "-O0");
    for _ in 0..2 {
        match build(&compiler, KernelCheck::default()) {
            Err(BuildError::Miscompiled { difference, .. }) => {
                assert!(difference.contains("expected 2, found 3"), "{difference}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// One kernel that is wrong with fewer optimizations too is enough to refuse the module.
#[test]
fn a_single_kernel_that_stays_wrong_is_refused() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let text =
        "def main(x: Tensor((\"n\",), \"i64\")):\n    return pad(x, [1, 1], pad_value=2.0)\n";
    let (program, lowered) = lowered_text(text.to_owned());
    let none = BTreeMap::new();
    let around = Around { externals: &none, source: &program.source, signatures: &program.module };
    let compiler = wrong_compiler(folder.path(), "-O0");
    let by = (&compiler, &cache);
    let built = build_cpu(&lowered, &around, Numerics::Exact, by, KernelCheck::default());
    let Err(BuildError::Miscompiled { name, compiler: told, difference }) = built else {
        panic!("{built:?}")
    };
    assert!(name.contains("pad") && told == compiler.version(), "{name}, {told}");
    assert!(difference.contains("expected 2, found 3"), "{difference}");
}

#[test]
fn budgets_bound_the_work() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let (program, lowered) = lowered();
    let none = BTreeMap::new();
    let around = Around { externals: &none, source: &program.source, signatures: &program.module };
    let compiler = Compiler::of_system().expect("a C compiler").with_flag("-O1");
    let build = |steps| {
        let check = KernelCheck::Within(Budget { steps });
        let image = build_cpu(&lowered, &around, Numerics::Exact, (&compiler, &cache), check);
        image
            .unwrap_or_else(|error| panic!("{error}"))
            .metadata
            .kernel_check
            .expect("it was checked")
    };
    let [little, enough] = [build(1), build(400_000)];
    assert_eq!((little.agree, little.unchecked.len()), (0, 4), "{little:?}");
    assert!(little.unchecked.iter().all(|(_, why)| why.contains("too")), "{little:?}");
    assert_eq!((enough.agree, enough.unchecked.len()), (4, 0), "{enough:?}");
}
