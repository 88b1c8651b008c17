//! Loops, scans and lists: one program for every number of iterations, and errors that say which node.
//! `scripts/loops_onnx.py` made the models.

mod outputs;

use ndarray::{ArrayD, IxDyn};
use relax_import::{Bytes, Given, ImportError, Imported, Options, import_model};
use relax_program::frontend::{Program, RunOptions, run};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::path::Path;

fn imported(model: &str, options: &Options) -> Result<Imported, ImportError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/loops/{model}.onnx"));
    import_model(Bytes::from(std::fs::read(path).expect("the model is there")), options)
}

/// The program of a model, without diagnostics.
fn program(model: &str) -> Program {
    let text = imported(model, &Options::default()).expect("the model is fine").text;
    let program = Program::load(Source::new("imported.rx", text.as_str()));
    assert!(program.diagnostics.is_empty(), "{:?}\n{text}", program.diagnostics);
    program
}

fn results(program: &Program, arguments: Vec<Value>) -> Vec<Tensor> {
    let ran = run(&program.module, "main", arguments, &RunOptions::default());
    outputs::tensors(ran.result.expect("it runs"))
}

fn floats(shape: &[usize], values: Vec<f64>) -> Value {
    let array = ArrayD::from_shape_vec(IxDyn(shape), values).expect("as many as the shape says");
    Value::Tensor(Tensor::from_floats(DType::F32, array))
}

fn integer(value: i64) -> Value {
    Value::Tensor(Tensor::scalar(DType::I64, Number::Int(value.into())))
}

fn elements(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.len()).map(|place| tensor.number(place).as_f64()).collect()
}

#[test]
fn a_scan_serves_all_lengths() {
    let program = program("scan");
    for (batch, length) in [(1, 0), (2, 1), (3, 2), (1, 7), (2, 100)] {
        let x: Vec<f64> = (0..batch * length * 4).map(|i| f64::from(i as u32 % 7) / 8.0).collect();
        let start = vec![-1.0; batch * 4];
        let at = |b: usize, t: usize, c: usize| x[(b * length + t) * 4 + c];
        let arguments =
            vec![floats(&[batch, length, 4], x.clone()), floats(&[batch, 4], start.clone())];
        let got = results(&program, arguments);
        assert_eq!(got[1].shape(), [batch, 4, length]);
        for b in 0..batch {
            for c in 0..4 {
                let mut sum = -1.0;
                for t in 0..length {
                    sum += at(b, t, c);
                    let place = (b * 4 + c) * length + (length - 1 - t);
                    let seen = got[1].number(place).as_f64();
                    assert!((seen - f64::tanh(sum)).abs() < 1e-6, "{batch} {length}: {b} {c} {t}");
                }
                assert_eq!(got[0].number(b * 4 + c).as_f64(), sum);
            }
        }
    }
}

#[test]
fn a_loop_ends_where_its_condition_says() {
    let program = program("double");
    for (most, times) in [(0, 0), (-3, 0), (1, 1), (5, 5), (6, 6), (7, 6), (1 << 62, 6)] {
        let got = results(&program, vec![floats(&[2], vec![1.0, 2.0]), integer(most)]);
        let scale = f64::from(1 << times);
        assert_eq!(elements(&got[0]), [scale, 2.0 * scale], "at most {most}");
        assert_eq!(got[1].shape(), [times, 2]);
        let all = (0..times).flat_map(|time| [f64::from(1 << time), f64::from(2 << time)]);
        assert_eq!(elements(&got[1]), all.collect::<Vec<f64>>());
    }
}

#[test]
fn a_value_may_grow_and_iterations_are_many() {
    let program = program("grow");
    for count in [0_u32, 1, 2, 3, 3000] {
        let got = results(&program, vec![floats(&[1], vec![9.0]), integer(count.into())]);
        let numbers = std::iter::once(9.0).chain((0..count).map(f64::from));
        assert_eq!(elements(&got[0]), numbers.collect::<Vec<f64>>());
    }
}

#[test]
fn dims_may_be_named_like_inputs() {
    let program = program("same");
    for (rows, columns) in [(0, 3), (2, 0), (1, 1), (2, 2), (3, 5)] {
        let values: Vec<f64> = (0..rows * columns).map(|i| f64::from(i as u32)).collect();
        let added = vec![0.5; columns];
        let arguments = vec![floats(&[rows, columns], values.clone()), floats(&[columns], added)];
        let got = results(&program, arguments);
        assert_eq!(got[0].shape(), [rows, columns]);
        assert_eq!(elements(&got[0]), values.iter().map(|x| x + 0.5).collect::<Vec<f64>>());
    }
}

