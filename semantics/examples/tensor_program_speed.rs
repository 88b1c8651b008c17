//! How many multiply-adds a second the interpreter of tensor programs does, in both modes.
#![allow(clippy::print_stdout)]

use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::tir::{Mode, Options, run};
use relax_syntax::dtype::DType;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;
use std::time::Instant;

const TEXT: &str = r#"@tensorir_function
def mm(X: Buffer(("n", "n"), "f32"), W: Buffer(("n", "n"), "f32"), Y: Buffer(("n", "n"), "f32")):
    for i, j in grid(n, n):
        for k in range(n):
            with block("mm"):
                with init():
                    Y[i, j] = 0.0
                Y[i, j] += X[i, k] * W[k, j]
"#;

fn main() {
    let n = 128;
    for (name, mode, text) in [
        ("sequential", Mode::Sequential, TEXT.to_owned()),
        (
            "lock-step",
            Mode::LockStep,
            TEXT.replace("for i, j in grid(n, n)", "for i in parallel(n)")
                .replace("        for k", "        for j, k")
                .replace("range(n)", "grid(n, n)"),
        ),
    ] {
        let (module, _) = resolve_file(&parse_file(&Source::new("mm.rx", text)).0);
        let program = module.tensor_program("mm").expect("the program above");
        let one = Tensor::full(DType::F32, &[n, n], Number::Int(1));
        let buffers = vec![one.clone(), one, Tensor::undefined(DType::F32, &[n, n])];
        let start = Instant::now();
        let result = run(program, buffers, &[], &Options { mode, ..Options::default() });
        let seconds = start.elapsed().as_secs_f64();
        assert!(result.is_ok(), "{result:?}");
        println!("{name}: {:.1} M multiply-adds/s", (n * n * n) as f64 / seconds / 1e6);
    }
}
