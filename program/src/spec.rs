//! Literals of values (SPEC), as the command's `--input` and the corpus directives write them.
//!
//! `[[1, 2], [3, 4]]`, `2.5`, `const([[1]], "u32")`, `zeros(4, 128)`, `zeros((0, 4), "i32")`,
//! `full((2, 3), 0.5)`, `arange(2, 3)`, `randn(4, 8)`, `shape(4, 2)`, tuples, `@file.npy`, and
//! IREE's `2x3xf32=1 2 3 4 5 6`. What the text leaves open (dtype, dims of a bare `randn`) comes
//! from the annotation of the parameter it is for.

mod fill;
mod iree;
mod literal;

pub(crate) use fill::shape_within;
pub use literal::{Typing, literal};

use relax_semantics::random::Random;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::ast::{Argument, Expr, ExprKind, UnaryOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::graph::Literals;
use relax_syntax::parse::parse_expression;
use relax_syntax::resolve::constant::{constant, number_of_expr};
use relax_syntax::span::Span;
use relax_syntax::suggest;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a SPEC has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SpecError {
    /// The part of the SPEC, in bytes of its text.
    pub span: Span,
    /// What was expected and found.
    pub message: String,
}

pub(crate) type Read<T> = Result<T, SpecError>;

/// The forms of a SPEC, for messages.
const FORMS: &str = "a SPEC is a literal `[[1, 2]]`, `zeros(2, 4)`, `ones(4)`, `full((2, 3), 0.5)`, `arange(4)`, `randn(2, 4)`, \
    `shape(4, 2)`, `const([[1]], \"u32\")`, `@file.npy` or `2x2xf32=1 2 3 4`";

/// A name that makes no value.
fn unknown(expr: &Expr, name: &str) -> SpecError {
    let known = fill::NAMES.into_iter().chain(["const", "shape"]);
    let meant = match name {
        "rand" | "random" | "normal" => vec!["randn"],
        "empty" => vec!["zeros"],
        "range" => vec!["arange"],
        _ => suggest::nearest(name, known),
    };
    let hint = match meant.first() {
        Some(_) => format!("did you mean {}?", suggest::quoted(&meant)),
        None => FORMS.to_owned(),
    };
    wrong(expr, &format!("`{name}` makes no value; {hint}"))
}

/// Reads a file named by `@path`.
pub type LoadFile<'a> = &'a dyn Fn(&str) -> Result<Tensor, String>;

/// What a SPEC may refer to besides its own text.
pub struct Context<'a> {
    /// Symbolic variables with a value (`--sym n=4`).
    pub dims: BTreeMap<Name, i64>,
    /// Of random elements.
    pub seed: u64,
    /// Bytes that one value may take.
    pub max_bytes: u64,
    /// Reads `@file.npy`; `None`: files are not allowed here.
    pub load: Option<LoadFile<'a>>,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self { dims: BTreeMap::new(), seed: 0, max_bytes: 4 << 30, load: None }
    }
}

impl Context<'_> {
    /// Reads a SPEC for a parameter called `name`, of which `target` is known.
    ///
    /// # Errors
    /// What is wrong with the text. Whether the value fits the annotation is checked where it is
    /// passed, not here.
    pub fn read(&self, name: &str, text: &str, target: Option<&Annotation>) -> Read<Value> {
        let trimmed = text.trim();
        if let Some(path) = trimmed.strip_prefix('@') {
            let load = self.load.ok_or_else(|| whole(text, "a file is not allowed here"))?;
            return load(path.trim()).map(Value::Tensor).map_err(|why| whole(text, &why));
        }
        if let Some(value) = iree::read(trimmed, self.max_bytes) {
            return value.map_err(|why| whole(text, &why));
        }
        let expr = parse_expression(text, 0).map_err(|diagnostic| SpecError {
            span: diagnostic.primary.span,
            message: match diagnostic.help {
                Some(help) => format!("{}; {help}", diagnostic.message),
                None => diagnostic.message,
            },
        })?;
        self.value(name, &expr, target)
    }

    /// As [`Context::read`], of a SPEC that is parsed already.
    ///
    /// # Errors
    /// As [`Context::read`].
    pub fn value(&self, name: &str, expr: &Expr, target: Option<&Annotation>) -> Read<Value> {
        match (&expr.kind, target) {
            (ExprKind::Tuple(items) | ExprKind::List(items), Some(Annotation::Shape(_))) => {
                self.dims_of(items).map(Value::Shape)
            }
            (ExprKind::Tuple(items), _) => self.tuple(name, items, target),
            (ExprKind::None, _) => Ok(Value::None),
            (ExprKind::Str(text), _) => Ok(Value::Str(text.clone())),
            (ExprKind::Name(function), Some(Annotation::Callable(_))) => {
                Ok(Value::Global(function.clone()))
            }
            (ExprKind::Name(filling), _) if fill::is_known(filling) => {
                self.fill(&Filling { name, filling, place: expr, arguments: &[], target })
            }
            (ExprKind::Name(other), _) if !matches!(other.as_str(), "inf" | "nan") => {
                Err(unknown(expr, other))
            }
            (ExprKind::Call { callee, arguments }, _) => {
                self.call(name, expr, callee, arguments, target)
            }
            (_, Some(Annotation::Prim(dtype))) => prim(expr, *dtype),
            _ => {
                let dtype = target.and_then(dtype_of).unwrap_or_else(|| likely_dtype(expr));
                tensor(expr, dtype).map(Value::Tensor)
            }
        }
    }

    fn tuple(&self, name: &str, items: &[Expr], target: Option<&Annotation>) -> Read<Value> {
        let targets = match target {
            Some(Annotation::Tuple(targets)) => targets.as_slice(),
            _ => &[],
        };
        let value =
            |(index, item)| self.value(&format!("{name}[{index}]"), item, targets.get(index));
        items.iter().enumerate().map(value).collect::<Read<_>>().map(Value::Tuple)
    }

    fn call(
        &self,
        name: &str,
        expr: &Expr,
        callee: &Expr,
        arguments: &[Argument],
        target: Option<&Annotation>,
    ) -> Read<Value> {
        let ExprKind::Name(called) = &callee.kind else {
            return Err(wrong(callee, "expected a name before the bracket"));
        };
        if let Some(argument) = arguments.iter().find(|argument| argument.keyword.is_some()) {
            return Err(wrong(&argument.value, "a value has no keyword arguments"));
        }
        match called.as_str() {
            "shape" => {
                let dims: Vec<Expr> = arguments.iter().map(|a| a.value.clone()).collect();
                self.dims_of(&dims).map(Value::Shape)
            }
            "const" => {
                let [value, dtype] = arguments else {
                    return Err(wrong(expr, "`const` takes a value and a dtype"));
                };
                tensor(&value.value, fill::dtype(&dtype.value)?).map(Value::Tensor)
            }
            filling if fill::is_known(filling) => {
                self.fill(&Filling { name, filling, place: expr, arguments, target })
            }
            other => Err(unknown(callee, other)),
        }
    }

    fn dims_of(&self, items: &[Expr]) -> Read<Vec<i64>> {
        items.iter().map(|item| self.dim(item)).collect()
    }

    /// A dim: an integer, or a symbolic variable with a value.
    fn dim(&self, expr: &Expr) -> Read<i64> {
        let value = match &expr.kind {
            ExprKind::Int(value) => *value,
            ExprKind::Name(name) => *self.dims.get(name).ok_or_else(|| {
                wrong(expr, &format!("`{name}` has no value: say --sym {name}=…"))
            })?,
            ExprKind::Unary(UnaryOp::Negate, _) => return Err(wrong(expr, "a dim is at least 0")),
            _ => return Err(wrong(expr, "expected a dim: an integer")),
        };
        if value < 0 { Err(wrong(expr, "a dim is at least 0")) } else { Ok(value) }
    }

    fn random(&self, name: &str) -> Random {
        Random::new(self.seed, name)
    }
}

