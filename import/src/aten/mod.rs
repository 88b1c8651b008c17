//! Graphs of ATen operators, as PyTorch exports them: a description in JSON becomes a program.
//!
//! The walk over an exported program is Python (`python/relaxc/torch`); what operators mean is here, one row an operator. Rows
//! compose operators of the language with the helpers of the ONNX rows.

mod call;
pub(crate) mod description;
mod guards;
mod promote;
mod rows;
mod walk;
mod weights;

use crate::contents::{Contents, Port, WeightInfo};
use crate::model::{Imported, Options, written};
use crate::reason::ImportError;
use description::{Extent, read};

pub(crate) use description::is_description;
pub use rows::supported as supported_aten;
pub(crate) use walk::printable;

pub(crate) fn import(bytes: &[u8], options: &Options) -> Result<Imported, ImportError> {
    let description = read(bytes)?;
    let mut walk = walk::Walk::new(options);
    let (inputs, outputs) = walk.main(&description)?;
    let names: Vec<String> = description.outputs.iter().map(|o| o.name.clone()).collect();
    let mut notes = description.notes.clone();
    notes.append(&mut walk.notes);
    written(walk.builder, options, (&inputs, &outputs), &names, notes)
}

/// The nodes of a description that cannot be imported, by their places, and why. Nodes that read their results are not judged.
///
/// # Errors
/// When the description is damaged, or nothing of it can be imported.
pub fn refused(bytes: &[u8], options: &Options) -> Result<Vec<(usize, String)>, ImportError> {
    let description = read(bytes)?;
    let mut walk = walk::Walk::new(options);
    match walk.main(&description) {
        Ok(_) | Err(ImportError::Unsupported(_)) => Ok(walk.refused),
        Err(error) => Err(error),
    }
}

pub(crate) fn input_names(bytes: &[u8]) -> Result<Vec<String>, ImportError> {
    Ok(read(bytes)?.inputs.into_iter().map(|port| port.name).collect())
}

pub(crate) fn contents(bytes: &[u8]) -> Result<Contents, ImportError> {
    let description = read(bytes)?;
    let mut contents = Contents {
        format: "description of ATen operators",
        producer: description.producer,
        ..Contents::default()
    };
    for port in description.inputs {
        let dims = port.shape.iter().map(shown).collect();
        let (name, dtype) = (port.name, Some(port.dtype));
        contents.inputs.push(Port { name, kind: "tensor", dtype, dims: Some(dims) });
    }
    for output in description.outputs {
        contents.outputs.push(Port { name: output.name, kind: "tensor", dtype: None, dims: None });
    }
    for node in description.nodes {
        if rows::row(&node.op).is_none() {
            contents.unknown.insert(node.op.clone());
        }
        *contents.operators.entry(node.op).or_default() += 1;
    }
    for weight in description.weights {
        let dims: Vec<i64> = weight.shape.iter().map(|&extent| extent as i64).collect();
        let size = walk::dtype(&weight.dtype).ok();
        let count = weight.shape.iter().try_fold(1_u64, |n, &extent| n.checked_mul(extent as u64));
        let bytes = size.and_then(|dtype| count?.checked_mul(dtype.size() as u64));
        let (dtype, is_external) = (weight.dtype, weight.data.is_none());
        contents.weights.push(WeightInfo { name: weight.key, dtype, dims, bytes, is_external });
    }
    Ok(contents)
}

fn shown(extent: &Extent) -> String {
    match extent {
        Extent::Int(value) => value.to_string(),
        Extent::Symbol(name) => name.clone(),
        Extent::Op(op, left, right) => format!("({} {op} {})", shown(left), shown(right)),
    }
}
