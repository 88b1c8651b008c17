//! The local program: what every rank runs on its own shards.
//!
//! Its first parameter is a shape: the rank along each axis of the mesh, the extents of the mesh that are variables, then the dims of
//! the global function, which the extents of shards do not tell. Parameters and results are local tensors.

use crate::calls::localized;
use crate::layout::{Axes, Layout, within_stages};
use crate::movement::{Collective, Movement};
use crate::overlap::overlap;
use crate::plan::completed;
use crate::propagate::{Plan, Step};
use crate::rewritten::{self, Names, body, bound, rewritten};
use crate::stages::Stage;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, Callee, Definition, DimVar, Expr, Function, Lambda, Module, VarId, VarInfo,
};
use relax_syntax::span::Span;
use relax_theorems::placement::blocks::is_shape;
use relax_theorems::placement::calls::{assume_declared, tensor};
use std::collections::BTreeSet;

/// The module with the local program of a function, under its name.
///
/// # Panics
/// Where the plan is of another function.
#[must_use]
pub fn lower(module: &Module, function: &Function, plan: &Plan, facts: &mut dyn Facts) -> Module {
    let function = &completed(function, &plan.deduced);
    let mut builder = Builder::new(function, &plan.axes);
    let world = builder.world();
    let mut params = vec![world];
    for (&param, layout) in function.lambda.params.iter().zip(&plan.params) {
        let annotation = function.param_annotation(param);
        let local = builder.annotation(annotation, layout.as_ref());
        let own = builder.add(&function.var(param).name, Some(local), function.span);
        builder.names.insert((param, layout.clone().unwrap_or_default()), own);
        params.push(own);
    }
    facts.push();
    assume_declared(function, facts);
    plan.axes.assume(facts);
    let returned = plan.results.iter().map(|(var, _)| *var).collect();
    builder.steps(&plan.steps, &returned, facts);
    facts.pop();
    let Builder { vars, dims, bindings, names, .. } = builder;
    let lambda = Lambda {
        params,
        result: None,
        attrs: function.lambda.attrs.clone(),
        body: Some(body(function, &plan.results, &names, bindings)),
    };
    let local = Function { name: function.name.clone(), span: function.span, lambda, vars, dims };
    let attrs = module.attrs.iter().filter(|(name, _)| *name == plan.axes.mesh).cloned().collect();
    let mut local = Module { attrs, definitions: vec![Definition::Graph(local)] };
    overlap(&mut local, facts);
    local
}

/// The dims that the first parameter of the local program tells beside the ranks.
#[must_use]
pub fn global_dims(function: &Function) -> Vec<Name> {
    function.dims.iter().filter(|dim| dim.in_signature).map(|dim| dim.name.clone()).collect()
}

pub(crate) struct Builder<'a> {
    pub(crate) function: &'a Function,
    pub(crate) axes: &'a Axes,
    vars: Vec<VarInfo>,
    dims: Vec<DimVar>,
    pub(crate) bindings: Vec<Binding>,
    /// Values of the function, in each layout that they have.
    pub(crate) names: Names,
    taken: BTreeSet<Name>,
    /// What the workers of a stage do, while it is written.
    pub(crate) stage: Option<Stage>,
}

impl<'a> Builder<'a> {
    fn new(function: &'a Function, axes: &'a Axes) -> Self {
        let rank = |(axis, name): (usize, &Name)| DimVar {
            in_signature: true,
            lower: Some(0),
            upper: axes.workers[axis].as_int().map(|workers| workers - 1),
            ..DimVar::new(name.clone(), Span::default())
        };
        let workers = |name: &Name| DimVar {
            in_signature: true,
            lower: Some(1),
            ..DimVar::new(name.clone(), Span::default())
        };
        let ranks = axes.ranks.iter().enumerate().map(rank);
        let mut dims: Vec<DimVar> = ranks.chain(axes.variables().map(workers)).collect();
        dims.extend(function.dims.iter().cloned());
        let taken = dims.iter().map(|dim| dim.name.clone()).collect();
        let (vars, bindings, names) = (Vec::new(), Vec::new(), Names::new());
        Self { function, axes, vars, dims, bindings, names, taken, stage: None }
    }

    fn world(&mut self) -> VarId {
        let of_mesh = self.axes.ranks.iter().chain(self.axes.variables()).cloned();
        let dims = of_mesh.chain(global_dims(self.function));
        let dims = dims.map(Dim::Var).collect();
        self.taken.extend(self.function.vars.iter().map(|var| var.name.clone()));
        let own = self.add("world", Some(Annotation::Shape(Extents::Known(dims))), Span::default());
        self.taken.retain(|name| {
            self.dims.iter().any(|dim| dim.name == *name) || *name == self.vars[0].name
        });
        own
    }

    /// A variable with a name that no other one has.
    fn add(&mut self, name: &str, annotation: Option<Annotation>, span: Span) -> VarId {
        let name = self.unused(name);
        self.vars.push(VarInfo { name, annotation, span });
        VarId(u32::try_from(self.vars.len() - 1).unwrap_or(u32::MAX))
    }

    /// A name that no other variable has, made of this one.
    pub(crate) fn unused(&mut self, name: &str) -> Name {
        rewritten::unused(&mut self.taken, name)
    }

