//! Parameters, buffers and constants of a model: small ones stand in the description, others in a safetensors file beside it.

use super::description::{Description, StoredWeight};
use super::walk::{Walk, dtype};
use crate::elements::of_bytes;
use crate::reason::ImportError;
use ndarray::{ArrayD, IxDyn};
use relax_program::tensor_files::{FileError, Weights};
use relax_semantics::tensor::Tensor;
use serde_json::Value;

impl<'d> Walk<'d> {
    /// Small weights are constants of the text, others stay in their file until somebody asks for their elements.
    pub(super) fn weights(&mut self, description: &'d Description) -> Result<(), ImportError> {
        let malformed = ImportError::Malformed;
        let stored = description.weights.iter().filter(|weight| weight.data.is_none());
        let keys: Vec<String> = stored.map(|weight| weight.key.clone()).collect();
        let mut tensors = Vec::new().into_iter();
        if !keys.is_empty() {
            let file = description.weights_file.as_deref().unwrap_or_default();
            let is_name = !file.is_empty() && !file.contains(['/', '\\']) && file != "..";
            let Some(folder) = self.options.folder.as_deref().filter(|_| is_name) else {
                return Err(malformed(format!(
                    "`weights_file` must name a file in the folder of the description, found {file:?}"
                )));
            };
            let weights = Weights::open_within(&folder.join(file), self.options.max_bytes);
            let weights = weights.map_err(|error| match error {
                FileError::Wrong(why) => malformed(why),
                FileError::Limit(why) => ImportError::Limit(why),
            })?;
            tensors = weights.tensors(&keys).map_err(malformed)?.into_iter();
        }
        for weight in &description.weights {
            let tensor = match &weight.data {
                Some(data) => inline(weight, data).map_err(malformed)?,
                None => tensors.next().expect("invariant: one tensor a key"),
            };
            let stated = dtype(&weight.dtype).ok();
            if stated != Some(tensor.dtype()) || tensor.shape() != weight.shape {
                return Err(malformed(format!(
                    "the weight `{}` is {:?} of {} in the description, and {:?} of {} in its file",
                    weight.key,
                    weight.shape,
                    weight.dtype,
                    tensor.shape(),
                    tensor.dtype()
                )));
            }
            let value = self.builder.constant(tensor);
            self.builder.values[value.0].hint = Some(weight.key.clone());
            self.define(&weight.name, Some(value))
                .map_err(|_| malformed(format!("two values are named `{}`", weight.name)))?;
        }
        Ok(())
    }
}

fn inline(weight: &StoredWeight, data: &[Value]) -> Result<Tensor, String> {
    let unknown = |_| format!("the dtype {} of `{}`", weight.dtype, weight.key);
    let dtype = dtype(&weight.dtype).map_err(unknown)?;
    let count = weight.shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent));
    if count != Some(data.len()) {
        return Err(format!("`{}` has {} elements for its shape", weight.key, data.len()));
    }
    if data.is_empty() {
        return Ok(of_bytes(dtype, &weight.shape, &[]));
    }
    let wrong = |value: &Value| format!("`{}`: {value} is no element of {dtype}", weight.key);
    let shape = IxDyn(&weight.shape);
    let fits = "invariant: the elements were counted";
    if dtype.is_float() {
        let float = |value: &Value| match value {
            Value::Number(number) => number.as_f64().ok_or_else(|| wrong(value)),
            Value::String(text) => text.parse::<f64>().map_err(|_| wrong(value)),
            _ => Err(wrong(value)),
        };
        let floats = data.iter().map(float).collect::<Result<Vec<f64>, _>>()?;
        return Ok(Tensor::from_floats(dtype, ArrayD::from_shape_vec(shape, floats).expect(fits)));
    }
    let int = |value: &Value| match value {
        Value::Bool(flag) => Ok((*flag).into()),
        Value::Number(number) => number.as_i128().ok_or_else(|| wrong(value)),
        _ => Err(wrong(value)),
    };
    let ints = data.iter().map(int).collect::<Result<Vec<i128>, _>>()?;
    Ok(Tensor::from_ints(dtype, ArrayD::from_shape_vec(shape, ints).expect(fits)))
}
