//! Comparison of a kernel's results with the interpreter's: bit for bit where the C text promises it, within a bound on
//! rounding errors where float sums are reassociated or library functions round.

use relax_program::compare::{difference, largest_difference, largest_magnitude};
use relax_program::rounding::{PERTURBED, Precision, bound_of_functions, bound_of_sums, is_near};
use relax_runtime::program::Numerics;
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_tir::analysis::bit_exact::is_bit_exact;
use relax_tir::workspaces::{has_f64_tensors, is_workspace};

/// How the results of one program are compared.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    is_reassociated: bool,
    /// Whether it calls functions that are right only within some units in the last place.
    is_rounded: bool,
    /// Whether it has floats narrower than f64.
    is_mixed: bool,
    /// Whether it has tensors of f64, so that no sum is formed in f32.
    has_f64_tensors: bool,
    /// Of each parameter buffer: nothing reads it after the program.
    is_workspace: Vec<bool>,
}

impl Agreement {
    pub(super) fn of(program: &TensorProgram, sums: Numerics) -> Self {
        let is_narrower = |dtype: DType| dtype.is_float() && dtype != DType::F64;
        Self {
            is_reassociated: sums == Numerics::Reassociated,
            is_rounded: !is_bit_exact(program),
            is_mixed: program.buffers.iter().any(|buffer| is_narrower(buffer.dtype)),
            has_f64_tensors: has_f64_tensors(program),
            is_workspace: program
                .buffer_params()
                .map(|buffer| is_workspace(program, buffer))
                .collect(),
        }
    }

    pub(super) fn is_reassociated(&self) -> bool {
        self.is_reassociated
    }

    /// What reassociated sums are formed in.
    pub(super) fn sums(&self) -> Precision {
        if self.has_f64_tensors { Precision::F64 } else { Precision::F32 }
    }

    /// Whether results are the interpreter's bit for bit.
    pub(super) fn is_exact(&self) -> bool {
        !self.is_reassociated && !self.is_rounded
    }

    /// Compares the buffers that were `found` after a run, but for elements that are undefined in `wanted`. `inputs` is the largest
    /// magnitude in the arguments. Where there are `perturbed` results, the interpreter's for inputs that are off by a
    /// rounding error, an ill-conditioned element may be as far off.
    ///
    /// # Errors
    /// The buffer's position and the first difference: element, both values.
    pub(super) fn compare(
        &self,
        (wanted, perturbed): (&[Tensor], Option<&[Tensor]>),
        found: &[Option<Tensor>],
        inputs: f64,
    ) -> Result<(), (usize, String)> {
        let pairs = wanted.iter().zip(found).enumerate();
        let pairs = pairs.filter_map(|(at, (wanted, found))| Some((at, wanted, found.as_ref()?)));
        let pairs: Vec<_> = pairs.collect();
        let scale =
            pairs.iter().map(|(_, wanted, _)| largest_magnitude(wanted)).fold(inputs, f64::max);
        for (at, wanted, found) in pairs {
            // Its stores may have been forwarded.
            if self.is_reassociated && self.is_workspace[at] {
                continue;
            }
            let change =
                perturbed.map_or(0.0, |perturbed| largest_difference(wanted, &perturbed[at]));
            let bound = self.bound(wanted.dtype(), scale).max(PERTURBED * change);
            self.compare_buffer(wanted, found, bound).map_err(|why| (at, why))?;
        }
        Ok(())
    }

    /// The greatest difference that rounding explains in a buffer of this dtype, beside some units in the last place.
    fn bound(&self, dtype: DType, scale: f64) -> f64 {
        if !dtype.is_float() {
            return 0.0;
        }
        if self.is_reassociated {
            return bound_of_sums(dtype, self.sums(), scale);
        }
        if self.is_rounded {
            let functions = if self.is_mixed { Precision::F32 } else { Precision::F64 };
            return bound_of_functions(dtype, functions, scale);
        }
        0.0
    }

    fn compare_buffer(&self, wanted: &Tensor, found: &Tensor, bound: f64) -> Result<(), String> {
        let scale = largest_magnitude(wanted);
        let is_far = |at: &usize| {
            !self.is_near((wanted.number(*at), found.number(*at)), wanted.dtype(), (bound, scale))
        };
        // Of a slice the other elements were not computed.
        let undefined = wanted.undefined_elements();
        let is_compared = |at: &usize| undefined.is_none_or(|undefined| !undefined[*at]);
        let far: Vec<usize> = (0..wanted.len()).filter(is_compared).filter(is_far).collect();
        far.first().map_or(Ok(()), |&at| Err(difference(wanted, found, at, far.len())))
    }

    fn is_near(
        &self,
        (wanted, found): (Number, Number),
        dtype: DType,
        (bound, scale): (f64, f64),
    ) -> bool {
        match (wanted, found) {
            (Number::Float(a), Number::Float(b)) if self.is_exact() => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            both => is_near(both, dtype, (bound, scale)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr1;
    use relax_program::frontend::Program;
    use relax_syntax::ir::Definition;
    use relax_syntax::span::Source;

    const TEXT: &str = r#"
@tensorir_function
def copied(X: Buffer((1,), "f32"), Y: Buffer((1,), "f32")):
    for i in range(1):
        Y[i] = X[i]
"#;

    fn program() -> TensorProgram {
        let module = Program::load(Source::new("copied", TEXT)).module;
        match module.definitions.into_iter().next() {
            Some(Definition::Tensor(program)) => program,
            other => panic!("{other:?}"),
        }
    }

    /// Whether a result counts as the wanted one.
    fn agrees(sums: Numerics, dtype: DType, (wanted, found): (f64, f64)) -> bool {
        let tensor = |value: f64| Tensor::from_floats(dtype, arr1(&[value]).into_dyn());
        let (input, found) = (tensor(1.0), Some(tensor(found)));
        let wanted = [input, tensor(wanted)];
        Agreement::of(&program(), sums).compare((&wanted, None), &[None, found], 1.0).is_ok()
    }

    #[test]
    fn exact_results_have_the_same_bits() {
        let exact = |pair| agrees(Numerics::Exact, DType::F32, pair);
        let next = f64::from(1.0_f32.next_up());
        for same in [1.0, 0.0, -0.0, f64::INFINITY, f64::NAN] {
            assert!(exact((same, same)), "{same}");
        }
        assert!(exact((f64::NAN, -f64::NAN)), "of NaN the bits are open");
        for (a, b) in [(0.0, -0.0), (1.0, next), (1.0, f64::NAN), (f64::INFINITY, f64::NAN)] {
            assert!(!exact((a, b)) && !exact((b, a)), "{a} beside {b}");
        }
    }

    /// Some units in the last place for sums in f32 of numbers up to 1, not some parts of a hundred.
    #[test]
    fn reassociated_sums_are_near() {
        let near = |pair| agrees(Numerics::Reassociated, DType::F32, pair);
        assert!(near((1.0, f64::from(1.0_f32.next_up()))) && near((0.0, -0.0)));
        for far in [1.01, 0.99, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!near((1.0, far)) && !near((far, 1.0)), "{far}");
        }
    }
}
