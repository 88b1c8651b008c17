//! Our own functions: f16 on every value, equal to the interpreter; f32 on a million values all over the
//! range, within the bounds that the prelude states.

use super::cases::Case;
use super::native::{build_all, underflows};
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Options, run};
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

const FUNCTIONS: [&str; 5] = ["exp", "erf", "erfc", "tanh", "sigmoid"];

/// Those that stay in f64 where they need to be right to f32 only.
const ROUGH: [&str; 3] = ["erf", "erfc", "log"];

fn program(name: &str, from: &str, to: &str, value: &str) -> TensorProgram {
    let text = format!(
        "@tensorir_function\ndef {name}(X: Buffer((\"n\",), \"{from}\"), Y: Buffer((\"n\",), \"{to}\")):\n\
         \x20   n = sym_var()\n    for i in range(n):\n        Y[i] = {value}\n"
    );
    let program = Program::load(Source::new("function", text.as_str()));
    assert!(!program.has_errors(), "{text}{:?}", program.diagnostics);
    let mut definitions = program.module.definitions.into_iter();
    match definitions.next() {
        Some(Definition::Tensor(program)) => program,
        other => panic!("expected a tensor program, found {other:?}"),
    }
}

/// A tensor of these values, and one for the results.
fn case(dtype: DType, to: DType, values: &[f64]) -> Case {
    let shape = ndarray::IxDyn(&[values.len()]);
    let array = ndarray::ArrayD::from_shape_vec(shape.clone(), values.to_vec()).expect("one dim");
    let zeros = ndarray::ArrayD::zeros(shape);
    let tensors = vec![Tensor::from_floats(dtype, array), Tensor::from_floats(to, zeros)];
    Case { dims: Vec::new(), tensors, ints: Vec::new() }
}

fn interpreted(program: &TensorProgram, case: &Case) -> Tensor {
    let results = run(program, case.tensors.clone(), &case.ints, &Options::default());
    results.expect("a value").remove(1)
}

#[test]
fn halves_are_equal_on_every_value() {
    let programs: Vec<TensorProgram> = FUNCTIONS
        .iter()
        .map(|name| program(&format!("of_{name}"), "f16", "f16", &format!("{name}(X[i])")))
        .collect();
    let every: Vec<f64> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f64()).collect();
    let case = case(DType::F16, DType::F16, &every);
    for kernel in &build_all(&programs, Numerics::Exact).kernels {
        let want = interpreted(kernel.program, &case);
        let got = kernel.run(&case).expect("a value").remove(1);
        for (at, value) in every.iter().enumerate() {
            let (want, got) = (want.number(at).as_f64(), got.number(at).as_f64());
            let same = want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan());
            assert!(same, "{} of {}: {want} {got}", kernel.program.name, value);
        }
    }
}

#[test]
fn singles_are_within_their_bounds() {
    let step = 4099;
    let values: Vec<f64> =
        (0..u32::MAX / step).map(|at| f64::from(f32::from_bits(at * step))).collect();
    for (sums, bound, names) in [
        (Numerics::Exact, 1.0, &FUNCTIONS[..]),
        (Numerics::Reassociated, 2.0, &["exp", "sigmoid", "tanh"][..]),
        (Numerics::Reassociated, 1.0, &ROUGH[..]),
    ] {
        let of = |name: &&str| {
            let value = match sums {
                Numerics::Exact => format!("{name}(X[i])"),
                Numerics::Reassociated => format!("f32({name}(f64(X[i])))"),
            };
            program(&format!("of_{name}"), "f32", "f32", &value)
        };
        let programs: Vec<TensorProgram> = names.iter().map(of).collect();
        let case = case(DType::F32, DType::F32, &values);
        let wide = self::case(DType::F32, DType::F64, &values);
        for (kernel, name) in build_all(&programs, sums).kernels.iter().zip(names) {
            let exact = program("exact", "f32", "f64", &format!("{name}(f64(X[i]))"));
            let (want, got) = (interpreted(&exact, &wide), kernel.run(&case).expect("a value"));
            let worst = (0..want.len())
                .map(|at| units(want.number(at).as_f64(), got[1].number(at).as_f64()))
                .fold(0.0, f64::max);
            assert!(worst <= bound, "{name}: {worst} units in the last place");
        }
    }
}

/// How far an f32 is from an exact value, in units in the last place.
fn units(want: f64, got: f64) -> f64 {
    let rounded = f64::from(want as f32);
    if (want.is_nan() && got.is_nan()) || (rounded.is_infinite() && rounded == got) {
        return 0.0;
    }
    if want.is_nan() || got.is_nan() || got.is_infinite() {
        return f64::INFINITY;
    }
    let magnitude = (want.abs() as f32).clamp(f32::MIN_POSITIVE, f32::MAX / 2.0);
    let next = f64::from(f32::from_bits(magnitude.to_bits() + 1));
    (want - got).abs() / (next - f64::from(magnitude))
}

