//! What a program with explicit memory takes: its storages and the tensors in them over the course of
//! each function, as expressions of the dims, and in bytes for given dims.
//!
//! The report is read off the text, whoever planned it, so that it also shows what a plan got wrong.

mod figures;
mod formula;

pub use figures::{Figures, figures};
pub use formula::peak_formula;

use crate::memory::aliases::{Aliases, Returns};
use crate::memory::timeline::{Position, Timeline};
use relax_rewrite::dims::match_dims;
use relax_semantics::ops::{Literal, bind, called_by_name, lookup, only_checks};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId};
use std::collections::BTreeMap;

/// The memory of one function, and what it calls.
#[derive(Clone, Debug)]
pub struct FunctionMemory {
    /// Its name.
    pub function: Name,
    /// Its symbolic variables.
    pub dims: Vec<Name>,
    /// In the order of the text.
    pub storages: Vec<StorageUse>,
    /// In the order of the text.
    pub tensors: Vec<TensorUse>,
    /// All storages together.
    pub planned: Dim,
    /// All tensors together, as if each had a storage to itself.
    pub all: Dim,
    /// Calls of graph functions, in the order of the text.
    pub calls: Vec<CallUse>,
    /// Tensors in memory that is not the function's own.
    pub given: Vec<GivenUse>,
    /// Positions in the text.
    pub length: usize,
}

/// A storage.
#[derive(Clone, Debug)]
pub struct StorageUse {
    /// Its variable.
    pub name: Name,
    /// How large it is.
    pub bytes: Dim,
    /// The position at which it is taken.
    pub from: usize,
    /// The position at which it is released; the end for one that outlives the function.
    pub to: usize,
}

/// A tensor in a storage.
#[derive(Clone, Debug)]
pub struct TensorUse {
    /// Its variable.
    pub name: Name,
    /// Which of the storages.
    pub storage: usize,
    /// Where in it.
    pub offset: Dim,
    /// How large it is.
    pub bytes: Dim,
    /// The position at which it is taken.
    pub from: usize,
    /// The last position at which anything that names it is mentioned.
    pub to: usize,
}

/// A call of a graph function, which takes memory of its own.
#[derive(Clone, Debug)]
pub struct CallUse {
    /// What is called.
    pub function: Name,
    /// The position of the call.
    pub at: usize,
    /// The symbolic variables of what is called, as far as its arguments tell them.
    pub dims: BTreeMap<Name, Dim>,
}

/// What a call gives: of a graph function in storages that it leaves behind, of a library function or an
/// operator without a program in memory of its own.
#[derive(Clone, Debug)]
pub struct GivenUse {
    /// The variable of the call.
    pub name: Name,
    /// Which of the calls of graph functions.
    pub call: Option<usize>,
    /// How large its tensors are together.
    pub bytes: Dim,
    /// The position of the call.
    pub from: usize,
    /// The last position at which anything that names it is mentioned.
    pub last: usize,
    /// The position at which the last of its tensors is released; the end where that is left to whoever called.
    pub to: usize,
}

/// The functions of a module that take memory, or call some that do.
#[must_use]
pub fn memory_report(module: &Module, facts: &mut dyn Facts) -> Vec<FunctionMemory> {
    let returns = Returns::of(module);
    let reports = module.functions().filter_map(|function| {
        let timeline = Timeline::of(function)?;
        let aliases = Aliases::of(function, module, &returns);
        let mut reader = Reader::of(module, function, &timeline, &aliases);
        reader.body(function.lambda.body.as_ref()?);
        reader.releases();
        Some(reader.report(facts))
    });
    let takes = |report: &FunctionMemory| {
        !(report.storages.is_empty() && report.calls.is_empty() && report.given.is_empty())
    };
    reports.filter(takes).collect()
}

