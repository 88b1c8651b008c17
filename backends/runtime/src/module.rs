//! A loaded module, as an embedder has it.

use crate::block::{Block, Pool};
use crate::dtype::{DType, dense_bytes};
use crate::file::{Image, LoadError, Parts, mapped};
use crate::kernels::Kernels;
use crate::native::{NativeKernels, NoKernels};
use crate::observer::Observer;
use crate::program::{Constant, Function, Kernel, Metadata, Program};
use crate::signature::{Parameter, parameters};
use crate::stop::{Span, Stop, Stopped};
use crate::target::check_target;
use crate::tensor::{Tensor, Written};
use crate::tensor_pool::TensorPool;
use crate::value::Value;
use crate::vm::resident::{Operand, ResidentCall, ResidentFunction};
use crate::vm::{Limits, Run};
use crate::workers::count;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a host function is called with.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// In order.
    pub args: Vec<Value>,
    /// Those that are passed by name.
    pub keywords: Vec<(String, Value)>,
    /// The function of the program that calls.
    pub function: String,
    /// The place of the call in the source.
    pub span: Span,
    /// Memory of the module, which its limit counts: for tensors that the function makes.
    pub pool: TensorPool,
}

/// A function that the embedder registers and the program calls by its name.
pub type HostFunction = Box<dyn Fn(&HostCall) -> Result<Value, Stop> + Send + Sync>;

/// What a run of the machine reads.
pub(crate) struct Loaded {
    pub(crate) program: Program,
    pub(crate) constants: Vec<Value>,
    pub(crate) kernels: Arc<dyn Kernels>,
    /// The names of kernels.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) hosts: BTreeMap<String, HostFunction>,
    /// Asked before the host function of the same name.
    pub(crate) residents: BTreeMap<String, ResidentFunction>,
    pub(crate) observer: Option<Box<dyn Observer>>,
}

/// A program that is ready to run. It may be called from several threads at once.
pub struct Module {
    loaded: Loaded,
    metadata: Metadata,
    source: String,
    ranks: String,
    symbols: BTreeMap<String, u32>,
    pool: Arc<Pool>,
    limits: Limits,
}

/// A function that a module offers.
#[derive(Clone, Copy)]
pub struct Callable<'m> {
    module: &'m Module,
    index: u32,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.symbols.keys())
    }
}

impl fmt::Debug for Callable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callable({})", self.definition().name)
    }
}

