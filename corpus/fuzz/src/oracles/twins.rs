//! Metamorphic oracle: programs that are equal by construction, with other names, with independent bindings in
//! another order, with numbers for dims. Each variant is lowered, and compared with the program.

use super::inputs::{drawn, options};
use super::passes;
use super::reorder::reordered;
use super::specialize::at_dims;
use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_program::compare::Relation;
use relax_program::frontend::{Program, print, run};
use relax_program::signature::Dims;
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::Device;
use relax_rewrite::verify::{Effort, compare_values, relation_of, verify};
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::references::reached_from;
use relax_syntax::ir::{Definition, Function, Module};
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Names that passes give to what they make.
const NAMES: [&str; 11] =
    ["lv", "gv", "storage", "alloc", "heap", "shape_heap", "x", "tensor", "cls", "lv0", "out"];

/// Inputs that a twin in another order is run with.
const ORDERED: usize = 3;

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    renamed(case, statistics)?;
    in_another_order(case, statistics)?;
    for function in case.raw.functions() {
        let index = 1 + usize::try_from(case.seed % 5).unwrap_or(0);
        specialized(case, function, index, statistics)?;
    }
    Ok(())
}

/// Every variable has a name that passes like; results must not change.
fn renamed(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    let mut twin = case.raw.clone();
    for definition in &mut twin.definitions {
        if let Definition::Graph(function) = definition {
            rename(function);
        }
    }
    let text = print(&twin);
    let program = Program::load(Source::new("renamed", text.as_str()));
    let finding =
        |why: String| Finding::new("renamed", why, "opt FILE --to P2.3 --verify -o OUT.rx");
    if let Some(first) = program.diagnostics.first().filter(|_| program.has_errors()) {
        return Err(finding(format!("with other names: {}\n{text}", first.message)));
    }
    let way = passes::down(Device::Cpu);
    let lowered =
        passes::transformed(case, &program.module, &way, statistics).map_err(|found| {
            finding(format!("with other names: {}: {}\n{text}", found.kind, found.why))
        })?;
    let effort = Effort { cases: 4, seed: case.seed };
    let (before, after) = (&program.module, &lowered.module);
    let tally = verify(before, after, lowered.exactness, effort, &BTreeMap::new())
        .map_err(|difference| finding(format!("with other names: {difference}\n{text}")))?;
    statistics.add(&tally);
    Ok(())
}

/// Independent bindings change places; what the program gives must not. Which of two checks stops it first may.
fn in_another_order(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    let (twin, differs) = reordered(&case.raw, case.seed);
    if !differs {
        return Ok(());
    }
    let text = print(&twin);
    let program = Program::load(Source::new("reordered", text.as_str()));
    let finding = |why: String| {
        Finding::new("reordered", format!("{why}\n{text}"), "opt FILE --to P2.3 --verify -o OUT.rx")
    };
    if let Some(first) = program.diagnostics.first().filter(|_| program.has_errors()) {
        return Err(finding(format!("in another order: {}", first.message)));
    }
    let way = passes::down(Device::Cpu);
    let lowered = passes::transformed(case, &program.module, &way, statistics)
        .map_err(|found| finding(format!("in another order: {}: {}", found.kind, found.why)))?;
    let relation = relation_of(lowered.exactness, &program.module);
    let sides = [(&program.module, Relation::Equal), (&lowered.module, relation)];
    for function in case.raw.functions() {
        for index in 0..ORDERED {
            let Some((_, arguments)) = drawn(case, function, index, statistics) else { break };
            let given = |module| run(module, &function.name, arguments.clone(), &options()).result;
            let want = given(&case.checked);
            for (module, relation) in sides {
                alike(relation, &arguments, (want.clone(), given(module)), statistics)
                    .map_err(&finding)?;
            }
        }
    }
    Ok(())
}