struct Reader<'a> {
    module: &'a Module,
    function: &'a Function,
    timeline: &'a Timeline,
    /// The last mention of each class of variables that may name the same memory.
    last_uses: BTreeMap<VarId, Position>,
    aliases: &'a Aliases,
    /// Element types of the storages, and their places among them.
    known: BTreeMap<VarId, (usize, DType)>,
    storages: Vec<StorageUse>,
    tensors: Vec<TensorUse>,
    calls: Vec<CallUse>,
    given: Vec<GivenUse>,
    /// The class of each of them, and of how many tensors it is.
    classes: Vec<(VarId, usize)>,
    /// For each class the positions at which tensors of it are released.
    released: BTreeMap<VarId, Vec<Position>>,
}

impl<'a> Reader<'a> {
    fn of(
        module: &'a Module,
        function: &'a Function,
        timeline: &'a Timeline,
        aliases: &'a Aliases,
    ) -> Self {
        Self {
            module,
            function,
            timeline,
            last_uses: aliases.last_uses(timeline),
            aliases,
            known: BTreeMap::new(),
            storages: Vec::new(),
            tensors: Vec::new(),
            calls: Vec::new(),
            given: Vec::new(),
            classes: Vec::new(),
            released: BTreeMap::new(),
        }
    }

    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                    self.call(binding, name, args, attrs);
                }
                Expr::Call { callee: Callee::Global(name), args, .. } => {
                    if let Some(called) = self.module.function(name) {
                        self.function_call(binding, called, args);
                    }
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, binding: &Binding, name: &Name, args: &[Atom], attrs: &[(Name, Atom)]) {
        let Some(row) = lookup(name) else { return };
        let gives = called_by_name(row, args.first()).is_some() && !only_checks(row);
        let is_library =
            gives || matches!(row.name, "call_packed" | "call_pure_packed" | "call_dps_library");
        if is_library {
            self.gives(binding, None);
        }
        let Ok(bound) = bind(row, args.to_vec(), attrs.to_vec(), &default) else { return };
        let (position, info) = (self.timeline.bound(binding.var), self.function.var(binding.var));
        match (row.name, bound.as_slice()) {
            ("memory.alloc_storage", [Atom::Shape(size), Atom::Str(dtype), ..]) => {
                let dtype = DType::parse(dtype).unwrap_or(DType::U8);
                self.known.insert(binding.var, (self.storages.len(), dtype));
                let (name, bytes) = (info.name.clone(), product(size, dtype));
                self.storages.push(StorageUse { name, bytes, from: position, to: self.end() });
            }
            ("memory.alloc_tensor", [Atom::Var(storage), Atom::Shape(dims), dtype, offset]) => {
                let Some(&(storage, of_storage)) = self.known.get(storage) else { return };
                let dtype = match dtype {
                    Atom::Str(name) => DType::parse(name).unwrap_or(of_storage),
                    _ => of_storage,
                };
                let Atom::Dim(offset) = offset else { return };
                let last = self.last_uses.get(&self.aliases.root(binding.var)).copied();
                self.tensors.push(TensorUse {
                    name: info.name.clone(),
                    storage,
                    offset: offset.clone(),
                    bytes: product(dims, dtype),
                    from: position,
                    to: last.unwrap_or(position),
                });
            }
            ("memory.kill_tensor" | "memory.kill_object", [Atom::Var(tensor)]) => {
                let root = self.aliases.root(*tensor);
                self.released.entry(root).or_default().push(position);
            }
            ("memory.kill_storage", [Atom::Var(storage)]) => {
                if let Some(&(storage, _)) = self.known.get(storage) {
                    self.storages[storage].to = position;
                }
            }
            _ => {}
        }
    }

    fn function_call(&mut self, binding: &Binding, called: &Function, args: &[Atom]) {
        let mut dims = BTreeMap::new();
        for (&param, arg) in called.lambda.params.iter().zip(args) {
            let mut bind =
                |name: &Name, dim: &Dim| _ = dims.entry(name.clone()).or_insert(dim.clone());
            match arg {
                Atom::Var(var) => {
                    if let Some(given) = &self.function.var(*var).annotation {
                        match_dims(called.param_annotation(param), given, &mut bind);
                    }
                }
                Atom::Shape(given) => {
                    let given = Annotation::Shape(Extents::Known(given.clone()));
                    match_dims(called.param_annotation(param), &given, &mut bind);
                }
                _ => {}
            }
        }
        let at = self.timeline.bound(binding.var);
        self.calls.push(CallUse { function: called.name.clone(), at, dims });
        self.gives(binding, Some(self.calls.len() - 1));
    }

    fn gives(&mut self, binding: &Binding, call: Option<usize>) {
        let info = self.function.var(binding.var);
        let Some(annotation) = &info.annotation else { return };
        let mut tensors = Vec::new();
        sizes(annotation, &mut tensors);
        let bytes = tensors.into_iter().reduce(|a, b| Dim::op(DimOp::Add, a, b));
        let from = self.timeline.bound(binding.var);
        let last = self.last_uses.get(&self.aliases.root(binding.var)).copied();
        let last = last.unwrap_or(from).max(from);
        let (name, bytes) = (info.name.clone(), bytes.unwrap_or(Dim::Int(0)));
        self.given.push(GivenUse { name, call, bytes, from, last, to: self.end() });
        self.classes.push((self.aliases.root(binding.var), count(annotation)));
    }

    /// What is given is held until all tensors of it are released.
    fn releases(&mut self) {
        for (given, (root, tensors)) in self.given.iter_mut().zip(&self.classes) {
            let released = self.released.get(root).into_iter().flatten();
            if released.clone().count() >= (*tensors).max(1) {
                given.to = released.copied().max().unwrap_or(given.to);
            }
        }
    }

    fn end(&self) -> usize {
        self.timeline.end()
    }

    fn report(mut self, facts: &mut dyn Facts) -> FunctionMemory {
        let storages = self.storages.iter_mut().map(|storage| &mut storage.bytes);
        let tensors = self.tensors.iter_mut().flat_map(|each| [&mut each.bytes, &mut each.offset]);
        let given = self.given.iter_mut().map(|given| &mut given.bytes);
        for dim in storages.chain(tensors).chain(given) {
            *dim = facts.simplify(dim);
        }
        let mut sum = |dims: &mut dyn Iterator<Item = &Dim>| {
            let sum = dims.cloned().reduce(|a, b| Dim::op(DimOp::Add, a, b));
            sum.map_or(Dim::Int(0), |sum| facts.simplify(&sum))
        };
        FunctionMemory {
            function: self.function.name.clone(),
            dims: self.function.dims.iter().map(|dim| dim.name.clone()).collect(),
            planned: sum(&mut self.storages.iter().map(|storage| &storage.bytes)),
            all: sum(&mut self.tensors.iter().map(|tensor| &tensor.bytes)),
            length: self.end(),
            calls: self.calls,
            given: self.given,
            storages: self.storages,
            tensors: self.tensors,
        }
    }
}

fn default(literal: Literal) -> Atom {
    match literal {
        Literal::Int(value) => Atom::Dim(Dim::Int(value)),
        Literal::Str(text) => Atom::Str(Name::new(text)),
        _ => Atom::None,
    }
}

fn product(dims: &[Dim], dtype: DType) -> Dim {
    let size = Dim::Int(i64::try_from(dtype.size()).unwrap_or(i64::MAX));
    dims.iter().fold(size, |acc, dim| Dim::op(DimOp::Mul, acc, dim.clone()))
}

/// The bytes of each tensor of known dims in a value.
fn sizes(annotation: &Annotation, found: &mut Vec<Dim>) {
    match annotation {
        Annotation::Tensor(tensor) => {
            if let (Some(dims), Some(dtype)) = (tensor.extents.dims(), tensor.dtype) {
                found.push(product(dims, dtype));
            }
        }
        Annotation::Tuple(items) => items.iter().for_each(|item| sizes(item, found)),
        _ => {}
    }
}

/// How many tensors a value holds.
fn count(annotation: &Annotation) -> usize {
    match annotation {
        Annotation::Tensor(_) => 1,
        Annotation::Tuple(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}
