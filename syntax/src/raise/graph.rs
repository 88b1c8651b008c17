//! Graph functions as `def` statements.

use super::annotation::annotation_expr;
use super::expr::{atom_expr, value_expr};
use super::{
    Site, argument, assign, attr_lines, call, expr, identifier, name, statement, sym_var_line,
};
use crate::Name;
use crate::ast::{Def, ExprKind, Parameter, Statement, StatementKind};
use crate::ir::{Atom, Binding, Block, BlockKind, Body, DimVar, Expr, Function, Lambda, VarId};
use crate::span::Span;
use std::collections::BTreeSet;

/// The `def` of a function.
pub(super) fn raise_function(function: &Function) -> Statement {
    let raiser = Raiser { function };
    // Variables of the body are declared here, those of nested signatures where they are bound.
    let own = dims_of_params(function, &function.lambda);
    let declared =
        |dim: &&DimVar| !dim.in_signature || (dim.has_facts() && own.contains(&dim.name));
    let dims = function.dims.iter().filter(declared).map(sym_var_line).collect();
    statement(StatementKind::Def(Box::new(raiser.def(&function.name, &function.lambda, dims))))
}

fn dims_of_params(function: &Function, lambda: &Lambda) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for &param in &lambda.params {
        if let Some(annotation) = &function.var(param).annotation {
            annotation.visit_dims(&mut |dim| {
                dim.visit_vars(&mut |name| {
                    names.insert(name.clone());
                })
            });
        }
    }
    names
}

struct Raiser<'a> {
    function: &'a Function,
}

impl Raiser<'_> {
    fn def(&self, name: &Name, lambda: &Lambda, dims: Vec<Statement>) -> Def {
        let parameters = lambda.params.iter().map(|&param| {
            let info = self.function.var(param);
            let annotation = info.annotation.as_ref();
            Parameter {
                name: identifier(&info.name),
                annotation: annotation.map(|known| annotation_expr(known, Site::Signature)),
            }
        });
        let mut body = dims;
        body.extend(attr_lines("func_attr", &lambda.attrs));
        match &lambda.body {
            Some(block) => {
                self.body(block, &mut body);
                let result = atom_expr(&block.result, self.function);
                body.push(statement(StatementKind::Return(result)));
            }
            None => body.push(statement(StatementKind::Expr(expr(ExprKind::Ellipsis)))),
        }
        Def {
            decorators: Vec::new(),
            name: identifier(name),
            parameters: parameters.collect(),
            returns: lambda.result.as_ref().map(|known| annotation_expr(known, Site::Signature)),
            body,
            header: Span::default(),
        }
    }

    fn body(&self, body: &Body, out: &mut Vec<Statement>) {
        for block in &body.blocks {
            self.block(block, out);
        }
    }

    fn block(&self, block: &Block, out: &mut Vec<Statement>) {
        let mut statements = Vec::new();
        for binding in &block.bindings {
            self.binding(binding, &mut statements);
        }
        let BlockKind::Dataflow { outputs } = &block.kind else {
            out.extend(statements);
            return;
        };
        let outputs = outputs.iter().map(|&var| argument(name(self.name(var)))).collect();
        statements.push(statement(StatementKind::Expr(call("output", outputs))));
        out.push(statement(StatementKind::With {
            context: call("dataflow", Vec::new()),
            body: statements,
        }));
    }

    fn name(&self, var: VarId) -> &Name {
        &self.function.var(var).name
    }

    fn binding(&self, binding: &Binding, out: &mut Vec<Statement>) {
        let info = self.function.var(binding.var);
        match &binding.expr {
            Expr::If { condition, then, otherwise } => out.push(statement(StatementKind::If {
                condition: atom_expr(condition, self.function),
                then: self.branch(then, binding.var),
                otherwise: self.branch(otherwise, binding.var),
                else_span: None,
            })),
            Expr::Closure(lambda) => {
                let def = self.def(&info.name, lambda, self.nested_facts(lambda));
                out.push(statement(StatementKind::Def(Box::new(def))));
            }
            value => {
                let Some(value) = value_expr(value, self.function) else { return };
                out.push(if info.name == "_" {
                    statement(StatementKind::Expr(value))
                } else {
                    let annotation = info.annotation.as_ref();
                    let annotation = annotation.map(|known| annotation_expr(known, Site::Body));
                    assign(name(&info.name), annotation, value)
                });
            }
        }
    }

    /// Facts on variables that the signature of a closure binds.
    fn nested_facts(&self, lambda: &Lambda) -> Vec<Statement> {
        let outer = dims_of_params(self.function, &self.function.lambda);
        let own = dims_of_params(self.function, lambda);
        let bound_here = |dim: &&DimVar| {
            dim.in_signature
                && dim.has_facts()
                && own.contains(&dim.name)
                && !outer.contains(&dim.name)
        };
        self.function.dims.iter().filter(bound_here).map(sym_var_line).collect()
    }

    /// A branch binds the variable of its `if`, unless its result has that name already.
    fn branch(&self, body: &Body, var: VarId) -> Vec<Statement> {
        let mut statements = Vec::new();
        self.body(body, &mut statements);
        let target = self.name(var);
        let is_target = matches!(&body.result, Atom::Var(result) if self.name(*result) == target);
        if target != "_" && !is_target {
            let result = atom_expr(&body.result, self.function);
            statements.push(assign(name(target), None, result));
        }
        if statements.is_empty() {
            statements.push(statement(StatementKind::Pass));
        }
        statements
    }
}
