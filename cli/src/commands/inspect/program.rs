//! What is in a text: its phase, functions, tensor programs, operators and constants in files.

use super::{Inspected, counted, signature};
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_semantics::check::Phase;
use relax_syntax::ir::{Body, Callee, Definition, Expr, Function, Module};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

pub(super) fn inspected(name: &str, program: &Program) -> Inspected {
    let module = &program.module;
    let phase = Phase::of_module(module).map_or("surface", Phase::name);
    let (operators, externals) = (operators(module), externals(module));
    let programs: Vec<&str> = tensor_programs(module).collect();
    let mut text = format!("{name}: program of phase {phase}\n");
    let functions: Vec<&Function> = module.functions().collect();
    let _ = writeln!(text, "{}", counted(functions.len(), "function"));
    functions.iter().for_each(|function| signature::text(function, &mut text));
    if !programs.is_empty() {
        let _ = writeln!(text, "{}", counted(programs.len(), "tensor program"));
        programs.iter().for_each(|name| _ = writeln!(text, "  {name}"));
    }
    let calls: usize = operators.values().sum();
    let _ = writeln!(text, "{} of operators", counted(calls, "call"));
    for (name, count) in most_first(&operators) {
        let _ = writeln!(text, "  {count:>5} {name}");
    }
    if !externals.is_empty() {
        let _ = writeln!(text, "{} in a file of weights", counted(externals.len(), "constant"));
        for (name, annotations) in &externals {
            annotations.iter().for_each(|known| _ = writeln!(text, "  {name}: {known}"));
        }
    }
    let constants = externals.iter().flat_map(|(name, annotations)| {
        annotations
            .iter()
            .map(move |known| json!({ "name": name.as_str(), "annotation": known.to_string() }))
    });
    let object = json!({
        "type": "inspect",
        "kind": "program",
        "file": name,
        "phase": phase,
        "functions": functions.iter().map(|function| signature::object(function)).collect::<Vec<_>>(),
        "tensor_programs": programs,
        "operators": operators,
        "constants": constants.collect::<Vec<_>>(),
    });
    Inspected { text, object }
}

/// Those that stand most often first.
pub(super) fn most_first(operators: &BTreeMap<String, usize>) -> Vec<(&String, usize)> {
    let mut rows: Vec<_> = operators.iter().map(|(name, &count)| (name, count)).collect();
    rows.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    rows
}

fn tensor_programs(module: &Module) -> impl Iterator<Item = &str> {
    module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program.name.as_str()),
        Definition::Graph(_) => None,
    })
}

/// Calls of operators in graph functions, nested functions included.
fn operators(module: &Module) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for body in module.functions().filter_map(|function| function.lambda.body.as_ref()) {
        count(body, &mut counts);
    }
    counts
}

fn count(body: &Body, counts: &mut BTreeMap<String, usize>) {
    for binding in body.blocks.iter().flat_map(|block| &block.bindings) {
        match &binding.expr {
            Expr::Call { callee: Callee::Operator(name), .. } => {
                *counts.entry(name.to_string()).or_default() += 1;
            }
            Expr::If { then, otherwise, .. } => {
                count(then, counts);
                count(otherwise, counts);
            }
            Expr::Closure(lambda) => {
                lambda.body.iter().for_each(|body| count(body, counts));
            }
            _ => {}
        }
    }
}
