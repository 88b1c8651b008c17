//! Donated parameters are updated in place: where the last use of one is an input of a tensor program that computes an output
//! elementwise from it, the program writes the output over it (buffer donation, XLA's input-output aliasing).
//!
//! Two things are proved. The parameter has no other use, so nobody sees that it changes ([`count_uses`]). The program reads
//! each element for the last time before it writes it ([`written_over`]). Whether the caller has other names of the argument
//! is decided when the program runs: the virtual machine copies it then.
//!
//! In functions that the pass `gradient` makes, results of tensor programs are overwritten in the same way in their only use: a
//! cotangent that is added to another one takes its memory.

use super::lower_call_tir::donated::Donated;
use super::lower_call_tir::{call::TirCall, count_uses};
use relax_rewrite::names::Names;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_rewrite::passes::gradient::ADJOINT;
use relax_rewrite::references::drop_replaced;
use relax_semantics::check::{Checked, Phase};
use relax_semantics::ops::{bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Module, TensorProgram, VarId, attr,
};
use relax_tir::analysis::in_place::written_over;
use std::collections::{BTreeMap, BTreeSet};

/// The record of this pass.
pub static PASS: Pass = Pass {
    name: "update_donated",
    doc: "Lets elementwise tensor programs write outputs over donated parameters that have no other use, in adjoints over other \
          tensors too.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let donated = Donated::of(module);
    let mut result = module.clone();
    let mut made = Made { names: Names::of(module), programs: Vec::new(), known: BTreeMap::new() };
    let (mut updated, mut found, mut others) = (0, 0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let params = donated.owned(function);
        found += params.len();
        let is_adjoint = attr(&function.lambda.attrs, ADJOINT).is_some();
        let Some(body) = &mut function.lambda.body else { continue };
        if params.is_empty() && !is_adjoint {
            continue;
        }
        let mut updates =
            Updates::of((module, context.checked), &function.name, body, params, is_adjoint);
        updates.body(body, &mut made);
        updated += updates.updated.len();
        others += updates.others;
    }
    let replaced = made.known.into_keys().map(|(name, _)| name).collect();
    result.definitions.extend(made.programs.into_iter().map(Definition::Tensor));
    drop_replaced(&mut result, &replaced);
    context.count_of("updated", updated, found, "donated parameters in place");
    context.count("updated", others, "other tensors in place");
    Ok(result)
}

/// Programs that write over inputs.
struct Made {
    names: Names,
    programs: Vec<TensorProgram>,
    /// By the program that each stands for, and for each output the input that it is written over.
    known: BTreeMap<(Name, Vec<Option<usize>>), Name>,
}

struct Updates<'m> {
    module: &'m Module,
    annotations: &'m [Annotation],
    /// Calls that leave a check to run time stay as they are.
    left: &'m BTreeSet<VarId>,
    /// How often each variable is used.
    uses: BTreeMap<VarId, usize>,
    params: BTreeSet<VarId>,
    /// Variables of which the only use may overwrite them.
    free: BTreeSet<VarId>,
    is_adjoint: bool,
    /// Donated parameters that are overwritten, in one branch at least.
    updated: BTreeSet<VarId>,
    /// Other tensors that are.
    others: usize,
}

impl<'m> Updates<'m> {
    fn of(
        (module, checked): (&'m Module, &'m Checked),
        function: &Name,
        body: &Body,
        params: BTreeSet<VarId>,
        is_adjoint: bool,
    ) -> Self {
        let mut uses = BTreeMap::new();
        count_uses(body, &mut uses);
        let is_free = |param: &&VarId| uses.get(*param) == Some(&1);
        let free = params.iter().filter(is_free).copied().collect();
        let annotations = &checked.annotations[function];
        let left = &checked.left_in(function).vars;
        let (updated, others) = (BTreeSet::new(), 0);
        Self { module, annotations, left, uses, params, free, is_adjoint, updated, others }
    }

    fn body(&mut self, body: &mut Body, made: &mut Made) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                self.body(then, made);
                self.body(otherwise, made);
                continue;
            }
            let Some(call) = TirCall::read(binding, self.annotations) else { continue };
            let is_one = !call.is_list;
            if let Some(expr) = self.call(call, binding, made) {
                binding.expr = expr;
            }
            // New memory, or that of an input which nothing else names.
            if self.is_adjoint && is_one && self.uses.get(&binding.var) == Some(&1) {
                self.free.insert(binding.var);
            }
        }
    }

    /// The call in the place of a `call_tir`, where an output of it takes the memory of an input.
    fn call(&mut self, call: TirCall, binding: &Binding, made: &mut Made) -> Option<Expr> {
        if !call.in_place.is_empty() || self.left.contains(&binding.var) {
            return None;
        }
        let original = self.module.tensor_program(&call.program)?;
        if original.buffer_params().count() != call.inputs.len() + call.outputs.len() {
            return None;
        }
        let (mut program, mut places) = (original.clone(), Vec::new());
        for (dims, _) in &call.outputs {
            let taken = (0..call.inputs.len()).filter(|at| !places.contains(&Some(*at)));
            let free = taken.filter(|&at| self.is_free(&call.inputs[at], dims));
            // Outputs before this one that are written over an input have no parameter any more.
            let fresh = places.iter().filter(|place| place.is_none()).count();
            let own: Vec<BufferId> = program.buffer_params().collect();
            let output = own[call.inputs.len() + fresh];
            let over = |at: usize| Some((at, written_over(&program, own[at], output)?));
            let chosen = free.into_iter().find_map(over);
            places.push(chosen.map(|(at, made)| {
                program = made;
                at
            }));
        }
        for &at in places.iter().flatten() {
            match &call.inputs[at] {
                Atom::Var(var) if self.params.contains(var) => _ = self.updated.insert(*var),
                _ => self.others += 1,
            }
        }
        if places.iter().all(Option::is_none) {
            return None;
        }
        let key = (call.program, places);
        if !made.known.contains_key(&key) {
            program.name = made.names.fresh(&format!("{}_in_place", original.name));
            made.known.insert(key.clone(), program.name.clone());
            made.programs.push(program);
        }
        in_place(binding, &made.known[&key], &key.1)
    }

    /// Whether an input is a tensor that may be overwritten by an output of these dims.
    fn is_free(&self, input: &Atom, dims: &[Dim]) -> bool {
        let Atom::Var(var) = input else { return false };
        let own = self.annotations[var.0 as usize].dims();
        self.free.contains(var) && own.is_some_and(|own| own == dims)
    }
}

/// The `call_tir_inplace` of a program with the operands of a `call_tir`.
fn in_place(binding: &Binding, program: &Name, places: &[Option<usize>]) -> Option<Expr> {
    let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
        return None;
    };
    let row = lookup(name)?;
    let bound = bind(row, args.clone(), attrs.clone(), &|_| Atom::None).ok()?;
    let at = |param: &str| row.params.iter().position(|p| p.name == param).map(|at| &bound[at]);
    let place = |place: &Option<usize>| {
        Atom::Dim(Dim::Int(place.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)))
    };
    let places = Atom::List(places.iter().map(place).collect());
    let program = Atom::Global(program.clone());
    let args = vec![program, at("args")?.clone(), places, at("out")?.clone()];
    let scalars = at("sym_args").filter(|atom| **atom != Atom::None);
    let attrs = scalars.map(|atom| (Name::new("sym_args"), atom.clone())).into_iter().collect();
    let callee = Callee::Operator(Name::new("call_tir_inplace"));
    Some(Expr::Call { callee, args, attrs })
}
