//! The private function of a group of calls, and the call of it. Symbolic shapes stay as they are: the function
//! has the variables of the one that it comes from, bound by its parameters; those that no parameter
//! has alone as a dim come in one more parameter, a shape (paper, Figure 8).

use crate::canonical::canonical_function;
use crate::dims::{expr_dims, lone, signature_dims};
use crate::tir_call::TirCall;
use relax_semantics::check::Checked;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, Definition, Expr, Function, Lambda,
    Module, VarId, VarInfo, rename_body,
};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// How the functions of some pass are called and marked.
pub struct Label {
    /// What a function is called, or that with a number.
    pub name: String,
    /// Its attributes; it is private as well.
    pub marks: Vec<(Name, AttrValue)>,
    /// Parameters that come before all others.
    pub first: Vec<VarId>,
}

/// Makes functions of parts of one.
pub struct Outline<'f> {
    /// What the groups are in.
    function: &'f Function,
    annotations: &'f [Annotation],
    /// Names that it gives to variables and dims.
    names: BTreeSet<&'f Name>,
    made: &'f mut Made,
    /// Those of this function.
    pub functions: Vec<Function>,
}

/// What is made for a whole module.
struct Made {
    /// Names of definitions.
    taken: BTreeSet<Name>,
    /// The next number to try for a name.
    numbers: BTreeMap<Name, u32>,
    /// The functions of groups, up to names, and what they are called: groups that differ only in names
    /// share one. By what they call, which tells most of them apart.
    known: BTreeMap<Vec<Name>, Vec<(Function, Name)>>,
}

impl Made {
    fn of(module: &Module) -> Self {
        let taken = module.definitions.iter().map(|definition| definition.name().clone()).collect();
        Self { taken, numbers: BTreeMap::new(), known: BTreeMap::new() }
    }
}

/// The module with each graph function rebuilt, the functions that were made of its groups behind it; and
/// how many those are.
#[must_use]
pub fn outlined(
    module: &Module,
    checked: &Checked,
    rebuild: &mut dyn FnMut(&Function, &mut Function, &mut Outline),
) -> (Module, usize) {
    let mut made = Made::of(module);
    let mut definitions = Vec::with_capacity(module.definitions.len());
    for definition in &module.definitions {
        let Definition::Graph(function) = definition else {
            definitions.push(definition.clone());
            continue;
        };
        let annotations = &checked.annotations[&function.name];
        let mut outline = Outline::new(function, annotations, &mut made);
        let mut rebuilt = function.clone();
        rebuild(function, &mut rebuilt, &mut outline);
        definitions.push(Definition::Graph(rebuilt));
        definitions.extend(outline.functions.into_iter().map(Definition::Graph));
    }
    let made = definitions.len() - module.definitions.len();
    (Module { attrs: module.attrs.clone(), definitions }, made)
}

impl<'f> Outline<'f> {
    fn new(function: &'f Function, annotations: &'f [Annotation], made: &'f mut Made) -> Self {
        let vars = function.vars.iter().map(|info| &info.name);
        let names = vars.chain(function.dims.iter().map(|dim| &dim.name)).collect();
        Self { function, annotations, names, made, functions: Vec::new() }
    }

    /// Makes the function of a group, and gives the call of it in the place of its last member.
    pub(crate) fn group(&mut self, label: Label, members: Vec<Binding>) -> Binding {
        let last = members.last().expect("invariant: a group has two calls");
        let result = last.var;
        let declared = TirCall::of(&last.expr).map(|call| call.out.clone());
        let kind = BlockKind::Dataflow { outputs: vec![result] };
        let (mut function, args) = self.outlined(label, members, kind, Atom::Var(result));
        function.lambda.result = declared;
        let name = self.shared(function);
        let expr = Expr::Call { callee: Callee::Global(name), args, attrs: Vec::new() };
        Binding { var: result, expr }
    }

    /// Makes the function of a group that gives several values, which are in the order of its members. The call of it is bound to
    /// `tuple`, and each value is taken from there.
    pub(crate) fn group_of_several(
        &mut self,
        label: Label,
        members: Vec<Binding>,
        results: &[VarId],
        tuple: VarId,
    ) -> Vec<Binding> {
        let given = members.iter().filter(|member| results.contains(&member.var));
        let declared = given.map(|member| Some(TirCall::of(&member.expr)?.out.clone()));
        let declared = declared.collect::<Option<Vec<_>>>();
        let kind = BlockKind::Dataflow { outputs: results.to_vec() };
        let all = Atom::Tuple(results.iter().map(|&var| Atom::Var(var)).collect());
        let (mut function, args) = self.outlined(label, members, kind, all);
        function.lambda.result = declared.map(Annotation::Tuple);
        let callee = Callee::Global(self.shared(function));
        let call = Binding { var: tuple, expr: Expr::Call { callee, args, attrs: Vec::new() } };
        let gets = results.iter().enumerate().map(|(at, &var)| {
            let expr = Expr::Get(Atom::Var(tuple), at);
            Binding { var, expr }
        });
        std::iter::once(call).chain(gets).collect()
    }