/// Rows of a sum with shares: one value at some place, a zero at the next, and nothing elsewhere.
const ROW: usize = 19;
const SHARES: &str = "@tensorir_function
def shares(X: Buffer((\"n\", 19), \"f32\"), T: Buffer((\"n\",), \"f64\"), Y: Buffer((\"n\", 19), \"f32\")):
    n = sym_var()
    func_attr(\"workspaces\", \"T\")
    for i in range(n):
        T[i] = 0.0
        for j in range(19):
            T[i] += exp(f64(X[i, j]) - 0.0)
        for k in range(19):
            Y[i, k] = f32(exp(f64(X[i, k]) - 0.0) / T[i])
";

/// That program, and these rows for it. Its sum is a workspace: what is computed for an f64 tensor of a caller stays f64.
fn shares(rows: &[f64]) -> (TensorProgram, Case) {
    let loaded = Program::load(Source::new("shares", SHARES));
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let Some(Definition::Tensor(program)) = loaded.module.definitions.into_iter().next() else {
        panic!("expected a tensor program");
    };
    let count = rows.len() / ROW;
    let of = |dtype, shape: &[usize], values: Vec<f64>| {
        let array = ndarray::ArrayD::from_shape_vec(ndarray::IxDyn(shape), values);
        Tensor::from_floats(dtype, array.expect("as many values as elements"))
    };
    let tensors = vec![
        of(DType::F32, &[count, ROW], rows.to_vec()),
        of(DType::F64, &[count], vec![0.0; count]),
        of(DType::F32, &[count, ROW], vec![0.0; rows.len()]),
    ];
    (program, Case { dims: Vec::new(), tensors, ints: Vec::new() })
}

#[test]
fn exponentials_of_rows_are_within_their_bounds() {
    let step = 16_411;
    let values: Vec<f32> = (0..u32::MAX / step).map(|at| f32::from_bits(at * step)).collect();
    let mut rows = vec![f64::NEG_INFINITY; values.len() * ROW];
    for (at, value) in values.iter().enumerate() {
        rows[at * ROW + at % ROW] = f64::from(*value);
        rows[at * ROW + (at + 1) % ROW] = 0.0;
    }
    let (program, case) = shares(&rows);
    let built = build_all(std::slice::from_ref(&program), Numerics::Reassociated);
    assert!(
        built.text.contains("= rx_exp_row("),
        "its exponentials are a routine's: {}",
        built.text
    );
    let got = built.kernels[0].run(&case).expect("a value").remove(2);
    for (at, value) in values.iter().enumerate() {
        let (place, value) = (at * ROW + at % ROW, f64::from(*value));
        // Far below 0 the sum is 1, so that the share is the exponential alone.
        let (want, bound) = match value {
            ..-18.0 => (value.exp(), 2.0),
            f64::INFINITY => (f64::NAN, 0.0),
            _ => (1.0 / (1.0 + (-value).exp()), 4.0),
        };
        if value.exp() as f32 == f32::INFINITY && value.is_finite() {
            continue;
        }
        let off = units(want, got.number(place).as_f64());
        assert!(off <= bound, "share of {value}: {off} units in the last place");
    }
}

/// A score that is masked is an infinity or a huge number below 0, and half of those of a causal attention are. A product that
/// underflows takes some processors a hundred cycles: on one of them attention took five times as long as without.
#[test]
fn exponentials_of_masked_scores_do_not_underflow() {
    let masked = [f64::NEG_INFINITY, -1e30, -1e9, -65504.0, -1500.0];
    let values: Vec<f64> =
        masked.iter().chain(&[0.0, -3.0, 1.0]).copied().cycle().take(67).collect();
    for (dtype, text) in [(DType::F32, "f32"), (DType::F64, "f64")] {
        let exps = [program("of_exp", text, text, "exp(X[i])")];
        for numerics in [Numerics::Exact, Numerics::Reassociated] {
            let built = build_all(&exps, numerics);
            let case = case(dtype, dtype, &values);
            let mut results = Vec::new();
            let found = underflows(|| results = built.kernels[0].run(&case).expect("a value"));
            assert_ne!(found, Some(true), "{text}, {numerics:?}");
            for (at, value) in values.iter().enumerate() {
                let got = results[1].number(at).as_f64();
                assert!((got - value.exp()).abs() < 1e-6, "{text}: exp({value}) is {got}");
            }
            let tiny =
                self::case(dtype, dtype, &[if dtype == DType::F32 { -100.0 } else { -740.0 }; 9]);
            let found = underflows(|| drop(built.kernels[0].run(&tiny).expect("a value")));
            assert_ne!(found, Some(false), "{text}, {numerics:?}: subnormal results are noted");
        }
    }
    let rows: Vec<f64> = values.iter().copied().cycle().take(ROW * 24).collect();
    let (program, case) = shares(&rows);
    let built = build_all(std::slice::from_ref(&program), Numerics::Reassociated);
    let found = underflows(|| drop(built.kernels[0].run(&case).expect("a value")));
    assert_ne!(found, Some(true), "rows");
}
