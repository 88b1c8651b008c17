//! The function of a group of calls, and the call of it. Symbolic shapes stay as they are: the function
//! has the variables of the one that it comes from, bound by its parameters; those that no parameter
//! has alone as a dim come in one more parameter, a shape (paper, Figure 8).

use crate::dims::{expr_dims, lone, signature_dims};
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

/// Programs that the name of a function tells.
const NAMED: usize = 4;

/// The name of the function of a group of calls.
pub(super) fn name_of_group(members: &[Binding]) -> String {
    let programs = members.iter().filter_map(|member| TirCall::of(&member.expr));
    let names: Vec<&str> = programs.take(NAMED).map(|call| call.program.as_str()).collect();
    format!("fused_{}", names.join("_"))
}

pub(in crate::passes) struct Outline<'f> {
    /// What the groups are in.
    function: &'f Function,
    annotations: &'f [Annotation],
    /// Names of definitions.
    taken: &'f mut BTreeSet<Name>,
    /// Those made so far.
    pub(in crate::passes) functions: Vec<Function>,
}

impl<'f> Outline<'f> {
    pub(in crate::passes) fn new(
        function: &'f Function,
        annotations: &'f [Annotation],
        taken: &'f mut BTreeSet<Name>,
    ) -> Self {
        Self { function, annotations, taken, functions: Vec::new() }
    }

    /// Makes the function of a group, of a name like `wanted` and with these marks, and gives the call of it in the
    /// place of its last member.
    pub(in crate::passes) fn group(
        &mut self,
        members: Vec<Binding>,
        wanted: &str,
        marks: &[&str],
    ) -> Binding {
        let name = self.fresh_name(wanted);
        let last = members.last().expect("invariant: a group has two calls");
        let result = last.var;
        let declared = TirCall::of(&last.expr).map(|call| call.out.clone());
        let inputs = inputs(&members);
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
        let lambda = Lambda { params, result: declared, attrs: attrs(marks), body: Some(body) };
        let span = self.function.var(result).span;
        let mut function = Function { name: name.clone(), span, lambda, vars, dims };
        // The table of the function around is far longer than what the group needs of it.
        renumber(&mut function);
        self.functions.push(function);
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

    fn fresh_name(&mut self, wanted: &str) -> Name {
        let numbered = (1_u32..).map(|number| format!("{wanted}_{number}"));
        let candidates = std::iter::once(wanted.to_owned()).chain(numbered);
        let mut free = candidates.map(Name::new).filter(|name| self.is_free(name));
        let name = free.next().expect("invariant: there are more names than are taken");
        drop(free);
        self.taken.insert(name.clone());
        name
    }

    /// Whether nothing that the function or the module sees has this name.
    fn is_free(&self, name: &Name) -> bool {
        !self.taken.contains(name)
            && lookup(name).is_none()
            && self.function.dim(name).is_none()
            && self.function.vars.iter().all(|info| info.name != *name)
    }
}

fn without_annotation(info: &VarInfo) -> VarInfo {
    VarInfo { name: info.name.clone(), annotation: None, span: info.span }
}

fn attrs(marks: &[&str]) -> Vec<(Name, AttrValue)> {
    marks.iter().map(|key| (Name::new(*key), AttrValue::Bool(true))).collect()
}

/// What a group uses that it does not bind, in the order of the first use.
fn inputs(members: &[Binding]) -> Vec<VarId> {
    let own: BTreeSet<VarId> = members.iter().map(|member| member.var).collect();
    let mut found = Vec::new();
    for member in members {
        let mut used = BTreeSet::new();
        let args = TirCall::of(&member.expr).map_or(&[] as &[Atom], |call| call.args);
        let direct = args.iter().filter_map(|arg| match arg {
            Atom::Var(var) => Some(*var),
            _ => None,
        });
        let mut order: Vec<VarId> = direct.collect();
        expr_uses(&member.expr, &mut used);
        order.extend(used);
        for var in order {
            if !own.contains(&var) && !found.contains(&var) {
                found.push(var);
            }
        }
    }
    found
}
