//! The table of placements: the operators of the corpus on operands in every layout, on three ranks, none of which need have as much as
//! another one. Each program of a rank redistributes operands to what the operator can do with, and its result to what one device has.

use crate::{Sharded, certificate, open};
use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
use relax_corpus::sample::Sample;
use relax_program::frontend::{Program, print};
use relax_sharding::data::place;
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::ir::{AttrValue, Definition, Function, Module};
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// Layouts of one function; the first ones of more.
const MOST: usize = 24;

/// What became of a function with its operands in some layouts.
#[derive(Debug, PartialEq)]
enum Ended {
    Proved,
    Open(String),
    /// It is not sharded, for this reason.
    Refused(String),
}

/// A function by itself, if it is a program.
fn alone(function: &Function) -> Option<Module> {
    let module = Module {
        attrs: vec![("mesh[0]".into(), AttrValue::Str("3".into()))],
        definitions: vec![Definition::Graph(function.clone())],
    };
    let program = Program::load(Source::new("function", &*print(&module)));
    (!program.has_errors()).then_some(program.module)
}

/// The functions of the files of operators whose parameters are tensors of known dims, some of which have axes.
fn functions() -> Vec<(String, Module)> {
    let mut found = Vec::new();
    let of_operators = |name: &String| name.starts_with("suite/ops/");
    for path in files::programs() {
        let Some(file) = Some(files::name(&path)).filter(of_operators) else { continue };
        let text = std::fs::read_to_string(&path).expect("a file of the corpus");
        let program = Program::load(Source::new(&*file, &*text));
        for function in program.module.functions() {
            let dims = |param: &relax_syntax::ir::VarId| match function.param_annotation(*param) {
                Annotation::Tensor(tensor) => tensor.extents.dims().map(<[_]>::len),
                _ => None,
            };
            let ranks: Option<Vec<usize>> = function.lambda.params.iter().map(dims).collect();
            let is_operator = ranks.is_some_and(|ranks| ranks.iter().any(|rank| *rank > 0));
            if is_operator && let Some(module) = alone(function) {
                found.push((format!("{file} {}", function.name), module));
            }
        }
    }
    found
}

/// The function with each parameter whole, or cut along one of its axes; not all of them whole.
fn placed(module: &Module) -> Vec<Module> {
    let Some(function) = module.functions().next() else { return Vec::new() };
    let mut ways: Vec<Vec<Placement>> = vec![Vec::new()];
    for param in &function.lambda.params {
        let rank = function.param_annotation(*param).as_tensor();
        let rank = rank.and_then(|tensor| tensor.extents.rank()).unwrap_or(0);
        let each = (0..rank).map(Placement::Sharded).chain([Placement::Replicated]);
        let each: Vec<Placement> = each.collect();
        let longer = |way: &Vec<Placement>| {
            let way = way.clone();
            each.iter().map(move |own| [&way[..], &[*own]].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).collect();
    }
    ways.retain(|way| way.iter().any(|own| *own != Placement::Replicated));
    ways.truncate(MOST);
    let with = |way: &Vec<Placement>| {
        let mut module = module.clone();
        let own = module.definitions.iter_mut().find_map(|definition| match definition {
            Definition::Graph(function) => Some(function),
            Definition::Tensor(_) => None,
        });
        let own = own.expect("the module has a function");
        for (&param, placement) in own.lambda.params.clone().iter().zip(way) {
            if let Placement::Sharded(at) = placement {
                place(own, param, &"mesh[0]".into(), (1, 0), *at);
            }
        }
        module
    };
    ways.iter().map(with).collect()
}

fn ended(global: Module) -> Ended {
    let program = Program::load(Source::new("placed", &*print(&global)));
    if let Some(first) = program.diagnostics.iter().find(|_| program.has_errors()) {
        return Ended::Refused(first.message.clone());
    }
    let sharded = match Sharded::of(program.module) {
        Ok(sharded) => sharded,
        Err(refused) => return Ended::Refused(refused.message),
    };
    match certificate(&sharded, &sharded.text) {
        Ok(made) => match open(&made).first() {
            Some(first) => Ended::Open(format!("{first}\n{}", sharded.text)),
            None => Ended::Proved,
        },
        Err(why) => Ended::Open(format!("{why}\n{}", sharded.text)),
    }
}

#[test]
fn operators_are_proved_in_every_layout() {
    let all: Vec<(String, Module)> =
        Sample::of("operators in every layout", 12).take(functions()).collect();
    let count = all.len();
    let found = par_map_chunks(all, |chunk| {
        let each = chunk.into_iter().flat_map(|(name, module)| {
            placed(&module).into_iter().map(move |global| (name.clone(), ended(global)))
        });
        each.collect::<Vec<_>>()
    });
    let (mut proved, mut open, mut refused) = (0, Vec::new(), BTreeMap::new());
    for (name, ended) in found.into_iter().flatten() {
        match ended {
            Ended::Proved => proved += 1,
            Ended::Open(why) => open.push(format!("{name}: {why}")),
            Ended::Refused(why) => *refused.entry(why).or_insert(0) += 1,
        }
    }
    eprintln!("{count} functions: {proved} layouts proved, {} open", open.len());
    refused.iter().for_each(|(why, count)| eprintln!("refused {count} times: {why}"));
    open.iter().filter_map(|why| why.lines().next()).for_each(|why| eprintln!("open: {why}"));
    assert!(proved > 0 && open.len() * 20 <= proved + open.len(), "open: {}", open.join("\n"));
}
