//! What a program with explicit memory takes, as text, JSON or a picture.

mod picture;

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

/// The value of every dim, in turn, where none is given.
const LENGTHS: [i64; 4] = [1, 16, 128, 512];

/// The memory of the functions of a module, with figures for given dims.
pub struct MemoryReport {
    functions: Vec<FunctionMemory>,
    given: BTreeMap<Name, i64>,
}

impl MemoryReport {
    /// # Errors
    /// The name of a dim that no function that takes memory has.
    pub fn of(module: &Module, given: BTreeMap<Name, i64>) -> Result<Self, Name> {
        let functions = memory_report(module, &mut Prover::new());
        let has = |name: &Name| functions.iter().any(|function| function.dims.contains(name));
        match given.keys().find(|name| !has(name)) {
            Some(unknown) => Err(unknown.clone()),
            None => Ok(Self { functions, given }),
        }
    }

    /// Lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        text(&self.functions, &self.given)
    }

    /// All formulas and figures.
    #[must_use]
    pub fn json(&self) -> Value {
        json(&self.functions, &self.given)
    }

    /// An SVG document: storages over the steps of each function, tensors as boxes in them.
    #[must_use]
    pub fn picture(&self) -> String {
        picture::picture(&self.functions, &self.given)
    }
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
