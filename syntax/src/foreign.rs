//! Names that people bring from PyTorch, NumPy, ONNX and TensorFlow, and what is written here.
//!
//! Names of operators are text in suggestions only; a test of the operator table checks them.

use crate::ast::BinaryOp;
use crate::dtype::DType;

/// What stands for a name of another framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// An operator that takes the same leading arguments.
    Operator(&'static str),
    /// Another form, as a person would write it.
    Form(&'static str),
}

use Ours::{Form, Operator};

/// Modules whose members are looked up without them.
const MODULES: &[&str] = &[
    "torch.nn.functional.",
    "torch.linalg.",
    "torch.nn.",
    "torch.",
    "np.linalg.",
    "numpy.",
    "np.",
    "jax.numpy.",
    "jax.nn.",
    "jax.lax.",
    "jnp.",
    "tf.nn.",
    "tf.math.",
    "tf.",
    "keras.layers.",
    "F.",
    "nn.",
    "relax.op.nn.",
    "relax.op.",
    "R.nn.",
    "R.",
];

/// Functions and layers.
pub const FUNCTIONS: &[(&str, Ours)] = &[
    ("cat", Operator("concat")),
    ("concatenate", Operator("concat")),
    ("hstack", Form("concat([a, b], axis=1)")),
    ("vstack", Form("concat([a, b], axis=0)")),
    ("mm", Operator("matmul")),
    ("bmm", Operator("matmul")),
    ("dot", Operator("matmul")),
    ("gemm", Operator("matmul")),
    ("inner", Operator("matmul")),
    ("linear", Form("add(matmul(x, w), b)")),
    ("dense", Form("add(matmul(x, w), b)")),
    ("fullyconnected", Form("add(matmul(x, w), b)")),
    ("addmm", Form("add(b, matmul(x, w))")),
    ("sub", Operator("subtract")),
    ("mul", Operator("multiply")),
    ("div", Operator("divide")),
    ("truediv", Operator("divide")),
    ("pow", Operator("power")),
    ("neg", Operator("negative")),
    ("absolute", Operator("abs")),
    ("fmod", Operator("mod")),
    ("remainder", Operator("floor_mod")),
    ("eq", Operator("equal")),
    ("ne", Operator("not_equal")),
    ("lt", Operator("less")),
    ("le", Operator("less_equal")),
    ("gt", Operator("greater")),
    ("ge", Operator("greater_equal")),
    ("arctan", Operator("atan")),
    ("arcsin", Operator("asin")),
    ("arccos", Operator("acos")),
    ("arctan2", Operator("atan2")),
    ("reciprocal", Form("divide(const(1.0, \"f32\"), x)")),
    ("clamp", Operator("clip")),
    ("reducesum", Operator("sum")),
    ("reducemean", Operator("mean")),
    ("reducemax", Operator("max")),
    ("reducemin", Operator("min")),
    ("reduceprod", Operator("prod")),
    ("amax", Operator("max")),
    ("amin", Operator("min")),
    ("view", Operator("reshape")),
    ("permute", Operator("permute_dims")),
    ("swapaxes", Operator("permute_dims")),
    ("unsqueeze", Operator("expand_dims")),
    ("expand", Operator("broadcast_to")),
    ("embedding", Form("take(weight, indices, axis=0)")),
    ("gather", Operator("take")),
    ("select", Operator("where")),
    ("cast", Operator("astype")),
    ("to", Operator("astype")),
    ("type", Operator("astype")),
    ("swish", Operator("silu")),
    ("layernormalization", Operator("layer_norm")),
    ("scaleddotproductattention", Operator("attention")),
    ("multiheadattention", Operator("attention")),
    ("tensor", Form("const([1.0, 2.0], \"f32\")")),
    ("array", Form("const([1.0, 2.0], \"f32\")")),
    ("parameter", Form("param(\"name\", Tensor((4, 4), \"f32\"))")),
    ("shape", Operator("shape_of")),
];

/// Keyword arguments; several candidates, of which an operator has at most one.
pub const KEYWORDS: &[(&str, &str)] = &[
    ("dim", "axis"),
    ("dim", "axes"),
    ("dims", "axes"),
    ("dims", "axis"),
    ("axes", "axis"),
    ("axis", "axes"),
    ("keepdim", "keepdims"),
    ("keep_dims", "keepdims"),
    ("perm", "axes"),
    ("eps", "epsilon"),
    ("kernel_size", "pool_size"),
    ("stride", "strides"),
    ("pads", "padding"),
    ("dilations", "dilation"),
    ("newshape", "shape"),
    ("size", "shape"),
    ("to", "dtype"),
    ("input", "data"),
    ("input", "x"),
    ("other", "x2"),
];

/// Dtypes by names that are no dtype here.
pub const DTYPES: &[(&str, DType)] = &[
    ("float", DType::F32),
    ("single", DType::F32),
    ("fp32", DType::F32),
    ("double", DType::F64),
    ("fp64", DType::F64),
    ("half", DType::F16),
    ("fp16", DType::F16),
    ("int", DType::I32),
    ("long", DType::I64),
    ("short", DType::I16),
    ("char", DType::I8),
    ("byte", DType::U8),
    ("uint", DType::U32),
    ("boolean", DType::Bool),
];

/// What is written here for a function of another framework. Letters' case, underscores and the
/// names of modules do not count.
#[must_use]
pub fn function(name: &str) -> Option<Ours> {
    let plain = plain(name);
    FUNCTIONS.iter().find(|(foreign, _)| *foreign == plain).map(|(_, ours)| *ours)
}

/// A name without the module of another framework.
#[must_use]
pub fn without_module(name: &str) -> &str {
    MODULES.iter().find_map(|module| name.strip_prefix(module)).unwrap_or(name)
}

/// A name in small letters, without underscores and the module of another framework.
#[must_use]
pub fn plain(name: &str) -> String {
    without_module(name).chars().filter(|&c| c != '_').flat_map(char::to_lowercase).collect()
}

/// What a keyword of another framework may be called here.
pub fn keywords(name: &str) -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().filter(move |(foreign, _)| *foreign == name).map(|(_, ours)| *ours)
}

