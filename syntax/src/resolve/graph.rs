//! Graph functions: statements to blocks of bindings.

use super::annotation::annotation_of_expr;
use super::codes;
use super::outputs::complete_outputs;
use super::scope::{Builder, FunctionScope, Globals};
use super::sym_var::{call_of, declare_all, is_sym_var, read_attr};
use crate::Name;
use crate::ast::{Def, Expr, ExprKind, Identifier, Statement, StatementKind};
use crate::diagnostic::{Applicability, Diagnostic, Fix, Part};
use crate::ir::{Atom, Attrs, BlockKind, Body, Expr as IrExpr, Function, Lambda, VarId, renumber};
use crate::span::Span;
use std::sync::Arc;

/// Resolves a graph function. `None` when its header is wrong.
pub(super) fn resolve_function(
    def: &Def,
    globals: &Globals,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Function> {
    let mut resolver =
        Resolver { scope: FunctionScope::new(def, globals), diagnostics, among_dims: false };
    let lambda = resolver.lambda(def)?;
    let scope = resolver.scope;
    let (name, dims) = (def.name.name.clone(), scope.dims.into_vars());
    let mut function = Function { name, span: def.header, lambda, vars: scope.vars, dims };
    if diagnostics.is_empty() {
        renumber(&mut function);
    }
    Some(function)
}

/// True for a body that is just `...`.
pub(super) fn is_external(body: &[Statement]) -> bool {
    matches!(
        body,
        [Statement { kind: StatementKind::Expr(Expr { kind: ExprKind::Ellipsis, .. }), .. }]
    )
}

/// The lines before the `...` of a function without a body, which declare variables and attributes; `None` for a body.
fn external(body: &[Statement]) -> Option<&[Statement]> {
    let (last, before) = body.split_last()?;
    let declares = |statement: &Statement| is_sym_var(statement) || is_attr(statement);
    (is_external(std::slice::from_ref(last)) && before.iter().all(declares)).then_some(before)
}

fn is_attr(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::Expr(expr) if call_of(expr, "func_attr").is_some())
}

pub(super) struct Resolver<'a> {
    pub(super) scope: FunctionScope<'a>,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
    /// Whether a tuple or list is read that has extents in it.
    pub(super) among_dims: bool,
}

