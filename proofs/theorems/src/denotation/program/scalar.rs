//! Scalar expressions of a tensor program: numbers as terms, indices as dims.
//!
//! An integer made of loop variables, dims and literals alone is an extent here. Arithmetic on those never
//! leaves i64 where the program does not stop, so they are plain integers.

use super::folding::ITERATE;
use super::{Machine, Scalar};
use crate::denotation::functions::TRUTHS;
use crate::denotation::names::{ADD, DIVIDE, MAXIMUM, MINIMUM, MULTIPLY, NEGATIVE, SUBTRACT};
use crate::denotation::term::{Domain, Known, Reals, Term, Test, domain_of, unknown};
use relax_semantics::tensor::Number;
use relax_semantics::tir::ranges::dim_op;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};

/// What decides.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Claim(Claim),
    Truth(Term),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

impl Condition {
    /// The one where it holds, else the other.
    pub(super) fn choose(&self, then: Term, otherwise: Term) -> Term {
        match self {
            Condition::Claim(claim) => Term::choose(claim.clone(), then, otherwise),
            Condition::Truth(Term::Number(_, value)) => {
                if *value == 0.0 {
                    otherwise
                } else {
                    then
                }
            }
            Condition::Truth(term) => {
                Term::If(Test::Element(Box::new(term.clone())), Box::new(then), Box::new(otherwise))
            }
            Condition::Both(a, b) => a.choose(b.choose(then, otherwise.clone()), otherwise),
            Condition::Either(a, b) => a.choose(then.clone(), b.choose(then, otherwise)),
            Condition::Not(a) => a.choose(otherwise, then),
        }
    }

    /// As a truth value.
    pub(super) fn value(self) -> Term {
        let truth = |value| Term::Number(Domain::Bits, value);
        match self {
            Condition::Truth(term) => term,
            Condition::Not(inner) if inner.is_plain() => {
                Term::apply(Domain::Bits, "logical_not", vec![inner.value()])
            }
            Condition::Both(a, b) if a.is_plain() && b.is_plain() => {
                Term::apply(Domain::Bits, "logical_and", vec![a.value(), b.value()])
            }
            Condition::Either(a, b) if a.is_plain() && b.is_plain() => {
                Term::apply(Domain::Bits, "logical_or", vec![a.value(), b.value()])
            }
            other => other.choose(truth(1.0), truth(0.0)),
        }
    }

    /// Whether no claim on dims is in it.
    fn is_plain(&self) -> bool {
        match self {
            Condition::Claim(_) => false,
            Condition::Truth(_) => true,
            Condition::Both(a, b) | Condition::Either(a, b) => a.is_plain() && b.is_plain(),
            Condition::Not(a) => a.is_plain(),
        }
    }

    /// What is known where it holds, or where it does not.
    pub(super) fn claims(&self, holds: bool) -> Vec<Claim> {
        match (self, holds) {
            (Condition::Claim(claim), true) => vec![claim.clone()],
            (Condition::Claim(claim), false) => vec![claim.opposite()],
            (Condition::Truth(_), _) => Vec::new(),
            (Condition::Both(a, b), true) | (Condition::Either(a, b), false) => {
                let mut claims = a.claims(holds);
                claims.extend(b.claims(holds));
                claims
            }
            (Condition::Both(..), false) | (Condition::Either(..), true) => Vec::new(),
            (Condition::Not(a), _) => a.claims(!holds),
        }
    }
}

