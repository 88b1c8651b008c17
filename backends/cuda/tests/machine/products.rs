//! Products that a library computes: the same elements as the kernels give, which are there where it is not. All elements are
//! small integers, so that every order of a sum gives the same.

use super::counted::{Counted, Event, Events};
use super::library::WithLibrary;
use super::load;
use super::shim::{Shim, compiler};
use half::{bf16, f16};
use relax_cuda::Built;
use relax_driver::Target;
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;
use relax_runtime::{DType, Module, Tensor, Value};
use relax_syntax::span::Source;
use std::path::Path;

/// With which library, if any, and what is expected of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Library,
    Nothing,
}

fn loaded(text: &str, with: With, folder: &Path, events: &Events) -> Module {
    let source = Source::new("products", text);
    let program = Program::load(source.clone());
    let shim = |built: &Built| Shim::of(&built.text, &built.kernels, folder, false);
    let events = || events.clone();
    let target = Target::of(Device::Cuda, Numerics::Reassociated);
    let module = match with {
        #[cfg(feature = "cuda")]
        With::Library if super::is_on_driver() => {
            let device = |built: &Built| {
                Ok(Counted { device: relax_cuda::Driver::new(&built.text)?, events: events() })
            };
            load(&program.module, &source, &device, &target)
        }
        With::Library => {
            let device =
                |built: &Built| Ok(Counted { device: WithLibrary(shim(built)), events: events() });
            load(&program.module, &source, &device, &target)
        }
        With::Nothing => {
            let device = |built: &Built| Ok(Counted { device: shim(built), events: events() });
            load(&program.module, &source, &device, &target)
        }
    };
    module.expect("it is well-formed")
}

/// Integers from -3 to 3, another sequence for each seed.
fn tensor(dtype: DType, shape: &[i64], seed: i64) -> Tensor {
    let count: i64 = shape.iter().product();
    let bytes = (0..count).flat_map(|at| {
        let value = ((at * 5 + at / 3 + seed * 7) % 7 - 3) as f32;
        match dtype {
            DType::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
            DType::BF16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
            _ => value.to_ne_bytes().to_vec(),
        }
    });
    Tensor::from_bytes(dtype, shape, &bytes.collect::<Vec<u8>>()).expect("a tensor")
}

fn program(dtype: DType, expression: &str, [x, w]: [&str; 2]) -> String {
    format!(
        r#"
def main(x: Tensor({x}, "{dtype}"), w: Tensor({w}, "{dtype}"), b: Tensor((3,), "{dtype}")):
    n = sym_var(lower_bound=2)
    with dataflow():
        y = {expression}
        output(y)
    return y
"#
    )
}

