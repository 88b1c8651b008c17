//! From the text of P2.3 to the register code of the virtual machine.
//!
//! The text is the only input: each call of a built-in is one instruction, each variable a register. What
//! has no instruction is refused with its place, never guessed.

mod calls;
mod constants;
mod function;
mod operands;

pub use calls::RUN_OPERATOR;
pub use constants::elements;

use crate::passes::{lower_builtins, lower_shapes};
use constants::Constants;
use function::lower_function;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_runtime::file::Image;
use relax_runtime::program::{
    Elements as BufferElements, Extent, Given, Kernel, Metadata, Param as Parameter, Program,
    Watched, Work,
};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::Compiled;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{DONATED, Definition, Function, Module, OUTPUT_NAME, TensorProgram};
use relax_syntax::span::{Source, Span};
use relax_tir::analysis::access_summary::AccessSummary;
use relax_tir::work::{Work as Found, work};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What cannot be told the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is, as a sentence.
    pub message: String,
    /// Where it stands.
    pub span: Span,
    /// In which function.
    pub function: Option<Name>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(f, "{} (in `{function}`)", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What a module file says beside the program.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Of `param("…")`, by name.
    pub externals: &'a BTreeMap<Name, Tensor>,
    /// What the spans of the module refer to.
    pub source: &'a Source,
    /// The program as it was before the passes: what its functions take.
    pub signatures: &'a Module,
}

/// A module of P2.3 as a module file without machine code. Its kernels are `kernels(module)`, in this order.
///
/// # Errors
/// What has no instruction.
pub fn lower_program(module: &Module, around: &Around<'_>) -> Result<Image, Unsupported> {
    if Phase::of_module(module) != Ok(Phase::P23) {
        return Err(nowhere("only a module of phase P2.3 becomes a program"));
    }
    let module = &written_out(module)?;
    let mut tables = Tables {
        functions: module.functions().map(|function| function.name.clone()).collect(),
        kernels: kernels(module).into_iter().map(|program| program.name.clone()).collect(),
        externals: around.externals,
        constants: Constants::default(),
        texts: BTreeMap::new(),
        passed: BTreeSet::new(),
    };
    let mut program = Program::default();
    for kernel in kernels(module) {
        program.kernels.push(signature(kernel)?);
    }
    for function in module.functions() {
        let lowered = lower_function(module, function, &mut tables)?;
        program.functions.push(lowered);
    }
    let programs =
        kernels(module).into_iter().filter(|program| tables.passed.contains(&program.name));
    let programs = programs.map(|program| Definition::Tensor(program.clone())).collect();
    let programs = Module { attrs: Vec::new(), definitions: programs };
    let mut texts: Vec<(String, u32)> = tables.texts.into_iter().collect();
    texts.sort_by_key(|(_, at)| *at);
    program.texts = texts.into_iter().map(|(text, _)| text).collect();
    let (constants, data) = tables.constants.finish();
    program.constants = constants;
    let metadata = Metadata {
        producer: format!("relax {}", env!("CARGO_PKG_VERSION")),
        signatures: relax_program::frontend::print(&signatures(around.signatures)),
        programs: relax_program::frontend::print(&programs),
        source_name: around.source.name.clone(),
        ..Metadata::default()
    };
    let source = around.source.text.clone();
    Ok(Image { program, data, metadata, source, ..Image::default() })
}

/// The tensor programs that a module calls by number: all that have a body.
#[must_use]
pub fn kernels(module: &Module) -> Vec<&TensorProgram> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) if program.body.is_some() => Some(program),
        _ => None,
    });
    programs.collect()
}

/// What the functions of a module grow by.
pub(super) struct Tables<'a> {
    /// Names by number.
    functions: Vec<Name>,
    kernels: Vec<Name>,
    externals: &'a BTreeMap<Name, Tensor>,
    constants: Constants,
    texts: BTreeMap<String, u32>,
    /// Tensor programs that are values.
    passed: BTreeSet<Name>,
}

fn nowhere(message: &str) -> Unsupported {
    Unsupported { message: message.to_owned(), span: Span::default(), function: None }
}

/// A text of that phase may still have annotations without symbolic dims, and operands by name: the passes
/// of the phase write them out once more.
fn written_out(module: &Module) -> Result<Module, Unsupported> {
    let annotated = |function: &Function| {
        let of_params = function.lambda.params.iter().map(|&id| function.param_annotation(id));
        let of_vars = function.vars.iter().filter_map(|var| var.annotation.as_ref());
        let all = of_params.chain(&function.lambda.result).chain(of_vars);
        function.lambda.body.is_some()
            && all.into_iter().any(|annotation| *annotation != Annotation::Object)
    };
    let mut passes = vec![&lower_builtins::PASS];
    if module.functions().any(annotated) {
        passes.insert(0, &lower_shapes::PASS);
    }
    let (settings, mut prover) = (Settings::default(), Prover::new());
    let route = Route::Passes(passes);
    run(module, &route, &settings, &mut prover, &mut Unwatched).map_err(|failed| match failed {
        Failed::Refused { pass, diagnostics } | Failed::Broken { pass, diagnostics, .. } => {
            let first = diagnostics.first();
            Unsupported {
                message: format!("{pass}: {}", first.map_or("", |found| found.message.as_str())),
                span: first.map(|found| found.primary.span).unwrap_or_default(),
                function: None,
            }
        }
        Failed::Stopped { pass, why } => nowhere(&format!("{pass}: {why}")),
    })
}

