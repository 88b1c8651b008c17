//! Tensor programs: the header, and statements.

use super::dim::DimTable;
use super::graph::is_external;
use super::sym_var::{call_of, declare_all, is_sym_var, read_attr};
use super::tensor_codes as codes;
use super::tensor_loops::positional;
use crate::Name;
use crate::ast::{Argument, BinaryOp, Def, Expr, ExprKind, Identifier, Statement, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::ir::tensor::{
    BinOp, BufferId, BufferInfo, Check, Param, ScalarId, ScalarInfo, Scope, Stmt, StmtKind, TExpr,
};
use crate::ir::{Attrs, TensorProgram};
use crate::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// What a check looks like, said where one does not.
const CHECK: &str = "a check is `check(condition, \"trap/id\", \"message\", values…)`";

/// Resolves a `@tensorir_function`. `None` when its header is wrong.
#[must_use]
pub fn resolve_tensor_program(
    def: &Def,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<TensorProgram> {
    let mut resolver = TensorResolver {
        dims: DimTable::default(),
        buffers: Vec::new(),
        scalars: Vec::new(),
        scopes: vec![BTreeMap::new()],
        attrs: Attrs::new(),
        diagnostics,
    };
    let params = resolver.header(def)?;
    let body = (!is_external(&def.body)).then(|| resolver.statements(&def.body));
    Some(TensorProgram {
        name: def.name.name.clone(),
        span: def.header,
        params,
        attrs: resolver.attrs,
        dims: resolver.dims.into_vars(),
        body,
        buffers: resolver.buffers,
        scalars: resolver.scalars,
    })
}

/// What a name in scope is; symbolic variables are in a table of their own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    Buffer(BufferId),
    Scalar(ScalarId),
}

/// The tables of a tensor program in the making.
pub(super) struct TensorResolver<'a> {
    pub(super) dims: DimTable,
    buffers: Vec<BufferInfo>,
    scalars: Vec<ScalarInfo>,
    scopes: Vec<BTreeMap<Name, Symbol>>,
    attrs: Attrs,
    diagnostics: &'a mut Vec<Diagnostic>,
}

type Read<T> = Result<T, Diagnostic>;

fn id(count: usize) -> u32 {
    u32::try_from(count).expect("invariant: a file has fewer than 2^32 names")
}

