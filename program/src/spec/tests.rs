//! Tests of the SPEC parser: every form, and every error.

use super::*;
use relax_semantics::show::show_tensor;
use relax_syntax::annotation::Extents;
use relax_syntax::dim::Dim;

fn f32_matrix() -> Annotation {
    Annotation::tensor(vec![Dim::var("n"), Dim::Int(2)], DType::F32)
}

fn read(text: &str, target: Option<&Annotation>) -> Value {
    Context::default().read("x", text, target).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn tensor_of(text: &str, target: Option<&Annotation>) -> Tensor {
    match read(text, target) {
        Value::Tensor(tensor) => tensor,
        other => panic!("{text}: {}", other.kind()),
    }
}

fn refusal(text: &str, target: Option<&Annotation>) -> String {
    match Context::default().read("x", text, target) {
        Ok(value) => panic!("{text}: accepted as {}", value.kind()),
        Err(why) => why.message,
    }
}

/// `dtype shape elements` of a tensor.
fn summary(tensor: &Tensor) -> String {
    format!("{} {:?} {}", tensor.dtype(), tensor.shape(), show_tensor(tensor).replace('\n', ""))
}

#[test]
fn literals_take_the_dtype_of_the_annotation_or_a_likely_one() {
    let target = f32_matrix();
    assert_eq!(summary(&tensor_of("[[1, 2]]", Some(&target))), "f32 [1, 2] [[1. 2.]]");
    assert_eq!(summary(&tensor_of("[1, 2]", None)), "i64 [2] [1 2]");
    assert_eq!(summary(&tensor_of("[1, 2.5]", None)), "f32 [2] [1.  2.5]");
    assert_eq!(summary(&tensor_of("-2", None)), "i64 [] -2");
    assert_eq!(summary(&tensor_of("True", None)), "bool [] True");
    assert_eq!(summary(&tensor_of("[-inf, nan]", None)), "f32 [2] [-inf  nan]");
    let typed = tensor_of("const([[1]], \"u32\")", Some(&target));
    assert_eq!(summary(&typed), "u32 [1, 1] [[1]]");
    let half = Annotation::tensor(vec![Dim::Int(1)], DType::F16);
    // Just above a tie of f16: rounding through f32 would lose it.
    let value = tensor_of("[1.0004882812500002]", Some(&half));
    assert_eq!(value.number(0), Number::Float(1.0009765625));
}

#[test]
fn fillings_take_dims_in_every_form() {
    assert_eq!(summary(&tensor_of("zeros(2, 1)", None)), "f32 [2, 1] [[0.] [0.]]");
    assert_eq!(tensor_of("zeros((0, 4), \"i32\")", None).shape(), [0, 4]);
    assert_eq!(tensor_of("zeros(0)", None).shape(), [0]);
    assert_eq!(summary(&tensor_of("full((1, 2), 0.5)", None)), "f32 [1, 2] [[0.5 0.5]]");
    assert_eq!(summary(&tensor_of("full(2, 7)", None)), "i64 [2] [7 7]");
    assert_eq!(summary(&tensor_of("arange(2, 3)", None)), "i64 [2, 3] [[0 1 2] [3 4 5]]");
    let target = f32_matrix();
    assert_eq!(summary(&tensor_of("arange(1, 2)", Some(&target))), "f32 [1, 2] [[0. 1.]]");
    assert_eq!(tensor_of("randn(4, 8)", None).shape(), [4, 8]);
    assert!(tensor_of("randn(9)", None).same_as(&tensor_of("randn(9)", None)));
}

#[test]
fn bare_fillings_take_the_dims_of_the_parameter() {
    let target = f32_matrix();
    let context = Context { dims: [("n".into(), 3)].into(), ..Context::default() };
    let Ok(Value::Tensor(tensor)) = context.read("x", "randn", Some(&target)) else {
        panic!("randn with dims from --sym is a tensor")
    };
    assert_eq!(tensor.shape(), [3, 2]);
    assert!(refusal("randn", Some(&target)).contains("--sym"));
    assert!(refusal("zeros", None).contains("dims are not known"));
}

#[test]
fn other_values() {
    let shape = Annotation::Shape(Extents::Unknown);
    assert!(matches!(read("shape(4, 2)", None), Value::Shape(dims) if dims == [4, 2]));
    assert!(matches!(read("[4, 2]", Some(&shape)), Value::Shape(dims) if dims == [4, 2]));
    let prim = Annotation::Prim(DType::I64);
    assert!(matches!(read("3", Some(&prim)), Value::Prim(DType::I64, Number::Int(3))));
    assert!(matches!(read("(1, [2])", None), Value::Tuple(items) if items.len() == 2));
    let callable = Annotation::Callable(None);
    assert!(matches!(read("f", Some(&callable)), Value::Global(name) if name == "f"));
}

#[test]
fn values_of_iree() {
    assert_eq!(summary(&tensor_of("2x2xf32=1 2 3 4", None)), "f32 [2, 2] [[1. 2.] [3. 4.]]");
    assert_eq!(summary(&tensor_of("2x2xi32=[1 2][3 4]", None)), "i32 [2, 2] [[1 2] [3 4]]");
    assert_eq!(summary(&tensor_of("3xf16=1.5", None)), "f16 [3] [1.5 1.5 1.5]");
    assert_eq!(summary(&tensor_of("f32=2", None)), "f32 [] 2.0");
    assert_eq!(tensor_of("0x3xf32", None).shape(), [0, 3]);
    assert!(refusal("2xf32=1 2 3", None).contains("expected 2 elements"));
    assert!(refusal("2xu8=1 300", None).contains("no element of dtype u8"));
}

#[test]
fn refusals_say_why() {
    assert!(refusal("zeros(1000000000, 1000000000, 1000)", None).contains("bytes"));
    assert!(refusal("zeros(0, 9223372036854775807, 9)", None).contains("bytes"));
    assert!(refusal("zeros(-1)", None).contains("at least 0"));
    assert!(refusal("[[1], [2, 3]]", None).contains("expected 1 elements"));
    assert!(refusal("randn(2, \"i32\")", None).contains("randn"));
    assert!(refusal("zeros((2,), \"float99\")", None).contains("no dtype"));
    assert!(refusal("const([300], \"u8\")", None).contains("does not fit"));
    assert!(refusal("normal(2)", None).contains("makes no value"));
    assert!(refusal("@x.npy", None).contains("not allowed"));
    assert!(refusal("", None).contains("expected"));
    assert!(refusal(&"[".repeat(100_000), None).len() < 500);
}

#[test]
fn literals_read_back() {
    for text in ["[[1.0, -0.0], [nan, 1e-10]]", "3.0", "(shape(2), [True])", "zeros(0, 2)"] {
        let value = read(text, None);
        assert_eq!(literal(&value, Typing::Left).as_deref(), Some(text));
        let written = literal(&value, Typing::Written).expect("these values have a text");
        assert_eq!(literal(&read(&written, None), Typing::Left).as_deref(), Some(text));
    }
}
