//! What a function takes and gives: parameters, results, and what is declared of dims.

use relax_syntax::ir::{DimVar, Function, donated_names, output_names};
use serde_json::{Value, json};
use std::fmt::Write;

/// A line for the function, and one for each fact.
pub(super) fn text(function: &Function, text: &mut String) {
    let _ = writeln!(text, "  {}", header(function));
    for dim in function.dims.iter().filter(|dim| dim.in_signature && dim.has_facts()) {
        let _ = writeln!(text, "    {}", facts(dim));
    }
    let donated: Vec<&str> = donated_names(&function.lambda.attrs).collect();
    if !donated.is_empty() {
        let _ = writeln!(text, "    donated: {}", donated.join(", "));
    }
    let names = output_names(&function.lambda.attrs);
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let _ = writeln!(text, "    outputs: {}", names.join(", "));
    }
}

fn header(function: &Function) -> String {
    let params = function.lambda.params.iter();
    let params: Vec<String> = params
        .map(|&id| format!("{}: {}", function.var(id).name, function.param_annotation(id)))
        .collect();
    let result = function.lambda.result.as_ref();
    let result = result.map_or_else(String::new, |result| format!(" -> {result}"));
    format!("{}({}){result}", function.name, params.join(", "))
}

/// `1 <= n <= 64, n % 8 == 0`
fn facts(dim: &DimVar) -> String {
    let name = &dim.name;
    let lower = dim.lower.map_or_else(String::new, |lower| format!("{lower} <= "));
    let upper = dim.upper.map_or_else(String::new, |upper| format!(" <= {upper}"));
    let multiple = dim.multiple_of.map(|factor| format!("{name} % {factor} == 0"));
    let range =
        (dim.lower.is_some() || dim.upper.is_some()).then(|| format!("{lower}{name}{upper}"));
    range.into_iter().chain(multiple).collect::<Vec<_>>().join(", ")
}

pub(super) fn object(function: &Function) -> Value {
    let params = function.lambda.params.iter().map(|&id| {
        let annotation = function.param_annotation(id);
        let mut param = json!({
            "name": function.var(id).name.as_str(),
            "annotation": annotation.to_string(),
        });
        if let Some(tensor) = annotation.as_tensor() {
            let dims = tensor.extents.dims();
            let dims = dims.map(|dims| dims.iter().map(ToString::to_string).collect::<Vec<_>>());
            param["dtype"] = json!(tensor.dtype.map(|dtype| dtype.name()));
            param["dims"] = json!(dims);
        }
        param
    });
    let dims = function.dims.iter().filter(|dim| dim.in_signature).map(|dim| {
        let DimVar { name, lower, upper, multiple_of, .. } = dim;
        json!({ "name": name.as_str(), "lower": lower, "upper": upper, "multiple_of": multiple_of })
    });
    let names = output_names(&function.lambda.attrs);
    json!({
        "name": function.name.as_str(),
        "params": params.collect::<Vec<_>>(),
        "result": function.lambda.result.as_ref().map(ToString::to_string),
        "dims": dims.collect::<Vec<_>>(),
        "donated": donated_names(&function.lambda.attrs).collect::<Vec<_>>(),
        "outputs": names.iter().map(AsRef::<str>::as_ref).collect::<Vec<_>>(),
    })
}
