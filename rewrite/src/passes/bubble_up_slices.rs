//! A slice of a result becomes slices of its operands (MLIR: bubble up `extract_slice`): of rows that nobody reads no
//! products are computed. So the last layer of an encoder works on the token that its head reads, and the head of a
//! decoder on the last token.
//!
//! In a dataflow block, from its end to its begin, each value is demanded whole or as one slice along one axis. What is
//! demanded as a slice is computed from slices of its operands; where an operand is demanded whole by someone else, or
//! comes from elsewhere, the slice is taken of it. Each element is computed as before. Only what never traps is
//! narrowed, and nothing unless a product is among it: slices of elementwise operators are fused with these anyway.

mod operands;

use super::map_functions;
use crate::blocks::for_each_dataflow;
use crate::in_place::updated_in_place;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use operands::{Call, Narrowed};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::evaluates_to_a_place;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Callee, Expr, Function, Module, VarId, VarInfo,
};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The record of the pass.
pub static PASS: Pass = Pass {
    name: "bubble_up_slices",
    doc: "Computes of a result that is only read through a slice no more than the slice, where that saves rows of a matmul.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut names = Names::of(module);
    let (mut calls, mut products) = (0, 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut walk = Walk {
            function,
            annotations: &context.checked.annotations[&function.name],
            updated: updated_in_place(module, function),
            traps: &mut traps,
            names: &mut names,
            vars: &mut rebuilt.vars,
        };
        for_each_dataflow(&mut body, &mut |block| {
            let narrowed = walk.block(block);
            calls += narrowed.0;
            products += narrowed.1;
        });
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("narrowed", calls, "calls");
    context.count("among them", products, "products");
    Ok(result)
}

/// `begin..end` along an axis, and how many elements that is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    axis: usize,
    begin: Dim,
    end: Dim,
    extent: Dim,
}

impl Slice {
    fn along(&self, axis: usize) -> Slice {
        Slice { axis, ..self.clone() }
    }
}

/// What is read of a value. One that is not listed is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    Whole,
    Part(Slice),
}

struct Walk<'a, 'm> {
    function: &'a Function,
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    names: &'a mut Names,
    /// The variables of the function that is being made.
    vars: &'a mut Vec<VarInfo>,
}

impl Walk<'_, '_> {
    /// Narrows what may be; says how many calls, and how many products among them.
    fn block(&mut self, block: &mut Block) -> (usize, usize) {
        if !block.bindings.iter().any(|binding| self.slice(binding).is_some()) {
            return (0, 0);
        }
        let demands = self.demands(block);
        let is_narrowed =
            |binding: &&Binding| matches!(demands.get(&binding.var), Some(Demand::Part(_)));
        let narrowed = block.bindings.iter().filter(is_narrowed).count();
        let products = block.bindings.iter().filter(is_narrowed);
        let products = products.filter(|binding| is_product(&binding.expr)).count();
        if products == 0 {
            return (0, 0);
        }
        self.rebuild(block, &demands);
        (narrowed, products)
    }

    /// What is read of each value that the block binds.
    fn demands(&mut self, block: &Block) -> BTreeMap<VarId, Demand> {
        let BlockKind::Dataflow { outputs } = &block.kind else { return BTreeMap::new() };
        let bound: BTreeSet<VarId> = block.bindings.iter().map(|binding| binding.var).collect();
        let mut demands: BTreeMap<VarId, Demand> =
            outputs.iter().map(|output| (*output, Demand::Whole)).collect();
        for binding in block.bindings.iter().rev() {
            let Some(own) = demands.get(&binding.var).cloned() else {
                // Not read: dead code elimination takes it away, and until then it reads all.
                demand_all(binding, &mut demands);
                continue;
            };
            if own == Demand::Whole
                && let Some((of, slice)) = self.slice(binding)
            {
                demand(&mut demands, of, Demand::Part(slice));
                continue;
            }
            if let Demand::Part(slice) = &own
                && let Some(narrowed) = self.narrowed(binding, slice)
            {
                let mut used = BTreeSet::new();
                expr_uses(&binding.expr, &mut used);
                for var in used {
                    let wanted = match narrowed.operands.get(&var) {
                        Some(&axis) if bound.contains(&var) => Demand::Part(slice.along(axis)),
                        _ => Demand::Whole,
                    };
                    demand(&mut demands, var, wanted);
                }
                continue;
            }
            demands.insert(binding.var, Demand::Whole);
            demand_all(binding, &mut demands);
        }
        demands
    }

