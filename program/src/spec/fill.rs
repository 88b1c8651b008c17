//! Filled tensors: `zeros`, `ones`, `full`, `arange` and `randn`, given by dims and a rule.

use super::{Context, Filling, Read, dtype_of, number, wrong};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::ast::{Expr, ExprKind};
use relax_syntax::dtype::DType;

/// What may stand before the bracket.
pub(super) const NAMES: [&str; 5] = ["zeros", "ones", "full", "arange", "randn"];

pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// A dtype in quotes.
pub(super) fn dtype(expr: &Expr) -> Read<DType> {
    match &expr.kind {
        ExprKind::Str(text) => DType::parse(text)
            .ok_or_else(|| wrong(expr, &format!("`{text}` is no dtype; write f32, i64, bool, …"))),
        _ => Err(wrong(expr, "expected a dtype in quotes, such as \"f32\"")),
    }
}

/// What the arguments of a filling say.
struct Said<'a> {
    dims: Option<Vec<i64>>,
    number: Option<&'a Expr>,
    dtype: Option<DType>,
}

impl Context<'_> {
    pub(super) fn fill(&self, filling: &Filling) -> Read<Value> {
        let said = self.said(filling)?;
        let dims = match said.dims {
            Some(dims) => dims,
            None => self.dims_of_target(filling)?,
        };
        let dtype = said
            .dtype
            .or_else(|| filling.target.and_then(dtype_of))
            .unwrap_or_else(|| default_dtype(filling.filling, said.number));
        let shape = self.shape_within_limit(filling.place, &dims, dtype)?;
        self.elements(filling, dtype, &shape, said.number).map(Value::Tensor)
    }

    fn elements(
        &self,
        filling: &Filling,
        dtype: DType,
        shape: &[usize],
        repeated: Option<&Expr>,
    ) -> Read<Tensor> {
        Ok(match filling.filling {
            "zeros" => Tensor::full(dtype, shape, Number::Int(0)),
            "ones" => Tensor::full(dtype, shape, Number::Int(1)),
            "arange" => counting(dtype, shape),
            "full" => {
                let repeated = repeated
                    .ok_or_else(|| wrong(filling.place, "`full` takes dims and a number"))?;
                Tensor::full(dtype, shape, number(repeated, dtype)?)
            }
            _ if !dtype.is_float() => {
                let message = format!("`randn` gives floats, and the dtype here is {dtype}");
                return Err(wrong(filling.place, &message));
            }
            _ => self.random(filling.name).normal_tensor(dtype, shape),
        })
    }

    /// `zeros(4, 128)`, `zeros((4, 128))`, `zeros((4, 128), "i32")`, `full((4, 128), 0.5, "f16")`.
    fn said<'e>(&self, filling: &Filling<'e>) -> Read<Said<'e>> {
        let mut items: Vec<&Expr> = filling.arguments.iter().map(|a| &a.value).collect();
        let mut said = Said { dims: None, number: None, dtype: None };
        if let Some(last) = items.last().filter(|last| matches!(last.kind, ExprKind::Str(_))) {
            said.dtype = Some(dtype(last)?);
            items.pop();
        }
        if filling.filling == "full" {
            said.number = items.pop();
        }
        let bare = matches!(filling.place.kind, ExprKind::Name(_));
        said.dims = match items.as_slice() {
            [] if bare || filling.filling == "full" => None,
            [one] => Some(self.dims_argument(one)?),
            several => Some(several.iter().map(|item| self.dim(item)).collect::<Read<_>>()?),
        };
        Ok(said)
    }

    fn dims_argument(&self, expr: &Expr) -> Read<Vec<i64>> {
        match &expr.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => self.dims_of(items),
            ExprKind::Call { callee, arguments } if matches!(&callee.kind, ExprKind::Name(name) if name == "shape") => {
                arguments.iter().map(|argument| self.dim(&argument.value)).collect()
            }
            _ => self.dim(expr).map(|dim| vec![dim]),
        }
    }

    /// The dims of the parameter, every symbolic variable replaced by its value.
    fn dims_of_target(&self, filling: &Filling) -> Read<Vec<i64>> {
        let known = filling.target.and_then(Annotation::as_tensor).and_then(|t| t.extents.dims());
        let Some(dims) = known else {
            let message = format!("the dims are not known here: write {}(…)", filling.filling);
            return Err(wrong(filling.place, &message));
        };
        let value_of = |name: &relax_syntax::Name| self.dims.get(name).copied();
        let eval = |dim: &relax_syntax::dim::Dim| match dim.eval(&value_of) {
            Ok(value) if value >= 0 => Ok(value),
            Ok(value) => Err(wrong(filling.place, &format!("the dim `{dim}` is {value} here"))),
            Err(why) => Err(wrong(filling.place, &format!("{why}: give it with --sym"))),
        };
        dims.iter().map(eval).collect()
    }

    fn shape_within_limit(&self, place: &Expr, dims: &[i64], dtype: DType) -> Read<Vec<usize>> {
        shape_within(dims, dtype, self.max_bytes).map_err(|message| wrong(place, &message))
    }
}

/// Dims as a shape, when a tensor of them takes no more than `max_bytes`.
pub(crate) fn shape_within(dims: &[i64], dtype: DType, max: u64) -> Result<Vec<usize>, String> {
    let too_large = || format!("a tensor of dims {dims:?} would take more than {max} bytes");
    // Zero dims hide the others: the product of the rest must fit an address space all the same.
    let factor = |dim: &i64| usize::try_from((*dim).max(1)).ok();
    let product = dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(factor(dim)?));
    let bytes = product.and_then(|count| count.checked_mul(dtype.size()));
    if bytes.and_then(|bytes| isize::try_from(bytes).ok()).is_none() {
        return Err(too_large());
    }
    if dims.iter().any(|&dim| dim < 0) {
        return Err(format!("the dims {dims:?} are not all at least 0"));
    }
    let empty = dims.contains(&0);
    if !empty && bytes.is_none_or(|bytes| bytes as u64 > max) {
        return Err(too_large());
    }
    dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| too_large())).collect()
}

/// 0, 1, 2, … in row-major order; integers beyond the dtype wrap around.
fn counting(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|index| index as i128).collect();
    let array = ndarray::ArrayD::from_shape_vec(ndarray::IxDyn(shape), values)
        .expect("invariant: as many values as the product of the shape");
    Tensor::from_ints(dtype, array)
}

/// Where neither text nor annotation says it: f32, but i64 for counting and for a whole number.
fn default_dtype(filling: &str, repeated: Option<&Expr>) -> DType {
    match filling {
        "arange" => DType::I64,
        "full" => repeated.map_or(DType::F32, super::likely_dtype),
        _ => DType::F32,
    }
}
