//! A reshape between two operators that would be fused moves out from between them: an elementwise operator gives the same
//! elements under every shape of its operands that has as many (BladeDISC §3.1: equal products of dims make one index space of two).
//!
//! Where what is reshaped is computed by a product or a reduction, elementwise operators behind the reshape move in
//! front of it, and become a part of that kernel. Where it is computed by elementwise operators alone, these move behind it,
//! and become a part of the kernel that reads it. Other operands get the shape by a reshape of their own, which moves no element.
//! Dims are cut into runs with products that are proved equal, so that operands that are repeated along whole runs are, too.

mod regroup;

use super::map_functions;
use crate::blocks::for_each_dataflow;
use crate::dims::assume_declared;
use crate::in_place::updated_in_place;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use regroup::{Runs, without_ones};
use relax_semantics::check::Phase;
use relax_semantics::ops::{Family, Kind, Layout, Operator, lookup, reshaped};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Callee, Expr, Function, Module, VarId, VarInfo,
};
use relax_syntax::resolve::constant::constant_dims;
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The record of the pass.
pub static PASS: Pass = Pass {
    name: "move_reshapes",
    doc: "Moves elementwise operators to the other side of a reshape that stands between them and what they fuse with.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Elementwise operators one behind the other that move: as many as a group of fusion may have.
const MAX_CHAIN: usize = 128;

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut names = Names::of(module);
    let (mut before, mut behind) = (0, 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let annotations = &context.checked.annotations[&function.name];
        let dims = annotations.iter().map(|annotation| {
            annotation.dims().filter(|_| annotation.is_known()).map(<[Dim]>::to_vec)
        });
        let mut walk = Walk {
            function,
            dims: dims.collect(),
            updated: updated_in_place(module, function),
            traps: &mut traps,
            names: &mut names,
            vars: &mut rebuilt.vars,
            facts: context.facts,
            graph: Graph::default(),
            made: BTreeSet::new(),
            before: 0,
            behind: 0,
        };
        walk.facts.push();
        assume_declared(walk.facts, &function.dims);
        for_each_dataflow(&mut body, &mut |block| walk.block(block));
        walk.facts.pop();
        before += walk.before;
        behind += walk.behind;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("moved before a reshape", before, "calls");
    context.count("moved behind a reshape", behind, "calls");
    Ok(result)
}

/// The bindings of a block, and which of them read each variable.
#[derive(Default)]
struct Graph {
    bindings: BTreeMap<VarId, Binding>,
    readers: BTreeMap<VarId, BTreeSet<VarId>>,
    outputs: BTreeSet<VarId>,
}

impl Graph {
    fn of(block: &Block, outputs: &[VarId]) -> Self {
        let mut graph = Self { outputs: outputs.iter().copied().collect(), ..Self::default() };
        block.bindings.iter().for_each(|binding| graph.insert(binding.clone()));
        graph
    }

    fn insert(&mut self, binding: Binding) {
        for var in uses(&binding) {
            self.readers.entry(var).or_default().insert(binding.var);
        }
        self.bindings.insert(binding.var, binding);
    }

    fn remove(&mut self, var: VarId) {
        let Some(binding) = self.bindings.remove(&var) else { return };
        for used in uses(&binding) {
            self.readers.entry(used).or_default().remove(&var);
        }
    }

    /// The operand of a reshape of this block.
    fn reshaped(&self, var: VarId) -> Option<VarId> {
        reshape_operand(self.bindings.get(&var)?)
    }

    /// What alone reads a variable of this block.
    fn only_reader(&self, var: VarId) -> Option<&Binding> {
        let readers = self.readers.get(&var).filter(|readers| readers.len() == 1)?;
        let seen_here = self.bindings.contains_key(&var) && !self.outputs.contains(&var);
        seen_here.then(|| &self.bindings[readers.first().expect("invariant: there is one")])
    }

    /// Whether elementwise operators become a part of the kernel that computes a variable.
    fn is_anchored(&self, var: VarId, chain: usize) -> bool {
        if chain == 0 || self.only_reader(var).is_none() {
            return false;
        }
        let binding = &self.bindings[&var];
        let Some(row) = operator(binding) else { return false };
        match row.elementwise() {
            Some(_) => uses(binding).into_iter().any(|used| self.is_anchored(used, chain - 1)),
            // What only moves elements, as parts of packed weights, is read by what follows, or inside of a product.
            None => is_product(row) || fuses(row) && row.family != Family::Movement,
        }
    }
}

fn uses(binding: &Binding) -> BTreeSet<VarId> {
    let mut used = BTreeSet::new();
    expr_uses(&binding.expr, &mut used);
    used
}

fn reshape_operand(binding: &Binding) -> Option<VarId> {
    let Expr::Call { callee: Callee::Operator(name), args, .. } = &binding.expr else {
        return None;
    };
    let &Atom::Var(of) = args.first()? else { return None };
    lookup(name)?.is_view().then_some(of)
}

fn operator(binding: &Binding) -> Option<&'static Operator> {
    match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), .. } => lookup(name),
        _ => None,
    }
}

