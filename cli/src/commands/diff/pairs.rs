//! The pairs of programs that are compared. One of each is interpreted, and the other is a text or compiled.

use super::subject::{Subject, bounds_for, module_subject, text_subject};
use super::{all_externals, functions};
use crate::args::DiffArgs;
use crate::commands::build::refused;
use crate::commands::kernel_check;
use crate::commands::loading::{listed, load, others};
use crate::commands::run::{compiled, is_built, loaded, registered, signatures, target};
use crate::exit::{Exit, Failure};
use crate::files::{FileKind, kind_of, shown_name};
use crate::terminal::Terminal;
use relax_driver::differential::{Built, Files, Other, Routes};
use relax_driver::differential::{of_module, of_text, rounding};
use relax_program::compare::Relation;
use relax_program::externals::{as_identifier, externals};
use relax_program::frontend::{Program, parameters, print_and_parse};
use relax_program::rounding::{Precision, Rounding, perturbed_values};
use relax_rewrite::pass::Device;
use relax_rewrite::passes::bind_params::entry;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::{self as machine, Limits};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Two programs, and the functions to compare.
type Pair = (Routes, Vec<Name>);

/// What is compared.
pub(super) fn pairs(args: &DiffArgs, terminal: &mut Terminal) -> Result<Vec<Pair>, Failure> {
    let is_module = kind_of(&args.file)? == FileKind::Module;
    let against = args.against.as_deref().map(|path| Ok((path, kind_of(path)?))).transpose()?;
    if is_module {
        refuse_for_module(args)?;
    } else if args.backend.is_none_or(|backend| backend == Device::Interp) {
        args.numerics.refuse("is for compiled code: give a --backend")?;
    }
    // What the interpreter runs: of a module file and a program, the program.
    let (interpreted, modules) = match (is_module, against) {
        (true, Some((other, FileKind::Module))) => {
            (&*args.file, vec![(&*args.file, built(&args.file)?), (other, built(other)?)])
        }
        (true, Some((other, _))) => (other, vec![(&*args.file, built(&args.file)?)]),
        (true, None) => (&*args.file, vec![(&*args.file, built(&args.file)?)]),
        (false, Some((other, FileKind::Module))) => (&*args.file, vec![(other, built(other)?)]),
        (false, _) => (&*args.file, Vec::new()),
    };
    let subject = match modules.first().filter(|(path, _)| *path == interpreted) {
        Some((path, module)) => Some(module_subject(args, path, module)?),
        None => text_subject(args, interpreted, terminal)?,
    };
    let Some(subject) = subject else { return Err(Failure::Shown(Exit::Wrong)) };
    if modules.is_empty() {
        return Ok(vec![of_texts(args, subject, terminal)?]);
    }
    let pairs = modules.into_iter().map(|(path, module)| {
        with_module(args, subject.clone(), (interpreted, path), module, terminal)
    });
    pairs.collect()
}

fn refuse_for_module(args: &DiffArgs) -> Result<(), Failure> {
    if matches!(args.backend, Some(Device::Cuda | Device::Wgpu)) {
        return Err(Failure::missing("a module file has code for the processor; give the program"));
    }
    args.numerics.refuse(
        "is an option of `relax build`: a module file has the numerics that it was built with",
    )
}

fn built(path: &Path) -> Result<machine::Module, Failure> {
    registered(loaded(machine::Module::open(path, Limits::default()), &shown_name(path))?)
}

