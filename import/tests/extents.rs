//! Operators over extents that only the run knows: one program with symbolic dims gives what programs for each extent
//! give. `scripts/extents_onnx.py` made the models.

mod outputs;

use ndarray::{ArrayD, IxDyn};
use relax_import::{Bytes, Imported, Options, import_model};
use relax_program::frontend::{Program, RunOptions, parameters, run};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::path::Path;
use std::sync::Arc;

fn imported(model: &str, dims: &[(&str, usize)]) -> Imported {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/extents/{model}.onnx"));
    let bytes = Bytes::from(std::fs::read(path).expect("the model is there"));
    let dims = dims.iter().map(|(name, extent)| ((*name).to_owned(), extent.to_string()));
    let options = Options { dims: dims.collect(), ..Options::default() };
    import_model(bytes, &options).expect("the model is fine")
}

/// A program, and its constants.
struct Loaded {
    program: Program,
    options: RunOptions,
}

/// The program of a model, without diagnostics.
fn program(model: &str, dims: &[(&str, usize)]) -> Loaded {
    let Imported { text, params, .. } = imported(model, dims);
    let program = Program::load(Source::new("imported.rx", text.as_str()));
    assert!(program.diagnostics.is_empty(), "{model}: {:?}\n{text}", program.diagnostics);
    let params = params.into_iter().map(|(name, tensor)| (Name::new(name), tensor.tensor()));
    let options = RunOptions { externals: Arc::new(params.collect()), ..RunOptions::default() };
    Loaded { program, options }
}

fn results(loaded: &Loaded, arguments: &[Tensor]) -> Vec<Tensor> {
    let arguments = arguments.iter().cloned().map(Value::Tensor).collect();
    let ran = run(&loaded.program.module, "main", arguments, &loaded.options);
    outputs::tensors(ran.result.expect("it runs"))
}

/// Elements between -1 and 1, of which no two neighbours are the same.
fn floats(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f64 / 50.5 - 1.0);
    let array = ArrayD::from_shape_vec(IxDyn(shape), values.collect());
    Tensor::from_floats(DType::F32, array.expect("as many as the shape says"))
}

fn assert_close(got: &[Tensor], expected: &[Tensor], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.shape(), expected.shape(), "{what}");
        for at in 0..got.len() {
            let (got, expected) = (got.number(at).as_f64(), expected.number(at).as_f64());
            assert!((got - expected).abs() < 1e-5, "{what}, element {at}: {got}, not {expected}");
        }
    }
}

/// Extents 1, primes, the same before and after, and ones that shrink and grow.
const PLANES: [[usize; 4]; 6] =
    [[5, 7, 5, 7], [5, 7, 3, 13], [1, 1, 1, 4], [4, 6, 8, 3], [11, 2, 1, 1], [17, 5, 4, 5]];

fn assert_resizes(model: &str) {
    let open = program(model, &[]);
    for [h, w, a, b] in PLANES {
        let fixed = program(model, &[("h", h), ("w", w), ("a", a), ("b", b)]);
        for n in [1, 3] {
            let mut arguments = vec![floats(&[n, 2, h, w], n)];
            if inputs(&open) == 2 {
                arguments.push(floats(&[a, b], 0));
            }
            let what = format!("{model} {n} {h}x{w} to {a}x{b}");
            assert_close(&results(&open, &arguments), &results(&fixed, &arguments), &what);
        }
    }
}

fn inputs(loaded: &Loaded) -> usize {
    parameters(&loaded.program.module, "main").expect("it is there").len()
}

macro_rules! resizes {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            assert_resizes(stringify!($name));
        })*
    };
}

resizes! {
    resize_nearest_floor
    resize_nearest_ceil
    resize_nearest_half
    resize_nearest_round
    resize_linear
    resize_linear_corners
    resize_linear_symmetric
    resize_linear_crop
    resize_linear_antialias
    resize_linear_larger
    resize_cubic
    resize_cubic_outside
    resize_cubic_antialias
    resize_cubic_antialias_outside
}

/// Gates, directions, whether the batch is the first dim, whether states are given, and how many states there are.
fn assert_recurrent(model: &str, gates: usize, directions: usize, first: bool, states: usize) {
    let open = program(model, &[]);
    for steps in [1, 2, 5, 19] {
        let fixed = program(model, &[("t", steps)]);
        for n in [1, 3] {
            let shape = if first { [n, steps, 3] } else { [steps, n, 3] };
            let mut arguments = vec![
                floats(&shape, steps),
                floats(&[directions, 2 * gates, 3], 1),
                floats(&[directions, 2 * gates, 2], 2),
                floats(&[directions, 4 * gates], 3),
            ];
            let shape = if first { [n, directions, 2] } else { [directions, n, 2] };
            arguments.extend((0..states).map(|state| floats(&shape, 4 + state)));
            let what = format!("{model}: {steps} steps, batch {n}");
            assert_close(&results(&open, &arguments), &results(&fixed, &arguments), &what);
        }
    }
}

#[test]
fn a_reversed_sequence_of_any_length() {
    assert_recurrent("rnn", 1, 1, false, 0);
}