fn is_product(row: &Operator) -> bool {
    row.program.are_some() && matches!(row.family, Family::LinearAlgebra | Family::Convolution)
}

/// Whether elementwise operators on both sides of a call are fused with it.
fn fuses(row: &Operator) -> bool {
    let families = [Family::Movement, Family::Reduction, Family::Nn];
    row.elementwise().is_some()
        || row.program.are_some() && !row.is_view() && families.contains(&row.family)
}

/// A tensor operand of a call whose operands get another shape.
enum Shaped {
    /// It broadcasts to the other shape, too.
    Same,
    /// It needs these dims.
    Reshaped(VarId, Vec<Dim>),
}

struct Walk<'a, 'm> {
    function: &'a Function,
    /// The dims of each variable, those that are made included.
    dims: Vec<Option<Vec<Dim>>>,
    updated: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    names: &'a mut Names,
    /// The variables of the function that is being made.
    vars: &'a mut Vec<VarInfo>,
    facts: &'a mut dyn Facts,
    graph: Graph,
    /// What was made of bindings that are no effect and no trap.
    made: BTreeSet<VarId>,
    before: usize,
    behind: usize,
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &mut Block) {
        let BlockKind::Dataflow { outputs } = &block.kind else { return };
        if !block.bindings.iter().any(|binding| reshape_operand(binding).is_some()) {
            return;
        }
        self.graph = Graph::of(block, outputs);
        let mut order = Vec::with_capacity(block.bindings.len());
        for binding in &block.bindings {
            self.move_before_reshape(binding.var, &mut order);
        }
        let mut from_the_end = Vec::with_capacity(order.len());
        for &var in order.iter().rev() {
            let mut made = Vec::new();
            self.move_behind_reshape(var, MAX_CHAIN, &mut made);
            from_the_end.extend(made.into_iter().rev());
        }
        let taken = from_the_end.iter().rev().filter_map(|var| self.graph.bindings.remove(var));
        block.bindings = taken.collect();
    }

    /// Makes an elementwise call of what is reshaped a call before the reshape. What stands in its place is put into `order`.
    fn move_before_reshape(&mut self, var: VarId, order: &mut Vec<VarId>) {
        if let Some((view, operands)) = self.before_a_reshape(var) {
            let of = self.graph.reshaped(view).expect("invariant: it is a reshape");
            let dims = self.dims[of.0 as usize].clone();
            let operands_before = uses(&self.graph.bindings[&var]);
            let (expr, views) = self.with_operands(var, operands);
            order.extend(views);
            let call = self.fresh(var, dims);
            self.replace(Binding { var: call, expr });
            order.push(call);
            let dims = self.dims[var.0 as usize].clone().expect("invariant: it is an operand's");
            self.replace(Binding { var, expr: reshaped(Atom::Var(call), dims) });
            self.drop_unread(operands_before);
            self.before += 1;
        }
        order.push(var);
    }

    /// The reshape that an elementwise call reads, and its operands with dims in front of it.
    fn before_a_reshape(&mut self, var: VarId) -> Option<(VarId, BTreeMap<usize, Shaped>)> {
        let operands = self.elementwise(var)?;
        let view = operands.values().find_map(|operand| {
            let &Atom::Var(view) = operand else { return None };
            let of = self.graph.reshaped(view)?;
            self.graph.only_reader(view)?;
            self.graph.is_anchored(of, MAX_CHAIN).then_some(view)
        })?;
        let of = self.graph.reshaped(view).filter(|_| self.is_free(view))?;
        let to = self.dims_of(of)?.to_vec();
        let shaped = self.shaped(&operands, var, &to)?;
        // An operand that is stretched to the result has fewer elements.
        matches!(self.dims_of(view), Some(dims) if self.dims_of(var) == Some(dims))
            .then_some((view, shaped))
    }

    /// Makes a reshape of what an elementwise call gives that call on reshaped operands, where the reader may take it in. What
    /// stands in its place is put into `order`.
    fn move_behind_reshape(&mut self, view: VarId, chain: usize, order: &mut Vec<VarId>) {
        if let Some((of, operands)) = self.behind_a_reshape(view).filter(|_| chain > 0) {
            let operands_before = uses(&self.graph.bindings[&of]);
            let (expr, views) = self.with_operands(of, operands);
            self.replace(Binding { var: view, expr });
            self.graph.remove(of);
            self.drop_unread(operands_before);
            views.into_iter().for_each(|made| self.move_behind_reshape(made, chain - 1, order));
            self.behind += 1;
        }
        order.push(view);
    }

    /// The elementwise call whose result is reshaped, and its operands with dims behind the reshape.
    fn behind_a_reshape(&mut self, view: VarId) -> Option<(VarId, BTreeMap<usize, Shaped>)> {
        let of = self.graph.reshaped(view)?;
        let reader = operator(self.graph.only_reader(view)?)?;
        self.graph.only_reader(of)?;
        if !fuses(reader) || self.graph.is_anchored(of, MAX_CHAIN) || !self.is_free(view) {
            return None;
        }
        let to = self.dims_of(view)?.to_vec();
        let operands = self.elementwise(of)?;
        let shaped = self.shaped(&operands, of, &to)?;
        self.all_move(&shaped, MAX_CHAIN).then_some((of, shaped))
    }

    /// Whether the elementwise calls that compute such operands may move too: else these would no longer be fused with what reads
    /// them.
    fn all_move(&mut self, operands: &BTreeMap<usize, Shaped>, chain: usize) -> bool {
        operands.values().all(|operand| {
            let Shaped::Reshaped(of, dims) = operand else { return true };
            let is_fused = self.graph.only_reader(*of).is_some()
                && operator(&self.graph.bindings[of])
                    .is_some_and(|row| row.elementwise().is_some());
            let moves = |walk: &mut Self| {
                let operands = walk.elementwise(*of)?;
                let shaped = walk.shaped(&operands, *of, dims)?;
                Some(walk.all_move(&shaped, chain.checked_sub(1)?))
            };
            !is_fused || moves(self) == Some(true)
        })
    }

    /// The tensor operands of an elementwise call that may move, by their places.
    fn elementwise(&mut self, var: VarId) -> Option<BTreeMap<usize, Atom>> {
        let binding = self.graph.bindings.get(&var)?;
        let row = operator(binding)?;
        let Expr::Call { args, attrs, .. } = &binding.expr else { return None };
        let is_tensor = |at: usize| row.params.get(at).is_some_and(|it| it.kind == Kind::Tensor);
        let operands = args.iter().cloned().enumerate().filter(|(at, _)| is_tensor(*at));
        let operands: BTreeMap<usize, Atom> = operands.collect();
        let tensors = row.params.iter().filter(|param| param.kind == Kind::Tensor).count();
        let spelled = operands.len() == tensors
            && attrs.iter().all(|(_, atom)| !matches!(atom, Atom::Var(_)));
        let fits = row.elementwise().is_some_and(|it| it.layout == Layout::Broadcast) && spelled;
        (fits && self.is_free(var)).then_some(operands)
    }

    /// Whether a binding may be left out, or stand elsewhere.
    fn is_free(&mut self, var: VarId) -> bool {
        if self.made.contains(&var) {
            return true;
        }
        let binding = &self.graph.bindings[&var];
        let is_named = self.function.var(var).name != "_";
        let mut touched = uses(binding);
        touched.insert(var);
        is_named
            && touched.is_disjoint(&self.updated)
            && self.traps.is_removable(self.function, binding)
    }

    fn dims_of(&self, var: VarId) -> Option<&[Dim]> {
        self.dims[var.0 as usize].as_deref()
    }

    /// What the operands of the call `var` are where its result has the dims `to`. One of them must have the dims of the
    /// result, so that it has them there as well.
    fn shaped(
        &mut self,
        operands: &BTreeMap<usize, Atom>,
        var: VarId,
        to: &[Dim],
    ) -> Option<BTreeMap<usize, Shaped>> {
        let from = self.dims_of(var)?.to_vec();
        let runs = Runs::of(&from, to, self.facts)?;
        let (mut shaped, mut is_given) = (BTreeMap::new(), false);
        for (&at, operand) in operands {
            let own = match operand {
                Atom::Var(var) => self.dims_of(*var)?.to_vec(),
                Atom::Constant(constant) => constant_dims(constant),
                _ => return None,
            };
            let wanted = if own == from {
                is_given = true;
                to.to_vec()
            } else {
                runs.operand(&own, self.facts)?
            };
            let stays = own.len() <= to.len() && without_ones(&own) == without_ones(&wanted);
            let each = match operand {
                _ if stays && (own != from || own == to) => Shaped::Same,
                Atom::Var(var) => Shaped::Reshaped(*var, wanted),
                _ => return None,
            };
            shaped.insert(at, each);
        }
        is_given.then_some(shaped)
    }

    /// The call of `var` on such operands, and the reshapes that it reads which were made for it.
    fn with_operands(
        &mut self,
        var: VarId,
        operands: BTreeMap<usize, Shaped>,
    ) -> (Expr, Vec<VarId>) {
        let mut expr = self.graph.bindings[&var].expr.clone();
        let Expr::Call { args, .. } = &mut expr else { return (expr, Vec::new()) };
        let mut views: Vec<VarId> = Vec::new();
        let mut known: BTreeMap<(VarId, Vec<Dim>), VarId> = BTreeMap::new();
        for (at, operand) in operands {
            let Shaped::Reshaped(of, dims) = operand else { continue };
            let of = self.under_reshapes(of);
            let before = Some(of).filter(|&it| self.dims_of(it) == Some(&dims));
            let made = || known.get(&(of, dims.clone())).copied();
            let shaped = before.or_else(made).unwrap_or_else(|| {
                let view = self.fresh(of, Some(dims.clone()));
                let expr = reshaped(Atom::Var(of), dims.clone());
                self.replace(Binding { var: view, expr });
                views.push(view);
                known.insert((of, dims), view);
                view
            });
            args[at] = Atom::Var(shaped);
        }
        (expr, views)
    }

    /// What a variable is, but for its shape.
    fn under_reshapes(&mut self, var: VarId) -> VarId {
        match self.graph.reshaped(var) {
            Some(of) if self.is_free(var) => self.under_reshapes(of),
            _ => var,
        }
    }

    /// Takes reshapes out that nothing reads any more.
    fn drop_unread(&mut self, vars: BTreeSet<VarId>) {
        for var in vars {
            let is_read = self.graph.readers.get(&var).is_some_and(|readers| !readers.is_empty());
            let kept = is_read || self.graph.outputs.contains(&var);
            if let Some(of) = self.graph.reshaped(var).filter(|_| !kept)
                && self.is_free(var)
            {
                self.graph.remove(var);
                self.drop_unread(BTreeSet::from([of]));
            }
        }
    }

    fn replace(&mut self, binding: Binding) {
        self.made.insert(binding.var);
        self.graph.remove(binding.var);
        self.graph.insert(binding);
    }

    /// A new variable, named after another one.
    fn fresh(&mut self, like: VarId, dims: Option<Vec<Dim>>) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let VarInfo { name, span, .. } = self.vars[like.0 as usize].clone();
        let name = self.names.fresh(&format!("{name}_reshaped"));
        self.vars.push(VarInfo { name, annotation: None, span });
        self.dims.push(dims);
        var
    }
}
