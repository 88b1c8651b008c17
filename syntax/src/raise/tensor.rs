//! Tensor programs as `def` statements.

use super::annotation::dim_expr;
use super::expr::float;
use super::{
    Site, argument, assign, attr_lines, call, expr, identifier, keyword, name, statement, string,
    sym_var_line,
};
use crate::ast::{BinaryOp, Def, Expr, ExprKind, Parameter, Statement, StatementKind, UnaryOp};
use crate::dim::Dim;
use crate::ir::TensorProgram;
use crate::ir::tensor::{
    Axis, AxisKind, BinOp, BufferId, Loop, LoopKind, Param, ScalarId, Scope, Stmt, StmtKind, TExpr,
    UnOp,
};
use crate::span::Span;

/// The `def` of a tensor program.
#[must_use]
pub fn raise_tensor_program(program: &TensorProgram) -> Def {
    let raiser = Raiser { program };
    let declared = program.dims.iter().filter(|dim| !dim.in_signature || dim.has_facts());
    let mut body: Vec<Statement> = declared.map(sym_var_line).collect();
    body.extend(attr_lines("func_attr", &program.attrs));
    match &program.body {
        Some(statements) => body.extend(raiser.body(statements)),
        None => body = vec![statement(StatementKind::Expr(expr(ExprKind::Ellipsis)))],
    }
    if body.is_empty() {
        body.push(statement(StatementKind::Pass));
    }
    Def {
        decorators: vec![name("tensorir_function")],
        name: identifier(&program.name),
        parameters: program.params.iter().map(|param| raiser.param(param)).collect(),
        returns: None,
        body,
        header: Span::default(),
    }
}

struct Raiser<'a> {
    program: &'a TensorProgram,
}

fn shape(dims: &[Dim], site: Site) -> Expr {
    expr(ExprKind::Tuple(dims.iter().map(|dim| dim_expr(dim, site)).collect()))
}

