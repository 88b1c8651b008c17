//! `relax opt --memory-report`: what a program with explicit memory takes, as text, JSON or a picture.

mod picture;

use crate::args::{Format, MemoryFormat, OptArgs};
use crate::exit::Failure;
use picture::picture;
use relax_lower::report::{
    Figures, FunctionMemory, GivenUse, StorageUse, TensorUse, figures, memory_report,
};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Module;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The value of every dim, in turn, where the command line gives none.
const LENGTHS: [i64; 4] = [1, 16, 128, 512];

/// The report in the form that the command line asks for.
pub(super) fn report(
    module: &Module,
    format: MemoryFormat,
    args: &OptArgs,
    reader: Format,
) -> Result<String, Failure> {
    let functions = memory_report(module, &mut Prover::new());
    let given = given(&args.sym, &functions)?;
    Ok(match (format, reader) {
        (MemoryFormat::Text, Format::Text) => text(&functions, &given),
        (MemoryFormat::Json, Format::Text) => format!("{:#}\n", json(&functions, &given)),
        (MemoryFormat::Svg, Format::Text) => picture(&functions, &given),
        (MemoryFormat::Svg, Format::Json) => {
            format!("{}\n", json!({ "type": "picture", "svg": picture(&functions, &given) }))
        }
        (_, Format::Json) => {
            let mut object = json(&functions, &given);
            object["type"] = json!("memory");
            format!("{object}\n")
        }
    })
}

/// `NAME=INTEGER` of the command line.
fn given(sym: &[String], functions: &[FunctionMemory]) -> Result<BTreeMap<Name, i64>, Failure> {
    let mut values = BTreeMap::new();
    for text in sym {
        let wrong = || Failure::usage(format!("--sym {text}: expected NAME=INTEGER"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = value.parse().ok().filter(|value| *value >= 0).ok_or_else(wrong)?;
        if !functions.iter().any(|function| function.dims.iter().any(|dim| dim == name)) {
            let message = format!("--sym {name}: no function that takes memory has this dim");
            return Err(Failure::usage(message));
        }
        values.insert(Name::new(name), value);
    }
    Ok(values)
}

/// The dims for which figures are shown.
fn cases(function: &FunctionMemory, given: &BTreeMap<Name, i64>) -> Vec<BTreeMap<Name, i64>> {
    let with = |value: i64| -> BTreeMap<Name, i64> {
        let dims = function.dims.iter();
        dims.map(|dim| (dim.clone(), given.get(dim).copied().unwrap_or(value))).collect()
    };
    let mut cases: Vec<_> = LENGTHS.into_iter().map(with).collect();
    cases.dedup();
    cases
}

fn text(functions: &[FunctionMemory], given: &BTreeMap<Name, i64>) -> String {
    let mut text = String::new();
    for function in functions {
        let _ = writeln!(text, "memory of `{}`", function.function);
        let _ = writeln!(text, "  planned: {} bytes", function.planned);
        let _ = writeln!(text, "  sum of all tensors: {} bytes", function.all);
        for call in &function.calls {
            let _ = writeln!(text, "  calls `{}`, step {}", call.function, call.at);
        }
        for given in &function.given {
            let GivenUse { name, bytes, from, last, .. } = given;
            let _ = writeln!(text, "  given {name}: {bytes} bytes, steps {from} to {last}");
        }
        for (index, storage) in function.storages.iter().enumerate() {
            let StorageUse { name, bytes, from, to } = storage;
            let _ = writeln!(text, "  {name}: {bytes} bytes, steps {from} to {to}");
            for tensor in function.tensors.iter().filter(|tensor| tensor.storage == index) {
                let TensorUse { name, offset, bytes, from, to, .. } = tensor;
                let _ =
                    writeln!(text, "    {name}: {bytes} bytes at {offset}, steps {from} to {to}");
            }
        }
        for dims in cases(function, given) {
            let _ = writeln!(text, "  {}", shown(functions, function, &dims));
        }
    }
    if functions.is_empty() {
        text.push_str("no function takes memory explicitly; --to P2.1 makes programs do so\n");
    }
    text
}

/// With what the function calls.
fn shown(
    functions: &[FunctionMemory],
    function: &FunctionMemory,
    dims: &BTreeMap<Name, i64>,
) -> String {
    let shown: Vec<_> = dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let at = if shown.is_empty() { String::new() } else { format!("{}: ", shown.join(", ")) };
    match figures(functions, &function.function, dims) {
        Some(Figures { planned, all, in_use, .. }) => {
            let ratio = planned as f64 / in_use.max(1) as f64;
            format!(
                "{at}planned {planned} bytes, in use at once at most {in_use} ({ratio:.3} times), sum of all {all}"
            )
        }
        None => format!("{at}no number of bytes: a dim is not told, or 64 bits do not count them"),
    }
}

fn json(functions: &[FunctionMemory], given: &BTreeMap<Name, i64>) -> Value {
    let formula = |dim: &Dim| dim.to_string();
    let each = functions.iter().map(|function| {
        let storages = function.storages.iter().map(|storage| {
            let StorageUse { name, bytes, from, to } = storage;
            json!({ "name": name.as_str(), "bytes": formula(bytes), "from": from, "to": to })
        });
        let tensors = function.tensors.iter().map(|tensor| {
            let TensorUse { name, storage, offset, bytes, from, to } = tensor;
            json!({
                "name": name.as_str(), "storage": function.storages[*storage].name.as_str(),
                "offset": formula(offset), "bytes": formula(bytes), "from": from, "to": to,
            })
        });
        let calls = function.calls.iter().map(|call| {
            let dims = call.dims.iter().map(|(name, dim)| (name.as_str(), formula(dim)));
            let dims: BTreeMap<_, _> = dims.collect();
            json!({ "function": call.function.as_str(), "at": call.at, "dims": dims })
        });
        let gifts = function.given.iter().map(|given| {
            let GivenUse { name, call, bytes, from, last, to } = given;
            json!({
                "name": name.as_str(), "call": call, "bytes": formula(bytes),
                "from": from, "last": last, "to": to,
            })
        });
        let at = cases(function, given).into_iter().map(|dims| {
            let named: BTreeMap<_, _> = dims.iter().map(|(k, v)| (k.as_str(), v)).collect();
            let bytes = figures(functions, &function.function, &dims);
            let bytes = bytes.map(|Figures { planned, all, in_use, .. }| {
                json!({ "planned": planned, "in_use": in_use, "all": all })
            });
            json!({ "dims": named, "bytes": bytes })
        });
        json!({
            "function": function.function.as_str(),
            "planned": formula(&function.planned),
            "all": formula(&function.all),
            "calls": calls.collect::<Vec<_>>(),
            "given": gifts.collect::<Vec<_>>(),
            "storages": storages.collect::<Vec<_>>(),
            "tensors": tensors.collect::<Vec<_>>(),
            "figures": at.collect::<Vec<_>>(),
        })
    });
    json!({ "functions": each.collect::<Vec<_>>() })
}
