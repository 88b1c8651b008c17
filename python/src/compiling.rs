//! Programs out of texts and files, checked and compiled by the functions that the command calls.

use crate::errors::{Class, Failure, Finding, FindingTuple};
use crate::inputs::{Copies, array};
use crate::modules::{Loaded, Module, Stored};
use crate::passes::Rules;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use relax_cpu::{Cache, Compiler, LIMIT};
use relax_driver::file_kind::{BEGIN, FileKind, encoded, refused};
use relax_driver::{
    Artifact, Bound as Given, BuildError, CompileError, KernelCheck, Target, Toolchain,
    compile as build,
};
use relax_import::{Bytes, Imported, Options, import_model, refused_aten};
use relax_lower::demands::demands;
use relax_lower::static_failures::static_failures;
use relax_program::externals::{constants, externals};
use relax_program::frontend::{Program, located};
use relax_program::tensor_files::{
    Stored as StoredTensor, Weights, read_file, write_safetensors_to,
};
use relax_rewrite::accounts::Accounts;
use relax_rewrite::fallback::Fallback;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::{Failed, Unwatched};
use relax_runtime::file::{LoadError, ModuleFile};
use relax_runtime::program::Numerics;
use relax_runtime::{self as machine, Limits, Value};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_semantics::value;
use relax_syntax::Name;
use relax_syntax::parse::{limits::FILE_BYTES, read_source};
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Bytes of a model without external data, as the format of protocol buffers has it.
const LARGEST_MODEL: u64 = 2 << 30;

/// What is given as a program.
#[derive(FromPyObject)]
pub(crate) struct Origin {
    #[pyo3(item)]
    text: Option<String>,
    #[pyo3(item)]
    path: Option<PathBuf>,
    #[pyo3(item)]
    params: Option<PathBuf>,
}

impl Origin {
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self { text: None, path: Some(path), params: None }
    }
}

/// How it is compiled.
#[derive(FromPyObject)]
pub(crate) struct Wishes {
    /// The C compiler; none for the interpreter.
    #[pyo3(item)]
    pub(crate) compiler: Option<String>,
    #[pyo3(item)]
    pub(crate) exact: bool,
    #[pyo3(item)]
    kernel_check: bool,
    #[pyo3(item)]
    threads: usize,
    #[pyo3(item)]
    max_memory: Option<u64>,
    /// By which rules it is rewritten first.
    #[pyo3(item)]
    rules: Option<Rules>,
}

impl Wishes {
    fn limits(&self) -> Limits {
        let default = Limits::default();
        let bytes = self.max_memory.and_then(|bytes| usize::try_from(bytes).ok());
        Limits { bytes: bytes.unwrap_or(default.bytes), threads: self.threads, ..default }
    }
}

/// Values of constants, by name.
pub(crate) type Externals = BTreeMap<Name, Tensor>;

pub(crate) fn file_error(error: impl std::fmt::Display) -> Failure {
    Failure::new(Class::File, error)
}

/// A program that is not yet known to be right, and the constants that its file has.
fn read(origin: &Origin) -> Result<(Program, Externals), Failure> {
    if let Some(text) = &origin.text {
        let source = read_source("<text>", text.as_bytes());
        let source = source.map_err(|unreadable| {
            Failure::program(&unreadable.source, std::slice::from_ref(&unreadable.diagnostic))
        })?;
        return Ok((Program::load(source), Externals::new()));
    }
    let Some(path) = &origin.path else { return Err(file_error("there is no program")) };
    let name = path.display().to_string();
    let named = |error: relax_program::tensor_files::FileError| {
        file_error(error.at(&format!("cannot read {name}")))
    };
    let bytes = read_file(path, LARGEST_MODEL).map_err(named)?;
    match FileKind::of(&bytes[..bytes.len().min(BEGIN)], path) {
        FileKind::Model => of_model(path, bytes.into()),
        FileKind::Module => {
            let file =
                ModuleFile::open(path).map_err(|error| file_error(format!("{name}: {error}")))?;
            let parts = file.parts().map_err(|error| file_error(format!("{name}: {error}")))?;
            let source = Source::new(parts.metadata.source_name.as_str(), parts.source);
            Ok((Program::load(source), Externals::new()))
        }
        FileKind::Text => Ok((Program::load(source_of(&name, &bytes)?), Externals::new())),
    }
}

/// The text of a file.
pub(crate) fn source_of(name: &str, bytes: &[u8]) -> Result<Source, Failure> {
    if bytes.len() > FILE_BYTES {
        return Err(file_error(format!("cannot read {name}: it is too large")));
    }
    if let Some(why) = refused(name, bytes) {
        return Err(file_error(why));
    }
    if let Some(diagnostic) = encoded(name, bytes) {
        return Err(Failure::program(&Source::new(name, ""), &[diagnostic]));
    }
    read_source(name, bytes).map_err(|unreadable| {
        Failure::program(&unreadable.source, std::slice::from_ref(&unreadable.diagnostic))
    })
}