/// A program and a module file.
fn with_module(
    args: &DiffArgs,
    subject: Subject,
    (interpreted, path): (&Path, &Path),
    module: machine::Module,
    terminal: &mut Terminal,
) -> Result<Pair, Failure> {
    let name = shown_name(path);
    let offered = signatures(&module, &name)?;
    let Subject { program, externals: given, mut known, inputs } = subject;
    let left = program.module;
    let recorded = &module.metadata().weights;
    let mut values = given.clone();
    values.extend(known.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    let others = others(recorded, &values)?;
    if !others.is_empty() {
        let others = listed(&others);
        return Err(Failure::usage(format!("{name} was built with other values of {others}")));
    }
    refuse_unknown(&name, (&left, &offered), recorded, &values)?;
    let is_own = interpreted == path;
    let all: Vec<Name> = offered.functions().map(|function| function.name.clone()).collect();
    // Its own source has the same functions and parameters, another text as many of them.
    let (compared, why) = match is_own {
        true => (all, "its functions are not those of the source in it"),
        false => {
            let names = functions(&left, &offered, args.entry.as_deref())?;
            (names, "its functions take other parameters")
        }
    };
    known.built_in = left_out(&left, &offered, recorded, &compared)
        .filter(|(_, is_same)| *is_same || !is_own)
        .map(|(left_out, _)| left_out)
        .ok_or_else(|| Failure::usage(format!("{name}: {why}")))?;
    let names = functions(&left, &offered, args.entry.as_deref())?;
    kernel_check::warn(module.metadata().kernel_check.as_ref(), terminal);
    let count = given.len();
    let externals = Arc::new(all_externals(given, &[&left], args.seed)?);
    let text = Source::new(module.metadata().source_name.as_str(), module.source());
    let is_same = Program::load(text).module == left;
    // Another text has other sums.
    let rounding = match is_same {
        true => rounding(&left, module.metadata()),
        false => Rounding::Sums(Precision::of(&left)),
    };
    let perturbed = Arc::new(perturbed_values(&externals));
    let other = Other::Compiled { module: Box::new(module), rounding, perturbed };
    let built = Some(if is_same { Built::OfThisText } else { Built::OfAnotherText });
    let files = Files { left: interpreted.to_owned(), other: path.to_owned(), built };
    let (seed, cases) = (args.seed, args.cases);
    let random_constants = externals.len() > count;
    let routes =
        Routes { left, other, seed, cases, externals, known, inputs, random_constants, files };
    Ok((routes, names))
}

/// Refuses weights that were built in and that the program asks for, where they have no value.
fn refuse_unknown(
    name: &str,
    (left, offered): (&Module, &Module),
    recorded: &[(String, [u8; 32])],
    values: &BTreeMap<Name, Tensor>,
) -> Result<(), Failure> {
    let mut wanted: BTreeSet<String> = externals(left).keys().map(Name::to_string).collect();
    if let Some(function) = entry(left) {
        let of = |module| parameters(module, &function.name).unwrap_or_default();
        let taken: BTreeSet<Name> = of(offered).into_iter().map(|(name, _)| name).collect();
        let left_out =
            of(left).into_iter().map(|(name, _)| name).filter(|name| !taken.contains(name));
        wanted.extend(left_out.map(|name| name.to_string()));
    }
    let is_asked = |name: &&String| wanted.contains(*name) || wanted.contains(&as_identifier(name));
    let is_known =
        |name: &str| values.contains_key(name) || values.contains_key(as_identifier(name).as_str());
    let missing: Vec<String> = recorded
        .iter()
        .map(|(name, _)| name)
        .filter(is_asked)
        .filter(|name| !is_known(name))
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{name}: weights were built in, and the interpreter needs them: give their file with --params (`relax import \
         --params FILE` writes those of a model): {}",
        listed(&missing)
    )))
}

