//! Tensors that functions of the module give: whoever called for them releases them after their last
//! use, with the storages that their functions had to leave behind. So it does with what library functions
//! and operators without a program give.

use crate::memory::aliases::{Aliases, Returns, keeps};
use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::{Operator, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// A variable that names such a tensor alone, and the position after which it is not used any more.
pub(super) type Given = (VarId, Position);

/// Those of a function, in the order of their calls. Left out is what may be, or be a part of, anything else: a
/// parameter, a result, what two branches or two calls may give.
pub(super) fn given(
    module: &Module,
    function: &Function,
    annotations: &[Annotation],
    timeline: &Timeline,
    aliases: &Aliases,
    returns: &Returns,
) -> Vec<Given> {
    let body = function.lambda.body.as_ref().expect("invariant: it has a timeline");
    let mut found = Found {
        module,
        aliases,
        returns,
        calls: Vec::new(),
        fields: BTreeMap::new(),
        others: BTreeSet::new(),
    };
    function.lambda.params.iter().for_each(|&param| found.other(param));
    found.body(body);
    found.others.extend(aliases.roots(&body.result));
    let last_uses = aliases.last_uses(timeline);
    let mut calls_of: BTreeMap<VarId, usize> = BTreeMap::new();
    for &call in &found.calls {
        *calls_of.entry(aliases.root(call)).or_default() += 1;
    }
    let mut given = Vec::new();
    for &call in &found.calls {
        let root = aliases.root(call);
        if calls_of[&root] > 1 || found.others.contains(&root) {
            continue;
        }
        for var in found.tensors(call, annotations) {
            let last = last_uses[&root].max(timeline.bound(call));
            let scope = timeline.scope(timeline.bound(var));
            given.extend(timeline.seen_from(last, scope).map(|last| (var, last)));
        }
    }
    given
}

/// Whether it is a library function, or an operator without a program: what it gives is memory of its own.
fn gives_new(name: &Name, args: &[Atom]) -> bool {
    let allocates =
        |row: &Operator| matches!(row.name, "memory.alloc_storage" | "memory.alloc_tensor");
    lookup(name).is_some_and(|row| !allocates(row)) && !keeps(name, args)
}

/// The positions of the calls of functions, which have memory of their own.
pub(super) fn calls(module: &Module, function: &Function, timeline: &Timeline) -> Vec<Position> {
    fn of_body(body: &Body, module: &Module, timeline: &Timeline, calls: &mut Vec<Position>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::Call { callee: Callee::Global(name), .. }
                    if module.tensor_program(name).is_some() => {}
                Expr::Call { callee: Callee::Global(_) | Callee::Var(_), .. } => {
                    calls.push(timeline.bound(binding.var));
                }
                Expr::If { then, otherwise, .. } => {
                    of_body(then, module, timeline, calls);
                    of_body(otherwise, module, timeline, calls);
                }
                _ => {}
            }
        }
    }
    let mut calls = Vec::new();
    function.lambda.body.iter().for_each(|body| of_body(body, module, timeline, &mut calls));
    calls
}

struct Found<'a> {
    module: &'a Module,
    aliases: &'a Aliases,
    returns: &'a Returns,
    /// Calls of functions that give tensors apart from one another.
    calls: Vec<VarId>,
    /// For each variable its fields that have a name: the first name of each.
    fields: BTreeMap<VarId, BTreeMap<usize, VarId>>,
    /// Classes with something else in them.
    others: BTreeSet<VarId>,
}

impl Found<'_> {
    fn other(&mut self, var: VarId) {
        self.others.insert(self.aliases.root(var));
    }

    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            let var = binding.var;
            match &binding.expr {
                Expr::Get(Atom::Var(of), index) => {
                    self.fields.entry(*of).or_default().entry(*index).or_insert(var);
                }
                Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => {}
                Expr::Call { callee: Callee::Operator(name), .. } if name == "memory.view" => {}
                Expr::Call { callee: Callee::Operator(name), args, .. }
                    if gives_new(name, args) =>
                {
                    self.calls.push(var);
                }
                Expr::Call { callee: Callee::Global(name), .. } => match self.module.function(name)
                {
                    Some(called) if self.returns.gives_apart(called) => self.calls.push(var),
                    Some(_) => self.other(var),
                    None => {}
                },
                Expr::If { then, otherwise, .. } => {
                    self.other(var);
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Call { .. } | Expr::Closure(_) => self.other(var),
            }
        }
    }

    /// The names of the tensors that a call gives.
    fn tensors(&self, call: VarId, annotations: &[Annotation]) -> Vec<VarId> {
        match &annotations[call.0 as usize] {
            Annotation::Tensor(_) => vec![call],
            Annotation::Tuple(items) => {
                let fields = self.fields.get(&call).into_iter().flatten();
                let tensors = fields
                    .filter(|(index, _)| matches!(items.get(**index), Some(Annotation::Tensor(_))));
                tensors.map(|(_, &field)| field).collect()
            }
            _ => Vec::new(),
        }
    }
}
