//! The private function of a group of calls, and the call of it. Symbolic shapes stay as they are: the function
//! has the variables of the one that it comes from, bound by its parameters; those that no parameter
//! has alone as a dim come in one more parameter, a shape (paper, Figure 8).

use crate::dims::{expr_dims, lone, signature_dims};
use crate::programs::canonical::canonical_function;
use crate::tir_call::TirCall;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, Expr, Function, Lambda, VarId,
    VarInfo, renumber,
};
use relax_syntax::resolve::expr_uses;
use std::collections::BTreeSet;

/// How the functions of some pass are called and marked.
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) marks: Vec<(Name, AttrValue)>,
    /// Parameters that come before all others.
    pub(crate) first: Vec<VarId>,
}

pub(crate) struct Outline<'f> {
    /// What the groups are in.
    function: &'f Function,
    annotations: &'f [Annotation],
    made: &'f mut Made,
    /// Those of this function.
    pub(crate) functions: Vec<Function>,
}

/// What is made for a whole module.
pub(crate) struct Made {
    /// Names of definitions.
    taken: BTreeSet<Name>,
    /// The functions of groups, up to names, and what they are called: groups that differ only in names
    /// share one.
    known: Vec<(Function, Name)>,
}

impl Made {
    pub(crate) fn new(taken: BTreeSet<Name>) -> Self {
        Self { taken, known: Vec::new() }
    }
}

impl<'f> Outline<'f> {
    pub(crate) fn new(
        function: &'f Function,
        annotations: &'f [Annotation],
        made: &'f mut Made,
    ) -> Self {
        Self { function, annotations, made, functions: Vec::new() }
    }

    /// Makes the function of a group, and gives the call of it in the place of its last member.
    pub(crate) fn group(&mut self, label: Label, members: Vec<Binding>) -> Binding {
        let last = members.last().expect("invariant: a group has two calls");
        let result = last.var;
        let declared = TirCall::of(&last.expr).map(|call| call.out.clone());
        let inputs = inputs(&members, &label.first);
        let extra = self.unbound(&inputs, &members);

        // What was deduced with the facts of the function around is deduced anew without them.
        let around = self.function.vars.iter();
        let mut vars: Vec<VarInfo> = around.map(without_annotation).collect();
        for &input in &inputs {
            vars[input.0 as usize].annotation = Some(self.annotation(input).clone());
        }
        let mut args: Vec<Atom> = inputs.iter().map(|&var| Atom::Var(var)).collect();
        let mut params = inputs;
        if !extra.is_empty() {
            let dims: Vec<Dim> = extra.into_iter().map(Dim::Var).collect();
            args.push(Atom::Shape(dims.clone()));
            params.push(VarId(u32::try_from(vars.len()).expect("ids are u32")));
            vars.push(self.shape_parameter(dims));
        }
        let annotations = params.iter().filter_map(|&var| vars[var.0 as usize].annotation.as_ref());
        let dims = signature_dims(self.function, annotations);
        let block =
            Block { kind: BlockKind::Dataflow { outputs: vec![result] }, bindings: members };
        let body = Body { blocks: vec![block], result: Atom::Var(result) };
        let lambda =
            Lambda { params, result: declared, attrs: marked(label.marks), body: Some(body) };
        let span = self.function.var(result).span;
        let mut function = Function { name: Name::new(label.name), span, lambda, vars, dims };
        // The table of the function around is far longer than what the group needs of it.
        renumber(&mut function);
        let name = self.shared(function);
        let expr = Expr::Call { callee: Callee::Global(name), args, attrs: Vec::new() };
        Binding { var: result, expr }
    }

    fn annotation(&self, var: VarId) -> &'f Annotation {
        &self.annotations[var.0 as usize]
    }

    /// The symbolic variables of a group that none of its inputs binds, in the order of their
    /// declarations.
    fn unbound(&self, inputs: &[VarId], members: &[Binding]) -> Vec<Name> {
        let (mut bound, mut needed) = (BTreeSet::new(), BTreeSet::new());
        let mut mention = |dim: &Dim| {
            dim.visit_vars(&mut |name| {
                needed.insert(name.clone());
            });
        };
        for &input in inputs {
            lone(self.annotation(input), &mut bound);
            self.annotation(input).visit_dims(&mut |dim| mention(dim));
        }
        members.iter().for_each(|member| expr_dims(&member.expr, &mut mention));
        let declared = self.function.dims.iter().map(|dim| &dim.name);
        declared.filter(|name| needed.contains(*name) && !bound.contains(*name)).cloned().collect()
    }

    fn shape_parameter(&self, dims: Vec<Dim>) -> VarInfo {
        let candidates =
            std::iter::once("s".to_owned()).chain((1_u32..).map(|number| format!("s_{number}")));
        let name = candidates.map(Name::new).find(|name| self.is_free(name));
        VarInfo {
            name: name.expect("invariant: there are more names than are taken"),
            annotation: Some(Annotation::Shape(Extents::Known(dims))),
            span: self.function.span,
        }
    }

    /// The name of a function like this one, which is made if there is none yet.
    fn shared(&mut self, mut function: Function) -> Name {
        let mut form = canonical_function(&function);
        form.lambda.attrs.clone_from(&function.lambda.attrs);
        if let Some((_, name)) = self.made.known.iter().find(|(known, _)| *known == form) {
            return name.clone();
        }
        let base = function.name.clone();
        let numbered = (1_u32..).map(|number| Name::new(format!("{base}_{number}")));
        let mut free = std::iter::once(base.clone()).chain(numbered);
        let name = free.find(|name| self.is_free(name));
        let name = name.expect("invariant: there are more names than are taken");
        self.made.taken.insert(name.clone());
        self.made.known.push((form, name.clone()));
        function.name = name.clone();
        self.functions.push(function);
        name
    }

    /// Whether nothing that the function or the module sees has this name.
    fn is_free(&self, name: &Name) -> bool {
        !self.made.taken.contains(name)
            && lookup(name).is_none()
            && self.function.dim(name).is_none()
            && self.function.vars.iter().all(|info| info.name != *name)
    }
}

fn without_annotation(info: &VarInfo) -> VarInfo {
    VarInfo { name: info.name.clone(), annotation: None, span: info.span }
}

fn marked(mut marks: Vec<(Name, AttrValue)>) -> Vec<(Name, AttrValue)> {
    marks.push((Name::new("private"), AttrValue::Bool(true)));
    marks
}

/// What a group uses that it does not bind: `first`, then in the order of the function around, its
/// parameters before all others.
fn inputs(members: &[Binding], first: &[VarId]) -> Vec<VarId> {
    let mut used = BTreeSet::new();
    members.iter().for_each(|member| expr_uses(&member.expr, &mut used));
    members.iter().for_each(|member| _ = used.remove(&member.var));
    let mut inputs: Vec<VarId> = Vec::new();
    for &var in first.iter().chain(&used) {
        if used.contains(&var) && !inputs.contains(&var) {
            inputs.push(var);
        }
    }
    inputs
}
