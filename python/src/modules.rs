//! Modules that are ready to be called: compiled ones on the virtual machine, or programs in the reference interpreter.

use crate::errors::{Class, Failure};
use crate::inputs::{Copies, value};
use crate::outputs::{named_tuple, object};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relax_driver::whole_file::write_to;
use relax_program::frontend::{Program, RunOptions, print, run};
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_runtime::{self as machine, DType, Parameter, Value};
use relax_semantics::stop::Stop;
use relax_semantics::{ops, tensor};
use relax_syntax::Name;
use relax_syntax::ir::{self, output_names};
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, copy};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What runs the calls.
pub(crate) enum Engine {
    Machine(Box<machine::Module>),
    Interpreter { program: Box<Program>, options: RunOptions },
}

/// Where the bytes of a module file are.
pub(crate) enum Stored {
    /// A file without a name, which goes with the module.
    Unnamed(Mutex<File>),
    At(PathBuf),
    Nowhere,
}

/// A function as it is called.
pub(crate) struct Signature {
    parameters: Vec<Parameter>,
    outputs: Option<Py<PyAny>>,
    names: Vec<String>,
}

/// What the objects of a module share.
pub(crate) struct Loaded {
    engine: Engine,
    functions: BTreeMap<String, Signature>,
    source: Source,
    stored: Stored,
    compiler: Option<String>,
    copies: Copies,
    printed: Printed,
    /// Lines that the interpreter printed.
    lines: Mutex<Vec<String>>,
}

/// A compiled or interpreted program.
#[pyclass(frozen, module = "relaxc", name = "Module")]
pub(crate) struct Module(Arc<Loaded>);

/// A function of a module.
#[pyclass(frozen, module = "relaxc", name = "Function")]
pub(crate) struct Function {
    loaded: Arc<Loaded>,
    name: String,
}

impl Loaded {
    /// Of a module of the virtual machine. `signatures` declare its functions.
    pub(crate) fn of_machine(
        mut module: machine::Module,
        signatures: &ir::Module,
        source: Source,
        (stored, compiler): (Stored, Option<String>),
    ) -> Result<Self, Failure> {
        let printed = Printed::default();
        let registered = register(&mut module, &ops::Limits::default(), &printed);
        registered.map_err(|why| Failure::new(Class::Unsupported, why))?;
        let functions = module.functions().filter_map(|name| {
            let mut parameters = module.function(name)?.parameters();
            name_unchecked(&mut parameters, name, signatures);
            Some((name.to_owned(), Signature::of(name, parameters, signatures)))
        });
        let functions = functions.collect();
        let engine = Engine::Machine(Box::new(module));
        let copies = Copies::default();
        let lines = Mutex::default();
        Ok(Self { engine, functions, source, stored, compiler, copies, printed, lines })
    }

    /// Of a program for the interpreter, with values of its constants.
    pub(crate) fn of_program(
        program: Program,
        externals: BTreeMap<Name, tensor::Tensor>,
        max_memory: Option<u64>,
    ) -> Self {
        let functions = program.module.functions().map(|function| {
            let ids = function.lambda.params.iter();
            let parameters = ids.map(|&id| {
                let annotation = function.param_annotation(id);
                let tensor = annotation.as_tensor();
                let dims = tensor.and_then(|tensor| tensor.extents.dims());
                Parameter {
                    name: function.var(id).name.to_string(),
                    annotation: annotation.to_string(),
                    dtype: tensor
                        .and_then(|tensor| tensor.dtype)
                        .and_then(|dtype| DType::parse(dtype.name())),
                    dims: dims.map(|dims| dims.iter().map(ToString::to_string).collect()),
                    is_donated: false,
                }
            });
            let signature = Signature::of(&function.name, parameters.collect(), &program.module);
            (function.name.to_string(), signature)
        });
        let functions = functions.collect();
        let externals = Arc::new(externals);
        let options = RunOptions { externals, memory: max_memory, ..RunOptions::default() };
        let source = program.source.clone();
        let engine = Engine::Interpreter { program: Box::new(program), options };
        let (copies, printed) = (Copies::default(), Printed::default());
        let (stored, lines) = (Stored::Nowhere, Mutex::default());
        Self { engine, functions, source, stored, compiler: None, copies, printed, lines }
    }

