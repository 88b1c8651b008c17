//! StableHLO: the text that `jax.export` gives becomes a program.
//!
//! A parser of MLIR text ([`parse`]), a walk that executes it on symbolic values ([`walk`]), and a row for each operation
//! ([`rows`]) on the helpers of the ONNX rows.

mod assertions;
mod attribute;
mod call;
mod cursor;
mod dense;
mod inputs;
mod parse;
mod places;
mod prune;
mod rows;
mod scalars;
mod syntax;
mod walk;

use crate::contents::{Contents, Port, WeightInfo};
use crate::model::{Imported, Options, written};
use crate::reason::ImportError;
use call::tensor_type;
use relax_program::mlir;
use relax_syntax::dtype::DType;
use syntax::{Attribute, Op, Type};

pub use rows::supported as supported_stablehlo;

/// Whether a model is StableHLO: MLIR text, or bytecode, which is refused.
pub(crate) fn is_stablehlo(bytes: &[u8]) -> bool {
    bytes.starts_with(mlir::BYTECODE) || mlir::is_text(bytes)
}

fn text(bytes: &[u8]) -> Result<&str, ImportError> {
    if bytes.starts_with(mlir::BYTECODE) {
        return Err(ImportError::Malformed(
            "this is MLIR bytecode, and text is read: write the text that \
             `jax.export.export(…)(…).mlir_module()` gives into a file"
                .to_owned(),
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| cursor::error_of_bytes(bytes, error.valid_up_to()))
}

pub(crate) fn import(bytes: &[u8], options: &Options) -> Result<Imported, ImportError> {
    let text = text(bytes)?;
    let module = parse::parse(text)?;
    let main = inputs::entry(&module)?;
    let mut walk = walk::Walk::new(&module, text, options);
    let (inputs, outputs) = walk.main(main)?;
    let names = inputs::output_names(main, outputs.len());
    let mut notes = std::mem::take(&mut walk.notes);
    if !walk.declared.is_empty() {
        notes.insert(0, format!("shape assertions of JAX: {}", walk.declared.join("; ")));
    }
    prune::prune(&mut walk.builder, &outputs);
    written(walk.builder, options, (&inputs, &outputs), &names, notes)
}

pub(crate) fn input_names(bytes: &[u8]) -> Result<Vec<String>, ImportError> {
    let module = parse::parse(text(bytes)?)?;
    let main = inputs::entry(&module)?;
    Ok(inputs::input_names(&module, main))
}

pub(crate) fn contents(bytes: &[u8]) -> Result<Contents, ImportError> {
    let module = parse::parse(text(bytes)?)?;
    let main = inputs::entry(&module)?;
    let mut contents = Contents { format: "StableHLO text", ..Contents::default() };
    let known = inputs::dim_names(&module, main);
    for (place, name) in inputs::input_names(&module, main).into_iter().enumerate() {
        let (dtype, dims) = match &main.params[place].r#type {
            Type::Tensor { dims, element } => {
                let shown = |(axis, dim): (usize, &Option<i64>)| match dim {
                    Some(extent) => extent.to_string(),
                    None => {
                        let name = known.get(&(place, axis as i64));
                        name.cloned().unwrap_or_else(|| "?".to_owned())
                    }
                };
                (Some(element.clone()), Some(dims.iter().enumerate().map(shown).collect()))
            }
            Type::Other(text) => (Some(text.clone()), None),
        };
        let dtype = tensor_type(&main.params[place].r#type)
            .map_or(dtype, |(_, dtype)| Some(dtype.name().to_owned()));
        contents.inputs.push(Port { name, kind: "tensor", dtype, dims });
    }
    for name in inputs::output_names(main, main.results.len()) {
        contents.outputs.push(Port { name, kind: "tensor", dtype: None, dims: None });
    }
    for function in module.functions.values() {
        count(&mut contents, &function.ops);
    }
    Ok(contents)
}

fn count(contents: &mut Contents, ops: &[Op]) {
    for op in ops {
        for region in &op.regions {
            count(contents, &region.ops);
        }
        if op.name == "stablehlo.constant" {
            contents.weights.extend(weight(op));
        }
        if matches!(op.name.as_str(), "func.call" | "func.return" | "stablehlo.return") {
            continue;
        }
        let (name, row) = match (op.name.as_str(), op.symbol.as_deref()) {
            ("stablehlo.custom_call", Some(target)) => {
                (format!("stablehlo.custom_call @{target}"), rows::custom(target))
            }
            ("stablehlo.composite", Some(name)) => {
                (format!("stablehlo.composite @{name}"), rows::composite(name))
            }
            (name, _) => (name.to_owned(), rows::row(name)),
        };
        let is_written_out = op.attributes.contains_key("decomposition");
        if row.is_none() && !is_written_out {
            contents.unknown.insert(name.clone());
        }
        *contents.operators.entry(name).or_default() += 1;
    }
}

/// A constant of more than one element.
fn weight(op: &Op) -> Option<WeightInfo> {
    let Some(Attribute::Dense(_, r#type)) = op.attributes.get("value") else { return None };
    let Type::Tensor { dims, element } = r#type else { return None };
    let dims: Vec<i64> = dims.iter().copied().collect::<Option<_>>()?;
    let count = dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(u64::try_from(dim).ok()?));
    if count == Some(1) {
        return None;
    }
    let dtype = tensor_type(r#type).ok().map(|(_, dtype)| dtype);
    let bytes = count.zip(dtype).and_then(|(n, dtype)| n.checked_mul(dtype.size() as u64));
    Some(WeightInfo {
        name: op.result.clone().unwrap_or_default(),
        dtype: dtype.map_or(element.clone(), |dtype: DType| dtype.name().to_owned()),
        dims,
        bytes,
        is_external: false,
    })
}