/// The text of a file of rules.
pub(crate) fn rules_text(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let bytes = read_file(path, FILE_BYTES as u64)
        .map_err(|error| file_error(error.at(&format!("cannot read {name}"))))?;
    Ok(source_of(&name, &bytes)?.text.to_string())
}

/// An import that finds the weights beside the model.
fn beside(path: &Path) -> Options {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = Some(folder.unwrap_or(Path::new(".")).to_owned());
    Options { folder, ..Options::default() }
}

/// Whether a program is a model, and no text.
pub(crate) fn is_model(origin: &Origin) -> bool {
    let Some(path) = &origin.path else { return false };
    let bytes = read_file(path, LARGEST_MODEL).unwrap_or_default();
    FileKind::of(&bytes[..bytes.len().min(BEGIN)], path) == FileKind::Model
}

/// The text of the program that a model is, and what the import has to say.
fn imported_text(path: &Path, bytes: Bytes) -> Result<Imported, Failure> {
    import_model(bytes, &beside(path)).map_err(|error| {
        let class = if error.is_unsupported() { Class::Unsupported } else { Class::Program };
        Failure::new(class, format!("{}: {error}", path.display()))
    })
}

/// The text of a program or a model.
#[pyfunction]
pub(crate) fn text(py: Python<'_>, origin: Origin) -> PyResult<String> {
    let program = py.detach(|| given(&origin));
    let (program, _) = program.map_err(|failure| failure.raised(py))?;
    Ok(program.source.text.to_string())
}

