//! The functions that the pass makes: that of the loss and its gradients, and pullbacks of called functions.

use super::cotangent::{Cotangent, leaves, sum_or_zeros};
use super::reverse::Reverse;
use super::{ADJOINT, Seed, adjoint_name, refused};
use crate::adjoints::tape::{Tape, over};
use crate::blocks::{export_used, tidy};
use crate::dims::assume_declared;
use crate::names::{Defined, Names};
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, DONATED, Expr, Function, Module, OUTPUT_NAME, VarId,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A part of a value that is a float tensor.
type Leaf = (Vec<usize>, Annotation);

/// Of a function: takes its arguments and a cotangent for each float tensor of its result, and gives a tuple
/// of cotangents of the arguments.
#[derive(Clone)]
pub(super) struct Pullback {
    pub(super) name: Name,
    of: Name,
    active: Vec<bool>,
    /// The float tensors of the result.
    pub(super) results: Vec<Leaf>,
    /// Those of the active arguments, each with its place.
    pub(super) arguments: Vec<(usize, Leaf)>,
}

/// Pullbacks that were asked for.
pub(super) struct Pending<'m> {
    pub(super) module: &'m Module,
    pub(super) checked: &'m Checked,
    pub(super) names: Names,
    pub(super) pullbacks: Vec<Pullback>,
}

impl Pending<'_> {
    /// That of a function, by which of its arguments are active.
    pub(super) fn pullback(
        &mut self,
        name: &Name,
        active: &[bool],
        span: Span,
    ) -> Result<Pullback, Diagnostic> {
        let mut known = self.pullbacks.iter();
        if let Some(known) = known.find(|own| own.of == *name && own.active == active) {
            return Ok(known.clone());
        }
        let function = self.module.function(name).filter(|function| function.lambda.body.is_some());
        let Some(function) = function else {
            return Err(refused(span, format!("`{name}` is called, whose body is not known")));
        };
        if self.checked.impure.contains(name) {
            return Err(refused(span, format!("`{name}` is called, which has an effect")));
        }
        let of_signature =
            |own: &Name| function.dims.iter().any(|dim| dim.in_signature && dim.name == *own);
        let unknown =
            |what: &str| refused(span, format!("what the {what} of `{name}` holds is not known"));
        let result = over(&self.checked.results[name], &of_signature);
        let results = leaves(&result).ok_or_else(|| unknown("result"))?;
        let mut arguments = Vec::new();
        for (at, &param) in function.lambda.params.iter().enumerate() {
            if active[at] {
                let own = leaves(function.param_annotation(param));
                let own = own.ok_or_else(|| unknown("arguments"))?;
                arguments.extend(own.into_iter().map(|leaf| (at, leaf)));
            }
        }
        let (of, active) = (name.clone(), active.to_vec());
        let name = self.names.fresh(&format!("{name}_pullback"));
        let made = Pullback { name, of, active, results, arguments };
        self.pullbacks.push(made.clone());
        Ok(made)
    }
}

pub(super) struct Gradients<'a, 'm> {
    pub(super) pending: Pending<'m>,
    pub(super) facts: &'a mut dyn Facts,
    pub(super) made: Vec<Function>,
}

impl Gradients<'_, '_> {
    /// The function of the loss, and every pullback that it needs.
    pub(super) fn main(
        &mut self,
        function: &Function,
        wrt: &[VarId],
        seed: &Seed,
    ) -> Result<(), Diagnostic> {
        let (name, adjoint) = (&function.name, adjoint_name(&function.name));
        if self.pending.module.definitions.iter().any(|own| *own.name() == adjoint) {
            let message = format!("the module has an `{adjoint}` already");
            return Err(refused(function.span, message));
        }
        if self.pending.checked.impure.contains(name) {
            let message = format!("`{name}` has an effect, which its adjoint would repeat");
            return Err(refused(function.span, message));
        }
        let result = self.pending.checked.results[name].clone();
        let (path, dtype) = loss(&result).ok_or_else(|| {
            let message = format!(
                "`{name}` gives `{result}`, and a loss is a float tensor of rank 0, alone or as the first field"
            );
            refused(function.span, message).with_help("reduce it: `sum(y)`, `mean(y)`")
        })?;
        let seeds = |tape: &mut Tape, made: &mut Function| {
            let mut given = Cotangent::default();
            let cotangent = match seed {
                Seed::One => Tape::number(1.0, dtype),
                Seed::Parameter(name) => {
                    let annotation = Annotation::tensor(Vec::new(), dtype);
                    Atom::Var(parameter(tape, made, name.as_str(), annotation))
                }
            };
            given.add(&path, cotangent);
            given
        };
        let wanted: Vec<(VarId, Leaf)> = wrt
            .iter()
            .map(|&param| (param, (Vec::new(), function.param_annotation(param).clone())))
            .collect();
        let (mut made, given) = self.differentiated(function, wrt, &wanted, seeds)?;
        made.name = adjoint;
        let lambda = &mut made.lambda;
        lambda.attrs.retain(|(key, _)| !key.starts_with(OUTPUT_NAME) && key != DONATED);
        lambda.attrs.push((Name::new(ADJOINT), AttrValue::Bool(true)));
        let body = lambda.body.as_mut().expect("invariant: only such are differentiated");
        body.result = Atom::Tuple(vec![body.result.clone(), Atom::Tuple(given)]);
        let grads = wanted.into_iter().map(|(_, (_, annotation))| annotation).collect();
        lambda.result = Some(Annotation::Tuple(vec![result, Annotation::Tuple(grads)]));
        self.made.push(made);
        let mut next = 0;
        while let Some(pullback) = self.pending.pullbacks.get(next).cloned() {
            self.pullback(&pullback)?;
            next += 1;
        }
        Ok(())
    }