impl TensorResolver<'_> {
    pub(super) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// The value, or a diagnostic noted.
    pub(super) fn note<T>(&mut self, read: Read<T>) -> Option<T> {
        self.diagnostics.append(&mut self.dims.further);
        read.map_err(|diagnostic| self.diagnostics.push(diagnostic)).ok()
    }

    /// Buffers first: a name quoted in one of them makes `n: int` a symbolic variable.
    fn header(&mut self, def: &Def) -> Option<Vec<Param>> {
        if let Some(returns) = &def.returns {
            self.error(codes::PARAMETER, returns.span, "a tensor program returns nothing");
        }
        let integers: BTreeSet<&Name> = def
            .parameters
            .iter()
            .filter(|parameter| parameter.annotation.as_ref().is_some_and(is_int))
            .map(|parameter| &parameter.name.name)
            .collect();
        let mut infos: Vec<Option<Option<BufferInfo>>> = Vec::new();
        for parameter in &def.parameters {
            let Some(annotation) = &parameter.annotation else {
                let message = format!("parameter `{}` has no annotation", parameter.name.name);
                self.error(codes::PARAMETER, parameter.name.span, message);
                infos.push(None);
                continue;
            };
            if is_int(annotation) {
                infos.push(Some(None));
                continue;
            }
            let read = self.buffer_annotation(&parameter.name, annotation, &integers);
            infos.push(self.note(read).map(Some));
        }
        declare_all(&def.body, &mut self.dims, self.diagnostics);
        self.declare_allocated(&def.body, &integers);
        let mut params = Vec::new();
        for (parameter, info) in def.parameters.iter().zip(infos) {
            params.push(match info? {
                Some(info) => Param::Buffer(self.bind_buffer(&parameter.name, info)?),
                None if self.dims.find(&parameter.name.name).is_some() => {
                    Param::Dim(parameter.name.name.clone())
                }
                None => Param::Scalar(self.bind_scalar(&parameter.name, Some(DType::I64))?),
            });
        }
        Some(params)
    }

    /// `Buffer(("n", 128), "f32")`, with or without quotes around its symbolic variables.
    fn buffer_annotation(
        &mut self,
        name: &Identifier,
        annotation: &Expr,
        integers: &BTreeSet<&Name>,
    ) -> Read<BufferInfo> {
        let wrong = |span: Span, message: &str| {
            let help = "write `X: Buffer((\"n\", 128), \"f32\")` or `m: int`";
            Err(Diagnostic::error(codes::PARAMETER, span, message).with_help(help))
        };
        let Some(arguments) = call_of(annotation, "Buffer") else {
            return wrong(annotation.span, "expected a `Buffer(shape, dtype)` or `int`");
        };
        let (shape, dtype) = match positional(arguments, &["shape", "dtype"]).as_deref() {
            Some([Some(shape), Some(dtype)]) => (*shape, *dtype),
            _ => return wrong(annotation.span, "a buffer has a shape and a dtype"),
        };
        let dtype = read_dtype(dtype, codes::PARAMETER)?;
        for used in names(shape) {
            if integers.contains(&used.name) && self.dims.find(&used.name).is_none() {
                self.dims.declare(&used.name, used.span).in_signature = true;
            }
        }
        let shape = self.dims.in_parameters(|dims| read_shape(dims, shape))?;
        Ok(BufferInfo {
            name: name.name.clone(),
            shape,
            dtype,
            scope: Scope::Global,
            span: name.span,
        })
    }

    /// `m: int` is a symbolic variable when an allocation has it among its dims.
    fn declare_allocated(&mut self, body: &[Statement], integers: &BTreeSet<&Name>) {
        for statement in body {
            match &statement.kind {
                StatementKind::If { then, otherwise, .. } => {
                    self.declare_allocated(then, integers);
                    self.declare_allocated(otherwise, integers);
                }
                StatementKind::With { body, .. } | StatementKind::For { body, .. } => {
                    self.declare_allocated(body, integers);
                }
                StatementKind::Assign { value, .. } => {
                    let arguments = call_of(value, "alloc_buffer").unwrap_or_default();
                    let shape = arguments.first().map(|argument| names(&argument.value));
                    for used in shape.unwrap_or_default() {
                        if integers.contains(&used.name) {
                            self.dims.declare(&used.name, used.span);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// Whether a name may be bound in the innermost scope: it may be anew what a scalar of the same
    /// body is already.
    fn may_bind(&mut self, name: &Identifier) -> Option<()> {
        let here = self.scopes.last().and_then(|scope| scope.get(&name.name).copied());
        let first = match (here, self.find(&name.name)) {
            (Some(Symbol::Scalar(_)), _) => return Some(()),
            (_, Some(Symbol::Buffer(id))) => self.buffers[id.0 as usize].span,
            (_, Some(Symbol::Scalar(id))) => self.scalars[id.0 as usize].span,
            (_, None) => self.dims.find(&name.name)?.span,
        };
        let message = format!("`{}` is bound already: scalars are bound once", name.name);
        self.diagnostics.push(
            Diagnostic::error(codes::BOUND_ONCE, name.span, message)
                .with_place(first, "bound here first")
                .with_help("use another name; what changes belongs into a local buffer"),
        );
        None
    }

    fn bind(&mut self, name: &Identifier, symbol: Symbol) {
        let scope = self.scopes.last_mut().expect("invariant: a program has a scope");
        scope.insert(name.name.clone(), symbol);
    }

    fn free(&mut self, name: &Identifier) -> bool {
        let bound = self.find(&name.name).is_some() || self.dims.find(&name.name).is_some();
        !bound || self.may_bind(name).is_some()
    }

    pub(super) fn bind_scalar(
        &mut self,
        name: &Identifier,
        dtype: Option<DType>,
    ) -> Option<ScalarId> {
        if !self.free(name) {
            return None;
        }
        let scalar = ScalarId(id(self.scalars.len()));
        self.scalars.push(ScalarInfo { name: name.name.clone(), dtype, span: name.span });
        self.bind(name, Symbol::Scalar(scalar));
        Some(scalar)
    }

    fn bind_buffer(&mut self, name: &Identifier, info: BufferInfo) -> Option<BufferId> {
        if !self.free(name) {
            return None;
        }
        let buffer = BufferId(id(self.buffers.len()));
        self.buffers.push(info);
        self.bind(name, Symbol::Buffer(buffer));
        Some(buffer)
    }

    /// Runs `read` in a scope of its own.
    pub(super) fn scoped<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(BTreeMap::new());
        let result = read(self);
        self.scopes.pop();
        result
    }

    /// Statements in a scope of their own.
    pub(super) fn nested(&mut self, body: &[Statement]) -> Vec<Stmt> {
        self.scoped(|resolver| resolver.statements(body))
    }

    pub(super) fn statements(&mut self, body: &[Statement]) -> Vec<Stmt> {
        let mut statements = Vec::new();
        for statement in body {
            if let Some(kind) = self.statement(statement) {
                statements.push(Stmt { kind, span: header_span(statement) });
            }
        }
        statements
    }

    /// `None` for what is no step of the program, and for what is wrong.
    fn statement(&mut self, statement: &Statement) -> Option<StmtKind> {
        if is_sym_var(statement) {
            return None;
        }
        match &statement.kind {
            StatementKind::Assign { target, annotation, value } => {
                if let Some(annotation) = annotation {
                    let message = "a scalar has no annotation: its dtype follows from its value";
                    self.error(codes::STATEMENT, annotation.span, message);
                }
                self.assign(target, value)
            }
            StatementKind::Update { target, op, value } => {
                let op = match op {
                    BinaryOp::Add => BinOp::Add,
                    BinaryOp::Sub => BinOp::Sub,
                    BinaryOp::Mul => BinOp::Mul,
                    BinaryOp::Div => BinOp::Div,
                    _ => {
                        let message = "the updates are `+= -= *= /=`";
                        self.error(codes::STATEMENT, statement.span, message);
                        return None;
                    }
                };
                self.store(target, Some(op), value)
            }
            StatementKind::If { condition, then, otherwise, .. } => {
                let condition = self.expr(condition);
                let then = self.nested(then);
                let otherwise = self.nested(otherwise);
                Some(StmtKind::If { condition: self.note(condition)?, then, otherwise })
            }
            StatementKind::For { targets, iterator, body } => {
                self.for_loop(targets, iterator, body)
            }
            StatementKind::With { context, body } => self.block(context, body),
            StatementKind::Expr(expr) => self.effect(expr),
            StatementKind::Pass => None,
            StatementKind::Return(_) | StatementKind::Def(_) => {
                let message = "a tensor program has no `return` and no function in it";
                self.error(codes::STATEMENT, statement.span, message);
                None
            }
        }
    }

    fn effect(&mut self, expr: &Expr) -> Option<StmtKind> {
        if let Some(arguments) = call_of(expr, "func_attr") {
            let read = read_attr(expr, arguments, &mut self.attrs);
            self.note(read);
            return None;
        }
        if call_of(expr, "barrier").is_some_and(<[_]>::is_empty) {
            return Some(StmtKind::Barrier);
        }
        if let Some(arguments) = call_of(expr, "check") {
            return self.check(expr, arguments);
        }
        if !matches!(expr.kind, ExprKind::Str(_)) {
            self.error(codes::STATEMENT, expr.span, "this is no statement of a tensor program");
        }
        None
    }

    fn check(&mut self, call: &Expr, arguments: &[Argument]) -> Option<StmtKind> {
        let given = arguments.iter();
        let given = given.map(|given| given.keyword.is_none().then_some(&given.value));
        let given: Option<Vec<&Expr>> = given.collect();
        let Some(
            [
                condition,
                Expr { kind: ExprKind::Str(trap), .. },
                Expr { kind: ExprKind::Str(message), .. },
                values @ ..,
            ],
        ) = given.as_deref()
        else {
            self.error(codes::STATEMENT, call.span, CHECK);
            return None;
        };
        let (trap, message) = (Name::new(trap), Name::new(message));
        let condition = self.expr(condition);
        let condition = self.note(condition)?;
        let values = values.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>, _>>();
        let values = self.note(values)?;
        Some(StmtKind::Check(Box::new(Check { condition, trap, message, values })))
    }

    fn assign(&mut self, target: &Expr, value: &Expr) -> Option<StmtKind> {
        let ExprKind::Name(name) = &target.kind else { return self.store(target, None, value) };
        let name = Identifier { name: name.clone(), span: target.span };
        if let Some(arguments) = call_of(value, "alloc_buffer") {
            let info = self.allocation(&name, value, arguments);
            let info = self.note(info)?;
            return self.bind_buffer(&name, info).map(StmtKind::Alloc);
        }
        let value = self.expr(value);
        let value = self.note(value);
        let var = self.bind_scalar(&name, None)?;
        Some(StmtKind::Let { var, value: value? })
    }

    fn store(&mut self, target: &Expr, update: Option<BinOp>, value: &Expr) -> Option<StmtKind> {
        let place = match &target.kind {
            ExprKind::Subscript { .. } => self.expr(target),
            ExprKind::Name(name) if self.find(name).is_some() => {
                let message = format!("`{name}` does not change");
                let help = "scalars are bound once; what changes belongs into a local buffer";
                Err(Diagnostic::error(codes::BOUND_ONCE, target.span, message).with_help(help))
            }
            _ => {
                let message = "expected an element of a buffer, `B[i, j]`";
                Err(Diagnostic::error(codes::TARGET, target.span, message))
            }
        };
        let value = self.expr(value);
        match (self.note(place)?, self.note(value)?) {
            (TExpr::Load { buffer, indices }, value) => {
                Some(StmtKind::Store { buffer, indices, update, value })
            }
            _ => unreachable!("invariant: a subscript is a load"),
        }
    }

    fn allocation(
        &mut self,
        name: &Identifier,
        call: &Expr,
        arguments: &[crate::ast::Argument],
    ) -> Read<BufferInfo> {
        let wrong = |span, message: &str| Err(Diagnostic::error(codes::ALLOC, span, message));
        let (shape, dtype, scope) =
            match positional(arguments, &["shape", "dtype", "scope"]).as_deref() {
                Some([Some(shape), Some(dtype), scope]) => (*shape, *dtype, *scope),
                _ => return wrong(call.span, "an allocation has a shape, a dtype and a scope"),
            };
        let scope = match scope.map(|scope| (&scope.kind, scope.span)) {
            None => Scope::Global,
            Some((ExprKind::Str(text), span)) => match Scope::parse(text) {
                Some(scope) => scope,
                None => return wrong(span, "a scope is one of \"global\", \"shared\", \"local\""),
            },
            Some((_, span)) => return wrong(span, "expected the name of a scope"),
        };
        let dtype = read_dtype(dtype, codes::ALLOC)?;
        let shape = read_shape(&mut self.dims, shape)?;
        Ok(BufferInfo { name: name.name.clone(), shape, dtype, scope, span: name.span })
    }
}

/// The header of a compound statement, which is what messages point at.
fn header_span(statement: &Statement) -> Span {
    match &statement.kind {
        StatementKind::For { iterator, .. } => {
            Span { start: statement.span.start, end: iterator.span.end }
        }
        StatementKind::With { context, .. } => {
            Span { start: statement.span.start, end: context.span.end }
        }
        StatementKind::If { condition, .. } => {
            Span { start: statement.span.start, end: condition.span.end }
        }
        _ => statement.span,
    }
}

fn is_int(annotation: &Expr) -> bool {
    matches!(&annotation.kind, ExprKind::Name(name) if name == "int")
}

fn read_dtype(expr: &Expr, code: &'static str) -> Read<DType> {
    let dtype = if let ExprKind::Str(text) = &expr.kind { DType::parse(text) } else { None };
    dtype.ok_or_else(|| Diagnostic::error(code, expr.span, "expected a dtype, such as \"f32\""))
}

/// A tuple or list of dims; one dim stands for a shape of it.
fn read_shape(dims: &mut DimTable, expr: &Expr) -> Read<Vec<Dim>> {
    match &expr.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => {
            items.iter().map(|item| dims.read(item)).collect()
        }
        _ => Ok(vec![dims.read(expr)?]),
    }
}

/// The plain names in a shape.
fn names(expr: &Expr) -> Vec<Identifier> {
    match &expr.kind {
        ExprKind::Name(name) => vec![Identifier { name: name.clone(), span: expr.span }],
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().flat_map(names).collect(),
        ExprKind::Unary(_, operand) => names(operand),
        ExprKind::Binary(_, operands) => {
            let mut found = names(&operands.0);
            found.extend(names(&operands.1));
            found
        }
        ExprKind::Call { arguments, .. } => {
            arguments.iter().flat_map(|argument| names(&argument.value)).collect()
        }
        _ => Vec::new(),
    }
}
