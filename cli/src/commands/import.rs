//! `relax import`: a program, and a file of its constants, out of a model of another format. `relax run`
//! of a model comes here too.

use super::loading::checked;
use super::run::size;
use super::unknown::unknown;
use crate::args::{Foreign, ImportArgs, RunArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{read_tensor, write_tensors, write_whole};
use crate::report::show_diagnostics;
use crate::terminal::{Terminal, Verbosity};
use relax_import::{
    Bound, Bytes, Given, ImportError, Imported, Options, Weight, import_model, import_tvmscript,
    input_names,
};
use relax_program::externals::as_identifier;
use relax_program::frontend::{Program, parameters};
use relax_program::spec::Context;
use relax_program::tensor_files::{Stored, read_file};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn import(args: &ImportArgs, terminal: &mut Terminal) -> Outcome {
    let is_script = args.file.extension().is_some_and(|extension| extension == "py");
    if args.from == Some(Foreign::Tvmscript) || args.from.is_none() && is_script {
        args.model.refuse()?;
        return script(args, terminal);
    }
    let bytes = read(&args.file)?;
    let mut options = options(&args.file, args.model.bounds()?);
    options.entry.clone_from(&args.entry);
    for dim in &args.dim {
        let (dim, name) = pair("--dim", dim)?;
        options.dims.insert(dim.to_owned(), name.trim().to_owned());
    }
    let known = names(&bytes, &args.file)?;
    let input = |name: &str| {
        let input = known.iter().find(|input| *input == name || as_identifier(input) == name);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        input.cloned().ok_or_else(|| unknown("input", name, &known))
    };
    for bound in &args.bind {
        let (name, spec) = pair("--bind", bound)?;
        options.bind.insert(input(name)?, constant(name, spec)?);
    }
    for text in &args.types {
        let (name, annotation) = pair("--type", text)?;
        options.types.insert(input(name)?, given(annotation)?);
    }
    importing(&args.file, &bytes, terminal);
    let imported = match import_model(bytes, &options) {
        Ok(imported) => imported,
        Err(error) => return Err(refused(&args.file, &error)),
    };
    if terminal.verbosity > Verbosity::Quiet {
        for note in &imported.notes {
            terminal.note(&format!("note: {note}"));
        }
    }
    write(args, &imported, terminal)
}

/// The text of TVM. What the program means is checked as that of any other is.
fn script(args: &ImportArgs, terminal: &mut Terminal) -> Outcome {
    let name = args.file.display().to_string();
    let bytes = read(&args.file)?;
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(wrong(format!("{name}: this is no text")));
    };
    let text = match import_tvmscript(&name, text) {
        Ok(text) => text,
        Err(error) => return Err(wrong(error.to_string())),
    };
    let program = Program::load(Source::new(format!("{name} as .rx"), text.as_str()));
    let exit = show_diagnostics(terminal, &program.source, &program.diagnostics);
    match &args.output {
        Some(path) => write_whole(path, text.as_bytes())?,
        None => terminal.program(&text)?,
    }
    Ok(exit)
}

/// What is no program.
fn wrong(text: String) -> Failure {
    Failure::Message { exit: Exit::Wrong, text }
}

fn write(args: &ImportArgs, imported: &Imported, terminal: &mut Terminal) -> Outcome {
    if !imported.params.is_empty() {
        let Some(path) = &args.params else {
            return Err(Failure::usage(format!(
                "the model has {} constants that are too large for a program; say with --params where to \
                 write them",
                imported.params.len()
            )));
        };
        let stored = imported.params.iter().map(|(name, weight)| (name.as_str(), content(weight)));
        let stored: Vec<_> = stored.collect();
        terminal.doing(format!("writing {}", path.display()));
        write_tensors(path, &stored)?;
    }
    match &args.output {
        Some(path) => write_whole(path, imported.text.as_bytes())?,
        None => terminal.program(&imported.text)?,
    }
    Ok(Exit::Fine)
}

