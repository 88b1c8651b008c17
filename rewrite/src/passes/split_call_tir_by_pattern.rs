//! A call of a tensor program a part of which a library computes becomes a call of the library and one
//! of the rest (phases of Relax, P1).
//!
//! The part is a nest of loops that multiplies two inputs of the program, told from its accesses, where a
//! pattern `matmul(x, w)` of the target is registered and its conditions are proved. The library sums
//! in its own order. What a product of no terms leaves unwritten, a library writes: the nest must have
//! a first term for all dims.

mod rest;

use crate::blocks::for_each_block;
use crate::matching::find::conditions_hold;
use crate::matching::registry::registry;
use crate::matching::text::{Node, Rule};
use crate::maybe_uninit::maybe_uninitialized;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::{TirCall, call_tir};
use relax_semantics::check::Phase;
use relax_semantics::library::function as library_function;
use relax_semantics::ops::lookup;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, Block, Callee, Definition, Expr, Function, Module, TensorProgram, VarId, VarInfo,
};
use rest::{Rest, Split};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The record.
pub static PASS: Pass = Pass {
    name: "split_call_tir_by_pattern",
    doc: "Calls a library for the matrix product within a tensor program, and the program for the rest.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Approximate,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut rules = registry(module, context.settings)?;
    rules.retain(is_product);
    let maybe_uninit = maybe_uninitialized(module);
    let mut programs = Programs { module, names: Names::of(module), made: BTreeMap::new() };
    let (mut calls, checked) = (0, context.checked);
    let facts = &mut *context.facts;
    let mut result = super::map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        facts.push();
        assume_declared(facts, &function.dims);
        let mut walk = Walk {
            rules: &rules,
            annotations,
            left: &checked.left_in(&function.name).vars,
            maybe_uninit: &maybe_uninit[&function.name],
            programs: &mut programs,
            rebuilt: &mut rebuilt,
            facts,
            calls: 0,
        };
        for_each_block(&mut body, &mut |block| walk.block(block));
        calls += walk.calls;
        facts.pop();
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    let made = programs.made.into_values().filter_map(|split| split?.rest);
    result.definitions.extend(made.map(Definition::Tensor));
    context.count("split", calls, "calls");
    Ok(result)
}

/// Whether a pattern is a product of two operands that some library computes.
fn is_product(rule: &Rule) -> bool {
    let Node::Call(call) = &rule.root else { return false };
    let plain = call.attrs.is_empty()
        && matches!(call.args.as_slice(), [Node::Operand(a), Node::Operand(b)] if a != b);
    plain
        && lookup("matmul").is_some_and(|row| row.name == call.row.name)
        && library_function(&rule.function).is_some()
}

/// The parts of programs.
struct Programs<'m> {
    module: &'m Module,
    names: Names,
    /// By the name of the whole; `None`: it has no such part.
    made: BTreeMap<Name, Option<Split>>,
}

impl Programs<'_> {
    fn split(&mut self, name: &Name) -> Option<(&TensorProgram, &Split)> {
        let program = self.module.tensor_program(name)?;
        if !self.made.contains_key(name) {
            let rest = self.names.fresh(&format!("{name}_rest"));
            self.made.insert(name.clone(), Rest::of(program, rest));
        }
        Some((program, self.made[name].as_ref()?))
    }
}

struct Walk<'w, 'm> {
    rules: &'w [Rule],
    annotations: &'w [Annotation],
    left: &'w BTreeSet<VarId>,
    maybe_uninit: &'w BTreeSet<VarId>,
    programs: &'w mut Programs<'m>,
    rebuilt: &'w mut Function,
    facts: &'w mut dyn Facts,
    calls: usize,
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &mut Block) {
        let bindings = std::mem::take(&mut block.bindings);
        for binding in bindings {
            match self.split(&binding) {
                Some(parts) => {
                    self.calls += 1;
                    block.bindings.extend(parts);
                }
                None => block.bindings.push(binding),
            }
        }
    }

    /// The library call, and the call of the rest if there is one.
    fn split(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let call = TirCall::of(&binding.expr)?;
        if self.rules.is_empty() || self.left.contains(&binding.var) || !call.scalars.is_empty() {
            return None;
        }
        let (program, split) = self.programs.split(call.program)?;
        let places = [split.left, split.right];
        let factors = [call.args.get(split.left)?.clone(), call.args.get(split.right)?.clone()];
        let (product, arguments) = (split.product.clone(), split.arguments.clone());
        let rest = split.rest.as_ref().map(|rest| rest.name.clone());
        let mut types = Vec::new();
        for arg in call.args {
            let Atom::Var(var) = arg else { return None };
            types.push(self.annotations[var.0 as usize].clone());
        }
        types.push(call.out.clone());
        let out = product_of(program, &product, &types)?;
        let written = |atom: &Atom| !crate::in_place::mentions(atom, self.maybe_uninit);
        if !factors.iter().all(written) {
            return None;
        }
        let operands = places.map(|at| types[at].clone());
        let facts = &mut *self.facts;
        let rule = self.rules.iter().find(|rule| conditions_hold(rule, &operands, facts))?;
        let library = library(&rule.function, &factors, &out);
        let Some(rest) = rest else {
            return Some(vec![Binding { var: binding.var, expr: library }]);
        };
        let name = self.programs.names.fresh("product");
        let var = VarId(u32::try_from(self.rebuilt.vars.len()).expect("ids are u32"));
        let span = self.rebuilt.var(binding.var).span;
        self.rebuilt.vars.push(VarInfo { name, annotation: Some(out), span });
        let mut args: Vec<Atom> = arguments.iter().map(|&at| call.args[at].clone()).collect();
        args.push(Atom::Var(var));
        let rest = call_tir(rest, args, call.out.clone());
        Some(vec![Binding { var, expr: library }, Binding { var: binding.var, expr: rest }])
    }
}

fn library(function: &Name, factors: &[Atom], out: &Annotation) -> Expr {
    let args = vec![
        Atom::Str(function.clone()),
        Atom::List(factors.to_vec()),
        Atom::Annotation(Arc::new(out.clone())),
    ];
    Expr::Call { callee: Callee::Operator("call_dps_library".into()), args, attrs: Vec::new() }
}

/// The annotation of the product within a program, over the dims of a call; none where they might
/// have no value.
fn product_of(
    program: &TensorProgram,
    product: &Annotation,
    types: &[Annotation],
) -> Option<Annotation> {
    let mut dims: BTreeMap<Name, Dim> = BTreeMap::new();
    let mut shapes: Vec<&[Dim]> = Vec::new();
    for (buffer, found) in program.buffer_params().zip(types) {
        let extents = found.dims()?;
        for (dim, extent) in program.buffer(buffer).shape.iter().zip(extents) {
            if let Dim::Var(name) = dim {
                dims.entry(name.clone()).or_insert_with(|| extent.clone());
            }
        }
        shapes.push(extents);
    }
    // The last is what the call gives.
    shapes.pop();
    let product = product.map_dims(&mut |dim| dim.substitute(&dims));
    let mut evaluates = true;
    product.visit_dims(&mut |dim| evaluates &= always_evaluates(dim, &shapes));
    evaluates.then_some(product)
}
