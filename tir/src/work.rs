//! How much a call of a tensor program computes and moves: float operations and elements of each buffer, in its dims. Both are
//! upper bounds: of two branches the longer one counts, a loop that a variable of another loop bounds counts as in the middle of
//! that loop, and a buffer is read or written once.

use crate::dims::dim_with;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{visit, visit_own};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Intrinsic, Loop, Param, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeMap;

/// Work of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Arithmetic and functions on floats; a fused multiply-add is two, a comparison or cast none.
    pub operations: Dim,
    /// Elements read or written of each buffer among the parameters, in their order.
    pub elements: Vec<Dim>,
}

/// `None` for an external program, where a bound of a loop depends on elements, and where counts leave u64.
#[must_use]
pub fn work(program: &TensorProgram) -> Option<Work> {
    let typing = Typing::new(program).ok()?;
    let mut counter = Counter { program, typing, scalars: BTreeMap::new() };
    for param in &program.params {
        if let Param::Scalar(id) = param {
            let name = program.scalar(*id).name.clone();
            counter.scalars.insert(*id, Dim::Var(name));
        }
    }
    let count = counter.statements(program.body.as_ref()?)?;
    let elements = program.buffer_params().map(|id| {
        let whole = Sum::of(&Dim::product(&program.buffer(id).shape));
        let touched = count.accesses.get(&id).cloned().unwrap_or_default();
        if whole.is_at_most(&touched) {
            whole.dim()
        } else {
            Dim::op(DimOp::Min, whole.dim(), touched.dim())
        }
    });
    Some(Work { operations: count.operations.dim(), elements: elements.collect() })
}

struct Counter<'p> {
    program: &'p TensorProgram,
    typing: Typing<'p>,
    /// Scalars by what they are at most, or in the middle of their loop.
    scalars: BTreeMap<ScalarId, Dim>,
}

/// What statements do.
#[derive(Clone, Debug, Default)]
struct Count {
    operations: Sum,
    accesses: BTreeMap<BufferId, Sum>,
}

impl Counter<'_> {
    fn statements(&mut self, statements: &[Stmt]) -> Option<Count> {
        let mut all = Count::default();
        for stmt in statements {
            all = all.joined(self.statement(stmt)?, u64::checked_add)?;
        }
        Some(all)
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<Count> {
        let mut own = Count::default();
        visit_own(stmt, &mut |expr| self.count(expr, &mut own));
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                let trips = self.trips(loops)?;
                let inside = self.statements(body)?;
                own.joined(inside.times(&trips)?, u64::checked_add)
            }
            // What sets elements to their first value is run once for all values of the reduction axes.
            StmtKind::Block { axes, body, .. } => {
                for axis in axes {
                    if let Some(value) = self.dim(&axis.value) {
                        self.scalars.insert(axis.var, value);
                    }
                }
                own.joined(self.statements(body)?, u64::checked_add)
            }
            StmtKind::If { then, otherwise, .. } => {
                let (then, otherwise) = (self.statements(then)?, self.statements(otherwise)?);
                own.joined(then.joined(otherwise, larger)?, u64::checked_add)
            }
            StmtKind::Store { buffer, update, .. } => {
                let is_float = self.program.buffer(*buffer).dtype.is_float();
                own.operations.add_literal(u64::from(update.is_some() && is_float))?;
                own.accesses.entry(*buffer).or_default().add_literal(1)?;
                Some(own)
            }
            StmtKind::Let { var, value } => {
                if let Some(value) = self.dim(value) {
                    self.scalars.insert(*var, value);
                }
                Some(own)
            }
            StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => Some(own),
        }
    }

    /// Adds one evaluation of an expression.
    fn count(&self, expr: &TExpr, to: &mut Count) {
        visit(expr, &mut |part| match part {
            TExpr::Load { buffer, .. } => {
                let _ = to.accesses.entry(*buffer).or_default().add_literal(1);
            }
            TExpr::Unary(..) | TExpr::Binary(..) | TExpr::Call(..)
                if self.typing.dtype(part).is_float() =>
            {
                let is_fused = matches!(part, TExpr::Call(Intrinsic::Fma, _));
                let _ = to.operations.add_literal(1 + u64::from(is_fused));
            }
            _ => {}
        });
    }

    /// The iterations of a nest; its variables get the middle of their ranges.
    fn trips(&mut self, loops: &[Loop]) -> Option<Sum> {
        let mut all = Sum::literal(1);
        for item in loops {
            let (start, stop) = (self.dim(&item.start)?, self.dim(&item.stop)?);
            let (extent, middle) = if start == Dim::Int(0) {
                (stop.clone(), Dim::op(DimOp::FloorDiv, stop, Dim::Int(2)))
            } else {
                let both = Dim::op(DimOp::Add, start.clone(), stop.clone());
                let extent = Dim::op(DimOp::Sub, stop, start);
                (extent, Dim::op(DimOp::FloorDiv, both, Dim::Int(2)))
            };
            self.scalars.insert(item.var, middle);
            all = all.times(&Sum::of(&extent))?;
        }
        Some(all)
    }

    /// An expression as a dim, where only dims, scalars of the call and loop variables are in it.
    fn dim(&self, expr: &TExpr) -> Option<Dim> {
        dim_with(expr, &|id| self.scalars.get(&id).cloned())
    }
}