/// The dtype that a name of another framework means: `float`, `torch.float32`.
#[must_use]
pub fn dtype(name: &str) -> Option<DType> {
    let name = without_module(name);
    let foreign = || DTYPES.iter().find(|(foreign, _)| *foreign == name).map(|(_, ours)| *ours);
    DType::parse(name).or_else(foreign)
}

/// The operator on tensors that an infix operator means.
#[must_use]
pub fn infix(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Or => "logical_or",
        BinaryOp::And => "logical_and",
        BinaryOp::Equal => "equal",
        BinaryOp::NotEqual => "not_equal",
        BinaryOp::Less => "less",
        BinaryOp::LessEqual => "less_equal",
        BinaryOp::Greater => "greater",
        BinaryOp::GreaterEqual => "greater_equal",
        BinaryOp::BitOr => "bitwise_or",
        BinaryOp::BitXor => "bitwise_xor",
        BinaryOp::BitAnd => "bitwise_and",
        BinaryOp::ShiftLeft => "left_shift",
        BinaryOp::ShiftRight => "right_shift",
        BinaryOp::Add => "add",
        BinaryOp::Sub => "subtract",
        BinaryOp::Mul => "multiply",
        BinaryOp::Div => "divide",
        BinaryOp::FloorDiv => "floor_divide",
        BinaryOp::Mod => "floor_mod",
        BinaryOp::Power => "power",
        BinaryOp::MatMul => "matmul",
    }
}

/// What to do instead of a statement that another language begins with this word.
#[must_use]
pub fn statement(word: &str) -> Option<&'static str> {
    Some(match word {
        "import" | "from" => {
            "delete this line: there are no imports, every operator is known by its plain name"
        }
        "class" => {
            "there are no classes: write a function `def main(x: Tensor(...)):`, weights as parameters"
        }
        "while" => "recursion or `for` repeats",
        "assert" | "raise" | "try" | "lambda" | "async" | "del" | "global" => {
            "this statement of Python is not part of the language"
        }
        _ => return None,
    })
}
