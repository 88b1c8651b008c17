//! From text to a checked module, and from there to a value: the one place where the harness and
//! the command put the parts of the lower floors together.

use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::ir::{Definition, Module};
use relax_syntax::parse::parse_file;
use relax_syntax::print::print_file;
use relax_syntax::raise::raise_module;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::{Source, Span};
use std::collections::BTreeMap;

/// A program and all that is known to be wrong with it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its text.
    pub source: Source,
    /// What could be read of it; the whole of it where there is no error.
    pub module: Module,
    /// In the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

impl Program {
    /// Parses, resolves and checks a text.
    #[must_use]
    pub fn load(source: Source) -> Self {
        let (file, mut diagnostics) = parse_file(&source);
        let (module, resolved) = resolve_file(&file);
        diagnostics.extend(resolved);
        diagnostics.sort_by_key(|diagnostic| diagnostic.primary.span);
        Self { source, module, diagnostics }
    }

    /// True when something is wrong with it.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// How a program is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The values of `param("…")`.
    pub externals: BTreeMap<Name, Tensor>,
    /// Bytes that one tensor may take; `None`: the default.
    pub tensor_bytes: Option<u64>,
    /// Steps that may be executed; `None`: the default.
    pub steps: Option<u64>,
    /// Whether iterations of parallel loops are watched for races.
    pub loops: Loops,
}

/// The order in which the iterations of tensor programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loops {
    /// One after another, as the text says.
    #[default]
    Sequential,
    /// In lock step, and a race between two of them is a trap.
    LockStep,
}

/// Calls a function of a module in the reference interpreter.
///
/// # Errors
/// What stops the run.
pub fn run(
    _module: &Module,
    _function: &str,
    _arguments: Vec<Value>,
    _options: &RunOptions,
) -> Result<Value, Stop> {
    Err(Stop::Unsupported("the interpreter".to_owned()))
}

/// Prints a module as text and reads it back.
///
/// # Errors
/// When the text does not read back to an equal module.
pub fn print_and_parse(module: &Module) -> Result<Program, String> {
    let text = print_file(&raise_module(module));
    let (file, mut diagnostics) = parse_file(&Source::new("printed", text.as_str()));
    let (read, resolved) = resolve_file(&file);
    diagnostics.extend(resolved);
    let source = Source::new("printed", text.as_str());
    if let Some(first) = diagnostics.first() {
        let (line, _) = source.line_column(first.primary.span.start);
        let shown = source.line(line);
        return Err(format!("the printed text does not read back: {}: `{shown}`", first.message));
    }
    if let Some(name) = first_difference(module, &read) {
        return Err(format!("`{name}` changes when printed and read back:\n{text}"));
    }
    Ok(Program { source, module: read, diagnostics })
}

/// The name of the first definition that differs in what the text says.
fn first_difference(a: &Module, b: &Module) -> Option<Name> {
    let pairs = a.definitions.iter().zip(&b.definitions);
    let mut differing = pairs.filter(|(x, y)| placeless(x) != placeless(y));
    if let Some((definition, _)) = differing.next() {
        return Some(definition.name().clone());
    }
    let same = a.attrs == b.attrs && a.definitions.len() == b.definitions.len();
    (!same).then(|| Name::new("the module"))
}

/// A definition without the place of its header, the only place that equality looks at.
fn placeless(definition: &Definition) -> Definition {
    let mut definition = definition.clone();
    match &mut definition {
        Definition::Graph(function) => function.span = Span::default(),
        Definition::Tensor(program) => program.span = Span::default(),
    }
    definition
}

/// The names and annotations of the parameters of a function or tensor program.
#[must_use]
pub fn parameters(module: &Module, function: &str) -> Option<Vec<(Name, Annotation)>> {
    let definition = module.definitions.iter().find(|d| d.name() == function)?;
    Some(match definition {
        Definition::Graph(function) => {
            let ids = function.lambda.params.iter();
            ids.map(|&id| (function.var(id).name.clone(), function.param_annotation(id).clone()))
                .collect()
        }
        Definition::Tensor(_) => return None,
    })
}