impl Module {
    /// Loads a module file with the machine code in it. As with any program, load what you trust: its
    /// kernels run as a part of this process.
    ///
    /// # Errors
    /// When the bytes are no module file, a damaged one, one for another machine or of another version.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        Self::load_with(bytes, Limits::default())
    }

    /// As [`Module::load`], with what a call may use.
    ///
    /// # Errors
    /// As [`Module::load`].
    pub fn load_with(bytes: &[u8], limits: Limits) -> Result<Self, LoadError> {
        let parts = Parts::of(bytes)?;
        Self::of_parts(parts, limits, Block::copied)
    }

    /// Loads a module file several times: each module has kernels and limits of its own, and all have the same constants.
    ///
    /// # Errors
    /// As [`Module::load`].
    pub fn load_several(
        bytes: &[u8],
        limits: Limits,
        count: usize,
    ) -> Result<Vec<Self>, LoadError> {
        let mut modules: Vec<Self> = Vec::new();
        for _ in 0..count {
            let parts = Parts::of(bytes)?;
            let own = match modules.first() {
                None => Self::of_parts(parts, limits, Block::copied)?,
                Some(first) => {
                    let kernels = native(&parts, limits)?;
                    Self::with_constants(parts, kernels, limits, first.loaded.constants.clone())
                }
            };
            modules.push(own);
        }
        Ok(modules)
    }

    /// Loads a module file from where it lies. Its constants are not copied: while the module lives, nobody may write
    /// into the file; another one may take its place.
    ///
    /// # Errors
    /// As [`Module::load`], and when the file cannot be read.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, LoadError> {
        let file = mapped(path)?;
        let within = |data: &[u8]| {
            let start = data.as_ptr().addr() - file.as_ptr().addr();
            Block::mapped(&file, start..start + data.len()).or_else(|| Block::copied(data))
        };
        Self::of_parts(Parts::of(&file)?, limits, within)
    }

    fn of_parts(
        parts: Parts<'_>,
        limits: Limits,
        place: impl FnOnce(&[u8]) -> Option<Block>,
    ) -> Result<Self, LoadError> {
        check_target(&parts.target)?;
        parts.program.validate(parts.data.len() as u64).map_err(LoadError::Invalid)?;
        let kernels = native(&parts, limits)?;
        Self::ready(parts, kernels, limits, place)
    }

    /// A module of what a file holds, whose kernels these run.
    ///
    /// # Errors
    /// When the program is not valid, or there is no memory for its constants.
    pub fn new(image: Image, kernels: Box<dyn Kernels>) -> Result<Self, LoadError> {
        Self::with_limits(image, kernels, Limits::default())
    }

    /// As [`Module::new`], with kernels of which the caller keeps a reference.
    ///
    /// # Errors
    /// As [`Module::new`].
    pub fn sharing(image: Image, kernels: Arc<dyn Kernels>) -> Result<Self, LoadError> {
        Self::of(image, kernels, Limits::default())
    }

    /// As [`Module::new`], with what a call may use.
    ///
    /// # Errors
    /// As [`Module::new`].
    pub fn with_limits(
        image: Image,
        kernels: Box<dyn Kernels>,
        limits: Limits,
    ) -> Result<Self, LoadError> {
        Self::of(image, kernels.into(), limits)
    }

    fn of(image: Image, kernels: Arc<dyn Kernels>, limits: Limits) -> Result<Self, LoadError> {
        let Image { target, program, object, data, metadata, source, certificate, ranks } = image;
        program.validate(data.len() as u64).map_err(LoadError::Invalid)?;
        let certificate = certificate.as_bytes();
        let (object, data) = (&*object, &*data);
        let parts = Parts { target, program, object, data, metadata, source, certificate, ranks };
        Self::ready(parts, kernels, limits, Block::copied)
    }

    /// A module of a valid program.
    fn ready(
        parts: Parts<'_>,
        kernels: Arc<dyn Kernels>,
        limits: Limits,
        place: impl FnOnce(&[u8]) -> Option<Block>,
    ) -> Result<Self, LoadError> {
        let block = place(parts.data).ok_or("there is no memory for the constants".to_owned());
        let constants = block.and_then(|block| constants(&parts.program, block));
        let constants = constants.map_err(LoadError::Invalid)?;
        Ok(Self::with_constants(parts, kernels, limits, constants))
    }

    /// A module of a valid program, with the values of its constants.
    fn with_constants(
        parts: Parts<'_>,
        kernels: Arc<dyn Kernels>,
        limits: Limits,
        constants: Vec<Value>,
    ) -> Self {
        let Parts { program, metadata, source, ranks, .. } = parts;
        let names = program.kernels.iter().map(|kernel| kernel.name.as_str().into()).collect();
        let symbol = |(at, function): (usize, &Function)| {
            Some((function.symbol.clone()?, u32::try_from(at).ok()?))
        };
        let symbols = program.functions.iter().enumerate().filter_map(symbol).collect();
        let pool = Arc::new(Pool::new(limits.bytes));
        let (hosts, residents) = (BTreeMap::new(), BTreeMap::new());
        let loaded =
            Loaded { program, constants, kernels, names, hosts, residents, observer: None };
        Self { loaded, metadata, source, ranks, symbols, pool, limits }
    }

    /// Gives the program a function to call under this name.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&HostCall) -> Result<Value, Stop> + Send + Sync + 'static,
    ) {
        self.loaded.hosts.insert(name.into(), Box::new(function));
    }

    /// Has a function take calls by this name before the host function: it leaves tensors where kernels hold them.
    pub fn register_resident(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&ResidentCall<'_>) -> Option<Result<Operand, Stop>> + Send + Sync + 'static,
    ) {
        self.loaded.residents.insert(name.into(), Box::new(function));
    }

    /// Tells somebody of each call of a kernel or host function from now on. A device is waited for after each of them.
    pub fn watch(&mut self, observer: Box<dyn Observer>) {
        self.loaded.kernels.measure();
        self.loaded.observer = Some(observer);
    }

    /// What runs the kernels did so far, in its words, if it keeps an account.
    #[must_use]
    pub fn account(&self) -> Option<String> {
        self.loaded.kernels.account()
    }

    /// The names of the host functions that the program calls.
    #[must_use]
    pub fn host_functions(&self) -> Vec<&str> {
        self.loaded.program.host_functions()
    }

    /// The names of the host functions that the program calls and nobody registered.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        let mut missing: Vec<&str> = self.loaded.program.host_functions();
        missing.retain(|name| !self.loaded.hosts.contains_key(*name));
        missing
    }

    /// The function that the module offers under this name.
    #[must_use]
    pub fn function(&self, symbol: &str) -> Option<Callable<'_>> {
        let index = *self.symbols.get(symbol)?;
        Some(Callable { module: self, index })
    }

    /// The names of all of them.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.symbols.keys().map(String::as_str)
    }

    /// The name of a function or kernel that is a value.
    #[must_use]
    pub fn name_of(&self, value: &Value) -> Option<&str> {
        let program = &self.loaded.program;
        match value {
            Value::Function(at) => Some(&program.functions.get(*at as usize)?.name),
            Value::Kernel(at) => Some(&program.kernels.get(*at as usize)?.name),
            _ => None,
        }
    }

    /// What is known of each kernel.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.loaded.program.kernels
    }

    /// Threads that work on a kernel.
    #[must_use]
    pub fn threads(&self) -> usize {
        count(self.limits.threads)
    }

    /// What else the file says.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The text that spans of traps refer to; empty when it was left out.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// As in [`Image::ranks`]: empty unless the code is for each rank of a mesh.
    #[must_use]
    pub fn ranks(&self) -> &str {
        &self.ranks
    }

    /// Bytes of all constants.
    #[must_use]
    pub fn constant_bytes(&self) -> u64 {
        let constants = self.loaded.program.constants.iter();
        let bytes = constants.filter_map(|constant| match constant {
            Constant::Tensor { dtype, shape, .. } => dense_bytes(*dtype, shape),
            _ => None,
        });
        bytes.map(|bytes| bytes as u64).sum()
    }

    /// How often memory for tensors was asked of the system so far.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.pool.allocations()
    }
}

