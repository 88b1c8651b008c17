//! The annotated program: the function with its layouts written out. It means what the function means on one device.

use crate::branches::BRANCH;
use crate::layout::{Layout, text};
use crate::plan::completed;
use crate::program::{laid, visit_bindings};
use crate::propagate::{Branch, Plan, Step};
use crate::rewritten::{Names, body, bound, branch, rewritten};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Function, Module, VarId, VarInfo,
};
use std::collections::BTreeSet;

/// The module with `annotate_sharding` behind each call of a function that is sharded, and each `redistribute`.
///
/// # Panics
/// Where the plan is of another function.
#[must_use]
pub fn annotated(module: &Module, function: &Function, plan: &Plan) -> Module {
    let mut module = module.clone();
    for definition in &mut module.definitions {
        if let Definition::Graph(own) = definition
            && own.name == function.name
        {
            *own = written(function, plan);
        }
    }
    module
}

fn written(function: &Function, plan: &Plan) -> Function {
    let mut own = function.clone();
    let function = &completed(function, &plan.deduced);
    // Deduced annotations would only repeat what is deduced again.
    for (at, var) in own.vars.iter_mut().enumerate() {
        if !function.lambda.params.iter().any(|param| param.0 as usize == at) {
            var.annotation = None;
        }
    }
    rename_branches(function, &mut own);
    let mut writer = Writer {
        function,
        plan,
        own,
        bindings: Vec::new(),
        names: Names::new(),
        distributed: BTreeSet::new(),
    };
    for (param, layout) in function.lambda.params.iter().zip(&plan.params) {
        writer.names.insert((*param, layout.clone().unwrap_or_default()), *param);
    }
    plan.steps.iter().for_each(|step| writer.step(step));
    let Writer { mut own, bindings, names, .. } = writer;
    own.lambda.body = Some(body(function, &plan.results, &names, bindings));
    own
}

/// The operator whose result is a plain tensor.
const ANNOTATE: &str = "annotate_sharding";

/// Names that both branches of an `if` bind are values of it: what is bound in a branch alone has a name of its own.
fn rename_branches(function: &Function, own: &mut Function) {
    let top: BTreeSet<VarId> = function.lambda.params.iter().copied().collect();
    let bound = function.lambda.body.iter().flat_map(Body::bindings).map(|binding| binding.var);
    let top: BTreeSet<VarId> = top.into_iter().chain(bound).collect();
    let mut taken: BTreeSet<&Name> = top.iter().map(|var| &function.var(*var).name).collect();
    visit_bindings(function, &mut |binding| {
        let name = &function.var(binding.var).name;
        if !top.contains(&binding.var) && !taken.insert(name) {
            own.vars[binding.var.0 as usize].name = fresh(own, name);
        }
    });
}

/// A name that no variable has.
fn fresh(function: &Function, name: &Name) -> Name {
    let is_free = |name: &Name| function.vars.iter().all(|own| own.name != *name);
    let mut numbered = (1_u64..).map(|number| Name::from(format!("{name}_{number}")));
    numbered.find(is_free).expect("invariant: there are more numbers than variables")
}

struct Writer<'a> {
    function: &'a Function,
    plan: &'a Plan,
    own: Function,
    bindings: Vec<Binding>,
    names: Names,
    /// Variables that are distributed tensors to the checker.
    distributed: BTreeSet<VarId>,
}

impl Writer<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Bind { var, operands, layout } => {
                let expr = bound(self.function, *var);
                let expr =
                    rewritten(expr, (operands, layout), &self.names, &mut |_, atom| atom.clone());
                let is_call = matches!(expr, Expr::Call { .. });
                self.bindings.push(Binding { var: *var, expr });
                let annotation = self.function.var(*var).annotation.as_ref();
                let is_tensor = annotation.is_some_and(|own| own.as_tensor().is_some());
                let named = if is_call && is_tensor {
                    self.laid(ANNOTATE, *var, *var, layout)
                } else {
                    *var
                };
                self.names.insert((*var, layout.clone()), named);
            }
            Step::If { var, condition, layout, branches } => {
                self.branches((*var, *condition), layout, branches);
            }
            Step::Same { var, of, layout } => {
                let mut named = self.names[&(*of, layout.clone())];
                // The program asks for this layout, whether something is moved for it or not.
                if laid(bound(self.function, *var)).is_some() && !self.distributed.contains(&named)
                {
                    named = self.laid("redistribute", *of, named, layout);
                }
                self.names.insert((*var, layout.clone()), named);
            }
            Step::Move { var, from, movements, wanted_by, .. } => {
                let Some(last) = movements.last() else { return };
                let of = self.names[&(*var, from.clone())];
                // A plain result stays one: its layout is a wish.
                let returned = self.function.lambda.result.as_ref().or(self
                    .function
                    .var(*var)
                    .annotation
                    .as_ref());
                // A distributed one would keep the layout that it had before.
                let is_plain = wanted_by == "the result"
                    && !matches!(returned, Some(Annotation::DTensor(_)))
                    && !self.distributed.contains(&of);
                // As a distributed tensor a term would be refused by operators that are linear without being known to be.
                let is_term = last.after.iter().any(|own| matches!(own, Placement::Partial(_)));
                // What both branches give is of one kind.
                let is_of_branch = wanted_by == BRANCH;
                let is_wish = is_plain || is_term || is_of_branch;
                let operator = if is_wish { ANNOTATE } else { "redistribute" };
                let named = self.laid(operator, *var, of, &last.after);
                self.names.insert((*var, last.after.clone()), named);
            }
        }
    }

    fn branches(&mut self, (var, condition): (VarId, VarId), layout: &Layout, own: &[Branch; 2]) {
        let replicated = (condition, self.plan.axes.replicated());
        let condition = Atom::Var(self.names.get(&replicated).copied().unwrap_or(condition));
        let annotation = self.function.var(var).annotation.as_ref();
        let is_tuple = matches!(annotation, Some(Annotation::Tuple(_)));
        let [then, otherwise] = own.each_ref().map(|own| {
            let (outer, names) = (std::mem::take(&mut self.bindings), self.names.clone());
            own.steps.iter().for_each(|step| self.step(step));
            let bindings = std::mem::replace(&mut self.bindings, outer);
            let names = std::mem::replace(&mut self.names, names);
            branch(own, layout, is_tuple, &names, bindings)
        });
        self.bindings.push(Binding { var, expr: Expr::If { condition, then, otherwise } });
        let named = if is_tuple { var } else { self.laid(ANNOTATE, var, var, layout) };
        self.names.insert((var, layout.clone()), named);
    }

    fn laid(&mut self, operator: &str, var: VarId, of: VarId, layout: &Layout) -> VarId {
        let info = self.function.var(var);
        let name = fresh(&self.own, &info.name);
        let new = VarId(u32::try_from(self.own.vars.len()).unwrap_or(u32::MAX));
        self.own.vars.push(VarInfo { name, annotation: None, span: info.span });
        if operator == "redistribute" {
            self.distributed.insert(new);
        }
        let args = vec![
            Atom::Var(of),
            Atom::Str(self.plan.axes.mesh.clone()),
            Atom::Str(text(layout).into()),
        ];
        let expr =
            Expr::Call { callee: Callee::Operator(operator.into()), args, attrs: Vec::new() };
        self.bindings.push(Binding { var: new, expr });
        new
    }
}