impl Count {
    fn joined(mut self, other: Self, by: impl Fn(u64, u64) -> Option<u64> + Copy) -> Option<Self> {
        self.operations = self.operations.joined(other.operations, by)?;
        for (buffer, sum) in other.accesses {
            let own = self.accesses.remove(&buffer).unwrap_or_default();
            self.accesses.insert(buffer, own.joined(sum, by)?);
        }
        Some(self)
    }

    fn times(self, trips: &Sum) -> Option<Self> {
        let accesses = self.accesses.into_iter().map(|(id, sum)| Some((id, sum.times(trips)?)));
        Some(Self {
            operations: self.operations.times(trips)?,
            accesses: accesses.collect::<Option<_>>()?,
        })
    }
}

fn larger(a: u64, b: u64) -> Option<u64> {
    Some(a.max(b))
}

/// A sum of products, each with its coefficient: the factors are in order, and no sums or products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum(BTreeMap<Vec<Dim>, u64>);

impl Sum {
    fn literal(value: u64) -> Self {
        let mut sum = Self::default();
        if value > 0 {
            sum.0.insert(Vec::new(), value);
        }
        sum
    }

    fn of(dim: &Dim) -> Self {
        match dim {
            Dim::Int(value) => Self::literal(u64::try_from(*value).unwrap_or(0)),
            Dim::Op(DimOp::Add, parts) => {
                let (a, b) = (Self::of(&parts.0), Self::of(&parts.1));
                a.joined(b, u64::checked_add).unwrap_or_else(|| Self::atom(dim))
            }
            Dim::Op(DimOp::Mul, parts) => {
                let (a, b) = (Self::of(&parts.0), Self::of(&parts.1));
                a.times(&b).unwrap_or_else(|| Self::atom(dim))
            }
            _ => Self::atom(dim),
        }
    }

    fn atom(dim: &Dim) -> Self {
        Self(BTreeMap::from([(vec![dim.clone()], 1)]))
    }

    fn add_literal(&mut self, value: u64) -> Option<()> {
        *self = std::mem::take(self).joined(Self::literal(value), u64::checked_add)?;
        Some(())
    }

    fn joined(mut self, other: Self, by: impl Fn(u64, u64) -> Option<u64>) -> Option<Self> {
        for (factors, value) in other.0 {
            let own = self.0.get(&factors).copied().unwrap_or(0);
            self.0.insert(factors, by(own, value)?);
        }
        Some(self)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (left, a) in &self.0 {
            for (right, b) in &other.0 {
                let mut factors = left.clone();
                factors.extend(right.iter().cloned());
                factors.sort();
                let term = Self(BTreeMap::from([(factors, a.checked_mul(*b)?)]));
                product = product.joined(term, u64::checked_add)?;
            }
        }
        Some(product)
    }

