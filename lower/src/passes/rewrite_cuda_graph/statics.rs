//! What lies at the same place at every call of a function.

use super::lookup;
use crate::memory::aliases::Aliases;
use crate::memory::timeline::{Position, Timeline};
use crate::passes::lower_call_tir::written::written;
use relax_rewrite::references::references;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Body, Callee, Expr, Function, Module, TensorProgram, VarId, attr,
};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// Storages of constant size that could be taken once, what lies in them, and weights.
pub(super) struct Statics {
    /// Each with where it is taken.
    storages: BTreeMap<VarId, Position>,
    /// Tensors and views, each with its storage.
    tensors: BTreeMap<VarId, VarId>,
    /// Parameters and constants that are the same at every call, and views of them.
    weights: BTreeSet<VarId>,
    /// Tensors that are released more than once under their names.
    released_again: BTreeSet<VarId>,
}

/// What a body says of memory.
#[derive(Default)]
struct Found<'f> {
    /// Of constant size.
    storages: BTreeSet<VarId>,
    /// Tensors by their storages.
    tensors: Vec<(VarId, VarId)>,
    /// Names of constants.
    constants: Vec<VarId>,
    /// Views by what they are of.
    views: Vec<(VarId, VarId)>,
    /// Releases of storages: the binding, the storage.
    storage_releases: Vec<(VarId, VarId)>,
    tensor_releases: Vec<VarId>,
    /// Mentions of variables otherwise.
    others: BTreeSet<VarId>,
    /// Calls of tensor programs.
    launches: Vec<(&'f TensorProgram, &'f [Atom])>,
}

impl Statics {
    /// Of a function with a body.
    pub(super) fn of(module: &Module, function: &Function, aliases: &Aliases) -> Option<Self> {
        let body = function.lambda.body.as_ref()?;
        let timeline = Timeline::of(function)?;
        let mut found = Found::default();
        found.body(module, body);
        let mut last_uses: BTreeMap<VarId, Position> = BTreeMap::new();
        for index in 0..function.vars.len() {
            let var = VarId(u32::try_from(index).expect("invariant: ids are u32"));
            let last = last_uses.entry(aliases.root(var)).or_default();
            *last = (*last).max(timeline.last_use(var));
        }
        let results = aliases.roots(&body.result);
        let is_static = |&storage: &VarId| {
            let inside = found.tensors.iter().filter(|(_, of)| *of == storage);
            let roots: BTreeSet<VarId> = inside.map(|(tensor, _)| aliases.root(*tensor)).collect();
            let last = roots.iter().map(|root| last_uses[root]).max().unwrap_or(0);
            let taken = timeline.scope(timeline.bound(storage));
            let is_last = |at: Position| at >= last && timeline.scope(at) == taken;
            let mut releases = found.storage_releases.iter().filter(|(_, of)| *of == storage);
            let first = releases.next().map(|(release, _)| timeline.bound(*release));
            !found.others.contains(&storage)
                && roots.is_disjoint(&results)
                && first.is_none_or(is_last)
                && releases.next().is_none()
        };
        let storages: BTreeMap<VarId, Position> = found
            .storages
            .iter()
            .filter(|storage| is_static(storage))
            .map(|&storage| (storage, timeline.bound(storage)))
            .collect();
        let weights = weights(module, function, aliases, &found);
        let released_again = released_again(aliases, &found);
        let mut statics = Self { storages, tensors: BTreeMap::new(), weights, released_again };
        statics.contents(&found);
        Some(statics)
    }

    fn contents(&mut self, found: &Found) {
        for &(tensor, storage) in &found.tensors {
            if self.storages.contains_key(&storage) {
                self.tensors.insert(tensor, storage);
            }
        }
        for &(view, of) in &found.views {
            if let Some(&storage) = self.tensors.get(&of) {
                self.tensors.insert(view, storage);
            } else if self.weights.contains(&of) {
                self.weights.insert(view);
            }
        }
    }

    /// In the order in which they are taken.
    pub(super) fn storages(&self) -> impl Iterator<Item = VarId> {
        let mut all: Vec<(Position, VarId)> =
            self.storages.iter().map(|(&var, &at)| (at, var)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, storage)| storage)
    }

    /// Whether a storage is one of these.
    pub(super) fn is_storage(&self, var: VarId) -> bool {
        self.storages.contains_key(&var)
    }

    /// The storage of a tensor.
    pub(super) fn storage_of(&self, tensor: VarId) -> Option<VarId> {
        self.tensors.get(&tensor).copied()
    }

    /// Whether kernels may read it in a graph.
    pub(super) fn is_readable(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Var(var) => self.tensors.contains_key(var) || self.weights.contains(var),
            Atom::Constant(_) | Atom::External(_) => true,
            _ => false,
        }
    }

    /// Whether kernels may write to it in a graph.
    pub(super) fn is_writable(&self, atom: &Atom) -> bool {
        matches!(atom, Atom::Var(var) if self.tensors.contains_key(var))
    }

    /// Whether a release of a tensor may come later than it stands.
    pub(super) fn is_released_once(&self, tensor: VarId) -> bool {
        !self.released_again.contains(&tensor)
    }
}