    /// The call with slices of its operands.
    fn narrowed(&mut self, binding: &Binding, slice: &Slice) -> Option<Narrowed> {
        let is_named = self.function.var(binding.var).name != "_";
        let mut used = BTreeSet::from([binding.var]);
        expr_uses(&binding.expr, &mut used);
        if !is_named || !used.is_disjoint(&self.updated) {
            return None;
        }
        let call = Call::of(binding, self.annotations)?;
        let narrowed = call.narrowed(slice.axis, &slice.extent)?;
        self.traps.is_removable(self.function, binding).then_some(narrowed)
    }

    /// The operand of a slice along one axis that takes much less than the whole, and that slice.
    fn slice(&mut self, binding: &Binding) -> Option<(VarId, Slice)> {
        let call = Call::of(binding, self.annotations)?;
        let (of, slice) = call.slice()?;
        let whole = call.extent(of, slice.axis)?;
        let pays = match (slice.extent.as_int(), whole.as_int()) {
            (Some(part), Some(whole)) => part <= whole / 2,
            (Some(part), None) => part == 1,
            (None, _) => false,
        };
        let own = |name: &Name| self.function.dim(name).is_some_and(|dim| dim.in_signature);
        let places = [&slice.begin, &slice.end];
        let is_told =
            places.iter().all(|place| place.vars_all(&own) && evaluates_to_a_place(place));
        let changes = self.updated.contains(&of) || self.updated.contains(&binding.var);
        // Its places are decided, so that all else is asked of the slice with others.
        let literal = Binding { var: binding.var, expr: call.anywhere() };
        let fits = pays && is_told && !changes;
        (fits && self.traps.is_removable(self.function, &literal)).then_some((of, slice))
    }

    fn rebuild(&mut self, block: &mut Block, demands: &BTreeMap<VarId, Demand>) {
        let mut slices: BTreeMap<(VarId, Slice), VarId> = BTreeMap::new();
        let mut made = Vec::with_capacity(block.bindings.len());
        for mut binding in std::mem::take(&mut block.bindings) {
            let is_part = |var: VarId, slice: &Slice| {
                demands.get(&var).is_some_and(|demand| *demand == Demand::Part(slice.clone()))
            };
            if let Some(Demand::Part(slice)) = demands.get(&binding.var) {
                let narrowed = self.narrowed(&binding, slice);
                let narrowed = narrowed.expect("invariant: it could be when demands were found");
                let mut parts = BTreeMap::new();
                for (&var, &axis) in &narrowed.operands {
                    let wanted = slice.along(axis);
                    let part = if is_part(var, &wanted) {
                        var
                    } else if let Some(&part) = slices.get(&(var, wanted.clone())) {
                        part
                    } else {
                        let part = self.bind(var, &wanted, &mut made);
                        slices.insert((var, wanted), part);
                        part
                    };
                    parts.insert(var, part);
                }
                binding.expr = narrowed.expr(&binding.expr, &parts);
                self.vars[binding.var.0 as usize].annotation = None;
            } else if let Some((of, slice)) = self.slice(&binding)
                && is_part(of, &slice)
            {
                binding.expr = Expr::Atom(Atom::Var(of));
            }
            made.push(binding);
        }
        block.bindings = made;
    }

    /// Binds a slice of a value.
    fn bind(&mut self, of: VarId, slice: &Slice, made: &mut Vec<Binding>) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let VarInfo { name, span, .. } = self.function.var(of).clone();
        let name = self.names.fresh(&format!("{name}_part"));
        self.vars.push(VarInfo { name, annotation: None, span });
        let list = |dim: Dim| Atom::List(vec![Atom::Dim(dim)]);
        let axis = i64::try_from(slice.axis).expect("invariant: ranks are small");
        let places = [Dim::Int(axis), slice.begin.clone(), slice.end.clone()].map(list);
        let args = std::iter::once(Atom::Var(of)).chain(places).collect();
        let callee = Callee::Operator(Name::new("strided_slice"));
        made.push(Binding { var, expr: Expr::Call { callee, args, attrs: Vec::new() } });
        var
    }
}

fn is_product(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { callee: Callee::Operator(name), .. } if name == "matmul")
}

/// Notes that a value is read; two that read different parts read all of it.
fn demand(demands: &mut BTreeMap<VarId, Demand>, var: VarId, wanted: Demand) {
    let known = demands.entry(var).or_insert_with(|| wanted.clone());
    if *known != wanted {
        *known = Demand::Whole;
    }
}

fn demand_all(binding: &Binding, demands: &mut BTreeMap<VarId, Demand>) {
    let mut used = BTreeSet::new();
    expr_uses(&binding.expr, &mut used);
    used.into_iter().for_each(|var| demand(demands, var, Demand::Whole));
}