    /// Makes the function of bindings that may have effects, which gives `result`: its name, and what
    /// it is to be called with. No other bindings share it.
    pub fn region(
        &mut self,
        label: Label,
        members: Vec<Binding>,
        result: Atom,
    ) -> (Name, Vec<Atom>) {
        let (mut function, args) = self.outlined(label, members, BlockKind::Plain, result);
        function.name = self.fresh(&function.name);
        let name = function.name.clone();
        self.functions.push(function);
        (name, args)
    }

    /// The function of some bindings, and what stands for its parameters around it.
    fn outlined(
        &self,
        label: Label,
        members: Vec<Binding>,
        kind: BlockKind,
        result: Atom,
    ) -> (Function, Vec<Atom>) {
        let inputs = inputs(&members, &label.first);
        let extra = self.unbound(&inputs, &members);
        let mut args: Vec<Atom> = inputs.iter().map(|&var| Atom::Var(var)).collect();
        let mut vars: Vec<VarInfo> = inputs.iter().map(|&var| self.parameter(var)).collect();
        if !extra.is_empty() {
            let dims: Vec<Dim> = extra.into_iter().map(Dim::Var).collect();
            args.push(Atom::Shape(dims.clone()));
            vars.push(self.shape_parameter(dims));
        }
        let annotations = vars.iter().filter_map(|info| info.annotation.as_ref());
        let dims = signature_dims(self.function, annotations);
        let params: Vec<VarId> = numbered(0, vars.len()).collect();
        // The table of the function around is far longer than what the group needs of it. Its members have
        // no bodies within, so that parameters and members are all that is bound.
        let own = inputs.iter().copied().zip(params.iter().copied());
        let bound = members.iter().map(|member| member.var);
        let renaming = own.chain(bound.zip(numbered(vars.len(), members.len()))).collect();
        let last = members.last().expect("invariant: a group has two calls");
        let span = self.function.var(last.var).span;
        vars.extend(members.iter().map(|member| without_annotation(self.function.var(member.var))));
        let mut body = Body { blocks: vec![Block { kind, bindings: members }], result };
        rename_body(&mut body, &renaming);
        let attrs = marked(label.marks);
        let lambda = Lambda { params, result: None, attrs, body: Some(body) };
        (Function { name: Name::new(label.name), span, lambda, vars, dims }, args)
    }

    /// A variable from around as a parameter.
    fn parameter(&self, var: VarId) -> VarInfo {
        let annotation = Some(self.annotation(var).clone());
        VarInfo { annotation, ..without_annotation(self.function.var(var)) }
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
        let called = called(&function);
        let alike = self.made.known.get(&called).into_iter().flatten();
        if let Some((_, name)) = alike.into_iter().find(|(known, _)| *known == form) {
            return name.clone();
        }
        let name = self.fresh(&function.name);
        self.made.known.entry(called).or_default().push((form, name.clone()));
        function.name = name.clone();
        self.functions.push(function);
        name
    }

    /// A name that nothing has: `base`, or that with a number.
    pub fn fresh(&mut self, base: &Name) -> Name {
        let first = self.made.numbers.get(base).copied().unwrap_or(0);
        let number = |number: u32| match number {
            0 => base.clone(),
            _ => Name::new(format!("{base}_{number}")),
        };
        let mut numbers = (first..).map(|at| (at, number(at)));
        let (at, name) = numbers
            .find(|(_, name)| self.is_free(name))
            .expect("invariant: there are more names than are taken");
        self.made.numbers.insert(base.clone(), at + 1);
        self.made.taken.insert(name.clone());
        name
    }

    /// Whether nothing that the function or the module sees has this name.
    fn is_free(&self, name: &Name) -> bool {
        !self.made.taken.contains(name) && lookup(name).is_none() && !self.names.contains(name)
    }
}

/// What a function calls, in the order of its text.
fn called(function: &Function) -> Vec<Name> {
    let bindings = function.lambda.body.iter().flat_map(Body::bindings);
    let names = bindings.filter_map(|binding| match (&binding.expr, TirCall::of(&binding.expr)) {
        (_, Some(call)) => Some(call.program.clone()),
        (Expr::Call { callee: Callee::Operator(name) | Callee::Global(name), .. }, None) => {
            Some(name.clone())
        }
        _ => None,
    });
    names.collect()
}

/// So many variables, from one on.
fn numbered(from: usize, count: usize) -> impl Iterator<Item = VarId> {
    let id = |at: usize| VarId(u32::try_from(at).expect("invariant: ids are u32"));
    (from..from + count).map(id)
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