/// Constants under names, and what follows the inputs of a function that is only called from outside.
fn weights(
    module: &Module,
    function: &Function,
    aliases: &Aliases,
    found: &Found,
) -> BTreeSet<VarId> {
    let mut changed = BTreeSet::new();
    for (program, args) in &found.launches {
        let outputs = buffers(program, args).filter(|(_, is_written)| *is_written);
        outputs.for_each(|(atom, _)| changed.extend(aliases.roots(atom)));
    }
    let is_tensor =
        |&param: &VarId| matches!(function.param_annotation(param), Annotation::Tensor(_));
    let params = after_inputs(module, function).filter(is_tensor);
    let all = params.chain(found.constants.iter().copied());
    all.filter(|&weight| !changed.contains(&aliases.root(weight))).collect()
}

/// Parameters that get the same values at every call.
fn after_inputs(module: &Module, function: &Function) -> impl Iterator<Item = VarId> {
    let inputs = match attr(&function.lambda.attrs, "num_input") {
        Some(AttrValue::Int(inputs)) => usize::try_from(*inputs).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let mut found = module.functions().map(references);
    let is_called = inputs < function.lambda.params.len()
        && found.any(|at| at.called.contains(&function.name) || at.held.contains(&function.name));
    let inputs = if is_called { usize::MAX } else { inputs };
    function.lambda.params.iter().copied().skip(inputs)
}

/// The tensors that a call passes, each with whether the program writes to it.
pub(super) fn buffers<'a>(
    program: &TensorProgram,
    args: &'a [Atom],
) -> impl Iterator<Item = (&'a Atom, bool)> {
    let passed = program.params.iter().zip(args);
    let tensors = passed.filter(|(param, _)| matches!(param, Param::Buffer(_)));
    tensors.map(|(_, atom)| atom).zip(written(program))
}

fn released_again(aliases: &Aliases, found: &Found) -> BTreeSet<VarId> {
    let mut counts: BTreeMap<VarId, Vec<VarId>> = BTreeMap::new();
    for &tensor in &found.tensor_releases {
        counts.entry(aliases.root(tensor)).or_default().push(tensor);
    }
    counts.into_values().filter(|tensors| tensors.len() > 1).flatten().collect()
}

impl<'f> Found<'f> {
    fn body(&mut self, module: &'f Module, body: &'f Body) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { condition, then, otherwise } => {
                    atom_uses(condition, &mut self.others);
                    self.body(module, then);
                    self.body(module, otherwise);
                }
                Expr::Call { callee: Callee::Global(name), args, .. } => {
                    if let Some(program) = module.tensor_program(name) {
                        self.launches.push((program, args));
                    }
                    expr_uses(&binding.expr, &mut self.others);
                }
                Expr::Atom(Atom::Constant(_) | Atom::External(_)) => {
                    self.constants.push(binding.var);
                }
                other if !self.memory(binding) => expr_uses(other, &mut self.others),
                _ => {}
            }
        }
        atom_uses(&body.result, &mut self.others);
    }

    /// Whether it is a call of an operator on memory as passes write it.
    fn memory(&mut self, binding: &Binding) -> bool {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return false;
        };
        let Some(row) = lookup(name).filter(|_| attrs.is_empty()) else { return false };
        match (row.name, args.as_slice()) {
            ("memory.alloc_storage", [Atom::Shape(dims)] | [Atom::Shape(dims), Atom::Str(_)]) => {
                if dims.iter().all(|dim| dim.as_int().is_some_and(|dim| dim >= 0)) {
                    self.storages.insert(binding.var);
                }
            }
            ("memory.alloc_tensor", [Atom::Var(storage), Atom::Shape(_), ..]) => {
                self.tensors.push((binding.var, *storage));
            }
            ("memory.view", [Atom::Var(of), Atom::Shape(_)]) => {
                self.views.push((binding.var, *of));
            }
            ("memory.kill_storage", [Atom::Var(storage)]) => {
                self.storage_releases.push((binding.var, *storage));
            }
            ("memory.kill_tensor", [Atom::Var(tensor)]) => self.tensor_releases.push(*tensor),
            _ => return false,
        }
        true
    }
}
