//! Kernels that reduce what ranks passed, two tensors at a time: tensor programs, scheduled and printed like all others, so that an
//! element is that of the interpreter's `add`, `maximum` and `minimum`.

use crate::Error;
use relax_emit::cuda::{CudaKernel, print_cuda};
use relax_lower::gpu::{Choices, schedule_by};
use relax_rewrite::pass::{Device, Exactness};
use relax_runtime::DType;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::annotation::Reduction;
use relax_syntax::ir::{Definition, Module};
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A kernel that puts into each element of its first tensor the reduction with that of the second one.
pub(crate) struct Fold {
    pub(crate) kernel: CudaKernel,
    /// Of its only launch.
    pub(crate) symbol: Arc<str>,
    /// Its source, CUDA C++.
    pub(crate) text: String,
}

impl Fold {
    /// Of elements of a dtype.
    ///
    /// # Errors
    /// When the printer has no code for it.
    pub(crate) fn new(dtype: DType, reduction: Reduction) -> Result<Self, Error> {
        let name = format!("rank_{}_{}", reduction.name(), dtype);
        let program = program(&name, dtype, reduction);
        let refused = |reason: String| Error::Kernel { name: name.clone(), reason };
        let (file, mut diagnostics) = parse_file(&Source::new("ranks", program.as_str()));
        let (mut module, resolved) = resolve_file(&file);
        diagnostics.extend(resolved);
        if let Some(first) = diagnostics.first() {
            return Err(refused(first.message.clone()));
        }
        schedule(&mut module);
        let facts = &mut Prover::new();
        let mut source = print_cuda(&module, facts, None, &BTreeSet::new(), Numerics::Exact);
        let Some(kernel) = source.kernels.pop() else {
            let reason = source.left_out.pop().map(|(_, reason)| reason);
            return Err(refused(reason.unwrap_or_default()));
        };
        let [launch] = kernel.launches.as_slice() else {
            return Err(refused("it is not one launch".to_owned()));
        };
        let symbol = launch.symbol.as_str().into();
        Ok(Self { symbol, text: source.text, kernel })
    }
}

fn program(name: &str, dtype: DType, reduction: Reduction) -> String {
    let is_float = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    // Of two zeros the positive one is the greater one.
    let value = match (reduction, is_float) {
        (Reduction::Sum, _) => "A[i] + B[i]",
        (Reduction::Max, false) => "max(A[i], B[i])",
        (Reduction::Min, false) => "min(A[i], B[i])",
        (Reduction::Max, true) => {
            "select(A[i] == 0.0 and B[i] == 0.0, A[i] + B[i], max(A[i], B[i]))"
        }
        (Reduction::Min, true) => {
            "select(A[i] == 0.0 and B[i] == 0.0, -(-A[i] + -B[i]), min(A[i], B[i]))"
        }
    };
    format!(
        "@tensorir_function\ndef {name}(A: Buffer((\"n\",), \"{dtype}\"), B: Buffer((\"n\",), \"{dtype}\")):\n    for i in range(n):\n        A[i] = {value}\n"
    )
}

/// Binds its loops to threads.
fn schedule(module: &mut Module) {
    let choices = Choices::of(Device::Cuda, Exactness::Exact);
    for definition in &mut module.definitions {
        if let Definition::Tensor(program) = definition
            && let Some(bound) = schedule_by(program, &mut Prover::new(), &choices)
        {
            *program = bound;
        }
    }
}