#[test]
fn a_reshape_computes_the_dim_of_minus_one() {
    let program = program("left");
    let reshaped = |[b, s]: [usize; 2], like: [usize; 2]| {
        let x = floats(&[b, s, 16], (0..b * s * 16).map(|at| at as f64).collect());
        let like = floats(&like, vec![0.0; like.iter().product()]);
        run(&program.module, "main", vec![x, like], &RunOptions::default()).result
    };
    for (own, like, left) in [
        ([2, 3], [2, 3], 2),
        ([4, 6], [2, 3], 8),
        ([1, 1], [1, 1], 2),
        ([5, 7], [7, 5], 2),
        ([0, 3], [0, 3], 0),
    ] {
        let Ok(Value::Tensor(y)) = reshaped(own, like) else { panic!("{own:?} {like:?}") };
        assert_eq!(y.shape(), [like[0], like[1], left, 8]);
        assert!(elements(&y).into_iter().eq((0..y.len()).map(|at| at as f64)));
    }
    for (own, like) in [([2, 3], [5, 1]), ([2, 3], [0, 3]), ([1, 1], [3, 1])] {
        let stopped = reshaped(own, like).expect_err("no dim makes as many elements");
        assert!(stopped.to_string().contains("reshape/C2"), "{stopped}");
    }
}

#[test]
fn loops_within_loops() {
    let program = program("nested");
    for (a, b) in [(0, 5), (5, 0), (1, 1), (4, 6), (13, 11)] {
        let got = results(&program, vec![integer(a), integer(b)]);
        let sum: i64 = (0..a).flat_map(|i| (0..b).map(move |j| i * j)).sum();
        assert_eq!(elements(&got[0]), [sum as f64]);
    }
}

#[test]
fn the_types_of_lists_are_given() {
    let refused = imported("list", &Options::default()).expect_err("no length is known");
    assert_eq!(refused, ImportError::Untyped(vec!["xs".to_owned()]));
    let item = |name: &str| Annotation::tensor(vec![Dim::var(name)], DType::F32);
    let of = Annotation::Tuple(vec![item("n"), item("m")]);
    let mut options = Options::default();
    options.types.insert("xs".to_owned(), Given::Type(of));
    let text = imported("list", &options).expect("the model is fine").text;
    let program = Program::load(Source::new("imported.rx", text.as_str()));
    assert!(program.diagnostics.is_empty(), "{:?}\n{text}", program.diagnostics);
    let list = Value::Tuple(vec![floats(&[1], vec![1.0]), floats(&[3], vec![2.0, 3.0, 4.0])]);
    let got = results(&program, vec![list]);
    assert_eq!(got.iter().map(elements).collect::<Vec<_>>(), [vec![2.0], vec![4.0, 6.0, 8.0]]);
}

#[test]
fn what_a_loop_cannot_be_is_told() {
    for (model, expected) in [
        (
            "rank",
            "Loop: a value that is Tensor((n,), \"f32\") before and Tensor((1, n), \"f32\") after",
        ),
        ("arity", "Loop: its graph takes 4 values, and is given 3 (y)"),
    ] {
        let mut options = Options::default();
        let told = match imported(model, &options).expect_err("it is refused") {
            // Unrolled, the number of iterations being given, it is what it is.
            ImportError::Needs(_) => {
                let many = Tensor::scalar(DType::I64, Number::Int(9));
                options.bind.insert("most".to_owned(), many);
                imported(model, &options).err()
            }
            other => Some(other),
        };
        match (model, told) {
            ("rank", None) => {}
            (_, told) => {
                let told = told.map(|error| error.to_string()).unwrap_or_default();
                assert!(told.contains(expected), "{told}");
            }
        }
    }
}

#[test]
fn damaged_loops_are_no_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize
    };
    let mut accepted = 0;
    for model in ["scan", "double", "grow", "nested", "list", "rank"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/loops/{model}.onnx"));
        let good = std::fs::read(path).expect("the model is there");
        for _ in 0..500 {
            let mut bytes = good.clone();
            for _ in 0..1 + next() % 2 {
                let at = next() % bytes.len();
                bytes[at] = if next() % 2 == 0 { next() as u8 } else { bytes[at] ^ 1 };
            }
            let imported = import_model(Bytes::from(bytes), &Options::default());
            accepted += usize::from(imported.is_ok());
        }
    }
    assert!(accepted > 100, "{accepted}: some damage does no harm");
}
