//! Functions of elements.

use super::{ALL, Case, FLOATS, INTEGERS, NUMBERS, SIGNED, SMALL_NUMBERS, case};
use relax_semantics::concrete::Concrete;
use relax_semantics::ops::{self, Infer, Kind, Operand, Operator};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

const DTYPES: [&str; 9] = ["bf16", "f16", "f32", "f64", "i8", "i64", "u8", "u64", "bool"];

/// Calls of each elementwise row that has defaults for all but tensors: of tensors of one shape, and of a
/// last one that broadcasts.
pub(super) fn of_rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in ops::all().filter(|row| row.elementwise().is_some()) {
        let tensors = row.params.iter().filter(|param| param.kind == Kind::Tensor).count();
        let given = row.params.iter().filter(|param| param.default.is_none()).count();
        let same = vec!["nm"; tensors];
        let mut broadcast = same.clone();
        broadcast[tensors - 1] = "m";
        let forms = if tensors == 1 { vec![same] } else { vec![same, broadcast] };
        for shapes in forms.iter().filter(|_| given == tensors) {
            let accepted = DTYPES.into_iter().filter(|dtype| accepts(row, shapes, dtype));
            let dtypes: &[&str] = accepted.collect::<Vec<_>>().leak();
            if !dtypes.is_empty() {
                cases.push(of_row(row, shapes, dtypes));
            }
        }
    }
    cases
}

