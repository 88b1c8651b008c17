//! Maybe-uninitialized analysis: finds the kernels that may be called with tensors that have uninitialized elements.
//! Those need an instrumented variant.
//!
//! A tensor is open from its allocation until a kernel that writes every element of it is called. A kernel needs such code
//! where it is passed an open tensor to read, where it may read what it writes to before it has, and where it may leave
//! something unwritten of what is used later. At run time the machine knows what was written, and calls that code only then.

use relax_semantics::tir::walk::stored;
use relax_syntax::Name;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{Atom, Body, Callee, Definition, Expr, Module, TensorProgram, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use relax_tir::analysis::access_summary::AccessSummary;
use std::collections::{BTreeMap, BTreeSet};

/// Operators that call functions of the module, or keep what those are called with.
const CALLS: [&str; 5] = [
    "builtin.cuda_graph_get_cached_alloc",
    "builtin.cuda_graph_run_or_capture",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
];

/// The tensor programs of a module of P2.3 that may be called with tensors that have uninitialized elements, or that may
/// leave such elements in one that is used later. `known` gives the access summaries of a program's buffers.
#[must_use]
pub fn maybe_uninitialized(
    module: &Module,
    known: impl Fn(&TensorProgram) -> Vec<AccessSummary>,
) -> BTreeSet<Name> {
    let programs: BTreeMap<&Name, Program<'_>> = module
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::Tensor(program) if program.body.is_some() => Some(program),
            _ => None,
        })
        .map(|program| (&program.name, Program::of(program, known(program))))
        .collect();
    let mut gives_open = BTreeSet::new();
    loop {
        let (mut found, before) = (BTreeSet::new(), gives_open.clone());
        for function in module.functions() {
            let Some(body) = &function.lambda.body else { continue };
            let mut walk = OpenTensors {
                programs: &programs,
                gives_open: &before,
                last: last_uses(body),
                at: 0,
                names: BTreeMap::new(),
                storages: BTreeMap::new(),
                open: BTreeMap::new(),
                lost: BTreeSet::new(),
                found: BTreeSet::new(),
                escaped: false,
            };
            walk.body(body);
            if walk.is_open(&walk.named(&body.result)) {
                gives_open.insert(&function.name);
            }
            if walk.escaped {
                return programs.into_keys().cloned().collect();
            }
            found.extend(walk.found);
        }
        if gives_open == before {
            return found;
        }
    }
}

/// A tensor program, and what it does to the elements of its buffers.
struct Program<'m> {
    program: &'m TensorProgram,
    elements: Vec<AccessSummary>,
    writes: Vec<bool>,
}

impl<'m> Program<'m> {
    fn of(program: &'m TensorProgram, elements: Vec<AccessSummary>) -> Self {
        let stored = stored(program.body.as_deref().unwrap_or(&[]));
        let writes = program.buffer_params().map(|buffer| stored.contains(&buffer)).collect();
        Self { program, elements, writes }
    }
}

/// The position after the last mention of each variable. A binding has a position, and the bindings of its branches have those
/// before it.
fn last_uses(body: &Body) -> BTreeMap<VarId, usize> {
    fn visit(body: &Body, at: &mut usize, last: &mut BTreeMap<VarId, usize>) {
        for binding in body.bindings() {
            if let Expr::If { then, otherwise, .. } = &binding.expr {
                visit(then, at, last);
                visit(otherwise, at, last);
            }
            *at += 1;
            if is_release(&binding.expr) {
                continue;
            }
            let mut used = BTreeSet::new();
            expr_uses(&binding.expr, &mut used);
            last.extend(used.into_iter().map(|var| (var, *at)));
        }
    }
    let (mut at, mut last) = (0, BTreeMap::new());
    visit(body, &mut at, &mut last);
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    last.extend(used.into_iter().map(|var| (var, at + 1)));
    last
}

fn operator(expr: &Expr) -> Option<(&str, &[Atom])> {
    match expr {
        Expr::Call { callee: Callee::Operator(name), args, .. } => Some((name, args)),
        _ => None,
    }
}

fn is_release(expr: &Expr) -> bool {
    operator(expr).is_some_and(|(name, _)| {
        matches!(name, "memory.kill_tensor" | "memory.kill_storage" | "memory.kill_object")
    })
}

struct OpenTensors<'p, 'm> {
    programs: &'p BTreeMap<&'m Name, Program<'m>>,
    /// Functions whose results may be open tensors, or hold some.
    gives_open: &'p BTreeSet<&'m Name>,
    last: BTreeMap<VarId, usize>,
    /// Bindings so far.
    at: usize,
    /// The tensors that other variables may name, or hold.
    names: BTreeMap<VarId, BTreeSet<VarId>>,
    /// In which storage a tensor lies.
    storages: BTreeMap<VarId, BTreeSet<VarId>>,
    /// The tensors that were allocated here: whether nothing may have been written to some elements.
    open: BTreeMap<VarId, bool>,
    /// Those that may be lost, because something else in their storage was written to. Who reads one stops; who writes to it
    /// finds nothing in it.
    lost: BTreeSet<VarId>,
    found: BTreeSet<Name>,
    /// An open tensor went where it is not followed.
    escaped: bool,
}

