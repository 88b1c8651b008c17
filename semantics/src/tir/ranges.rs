//! What is known of the indices of a tensor program: each as a dim, with the ranges of loops as facts.

use super::walk::visit;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, Param, ScalarId, TExpr, UnOp};
use relax_syntax::ir::{DimVar, TensorProgram};
use std::collections::{BTreeMap, BTreeSet};

/// Far from the ends of i64: what stays within these leaves room for a few more steps.
const SAFE: i64 = 1 << 62;
/// Parts of a dim that a name stands for.
const MAX_SIZE: usize = 64;

/// A scalar that is no arithmetic on others, under a name that no text has.
fn scalar(id: ScalarId) -> Dim {
    Dim::Var(Name::new(format!("loop {}", id.0)))
}

/// Whether a claim holds for all values.
#[must_use]
pub fn is_proved(facts: &mut dyn Facts, claim: &Claim) -> bool {
    facts.decide(claim) == Answer::Proved
}

/// Assumes of symbolic variables what is declared of them.
pub fn assume_declared(facts: &mut dyn Facts, dims: &[DimVar]) {
    for dim in dims {
        let var = || Dim::Var(dim.name.clone());
        let lower = dim.lower.unwrap_or(0).max(0);
        facts.assume(Claim::new(lower, Relation::AtMost, var()));
        if let Some(upper) = dim.upper {
            facts.assume(Claim::new(var(), Relation::AtMost, upper));
        }
        if let Some(divisor) = dim.multiple_of {
            facts.assume(Claim::new(divisor, Relation::Divides, var()));
        }
    }
}

/// The scalars in force somewhere, and what they are as dims. Facts on them are in the innermost scope
/// of whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    dims: BTreeMap<ScalarId, Dim>,
    /// Names of what is no index arithmetic, and what they stand for.
    data: BTreeMap<ScalarId, TExpr>,
    /// Those of `data` that are i64, and dims of their own.
    opaque: BTreeSet<ScalarId>,
}

impl Ranges {
    /// At the first statement of a program: the scalars among its parameters are integers, of which no more is known.
    #[must_use]
    pub fn of(program: &TensorProgram) -> Self {
        let mut ranges = Self::default();
        for param in &program.params {
            if let Param::Scalar(id) = param {
                ranges.dims.insert(*id, scalar(*id));
            }
        }
        ranges
    }

    /// A loop variable: from its first value up to before its last.
    pub fn enter(&mut self, facts: &mut dyn Facts, item: &Loop) {
        let var = scalar(item.var);
        if let Some(start) = self.dim(&item.start) {
            facts.assume(Claim::new(start, Relation::AtMost, var.clone()));
        }
        if let Some(stop) = self.dim(&item.stop) {
            facts.assume(Claim::new(var.clone(), Relation::Less, stop));
        }
        self.dims.insert(item.var, var);
    }

