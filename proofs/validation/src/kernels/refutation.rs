//! Refutation of accesses: a counterexample of a claim counts only where the interpreter stops there.
//!
//! The claim is refuted under what is known of the place, which may be less than what it takes to get there: conditions on
//! elements, and traps before. So the program is run with the dims of the counterexample, on zeros, and what it stops with is compared.

use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::tir::{self, Mode, Options};
use relax_syntax::Name;
use relax_syntax::facts::Counterexample;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Param, ScalarId};
use relax_syntax::span::Span;

/// Runs for one program; what is asked beyond stays open.
pub(super) const MOST_RUNS: usize = 64;
/// Elements of a parameter of a run.
const MOST_ELEMENTS: usize = 1 << 16;
/// Steps of a run: a counterexample is small.
const MOST_STEPS: u64 = 200_000;
/// Bytes of what a run allocates.
const MOST_BYTES: u64 = 1 << 24;

/// Whether the program stops in a statement with a trap that names a buffer or axis, at the dims of a counterexample.
pub(super) fn is_confirmed(
    program: &TensorProgram,
    values: &Counterexample,
    (span, trap, name): (Span, &str, &Name),
) -> bool {
    let Some((buffers, scalars)) = arguments(program, values) else { return false };
    let limits = Limits {
        steps: MOST_STEPS,
        tensor_bytes: MOST_BYTES,
        total_bytes: MOST_BYTES,
        ..Limits::default()
    };
    let options = Options { limits, mode: Mode::Sequential };
    match tir::run(program, buffers, &scalars, &options) {
        Err(Stop::Trap(found)) => {
            found.id == trap && found.span == span && found.message.contains(&format!("`{name}`"))
        }
        _ => false,
    }
}

/// Tensors of zeros and integers for the parameters.
fn arguments(program: &TensorProgram, values: &Counterexample) -> Option<(Vec<Tensor>, Vec<i64>)> {
    let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let info = program.buffer(*id);
                let extent = |dim: &relax_syntax::dim::Dim| {
                    let value = dim.eval(&|name| Some(dim_value(program, values, name))).ok()?;
                    usize::try_from(value).ok()
                };
                let shape = info.shape.iter().map(extent).collect::<Option<Vec<_>>>()?;
                let elements =
                    shape.iter().try_fold(1_usize, |all, &each| all.checked_mul(each))?;
                if elements > MOST_ELEMENTS {
                    return None;
                }
                buffers.push(Tensor::full(info.dtype, &shape, zero(info.dtype)));
            }
            Param::Dim(name) => scalars.push(dim_value(program, values, name)),
            Param::Scalar(id) => {
                scalars.push(values.get(&program.scalar(*id).name).copied().unwrap_or(0));
            }
        }
    }
    Some((buffers, scalars))
}

fn zero(dtype: relax_syntax::dtype::DType) -> Number {
    if dtype.is_float() { Number::Float(0.0) } else { Number::Int(0) }
}

/// The value of a dim: that of the counterexample, else the least one from 1 on that is declared.
fn dim_value(program: &TensorProgram, values: &Counterexample, name: &Name) -> i64 {
    if let Some(value) = values.get(name) {
        return *value;
    }
    let declared = program.dims.iter().find(|dim| dim.name == *name);
    let lower = declared.and_then(|dim| dim.lower).unwrap_or(1).max(1);
    let multiple = declared.and_then(|dim| dim.multiple_of).unwrap_or(1).max(1);
    lower.saturating_add(multiple - 1) / multiple * multiple
}

/// A counterexample with loop variables as the program names them: `n = 1, i = 0`.
pub(super) fn told(program: &TensorProgram, values: &Counterexample) -> String {
    let loops = (0..).zip(&program.scalars);
    let named: Vec<(Name, &Name)> = loops
        .map(|(at, info)| (Name::new(format!("loop {}", ScalarId(at).0)), &info.name))
        .collect();
    let each = values.iter().map(|(name, value)| {
        let own = named.iter().find(|(spelled, _)| spelled == name);
        format!("{} = {value}", own.map_or(name, |(_, own)| own))
    });
    each.collect::<Vec<_>>().join(", ")
}