    /// With the classes of named results.
    pub(crate) fn into_module(mut self, py: Python<'_>) -> PyResult<Module> {
        for signature in self.functions.values_mut().filter(|s| !s.names.is_empty()) {
            signature.outputs = Some(named_tuple(py, &signature.names)?);
        }
        Ok(Module(Arc::new(self)))
    }

    /// Calls a function. The GIL is released meanwhile.
    fn call<'py>(
        &self,
        name: &str,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        let called = self.bound(name, arguments, named).and_then(|(signature, arguments)| {
            let result = py.detach(|| self.run(name, &arguments));
            self.show_printed(py)
                .map_err(|error| Failure::new(Class::Internal, "printing fails").because(error))?;
            // A result that is an argument keeps it.
            drop(arguments);
            object(py, result?, signature.outputs.as_ref())
        });
        called.map_err(|failure| failure.raised(py))
    }

    fn run(&self, name: &str, arguments: &[Value]) -> Result<Value, Failure> {
        let stopped = |stop: Stop| Failure::stop(&self.source, &stop);
        let unsupported = |why: String| Failure::new(Class::Unsupported, why);
        match &self.engine {
            Engine::Machine(module) => {
                let function = module.function(name);
                let function = function
                    .ok_or_else(|| Failure::argument(format!("there is no function `{name}`")))?;
                function.call(arguments).map_err(|stop| stopped(stop_to_semantics(stop)))
            }
            Engine::Interpreter { program, options } => {
                let given = arguments.iter().map(|value| to_semantics(value, &mut |_| None));
                let given = given.collect::<Result<Vec<_>, _>>().map_err(unsupported)?;
                let ran = run(&program.module, name, given, options);
                self.lines().extend(ran.printed);
                to_machine(&ran.result.map_err(stopped)?).map_err(unsupported)
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints what the program printed, by Python's own `print`, so that notebooks show it.
    fn show_printed(&self, py: Python<'_>) -> PyResult<()> {
        let own = std::mem::take(&mut *self.lines());
        for line in self.printed.take().into_iter().chain(own) {
            py.import("builtins")?.call_method1("print", (line,))?;
        }
        Ok(())
    }

    /// The arguments in the order of the parameters.
    fn bound(
        &self,
        name: &str,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> Result<(&Signature, Vec<Value>), Failure> {
        let signature = self.functions.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.functions.keys().map(String::as_str).collect();
            Failure::argument(format!(
                "there is no function `{name}`: there is {}",
                known.join(", ")
            ))
        })?;
        let parameters = &signature.parameters;
        let count = arguments.len() + named.map_or(0, |named| named.len());
        if count != parameters.len() {
            let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
            return Err(Failure::argument(format!(
                "`{name}` takes {} argument{} ({}), found {count}",
                parameters.len(),
                if parameters.len() == 1 { "" } else { "s" },
                names.join(", ")
            )));
        }
        let mut values = Vec::with_capacity(count);
        for (at, parameter) in parameters.iter().enumerate() {
            let argument = if at < arguments.len() {
                arguments.get_item(at).ok()
            } else {
                named.and_then(|named| named.get_item(&parameter.name).ok().flatten())
            };
            let Some(argument) = argument else {
                return Err(missing(name, parameter, parameters, named));
            };
            let read = value(&argument, parameter, &self.copies);
            values.push(read.map_err(|failure| failure.of_argument(&parameter.name))?);
        }
        Ok((signature, values))
    }
}

/// Names the parameters of which machine code checks nothing, and so does not know their names.
fn name_unchecked(parameters: &mut [Parameter], function: &str, signatures: &ir::Module) {
    let Some(function) = signatures.function(function) else { return };
    for (parameter, &id) in parameters.iter_mut().zip(&function.lambda.params) {
        if parameter.name.is_empty() {
            parameter.name = function.var(id).name.to_string();
        }
    }
}

/// What is said where an argument is missing. A name that no parameter has is likely to be the misspelled one.
fn missing(
    function: &str,
    parameter: &Parameter,
    parameters: &[Parameter],
    named: Option<&Bound<'_, PyDict>>,
) -> Failure {
    let given = named.map(|named| named.keys().iter().map(|key| key.to_string()).collect());
    let given: Vec<String> = given.unwrap_or_default();
    let unknown: Vec<String> = given
        .iter()
        .filter(|key| !parameters.iter().any(|parameter| parameter.name == **key))
        .map(|key| format!("`{key}`"))
        .collect();
    let unknown = match unknown.is_empty() {
        true => String::new(),
        false => format!("; it has no parameter {}", unknown.join(", ")),
    };
    let (own, expected) = (&parameter.name, &parameter.annotation);
    Failure::argument(format!(
        "the argument `{own}` of `{function}` is missing: expected {expected}{unknown}"
    ))
}

impl Signature {
    fn of(name: &str, parameters: Vec<Parameter>, signatures: &ir::Module) -> Self {
        let names = signatures.function(name).map(|function| output_names(&function.lambda.attrs));
        let names = names.unwrap_or_default().iter().map(ToString::to_string).collect();
        Self { parameters, outputs: None, names }
    }
}

#[pymethods]
impl Module {
    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.0.call("main", arguments, named)
    }

    fn __getitem__(&self, name: String) -> PyResult<Function> {
        match self.0.functions.contains_key(&name) {
            true => Ok(Function { loaded: Arc::clone(&self.0), name }),
            false => Err(PyKeyError::new_err(name)),
        }
    }

    #[getter]
    fn functions(&self) -> Vec<String> {
        self.0.functions.keys().cloned().collect()
    }

    /// `cpu` or `interpreter`
    #[getter]
    fn backend(&self) -> &'static str {
        match self.0.engine {
            Engine::Machine(_) => "cpu",
            Engine::Interpreter { .. } => "interpreter",
        }
    }

    #[getter]
    fn compiler(&self) -> Option<&str> {
        self.0.compiler.as_deref()
    }

    #[getter]
    fn copied_arguments(&self) -> u64 {
        self.0.copies.arguments.load(Ordering::Relaxed)
    }

    #[getter]
    fn copied_bytes(&self) -> u64 {
        self.0.copies.bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn text(&self) -> String {
        // With the shapes that were deduced.
        match &self.0.engine {
            Engine::Interpreter { program, .. } => print(&program.module),
            Engine::Machine(_) => print(&Program::load(self.0.source.clone()).module),
        }
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(&path)).map_err(|failure| failure.raised(py))
    }

    /// The signatures, and the graph with the shapes that were deduced.
    fn _repr_html_(&self) -> String {
        let escaped =
            |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!(
            "<pre>{}</pre><details><summary>graph with shapes</summary><pre>{}</pre></details>",
            escaped(&self.__repr__()),
            escaped(&self.text())
        )
    }

    fn __repr__(&self) -> String {
        let lines = self.0.functions.iter().map(|(name, signature)| {
            let parameters: Vec<String> = signature
                .parameters
                .iter()
                .map(|p| format!("{}: {}", p.name, p.annotation))
                .collect();
            format!("\n  {name}({})", parameters.join(", "))
        });
        format!("relaxc.Module on {}:{}", self.backend(), lines.collect::<String>())
    }
}

