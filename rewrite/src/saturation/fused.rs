//! What a region costs after fusion. The passes that make and fuse tensor programs run on it alone, and the kernels that
//! are left are counted at a few dims: so a call that fuses with its neighbours is no launch and moves nothing, and a
//! form that keeps a norm or an attention from being stitched is as dear as it is.

use super::extract::Values;
use crate::dims::match_dims;
use crate::pass::Settings;
use crate::pipeline::{Pipeline, Unwatched, run};
use crate::tir_call::AnyTirCall;
use relax_semantics::check::{Checked, Phase, check};
use relax_semantics::ops::traps::calls::operand;
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
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// The passes of a target that decide what is a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Fusion {
    /// Their last stage leads to tensor programs that are fused, before memory is planned.
    pub passes: &'static Pipeline,
    /// What calls on constants alone cost.
    pub constants: Constants,
    /// What else a kernel costs beside operations.
    pub units: Units,
}

/// In operations on floats, of which a fused multiply-add is two. Only the order of magnitude matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// In the time in which a byte moves.
    pub byte: i128,
    /// In the time in which a kernel is started.
    pub launch: i128,
}

impl Units {
    /// One core does some 50 operations a nanosecond in small products; it moves some 15 bytes of main memory and 100 of its cache, and
    /// starts a kernel in half a microsecond.
    pub const PROCESSOR: Self = Self { byte: 2, launch: 20_000 };
    /// 10 Tera-operations a second and more, some 20 for each byte of memory; a launch takes some five microseconds.
    pub const GPU: Self = Self { byte: 16, launch: 50_000_000 };
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
    /// In the time of operations.
    pub(super) fn weighed(&self, units: Units) -> i128 {
        self.operations + self.bytes * units.byte + self.launches * units.launch
    }

    /// Whether nothing of it is more.
    pub(super) fn is_at_most(&self, other: &FusedCost) -> bool {
        self.launches <= other.launches
            && self.bytes <= other.bytes
            && self.operations <= other.operations
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
        let module = self.module();
        let fused = Fused::of(&module, fusion, facts)?;
        samples.iter().map(|sample| fused.cost(&Name::new(NAME), sample)).collect()
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
    let Some(fused) = Fused::of(module, fusion, facts) else { return BTreeMap::new() };
    let of = |(name, samples): (&Name, &Vec<Values>)| {
        let costs = samples.iter().map(|sample| fused.cost(name, sample));
        Some((name.clone(), costs.collect::<Option<_>>()?))
    };
    samples.iter().filter_map(of).collect()
}

/// A module after fusion.
pub(super) struct Fused<'f> {
    checked: Checked,
    fusion: &'f Fusion,
    /// The functions that the module had before. Passes make others of parts of them.
    own: BTreeSet<Name>,
    /// What functions cost that were asked for.
    formulas: RefCell<BTreeMap<Name, Option<Rc<Formula>>>>,
}

/// What calls cost, as sums of polynomials of the dims.
#[derive(Clone, Debug, Default)]
struct Formula {
    launches: i128,
    /// Elements of each tensor that is read or written, and the bytes of one.
    bytes: Vec<(Dim, i128)>,
    operations: Vec<Dim>,
}

impl Formula {
    fn add(&mut self, other: &Formula) {
        self.launches += other.launches;
        self.bytes.extend_from_slice(&other.bytes);
        self.operations.extend_from_slice(&other.operations);
    }

    fn at(&self, sample: &Values) -> Option<FusedCost> {
        let value = |dim: &Dim| dim.eval(&|name| sample.get(name).copied()).ok().map(i128::from);
        let bytes = self.bytes.iter().map(|(elements, size)| Some(value(elements)? * size));
        Some(FusedCost {
            launches: self.launches,
            bytes: bytes.sum::<Option<i128>>()?,
            operations: self.operations.iter().map(value).sum::<Option<i128>>()?,
        })
    }
}

impl<'f> Fused<'f> {
    /// `None` where a pass refuses the module.
    pub(super) fn of(module: &Module, fusion: &'f Fusion, facts: &mut dyn Facts) -> Option<Self> {
        let route = fusion.passes.to(Phase::P21);
        let fused = run(module, &route, &Settings::default(), facts, &mut Unwatched).ok()?;
        let own = module.functions().map(|function| function.name.clone()).collect();
        let checked = check(&fused, facts, Phase::P0);
        Some(Self { checked, fusion, own, formulas: RefCell::default() })
    }

    /// What else a kernel costs beside operations.
    pub(super) fn units(&self) -> Units {
        self.fusion.units
    }

    /// What a function costs by itself at some dims, without the functions of the module that it calls; `None` where that is not known.
    pub(super) fn cost(&self, name: &Name, sample: &Values) -> Option<FusedCost> {
        self.formula(name)?.at(sample)
    }

