//! What a region costs after fusion. The passes that make and fuse tensor programs run on it alone, and the kernels that
//! are left are counted at a few dims: so a call that fuses with its neighbours is no launch and moves nothing, and a
//! form that keeps a norm or an attention from being stitched is as dear as it is.

use super::extract::Values;
use crate::dims::match_dims;
use crate::pass::Settings;
use crate::pipeline::{Pipeline, Unwatched, run};
use crate::tir_call::TirCall;
use crate::trap_free::operand;
use relax_semantics::check::{Phase, check};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Definition, DimVar, Expr, External, Function,
    Lambda, Module, TensorProgram, VarId, VarInfo, renumber,
};
use relax_tir::work::work;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The passes of a target that decide what is a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Fusion {
    /// Their last stage leads to tensor programs that are fused, before memory is planned.
    pub passes: &'static Pipeline,
    /// What calls on constants alone cost.
    pub constants: Constants,
}

/// When calls on constants alone are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constants {
    /// Once, when a module is built.
    Evaluated,
    /// In each call of the module.
    Computed,
}

/// What a region costs at some dims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FusedCost {
    /// Kernels that are started.
    pub launches: i128,
    /// Bytes that they read and write.
    pub bytes: i128,
    /// Operations on floats.
    pub operations: i128,
}

impl FusedCost {
    /// Whether nothing of it is more.
    pub(super) fn is_at_most(&self, other: &FusedCost) -> bool {
        self.launches <= other.launches
            && self.bytes <= other.bytes
            && self.operations <= other.operations
    }

    fn plus(self, other: FusedCost) -> FusedCost {
        FusedCost {
            launches: self.launches + other.launches,
            bytes: self.bytes + other.bytes,
            operations: self.operations + other.operations,
        }
    }
}

/// The bindings of a region as a function of their own.
pub(super) struct Part<'p> {
    /// Of the function around.
    pub(super) vars: &'p [VarInfo],
    pub(super) dims: &'p [DimVar],
    /// Variables from outside, with what is known of them.
    pub(super) inputs: Vec<(VarId, Annotation)>,
    /// Those of them whose values are known when a module is built.
    pub(super) weights: Vec<(VarId, Annotation)>,
    pub(super) bindings: Vec<Binding>,
    pub(super) outputs: &'p [VarId],
}

const NAME: &str = "region";
/// The parameter that binds all dims.
const DIMS: &str = "dims of the region";

impl<'p> Part<'p> {
    /// A function of these dims that gives these variables, empty still.
    pub(super) fn of(dims: &'p [DimVar], outputs: &'p [VarId]) -> Self {
        let (inputs, weights, bindings) = (Vec::new(), Vec::new(), Vec::new());
        Self { vars: &[], dims, inputs, weights, bindings, outputs }
    }

    /// What it costs at each of some dims; `None` where that is not known: a call stays with the reference library, or
    /// a pass made versions.
    pub(super) fn cost(
        self,
        fusion: &Fusion,
        facts: &mut dyn Facts,
        samples: &[Values],
    ) -> Option<Vec<FusedCost>> {
        let samples = BTreeMap::from([(Name::new(NAME), samples)]);
        costs_within(Scope::All, &self.module(), &samples, fusion, facts).into_values().next()
    }

    fn module(self) -> Module {
        let mut vars = self.vars.to_vec();
        let mut params = Vec::with_capacity(self.inputs.len() + 1);
        if !self.dims.is_empty() {
            let dims = self.dims.iter().map(|dim| Dim::Var(dim.name.clone())).collect();
            let annotation = Some(Annotation::Shape(Extents::Known(dims)));
            params.push(VarId(u32::try_from(vars.len()).expect("invariant: ids are u32")));
            vars.push(VarInfo { name: Name::new(DIMS), annotation, span: Default::default() });
        }
        for (var, annotation) in self.inputs {
            vars[var.0 as usize].annotation = Some(annotation);
            params.push(var);
        }
        let result = match self.outputs {
            [one] => Atom::Var(*one),
            all => Atom::Tuple(all.iter().map(|&var| Atom::Var(var)).collect()),
        };
        let weights = self.weights.into_iter().map(|(var, annotation)| {
            let name = Name::new(format!("weight {}", var.0));
            let external = Arc::new(External { name, annotation });
            Binding { var, expr: Expr::Atom(Atom::External(external)) }
        });
        let bindings = weights.chain(self.bindings).collect();
        let blocks = vec![Block { kind: BlockKind::Plain, bindings }];
        let body = Some(Body { blocks, result });
        let dims = self.dims.iter().map(|dim| DimVar { in_signature: true, ..dim.clone() });
        let mut function = Function {
            name: Name::new(NAME),
            span: Default::default(),
            lambda: Lambda { params, result: None, attrs: Vec::new(), body },
            vars,
            dims: dims.collect(),
        };
        renumber(&mut function);
        Module { attrs: Vec::new(), definitions: vec![Definition::Graph(function)] }
    }
}

/// What the functions of a module cost by themselves, each at its own samples, as far as that is known.
pub(super) fn costs(
    module: &Module,
    samples: &BTreeMap<Name, Vec<Values>>,
    fusion: &Fusion,
    facts: &mut dyn Facts,
) -> BTreeMap<Name, Vec<FusedCost>> {
    let samples = samples.iter().map(|(name, samples)| (name.clone(), samples.as_slice()));
    costs_within(Scope::Own, module, &samples.collect(), fusion, facts)
}