/// What the machine must know of a tensor program to call it.
fn signature(program: &TensorProgram) -> Result<Kernel, Unsupported> {
    let compiled = Compiled::new(program).map_err(|diagnostics| Unsupported {
        message: diagnostics.first().map_or(String::new(), |found| found.message.clone()),
        span: program.span,
        function: Some(program.name.clone()),
    })?;
    let mut writes = compiled.writes().into_iter();
    let param = |param: &Param| match param {
        Param::Buffer(id) => {
            let buffer = program.buffer(*id);
            Parameter::Buffer {
                name: buffer.name.to_string(),
                dtype: constants::dtype(buffer.dtype),
                rank: u32::try_from(buffer.shape.len()).unwrap_or(u32::MAX),
                is_written: writes.next().unwrap_or(true),
            }
        }
        Param::Scalar(_) | Param::Dim(_) => Parameter::Int,
    };
    Ok(Kernel {
        name: program.name.to_string(),
        params: program.params.iter().map(param).collect(),
        symbol: None,
        sites: Vec::new(),
        watched: None,
        work: work(program).map(|found| work_of(program, &found)),
        span: function::span(program.span),
    })
}

/// What [`work`] found, in the words of the machine.
fn work_of(program: &TensorProgram, found: &Found) -> Work {
    let mut names = BTreeSet::new();
    for dim in found.elements.iter().chain([&found.operations]) {
        dim.visit_vars(&mut |name| {
            names.insert(name.clone());
        });
    }
    let integers = program.params.iter().filter_map(|param| match param {
        Param::Scalar(id) => Some(program.scalar(*id).name.clone()),
        Param::Dim(name) => Some(name.clone()),
        Param::Buffer(_) => None,
    });
    let integers: Vec<Name> = integers.collect();
    let given = |name: &Name| {
        let at = integers.iter().position(|own| own == name);
        let integer = at.map(|at| Given::Int(u32::try_from(at).unwrap_or(u32::MAX)));
        integer.or_else(|| extent(program, &Dim::Var(name.clone())).map(Given::Extent))
    };
    let dims = names.iter().filter_map(|name| Some((name.to_string(), given(name)?)));
    Work {
        operations: found.operations.to_string(),
        elements: found.elements.iter().map(ToString::to_string).collect(),
        dims: dims.collect(),
    }
}

/// The first extent of a buffer that is declared as this dim.
fn extent(program: &TensorProgram, wanted: &Dim) -> Option<Extent> {
    let shapes = program.buffer_params().map(|buffer| &program.buffer(buffer).shape);
    shapes.zip(0..).find_map(|(shape, buffer)| {
        let axis = shape.iter().position(|dim| dim == wanted)?;
        Some(Extent { buffer, axis: u32::try_from(axis).ok()? })
    })
}

/// What a program does to the elements of its buffers, as the machine can ask it: dims are extents of the buffers.
#[must_use]
pub fn buffer_elements(program: &TensorProgram, known: &[AccessSummary]) -> Vec<BufferElements> {
    let elements = known.iter().map(|known| BufferElements {
        are_read_first: known.are_read_first,
        are_written_where: known
            .are_written_where
            .as_ref()
            .and_then(|positive| positive.iter().map(|dim| extent(program, dim)).collect()),
    });
    elements.collect()
}

/// Has the machine know what the kernels of a device do to the elements of their buffers, so that it brings maps to calls with
/// elements that nothing wrote ([`Kernels::call_watched`](relax_runtime::Kernels::call_watched)).
pub fn watch_kernels(
    image: &mut Image,
    module: &Module,
    known: impl Fn(&TensorProgram) -> Vec<AccessSummary>,
) {
    for (kernel, program) in image.program.kernels.iter_mut().zip(kernels(module)) {
        let elements = buffer_elements(program, &known(program));
        kernel.watched = Some(Watched { symbol: None, sites: Vec::new(), elements });
    }
}

/// The functions of a module as external ones: what they take and give, what they declare of dims, the names
/// of outputs, and which parameters are donated.
fn signatures(module: &Module) -> Module {
    let external = |function: &Function| {
        let mut function = function.clone();
        function.lambda.body = None;
        function.lambda.attrs.retain(|(key, _)| key.starts_with(OUTPUT_NAME) || key == DONATED);
        function.dims.retain(|dim| dim.in_signature);
        Definition::Graph(function)
    };
    let entries = module.functions().filter(|function| function.lambda.body.is_some());
    Module { attrs: Vec::new(), definitions: entries.map(external).collect() }
}
