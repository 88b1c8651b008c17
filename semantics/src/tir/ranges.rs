//! What is known of the indices of a tensor program: each as a dim, with the ranges of loops as facts.

use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::DimVar;
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr, UnOp};
use std::collections::{BTreeMap, BTreeSet};

/// Far from the ends of i64: what stays within these leaves room for a few more steps.
const SAFE: i64 = 1 << 62;
/// Parts of a dim that a name stands for.
const MAX_SIZE: usize = 64;

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
    /// Names of what is no index arithmetic.
    data: BTreeSet<ScalarId>,
}

impl Ranges {
    /// A loop variable: from its first value up to before its last.
    pub fn enter(&mut self, facts: &mut dyn Facts, item: &Loop) {
        let var = Dim::Var(Name::new(format!("loop {}", item.var.0)));
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
            if size(&dim) <= MAX_SIZE {
                self.dims.insert(var, dim);
            }
        } else if !self.is_index(value) {
            self.data.insert(var);
        }
    }

    /// An index as a dim: made of loop variables, symbolic variables and literals alone.
    #[must_use]
    pub fn dim(&self, expr: &TExpr) -> Option<Dim> {
        let op = |op, a: &TExpr, b: &TExpr| Some(Dim::op(op, self.dim(a)?, self.dim(b)?));
        match expr {
            TExpr::Int(value) => Some(Dim::Int(*value)),
            TExpr::Dim(name) => Some(Dim::Var(name.clone())),
            TExpr::Scalar(id) => self.dims.get(id).cloned(),
            TExpr::Unary(UnOp::Negate, operand) => op(DimOp::Sub, &TExpr::Int(0), operand),
            TExpr::Cast(DType::I64, operand) => self.dim(operand),
            TExpr::Binary(binary, operands) => op(dim_op(*binary)?, &operands.0, &operands.1),
            _ => None,
        }
    }

    /// Whether an expression is index arithmetic, which traps where it leaves i64.
    #[must_use]
    pub fn is_index(&self, expr: &TExpr) -> bool {
        match expr {
            TExpr::Int(_) | TExpr::Dim(_) => true,
            TExpr::Scalar(id) => !self.data.contains(id),
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
        let limits = std::iter::once(Dim::Int(SAFE)).chain(extents.iter().cloned());
        let mut limits = limits.map(|limit| Claim::new(dim.clone(), Relation::AtMost, limit));
        is_proved(facts, &Claim::new(-SAFE, Relation::AtMost, dim.clone()))
            && limits.any(|claim| is_proved(facts, &claim))
    }
}

fn size(dim: &Dim) -> usize {
    match dim {
        Dim::Int(_) | Dim::Var(_) => 1,
        Dim::Op(_, operands) => 1 + size(&operands.0) + size(&operands.1),
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