fn call(module: &Module, args: &[Tensor]) -> Vec<u8> {
    let args: Vec<Value> = args.iter().map(|tensor| Value::Tensor(tensor.clone())).collect();
    match module.function("main").expect("a function `main`").call(&args) {
        Ok(Value::Tensor(tensor)) => tensor.bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

const EXPRESSIONS: [&str; 6] = [
    "matmul(x, w)",
    "relu(matmul(x, w))",
    "gelu_tanh(matmul(x, w))",
    "add(matmul(x, w), b)",
    "relu(add(matmul(x, w), b))",
    "gelu_tanh(add(matmul(x, w), b))",
];

/// Whether results are the same: sums of integers are exact, and halves are rounded to fewer bits than the functions of an epilogue err in.
/// Those of f32 are computed in f32, of values up to 63.
fn agree(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let f32s = |bytes: &[u8]| {
        let each = bytes.chunks_exact(4).map(|each| [each[0], each[1], each[2], each[3]]);
        each.map(f32::from_ne_bytes).collect::<Vec<_>>()
    };
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 64.0 * f32::EPSILON;
    a.len() == b.len()
        && if dtype == DType::F32 { f32s(a).iter().zip(&f32s(b)).all(is_near) } else { a == b }
}

#[test]
fn the_library_and_the_kernels_agree() {
    if compiler().is_none() {
        return;
    }
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (seed, expression) in (1..).zip(EXPRESSIONS) {
            let (folder, events) = (tempfile::tempdir().expect("a folder"), Events::default());
            let text = program(dtype, expression, [r#"("n", 7)"#, "(7, 3)"]);
            let [library, kernels] = [With::Library, With::Nothing]
                .map(|with| loaded(&text, with, folder.path(), &events));
            for rows in [2, 4, 5] {
                let args = [
                    tensor(dtype, &[rows, 7], seed),
                    tensor(dtype, &[7, 3], seed + 1),
                    tensor(dtype, &[3], seed + 2),
                ];
                events.take();
                let got = call(&library, &args);
                let seen = events.take();
                // Of one form the library has no algorithm.
                let who = if rows == 5 { Event::Launch } else { Event::Multiply };
                let not = if rows == 5 { Event::Multiply } else { Event::Launch };
                assert!(seen.contains(&who) && !seen.contains(&not), "{expression}: {seen:?}");
                let other = call(&kernels, &args);
                assert!(
                    agree(dtype, &got, &other),
                    "{dtype} {expression}, {rows} rows: {got:?} {other:?}"
                );
                let seen = events.take();
                assert!(seen.contains(&Event::Launch) && !seen.contains(&Event::Multiply));
            }
        }
    }
}

/// Several matrices on the left: one matrix on the right for all of them, or one for each.
#[test]
fn products_of_batches_agree() {
    if compiler().is_none() {
        return;
    }
    for (seed, expression) in (1..).zip(EXPRESSIONS) {
        for right in [&[7, 3][..], &[2, 7, 3]] {
            let (folder, events) = (tempfile::tempdir().expect("a folder"), Events::default());
            let of_right = if right.len() == 2 { "(7, 3)" } else { "(2, 7, 3)" };
            let text = program(DType::F16, expression, [r#"(2, "n", 7)"#, of_right]);
            let [library, kernels] = [With::Library, With::Nothing]
                .map(|with| loaded(&text, with, folder.path(), &events));
            for rows in [2, 4] {
                let args = [
                    tensor(DType::F16, &[2, rows, 7], seed),
                    tensor(DType::F16, right, seed + 1),
                    tensor(DType::F16, &[3], seed + 2),
                ];
                events.take();
                let got = call(&library, &args);
                let seen = events.take();
                let alone = seen.contains(&Event::Multiply) && !seen.contains(&Event::Launch);
                assert!(alone, "{expression}: {seen:?}");
                assert_eq!(got, call(&kernels, &args), "{expression}, {rows} rows, {of_right}");
            }
        }
    }
}

/// What says of itself that it is a product of the library, and is none that the library has: a bias of one element, a result of
/// another dtype.
#[test]
fn what_is_no_product_of_the_library_is_computed_by_kernels() {
    if compiler().is_none() {
        return;
    }
    for (dtype, result, library, bias) in
        [("f32", "f32", "matmul_bias", "(1,)"), ("f16", "f32", "matmul", "")]
    {
        let (param, argument, added) = match bias {
            "" => ("", "", ""),
            _ => ("B: Buffer((1,), \"f32\"), ", "b, ", "            Y[i, j] += B[0]\n"),
        };
        let text = format!(
            r#"
def main(x: Tensor((4, 7), "{dtype}"), w: Tensor((7, 3), "{dtype}"), b: Tensor((1,), "f32")):
    y: Tensor((4, 3), "{result}") = call_tir(product, [x, w, {argument}], Tensor((4, 3), "{result}"))
    return y

@tensorir_function
def product(X: Buffer((4, 7), "{dtype}"), W: Buffer((7, 3), "{dtype}"), {param}Y: Buffer((4, 3), "{result}")):
    func_attr("composite", "cublas.{library}")
    for i in range(4):
        for j in range(3):
            Y[i, j] = 0.0
            for k in range(7):
                Y[i, j] += {result}(X[i, k]) * {result}(W[k, j])
{added}"#
        );
        let (folder, events) = (tempfile::tempdir().expect("a folder"), Events::default());
        let [offered, kernels] =
            [With::Library, With::Nothing].map(|with| loaded(&text, with, folder.path(), &events));
        let of = if dtype == "f16" { DType::F16 } else { DType::F32 };
        let args = [tensor(of, &[4, 7], 1), tensor(of, &[7, 3], 2), tensor(DType::F32, &[1], 3)];
        let got = call(&offered, &args);
        assert!(!events.take().contains(&Event::Multiply), "{library}");
        assert_eq!(got, call(&kernels, &args), "{library}");
    }
}

/// Products that tensor cores multiply where the library has no algorithm.
#[test]
fn the_library_and_tensor_cores_agree() {
    if compiler().is_none() {
        return;
    }
    for dtype in [DType::F16, DType::BF16] {
        let (folder, events) = (tempfile::tempdir().expect("a folder"), Events::default());
        let text = program(dtype, "relu(matmul(x, w))", [r#"("n", 24)"#, "(24, 9)"]);
        let [library, kernels] =
            [With::Library, With::Nothing].map(|with| loaded(&text, with, folder.path(), &events));
        for rows in [2, 16, 33] {
            let args = [tensor(dtype, &[rows, 24], 1), tensor(dtype, &[24, 9], 2)];
            let args = [&args[..], &[tensor(dtype, &[3], 3)]].concat();
            assert_eq!(call(&library, &args), call(&kernels, &args), "{dtype}, {rows} rows");
        }
    }
}

/// What a pattern does not match, and what it does but for an operand that is there twice.
#[test]
fn what_the_library_has_not_is_computed_by_kernels() {
    if compiler().is_none() {
        return;
    }
    let cases = [
        (r#"def main(x: Tensor((4, 4), "f32")): return matmul(x, x)"#, 1),
        (r#"def main(x: Tensor((1, 4), "f32"), w: Tensor((4, 4), "f32")): return matmul(x, w)"#, 2),
        (r#"def main(x: Tensor((4, 4), "f64"), w: Tensor((4, 4), "f64")): return matmul(x, w)"#, 2),
    ];
    for (text, params) in cases {
        let (head, value) = text.split_once(": return ").expect("a function on a line");
        let text = format!(
            "{head}:\n    with dataflow():\n        y = {value}\n        output(y)\n    return y\n"
        );
        let (folder, events) = (tempfile::tempdir().expect("a folder"), Events::default());
        let module = loaded(&text, With::Library, folder.path(), &events);
        let dtype = if text.contains("f64") { DType::F64 } else { DType::F32 };
        let zeros = |rows: i64| {
            let bytes = vec![0; (rows * 4) as usize * dtype.size()];
            Tensor::from_bytes(dtype, &[rows, 4], &bytes).expect("a tensor")
        };
        let first = zeros(if text.contains("(1, 4)") { 1 } else { 4 });
        let args: Vec<Tensor> = [first, zeros(4)].into_iter().take(params).collect();
        call(&module, &args);
        let seen = events.take();
        assert!(seen.contains(&Event::Launch) && !seen.contains(&Event::Multiply), "{seen:?}");
    }
}