    fn formula(&self, name: &Name) -> Option<Rc<Formula>> {
        if let Some(known) = self.formulas.borrow().get(name) {
            return known.clone();
        }
        let formula = self.of_function(name).map(Rc::new);
        self.formulas.borrow_mut().insert(name.clone(), formula.clone());
        formula
    }

    fn of_function(&self, name: &Name) -> Option<Formula> {
        let annotations = self.checked.annotations.get(name)?;
        let body = self.checked.module.function(name)?.lambda.body.as_ref()?;
        self.body(body, annotations)
    }

    fn body(&self, body: &Body, annotations: &[Annotation]) -> Option<Formula> {
        let mut constant = BTreeSet::new();
        let mut sum = Formula::default();
        for binding in body.bindings() {
            if self.is_constant(&binding.expr, &constant) {
                constant.insert(binding.var);
                continue;
            }
            match (&binding.expr, AnyTirCall::of(&binding.expr)) {
                (_, Some(call)) => sum.add(&self.call(&call, annotations)?),
                (Expr::Call { callee: Callee::Operator(name), .. }, None) if is_free(name) => {}
                // It is counted elsewhere.
                (Expr::Call { callee: Callee::Global(name), .. }, None)
                    if self.own.contains(name) => {}
                // A part of this function, whose dims have the same names.
                (Expr::Call { callee: Callee::Global(name), .. }, None) => {
                    sum.add(&*self.formula(name)?);
                }
                (Expr::If { then, otherwise, .. }, None) => {
                    let branches = [then, otherwise].map(|branch| self.body(branch, annotations));
                    match branches {
                        [None, None] => return None,
                        // What the reference library computes where a constraint is not proved has no cost.
                        branches => branches.iter().flatten().for_each(|branch| sum.add(branch)),
                    }
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
            && match (expr, AnyTirCall::of(expr)) {
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

    fn call(&self, call: &AnyTirCall, annotations: &[Annotation]) -> Option<Formula> {
        let program = self.checked.module.tensor_program(call.program)?;
        let given = call.args.iter().map(|arg| operand(arg, annotations).annotation);
        let made = match call.result()? {
            Annotation::Tuple(fields) => fields,
            one => vec![one],
        };
        let tensors: Vec<Annotation> = given.chain(made).collect();
        let dims = dims_of(program, &tensors, &call.scalars);
        let work = work(program)?;
        let is_known = |dim: &Dim| dim.vars_all(&|name| dims.contains_key(name));
        if !work.elements.iter().chain([&work.operations]).all(is_known) {
            return None;
        }
        let operations = vec![work.operations.substitute(&dims)];
        let mut formula = Formula { launches: 1, bytes: Vec::new(), operations };
        for (at, (id, elements)) in program.buffer_params().zip(&work.elements).enumerate() {
            let is_read_before = |arg: &Atom| call.args[..at].contains(arg);
            if call.args.get(at).is_some_and(is_read_before) {
                continue;
            }
            let size = i128::try_from(program.buffer(id).dtype.size()).ok()?;
            formula.bytes.push((elements.substitute(&dims), size));
        }
        Some(formula)
    }
}

/// The dims of a tensor program at a call, by the extents of what it is given, over the dims of the caller.
fn dims_of(
    program: &TensorProgram,
    tensors: &[Annotation],
    scalars: &[Dim],
) -> BTreeMap<Name, Dim> {
    let mut dims = BTreeMap::new();
    for (id, tensor) in program.buffer_params().zip(tensors) {
        let buffer = program.buffer(id);
        let declared = Annotation::tensor(buffer.shape.clone(), buffer.dtype);
        match_dims(&declared, tensor, &mut |name, dim| {
            dims.insert(name.clone(), dim.clone());
        });
    }
    let integers = program.params.iter().filter_map(|param| match param {
        Param::Scalar(id) => Some(&program.scalar(*id).name),
        Param::Dim(name) => Some(name),
        Param::Buffer(_) => None,
    });
    for (name, dim) in integers.zip(scalars) {
        dims.insert(name.clone(), dim.clone());
    }
    dims
}

/// Whether the value of an atom is known when a module is built; `known` are the variables of which that is so.
pub(super) fn is_known(atom: &Atom, known: &BTreeSet<VarId>) -> bool {
    match atom {
        Atom::Var(var) => known.contains(var),
        Atom::External(_) | Atom::Constant(_) => true,
        _ => false,
    }
}

/// Whether a call looks at bytes that there are, computes a shape, or checks one.
fn is_free(name: &str) -> bool {
    ["memory.", "builtin.shape", "builtin.check"].iter().any(|begin| name.starts_with(begin))
        || name == "reshape"
}
