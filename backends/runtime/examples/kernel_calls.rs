//! How long the machine takes for a call of a kernel, with the memory around it: a storage, a tensor in it, and
//! their release.
//!
//!     cargo run --release -p relax-runtime --example kernel_calls

use relax_runtime::file::Image;
use relax_runtime::instruction::{Instruction as I, Operand, Register};
use relax_runtime::program::{Constant, Function, Kernel, Param, Program};
use relax_runtime::{DType, KernelTrap, Kernels, Module, Number, Span, Tensor, TensorArg, Value};
use std::io::Write;
use std::time::Instant;

/// Does nothing, so that only the machine is measured.
struct Nothing;

impl Kernels for Nothing {
    fn call(&self, _: usize, _: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        Ok(())
    }
}

/// Kernel calls in one function.
const CALLS: usize = 1000;
/// Calls of the function.
const ROUNDS: u32 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bare = nanoseconds(&[I::CallKernel {
        kernel: 0,
        args: [Operand::Register(0), Operand::Register(3)].into(),
    }])?;
    let with_memory = nanoseconds(&[
        I::AllocStorage { to: Register(1), size: Operand::Constant(0), dtype: DType::F32 },
        I::AllocTensor {
            to: Register(2),
            storage: Operand::Register(1),
            shape: Operand::Constant(0),
            dtype: None,
            offset: Operand::Constant(1),
        },
        I::CallKernel { kernel: 0, args: [Operand::Register(0), Operand::Register(2)].into() },
        I::KillTensor(Operand::Register(2)),
        I::KillStorage(Operand::Register(1)),
    ])?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "a kernel call: {bare:.0} ns")?;
    writeln!(out, "with a storage, a tensor in it, and their release: {with_memory:.0} ns")?;
    Ok(())
}

/// The time of one repetition of these instructions.
fn nanoseconds(repeated: &[I]) -> Result<f64, Box<dyn std::error::Error>> {
    let module = Module::new(image(repeated), Box::new(Nothing))?;
    let main = module.function("main").ok_or("no function `main`")?;
    let x = [Value::Tensor(Tensor::from_f32(&[16], &[1.0; 16])?)];
    // The least of all rounds: what other processes do is not measured.
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        main.call(&x)?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least * 1e9 / CALLS as f64)
}

fn image(repeated: &[I]) -> Image {
    let (shape, zero) = (Operand::Constant(0), Operand::Constant(1));
    let mut code = vec![
        I::AllocStorage { to: Register(4), size: shape, dtype: DType::F32 },
        I::AllocTensor {
            to: Register(3),
            storage: Operand::Register(4),
            shape,
            dtype: None,
            offset: zero,
        },
    ];
    (0..CALLS).for_each(|_| code.extend_from_slice(repeated));
    code.push(I::Return(Operand::Register(0)));
    let buffer = |name: &str, is_written| Param::Buffer {
        name: name.to_owned(),
        dtype: DType::F32,
        rank: 1,
        is_written,
    };
    let kernel = Kernel {
        name: "nothing".to_owned(),
        params: vec![buffer("X", false), buffer("Y", true)],
        symbol: None,
        sites: Vec::new(),
        watched: None,
        work: None,
        span: Span::default(),
    };
    let function = Function {
        name: "main".to_owned(),
        symbol: Some("main".to_owned()),
        params: 1,
        donated: Vec::new(),
        registers: 5,
        spans: vec![Span::default(); code.len()],
        code,
        span: Span::default(),
    };
    let constants = vec![Constant::Shape(vec![16]), Constant::Scalar(DType::I64, Number::Int(0))];
    let program =
        Program { functions: vec![function], kernels: vec![kernel], constants, texts: Vec::new() };
    Image { program, ..Image::default() }
}