fn costs_within(
    scope: Scope,
    module: &Module,
    samples: &BTreeMap<Name, &[Values]>,
    fusion: &Fusion,
    facts: &mut dyn Facts,
) -> BTreeMap<Name, Vec<FusedCost>> {
    let route = fusion.passes.to(Phase::P21);
    let fused = run(module, &route, &Settings::default(), facts, &mut Unwatched);
    let Ok(fused) = fused else { return BTreeMap::new() };
    let checked = check(&fused, facts, Phase::P0);
    let of = |(name, samples): (&Name, &&[Values])| {
        let annotations = checked.annotations.get(name)?;
        let body = fused.function(name)?.lambda.body.as_ref()?;
        let count = Count { module: &fused, annotations, fusion, scope };
        let costs = samples.iter().map(|sample| count.body(body, sample));
        Some((name.clone(), costs.collect::<Option<_>>()?))
    };
    samples.iter().filter_map(of).collect()
}

/// Whether calls of functions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// What they cost is not known.
    All,
    /// They are counted elsewhere.
    Own,
}

struct Count<'c> {
    module: &'c Module,
    annotations: &'c [Annotation],
    fusion: &'c Fusion,
    scope: Scope,
}

impl Count<'_> {
    fn body(&self, body: &Body, sample: &Values) -> Option<FusedCost> {
        let mut constant = BTreeSet::new();
        let mut sum = FusedCost::default();
        for binding in body.bindings() {
            if self.is_constant(&binding.expr, &constant) {
                constant.insert(binding.var);
                continue;
            }
            match (&binding.expr, TirCall::of(&binding.expr)) {
                (_, Some(call)) => sum = sum.plus(self.call(&call, sample)?),
                (Expr::Call { callee: Callee::Operator(name), .. }, None) if is_free(name) => {}
                (Expr::Call { callee: Callee::Global(_), .. }, None)
                    if self.scope == Scope::Own => {}
                (Expr::If { then, otherwise, .. }, None) if self.scope == Scope::Own => {
                    sum = sum.plus(self.body(then, sample)?).plus(self.body(otherwise, sample)?);
                }
                (Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..), None) => {}
                _ => return None,
            }
        }
        Some(sum)
    }

    fn is_constant(&self, expr: &Expr, known: &BTreeSet<VarId>) -> bool {
        let is_value = |atom: &Atom| is_known(atom, known);
        self.fusion.constants == Constants::Evaluated
            && match (expr, TirCall::of(expr)) {
                (_, Some(call)) => !call.args.is_empty() && call.args.iter().all(is_value),
                (Expr::Atom(atom) | Expr::Get(atom, _), None) => is_value(atom),
                (Expr::Call { callee: Callee::Operator(name), args, .. }, None) => {
                    // A workspace has no elements that matter.
                    name.starts_with("memory.alloc")
                        || is_free(name) && args.first().is_some_and(is_value)
                }
                _ => false,
            }
    }

    fn call(&self, call: &TirCall, sample: &Values) -> Option<FusedCost> {
        let program = self.module.tensor_program(call.program)?;
        let given = call.args.iter().map(|arg| operand(arg, self.annotations).annotation);
        let tensors: Vec<Annotation> = given.chain([call.out.clone()]).collect();
        let dims = dims_of(program, &tensors, &call.scalars, sample)?;
        let value = |dim: &Dim| dim.eval(&|name| dims.get(name).copied()).ok().map(i128::from);
        let work = work(program)?;
        let mut cost = FusedCost { launches: 1, bytes: 0, operations: value(&work.operations)? };
        for (id, elements) in program.buffer_params().zip(&work.elements) {
            let size = i128::try_from(program.buffer(id).dtype.size()).ok()?;
            cost.bytes += value(elements)? * size;
        }
        Some(cost)
    }
}

/// The dims of a tensor program at a call, by the extents of what it is given.
fn dims_of(
    program: &TensorProgram,
    tensors: &[Annotation],
    scalars: &[Dim],
    sample: &Values,
) -> Option<BTreeMap<Name, i64>> {
    let value = |dim: &Dim| dim.eval(&|name| sample.get(name).copied()).ok();
    let mut dims = BTreeMap::new();
    for (id, tensor) in program.buffer_params().zip(tensors) {
        let buffer = program.buffer(id);
        let declared = Annotation::tensor(buffer.shape.clone(), buffer.dtype);
        match_dims(&declared, tensor, &mut |name, dim| {
            if let Some(value) = value(dim) {
                dims.insert(name.clone(), value);
            }
        });
    }
    let integers = program.params.iter().filter_map(|param| match param {
        Param::Scalar(id) => Some(&program.scalar(*id).name),
        Param::Dim(name) => Some(name),
        Param::Buffer(_) => None,
    });
    for (name, dim) in integers.zip(scalars) {
        dims.insert(name.clone(), value(dim)?);
    }
    Some(dims)
}

/// Whether the value of an atom is known when a module is built; `known` are the variables of which that is so.
pub(super) fn is_known(atom: &Atom, known: &BTreeSet<VarId>) -> bool {
    match atom {
        Atom::Var(var) => known.contains(var),
        Atom::External(_) | Atom::Constant(_) => true,
        _ => false,
    }
}

/// Whether a call looks at bytes that there are, or computes a shape.
fn is_free(name: &str) -> bool {
    name.starts_with("memory.") || name.starts_with("builtin.shape") || name == "reshape"
}