    /// Binds a variable of this name, as the two branches of an `if` bind what it gives.
    pub(crate) fn bind_as(&mut self, name: &Name, expr: Expr, span: Span) -> VarId {
        self.vars.push(VarInfo { name: name.clone(), annotation: None, span });
        let var = VarId(u32::try_from(self.vars.len() - 1).unwrap_or(u32::MAX));
        self.bindings.push(Binding { var, expr });
        var
    }

    pub(crate) fn bind(&mut self, name: &str, expr: Expr, span: Span) -> VarId {
        let var = self.add(name, None, span);
        self.bindings.push(Binding { var, expr });
        var
    }

    pub(crate) fn annotation(
        &self,
        annotation: &Annotation,
        layout: Option<&Layout>,
    ) -> Annotation {
        match (tensor(annotation), layout) {
            (Some((dims, dtype)), Some(layout)) => Annotation::Tensor(TensorType {
                extents: Extents::Known(self.axes.local(&dims, layout)),
                dtype: Some(dtype),
            }),
            _ => annotation.clone(),
        }
    }

    /// A binding, or a branch.
    pub(crate) fn step(&mut self, step: &Step, facts: &mut dyn Facts) {
        match step {
            Step::Same { .. } | Step::Move { .. } => {}
            Step::If { var, condition, layout, branches } => {
                let replicated = (*condition, self.axes.replicated());
                let whole = self.names.get(&replicated);
                let condition = whole.unwrap_or_else(|| &self.names[&(*condition, Layout::new())]);
                let condition = Atom::Var(*condition);
                let is_tuple =
                    matches!(self.function.var(*var).annotation, Some(Annotation::Tuple(_)));
                let [then, otherwise] = branches.each_ref().map(|branch| {
                    let (outer, names) = (std::mem::take(&mut self.bindings), self.names.clone());
                    self.steps(&branch.steps, &branch.results.iter().copied().collect(), facts);
                    let bindings = std::mem::replace(&mut self.bindings, outer);
                    let names = std::mem::replace(&mut self.names, names);
                    rewritten::branch(branch, layout, is_tuple, &names, bindings)
                });
                let info = self.function.var(*var);
                let expr = Expr::If { condition, then, otherwise };
                let own = self.bind(&info.name.clone(), expr, info.span);
                self.names.insert((*var, layout.clone()), own);
            }
            Step::Bind { var, operands, layout } => {
                let expr = bound(self.function, *var);
                let expr = self.local(expr, *var, (operands, layout), facts);
                let info = self.function.var(*var);
                let own = self.bind(&info.name.clone(), expr, info.span);
                self.names.insert((*var, layout.clone()), own);
            }
        }
    }

    pub(crate) fn movement(&mut self, var: VarId, now: VarId, movement: &Movement) -> VarId {
        let info = self.function.var(var);
        let (dims, _) =
            info.annotation.as_ref().and_then(tensor).expect("invariant: a tensor is moved");
        let integer = |value: usize| Atom::Dim(Dim::Int(i64::try_from(value).unwrap_or(i64::MAX)));
        let text = |text: &str| Atom::Str(text.into());
        // A scalar has no rows, and is one element.
        let rows = || {
            let own = self.axes.local(&dims, &within_stages(&movement.after));
            Atom::Dim(own.first().cloned().unwrap_or(Dim::Int(1)))
        };
        let (axis, workers) = (movement.mesh_dim, &self.axes.workers[movement.mesh_dim]);
        let own = [Atom::Dim(workers.clone()), Atom::Dim(self.axes.rank(axis))];
        let mut args = vec![Atom::Var(now)];
        if !matches!(movement.collective, Collective::OwnShard(_) | Collective::Only(_)) {
            args.extend([Atom::Str(self.axes.mesh.clone()), integer(axis)]);
        }
        args.extend(own);
        match movement.collective {
            Collective::AllGather(at) => args.extend([integer(at), Atom::Dim(dims[at].clone())]),
            Collective::AllReduce(reduction) => args.push(text(reduction.name())),
            Collective::ReduceScatter(at, reduction) => {
                args.extend([integer(at), text(reduction.name())])
            }
            Collective::AllToAll { from, to } => {
                args.extend([integer(to), integer(from), Atom::Dim(dims[from].clone())]);
            }
            Collective::OwnShard(at) | Collective::Only(at) => args.push(integer(at)),
            Collective::Send { from, to } => args.extend([integer(from), integer(to), rows()]),
            Collective::Broadcast(from) => args.extend([integer(from), rows()]),
        }
        let callee = Callee::Operator(movement.collective.name().into());
        self.bind(&info.name.clone(), Expr::Call { callee, args, attrs: Vec::new() }, info.span)
    }

    fn local(
        &self,
        expr: &Expr,
        var: VarId,
        (operands, layout): (&[Layout], &Layout),
        facts: &mut dyn Facts,
    ) -> Expr {
        let dims = match &self.function.var(var).annotation {
            Some(Annotation::Tuple(fields)) => fields.first().and_then(tensor),
            Some(annotation) => tensor(annotation),
            None => None,
        };
        let dims = dims.map(|(dims, _)| dims).unwrap_or_default();
        let layout_of_dims = &within_stages(layout);
        rewritten(expr, (operands, layout), &self.names, &mut |param, atom| {
            if is_shape(param.kind) {
                localized(atom, &dims, layout_of_dims, self.axes, facts)
            } else {
                atom.clone()
            }
        })
    }
}