impl Loaded {
    fn save(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Class::File, format!("cannot write {}: {error}", path.display()))
        };
        let write = |from: &mut File| {
            from.seek(SeekFrom::Start(0)).map_err(failed)?;
            write_to(path, &mut |to| copy(from, to).map(|_| ()), |_| Ok(())).map_err(failed)
        };
        match &self.stored {
            Stored::Unnamed(file) => {
                write(&mut file.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Stored::At(known) => write(&mut File::open(known).map_err(failed)?),
            Stored::Nowhere => Err(Failure::new(
                Class::Unsupported,
                "the module is interpreted, so there is no machine code to save: compile it where there is a C compiler",
            )),
        }
    }
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.loaded.call(&self.name, arguments, named)
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.name
    }

    /// Name and annotation of each parameter.
    #[getter]
    fn parameters(&self) -> Vec<(String, String)> {
        let signature = self.loaded.functions.get(&self.name);
        let parameters = signature.map_or(&[][..], |signature| &signature.parameters);
        parameters.iter().map(|p| (p.name.clone(), p.annotation.clone())).collect()
    }

    /// The names of the fields of the result, where the program names them.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.loaded.functions.get(&self.name).map_or_else(Vec::new, |s| s.names.clone())
    }

    fn __repr__(&self) -> String {
        format!("relaxc.Function({})", self.name)
    }
}