fn of_row(row: &'static Operator, shapes: &[&str], dtypes: &'static [&'static str]) -> Case {
    let names: Vec<String> = (0..shapes.len()).map(|at| format!("x{at}")).collect();
    let params = names.iter().zip(shapes).map(|(name, shape)| {
        let dims = shape.chars().map(|dim| format!("\"{dim}\", ")).collect::<String>();
        format!("{name}: Tensor(({dims}), DT)")
    });
    let params = params.collect::<Vec<_>>().join(", ").leak();
    let call = format!("{}({})", row.short_name(), names.join(", ")).leak();
    case(row.name, params, call, dtypes)
}

fn accepts(row: &'static Operator, shapes: &[&str], dtype: &str) -> bool {
    let dtype = DType::parse(dtype).expect("a dtype");
    let tensors = shapes.iter().map(|shape| {
        let dims = shape.chars().map(|dim| Dim::var(dim.to_string().as_str())).collect();
        Operand { annotation: Annotation::tensor(dims, dtype), known: None }
    });
    let defaults = row.params.iter().filter_map(|param| param.default);
    let defaults = defaults.map(|literal| Operand::of_known(literal.known()));
    let operands: Vec<Operand> = tensors.chain(defaults).collect();
    let (facts, obligations) = (&mut Concrete, Vec::new());
    let mut infer = Infer { row, operands: &operands, facts, obligations, module: None };
    (row.infer)(&mut infer).is_ok()
}

pub(super) const CASES: &[Case] = &[
    case("clip", "x: Tensor((\"n\", \"m\"), DT)", "clip(x, 0, 3)", NUMBERS),
    case("clip", "x: Tensor((\"n\", \"m\"), DT)", "clip(x, 5, 1)", NUMBERS),
    case("clip", "x: Tensor((\"n\", \"m\"), DT)", "clip(x, -0.25, 0.1)", FLOATS),
    case(
        "left_shift",
        "x: Tensor((\"n\", \"m\"), DT), w: Tensor((\"n\", 1), DT)",
        "left_shift(x, w)",
        INTEGERS,
    ),
    case(
        "left_shift",
        "x: Tensor((\"n\",), DT)",
        "left_shift(bitwise_not(x), bitwise_not(x))",
        INTEGERS,
    ),
    case(
        "right_shift",
        "x: Tensor((\"n\", \"m\"), DT), w: Tensor((\"n\", 1), DT)",
        "right_shift(x, w)",
        INTEGERS,
    ),
    case(
        "right_shift",
        "x: Tensor((\"n\",), DT)",
        "right_shift(bitwise_not(x), bitwise_not(x))",
        INTEGERS,
    ),
    case("divide", "x: Tensor((\"n\",), DT)", "divide(x, const(-1, DT))", SIGNED),
    case(
        "floor_divide",
        "x: Tensor((\"n\",), DT)",
        "floor_divide(bitwise_not(x), floor_mod(x, const(2, DT)))",
        INTEGERS,
    ),
    case("power", "x: Tensor((\"n\",), DT)", "power(bitwise_not(x), clip(x, 0, 7))", INTEGERS),
    case("divide", "x: Tensor((\"n\", \"m\"), DT)", "divide(x, const([3], DT))", INTEGERS),
    case("divide", "x: Tensor((\"n\", \"m\"), DT)", "divide(x, const(-3, DT))", SIGNED),
    case(
        "floor_divide",
        "x: Tensor((\"n\", \"m\"), DT)",
        "floor_divide(x, const([3], DT))",
        INTEGERS,
    ),
    case("floor_divide", "x: Tensor((\"n\", \"m\"), DT)", "floor_divide(x, const(-3, DT))", SIGNED),
    case("floor_mod", "x: Tensor((\"n\", \"m\"), DT)", "floor_mod(x, const([3], DT))", INTEGERS),
    case("floor_mod", "x: Tensor((\"n\", \"m\"), DT)", "floor_mod(x, const(-3, DT))", SIGNED),
    case("mod", "x: Tensor((\"n\", \"m\"), DT)", "mod(x, const([3], DT))", INTEGERS),
    case("mod", "x: Tensor((\"n\", \"m\"), DT)", "mod(x, const(-3, DT))", SIGNED),
    case("left_shift", "x: Tensor((\"n\", \"m\"), DT)", "left_shift(x, const([3], DT))", INTEGERS),
    case(
        "right_shift",
        "x: Tensor((\"n\", \"m\"), DT)",
        "right_shift(x, const([3], DT))",
        INTEGERS,
    ),
    case(
        "where",
        "c: Tensor((\"n\", 1), \"bool\"), a: Tensor((\"n\", \"m\"), DT), b: Tensor((\"n\", \"m\"), DT)",
        "where(c, a, b)",
        ALL,
    ),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"f16\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"bf16\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"f32\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"f64\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"i8\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"i64\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"u8\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"u64\")", ALL),
    case("astype", "x: Tensor((\"n\", \"m\"), DT)", "astype(x, \"bool\")", ALL),
    case("nn.leakyrelu", "x: Tensor((\"n\", \"m\"), DT)", "leakyrelu(x, alpha=-0.3)", FLOATS),
    case(
        "nn.softplus",
        "x: Tensor((\"n\", \"m\"), DT)",
        "softplus(x, beta=2.5, threshold=1.0)",
        FLOATS,
    ),
    case(
        "nn.prelu",
        "x: Tensor((\"n\", \"m\"), DT), a: Tensor((\"m\",), DT)",
        "prelu(x, a)",
        FLOATS,
    ),
    case(
        "nn.prelu",
        "x: Tensor((\"n\", \"m\"), DT), a: Tensor((1,), DT)",
        "prelu(x, a, axis=0)",
        FLOATS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"i8\")",
        "quantize(x, s, z)",
        FLOATS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"i8\")",
        "quantize(x, s, z, 0, \"u16\")",
        FLOATS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i8\")",
        "dequantize(x, s, z)",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i8\")",
        "dequantize(x, s, z, -1, \"f16\")",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i8\")",
        "dequantize(x, s, z, 1, \"bf16\")",
        SMALL_NUMBERS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"i32\")",
        "quantize(x, s, z)",
        FLOATS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"i32\")",
        "quantize(x, s, z, 0, \"u16\")",
        FLOATS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i32\")",
        "dequantize(x, s, z)",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i32\")",
        "dequantize(x, s, z, -1, \"f16\")",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"i32\")",
        "dequantize(x, s, z, 1, \"bf16\")",
        SMALL_NUMBERS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"f16\")",
        "quantize(x, s, z)",
        FLOATS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((), \"f32\"), z: Tensor((1,), \"f16\")",
        "quantize(x, s, z, 0, \"u16\")",
        FLOATS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"f16\")",
        "dequantize(x, s, z)",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"f16\")",
        "dequantize(x, s, z, -1, \"f16\")",
        SMALL_NUMBERS,
    ),
    case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"m\",), \"f16\"), z: Tensor((), \"f16\")",
        "dequantize(x, s, z, 1, \"bf16\")",
        SMALL_NUMBERS,
    ),
    case(
        "quantize",
        "x: Tensor((\"n\", \"m\"), DT), s: Tensor((\"n\",), DT), z: Tensor((\"n\",), \"u8\")",
        "quantize(x, s, z, 0, \"u8\")",
        FLOATS,
    ),
];