impl Resolver<'_> {
    pub(super) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// The value, or a diagnostic noted.
    pub(super) fn note<T>(&mut self, read: Result<T, Diagnostic>) -> Option<T> {
        self.diagnostics.append(&mut self.scope.dims.further);
        read.map_err(|diagnostic| self.diagnostics.push(diagnostic)).ok()
    }

    fn lambda(&mut self, def: &Def) -> Option<Lambda> {
        let params = self.parameters(def);
        declare_all(&def.body, &mut self.scope.dims, self.diagnostics);
        let result = def.returns.as_ref().map(|returns| {
            let read = self.scope.dims.in_result(|dims| annotation_of_expr(returns, dims));
            self.note(read)
        });
        let mut attrs = Attrs::new();
        let body = if let Some(declarations) = external(&def.body) {
            for statement in declarations {
                self.declared_attr(statement, &mut attrs);
            }
            None
        } else {
            let mut builder = Builder::default();
            let returned = self.statements(&def.body, &mut builder, &mut attrs, Place::Function);
            if returned.is_none() && !self.ends_with_return(&def.body) {
                let message = format!("function `{}` does not return", def.name.name);
                self.error(codes::RETURN_PLACE, def.header, message);
            }
            let mut body = builder.finish(returned.unwrap_or(Atom::None));
            complete_outputs(&mut body, &self.scope.open_outputs);
            Some(body)
        };
        // A header that did not read is as good as none: later stages would only repeat the error.
        Some(Lambda {
            params: params?,
            result: result.map_or(Some(None), |r| r.map(Some))?,
            attrs,
            body,
        })
    }

    /// An attribute of a function without a body.
    fn declared_attr(&mut self, statement: &Statement, attrs: &mut Attrs) {
        let StatementKind::Expr(expr) = &statement.kind else { return };
        if let Some(arguments) = call_of(expr, "func_attr") {
            let read = read_attr(expr, arguments, attrs);
            self.note(read);
        }
    }

    /// A `return` whose expression did not resolve has been reported already.
    fn ends_with_return(&self, body: &[Statement]) -> bool {
        matches!(body.last().map(|statement| &statement.kind), Some(StatementKind::Return(_)))
    }

    fn parameters(&mut self, def: &Def) -> Option<Vec<VarId>> {
        let mut params = Vec::with_capacity(def.parameters.len());
        let mut complete = true;
        for parameter in &def.parameters {
            let name = &parameter.name;
            let annotation = match &parameter.annotation {
                Some(annotation) => {
                    let dims = &mut self.scope.dims;
                    let read = dims.in_parameters(|dims| annotation_of_expr(annotation, dims));
                    self.note(read)
                }
                None => {
                    let message = format!("parameter `{}` has no annotation", name.name);
                    self.error(codes::PARAMETER, name.span, message);
                    None
                }
            };
            complete &= annotation.is_some();
            params.push(self.bind(name, annotation));
        }
        complete.then_some(params)
    }

    /// Makes `name` a variable of the innermost scope.
    pub(super) fn bind(
        &mut self,
        name: &Identifier,
        annotation: Option<crate::annotation::Annotation>,
    ) -> VarId {
        if let Some(previous) = self.scope.conflict(&name.name) {
            let what = match self.scope.dims.find(&name.name) {
                Some(_) => "is a symbolic variable of this function already",
                None => "is bound already",
            };
            let message = format!("`{}` {what}", name.name);
            self.diagnostics.push(
                Diagnostic::error(codes::BOUND_TWICE, name.span, message)
                    .with_place(previous, "bound here first")
                    .with_help("use a new name"),
            );
        }
        self.scope.bind(name, annotation)
    }

    /// Resolves statements into `builder`; gives the operand of `return`.
    fn statements(
        &mut self,
        statements: &[Statement],
        builder: &mut Builder,
        attrs: &mut Attrs,
        place: Place,
    ) -> Option<Atom> {
        let mut returned = None;
        let mut seen_return = false;
        for statement in statements {
            if seen_return {
                self.error(codes::RETURN_PLACE, statement.span, "nothing follows a `return`");
                break;
            }
            if let StatementKind::Return(value) = &statement.kind {
                seen_return = true;
                if place == Place::Function {
                    returned = self.atom(value, builder);
                } else {
                    let message = "`return` stands only at the end of a function";
                    let help = "bind the value to the same name in both branches, and return that";
                    self.diagnostics.push(
                        Diagnostic::error(codes::RETURN_PLACE, statement.span, message)
                            .with_help(help),
                    );
                }
            } else {
                let before = self.diagnostics.len();
                self.statement(statement, builder, attrs, place);
                self.offer_declarations(statement, before);
            }
        }
        returned
    }

    /// A `match_cast` binds the symbolic variables that it lacks declarations of: a line before it declares them.
    fn offer_declarations(&mut self, statement: &Statement, before: usize) {
        let StatementKind::Assign { value, .. } = &statement.kind else { return };
        if call_of(value, "match_cast").is_none() {
            return;
        }
        let start = statement.span.start;
        for diagnostic in &mut self.diagnostics[before..] {
            let name = self.scope.dims.declared_at(diagnostic.primary.span);
            if diagnostic.code == codes::UNDECLARED_DIM
                && diagnostic.fix.is_none()
                && let Some(name) = name
            {
                diagnostic.fix = Some(Box::new(Fix {
                    span: Span { start, end: start },
                    part: Part::Whole,
                    replacement: format!("{name} = sym_var()\n"),
                    applicability: Applicability::Certain,
                }));
            }
        }
    }

    fn statement(
        &mut self,
        statement: &Statement,
        builder: &mut Builder,
        attrs: &mut Attrs,
        place: Place,
    ) {
        match &statement.kind {
            _ if is_sym_var(statement) => {}
            StatementKind::Assign { target, annotation, value } => {
                self.assign(target, annotation.as_ref(), value, builder);
            }
            StatementKind::Expr(expr) => self.effect(expr, builder, attrs, place),
            StatementKind::If { condition, then, otherwise, .. } => {
                self.branches(statement, condition, then, otherwise, builder);
            }
            StatementKind::With { context, body } => self.dataflow(context, body, builder, place),
            StatementKind::Def(def) => self.closure(def, builder),
            StatementKind::Pass => {}
            StatementKind::Update { .. } | StatementKind::For { .. } | StatementKind::Return(_) => {
                let message = "this statement does not belong into a graph function";
                let help = "loops and stores belong into a tensor program: `@tensorir_function`";
                self.diagnostics.push(
                    Diagnostic::error(codes::STATEMENT, statement.span, message).with_help(help),
                );
            }
        }
    }

    fn assign(
        &mut self,
        target: &Expr,
        annotation: Option<&Expr>,
        value: &Expr,
        builder: &mut Builder,
    ) {
        let annotation = annotation.and_then(|annotation| {
            let read = annotation_of_expr(annotation, &mut self.scope.dims);
            self.note(read)
        });
        match &target.kind {
            ExprKind::Name(name) => {
                let value = self.expr(value, builder);
                let var =
                    self.bind(&Identifier { name: name.clone(), span: target.span }, annotation);
                if let Some(value) = value {
                    builder.push(var, value);
                }
            }
            ExprKind::Tuple(names) => self.unpack(names, value, builder),
            _ => {
                let message = "expected the name of a variable on the left of `=`";
                self.error(codes::STATEMENT, target.span, message);
            }
        }
    }

    /// `a, b = e`: a variable for the tuple, then its fields.
    fn unpack(&mut self, names: &[Expr], value: &Expr, builder: &mut Builder) {
        let tuple = self.atom_of_call(value, builder);
        for (index, name) in names.iter().enumerate() {
            let ExprKind::Name(text) = &name.kind else {
                self.error(codes::STATEMENT, name.span, "expected the name of a variable");
                continue;
            };
            let var = self.bind(&Identifier { name: text.clone(), span: name.span }, None);
            if let Some(tuple) = &tuple {
                builder.push(var, IrExpr::Get(tuple.clone(), index));
            }
        }
    }

    /// A statement that is just an expression.
    fn effect(&mut self, expr: &Expr, builder: &mut Builder, attrs: &mut Attrs, place: Place) {
        if let Some(arguments) = call_of(expr, "func_attr") {
            if place != Place::Function {
                self.error(
                    codes::ATTRIBUTE,
                    expr.span,
                    "`func_attr` stands at the top of a function",
                );
            }
            let read = read_attr(expr, arguments, attrs);
            self.note(read);
        } else if call_of(expr, "output").is_some() {
            let message = "`output(...)` stands last in a `with dataflow():` block";
            self.error(codes::OUTPUT, expr.span, message);
        } else if matches!(expr.kind, ExprKind::Str(_)) {
            // A string on a line of its own is a comment in Python's manner.
        } else if let ExprKind::Call { callee, .. } = &expr.kind {
            let value = self.call_for_effect(expr, callee, builder);
            let var = self.scope.bind_unnamed(expr.span);
            if let Some(value) = value {
                builder.push(var, value);
            }
        } else {
            self.error(
                codes::STATEMENT,
                expr.span,
                "this expression has no effect; bind it to a name",
            );
        }
    }

    fn closure(&mut self, def: &Def, builder: &mut Builder) {
        for decorator in &def.decorators {
            let message =
                "a nested function has no decorator; a tensor program stands at the top level";
            self.error(codes::DECORATOR, decorator.span, message);
        }
        let var = self.bind(&def.name, None);
        if external(&def.body).is_some() {
            self.error(codes::STATEMENT, def.header, "a nested function needs a body");
            return;
        }
        self.scope.enter();
        let lambda = self.lambda(def);
        self.scope.leave();
        if let Some(lambda) = lambda {
            builder.push(var, IrExpr::Closure(Arc::new(lambda)));
        }
    }

    fn dataflow(
        &mut self,
        context: &Expr,
        body: &[Statement],
        builder: &mut Builder,
        place: Place,
    ) {
        if call_of(context, "dataflow").is_none_or(|arguments| !arguments.is_empty()) {
            let message = "expected `dataflow()`: other blocks belong into a tensor program";
            self.error(codes::STATEMENT, context.span, message);
            return;
        }
        if place == Place::Dataflow {
            self.error(codes::STATEMENT, context.span, "a dataflow block holds no other");
            return;
        }
        let (listed, body) = match body.split_last() {
            Some((Statement { kind: StatementKind::Expr(last), .. }, rest)) => {
                call_of(last, "output").map_or((None, body), |arguments| (Some(arguments), rest))
            }
            _ => (None, body),
        };
        builder.begin(BlockKind::Dataflow { outputs: Vec::new() });
        let first = self.scope.vars.len();
        self.scope.enter();
        self.statements(body, builder, &mut Attrs::new(), Place::Dataflow);
        let inner = self.scope.leave();
        let listed = listed.map(|arguments| self.outputs(arguments, &inner));
        self.scope.after_dataflow(inner, listed.as_deref());
        let block = builder.end();
        match listed {
            Some(outputs) => block.kind = BlockKind::Dataflow { outputs },
            // What is used after the block is known only when the function has been read.
            None => self.scope.open_outputs.extend(first..self.scope.vars.len()),
        }
    }

    fn outputs(
        &mut self,
        arguments: &[crate::ast::Argument],
        inner: &super::scope::Names,
    ) -> Vec<VarId> {
        let mut outputs = Vec::new();
        for argument in arguments {
            let found = match &argument.value.kind {
                ExprKind::Name(name) => inner.get(name).copied(),
                _ => None,
            };
            match found {
                Some(var) if argument.keyword.is_none() && !outputs.contains(&var) => {
                    outputs.push(var)
                }
                _ => {
                    let message = "expected a variable that this dataflow block binds, each once";
                    self.error(codes::OUTPUT, argument.value.span, message);
                }
            }
        }
        outputs
    }

    fn branches(
        &mut self,
        statement: &Statement,
        condition: &Expr,
        then: &[Statement],
        otherwise: &[Statement],
        builder: &mut Builder,
    ) {
        let condition = self.atom(condition, builder);
        let (then_body, then_names) = self.branch(then);
        let (else_body, else_names) = self.branch(otherwise);
        let both: Vec<Name> =
            then_names.in_order(&self.scope.vars, |name| else_names.contains(name));
        let header = Span { start: statement.span.start, end: statement.span.start + 2 };
        let result = self.join(&both, [(then_body, &then_names), (else_body, &else_names)], header);
        let (var, [then, otherwise]) = result;
        if let Some(condition) = condition {
            builder.push(var, IrExpr::If { condition, then, otherwise });
        }
        if both.len() > 1 {
            for (index, name) in both.iter().enumerate() {
                let field = self.bind(&Identifier { name: name.clone(), span: header }, None);
                builder.push(field, IrExpr::Get(Atom::Var(var), index));
            }
        }
        self.scope.hide(&then_names, &else_names, &both);
    }

    /// The variable of an `if`, and the branches with their results: one name is that variable;
    /// several become a tuple, and the branches' own variables get names of their own, so that what
    /// is printed binds only the tuple in both.
    fn join(
        &mut self,
        both: &[Name],
        branches: [(Builder, &super::scope::Names); 2],
        span: Span,
    ) -> (VarId, [Body; 2]) {
        if let [name] = both {
            let bodies = branches.map(|(builder, names)| builder.finish(Atom::Var(names[name])));
            return (self.bind(&Identifier { name: name.clone(), span }, None), bodies);
        }
        if both.is_empty() {
            let bodies = branches.map(|(builder, _)| builder.finish(Atom::Tuple(Vec::new())));
            return (self.scope.bind_unnamed(span), bodies);
        }
        let var = self.scope.bind_fresh(span);
        let bodies = branches.map(|(mut builder, names)| {
            for name in both {
                self.scope.rename(names[name]);
            }
            let fields = both.iter().map(|name| Atom::Var(names[name])).collect();
            let tuple = self.scope.twin(var);
            builder.push(tuple, IrExpr::Atom(Atom::Tuple(fields)));
            builder.finish(Atom::Var(tuple))
        });
        (var, bodies)
    }

    fn branch(&mut self, statements: &[Statement]) -> (Builder, super::scope::Names) {
        let mut builder = Builder::default();
        self.scope.enter();
        self.statements(statements, &mut builder, &mut Attrs::new(), Place::Branch);
        (builder, self.scope.leave())
    }
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the top of a function or closure.
    Function,
    /// In a branch of an `if`.
    Branch,
    /// In a dataflow block.
    Dataflow,
}