fn content(weight: &Weight) -> Stored<'_> {
    match weight {
        // Any byte but 0 is true in a model, and 1 is in a file of tensors.
        Weight::Stored(stored) if stored.dtype() != DType::Bool => {
            Stored::Bytes(stored.dtype(), stored.shape(), stored.bytes())
        }
        other => Stored::Tensor(other.tensor()),
    }
}

/// Whether `NAME=SPEC` is about an input of the model.
pub(super) fn is_of(input: &str, name: &str) -> bool {
    let given = input.split_once('=').map_or(input, |(name, _)| name).trim();
    given == name || given == as_identifier(name)
}

/// `NAME=SPEC` for the parameter that an input of the model became: another name where the program has a dim, an
/// operator or a word of the language of that name.
pub(super) fn of_parameter(input: &str, loaded: &Loaded, entry: &str) -> String {
    let named = |(name, spec): (&str, &str)| {
        let given = name.trim();
        let inputs = loaded.inputs.iter();
        let place = inputs.clone().position(|name| name == given);
        let place = place.or_else(|| inputs.clone().position(|name| as_identifier(name) == given));
        let signature = parameters(&loaded.program.module, entry)?;
        Some(format!("{}={spec}", signature.get(place?)?.0))
    };
    input.split_once('=').and_then(named).unwrap_or_else(|| input.to_owned())
}

/// A model as a program.
pub(super) struct Loaded {
    pub(super) program: Program,
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// What the model calls the parameters, in order.
    inputs: Vec<String>,
}

/// The program of a model, and which inputs went into it: those whose elements decide shapes or axes.
pub(super) fn for_run(
    args: &RunArgs,
    terminal: &mut Terminal,
) -> Result<(Option<Loaded>, Vec<String>), Failure> {
    let bytes = read(&args.file)?;
    let mut options = options(&args.file, args.model.bounds()?);
    options.entry.clone_from(&args.entry);
    options.max_bytes = size("--max-memory", &args.max_memory)?;
    let mut bound = Vec::new();
    importing(&args.file, &bytes, terminal);
    let imported = loop {
        match import_model(bytes.clone(), &options) {
            Ok(imported) => break imported,
            Err(ImportError::Needs(inputs)) => {
                for name in inputs {
                    let Some(spec) = args.input.iter().find(|input| is_of(input, &name)) else {
                        return Err(Failure::usage(format!(
                            "the input `{name}` decides shapes or axes: give --input {}=SPEC",
                            as_identifier(&name)
                        )));
                    };
                    let (_, spec) = pair("--input", spec)?;
                    options.bind.insert(name.clone(), constant(&name, spec)?);
                    bound.push(name);
                }
            }
            Err(ImportError::Untyped(inputs)) => {
                for name in inputs {
                    let given = type_of_input(args, &name)?;
                    options.types.insert(name, given);
                }
            }
            Err(error) => return Err(refused(&args.file, &error)),
        }
    };
    Ok((loaded(&args.file, imported, None, terminal), bound))
}