#[test]
fn a_gru_of_two_directions_over_any_length() {
    assert_recurrent("gru", 3, 2, false, 1);
}

#[test]
fn an_lstm_whose_batch_is_first_over_any_length() {
    assert_recurrent("lstm", 4, 2, true, 2);
}

#[test]
fn an_lstm_without_states_over_any_length() {
    assert_recurrent("lstm_plain", 4, 1, false, 0);
}

#[test]
fn windows_are_padded_for_every_extent() {
    for model in ["same_upper", "same_lower"] {
        let open = program(model, &[]);
        for (h, w) in [(1, 1), (2, 3), (5, 7), (6, 4), (11, 13)] {
            let fixed = program(model, &[("h", h), ("w", w)]);
            let arguments = [floats(&[2, 2, h, w], 0), floats(&[3, 2, 3, 2], 1)];
            let what = format!("{model} {h}x{w}");
            let (got, expected) = (results(&open, &arguments), results(&fixed, &arguments));
            assert_close(&got, &expected, &what);
            assert_eq!(got[0].shape(), [2, 3, h.div_ceil(2), w], "{what}");
            assert_eq!(got[3].shape(), [2, 2, 2 * h.div_ceil(2), 3 * w], "{what}");
            assert_eq!(got[1].shape(), [2, 2, h.div_ceil(2), w.div_ceil(3)], "{what}");
        }
    }
}

/// `n` and `min(n, 5)` have the extent `n` where they are broadcast, so that no dim of the result is open.
#[test]
fn a_broadcast_with_a_limited_extent_keeps_the_extent() {
    let text = imported("limited", &[]).text;
    assert!(text.contains("-> Tensor((\"b\", \"n\", 2), \"f32\")"), "{text}");
    let open = program("limited", &[]);
    let table = floats(&[5, 2], 7);
    for n in [0, 1, 2, 5] {
        let x = floats(&[3, n, 2], n);
        let got = &results(&open, &[x.clone(), table.clone()])[0];
        assert_eq!(got.shape(), [3, n, 2]);
        for at in 0..got.len() {
            let sum = x.number(at).as_f64() + table.number(at % (2 * n)).as_f64();
            assert!((got.number(at).as_f64() - sum).abs() < 1e-6, "{n}: {at}");
        }
    }
}

/// A division of ONNX rounds towards 0: `(n - 1) / 4` is 0 where n is 0, and still an expression over n.
#[test]
fn a_quotient_of_a_dim_less_one_is_symbolic() {
    let text = imported("strides", &[]).text;
    assert!(!text.contains("match_cast"), "{text}");
    let open = program("strides", &[]);
    for n in [0, 1, 4, 5, 8, 9, 10] {
        let got = &results(&open, &[floats(&[n, 3], 0)])[0];
        let expected = n.saturating_sub(1) / 4 + 1;
        assert_eq!(got.shape(), [expected], "{n}");
    }
}

#[test]
fn widths_of_padding_may_be_symbolic() {
    for model in ["pad_constant", "pad_edge", "pad_reflect", "pad_wrap"] {
        let open = program(model, &[]);
        for h in [4, 5, 6, 7, 11] {
            let fixed = program(model, &[("h", h)]);
            let x = [floats(&[3, h], h)];
            let got = results(&open, &x);
            assert_eq!(got[0].shape(), [3, h + 2 * ((4 - h % 4) % 4)], "{model} {h}");
            assert_close(&got, &results(&fixed, &x), &format!("{model} {h}"));
        }
    }
}

/// Query i of q, in a batch with so many keys that are no padding, sees keys up to `length - q + i`; none where that is
/// negative.
#[test]
fn attention_ends_where_the_padding_begins() {
    let open = program("lengths", &[]);
    let (q, k) = (3, 5);
    let (x, keys) = (floats(&[2, 1, q, 2], 1), floats(&[2, 1, k, 2], 2));
    let lengths = [4, 1];
    let array = ArrayD::from_shape_vec(IxDyn(&[2]), lengths.iter().map(|&l| l as i128).collect());
    let given = Tensor::from_ints(DType::I64, array.expect("two"));
    let got = &results(&open, &[x.clone(), keys.clone(), given])[0];
    let at = |tensor: &Tensor, place: usize| tensor.number(place).as_f64();
    for (b, length) in lengths.into_iter().enumerate() {
        for i in 0..q {
            let end = (length + i + 1).saturating_sub(q);
            let key = |j: usize, c: usize| at(&keys, (b * k + j) * 2 + c);
            let query = |c: usize| at(&x, (b * q + i) * 2 + c);
            let score = |j: usize| (query(0) * key(j, 0) + query(1) * key(j, 1)) / f64::sqrt(2.0);
            let sum: f64 = (0..end).map(|j| score(j).exp()).sum();
            for c in 0..2 {
                let parts = (0..end).map(|j| score(j).exp() / sum * key(j, c));
                let (seen, expected) = (at(got, (b * q + i) * 2 + c), parts.sum::<f64>());
                assert!((seen - expected).abs() < 1e-5, "{b} {i} {c}: {seen}, not {expected}");
            }
        }
    }
}