/// What two twins give of the same inputs. Which check of several stops first may be another one.
fn alike(
    relation: Relation,
    arguments: &[Value],
    (want, got): (Result<Value, Stop>, Result<Value, Stop>),
    statistics: &mut Statistics,
) -> Result<(), String> {
    match (want, got) {
        (Ok(want), Ok(got)) => {
            statistics.compared += 1;
            compare_values(relation, &want, &got, arguments)
        }
        (Err(Stop::Exhausted { .. } | Stop::Unsupported(_)), _)
        | (_, Err(Stop::Exhausted { .. } | Stop::Unsupported(_))) => {
            statistics.exhausted += 1;
            Ok(())
        }
        (Err(_), Err(_)) => {
            statistics.trapped += 1;
            Ok(())
        }
        (want, got) => Err(format!("{want:?}; {got:?}")),
    }
}

fn rename(function: &mut Function) {
    let mut taken: BTreeSet<String> =
        function.dims.iter().map(|dim| dim.name.to_string()).collect();
    let params: BTreeSet<usize> = function.lambda.params.iter().map(|id| id.0 as usize).collect();
    for index in &params {
        taken.insert(function.vars[*index].name.to_string());
    }
    for (index, info) in function.vars.iter_mut().enumerate() {
        // Parameters keep theirs: inputs go by name.
        if params.contains(&index) || info.name == "_" {
            continue;
        }
        let base = NAMES[index % NAMES.len()];
        let mut name = base.to_owned();
        let mut number = 0;
        while !taken.insert(name.clone()) {
            name = format!("{base}{number}");
            number += 1;
        }
        info.name = Name::new(name);
    }
}

/// Numbers for the dims of one function's signature. What the checker then refuses must stop, or be a
/// mistake that it saw only now.
fn specialized(
    case: &Case,
    function: &Function,
    index: usize,
    statistics: &mut Statistics,
) -> Result<(), Finding> {
    let Some((dims, arguments)) = drawn(case, function, index, statistics) else { return Ok(()) };
    let want = run(&case.checked, &function.name, arguments.clone(), &options()).result;
    let twin = at(&case.raw, &function.name, &dims);
    let text = print(&twin);
    let program = Program::load(Source::new("specialized", text.as_str()));
    let finding = |why: String| {
        let why = format!("`{}` with numbers for {dims:?}: {why}", function.name);
        Err(Finding::new("specialized", why, "opt FILE --to P2.3 --verify -o OUT.rx"))
    };
    // Those who call it are refused now.
    let part = well_formed_part(&program);
    if part.function(&function.name).is_none() {
        let first = program.diagnostics.first().map_or("", |first| first.message.as_str());
        // Branches that are not taken may hold what is refused.
        let has_branches = text.contains(" if ");
        return match want {
            Ok(_) if !has_branches => finding(format!("it is refused: {first}")),
            _ => {
                statistics.rejected += 1;
                Ok(())
            }
        };
    }
    let way = passes::down(Device::Cpu);
    let lowered = match passes::transformed(case, &part, &way, statistics) {
        Ok(lowered) => lowered,
        Err(found) => return finding(format!("{}: {}", found.kind, found.why)),
    };
    let got = run(&lowered.module, &function.name, arguments.clone(), &options()).result;
    alike(relation_of(lowered.exactness, &part), &arguments, (want, got), statistics)
        .or_else(finding)
}

/// The part of a module that one function reaches, with numbers for its dims. Nothing else is called, and the other
/// twins have it.
fn at(module: &Module, name: &Name, dims: &Dims) -> Module {
    let values: BTreeMap<Name, Dim> =
        dims.iter().map(|(name, &value)| (name.clone(), Dim::Int(value))).collect();
    let reached = reached_from(module, vec![name.clone()]);
    let mut twin = module.clone();
    twin.definitions.retain(|definition| reached.contains(definition.name()));
    for definition in &mut twin.definitions {
        if let Definition::Graph(function) = definition
            && function.name == *name
        {
            at_dims(function, &values);
        }
    }
    twin
}