impl Machine<'_> {
    /// The value of an expression that has, or as a literal takes, this dtype.
    pub(super) fn value(&mut self, expr: &TExpr, want: DType) -> Known<Term> {
        match expr {
            TExpr::Int(value) => Ok(integer(*value, want)),
            TExpr::Float(value) => Ok(float(*value, want)),
            TExpr::Bool(value) => Ok(Term::Number(Domain::Bits, f64::from(u8::from(*value)))),
            TExpr::Scalar(id) => match &self.scalars[id.0 as usize] {
                Some(Scalar(term)) => Ok(term.clone()),
                None => unknown("a scalar without a value"),
            },
            TExpr::Dim(name) => Ok(Term::Extent(self.dim_var(name))),
            TExpr::Load { buffer, indices } => self.load(*buffer, indices),
            TExpr::Unary(op, operand) => self.unary(expr, *op, operand, want),
            TExpr::Binary(op, operands) => {
                if is_truth(*op) {
                    return Ok(self.condition(expr)?.value());
                }
                let a = self.value(&operands.0, want)?;
                let b = self.value(&operands.1, want)?;
                if self.typing.is_index(expr) && want == DType::I64 {
                    return self.of_indices(*op, &a, &b);
                }
                self.operation(*op, want, a, b)
            }
            TExpr::Select(parts) => {
                let condition = self.condition(&parts.0)?;
                let then = self.under(&condition, true, |own| own.value(&parts.1, want))?;
                let otherwise = self.under(&condition, false, |own| own.value(&parts.2, want))?;
                Ok(extremum(&condition, then, otherwise))
            }
            TExpr::Cast(target, operand) => {
                let source = self.typing.cast_source(operand, *target);
                let term = self.value(operand, source)?;
                Ok(cast(term, source, *target))
            }
            TExpr::Call(function, operands) => self.call(expr, *function, operands, want),
        }
    }

    fn unary(&mut self, expr: &TExpr, op: UnOp, operand: &TExpr, want: DType) -> Known<Term> {
        if op == UnOp::Not {
            return Ok(self.condition(expr)?.value());
        }
        let a = self.value(operand, want)?;
        if op == UnOp::Negate && self.typing.is_index(expr) && want == DType::I64 {
            return self.of_indices(BinOp::Sub, &Term::Extent(Dim::Int(0)), &a);
        }
        let name = if op == UnOp::Negate { NEGATIVE } else { "bitwise_not" };
        Ok(applied(want, name, vec![a]))
    }

    fn call(
        &mut self,
        expr: &TExpr,
        function: Intrinsic,
        operands: &[TExpr],
        want: DType,
    ) -> Known<Term> {
        let args = operands.iter().map(|operand| self.value(operand, want));
        let args = args.collect::<Known<Vec<_>>>()?;
        if function == Intrinsic::Abs && self.typing.is_index(expr) && want == DType::I64 {
            let opposite = self.of_indices(BinOp::Sub, &Term::Extent(Dim::Int(0)), &args[0])?;
            return self.of_indices(BinOp::Max, &args[0], &opposite);
        }
        let name = match function {
            Intrinsic::Pow => "power",
            other => other.name(),
        };
        Ok(applied(want, name, args))
    }

    /// Arithmetic on indices; choices among them stay choices.
    fn of_indices(&mut self, op: BinOp, a: &Term, b: &Term) -> Known<Term> {
        match (a, b) {
            (Term::If(test, x, y), _) => Ok(Term::If(
                test.clone(),
                Box::new(self.of_indices(op, x, b)?),
                Box::new(self.of_indices(op, y, b)?),
            )),
            (_, Term::If(test, x, y)) => Ok(Term::If(
                test.clone(),
                Box::new(self.of_indices(op, a, x)?),
                Box::new(self.of_indices(op, a, y)?),
            )),
            (Term::Extent(a), Term::Extent(b)) => {
                let Some(of) = dim_op(op) else { return unknown("an operation on indices") };
                if matches!(of, DimOp::FloorDiv | DimOp::FloorMod) {
                    self.needs("tir/division_by_zero", Relation::NotEqual, b, &Dim::Int(0));
                }
                Ok(Term::Extent(Dim::op(of, a.clone(), b.clone())))
            }
            _ => unknown("an index of this kind"),
        }
    }

    /// `a op b` on elements of a dtype.
    pub(super) fn operation(&mut self, op: BinOp, dtype: DType, a: Term, b: Term) -> Known<Term> {
        let float = dtype.is_float();
        let name = match op {
            BinOp::Add => ADD,
            BinOp::Sub => SUBTRACT,
            BinOp::Mul => MULTIPLY,
            BinOp::Div if float => DIVIDE,
            BinOp::FloorDiv if float => "floor_divide",
            BinOp::Mod if float => "floor_mod",
            BinOp::FloorDiv | BinOp::Mod => {
                self.divides(&b);
                if op == BinOp::Mod { "floor_mod" } else { "floor_divide" }
            }
            BinOp::BitAnd => "bitwise_and",
            BinOp::BitOr => "bitwise_or",
            BinOp::BitXor => "bitwise_xor",
            BinOp::ShiftLeft | BinOp::ShiftRight => {
                let width = 8 * dtype.size() as i64;
                // A number below the width never stops the program.
                let is_below = |places: f64| (0.0..width as f64).contains(&places);
                if !matches!(b, Term::Number(_, places) if is_below(places)) {
                    let width = Term::Extent(Dim::Int(width));
                    self.stop("tir/shift", vec![b.clone(), width]);
                }
                if op == BinOp::ShiftLeft { "left_shift" } else { "right_shift" }
            }
            BinOp::Min if float => "lesser or first",
            BinOp::Max if float => "greater or first",
            BinOp::Min => MINIMUM,
            BinOp::Max => MAXIMUM,
            _ => return unknown("an operation"),
        };
        Ok(applied(dtype, name, vec![a, b]))
    }

    /// What stops where an integer divisor is 0.
    fn divides(&mut self, divisor: &Term) {
        match divisor {
            Term::Number(_, value) if *value != 0.0 => {}
            Term::Extent(dim) => {
                self.needs("tir/division_by_zero", Relation::NotEqual, dim, &Dim::Int(0));
            }
            Term::Apply(_, name, args) if name.starts_with("astype ") && args.len() == 1 => {
                // A cast that wraps could make 0 of another number.
                match &args[0] {
                    Term::Extent(dim) if name.ends_with("64") => {
                        self.needs("tir/division_by_zero", Relation::NotEqual, dim, &Dim::Int(0));
                    }
                    _ => self.stop("tir/division_by_zero", vec![divisor.clone()]),
                }
            }
            _ => self.stop("tir/division_by_zero", vec![divisor.clone()]),
        }
    }

    /// A condition; the right side of `and` and `or` is evaluated only where it decides.
    pub(super) fn condition(&mut self, expr: &TExpr) -> Known<Condition> {
        match expr {
            TExpr::Unary(UnOp::Not, operand) => {
                Ok(Condition::Not(Box::new(self.condition(operand)?)))
            }
            TExpr::Binary(op @ (BinOp::And | BinOp::Or), operands) => {
                let a = self.condition(&operands.0)?;
                let b = self.under(&a, *op == BinOp::And, |own| own.condition(&operands.1))?;
                let (a, b) = (Box::new(a), Box::new(b));
                Ok(if *op == BinOp::And { Condition::Both(a, b) } else { Condition::Either(a, b) })
            }
            TExpr::Binary(op, operands) if is_truth(*op) => {
                self.comparison(*op, &operands.0, &operands.1)
            }
            _ => Ok(Condition::Truth(self.value(expr, DType::Bool)?)),
        }
    }

    fn comparison(&mut self, op: BinOp, left: &TExpr, right: &TExpr) -> Known<Condition> {
        let dtype = self.typing.compared(left, right);
        let (a, b) = (self.value(left, dtype)?, self.value(right, dtype)?);
        if let (Term::Extent(a), Term::Extent(b)) = (&a, &b) {
            let (a, b) = (a.clone(), b.clone());
            let claim = match op {
                BinOp::Equal => Claim::new(a, Relation::Equal, b),
                BinOp::NotEqual => Claim::new(a, Relation::NotEqual, b),
                BinOp::Less => Claim::new(a, Relation::Less, b),
                BinOp::LessEqual => Claim::new(a, Relation::AtMost, b),
                BinOp::Greater => Claim::new(b, Relation::Less, a),
                _ => Claim::new(b, Relation::AtMost, a),
            };
            return Ok(Condition::Claim(claim));
        }
        let name = match op {
            BinOp::Equal => "equal",
            BinOp::NotEqual => "not_equal",
            BinOp::Less => "less",
            BinOp::LessEqual => "less_equal",
            BinOp::Greater => "greater",
            _ => "greater_equal",
        };
        Ok(Condition::Truth(applied(dtype, name, vec![a, b])))
    }
}