    /// What a loop variable is called in dims.
    #[must_use]
    pub fn name(&self, var: ScalarId) -> Option<Name> {
        match self.dims.get(&var)? {
            Dim::Var(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Another name for an index.
    pub fn bind(&mut self, var: ScalarId, value: &TExpr) {
        if let Some(dim) = self.dim(value) {
            // `t = t0 + t0` again and again must not grow; nothing is then known of it.
            if dim.size() <= MAX_SIZE {
                self.dims.insert(var, dim);
            }
        } else if !self.is_index(value) {
            self.data.insert(var, value.clone());
        }
    }

    /// A name of an i64 that is no index arithmetic, such as an element. As a dim it is a variable, so that checks bound it;
    /// arithmetic on it is no dim, because it may wrap.
    pub fn bind_data(&mut self, var: ScalarId, value: &TExpr) {
        self.bind(var, value);
        if self.data.contains_key(&var) {
            self.dims.insert(var, scalar(var));
            self.opaque.insert(var);
        }
    }

    /// An index as a dim: made of loop variables, symbolic variables and literals alone, or a name by [`Self::bind_data`].
    #[must_use]
    pub fn dim(&self, expr: &TExpr) -> Option<Dim> {
        let op = |op, a: &TExpr, b: &TExpr| Some(Dim::op(op, self.dim(a)?, self.dim(b)?));
        match expr {
            TExpr::Int(value) => Some(Dim::Int(*value)),
            TExpr::Dim(name) => Some(Dim::Var(name.clone())),
            TExpr::Scalar(id) => self.dims.get(id).cloned(),
            _ if !self.opaque.is_empty() && !self.is_index(expr) => None,
            TExpr::Unary(UnOp::Negate, operand) => op(DimOp::Sub, &TExpr::Int(0), operand),
            TExpr::Cast(DType::I64, operand) => self.dim(operand),
            TExpr::Binary(binary, operands) => {
                let (op, right) = integer_op(*binary, &operands.1)?;
                let right = right.map_or_else(|| self.dim(&operands.1), Some)?;
                Some(Dim::op(op, self.dim(&operands.0)?, right))
            }
            _ => None,
        }
    }

    /// An integer of any dtype as a dim, with that dtype where it is no index arithmetic: what casts and operations
    /// make of indices where it is proved that none of them wraps, and lowest bits of anything. Of those only the
    /// range is known; as it is assumed, the caller opens a scope of facts.
    fn integer(&self, facts: &mut dyn Facts, expr: &TExpr) -> Option<(Dim, Option<DType>)> {
        if let Some(dim) = self.dim(expr) {
            return Some((dim, None));
        }
        let (dim, dtype) = match expr {
            TExpr::Scalar(id) => {
                // What it has read may have been written again since.
                let value = self.data.get(id).filter(|value| !reads(value))?;
                return self.integer(facts, value);
            }
            TExpr::Cast(dtype, operand) => (self.integer(facts, operand)?.0, *dtype),
            TExpr::Binary(binary, operands) => {
                let Some((left, left_dtype)) = self.integer(facts, &operands.0) else {
                    return Some((lowest_bits(facts, expr)?, None));
                };
                let (op, right) = match shifted_left(*binary, &operands.1) {
                    Some(power) => (DimOp::Mul, Some(power)),
                    None => integer_op(*binary, &operands.1)?,
                };
                let (right, right_dtype) = match right {
                    Some(right) => (right, None),
                    None => self.integer(facts, &operands.1)?,
                };
                let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod);
                let positive = Claim::new(0, Relation::Less, right.clone());
                if divides && !is_proved(facts, &positive) {
                    return None;
                }
                (Dim::op(op, left, right), left_dtype.or(right_dtype)?)
            }
            _ => return None,
        };
        let (least, most) = integer_limits(dtype)?;
        let holds = is_proved(facts, &Claim::new(least, Relation::AtMost, dim.clone()))
            && is_proved(facts, &Claim::new(dim.clone(), Relation::AtMost, most));
        holds.then_some((dim, Some(dtype)))
    }

    /// Whether a count of bits is proved to be one that its dtype has, or any has where it is index arithmetic.
    pub fn is_shift_count(&self, facts: &mut dyn Facts, count: &TExpr) -> bool {
        let bits = |dtype: DType| i64::try_from(dtype.size() * 8).unwrap_or(8);
        self.is_integer_below(facts, count, |dtype| Dim::Int(dtype.map_or(8, bits)))
    }

    /// Whether an integer of any dtype is proved to be at least 0 and less than an extent.
    pub fn is_integer_within(&self, facts: &mut dyn Facts, integer: &TExpr, extent: &Dim) -> bool {
        self.is_integer_below(facts, integer, |_| extent.clone())
    }

    fn is_integer_below(
        &self,
        facts: &mut dyn Facts,
        integer: &TExpr,
        limit: impl FnOnce(Option<DType>) -> Dim,
    ) -> bool {
        facts.push();
        let below = self.integer(facts, integer).is_some_and(|(dim, dtype)| {
            is_proved(facts, &Claim::new(0, Relation::AtMost, dim.clone()))
                && is_proved(facts, &Claim::new(dim, Relation::Less, limit(dtype)))
        });
        facts.pop();
        below
    }

    /// Whether an expression is index arithmetic, which traps where it leaves i64.
    #[must_use]
    pub fn is_index(&self, expr: &TExpr) -> bool {
        match expr {
            TExpr::Int(_) | TExpr::Dim(_) => true,
            TExpr::Scalar(id) => !self.data.contains_key(id),
            TExpr::Unary(UnOp::Negate | UnOp::Invert, operand)
            | TExpr::Cast(DType::I64, operand) => self.is_index(operand),
            TExpr::Binary(op, operands) => {
                !is_comparison(*op) && self.is_index(&operands.0) && self.is_index(&operands.1)
            }
            TExpr::Select(parts) => self.is_index(&parts.1) && self.is_index(&parts.2),
            TExpr::Call(_, operands) => operands.iter().all(|operand| self.is_index(operand)),
            TExpr::Float(_) | TExpr::Bool(_) | TExpr::Load { .. } => false,
            TExpr::Unary(UnOp::Not, _) | TExpr::Cast(..) => false,
        }
    }

    /// Assumes a condition, as far as it compares indices.
    pub fn assume(&self, facts: &mut dyn Facts, condition: &TExpr) {
        let TExpr::Binary(op, operands) = condition else { return };
        let (left, right) = (&operands.0, &operands.1);
        let relation = match op {
            BinOp::And => {
                self.assume(facts, left);
                return self.assume(facts, right);
            }
            BinOp::Equal => Relation::Equal,
            BinOp::NotEqual => Relation::NotEqual,
            BinOp::Less | BinOp::Greater => Relation::Less,
            BinOp::LessEqual | BinOp::GreaterEqual => Relation::AtMost,
            _ => return,
        };
        if let (Some(a), Some(b)) = (self.dim(left), self.dim(right)) {
            let turned = matches!(op, BinOp::Greater | BinOp::GreaterEqual);
            let (a, b) = if turned { (b, a) } else { (a, b) };
            facts.assume(Claim::new(a, relation, b));
        }
    }

    /// Whether an index is proved to be within an extent.
    #[must_use]
    pub fn is_within(&self, facts: &mut dyn Facts, index: &TExpr, extent: &Dim) -> bool {
        let Some(dim) = self.dim(index) else { return false };
        is_proved(facts, &Claim::new(0, Relation::AtMost, dim.clone()))
            && is_proved(facts, &Claim::new(dim, Relation::Less, extent.clone()))
    }

    /// Whether the value of index arithmetic is proved to be an i64, given that `extents` are.
    #[must_use]
    pub fn stays_in_i64(&self, facts: &mut dyn Facts, expr: &TExpr, extents: &[Dim]) -> bool {
        let Some(dim) = self.dim(expr) else { return false };
        let limits = || std::iter::once(Dim::Int(SAFE)).chain(extents.iter().cloned());
        let lower = |limit| {
            let least = Dim::op(DimOp::Sub, Dim::Int(0), limit);
            Claim::new(least, Relation::AtMost, dim.clone())
        };
        let upper = |limit| Claim::new(dim.clone(), Relation::AtMost, limit);
        limits().any(|limit| is_proved(facts, &lower(limit)))
            && limits().any(|limit| is_proved(facts, &upper(limit)))
    }
}

/// What holds where a condition does not. What compares no indices, as floats, says nothing there: whoever assumes it asks
/// for both sides as dims.
#[must_use]
pub fn opposites(condition: &TExpr) -> Vec<TExpr> {
    let (op, operands) = match condition {
        TExpr::Unary(UnOp::Not, operand) => return vec![(**operand).clone()],
        TExpr::Binary(op, operands) => (op, operands),
        _ => return Vec::new(),
    };
    let opposite = match op {
        BinOp::Or => return [opposites(&operands.0), opposites(&operands.1)].concat(),
        BinOp::Equal => BinOp::NotEqual,
        BinOp::NotEqual => BinOp::Equal,
        BinOp::Less => BinOp::GreaterEqual,
        BinOp::GreaterEqual => BinOp::Less,
        BinOp::LessEqual => BinOp::Greater,
        BinOp::Greater => BinOp::LessEqual,
        _ => return Vec::new(),
    };
    vec![TExpr::binary(opposite, operands.0.clone(), operands.1.clone())]
}

/// The operation on dims that an operation on integers is, and its right operand where that is another one: the
/// lowest bits are a remainder, a shift to the right is a quotient, of negative integers too.
fn integer_op(op: BinOp, right: &TExpr) -> Option<(DimOp, Option<Dim>)> {
    match (op, right) {
        (BinOp::BitAnd, TExpr::Int(mask)) => Some((DimOp::FloorMod, Some(after_mask(*mask)?))),
        (BinOp::ShiftRight, TExpr::Int(bits)) => Some((DimOp::FloorDiv, Some(power(*bits)?))),
        _ => Some((dim_op(op)?, None)),
    }
}

/// What a shift to the left multiplies by, where no bits are lost: index arithmetic loses them without a trap.
fn shifted_left(op: BinOp, right: &TExpr) -> Option<Dim> {
    match (op, right) {
        (BinOp::ShiftLeft, TExpr::Int(bits)) => power(*bits),
        _ => None,
    }
}

fn power(bits: i64) -> Option<Dim> {
    (0..62).contains(&bits).then(|| Dim::Int(1 << bits))
}

/// The power of two after a mask of lowest bits.
fn after_mask(mask: i64) -> Option<Dim> {
    let next = mask.checked_add(1)?;
    (next > 0 && next.count_ones() == 1).then_some(Dim::Int(next))
}

fn reads(expr: &TExpr) -> bool {
    let mut reads = false;
    visit(expr, &mut |part| reads |= matches!(part, TExpr::Load { .. }));
    reads
}

/// `x & m` of any integer `x`, as a dim of which no more is known than that it is in range.
fn lowest_bits(facts: &mut dyn Facts, expr: &TExpr) -> Option<Dim> {
    let TExpr::Binary(BinOp::BitAnd, operands) = expr else { return None };
    let TExpr::Int(mask @ 0..) = operands.1 else { return None };
    let own = Dim::Var(Name::new(format!("value {expr:?}")));
    facts.assume(Claim::new(0, Relation::AtMost, own.clone()));
    facts.assume(Claim::new(own.clone(), Relation::AtMost, mask));
    Some(own)
}

/// The least and the greatest value of an integer dtype, of those that an i64 holds.
fn integer_limits(dtype: DType) -> Option<(i64, i64)> {
    let bits = u32::try_from(dtype.size() * 8).ok()?;
    match dtype.class() {
        Class::Signed => Some((i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))),
        Class::Unsigned => Some((0, if bits == 64 { i64::MAX } else { (1 << bits) - 1 })),
        Class::Bool | Class::Float => None,
    }
}

/// The operation on dims that an operation on integers is.
#[must_use]
pub fn dim_op(op: BinOp) -> Option<DimOp> {
    Some(match op {
        BinOp::Add => DimOp::Add,
        BinOp::Sub => DimOp::Sub,
        BinOp::Mul => DimOp::Mul,
        BinOp::FloorDiv => DimOp::FloorDiv,
        BinOp::Mod => DimOp::FloorMod,
        BinOp::Min => DimOp::Min,
        BinOp::Max => DimOp::Max,
        _ => return None,
    })
}

/// Whether an operation gives a bool.
#[must_use]
pub fn is_comparison(op: BinOp) -> bool {
    use BinOp::{And, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, Or};
    matches!(op, And | Or | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

/// A dim as an expression of a program that binds its variables. Neutral operands are left out, so that an
/// extent has the form in which programs spell it.
#[must_use]
pub fn as_expr(dim: &Dim) -> TExpr {
    let (op, operands) = match dim {
        Dim::Int(value) => return TExpr::Int(*value),
        Dim::Var(name) => return TExpr::Dim(name.clone()),
        Dim::Op(op, operands) => (*op, operands),
    };
    let (a, b) = (as_expr(&operands.0), as_expr(&operands.1));
    match (op, &a, &b) {
        (DimOp::Add, TExpr::Int(0), _) | (DimOp::Mul, TExpr::Int(1), _) => b,
        (DimOp::Add | DimOp::Sub, _, TExpr::Int(0)) => a,
        (DimOp::Mul | DimOp::FloorDiv | DimOp::CeilDiv, _, TExpr::Int(1)) => a,
        (DimOp::Add, ..) => TExpr::binary(BinOp::Add, a, b),
        (DimOp::Sub, ..) => TExpr::binary(BinOp::Sub, a, b),
        (DimOp::Mul, ..) => TExpr::binary(BinOp::Mul, a, b),
        (DimOp::FloorDiv, ..) => TExpr::binary(BinOp::FloorDiv, a, b),
        (DimOp::FloorMod, ..) => TExpr::binary(BinOp::Mod, a, b),
        (DimOp::Min, ..) => TExpr::binary(BinOp::Min, a, b),
        (DimOp::Max, ..) => TExpr::binary(BinOp::Max, a, b),
        (DimOp::CeilDiv, ..) => negated(TExpr::binary(BinOp::FloorDiv, negated(a), b)),
    }
}

/// The sign of a literal belongs to it, as in text.
fn negated(expr: TExpr) -> TExpr {
    match expr {
        TExpr::Int(value) if value != i64::MIN => TExpr::Int(-value),
        operand => TExpr::Unary(UnOp::Negate, Box::new(operand)),
    }
}