    fn pullback(&mut self, pullback: &Pullback) -> Result<(), Diagnostic> {
        let function = self.pending.module.function(&pullback.of).expect("invariant: it was found");
        let params = &function.lambda.params;
        let active: Vec<VarId> = params
            .iter()
            .zip(&pullback.active)
            .filter_map(|(&param, &active)| active.then_some(param))
            .collect();
        let wanted: Vec<(VarId, Leaf)> =
            pullback.arguments.iter().map(|(at, leaf)| (params[*at], leaf.clone())).collect();
        let seeds = |tape: &mut Tape, made: &mut Function| {
            let mut seed = Cotangent::default();
            for (path, annotation) in &pullback.results {
                let var = parameter(tape, made, "d_result", annotation.clone());
                seed.add(path, Atom::Var(var));
            }
            seed
        };
        let (mut made, given) = self.differentiated(function, &active, &wanted, seeds)?;
        made.name = pullback.name.clone();
        let attrs = ["private", ADJOINT].map(|key| (Name::new(key), AttrValue::Bool(true)));
        made.lambda.attrs = attrs.into();
        let body = made.lambda.body.as_mut().expect("invariant: only such are differentiated");
        body.result = Atom::Tuple(given);
        let fields = wanted.into_iter().map(|(_, (_, annotation))| annotation).collect();
        made.lambda.result = Some(Annotation::Tuple(fields));
        self.made.push(made);
        Ok(())
    }

    /// The function with its adjoint after it, and the cotangents of the wanted parts of its parameters.
    fn differentiated(
        &mut self,
        function: &Function,
        active: &[VarId],
        wanted: &[(VarId, Leaf)],
        seeds: impl FnOnce(&mut Tape, &mut Function) -> Cotangent,
    ) -> Result<(Function, Vec<Atom>), Diagnostic> {
        self.facts.push();
        assume_declared(self.facts, &function.dims);
        let made = self.walked(function, active, wanted, seeds);
        self.facts.pop();
        made
    }

    fn walked(
        &mut self,
        function: &Function,
        active: &[VarId],
        wanted: &[(VarId, Leaf)],
        seeds: impl FnOnce(&mut Tape, &mut Function) -> Cotangent,
    ) -> Result<(Function, Vec<Atom>), Diagnostic> {
        let mut made = function.clone();
        let mut body = made.lambda.body.take().expect("invariant: only such are differentiated");
        let tape = Tape {
            vars: std::mem::take(&mut made.vars),
            types: self.pending.checked.annotations[&function.name].clone(),
            names: Defined::of(self.pending.module).seen_from(function),
            facts: self.facts,
            bindings: Vec::new(),
            span: function.span,
        };
        let active: BTreeSet<VarId> = active.iter().copied().collect();
        let mut reverse =
            Reverse { tape, active, cotangents: BTreeMap::new(), pending: &mut self.pending };
        let seed = seeds(&mut reverse.tape, &mut made);
        reverse.mark(&body);
        reverse.add(&body.result, &[], &seed);
        reverse.body(&body)?;
        let refuse = |why| refused(function.span, why);
        let mut given = Vec::new();
        for (param, (path, _)) in wanted {
            let Reverse { tape, cotangents, .. } = &mut reverse;
            let own = sum_or_zeros(tape, cotangents.get(param), &Atom::Var(*param), path);
            given.push(own.map_err(refuse)?);
        }
        let Tape { vars, bindings, .. } = reverse.tape;
        made.vars = vars;
        body.blocks.extend(blocks(bindings));
        tidy(&mut body);
        // The result is put in its place by the caller; what it uses is seen after the blocks already.
        let result = std::mem::replace(&mut body.result, Atom::Tuple(given.clone()));
        body.result = Atom::Tuple(vec![result.clone(), body.result]);
        export_used(&mut body);
        body.result = result;
        made.lambda.body = Some(body);
        Ok((made, given))
    }
}

/// A further, last parameter.
fn parameter(tape: &mut Tape, made: &mut Function, name: &str, annotation: Annotation) -> VarId {
    let var = tape.variable(name, annotation.clone());
    tape.vars[var.0 as usize].annotation = Some(annotation);
    made.lambda.params.push(var);
    var
}

/// The backward bindings in dataflow blocks, but for the `if`s.
pub(super) fn blocks(bindings: Vec<Binding>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for binding in bindings {
        let kind = match binding.expr {
            Expr::If { .. } => BlockKind::Plain,
            _ => BlockKind::Dataflow { outputs: Vec::new() },
        };
        match blocks.last_mut() {
            Some(last) if last.kind == kind => last.bindings.push(binding),
            _ => blocks.push(Block { kind, bindings: vec![binding] }),
        }
    }
    blocks
}

/// Where the loss is in a result, and its dtype.
fn loss(result: &Annotation) -> Option<(Vec<usize>, DType)> {
    match result {
        Annotation::Tuple(fields) => {
            let (mut path, dtype) = loss(fields.first()?)?;
            path.insert(0, 0);
            Some((path, dtype))
        }
        Annotation::Tensor(tensor) if tensor.extents.rank() == Some(0) => {
            tensor.dtype.filter(|dtype| dtype.is_float()).map(|dtype| (Vec::new(), dtype))
        }
        _ => None,
    }
}