/// `zeros(…)` and its like, on the way to a value.
struct Filling<'a> {
    /// Of the parameter.
    name: &'a str,
    filling: &'a str,
    place: &'a Expr,
    arguments: &'a [Argument],
    target: Option<&'a Annotation>,
}

fn dtype_of(target: &Annotation) -> Option<DType> {
    target.as_tensor().and_then(|tensor: &TensorType| tensor.dtype)
}

/// The dtype of a literal that nothing else tells: f32, i64 or bool by its first element.
fn likely_dtype(expr: &Expr) -> DType {
    let mut dtype = None;
    visit_elements(expr, &mut |element| {
        let found = match element.kind {
            ExprKind::Bool(_) => DType::Bool,
            ExprKind::Int(_) => DType::I64,
            ExprKind::BigInt(_) => DType::U64,
            ExprKind::Unary(..) if is_integer(element) => DType::I64,
            _ => DType::F32,
        };
        if dtype.is_none() || found == DType::F32 {
            dtype = Some(found);
        }
    });
    dtype.unwrap_or(DType::F32)
}

fn is_integer(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_) => true,
        ExprKind::Unary(UnaryOp::Negate, operand) => is_integer(operand),
        _ => false,
    }
}

fn visit_elements(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    match &expr.kind {
        ExprKind::List(items) => items.iter().for_each(|item| visit_elements(item, visit)),
        _ => visit(expr),
    }
}

fn tensor(expr: &Expr, dtype: DType) -> Read<Tensor> {
    let constant = constant(expr, dtype).map_err(|diagnostic| SpecError {
        span: diagnostic.primary.span,
        message: diagnostic.message,
    })?;
    let shape = ndarray::IxDyn(&constant.shape);
    let mismatch = |_| wrong(expr, "the lists form no box");
    Ok(match constant.data {
        Literals::Float(values) => Tensor::from_floats(
            dtype,
            ndarray::ArrayD::from_shape_vec(shape, values).map_err(mismatch)?,
        ),
        Literals::Int(values) => Tensor::from_ints(
            dtype,
            ndarray::ArrayD::from_shape_vec(shape, values).map_err(mismatch)?,
        ),
    })
}

fn prim(expr: &Expr, dtype: DType) -> Read<Value> {
    let scalar = tensor(expr, dtype)?;
    if scalar.rank() != 0 {
        return Err(wrong(expr, "expected a scalar, found a list"));
    }
    Ok(Value::Prim(dtype, scalar.number(0)))
}

/// The number that `full` repeats, in the domain of the dtype.
fn number(expr: &Expr, dtype: DType) -> Read<Number> {
    if number_of_expr(expr).is_none() && !matches!(expr.kind, ExprKind::Bool(_)) {
        return Err(wrong(expr, "expected a number"));
    }
    tensor(expr, dtype).map(|scalar| scalar.number(0))
}

pub(crate) fn wrong(expr: &Expr, message: &str) -> SpecError {
    SpecError { span: expr.span, message: message.to_owned() }
}

fn whole(text: &str, message: &str) -> SpecError {
    SpecError { span: Span::new(0, text.len()), message: message.to_owned() }
}

#[cfg(test)]
mod tests;
