//! Arguments of a signature: sizes of its symbolic variables, and random values of these sizes.

use relax_semantics::random::{Random, Range};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{DimVar, Function};
use std::collections::BTreeMap;

/// Values of symbolic variables.
pub type Dims = BTreeMap<Name, i64>;

/// Binds the variables that stand alone in an annotation to the dims of a value, as a call does.
pub fn bind(annotation: &Annotation, value: &Value, dims: &mut Dims) {
    match (annotation, value) {
        (Annotation::Tuple(annotations), Value::Tuple(values)) => {
            for (annotation, value) in annotations.iter().zip(values) {
                bind(annotation, value, dims);
            }
        }
        (Annotation::Shape(extents), Value::Shape(actual)) => bind_dims(extents, actual, dims),
        (annotation, Value::Tensor(tensor)) => bind_shape(annotation, tensor.shape(), dims),
        _ => {}
    }
}

/// As [`bind`], of a tensor of this shape.
pub fn bind_shape(annotation: &Annotation, shape: &[usize], dims: &mut Dims) {
    let actual: Vec<i64> = shape.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
    if let Some(tensor) = annotation.as_tensor() {
        bind_dims(&tensor.extents, &actual, dims);
    }
}

fn bind_dims(extents: &Extents, actual: &[i64], dims: &mut Dims) {
    for (dim, &value) in extents.dims().unwrap_or_default().iter().zip(actual) {
        if let Dim::Var(name) = dim {
            dims.entry(name.clone()).or_insert(value);
        }
    }
}

/// A random value of an annotation whose variables have values.
///
/// # Errors
/// A variable without a value, a dim that is negative, more than `max_bytes`, or an annotation that
/// says too little.
pub fn random_value(
    annotation: &Annotation,
    dims: &Dims,
    random: &mut Random,
    ints: &Range,
    max_bytes: u64,
) -> Result<Value, String> {
    let value_of = |name: &Name| dims.get(name).copied();
    let known = |extents: &Extents| -> Result<Vec<i64>, String> {
        let dims = extents.dims().ok_or("its dims are not known")?;
        dims.iter().map(|dim| dim.eval(&value_of).map_err(|why| why.to_string())).collect()
    };
    match annotation {
        Annotation::Tensor(_) | Annotation::DTensor(_) => {
            let tensor = annotation.as_tensor().ok_or("it is no tensor")?;
            let dtype = tensor.dtype.ok_or("its dtype is not known")?;
            let shape = crate::spec::shape_within(&known(&tensor.extents)?, dtype, max_bytes)?;
            Ok(Value::Tensor(random.tensor(dtype, &shape, ints)))
        }
        Annotation::Shape(extents) => {
            let shape = known(extents)?;
            if shape.iter().any(|&dim| dim < 0) {
                return Err("a dim would be negative".to_owned());
            }
            Ok(Value::Shape(shape))
        }
        Annotation::Prim(dtype) => Ok(random_prim(*dtype, random, ints)),
        Annotation::Tuple(items) => items
            .iter()
            .map(|item| random_value(item, dims, random, ints, max_bytes))
            .collect::<Result<_, _>>()
            .map(Value::Tuple),
        Annotation::Object | Annotation::Callable(_) => {
            Err(format!("there are no random values of {annotation}"))
        }
    }
}

fn random_prim(dtype: DType, random: &mut Random, ints: &Range) -> Value {
    let scalar: Tensor = random.tensor(dtype, &[], ints);
    let number: Number = scalar.number(0);
    Value::Prim(dtype, number)
}

/// Sizes that find bugs: nothing, one, primes, a power of two and its neighbours.
const SIZES: [i64; 9] = [0, 1, 2, 3, 4, 5, 7, 8, 9];

/// Random values for the variables that a signature binds, within their declared bounds.
#[must_use]
pub fn random_dims(function: &Function, random: &mut Random) -> Dims {
    let variables = function.dims.iter().filter(|dim| dim.in_signature);
    variables.map(|variable| (variable.name.clone(), random_dim(variable, random))).collect()
}

/// The value of a variable that comes nearest to `size` from above its least one, within its
/// declared bounds; sizes count in its declared steps.
#[must_use]
pub fn dim_of_size(variable: &DimVar, size: i64) -> i64 {
    let low = variable.lower.unwrap_or(0).max(0);
    let high = variable.upper.unwrap_or(i64::MAX);
    let step = variable.multiple_of.unwrap_or(1).max(1);
    // The least multiple in bounds, and some steps above it.
    let least = low.checked_add(step - 1).map_or(low, |sum| sum / step * step);
    let value = least.saturating_add(size.saturating_mul(step));
    if value <= high { value } else { high / step * step }
}

fn random_dim(variable: &DimVar, random: &mut Random) -> i64 {
    let last = i64::try_from(SIZES.len() - 1).expect("invariant: the table is short");
    let index = usize::try_from(random.int(&(0..=last))).unwrap_or(0);
    dim_of_size(variable, SIZES[index])
}
