//! What a program with explicit memory takes: its storages and the tensors in them over the course of
//! each function, as expressions of the dims, and in bytes for given dims.
//!
//! The report is read off the text, whoever planned it, so that it also shows what a plan got wrong.

use crate::memory::aliases::{Aliases, Returns};
use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::{Literal, bind, called_by_name, lookup};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId};
use std::collections::BTreeMap;

/// The memory of one function, beside that of the functions it calls.
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
    /// Calls that give memory of their own: library functions and operators without a program.
    pub library_calls: usize,
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

/// Bytes for given dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Of the storages that are there at the same time, at most.
    pub planned: i64,
    /// Of all tensors.
    pub all: i64,
    /// Of the tensors that are in use at the same time, at most: no plan takes less.
    pub in_use: i64,
}

/// The functions of a module that take memory.
#[must_use]
pub fn memory_report(module: &Module, facts: &mut dyn Facts) -> Vec<FunctionMemory> {
    let returns = Returns::of(module);
    let reports = module.functions().filter_map(|function| {
        let timeline = Timeline::of(function)?;
        let aliases = Aliases::of(function, module, &returns);
        let mut reader = Reader::of(function, &timeline, &aliases);
        reader.body(function.lambda.body.as_ref()?);
        Some(reader.report(facts))
    });
    reports.filter(|report| !report.storages.is_empty()).collect()
}

impl FunctionMemory {
    /// The figures for values of the symbolic variables; `None` where one is missing, or a number of
    /// bytes leaves i64.
    #[must_use]
    pub fn at(&self, dims: &BTreeMap<Name, i64>) -> Option<Figures> {
        let storages = self.storages.iter().map(|s| (&s.bytes, s.from, s.to));
        let tensors = || self.tensors.iter().map(|t| (&t.bytes, t.from, t.to));
        let mut all = tensors().map(|(bytes, ..)| value(bytes, dims));
        let all = all.try_fold(0_i64, |sum, bytes| sum.checked_add(bytes?))?;
        Some(Figures { planned: peak(storages, dims)?, all, in_use: peak(tensors(), dims)? })
    }
}

fn value(dim: &Dim, dims: &BTreeMap<Name, i64>) -> Option<i64> {
    dim.eval(&|name| dims.get(name).copied()).ok()
}

/// The most bytes at the same time.
fn peak<'d>(
    spans: impl Iterator<Item = (&'d Dim, usize, usize)>,
    dims: &BTreeMap<Name, i64>,
) -> Option<i64> {
    let mut changes = Vec::new();
    for (bytes, from, to) in spans {
        let bytes = value(bytes, dims)?;
        changes.extend([(from, bytes), (to + 1, -bytes)]);
    }
    // What ends at a position is gone before something begins there.
    changes.sort_unstable();
    let (mut now, mut peak) = (0_i64, 0_i64);
    for (_, change) in changes {
        now = now.checked_add(change)?;
        peak = peak.max(now);
    }
    Some(peak)
}

struct Reader<'a> {
    function: &'a Function,
    timeline: &'a Timeline,
    /// The last mention of each class of variables that may name the same memory.
    last_uses: BTreeMap<VarId, Position>,
    aliases: &'a Aliases,
    /// Element types of the storages, and their places among them.
    known: BTreeMap<VarId, (usize, DType)>,
    storages: Vec<StorageUse>,
    tensors: Vec<TensorUse>,
    library_calls: usize,
}

impl<'a> Reader<'a> {
    fn of(function: &'a Function, timeline: &'a Timeline, aliases: &'a Aliases) -> Self {
        Self {
            function,
            timeline,
            last_uses: aliases.last_uses(timeline),
            aliases,
            known: BTreeMap::new(),
            storages: Vec::new(),
            tensors: Vec::new(),
            library_calls: 0,
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
                _ => {}
            }
        }
    }

    fn call(&mut self, binding: &Binding, name: &Name, args: &[Atom], attrs: &[(Name, Atom)]) {
        let Some(row) = lookup(name) else { return };
        let is_library = called_by_name(row, args.first()).is_some()
            || matches!(row.name, "call_packed" | "call_pure_packed" | "call_dps_library");
        self.library_calls += usize::from(is_library);
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
            ("memory.kill_storage", [Atom::Var(storage)]) => {
                if let Some(&(storage, _)) = self.known.get(storage) {
                    self.storages[storage].to = position;
                }
            }
            _ => {}
        }
    }

    fn end(&self) -> usize {
        self.timeline.end()
    }

    fn report(self, facts: &mut dyn Facts) -> FunctionMemory {
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
            library_calls: self.library_calls,
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
