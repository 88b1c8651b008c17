//! The functions that come of one with nested functions: itself without them, and each of them.

use super::captures::{Captures, Nested};
use crate::dims::lone;
use crate::in_place::mentions;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, OWN};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, DimVar, Expr, Function, VarId,
    VarInfo, attr,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Lifting<'a> {
    function: &'a Function,
    annotations: &'a [Annotation],
    captures: &'a Captures,
    names: BTreeMap<VarId, Name>,
    /// The parameter for symbolic variables that no captured variable has as a dim.
    shape: VarInfo,
}

impl<'a> Lifting<'a> {
    pub(super) fn new(
        function: &'a Function,
        annotations: &'a [Annotation],
        captures: &'a Captures,
        names: BTreeMap<VarId, Name>,
    ) -> Self {
        let taken = |name: &str| {
            function.vars.iter().any(|info| info.name == name) || function.dim(name).is_some()
        };
        let candidates = std::iter::once("dims".to_owned())
            .chain((1_u32..).map(|number| format!("dims_{number}")));
        let mut free = candidates.filter(|name| !taken(name));
        let name = Name::new(free.next().expect("invariant: there are more names than are taken"));
        let shape = VarInfo { name, annotation: None, span: function.span };
        Self { function, annotations, captures, names, shape }
    }