/// The program of a model none of whose inputs is known; what needs one says how to give it.
pub(super) fn for_build(
    path: &Path,
    bounds: &BTreeMap<String, Bound>,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Result<Option<Loaded>, Failure> {
    let bytes = read(path)?;
    importing(path, &bytes, terminal);
    let (what, flag, names) = match import_model(bytes, &options(path, bounds.clone())) {
        Ok(imported) => return Ok(loaded(path, imported, phase, terminal)),
        Err(ImportError::Needs(names)) => ("decides shapes or axes", "--bind NAME=SPEC", names),
        Err(ImportError::Untyped(names)) => {
            ("has no type that a tensor has", "--type NAME=ANNOTATION", names)
        }
        Err(error) => return Err(refused(path, &error)),
    };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Err(Failure::usage(format!(
        "the model cannot be imported as it is: {} {what}; make a program of it with `relax import {flag}` and take \
         that",
        names.join(", ")
    )))
}

/// What became of a model, where it is right.
fn loaded(
    path: &Path,
    imported: Imported,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Option<Loaded> {
    let source = Source::new(&*path.to_string_lossy(), imported.text.as_str());
    let program = checked(source, phase, terminal)?;
    let params = imported.params.into_iter();
    let externals = params.map(|(name, tensor)| (Name::new(name), tensor.tensor())).collect();
    Some(Loaded { program, externals, inputs: imported.inputs })
}

/// Says how large the model is, for those who wait.
pub(super) fn importing(path: &Path, bytes: &Bytes, terminal: &mut Terminal) {
    let megabytes = bytes.len() as f64 / 1e6;
    terminal.doing(format!("importing {}, {megabytes:.1} MB", path.display()));
}

/// A model that is wrong, or that is fine and needs what this version lacks.
pub(super) fn refused(path: &Path, error: &ImportError) -> Failure {
    let exit = match error {
        ImportError::Bound(_) => Exit::Usage,
        ImportError::Limit(_) => Exit::Stopped,
        error if error.is_unsupported() => Exit::Missing,
        _ => Exit::Wrong,
    };
    Failure::Message { exit, text: format!("{}: {error}", path.display()) }
}

/// Bytes of a model without external data, as the format of protocol buffers has it.
const LARGEST_MODEL: u64 = 2 << 30;

pub(super) fn read(path: &Path) -> Result<Bytes, Failure> {
    read_file(path, LARGEST_MODEL)
        .map(Bytes::from)
        .map_err(|error| Failure::of_file(&error.at(&format!("cannot read {}", path.display()))))
}

pub(super) fn options(path: &Path, bounds: BTreeMap<String, Bound>) -> Options {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    Options { folder: Some(folder), bounds, ..Options::default() }
}

fn names(bytes: &Bytes, path: &Path) -> Result<Vec<String>, Failure> {
    input_names(bytes.clone()).map_err(|error| Failure::Message {
        exit: Exit::Wrong,
        text: format!("{}: {error}", path.display()),
    })
}

fn pair<'t>(flag: &str, text: &'t str) -> Result<(&'t str, &'t str), Failure> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim(), value));
    pair.filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("{flag}: expected NAME=…, found `{text}`")))
}

/// A value that says its own dims and dtype.
fn value(name: &str, spec: &str) -> Result<Value, Failure> {
    let limit = Context::default().max_bytes;
    let load = |path: &str| read_tensor(path, limit).map_err(|error| error.to_string());
    let context = Context { load: Some(&load), ..Context::default() };
    let value = context.read(&Name::new(name), spec, None);
    value.map_err(|why| Failure::usage(format!("{name}: {why}")))
}

fn constant(name: &str, spec: &str) -> Result<Tensor, Failure> {
    match value(name, spec)? {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Failure::usage(format!("`{name}` must be a tensor, found {}", other.kind()))),
    }
}

/// What `--type` says: an annotation of the language, or `none`.
fn given(text: &str) -> Result<Given, Failure> {
    if text.trim() == "none" {
        return Ok(Given::Nothing);
    }
    let wrong = || Failure::usage(format!("--type: `{text}` is no annotation"));
    let program =
        Program::load(Source::new("--type", format!("def f(x: {text}):\n    return x\n").as_str()));
    let parameters = parameters(&program.module, "f").unwrap_or_default();
    match parameters.into_iter().next() {
        Some((_, annotation)) if program.diagnostics.is_empty() => Ok(Given::Type(annotation)),
        _ => Err(wrong()),
    }
}

/// The type of the value that `relax run` is given for an input; none is an optional that holds nothing.
fn type_of_input(args: &RunArgs, name: &str) -> Result<Given, Failure> {
    let Some(spec) = args.input.iter().find(|input| is_of(input, name)) else {
        return Ok(Given::Nothing);
    };
    let (_, spec) = pair("--input", spec)?;
    Ok(Given::Type(type_of(&value(name, spec)?)))
}

fn type_of(value: &Value) -> Annotation {
    match value {
        Value::Tensor(tensor) => {
            let dims = tensor.shape().iter().map(|&extent| Dim::Int(extent as i64)).collect();
            Annotation::tensor(dims, tensor.dtype())
        }
        Value::Tuple(items) => Annotation::Tuple(items.iter().map(type_of).collect()),
        _ => Annotation::Object,
    }
}