impl Callable<'_> {
    fn definition(&self) -> &Function {
        &self.module.loaded.program.functions[self.index as usize]
    }

    /// What it takes, in order.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        parameters(&self.module.loaded.program, self.definition())
    }

    /// How many arguments it takes.
    #[must_use]
    pub fn params(&self) -> usize {
        self.definition().params as usize
    }

    /// Calls it. The caller keeps the arguments, so donated ones are copied.
    ///
    /// # Errors
    /// What stops the program.
    pub fn call(&self, args: &[Value]) -> Result<Value, Stop> {
        self.call_donating(args.to_vec())
    }

    /// Calls it with arguments that the caller gives up. The memory of donated tensors is overwritten, and may be that of
    /// results. A tensor is copied instead where it has another name, or lies in a file or in lent memory.
    ///
    /// # Errors
    /// What stops the program; the arguments are gone.
    pub fn call_donating(&self, args: Vec<Value>) -> Result<Value, Stop> {
        self.called(args, None)
    }

    /// The same, but a call that stops gives donated tensors back, in the order of the parameters. Elements that the program has
    /// not overwritten are as they were: a cache that a call adds rows to has its earlier rows.
    ///
    /// # Errors
    /// What stops the program, and the donated tensors; none of them where a device cannot bring them back.
    pub fn call_returning(&self, args: Vec<Value>) -> Result<Value, Stopped> {
        let mut donated = Vec::new();
        self.called(args, Some(&mut donated)).map_err(|stop| Stopped { stop, donated })
    }

    fn called(&self, args: Vec<Value>, back: Option<&mut Vec<Value>>) -> Result<Value, Stop> {
        let module = self.module;
        let run = Run::new(&module.loaded, &module.pool, module.limits);
        let result = run.call(self.index, args, back);
        module.pool.end_call();
        result
    }
}

/// The machine code of a module file.
fn native(parts: &Parts<'_>, limits: Limits) -> Result<Arc<dyn Kernels>, LoadError> {
    if parts.object.is_empty() {
        return Ok(Arc::new(NoKernels));
    }
    Ok(Arc::new(NativeKernels::load(&parts.program, parts.object, limits.threads)?))
}

/// The constants as values. Tensors share the block of the section.
fn constants(program: &Program, block: Block) -> Result<Vec<Value>, String> {
    let block = Arc::new(block);
    let value = |constant: &Constant| {
        Ok(match constant {
            Constant::Tensor { dtype, shape, at } => {
                let offset = usize::try_from(*at).map_err(|error| error.to_string())?;
                let bytes = dense_bytes(*dtype, shape).unwrap_or(0);
                let elements = block.read(offset, bytes);
                if *dtype == DType::Bool && elements.iter().any(|&byte| byte > 1) {
                    return Err("a constant of bools holds something else".to_owned());
                }
                let (shape, block) = (shape.as_slice().into(), Arc::clone(&block));
                Value::Tensor(Tensor { dtype: *dtype, shape, block, offset, written: Written::All })
            }
            Constant::Shape(dims) => Value::Shape(dims.as_slice().into()),
            Constant::Scalar(dtype, number) => Value::Scalar(*dtype, *number),
            Constant::Str(text) => Value::Str(text.as_str().into()),
            Constant::None => Value::None,
            Constant::Unit => Value::unit(),
            Constant::Output(output) => Value::Output(Arc::new(output.clone())),
            Constant::Function(function) => Value::Function(*function),
            Constant::Kernel(kernel) => Value::Kernel(*kernel),
        })
    };
    program.constants.iter().map(value).collect()
}