fn is_truth(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Equal
            | BinOp::NotEqual
            | BinOp::Less
            | BinOp::LessEqual
            | BinOp::Greater
            | BinOp::GreaterEqual
            | BinOp::And
            | BinOp::Or
    )
}

/// `select(a == 0 and b == 0, a + b, max(a, b))` is the greater of two floats, of two zeros the positive
/// one; with `-(-a + -b)` the lesser. That is what the operators `maximum` and `minimum` give.
fn extremum(condition: &Condition, then: Term, otherwise: Term) -> Term {
    if let (Condition::Both(p, q), Term::Apply(Domain::Bits, name, args)) = (condition, &otherwise)
        && let [a, b] = args.as_slice()
        && is_zero(p, a)
        && is_zero(q, b)
    {
        let pair = || vec![a.clone(), b.clone()];
        let sum = |pair| Term::apply(Domain::Bits, ADD, pair);
        if name == "greater or first" && then == sum(pair()) {
            return Term::apply(Domain::Bits, MAXIMUM, pair());
        }
        let opposite = |x: &Term| match x {
            Term::Number(domain, value) => Term::Number(*domain, -value),
            _ => Term::apply(Domain::Bits, NEGATIVE, vec![x.clone()]),
        };
        if name == "lesser or first" && then == opposite(&sum(vec![opposite(a), opposite(b)])) {
            return Term::apply(Domain::Bits, MINIMUM, pair());
        }
    }
    condition.choose(then, otherwise)
}

