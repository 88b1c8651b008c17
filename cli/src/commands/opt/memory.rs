//! `relax opt --memory-report`: what a program with explicit memory takes, as text, JSON or a picture.

use crate::args::{Format, MemoryFormat, OptArgs};
use crate::exit::Failure;
use relax_driver::memory_report::MemoryReport;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use serde_json::json;
use std::collections::BTreeMap;

/// The report in the form that the command line asks for.
pub(super) fn report(
    module: &Module,
    format: MemoryFormat,
    args: &OptArgs,
    reader: Format,
) -> Result<String, Failure> {
    let report = MemoryReport::of(module, given(&args.sym)?).map_err(|name| {
        Failure::usage(format!("--sym {name}: no function that takes memory has this dim"))
    })?;
    Ok(match (format, reader) {
        (MemoryFormat::Text, Format::Text) => report.text(),
        (MemoryFormat::Json, Format::Text) => format!("{:#}\n", report.json()),
        (MemoryFormat::Svg, Format::Text) => report.picture(),
        (MemoryFormat::Svg, Format::Json) => {
            format!("{}\n", json!({ "type": "picture", "svg": report.picture() }))
        }
        (_, Format::Json) => {
            let mut object = report.json();
            object["type"] = json!("memory");
            format!("{object}\n")
        }
    })
}

/// `NAME=INTEGER` of the command line.
pub(in crate::commands) fn given(sym: &[String]) -> Result<BTreeMap<Name, i64>, Failure> {
    let mut values = BTreeMap::new();
    for text in sym {
        let wrong = || Failure::usage(format!("--sym {text}: expected NAME=INTEGER"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = value.parse().ok().filter(|value| *value >= 0).ok_or_else(wrong)?;
        values.insert(Name::new(name), value);
    }
    Ok(values)
}
