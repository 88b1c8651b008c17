//! Dtypes of scalar expressions: what the checker demands and the compiler relies on.

use super::codes;
use super::kernels::{self, Origin};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, ScalarId, TExpr, UnOp};
use relax_syntax::span::Span;
use relax_syntax::{Name, dtype::Class};
use std::collections::BTreeSet;

/// The dtype of an expression, or what a literal may still become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    /// Integer literals alone: any number.
    Int,
    /// Literals alone, one of them a float: any float.
    Float,
    /// Known.
    Of(DType),
}

impl Ty {
    /// The dtype where nothing else decides it.
    pub(super) fn or_default(self) -> DType {
        match self {
            Ty::Int => DType::I64,
            Ty::Float => DType::F32,
            Ty::Of(dtype) => dtype,
        }
    }
}

/// Dtype and origin of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) ty: Ty,
    pub(super) origin: Origin,
}

impl Typed {
    pub(super) fn index(ty: Ty) -> Self {
        Self { ty, origin: Origin::Index }
    }

    pub(super) fn data(dtype: DType) -> Self {
        Self { ty: Ty::Of(dtype), origin: Origin::Data }
    }

    pub(super) fn dtype(self) -> DType {
        self.ty.or_default()
    }
}

/// What is known of every name of a program.
pub(super) struct Types<'p> {
    pub(super) program: &'p TensorProgram,
    /// One a scalar; none before it is bound.
    pub(super) scalars: Vec<Option<Typed>>,
    /// Which scalars may be used here.
    pub(super) scalar_visible: Vec<bool>,
    /// Which buffers may be used here.
    pub(super) buffer_visible: Vec<bool>,
    /// The symbolic variables that a call binds.
    pub(super) dims: BTreeSet<Name>,
}

/// A boxed diagnostic, so that results stay small.
pub(super) type Rejected = Box<Diagnostic>;

/// Levels of nesting in an expression.
const DEPTH: usize = 200;

pub(super) fn reject(code: &'static str, span: Span, message: impl Into<String>) -> Rejected {
    Box::new(Diagnostic::error(code, span, message))
}