    /// Whether each product of this one is in the other, as often or more.
    fn is_at_most(&self, other: &Self) -> bool {
        self.0.iter().all(|(factors, value)| other.0.get(factors).is_some_and(|own| own >= value))
    }

    fn dim(&self) -> Dim {
        let term = |(factors, value): (&Vec<Dim>, &u64)| {
            let value = Dim::Int(i64::try_from(*value).unwrap_or(i64::MAX));
            let is_one = value == Dim::Int(1) && !factors.is_empty();
            let all = (!is_one).then_some(value).into_iter().chain(factors.iter().cloned());
            all.reduce(|a, b| Dim::op(DimOp::Mul, a, b)).unwrap_or(Dim::Int(1))
        };
        let terms = self.0.iter().rev().map(term);
        terms.reduce(|a, b| Dim::op(DimOp::Add, a, b)).unwrap_or(Dim::Int(0))
    }
}

#[cfg(test)]
mod tests {
    use super::work;
    use crate::test_program::program;

    /// The operations of a program, and the elements of its buffers.
    fn counted(params: &str, body: &str) -> Option<(String, Vec<String>)> {
        let work = work(&program(params, body))?;
        let elements = work.elements.iter().map(ToString::to_string).collect();
        Some((work.operations.to_string(), elements))
    }

    const VECTORS: &str = "X: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")";

    #[track_caller]
    fn is(params: &str, body: &str, operations: &str, elements: &[&str]) {
        let (found, of_buffers) = counted(params, body).expect("it can be counted");
        let of_buffers: Vec<&str> = of_buffers.iter().map(String::as_str).collect();
        assert_eq!((found.as_str(), of_buffers.as_slice()), (operations, elements));
    }

    #[test]
    fn each_operation_of_a_loop_counts_as_often_as_it_runs() {
        let body = "for i in grid(n):\n    Y[i] = exp(X[i]) * 2.0 + 1.0";
        is(VECTORS, body, "3 * n", &["n", "n"]);
        let params = "X: Buffer((\"n\", \"k\"), \"f32\"), W: Buffer((\"k\", \"m\"), \"f32\"), Y: Buffer((\"n\", \"m\"), \"f32\")";
        let body = "for i, j, t in grid(n, m, k):\n    Y[i, j] += X[i, t] * W[t, j]";
        let elements = ["k * n", "k * m", "m * n"].map(|all| format!("min({all}, k * m * n)"));
        is(params, body, "2 * k * m * n", &elements.each_ref().map(String::as_str));
    }

    #[test]
    fn the_longer_branch_counts_and_no_more_elements_than_there_are() {
        let body = "for i in grid(n):\n    if i < 3:\n        Y[i] = X[0]\n    else:\n        Y[i] = X[i] + X[0] - 1.0";
        is(VECTORS, body, "2 * n", &["n", "n"]);
        let body = "for i in grid(3):\n    Y[i] = X[i]";
        is(VECTORS, body, "0", &["min(n, 3)", "min(n, 3)"]);
    }

    #[test]
    fn integers_are_no_float_operations() {
        let params = "X: Buffer((\"n\",), \"i64\"), Y: Buffer((\"n\",), \"i64\")";
        is(params, "for i in grid(n):\n    Y[i] = X[i] * 2 + 1", "0", &["n", "n"]);
    }

    #[test]
    fn a_loop_that_elements_bound_is_not_counted() {
        let params = "X: Buffer((\"n\",), \"i64\"), Y: Buffer((\"n\",), \"f32\")";
        let body = "for i in grid(n):\n    t = X[i]\n    for j in grid(t):\n        Y[i] = 1.0";
        assert_eq!(counted(params, body), None);
    }
}