/// Parameters of the entry function that the module does not take, as they were built in, and whether all others have the
/// same names. `None` where a function takes another number of them.
fn left_out(
    left: &Module,
    offered: &Module,
    recorded: &[(String, [u8; 32])],
    functions: &[Name],
) -> Option<(BTreeSet<Name>, bool)> {
    let names = |module: &Module, function: &Name| -> Option<Vec<Name>> {
        Some(parameters(module, function)?.into_iter().map(|(name, _)| name).collect())
    };
    let entered = entry(left).map(|entry| &entry.name);
    let bound: BTreeSet<String> = recorded.iter().map(|(name, _)| as_identifier(name)).collect();
    let (mut left_out, mut is_same) = (BTreeSet::new(), true);
    for function in functions {
        let (mut all, taken) = (names(left, function)?, names(offered, function)?);
        if entered == Some(function) {
            let is_left_out = |name: &Name| bound.contains(name.as_str()) && !taken.contains(name);
            left_out.extend(all.iter().filter(|name| is_left_out(name)).cloned());
            all.retain(|name| !is_left_out(name));
        }
        if all.len() != taken.len() {
            return None;
        }
        is_same &= all == taken;
    }
    Some((left_out, is_same))
}

/// A program, and another one, or the same printed or compiled.
fn of_texts(args: &DiffArgs, subject: Subject, terminal: &mut Terminal) -> Result<Pair, Failure> {
    let Subject { program, externals: given, known, inputs } = subject;
    let backend = args.backend.filter(|backend| *backend != Device::Interp);
    let (right, relation, own) = right(args, &program, terminal)?;
    let count = given.len();
    let seed = args.seed;
    let externals = match &own {
        Some(_) => all_externals(given, &[&program.module], seed)?,
        None => all_externals(given, &[&program.module, &right], seed)?,
    };
    let externals = Arc::new(externals);
    let random_constants = externals.len() > count;
    let names = functions(&program.module, &right, args.entry.as_deref())?;
    let mut other = match backend {
        Some(backend) => of_backend(args, &program, backend, &externals, terminal)?,
        None => of_text(&program.module, right, relation),
    };
    if let Other::Text { externals, .. } = &mut other {
        *externals = own.map(Arc::new);
    }
    let path = args.against.as_ref().unwrap_or(&args.file).clone();
    let files = Files { left: args.file.clone(), other: path, built: None };
    let (left, cases) = (program.module, args.cases);
    let routes =
        Routes { left, other, seed, cases, externals, known, inputs, random_constants, files };
    Ok((routes, names))
}

/// A text, how it is compared, and the constants that a model has itself.
type Right = (Module, Relation, Option<BTreeMap<Name, Tensor>>);

/// The other text: of a file, or the same one printed.
fn right(args: &DiffArgs, program: &Program, terminal: &mut Terminal) -> Result<Right, Failure> {
    if let Some(path) = &args.against {
        let bounds = bounds_for(args, path)?;
        let Some(given) = load(path, &bounds, terminal)? else {
            return Err(Failure::Shown(Exit::Wrong));
        };
        let own = (given.kind == FileKind::Model).then_some(given.externals);
        return Ok((given.program.module, Relation::Close, own));
    }
    match print_and_parse(&program.module) {
        Ok(printed) => Ok((printed.module, Relation::Equal, None)),
        Err(why) => {
            terminal.tell(
                &format!("different: {why}\n"),
                || json!({ "type": "diff", "verdict": "different", "why": why }),
            )?;
            Err(Failure::Shown(Exit::Wrong))
        }
    }
}

fn of_backend(
    args: &DiffArgs,
    program: &Program,
    backend: Device,
    externals: &Arc<BTreeMap<Name, Tensor>>,
    terminal: &mut Terminal,
) -> Result<Other, Failure> {
    terminal.doing(format!("compiling {}", args.file.display()));
    is_built(backend)?;
    let target = target(backend, args.numerics.chosen(), args.kernel_check.policy())?;
    let target = target.rewriting(&program.module);
    let refused = &mut |error| refused(error, program, terminal);
    let (values, limits) = (Arc::clone(externals), Limits::default());
    let module = compiled(program, target, values, limits, &mut Unwatched, refused)?;
    let module = registered(module)?;
    kernel_check::warn(module.metadata().kernel_check.as_ref(), terminal);
    let (compiled_by, perturbed) =
        ((backend, args.numerics.chosen()), Arc::new(perturbed_values(externals)));
    Ok(of_module(&program.module, module, compiled_by, perturbed))
}
