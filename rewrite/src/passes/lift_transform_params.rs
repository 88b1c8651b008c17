//! What depends on weights alone is computed once, not in every call: of a function whose first
//! `num_input` parameters are inputs, `main_transform_params` makes what it needs of the others, and
//! `main_transformed` goes on from there.
//!
//! `main` stays, as a call of the one and then of the other, with the meaning that it had: so it can be
//! held against what it was. Whoever runs it many times calls the two by themselves. Only what never
//! stops the program moves, so that no trap comes before another.

use super::bind_params::NUM_INPUT;
use crate::blocks::tidy;
use crate::dims::{drop_unused_dims, expr_dims, lone, signature_dims};
use crate::in_place::updated_in_place;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, Definition, Expr, Function, Lambda,
    Module, VarId, VarInfo, attr,
};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "lift_transform_params",
    doc: "Moves what depends only on the parameters after the first num_input ones into a function of \
          its own, main_transform_params; main calls it, then main_transformed.",
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
    let mut definitions = Vec::with_capacity(module.definitions.len());
    let (mut moved, mut outputs) = (0, 0);
    for definition in &module.definitions {
        let lifted = match definition {
            Definition::Graph(function) => {
                let annotations = &context.checked.annotations[&function.name];
                Lift::of(module, function, annotations, &mut traps)
            }
            Definition::Tensor(_) => None,
        };
        let Some(lift) = lifted else {
            definitions.push(definition.clone());
            continue;
        };
        moved += lift.moved.len();
        outputs += lift.outputs.len();
        let functions = lift.functions(&mut names);
        definitions.extend(functions.into_iter().map(Definition::Graph));
    }
    context.count("moved", moved, "bindings");
    context.count("made", outputs, "transformed parameters");
    Ok(Module { attrs: module.attrs.clone(), definitions })
}

/// How a function falls apart.
struct Lift<'f> {
    function: &'f Function,
    annotations: &'f [Annotation],
    /// Bindings that are computed before.
    moved: Vec<Binding>,
    /// Those of them that the rest needs.
    outputs: Vec<VarId>,
    /// The rest.
    body: Body,
}

impl<'f> Lift<'f> {
    /// `None`: there is nothing to lift.
    fn of(
        module: &Module,
        function: &'f Function,
        annotations: &'f [Annotation],
        traps: &mut TrapAnalysis,
    ) -> Option<Self> {
        let body = function.lambda.body.as_ref()?;
        let AttrValue::Int(inputs) = attr(&function.lambda.attrs, NUM_INPUT)? else { return None };
        let inputs = usize::try_from(*inputs).ok()?;
        let weights: BTreeSet<VarId> =
            function.lambda.params.iter().skip(inputs).copied().collect();
        let of_weights = of_weights(module, function, &weights, annotations, traps);
        let rest = without(body, &of_weights);
        let used = uses(&rest);
        let bound = body.bindings().map(|binding| binding.var);
        let outputs: Vec<VarId> =
            bound.filter(|var| of_weights.contains(var) && used.contains(var)).collect();
        let moved = needed(body, &outputs);
        (!outputs.is_empty()).then_some(Self { function, annotations, moved, outputs, body: rest })
    }

    /// The function that transforms, the one that goes on, and the one that calls both.
    fn functions(&self, names: &mut Names) -> Vec<Function> {
        let transform =
            self.transform(names.fresh(&format!("{}_transform_params", self.function.name)));
        let rest = self.rest(names.fresh(&format!("{}_transformed", self.function.name)));
        let whole = self.whole(&transform, &rest, names);
        vec![transform, rest, whole]
    }

    fn weights(&self) -> Vec<VarId> {
        self.function.lambda.params[self.inputs()..].to_vec()
    }

    fn inputs(&self) -> usize {
        match attr(&self.function.lambda.attrs, NUM_INPUT) {
            Some(AttrValue::Int(inputs)) => usize::try_from(*inputs).unwrap_or(0),
            _ => 0,
        }
    }

    fn transform(&self, name: Name) -> Function {
        let blocks = vec![Block { kind: BlockKind::Plain, bindings: self.moved.clone() }];
        let result = Atom::Tuple(self.outputs.iter().map(|&var| Atom::Var(var)).collect());
        let body = Some(Body { blocks, result });
        let lambda = Lambda { params: self.weights(), result: None, attrs: Vec::new(), body };
        self.with_own_dims(Function { name, lambda, ..self.function.clone() })
    }

    /// Takes the inputs, the weights that are still used or that alone tell a dim, and what was made of
    /// them.
    fn rest(&self, name: Name) -> Function {
        let used = uses(&self.body);
        let mut params = self.function.lambda.params[..self.inputs()].to_vec();
        let made = self.outputs.iter().copied();
        let mut told = BTreeSet::new();
        let certain = params.iter().copied().chain(made.clone());
        certain.for_each(|var| lone(&self.annotations[var.0 as usize], &mut told));
        for weight in self.weights() {
            let mut own = BTreeSet::new();
            lone(&self.annotations[weight.0 as usize], &mut own);
            if used.contains(&weight) || !own.is_subset(&told) {
                told.append(&mut own);
                params.push(weight);
            }
        }
        params.extend(made);
        let mut function = self.function.clone();
        for &output in &self.outputs {
            let annotation = self.annotations[output.0 as usize].clone();
            function.vars[output.0 as usize].annotation = Some(annotation);
        }
        let lambda = Lambda { params, body: Some(self.body.clone()), ..function.lambda };
        self.with_own_dims(Function { name, lambda, ..function })
    }

