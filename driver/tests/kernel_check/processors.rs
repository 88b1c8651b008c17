//! Code for other processors: the module file names the extensions that its kernels use, and kernels that this machine cannot
//! run are unchecked.

use super::known_pad::script;
use relax_cpu::{Cache, Compiler, Cpu};
use relax_driver::{KernelCheck, Target, build_cpu, lower, panel};
use relax_lower::program::Around;
use relax_program::frontend::Program;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::file::{Image, LoadError};
use relax_runtime::program::Numerics;
use relax_runtime::{Module, check_target};
use relax_syntax::span::Source;
use std::path::Path;

/// Products, rows, halves, a guarded read.
const PROGRAM: &str = r#"
def main(x: Tensor(("n", 96), "f32"), w: Tensor((96, 70), "f32"), h: Tensor(("n", 70), "f16")):
    y = softmax(matmul(x, w), axis=-1)
    z = pad(y, [0, 1, 1, 0], pad_mode="constant", pad_value=2.0)
    return (z, exp(h), sum(h, axis=1))
"#;

fn image(compiler: &Compiler, folder: &Path) -> Image {
    let program = Program::load(Source::new("processors", PROGRAM));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let isa = compiler.target().expect("its processor is known").isa();
    let settings = Settings { panel: panel(isa, None), ..Settings::default() };
    let target = Target::of(Device::Cpu, Numerics::Reassociated);
    let made = lower(&target, &program.module, &settings, &mut Unwatched);
    let made = made.unwrap_or_else(|failed| panic!("{failed:?}"));
    let around =
        Around { externals: &made.values, source: &program.source, signatures: &program.module };
    let by = (compiler, &Cache::at(folder));
    let image =
        build_cpu(&made.module, &around, Numerics::Reassociated, by, KernelCheck::default());
    image.unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_file_names_what_its_kernels_use() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let levels: [(&str, &[&str], &[&str]); 4] = [
        ("x86-64", &[], &["sse3", "sse4.1", "avx", "fma"]),
        ("x86-64-v2", &[], &["avx", "fma", "avx2", "f16c"]),
        ("x86-64-v3", &["avx", "avx2", "fma", "f16c"], &["avx512f"]),
        ("x86-64-v4", &["avx512f"], &["avx512vnni", "gfni"]),
    ];
    for (name, uses, never) in levels {
        let compiler = Compiler::of_system().expect("a C compiler");
        let compiler = compiler.for_cpu(&Cpu::Named(name.to_owned())).expect("a level");
        let image = image(&compiler, folder.path());
        let words: Vec<&str> = image.target.split(' ').collect();
        let target = &image.target;
        assert_eq!(words[..3], ["cpu", "x86_64", std::env::consts::OS], "{name}: {target}");
        assert!(uses.iter().all(|one| words.contains(one)), "{name}: {target}");
        assert!(!never.iter().any(|one| words.contains(one)), "{name}: {target}");
        let check = image.metadata.kernel_check.as_ref().expect("it was checked");
        let runs = check_target(target).is_ok();
        assert_eq!(
            (check.agree > 0, check.unchecked.is_empty()),
            (runs, runs),
            "{name}: {check:?}"
        );
        assert_eq!(Module::load(&image.to_bytes()).is_ok(), runs, "{name}");
    }
}

/// A compiler that says it compiles for another architecture.
fn foreign_compiler(folder: &Path) -> Compiler {
    let other = if cfg!(target_arch = "x86_64") { "__aarch64__" } else { "__x86_64__" };
    script(
        folder,
        &format!(
            "for each; do\n  if [ \"$each\" = -dM ]; then\n    \
             printf '#define {other} 1\\n#define __linux__ 1\\n'\n    exit 0\n  fi\ndone\nexec cc \"$@\"\n"
        ),
    )
}

#[test]
fn what_does_not_run_here_is_unchecked() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let image = image(&foreign_compiler(folder.path()), folder.path());
    let check = image.metadata.kernel_check.as_ref().expect("it was tried");
    assert_eq!(check.agree, 0);
    assert_eq!(check.unchecked.len(), image.program.kernels.len());
    assert!(check.unchecked.iter().all(|(_, why)| why.contains("does not run on this machine")));
    assert!(matches!(Module::load(&image.to_bytes()), Err(LoadError::Target(_))));
}
