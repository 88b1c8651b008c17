//! Front end: parses, resolves, normalizes and checks a program in one call, with the prover. Also prints it, and
//! runs it in the reference interpreter: the command, the passes and the test harness share these calls.

use relax_semantics::check::{Left, Phase, check, codes};
use relax_semantics::interp::{Interpreter, Observer, Options};
use relax_semantics::ops::{Limits, lookup};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::Mode;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{CodeInfo, Diagnostic, Part, Severity};
use relax_syntax::ir::{Definition, Module};
use relax_syntax::parse::parse_file;
use relax_syntax::places::locate;
use relax_syntax::print::print_file;
use relax_syntax::raise::{OPERATOR, raise_module};
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::{Source, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A program and all that is known to be wrong with it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its text.
    pub source: Source,
    /// What could be read of it, in normal form, with what was deduced; the whole of it where there
    /// is no error.
    pub module: Module,
    /// In the order of their places.
    pub diagnostics: Vec<Diagnostic>,
    /// What is left to run time.
    pub left: Vec<Left>,
}

impl Program {
    /// Parses, resolves and checks a text for the phase that it records.
    #[must_use]
    pub fn load(source: Source) -> Self {
        Self::load_for(source, None)
    }

    /// Parses, resolves and checks a text. What does not parse is not checked further: what is
    /// missing from the tree would only be found missing again.
    #[must_use]
    pub fn load_for(source: Source, phase: Option<Phase>) -> Self {
        Self::load_both(source, phase).0
    }

    /// As [`Program::load`], and the module as it was written, without what was deduced.
    #[must_use]
    pub fn load_with_raw(source: Source) -> (Self, Module) {
        Self::load_both(source, None)
    }

    fn load_both(source: Source, phase: Option<Phase>) -> (Self, Module) {
        let (file, mut diagnostics) = parse_file(&source);
        let parses = diagnostics.is_empty();
        let (module, resolved) = resolve_file(&file);
        if !parses {
            locate(&source, &file, &mut diagnostics);
            let read = Self { source, module: module.clone(), diagnostics, left: Vec::new() };
            return (read, module);
        }
        diagnostics.extend(resolved);
        // A phase that does not exist is told by the check itself.
        let recorded = Phase::of_module(&module).unwrap_or(Phase::Surface);
        let checked = check(&module, &mut Prover::new(), phase.unwrap_or(recorded));
        let mut found = checked.diagnostics;
        // A variable whose declaration is reported as missing is not reported again where nothing binds it.
        found.retain(|diagnostic| {
            let is_reported =
                |span| diagnostics.iter().any(|reported| reported.primary.span == span);
            let mut declared = diagnostic.secondary.iter().map(|label| label.span);
            diagnostic.code != codes::UNBOUND_DIM || !declared.any(is_reported)
        });
        diagnostics.extend(found);
        diagnostics.extend(module.definitions.iter().filter_map(hides));
        locate(&source, &file, &mut diagnostics);
        diagnostics.sort_by_key(|diagnostic| diagnostic.primary.span);
        let read = Self { source, module: checked.module, diagnostics, left: checked.obligations };
        (read, module)
    }

    /// True when something is wrong with it.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// A warning of a function that has the name of an operator.
fn hides(definition: &Definition) -> Option<Diagnostic> {
    let Definition::Graph(function) = definition else { return None };
    let name = &function.name;
    let row = lookup(name)?;
    let message = format!("`{name}` is an operator too, which this function hides");
    let found = Diagnostic::error(codes::HIDDEN_OPERATOR, function.span, message).as_warning();
    let help =
        format!("`{OPERATOR}{}` is always the operator; or rename the function", row.short_name());
    Some(
        found.at(Part::Callee).with_label("calls of this name are of the function").with_help(help),
    )
}

/// Narrows labels of diagnostics on a text to the parts that they are about.
pub fn located(source: &Source, diagnostics: &mut [Diagnostic]) {
    if !diagnostics.is_empty() {
        locate(source, &parse_file(source).0, diagnostics);
    }
}

/// What a code is about, in a few words.
#[must_use]
pub fn title_of(code: &str) -> Option<&'static str> {
    code_tables().into_iter().flatten().find(|info| info.code == code).map(|info| info.title)
}

/// Every table of codes.
#[must_use]
pub fn code_tables() -> Vec<&'static [CodeInfo]> {
    vec![
        relax_syntax::codes::CODES,
        relax_syntax::resolve::codes::CODES,
        relax_syntax::resolve::tensor_codes::CODES,
        relax_semantics::check::codes::CODES,
        relax_semantics::tir::CODES,
    ]
}

/// How a program is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The values of `param("…")`.
    pub externals: Arc<BTreeMap<Name, Tensor>>,
    /// Bytes that the tensors in use may take together; `None`: the default.
    pub memory: Option<u64>,
    /// Steps that may be executed; `None`: the default.
    pub steps: Option<u64>,
    /// Whether iterations of parallel loops are watched for races.
    pub loops: Mode,
    /// Who watches calls.
    pub observer: Option<Arc<dyn Observer>>,
}

impl RunOptions {
    /// The same for the interpreter itself.
    #[must_use]
    pub fn interpreter_options(&self) -> Options {
        let mut limits = Limits::default();
        if let Some(bytes) = self.memory {
            (limits.tensor_bytes, limits.total_bytes) = (bytes, bytes);
        }
        limits.steps = self.steps.unwrap_or(limits.steps);
        Options {
            limits,
            externals: self.externals.clone(),
            mode: self.loops,
            observer: self.observer.clone(),
            rank: None,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The value, or what stopped the run.
    pub result: Result<Value, Stop>,
    /// Lines that the program printed.
    pub printed: Vec<String>,
}

/// Calls a function of a module in the reference interpreter.
#[must_use]
pub fn run(module: &Module, function: &str, arguments: Vec<Value>, options: &RunOptions) -> Ran {
    let mut interpreter = interpreter(module, options);
    let result = interpreter.call(function, arguments);
    Ran { result, printed: interpreter.printed }
}

/// The reference interpreter with these options.
pub(crate) fn interpreter<'m>(module: &'m Module, options: &RunOptions) -> Interpreter<'m> {
    Interpreter::new(module, options.interpreter_options())
}

/// A module as text.
#[must_use]
pub fn print(module: &Module) -> String {
    print_file(&raise_module(module))
}

/// Prints a module as text and reads it back.
///
/// # Errors
/// When the text does not read back to an equal module.
pub fn print_and_parse(module: &Module) -> Result<Program, String> {
    let text = print(module);
    let source = Source::new("printed", text.as_str());
    let (file, mut diagnostics) = parse_file(&source);
    let (read, resolved) = resolve_file(&file);
    diagnostics.extend(resolved);
    if let Some(first) = diagnostics.first() {
        let (line, _) = source.line_column(first.primary.span.start);
        let shown = source.line(line);
        return Err(format!("the printed text does not read back: {}: `{shown}`", first.message));
    }
    if let Some(name) = first_difference(module, &read) {
        return Err(format!("`{name}` changes when printed and read back:\n{text}"));
    }
    Ok(Program::load(source))
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