    /// With the symbolic variables of the parameters, and those that casts in the body bind.
    fn with_own_dims(&self, mut function: Function) -> Function {
        let params = function.lambda.params.iter();
        let annotations = params.map(|&param| function.param_annotation(param));
        let mut dims = signature_dims(self.function, annotations);
        dims.extend(function.dims.iter().filter(|dim| !dim.in_signature).cloned());
        function.dims = dims;
        function
    }

    fn whole(&self, transform: &Function, rest: &Function, names: &mut Names) -> Function {
        let mut function = self.function.clone();
        let mut add = |name: &str, function: &mut Function| {
            let id = VarId(u32::try_from(function.vars.len()).expect("ids are u32"));
            let (name, span) = (names.fresh(name), function.span);
            function.vars.push(VarInfo { name, annotation: None, span });
            id
        };
        let call = |function: &Function, args: &[VarId]| Expr::Call {
            callee: Callee::Global(function.name.clone()),
            args: args.iter().map(|&var| Atom::Var(var)).collect(),
            attrs: Vec::new(),
        };
        let transformed = add("transformed", &mut function);
        let mut bindings =
            vec![Binding { var: transformed, expr: call(transform, &transform.lambda.params) }];
        for (index, &var) in self.outputs.iter().enumerate() {
            bindings.push(Binding { var, expr: Expr::Get(Atom::Var(transformed), index) });
        }
        let result = add("result", &mut function);
        bindings.push(Binding { var: result, expr: call(rest, &rest.lambda.params) });
        let blocks = vec![Block { kind: BlockKind::Plain, bindings }];
        function.lambda.body = Some(Body { blocks, result: Atom::Var(result) });
        drop_unused_dims(&mut function);
        function
    }
}

/// Bindings outside of branches that never stop the program and are made of weights alone.
fn of_weights(
    module: &Module,
    function: &Function,
    weights: &BTreeSet<VarId>,
    annotations: &[Annotation],
    traps: &mut TrapAnalysis,
) -> BTreeSet<VarId> {
    let updated = updated_in_place(module, function);
    let mut told = BTreeSet::new();
    weights.iter().for_each(|weight| lone(&annotations[weight.0 as usize], &mut told));
    let (mut known, mut of_weights) = (weights.clone(), BTreeSet::new());
    let bindings = function.lambda.body.as_ref().into_iter().flat_map(Body::bindings);
    for binding in bindings {
        let computes = matches!(
            &binding.expr,
            Expr::Call { callee: Callee::Operator(_), .. } | Expr::Get(..) | Expr::Atom(_)
        );
        let mut used = BTreeSet::new();
        expr_uses(&binding.expr, &mut used);
        let mut own_dims = true;
        let mut is_told =
            |dim: &relax_syntax::dim::Dim| own_dims &= dim.vars_all(&|n| told.contains(n));
        expr_dims(&binding.expr, &mut is_told);
        annotations[binding.var.0 as usize].visit_dims(&mut is_told);
        if computes
            && own_dims
            && used.is_subset(&known)
            && used.is_disjoint(&updated)
            && !updated.contains(&binding.var)
            && traps.is_removable(function, binding)
        {
            known.insert(binding.var);
            if !used.is_disjoint(weights) || !used.is_disjoint(&of_weights) {
                of_weights.insert(binding.var);
            }
        }
    }
    of_weights
}

/// The bindings that these values need, in their order.
fn needed(body: &Body, values: &[VarId]) -> Vec<Binding> {
    let bindings: Vec<&Binding> = body.bindings().collect();
    let mut used: BTreeSet<VarId> = values.iter().copied().collect();
    let mut found = Vec::new();
    for binding in bindings.into_iter().rev() {
        if used.contains(&binding.var) {
            expr_uses(&binding.expr, &mut used);
            found.push(binding.clone());
        }
    }
    found.reverse();
    found
}

fn without(body: &Body, gone: &BTreeSet<VarId>) -> Body {
    let mut body = body.clone();
    for block in &mut body.blocks {
        block.bindings.retain(|binding| !gone.contains(&binding.var));
        if let BlockKind::Dataflow { outputs } = &mut block.kind {
            outputs.retain(|var| !gone.contains(var));
        }
    }
    tidy(&mut body);
    body
}

fn uses(body: &Body) -> BTreeSet<VarId> {
    let mut used = BTreeSet::new();
    body.bindings().for_each(|binding| expr_uses(&binding.expr, &mut used));
    atom_uses(&body.result, &mut used);
    used
}