impl Types<'_> {
    /// Dtype of an expression, or the first thing wrong with it.
    pub(super) fn infer(&self, expr: &TExpr, span: Span) -> Result<Typed, Rejected> {
        self.at_depth(expr, span, 0)
    }

    /// Demands a dtype; literals adopt it.
    pub(super) fn expect(&self, expr: &TExpr, dtype: DType, span: Span) -> Result<Typed, Rejected> {
        let found = self.infer(expr, span)?;
        self.adopt(expr, found, dtype, span)?;
        Ok(Typed { ty: Ty::Of(dtype), origin: found.origin })
    }

    /// Demands an integer, of whatever dtype.
    pub(super) fn integer(&self, expr: &TExpr, what: &str, span: Span) -> Result<Typed, Rejected> {
        let found = self.infer(expr, span)?;
        let dtype = found.dtype();
        if !dtype.is_integer() {
            let message = format!("{what} must be an integer, found {dtype}");
            return Err(reject(codes::NOT_AN_INTEGER, span, message));
        }
        self.adopt(expr, found, dtype, span)?;
        Ok(found)
    }

    /// Demands a bool.
    pub(super) fn condition(&self, expr: &TExpr, what: &str, span: Span) -> Result<(), Rejected> {
        self.condition_at(expr, what, span, 0)
    }

    fn condition_at(
        &self,
        expr: &TExpr,
        what: &str,
        span: Span,
        depth: usize,
    ) -> Result<(), Rejected> {
        let found = self.at_depth(expr, span, depth)?;
        if found.ty == Ty::Of(DType::Bool) {
            return Ok(());
        }
        let message = format!("{what} must be a bool, found {}", found.dtype());
        Err(reject(codes::NOT_A_CONDITION, span, message))
    }

    fn at_depth(&self, expr: &TExpr, span: Span, depth: usize) -> Result<Typed, Rejected> {
        if depth > DEPTH {
            let message = format!("an expression nests at most {DEPTH} levels");
            return Err(reject(codes::TOO_DEEP, span, message));
        }
        let depth = depth + 1;
        match expr {
            TExpr::Int(_) => Ok(Typed::index(Ty::Int)),
            TExpr::Float(_) => Ok(Typed::index(Ty::Float)),
            TExpr::Bool(_) => Ok(Typed::index(Ty::Of(DType::Bool))),
            TExpr::Scalar(id) => self.scalar(*id, span),
            TExpr::Dim(name) => self.dim(name, span),
            TExpr::Load { buffer, indices } => {
                let dtype = self.buffer(*buffer, indices.len(), span)?;
                for index in indices {
                    let found = self.at_depth(index, span, depth)?;
                    self.index(index, found, span)?;
                }
                Ok(Typed::data(dtype))
            }
            TExpr::Unary(op, operand) => self.unary(*op, operand, span, depth),
            TExpr::Binary(op, operands) => self.binary(*op, operands, span, depth),
            TExpr::Select(parts) => {
                self.condition_at(&parts.0, "the first operand of `select`", span, depth)?;
                let a = self.at_depth(&parts.1, span, depth)?;
                let b = self.at_depth(&parts.2, span, depth)?;
                self.unify("select", (&parts.1, a), (&parts.2, b), span)
            }
            TExpr::Cast(dtype, operand) => {
                let found = self.at_depth(operand, span, depth)?;
                let from = cast_source(found.ty, *dtype);
                self.adopt(operand, found, from, span)?;
                let kept = *dtype == DType::I64 && found.origin == Origin::Index;
                let origin = if kept { Origin::Index } else { Origin::Data };
                Ok(Typed { ty: Ty::Of(*dtype), origin })
            }
            TExpr::Call(function, operands) => self.call(*function, operands, span, depth),
        }
    }

    fn index(&self, expr: &TExpr, found: Typed, span: Span) -> Result<(), Rejected> {
        let dtype = found.dtype();
        if dtype.is_integer() {
            return self.adopt(expr, found, dtype, span);
        }
        let message = format!("an index must be an integer, found {dtype}");
        Err(reject(codes::NOT_AN_INTEGER, span, message))
    }

    fn scalar(&self, id: ScalarId, span: Span) -> Result<Typed, Rejected> {
        let at = id.0 as usize;
        if self.scalar_visible.get(at).copied().unwrap_or(false)
            && let Some(typed) = self.scalars[at]
        {
            return Ok(typed);
        }
        let name = self.program.scalars.get(at).map_or("?", |scalar| scalar.name.as_str());
        Err(reject(codes::SCOPE, span, format!("the scalar `{name}` is not bound here")))
    }

    fn dim(&self, name: &Name, span: Span) -> Result<Typed, Rejected> {
        if self.dims.contains(name) {
            return Ok(Typed::index(Ty::Of(DType::I64)));
        }
        let message = format!("no parameter binds the symbolic variable `{name}`");
        Err(reject(codes::UNBOUND_DIM, span, message))
    }

    /// The dtype of a buffer that is visible and has `count` dims.
    pub(super) fn buffer(
        &self,
        id: relax_syntax::ir::tensor::BufferId,
        count: usize,
        span: Span,
    ) -> Result<DType, Rejected> {
        let at = id.0 as usize;
        let Some(info) = self.program.buffers.get(at).filter(|_| self.buffer_visible[at]) else {
            let name = self.program.buffers.get(at).map_or("?", |buffer| buffer.name.as_str());
            let message = format!("the buffer `{name}` is not allocated here");
            return Err(reject(codes::SCOPE, span, message));
        };
        if info.shape.len() == count {
            return Ok(info.dtype);
        }
        let message = format!(
            "`{}` has {} dims, but is used with {count} indices",
            info.name,
            info.shape.len()
        );
        Err(reject(codes::INDEX_COUNT, span, message))
    }

    fn unary(
        &self,
        op: UnOp,
        operand: &TExpr,
        span: Span,
        depth: usize,
    ) -> Result<Typed, Rejected> {
        if op == UnOp::Not {
            self.condition_at(operand, "the operand of `not`", span, depth)?;
            return Ok(Typed::index(Ty::Of(DType::Bool)));
        }
        let found = self.at_depth(operand, span, depth)?;
        self.defined(
            kernels::unary(op, found.dtype(), found.origin).is_some(),
            op_name(op),
            found,
            span,
        )?;
        Ok(found)
    }

    fn binary(
        &self,
        op: BinOp,
        operands: &(TExpr, TExpr),
        span: Span,
        depth: usize,
    ) -> Result<Typed, Rejected> {
        let bool = Typed::index(Ty::Of(DType::Bool));
        if matches!(op, BinOp::And | BinOp::Or) {
            let what = format!("an operand of `{}`", symbol(op));
            self.condition_at(&operands.0, &what, span, depth)?;
            self.condition_at(&operands.1, &what, span, depth)?;
            return Ok(bool);
        }
        let a = self.at_depth(&operands.0, span, depth)?;
        let b = self.at_depth(&operands.1, span, depth)?;
        let typed = self.unify(symbol(op), (&operands.0, a), (&operands.1, b), span)?;
        let exists = kernels::binary(op, typed.dtype(), typed.origin).is_some();
        self.defined(exists, symbol(op), typed, span)?;
        if !is_comparison(op) {
            return Ok(typed);
        }
        self.adopt(&operands.0, a, typed.dtype(), span)?;
        self.adopt(&operands.1, b, typed.dtype(), span)?;
        Ok(bool)
    }

    fn call(
        &self,
        function: Intrinsic,
        operands: &[TExpr],
        span: Span,
        depth: usize,
    ) -> Result<Typed, Rejected> {
        if operands.len() != function.arity() {
            let message = format!(
                "`{}` takes {} operand(s), found {}",
                function.name(),
                function.arity(),
                operands.len()
            );
            return Err(reject(codes::ARITY, span, message));
        }
        let found = operands
            .iter()
            .map(|operand| self.at_depth(operand, span, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let mut typed = found[0];
        for (at, &next) in found.iter().enumerate().skip(1) {
            let left = (&operands[at - 1], typed);
            typed = self.unify(function.name(), left, (&operands[at], next), span)?;
        }
        if typed.ty == Ty::Int && function != Intrinsic::Abs {
            typed.ty = Ty::Float;
        }
        // An operand before the one that decided the dtype may still be a literal.
        if let Ty::Of(dtype) = typed.ty {
            for (operand, &found) in operands.iter().zip(&found) {
                self.adopt(operand, found, dtype, span)?;
            }
        }
        self.defined(call_exists(function, typed), function.name(), typed, span)?;
        Ok(typed)
    }

    fn defined(&self, exists: bool, what: &str, typed: Typed, span: Span) -> Result<(), Rejected> {
        if exists {
            return Ok(());
        }
        let dtype = typed.dtype();
        let mut found =
            reject(codes::UNDEFINED_OPERATION, span, format!("`{what}` is not defined on {dtype}"));
        if what == "/" {
            found.help = Some("integers divide by `//`, rounding down; or cast to a float".into());
        }
        Err(found)
    }

    /// The common dtype of two operands.
    fn unify(
        &self,
        what: &str,
        (left, a): (&TExpr, Typed),
        (right, b): (&TExpr, Typed),
        span: Span,
    ) -> Result<Typed, Rejected> {
        let data = a.origin == Origin::Data || b.origin == Origin::Data;
        let origin = if data { Origin::Data } else { Origin::Index };
        let ty = match (a.ty, b.ty) {
            (Ty::Of(x), Ty::Of(y)) if x != y => {
                let message = format!("`{what}` needs operands of one dtype, found {x} and {y}");
                let mut found = reject(codes::MISMATCH, span, message);
                found.help = Some(format!("cast one of them: `{x}(…)` or `{y}(…)`"));
                return Err(found);
            }
            (Ty::Of(x), Ty::Of(_)) => Ty::Of(x),
            (Ty::Of(x), _) => {
                self.adopt(right, b, x, span)?;
                Ty::Of(x)
            }
            (_, Ty::Of(y)) => {
                self.adopt(left, a, y, span)?;
                Ty::Of(y)
            }
            (Ty::Int, Ty::Int) => Ty::Int,
            _ => Ty::Float,
        };
        Ok(Typed { ty, origin })
    }

    /// Whether an expression may be used as `dtype`: it has it, or is made of literals that fit.
    pub(super) fn adopt(
        &self,
        expr: &TExpr,
        found: Typed,
        dtype: DType,
        span: Span,
    ) -> Result<(), Rejected> {
        let fits = match found.ty {
            Ty::Of(own) => {
                if own == dtype {
                    return Ok(());
                }
                false
            }
            Ty::Int => dtype != DType::Bool,
            Ty::Float => dtype.is_float(),
        };
        if fits {
            return literal_fits(expr, dtype, span);
        }
        let what = match found.ty {
            Ty::Int => "an integer literal".to_owned(),
            Ty::Float => "a float literal".to_owned(),
            Ty::Of(own) => own.to_string(),
        };
        let mut rejected = reject(codes::MISMATCH, span, format!("expected {dtype}, found {what}"));
        rejected.help = Some(format!("cast it: `{dtype}(…)`"));
        Err(rejected)
    }
}

/// Whether an expression of literals alone may be computed in `dtype`. Only the parts that decide
/// its dtype are entered: the condition of a `select` has its own.
fn literal_fits(expr: &TExpr, dtype: DType, span: Span) -> Result<(), Rejected> {
    let undefined = |what: &str| {
        let message = format!("`{what}` is not defined on {dtype}, which these literals become");
        reject(codes::UNDEFINED_OPERATION, span, message)
    };
    match expr {
        TExpr::Int(value) => {
            let (low, high) = match dtype.class() {
                Class::Signed | Class::Unsigned => crate::round::integer_range(dtype),
                Class::Float | Class::Bool => return Ok(()),
            };
            if (low..=high).contains(&i128::from(*value)) {
                return Ok(());
            }
            let message = format!("{value} is no {dtype}: its values are {low} to {high}");
            Err(reject(codes::LITERAL_RANGE, span, message))
        }
        TExpr::Unary(op, operand) => {
            kernels::unary(*op, dtype, Origin::Index).ok_or_else(|| undefined(op_name(*op)))?;
            literal_fits(operand, dtype, span)
        }
        TExpr::Binary(op, operands) => {
            kernels::binary(*op, dtype, Origin::Index).ok_or_else(|| undefined(symbol(*op)))?;
            literal_fits(&operands.0, dtype, span)?;
            literal_fits(&operands.1, dtype, span)
        }
        TExpr::Select(parts) => {
            literal_fits(&parts.1, dtype, span)?;
            literal_fits(&parts.2, dtype, span)
        }
        TExpr::Call(function, operands) => {
            if !call_exists(*function, Typed::index(Ty::Of(dtype))) {
                return Err(undefined(function.name()));
            }
            operands.iter().try_for_each(|operand| literal_fits(operand, dtype, span))
        }
        _ => Ok(()),
    }
}

fn call_exists(function: Intrinsic, typed: Typed) -> bool {
    match function.arity() {
        1 => kernels::call1(function, typed.dtype(), typed.origin).is_some(),
        2 => kernels::call2(function, typed.dtype()).is_some(),
        _ => kernels::call3(function, typed.dtype()).is_some(),
    }
}

/// The dtype in which the operand of a cast is computed: a float literal in the target itself, so
/// that `f64(0.1)` is not rounded to f32 first.
pub(super) fn cast_source(operand: Ty, target: DType) -> DType {
    match operand {
        Ty::Of(dtype) => dtype,
        Ty::Int | Ty::Float if target.is_float() => target,
        Ty::Int => DType::I64,
        Ty::Float => DType::F64,
    }
}

pub(super) fn is_comparison(op: BinOp) -> bool {
    use BinOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

fn op_name(op: UnOp) -> &'static str {
    match op {
        UnOp::Negate => "-",
        UnOp::Not => "not",
        UnOp::Invert => "~",
    }
}

/// As written.
pub(super) fn symbol(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::FloorDiv => "//",
        BinOp::Mod => "%",
        BinOp::BitAnd => "&",
        BinOp::BitOr => "|",
        BinOp::BitXor => "^",
        BinOp::ShiftLeft => "<<",
        BinOp::ShiftRight => ">>",
        BinOp::Equal => "==",
        BinOp::NotEqual => "!=",
        BinOp::Less => "<",
        BinOp::LessEqual => "<=",
        BinOp::Greater => ">",
        BinOp::GreaterEqual => ">=",
        BinOp::And => "and",
        BinOp::Or => "or",
        BinOp::Min => "min",
        BinOp::Max => "max",
    }
}
