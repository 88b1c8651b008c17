//! What is in a file of weights: a GGUF file, a safetensors file, or several of them with their index.

use super::{Inspected, counted};
use crate::exit::Failure;
use relax_driver::sizes::binary;
use relax_program::tensor_files::{GgufValue, Weights};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

/// Elements of an array, and characters of a text, that are shown.
const LONGEST_ARRAY: usize = 8;
const LONGEST_TEXT: usize = 200;

pub(super) fn inspected(path: &Path, name: &str) -> Result<Inspected, Failure> {
    let weights = Weights::open_within(path, u64::MAX).map_err(|error| Failure::of_file(&error))?;
    let tensors = tensors(&weights)?;
    let total: u64 = tensors.iter().map(|tensor| tensor.bytes).sum();
    let (kind, metadata) = match weights.gguf() {
        Some(gguf) => {
            let shown = gguf.metadata().iter().map(|(key, value)| (key.clone(), shown(value)));
            (format!("GGUF version {}", gguf.version()), shown.collect())
        }
        None => {
            let all = weights.metadata().into_iter();
            ("safetensors".to_owned(), all.map(|(key, text)| (key, cut(&text))).collect())
        }
    };
    let metadata: Map<String, Value> = metadata;
    let files: Vec<String> =
        weights.files().iter().map(|path| path.display().to_string()).collect();
    let mut text =
        format!("{name}: {kind}, {} of {}", counted(tensors.len(), "tensor"), binary(total as f64));
    if let Some(gguf) = weights.gguf() {
        let _ = write!(text, ", aligned to {} bytes", gguf.alignment());
    }
    text.push('\n');
    files.iter().skip(1).for_each(|file| _ = writeln!(text, "  in {file}"));
    metadata.iter().for_each(|(key, value)| _ = writeln!(text, "  {key} = {value}"));
    for Tensor { name, format, shape, bytes } in &tensors {
        let _ = writeln!(text, "  {name}: {format} {shape:?}, {bytes} bytes");
    }
    let object = json!({
        "type": "inspect",
        "file": name,
        "kind": if weights.gguf().is_some() { "gguf" } else { "safetensors" },
        "version": weights.gguf().map(relax_program::tensor_files::Gguf::version),
        "alignment": weights.gguf().map(relax_program::tensor_files::Gguf::alignment),
        "files": files,
        "bytes": total,
        "metadata": metadata,
        "tensors": tensors.iter().map(|tensor| json!({
            "name": tensor.name,
            "format": tensor.format,
            "shape": tensor.shape,
            "bytes": tensor.bytes,
        })).collect::<Vec<_>>(),
    });
    Ok(Inspected { text, object })
}

/// A tensor as the file has it.
struct Tensor {
    name: String,
    format: String,
    shape: Vec<usize>,
    bytes: u64,
}

fn tensors(weights: &Weights) -> Result<Vec<Tensor>, Failure> {
    if let Some(gguf) = weights.gguf() {
        let tensor = |(name, tensor): (&String, &relax_program::tensor_files::GgufTensor)| Tensor {
            name: name.clone(),
            format: tensor.format.name().to_owned(),
            shape: tensor.shape.clone(),
            bytes: tensor.bytes(),
        };
        return Ok(gguf.tensors().iter().map(tensor).collect());
    }
    let entries = weights.entries().map_err(Failure::usage)?;
    let tensor = |(name, entry): (String, relax_program::tensor_files::Entry)| Tensor {
        name,
        format: entry.stored,
        shape: entry.shape,
        bytes: entry.bytes,
    };
    Ok(entries.into_iter().map(tensor).collect())
}

/// A value of the metadata. Of a long array the first elements and how many there are.
fn shown(value: &GgufValue) -> Value {
    let one = |value: &GgufValue| {
        let text = || value.as_str().map(cut);
        let flag = || value.as_bool().map(Value::from);
        let float = || value.as_f64().map(Value::from);
        let integer = || value.as_i64().map(Value::from);
        let found = text().or_else(flag).or_else(float).or_else(integer);
        found.or_else(|| value.as_u64().map(Value::from)).unwrap_or_default()
    };
    let Some(array) = value.as_array() else { return one(value) };
    let first: Vec<Value> = array.iter().take(LONGEST_ARRAY).map(|value| one(&value)).collect();
    if array.len() <= LONGEST_ARRAY {
        return Value::from(first);
    }
    json!({ "length": array.len(), "first": first })
}

/// A text up to a length, and then how many characters there are.
fn cut(text: &str) -> Value {
    let count = text.chars().count();
    if count <= LONGEST_TEXT {
        return Value::from(text);
    }
    let first: String = text.chars().take(LONGEST_TEXT).collect();
    Value::from(format!("{first}… ({count} characters)"))
}