impl Raiser<'_> {
    fn param(&self, param: &Param) -> Parameter {
        let int = || Some(name("int"));
        match param {
            Param::Buffer(id) => {
                let info = self.program.buffer(*id);
                let shape = argument(shape(&info.shape, Site::Signature));
                let annotation = call("Buffer", vec![shape, argument(string(info.dtype.name()))]);
                Parameter { name: identifier(&info.name), annotation: Some(annotation) }
            }
            Param::Scalar(id) => {
                Parameter { name: identifier(&self.program.scalar(*id).name), annotation: int() }
            }
            Param::Dim(dim) => Parameter { name: identifier(dim), annotation: int() },
        }
    }

    fn scalar(&self, id: ScalarId) -> Expr {
        name(&self.program.scalar(id).name)
    }

    fn body(&self, statements: &[Stmt]) -> Vec<Statement> {
        statements.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    /// The body of a compound statement, which text cannot leave empty.
    fn nested(&self, statements: &[Stmt]) -> Vec<Statement> {
        if statements.is_empty() {
            return vec![statement(StatementKind::Pass)];
        }
        self.body(statements)
    }

    fn stmt(&self, stmt: &Stmt) -> Statement {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => self.for_loop(loops, kind, self.nested(body)),
            StmtKind::Block { name, axes, init, body } => {
                let arguments = name.iter().map(|name| argument(string(name))).collect();
                let mut inner: Vec<Statement> = axes.iter().map(|axis| self.axis(axis)).collect();
                if !init.is_empty() {
                    let context = call("init", Vec::new());
                    let body = self.body(init);
                    inner.push(statement(StatementKind::With { context, body }));
                }
                inner.extend(self.body(body));
                if inner.is_empty() {
                    inner.push(statement(StatementKind::Pass));
                }
                let context = call("block", arguments);
                statement(StatementKind::With { context, body: inner })
            }
            StmtKind::Store { buffer, indices, update, value } => {
                let target = self.element(*buffer, indices);
                let value = self.expr(value);
                statement(match update.and_then(infix) {
                    Some(op) => StatementKind::Update { target, op, value },
                    None => StatementKind::Assign { target, annotation: None, value },
                })
            }
            StmtKind::Let { var, value } => assign(self.scalar(*var), None, self.expr(value)),
            StmtKind::If { condition, then, otherwise } => statement(StatementKind::If {
                condition: self.expr(condition),
                then: self.nested(then),
                otherwise: self.body(otherwise),
                else_span: None,
            }),
            StmtKind::Alloc(id) => self.alloc(*id),
            StmtKind::Barrier => statement(StatementKind::Expr(call("barrier", Vec::new()))),
            StmtKind::Check(check) => {
                let mut arguments = vec![argument(self.expr(&check.condition))];
                arguments.extend([&check.trap, &check.message].map(|text| argument(string(text))));
                arguments.extend(check.values.iter().map(|value| argument(self.expr(value))));
                statement(StatementKind::Expr(call("check", arguments)))
            }
        }
    }

    fn alloc(&self, id: BufferId) -> Statement {
        let info = self.program.buffer(id);
        let mut arguments =
            vec![argument(shape(&info.shape, Site::Body)), argument(string(info.dtype.name()))];
        if info.scope != Scope::Global {
            arguments.push(argument(string(info.scope.name())));
        }
        assign(name(&info.name), None, call("alloc_buffer", arguments))
    }

    fn axis(&self, axis: &Axis) -> Statement {
        let kind = match axis.kind {
            AxisKind::Spatial => "spatial",
            AxisKind::Reduce => "reduce",
        };
        let arguments = [&axis.extent, &axis.value].map(|part| argument(self.expr(part)));
        assign(self.scalar(axis.var), None, call(kind, arguments.into()))
    }

    /// Only `grid` has several variables in text; a nest of another kind prints as nested loops.
    fn for_loop(&self, loops: &[Loop], kind: &LoopKind, body: Vec<Statement>) -> Statement {
        if *kind == LoopKind::Grid || loops.len() < 2 {
            return self.one_loop(loops, kind, body);
        }
        let (outer, inner) = loops.split_at(1);
        let inner = self.for_loop(inner, kind, body);
        self.one_loop(outer, kind, vec![inner])
    }

    fn one_loop(&self, loops: &[Loop], kind: &LoopKind, body: Vec<Statement>) -> Statement {
        let targets = loops.iter().map(|item| identifier(&self.program.scalar(item.var).name));
        let iterator = match kind {
            LoopKind::Grid => {
                let ranges = loops.iter().map(|item| argument(self.grid_range(item)));
                call("grid", ranges.collect())
            }
            LoopKind::Serial => call("range", self.bounds(loops)),
            LoopKind::Parallel => call("parallel", self.bounds(loops)),
            LoopKind::Vectorized => call("vectorized", self.bounds(loops)),
            LoopKind::Unroll => call("unroll", self.bounds(loops)),
            LoopKind::Thread(axis) => {
                let mut arguments = self.bounds(loops);
                arguments.push(argument(string(axis)));
                call("thread_binding", arguments)
            }
            LoopKind::Shard { mesh, mesh_dim } => {
                let mesh_dim = i64::try_from(*mesh_dim).unwrap_or(i64::MAX);
                let mut arguments = self.bounds(loops);
                arguments.push(argument(string(mesh)));
                arguments.push(keyword("mesh_dim", expr(ExprKind::Int(mesh_dim))));
                call("shard", arguments)
            }
        };
        statement(StatementKind::For { targets: targets.collect(), iterator, body })
    }

    fn grid_range(&self, item: &Loop) -> Expr {
        let stop = self.expr(&item.stop);
        if item.start == TExpr::Int(0) {
            return stop;
        }
        expr(ExprKind::Tuple(vec![self.expr(&item.start), stop]))
    }

    fn bounds(&self, loops: &[Loop]) -> Vec<crate::ast::Argument> {
        let mut arguments = Vec::new();
        for item in loops {
            if item.start != TExpr::Int(0) {
                arguments.push(argument(self.expr(&item.start)));
            }
            arguments.push(argument(self.expr(&item.stop)));
        }
        arguments
    }

    fn element(&self, buffer: BufferId, indices: &[TExpr]) -> Expr {
        let mut indices: Vec<Expr> = indices.iter().map(|index| self.expr(index)).collect();
        if indices.is_empty() {
            indices.push(expr(ExprKind::Tuple(Vec::new())));
        }
        let base = Box::new(name(&self.program.buffer(buffer).name));
        expr(ExprKind::Subscript { base, indices })
    }

    fn expr(&self, value: &TExpr) -> Expr {
        let all = |parts: &[&TExpr]| parts.iter().map(|part| argument(self.expr(part))).collect();
        match value {
            TExpr::Int(value) => expr(ExprKind::Int(*value)),
            TExpr::Float(value) => float(*value),
            TExpr::Bool(value) => expr(ExprKind::Bool(*value)),
            TExpr::Scalar(id) => self.scalar(*id),
            TExpr::Dim(dim) => name(dim),
            TExpr::Load { buffer, indices } => self.element(*buffer, indices),
            TExpr::Unary(op, operand) => {
                let op = match op {
                    UnOp::Negate => UnaryOp::Negate,
                    UnOp::Not => UnaryOp::Not,
                    UnOp::Invert => UnaryOp::Invert,
                };
                expr(ExprKind::Unary(op, Box::new(self.expr(operand))))
            }
            TExpr::Binary(op, operands) => match infix(*op) {
                Some(op) => {
                    let pair = (self.expr(&operands.0), self.expr(&operands.1));
                    expr(ExprKind::Binary(op, Box::new(pair)))
                }
                None => {
                    let callee = if *op == BinOp::Min { "min" } else { "max" };
                    call(callee, all(&[&operands.0, &operands.1]))
                }
            },
            TExpr::Select(parts) => call("select", all(&[&parts.0, &parts.1, &parts.2])),
            TExpr::Cast(dtype, operand) => call(dtype.name(), all(&[operand])),
            TExpr::Call(function, operands) => {
                call(function.name(), all(&operands.iter().collect::<Vec<_>>()))
            }
        }
    }
}

/// The infix operator; none for `min` and `max`.
fn infix(op: BinOp) -> Option<BinaryOp> {
    Some(match op {
        BinOp::Add => BinaryOp::Add,
        BinOp::Sub => BinaryOp::Sub,
        BinOp::Mul => BinaryOp::Mul,
        BinOp::Div => BinaryOp::Div,
        BinOp::FloorDiv => BinaryOp::FloorDiv,
        BinOp::Mod => BinaryOp::Mod,
        BinOp::BitAnd => BinaryOp::BitAnd,
        BinOp::BitOr => BinaryOp::BitOr,
        BinOp::BitXor => BinaryOp::BitXor,
        BinOp::ShiftLeft => BinaryOp::ShiftLeft,
        BinOp::ShiftRight => BinaryOp::ShiftRight,
        BinOp::Equal => BinaryOp::Equal,
        BinOp::NotEqual => BinaryOp::NotEqual,
        BinOp::Less => BinaryOp::Less,
        BinOp::LessEqual => BinaryOp::LessEqual,
        BinOp::Greater => BinaryOp::Greater,
        BinOp::GreaterEqual => BinaryOp::GreaterEqual,
        BinOp::And => BinaryOp::And,
        BinOp::Or => BinaryOp::Or,
        BinOp::Min | BinOp::Max => return None,
    })
}