/// The nodes of a description of ATen operators that are not imported, by their places, and why.
#[pyfunction]
pub(crate) fn refused_nodes(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(usize, String)>> {
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let refused = || {
        let bytes = read_file(&path, LARGEST_MODEL).map_err(|e| file_error(named(&e)))?;
        refused_aten(&bytes, &beside(&path))
            .map_err(|error| Failure::new(Class::Program, named(&error)))
    };
    py.detach(refused).map_err(|failure| failure.raised(py))
}

/// The text and the notes of an import, for those who look at a program before they compile it.
#[pyfunction]
pub(crate) fn imported(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<String>)> {
    let import = || {
        let named = |error: relax_program::tensor_files::FileError| {
            file_error(error.at(&format!("cannot read {}", path.display())))
        };
        let bytes = read_file(&path, LARGEST_MODEL).map_err(named)?;
        imported_text(&path, bytes.into()).map(|imported| (imported.text, imported.notes))
    };
    py.detach(import).map_err(|failure| failure.raised(py))
}

fn of_model(path: &Path, bytes: Bytes) -> Result<(Program, Externals), Failure> {
    let imported = imported_text(path, bytes)?;
    let source = Source::new(&*path.to_string_lossy(), imported.text.as_str());
    let params = imported.params.into_iter();
    let externals = params.map(|(name, tensor)| (Name::new(name), tensor.tensor())).collect();
    Ok((Program::load(source), externals))
}

/// A program that is right, and values of its constants as far as they are given.
pub(crate) fn given(origin: &Origin) -> Result<(Program, Externals), Failure> {
    let (program, mut values) = read(origin)?;
    if program.has_errors() {
        return Err(Failure::program(&program.source, &program.diagnostics));
    }
    if let Some(path) = &origin.params {
        let weights = Weights::open(path).map_err(file_error)?;
        values.extend(constants(&program.module, &weights).map_err(Failure::argument)?);
    }
    Ok((program, values))
}

/// A program that is right, and values of all of its constants.
fn ready(origin: &Origin) -> Result<(Program, Externals), Failure> {
    let (program, values) = given(origin)?;
    let missing: Vec<String> = externals(&program.module)
        .into_iter()
        .filter(|(name, _)| !values.contains_key(name))
        .flat_map(|(name, annotations)| {
            annotations.into_iter().map(move |a| format!("\n  `{name}`: {a}"))
        })
        .collect();
    match missing.is_empty() {
        true => Ok((program, values)),
        false => Err(Failure::argument(format!(
            "the program has external constants; give them as `params`, a file or a dictionary:{}",
            missing.concat()
        ))),
    }
}

/// Compiles a program, or makes it ready for the interpreter; with it the calls that are interpreted in a compiled program, and the rules
/// that are not proved.
#[pyfunction]
pub(crate) fn compile(
    py: Python<'_>,
    origin: Origin,
    wishes: Wishes,
) -> PyResult<(Module, Vec<String>, Vec<String>)> {
    let made = py.detach(|| compiled(&origin, &wishes));
    let (loaded, told) = made.map_err(|failure| failure.raised(py))?;
    Ok((loaded.into_module(py)?, told.interpreted, told.unproved))
}

fn compiled(origin: &Origin, wishes: &Wishes) -> Result<(Loaded, Told), Failure> {
    let (program, values) = ready(origin)?;
    if wishes.compiler.is_none() {
        return Ok((Loaded::of_program(program, values, wishes.max_memory), Told::default()));
    }
    let (built, told) = built(&program, &Arc::new(values), wishes)?;
    let stored = Stored::Unnamed(built.file.into_file().into());
    let (source, signatures) = (program.source.clone(), &program.module);
    let kept = (stored, Some(built.compiler));
    Ok((Loaded::of_machine(built.module, signatures, source, kept)?, told))
}

/// What a user is warned of.
#[derive(Default)]
pub(crate) struct Told {
    interpreted: Vec<String>,
    unproved: Vec<String>,
}

/// Machine code, its file, and the compiler that made it.
pub(crate) struct Built {
    pub(crate) module: machine::Module,
    file: tempfile::NamedTempFile,
    compiler: String,
}

/// A C compiler by its command, and the cache of what it made.
pub(crate) fn toolchain(command: Option<&str>, check: KernelCheck) -> Result<Toolchain, Failure> {
    let cache = cache().map_err(|why| Failure::new(Class::Compiler, why))?;
    let compiler = Compiler::named(command.unwrap_or_default())
        .and_then(|compiler| compiler.probing(cache))
        .map_err(|error| Failure::new(Class::Compiler, error))?;
    Ok(Toolchain { compiler, cache: cache.clone(), check })
}

/// Compiles a program with the values of its constants.
pub(crate) fn built(
    program: &Program,
    values: &Arc<Externals>,
    wishes: &Wishes,
) -> Result<(Built, Told), Failure> {
    let numerics = if wishes.exact { Numerics::Exact } else { Numerics::Reassociated };
    let check = if wishes.kernel_check { KernelCheck::default() } else { KernelCheck::Off };
    let toolchain = toolchain(wishes.compiler.as_deref(), check)?;
    let described = format!("{}: {}", toolchain.compiler.command(), toolchain.compiler.version());
    let mut target = Target::of(Device::Cpu, numerics).by(toolchain);
    let mut told = Told::default();
    match &wishes.rules {
        None => target = target.rewriting(&program.module),
        Some(rules) if rules.are_none() => {}
        Some(rules) => {
            let (options, unproved) = rules.of_pipeline(&program.module, numerics)?;
            target.rules = Some(Arc::new(options));
            told.unproved = unproved.iter().map(ToString::to_string).collect();
        }
    }
    let given = Given::of(Arc::clone(values));
    let mut unwatched = Unwatched;
    let mut watch = Accounts::before(&mut unwatched);
    let image = build(program, &target, &given, &mut watch).and_then(Artifact::into_file);
    told.interpreted = watch.fallbacks.iter().map(|call| said(&program.source, call)).collect();
    let image = image.map_err(|error| refusal(program, error))?;
    let mut file = tempfile::NamedTempFile::new().map_err(file_error)?;
    image.write(file.as_file_mut()).map_err(file_error)?;
    drop(image);
    let module = machine::Module::open(file.path(), wishes.limits());
    let module = module.map_err(|error| unloaded(&program.source.name, &error))?;
    Ok((Built { module, file, compiler: described }, told))
}

fn said(source: &Source, call: &Fallback) -> String {
    let (line, column) = source.line_column(call.span.start);
    let Fallback { function, operator, reason, .. } = call;
    let place = format!("{}:{line}:{column}", source.name);
    format!("{place}: `{operator}` in `{function}` is interpreted, which is far slower: {reason}")
}

/// Passes that did not run.
pub(crate) fn failed(program: &Program, failed: Failed) -> Failure {
    match failed {
        Failed::Refused { diagnostics, .. } => Failure::program(&program.source, &diagnostics),
        failed => {
            Failure::new(Class::Internal, format!("a pass is wrong, please report it: {failed:?}"))
        }
    }
}

pub(crate) fn refusal(program: &Program, error: CompileError) -> Failure {
    match error {
        CompileError::Pass(error) => failed(program, *error),
        CompileError::Build(BuildError::Program(unsupported)) => {
            let (line, _) = program.source.line_column(unsupported.span.start);
            let name = &program.source.name;
            Failure::new(Class::Unsupported, format!("{name}:{line}: not supported: {unsupported}"))
        }
        CompileError::Build(error @ BuildError::Kernel { .. }) => {
            Failure::new(Class::Unsupported, error)
        }
        CompileError::Load(error) => unloaded(&program.source.name, &error),
        error @ (CompileError::Build(_) | CompileError::Device(_)) => {
            Failure::new(Class::Compiler, error)
        }
    }
}

fn unloaded(name: &str, error: &LoadError) -> Failure {
    Failure::new(Class::File, format!("{name}: {error}"))
}

/// Compiled kernels of this user; of this process where the user has no folder for them.
fn cache() -> Result<&'static Cache, String> {
    static OPENED: OnceLock<Result<Cache, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| match Cache::of_user() {
        Ok(cache) => Ok(cache.of_at_most(LIMIT / 2)),
        Err(_) => {
            Cache::temporary().map_err(|error| format!("no folder for compiled kernels: {error}"))
        }
    });
    opened.as_ref().map_err(Clone::clone)
}