fn is_zero(condition: &Condition, x: &Term) -> bool {
    let Condition::Truth(Term::Apply(Domain::Bits, name, args)) = condition else { return false };
    let zero = matches!(args.get(1), Some(Term::Number(_, value)) if *value == 0.0);
    let equal = name == "equal" || name.starts_with("equal of ");
    equal && args.first() == Some(x) && zero
}

/// An integer of the text.
pub(crate) fn integer(value: i64, dtype: DType) -> Term {
    if dtype == DType::I64 {
        return Term::Extent(Dim::Int(value));
    }
    if dtype.is_float() {
        return float(value as f64, dtype);
    }
    Term::Number(domain_of(dtype, Reals::Nowhere), value as f64)
}

/// A float of the text, as its dtype holds it.
pub(crate) fn float(value: f64, dtype: DType) -> Term {
    let held = relax_semantics::tensor::Tensor::scalar(dtype, Number::Float(value));
    let held = match held.number(0) {
        Number::Float(held) => held,
        Number::Int(held) => held as f64,
    };
    Term::Number(domain_of(dtype, Reals::Nowhere), held)
}

/// A function of elements of a dtype. Where no operand tells the dtype, its name does: what floats of one
/// width make of literals is not what those of another make of them.
pub(crate) fn applied(dtype: DType, name: &str, args: Vec<Term>) -> Term {
    let domain = domain_of(dtype, Reals::Nowhere);
    let exact = is_exact(name) && args.iter().all(is_number);
    if exact || args.iter().any(tells_dtype) {
        Term::apply(domain, name, args)
    } else {
        Term::apply(domain, &format!("{name} of {dtype}"), args)
    }
}

/// The name of a function whose operands were replaced. It tells the dtype where only the former ones did: 2.0 has another root in
/// f32 than in f64. An error where `dtype` is not known then.
pub(crate) fn replaced(
    name: &Name,
    before: &[Term],
    after: &[Term],
    dtype: impl FnOnce() -> Option<DType>,
) -> Known<Name> {
    let tells = |args: &[Term]| args.iter().any(tells_dtype);
    let exact = is_exact(name) && after.iter().all(is_number);
    if exact || is_of_dtype(name) || !tells(before) || tells(after) {
        return Ok(name.clone());
    }
    match dtype() {
        Some(dtype) => Ok(format!("{name} of {dtype}").into()),
        None => unknown("a function of numbers of which the dtype is not known"),
    }
}

/// Whether the name of a function tells its dtype.
fn is_of_dtype(name: &str) -> bool {
    name.starts_with("astype ") || name.contains(" of ") || name.starts_with(ITERATE)
}

/// Functions of numbers that no dtype which holds these numbers rounds.
fn is_exact(name: &str) -> bool {
    TRUTHS.contains(&name) || matches!(name, "greater" | "greater_equal")
}

fn is_number(term: &Term) -> bool {
    matches!(term, Term::Number(..) | Term::Extent(Dim::Int(_)))
}

fn tells_dtype(term: &Term) -> bool {
    match term {
        Term::Number(..) | Term::Extent(_) => false,
        Term::Read(..) | Term::Scalar(_) => true,
        Term::Apply(_, name, args) => is_of_dtype(name) || args.iter().any(tells_dtype),
        Term::If(_, then, otherwise) => tells_dtype(then) || tells_dtype(otherwise),
        Term::Fold(_, _, _, body) | Term::Lookup(_, _, body) => tells_dtype(body),
    }
}

/// A cast; every truth value is a number, and other way round every number but 0 is true.
pub(crate) fn cast(term: Term, from: DType, to: DType) -> Term {
    if from == to {
        return term;
    }
    // An integer of the text is the same in every dtype that holds it.
    if let (Term::Extent(Dim::Int(value)), false) = (&term, to.class() == Class::Bool) {
        let small = value.unsigned_abs() <= 127 && (*value >= 0 || to.class() != Class::Unsigned);
        if small {
            return integer(*value, to);
        }
    }
    Term::apply(domain_of(to, Reals::Nowhere), &format!("astype {from} {to}"), vec![term])
}