impl OpenTensors<'_, '_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.binding(binding.var, &binding.expr);
            self.at += 1;
        }
    }

    fn binding(&mut self, var: VarId, expr: &Expr) {
        match (expr, operator(expr)) {
            (_, Some(("memory.alloc_tensor", [storage, ..]))) => {
                self.open.insert(var, true);
                self.storages.insert(var, self.named(storage));
            }
            (_, Some(("builtin.run_operator", [Atom::Str(name), ..]))) if name == "empty" => {
                self.open.insert(var, true);
            }
            (_, Some(("memory.view", [tensor, ..])))
            | (Expr::Atom(tensor) | Expr::MatchCast(tensor, _) | Expr::Get(tensor, _), _) => {
                self.names.insert(var, self.named(tensor));
            }
            (_, Some((name, _))) if CALLS.contains(&name) => self.called(var, expr, true),
            // Values are copied for them, with what is known of the elements; they may hand those on.
            (_, Some((_, args))) => {
                let gives_open = args.iter().any(|arg| self.is_open(&self.named(arg)));
                self.open.insert(var, gives_open);
            }
            (Expr::Call { callee: Callee::Global(name), args, .. }, _)
                if self.programs.contains_key(name) =>
            {
                self.call(name, args);
            }
            (Expr::If { then, otherwise, .. }, _) => {
                let (open, lost) = (self.open.clone(), self.lost.clone());
                self.body(then);
                let after = std::mem::replace(&mut self.open, open);
                let lost = std::mem::replace(&mut self.lost, lost);
                self.body(otherwise);
                self.lost.extend(lost);
                for (tensor, open) in after {
                    *self.open.entry(tensor).or_default() |= open;
                }
                let mut named = self.named(&then.result);
                named.extend(self.named(&otherwise.result));
                self.names.insert(var, named);
            }
            (Expr::Call { callee: Callee::Global(name), .. }, _) => {
                self.called(var, expr, self.gives_open.contains(name));
            }
            _ => self.called(var, expr, true),
        }
    }

    /// A function that is not looked into from here is given what an expression mentions.
    fn called(&mut self, var: VarId, expr: &Expr, gives_open: bool) {
        let mut used = BTreeSet::new();
        expr_uses(expr, &mut used);
        self.escaped |= used.into_iter().any(|var| self.is_open(&self.tensors(var)));
        self.open.insert(var, gives_open);
    }

    fn call(&mut self, name: &Name, args: &[Atom]) {
        let Some(program) = self.programs.get(name) else { return };
        let params = program.program.params.iter().zip(args);
        let buffers = params.filter(|(param, _)| matches!(param, Param::Buffer(_)));
        let known = program.elements.iter().zip(&program.writes);
        for ((_, arg), (elements, is_written)) in buffers.zip(known) {
            let tensors = self.named(arg);
            let fills = elements.are_filled();
            if *is_written && !fills && !self.lost.is_disjoint(&tensors) {
                self.open.extend(tensors.iter().map(|tensor| (*tensor, true)));
            }
            if self.is_open(&tensors) {
                let is_left = !fills && self.is_used_later(&tensors);
                if !is_written || elements.are_read_first || is_left {
                    self.found.insert(name.clone());
                }
            }
            if *is_written {
                self.lost_by(&tensors);
            }
            if let (true, true, [tensor]) = (is_written, fills, &*Vec::from_iter(&tensors)) {
                self.open.insert(**tensor, false);
                self.lost.remove(*tensor);
            }
        }
    }

    /// What else lies in the same storage may be lost.
    fn lost_by(&mut self, written: &BTreeSet<VarId>) {
        let of = |tensor| self.storages.get(tensor).into_iter().flatten();
        let storages: BTreeSet<VarId> = written.iter().flat_map(of).copied().collect();
        let beside = self.storages.iter().filter(|(_, other)| !storages.is_disjoint(other));
        self.lost.extend(beside.map(|(tensor, _)| *tensor).filter(|it| !written.contains(it)));
    }

    fn is_used_later(&self, tensors: &BTreeSet<VarId>) -> bool {
        let later = |var: &VarId| self.last.get(var).is_some_and(|last| *last > self.at + 1);
        let mut others = self.names.iter().filter(|(_, of)| !of.is_disjoint(tensors));
        tensors.iter().any(later) || others.any(|(name, _)| later(name))
    }

    fn is_open(&self, tensors: &BTreeSet<VarId>) -> bool {
        tensors.iter().any(|tensor| self.open.get(tensor) == Some(&true))
    }

    /// The tensors that an operand may name, or hold.
    fn named(&self, atom: &Atom) -> BTreeSet<VarId> {
        let mut used = BTreeSet::new();
        atom_uses(atom, &mut used);
        used.into_iter().flat_map(|var| self.tensors(var)).collect()
    }

    fn tensors(&self, var: VarId) -> BTreeSet<VarId> {
        self.names.get(&var).cloned().unwrap_or_else(|| BTreeSet::from([var]))
    }
}