    /// The function itself, then the lifted ones in the order of the text.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut outer = self.function.clone();
        if let Some(body) = &mut outer.lambda.body {
            self.body(body);
        }
        outer.dims = self.dims(&outer, &BTreeSet::new());
        let nested = self.captures.nested.iter();
        std::iter::once(outer)
            .chain(nested.map(|(&var, nested)| self.lifted(var, nested)))
            .collect()
    }

    fn lifted(&self, var: VarId, nested: &Nested) -> Function {
        let mut vars = self.function.vars.clone();
        // What was deduced with the facts of the function around is deduced anew without them.
        for &own in nested.own.iter().filter(|own| !nested.lambda.params.contains(own)) {
            let annotation = &mut vars[own.0 as usize].annotation;
            *annotation = annotation.take().filter(has_signature);
        }
        for &captured in &nested.vars {
            vars[captured.0 as usize].annotation = Some(self.annotation(captured));
        }
        let mut captured: Vec<VarId> = nested.vars.iter().copied().collect();
        let extra = self.extra_dims(nested);
        if !extra.is_empty() {
            let dims = extra.into_iter().map(Dim::Var).collect();
            let annotation = Some(Annotation::Shape(Extents::Known(dims)));
            captured.insert(0, VarId(u32::try_from(vars.len()).expect("ids are u32")));
            vars.push(VarInfo { annotation, ..self.shape.clone() });
        }
        let mut lambda = (*nested.lambda).clone();
        lambda.params = self.arranged(var, lambda.params, captured);
        if lambda.result.is_none() {
            lambda.result = self.result(var, nested);
        }
        if attr(&lambda.attrs, "private").is_none() {
            lambda.attrs.push((Name::new("private"), AttrValue::Bool(true)));
        }
        let body = lambda.body.as_mut().expect("invariant: nested functions have a body");
        self.body(body);
        self.own_value(var, body);
        let (name, span) = (self.names[&var].clone(), self.function.var(var).span);
        let mut function = Function { name, span, lambda, vars, dims: Vec::new() };
        function.dims = self.dims(&function, &self.facts_left_out(var, nested));
        function
    }

    /// Captured values and a function's own arguments, in the order of its parameters.
    fn arranged<T>(&self, var: VarId, own: Vec<T>, captured: Vec<T>) -> Vec<T> {
        let (first, last) =
            if self.captures.values.contains(&var) { (own, captured) } else { (captured, own) };
        first.into_iter().chain(last).collect()
    }

    /// What is known of a captured variable.
    fn annotation(&self, var: VarId) -> Annotation {
        if self.captures.nested.contains_key(&var) {
            return Annotation::Callable(None);
        }
        self.annotations[var.0 as usize].clone()
    }

    /// Symbolic variables that a function needs and that no captured variable binds.
    fn extra_dims(&self, nested: &Nested) -> Vec<Name> {
        let mut bound = BTreeSet::new();
        nested.vars.iter().for_each(|&var| lone(&self.annotation(var), &mut bound));
        nested.dims.difference(&bound).cloned().collect()
    }

    /// What a call of a nested function passes beside its arguments.
    fn captured(&self, var: VarId) -> Vec<Atom> {
        let nested = &self.captures.nested[&var];
        let dims = self.extra_dims(nested);
        let shape =
            (!dims.is_empty()).then(|| Atom::Shape(dims.into_iter().map(Dim::Var).collect()));
        shape.into_iter().chain(nested.vars.iter().map(|&var| Atom::Var(var))).collect()
    }

    /// The result that was deduced, in the function's own variables: callers go on knowing it.
    fn result(&self, var: VarId, nested: &Nested) -> Option<Annotation> {
        let unknown = self.captures.is_recursive(var).then_some(Annotation::Object);
        let Annotation::Callable(Some(signature)) = &self.annotations[var.0 as usize] else {
            return unknown;
        };
        let plain = |dim: &Dim| {
            let mut names = BTreeMap::new();
            dim.visit_vars(&mut |name| {
                names.insert(name.clone(), Dim::var(name.trim_start_matches(OWN)));
            });
            dim.substitute(&names)
        };
        let result = without_signatures(&signature.result).map_dims(&mut |dim| plain(dim));
        let mut bound = nested.dims.clone();
        let params = nested.lambda.params.iter();
        params.for_each(|&param| lone(self.function.param_annotation(param), &mut bound));
        let mut known = true;
        result.visit_dims(&mut |dim| known &= dim.vars_all(&|name| bound.contains(name)));
        if known && result != Annotation::Object { Some(result) } else { unknown }
    }

    /// Dims that the function's own parameters would bind before the captured ones do: facts on them
    /// hold already, and are not checked in their place.
    fn facts_left_out(&self, var: VarId, nested: &Nested) -> BTreeSet<Name> {
        let mut bound = BTreeSet::new();
        if self.captures.values.contains(&var) {
            let params = nested.lambda.params.iter();
            params.for_each(|&param| lone(self.function.param_annotation(param), &mut bound));
        }
        bound.retain(|name| nested.dims.contains(name));
        bound
    }

    /// The declarations of a function's symbolic variables: those of its parameters in their order,
    /// then the others as they were declared.
    fn dims(&self, function: &Function, plain: &BTreeSet<Name>) -> Vec<DimVar> {
        let mut names: Vec<Name> = Vec::new();
        for &param in &function.lambda.params {
            function.param_annotation(param).visit_dims(&mut |dim| {
                dim.visit_vars(&mut |name| {
                    if !name.starts_with(OWN) && !names.contains(name) {
                        names.push(name.clone());
                    }
                });
            });
        }
        let declared = |name: &Name| self.function.dim(name).cloned();
        let signature = names.iter().filter_map(declared).map(|dim| {
            if plain.contains(&dim.name) {
                return DimVar { in_signature: true, ..DimVar::new(dim.name, dim.span) };
            }
            DimVar { in_signature: true, ..dim }
        });
        let others = self.function.dims.iter().filter(|dim| !names.contains(&dim.name));
        let others = others.map(|dim| DimVar { in_signature: false, ..dim.clone() });
        signature.chain(others).collect()
    }

    /// Within itself, a function that is used as a value is made anew.
    fn own_value(&self, var: VarId, body: &mut Body) {
        let mut used = BTreeSet::new();
        body.bindings()
            .for_each(|binding| relax_syntax::resolve::expr_uses(&binding.expr, &mut used));
        relax_syntax::resolve::atom_uses(&body.result, &mut used);
        if !used.contains(&var) {
            return;
        }
        let binding = Binding { var, expr: self.value(var) };
        match body.blocks.first_mut() {
            Some(Block { kind: BlockKind::Plain, bindings }) => bindings.insert(0, binding),
            _ => body.blocks.insert(0, Block { kind: BlockKind::Plain, bindings: vec![binding] }),
        }
    }

    /// A nested function as a value.
    fn value(&self, var: VarId) -> Expr {
        let function = Atom::Global(self.names[&var].clone());
        let captured = self.captured(var);
        if captured.is_empty() {
            return Expr::Atom(function);
        }
        Expr::Call {
            callee: Callee::Operator(Name::new("make_closure")),
            args: vec![function, Atom::Tuple(captured)],
            attrs: Vec::new(),
        }
    }

    fn body(&self, body: &mut Body) {
        for block in &mut body.blocks {
            block.bindings.retain(|binding| {
                !matches!(binding.expr, Expr::Closure(_))
                    || self.captures.values.contains(&binding.var)
            });
            block.bindings.iter_mut().for_each(|binding| self.binding(binding));
            block.bindings.iter_mut().for_each(|binding| self.signature(binding));
        }
        crate::blocks::tidy(body);
    }

    /// A name of such a function by which it is known to have a signature: a cast says so now. Calls
    /// by that name are held against it, as before.
    fn signature(&self, binding: &mut Binding) {
        let Some(annotation) = &self.function.var(binding.var).annotation else { return };
        let Expr::Atom(atom) = &binding.expr else { return };
        if mentions(atom, &self.captures.values) && has_signature(annotation) {
            binding.expr = Expr::MatchCast(atom.clone(), annotation.clone());
        }
    }

    fn binding(&self, binding: &mut Binding) {
        match &mut binding.expr {
            Expr::Closure(_) => binding.expr = self.value(binding.var),
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Call { callee, args, .. } => {
                if let Callee::Var(var) = callee
                    && let Some(name) = self.names.get(var)
                {
                    *args = self.arranged(*var, std::mem::take(args), self.captured(*var));
                    *callee = Callee::Global(name.clone());
                }
            }
            Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => {}
        }
    }
}

fn has_signature(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Callable(signature) => signature.is_some(),
        Annotation::Tuple(items) => items.iter().any(has_signature),
        _ => false,
    }
}

/// Signatures have variables of their own, which are not told apart here.
fn without_signatures(annotation: &Annotation) -> Annotation {
    match annotation {
        Annotation::Callable(_) => Annotation::Callable(None),
        Annotation::Tuple(items) => {
            Annotation::Tuple(items.iter().map(without_signatures).collect())
        }
        other => other.clone(),
    }
}
