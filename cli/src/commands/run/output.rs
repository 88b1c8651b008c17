//! Results on their way into files and into JSON.

use crate::exit::Failure;
use crate::files::write_whole;
use relax_program::tensor_files::{write_npy, write_npz, write_safetensors};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::{Class, DType};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Writes every tensor of a value, by the names of outputs that the function has: `result`, or `result_0`, `result_1`, … of
/// a tuple, where it has none.
///
/// What is written depends on the extension: `.npz`, `.npy`, `.safetensors`; without one it is a
/// folder of `.npy` files. All is encoded before anything is written.
pub(super) fn write(path: &Path, value: &Value, names: &[Name]) -> Result<(), Failure> {
    let tensors = named(value, names).map_err(|why| Failure::usage(format!("--output: {why}")))?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let encoded = match extension {
        Some("npz") => write_npz(&tensors),
        Some("safetensors") => write_safetensors(&tensors),
        Some("npy") => match tensors.as_slice() {
            [(_, one)] => write_npy(one),
            several => {
                Err(format!("a .npy file holds one tensor, the result has {}", several.len()))
            }
        },
        None => return write_folder(path, &tensors),
        Some(other) => Err(format!("`.{other}` is none of .npz, .npy, .safetensors")),
    };
    let content = encoded.map_err(|why| Failure::usage(format!("--output: {why}")))?;
    write_whole(path, &content)
}

/// The tensors of a result, each with a name of its own.
fn named(value: &Value, names: &[Name]) -> Result<Vec<(String, Tensor)>, String> {
    let mut tensors = Vec::new();
    match (names, value) {
        ([], value) => collect("result", value, &mut tensors)?,
        ([one], value) => collect(one, value, &mut tensors)?,
        (names, Value::Tuple(items)) if items.len() == names.len() => {
            names
                .iter()
                .zip(items)
                .try_for_each(|(name, item)| collect(name, item, &mut tensors))?;
        }
        (names, _) => {
            return Err(format!("the function names {} outputs and gives others", names.len()));
        }
    }
    unique(tensors.iter().map(|(name, _)| name.clone()))?;
    Ok(tensors)
}

fn unique(names: impl Iterator<Item = String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!("two outputs are named `{name}`"));
        }
        seen.insert(name);
    }
    Ok(())
}

/// A name as that of a file in a folder, whatever a model calls its outputs.
fn file_name(name: &str) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    format!("{}.npy", name.chars().map(of).collect::<String>())
}

fn write_folder(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), Failure> {
    unique(tensors.iter().map(|(name, _)| file_name(name)))
        .map_err(|why| Failure::usage(format!("--output: {why}; write a .npz file")))?;
    let encode = |(name, tensor): &(String, Tensor)| {
        write_npy(tensor)
            .map(|content| (path.join(file_name(name)), content))
            .map_err(|why| Failure::usage(format!("--output: {name}: {why}")))
    };
    let files: Vec<_> = tensors.iter().map(encode).collect::<Result<_, _>>()?;
    std::fs::create_dir_all(path).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}: {error}", path.display()))
    })?;
    files.iter().try_for_each(|(file, content)| write_whole(file, content))
}

/// The tensors of a value, named after it.
pub(in crate::commands) fn collect(
    name: &str,
    value: &Value,
    tensors: &mut Vec<(String, Tensor)>,
) -> Result<(), String> {
    let tensor = match value {
        Value::Tensor(tensor) if tensor.undefined_elements().is_some() => {
            return Err(format!("{name} has elements that nothing has written"));
        }
        Value::Tensor(tensor) => tensor.clone(),
        Value::Tuple(items) => {
            return items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| collect(&format!("{name}_{index}"), item, tensors));
        }
        Value::Shape(dims) => {
            let values = dims.iter().map(|&dim| i128::from(dim)).collect::<Vec<_>>();
            Tensor::from_ints(DType::I64, ndarray::Array1::from_vec(values).into_dyn())
        }
        Value::Prim(dtype, number) => Tensor::scalar(*dtype, *number),
        other => {
            return Err(format!("{name} is {}, which has no elements", other.kind()));
        }
    };
    tensors.push((name.to_owned(), tensor));
    Ok(())
}

/// The result as a line of JSON. Numbers that JSON has not are strings: `"nan"`, `"inf"`.
pub(super) fn json_line(value: &Value, names: &[Name]) -> String {
    let mut line = json!({ "type": "result", "value": json_value(value) });
    if !names.is_empty() {
        line["outputs"] = json!(names.iter().map(Name::as_str).collect::<Vec<_>>());
    }
    format!("{line}\n")
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::Tensor(tensor) => {
            let undefined = tensor.undefined_elements();
            let element = |position| {
                if undefined.is_some_and(|mask| mask[position]) {
                    return Json::Null;
                }
                json_number(tensor.dtype(), tensor.number(position))
            };
            json!({
                "kind": "tensor",
                "dtype": tensor.dtype().name(),
                "shape": tensor.shape(),
                "elements": (0..tensor.len()).map(element).collect::<Vec<_>>(),
            })
        }
        Value::Shape(dims) => json!({ "kind": "shape", "dims": dims }),
        Value::Tuple(items) => {
            json!({ "kind": "tuple", "items": items.iter().map(json_value).collect::<Vec<_>>() })
        }
        Value::Prim(dtype, number) => {
            json!({ "kind": "prim", "dtype": dtype.name(), "value": json_number(*dtype, *number) })
        }
        Value::Str(text) => json!({ "kind": "string", "value": text.as_str() }),
        Value::None => json!({ "kind": "none" }),
        other => json!({ "kind": "opaque", "text": other.kind() }),
    }
}

fn json_number(dtype: DType, number: Number) -> Json {
    match (dtype.class(), number) {
        (Class::Bool, number) => json!(number != Number::Int(0)),
        (_, Number::Float(value)) if value.is_finite() => json!(value),
        (_, Number::Float(value)) => json!(format!("{value}").to_lowercase()),
        (_, Number::Int(value)) => match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => json!(value),
            (_, Ok(value)) => json!(value),
            _ => json!(value.to_string()),
        },
    }
}