/// Opens a module file. It is mapped, not read.
#[pyfunction]
pub(crate) fn load(
    py: Python<'_>,
    path: PathBuf,
    threads: usize,
    max_memory: Option<u64>,
) -> PyResult<Module> {
    let wishes = Wishes {
        compiler: None,
        exact: false,
        kernel_check: true,
        threads,
        max_memory,
        rules: None,
    };
    let open = || {
        let name = path.display().to_string();
        let module = machine::Module::open(&path, wishes.limits());
        let module = module.map_err(|error| match error {
            LoadError::Unreadable { .. } => file_error(error),
            error => unloaded(&name, &error),
        })?;
        let signatures =
            Program::load(Source::new("signatures", module.metadata().signatures.as_str()));
        if signatures.has_errors() {
            return Err(file_error(format!("{name}: the signatures of its functions do not read")));
        }
        let source = Source::new(module.metadata().source_name.as_str(), module.source());
        Loaded::of_machine(module, &signatures.module, source, (Stored::At(path.clone()), None))
    };
    py.detach(open).map_err(|failure| failure.raised(py))?.into_module(py)
}

/// Checks that are left to run time, with their lines.
type Left = Vec<(usize, String)>;

/// Diagnostics of a program, and the checks that are left to run time with their lines.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, origin: Origin) -> PyResult<(Vec<FindingTuple>, Left)> {
    let checked = py.detach(|| {
        let (program, _) = match read(&origin) {
            Ok(program) => program,
            Err(failure) => return failure.findings().map(|found| (found, Vec::new())),
        };
        let mut found = static_failures(&program.module, &program.left);
        let phase = Phase::of_module(&program.module).unwrap_or(Phase::Surface);
        found.extend(demands(&program.module, phase));
        located(&program.source, &mut found);
        let all = program.diagnostics.iter().chain(&found);
        let findings = all.map(|diagnostic| Finding::of(&program.source, diagnostic)).collect();
        let line = |span: relax_syntax::span::Span| program.source.line_column(span.start).0;
        let left = program.left.iter().map(|left| (line(left.span), left.text.clone())).collect();
        Ok((findings, left))
    });
    let (found, left): (Vec<Finding>, _) = checked.map_err(|failure| failure.raised(py))?;
    Ok((found.into_iter().map(Finding::into_tuple).collect(), left))
}

/// Writes arrays to a safetensors file, the form in which `compile` takes constants.
#[pyfunction]
pub(crate) fn write_params(
    py: Python<'_>,
    path: PathBuf,
    arrays: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let write = || {
        let mut tensors = Vec::new();
        for (name, object) in arrays {
            let name = name.cast::<PyString>().map_err(|_| Failure::argument("a name is a str"))?;
            let name = name.to_string_lossy().into_owned();
            let tensor = array(&object, &Copies::default());
            let tensor = tensor.map_err(|failure| failure.of_argument(&name))?;
            tensors.push((name, tensor));
        }
        py.detach(|| {
            let semantic = |(name, tensor): &(String, machine::Tensor)| {
                let value =
                    relax_reference::to_semantics(&Value::Tensor(tensor.clone()), &mut |_| None);
                match value {
                    Ok(value::Value::Tensor(tensor)) => Ok((name.clone(), tensor)),
                    Ok(_) | Err(_) => Err(Failure::argument(format!("`{name}` is no tensor"))),
                }
            };
            let tensors = tensors.iter().map(semantic).collect::<Result<Vec<_>, _>>()?;
            let stored: Vec<(&str, StoredTensor)> = tensors
                .iter()
                .map(|(name, t)| (name.as_str(), StoredTensor::Tensor(t.clone())))
                .collect();
            write_safetensors_to(&path, &stored).map_err(file_error)
        })
    };
    write().map_err(|failure| failure.raised(py))
}

/// The first line of `--version` of a C compiler; none where it cannot be run.
#[pyfunction]
pub(crate) fn compiler_version(py: Python<'_>, command: &str) -> Option<String> {
    py.detach(|| Compiler::named(command).ok().map(|compiler| compiler.version().to_owned()))
}
