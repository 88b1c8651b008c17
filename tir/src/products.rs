//! Matrix products: nests that multiply matrices, found in the text: `T[i, j] = 0; T[i, j] += f64(X[i, k]) * f64(W[k, j]);
//! Y[i, j] = f(f32(T[i, j]))`, with any indices, a batch, vectors, or sums in f32 in the output itself, and an epilogue of more stores.

mod roles;

pub use roles::{Roles, follows};

use crate::analysis::dependence::{Nest, are_independent};
use crate::workspaces::is_forgotten;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// A buffer with the indices of an access.
#[derive(Clone, Copy, Debug)]
pub struct At<'s> {
    /// Which.
    pub buffer: BufferId,
    /// One a dim.
    pub indices: &'s [TExpr],
}

/// A matrix in panels of some columns: its element `(k, j)` is `P[j // width, k, j % width]`, so that a panel lies in one
/// piece, as tiles of registers read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// `j`
    pub column: ScalarId,
    /// How many columns a panel has.
    pub width: i64,
}

impl At<'_> {
    /// The panels that the last three indices go to, where the column stands in no other one.
    #[must_use]
    pub fn panels(&self) -> Option<Panels> {
        let [before @ .., panel, term, within] = self.indices else { return None };
        let TExpr::Binary(BinOp::FloorDiv, both) = panel else { return None };
        let (&TExpr::Scalar(column), &TExpr::Int(width @ 1..)) = (&both.0, &both.1) else {
            return None;
        };
        let same = *within == TExpr::Binary(BinOp::Mod, both.clone());
        let alone = !mentions(before, column) && !mentions(std::slice::from_ref(term), column);
        (same && alone).then_some(Panels { column, width })
    }
}

/// A product of f32 or f64 matrices.
#[derive(Clone, Debug)]
pub struct Product<'s> {
    /// Of the matrices, and of the result.
    pub dtype: DType,
    /// Loops over elements of the result, outermost first.
    pub loops: Vec<&'s Loop>,
    /// The loop over terms.
    pub along: &'s Loop,
    /// What is multiplied.
    pub factors: [At<'s>; 2],
    /// Where the result goes.
    pub out: At<'s>,
    /// What is stored, where that is not the sum itself, and the sum as it stands in it.
    pub finish: Option<(&'s TExpr, TExpr)>,
    /// What follows for each element: stores and names that touch nothing of other elements of what the nest writes.
    pub tail: &'s [Stmt],
    /// Where the sum is set to 0 at the first term: over no terms nothing is written.
    pub only_with_terms: bool,
}

/// A store without an update, or with one.
fn store(stmt: &Stmt, wanted: Option<BinOp>) -> Option<(At<'_>, &TExpr)> {
    match &stmt.kind {
        StmtKind::Store { buffer, indices, update, value } if *update == wanted => {
            Some((At { buffer: *buffer, indices }, value))
        }
        _ => None,
    }
}

impl<'s> Product<'s> {
    /// The product that a loop is, if it is one.
    #[must_use]
    pub fn of(program: &TensorProgram, stmt: &'s Stmt) -> Option<Self> {
        let (loops, inner) = flat(std::slice::from_ref(stmt));
        let found = staged(program, loops.clone(), inner);
        let found = found.or_else(|| blocked(program, loops, inner))?;
        let fits = matches!(found.dtype, DType::F32 | DType::F64)
            && found.factors.iter().all(|at| program.buffer(at.buffer).dtype == found.dtype)
            && found.factors.iter().all(|at| at.buffer != found.out.buffer)
            && found.loops.iter().chain([&found.along]).all(|item| item.start == TExpr::Int(0));
        let vars = || found.loops.iter().map(|item| item.var).collect();
        let is_apart = found.tail.is_empty() || are_independent(&[Nest { vars: vars(), stmt }]);
        (fits && is_apart).then_some(found)
    }
}

/// Loops and blocks with one statement in each, and what stands inside.
#[must_use]
pub fn flat(mut body: &[Stmt]) -> (Vec<&Loop>, &[Stmt]) {
    let mut all = Vec::new();
    loop {
        match body {
            [Stmt { kind: StmtKind::For { loops, body: inner, .. }, .. }] => {
                all.extend(loops);
                body = inner;
            }
            [Stmt { kind: StmtKind::Block { axes, init, body: inner, .. }, .. }]
                if axes.is_empty() && init.is_empty() =>
            {
                body = inner;
            }
            _ => return (all, body),
        }
    }
}

/// A sum of products of any two expressions, over any loops: `T[…] = 0; T[…] += a * b; Y[…] = f(f32(T[…]))`, or `f(T[…])` where
/// `Y` has the dtype of the sum.
#[derive(Clone, Debug)]
pub struct SumOfProducts<'s> {
    /// Loops over elements of the result, outermost first.
    pub loops: Vec<&'s Loop>,
    /// The loops over terms.
    pub along: Vec<&'s Loop>,
    /// What is multiplied, in the dtype of the sum.
    pub factors: [&'s TExpr; 2],
    /// That dtype.
    pub wide: DType,
    /// What they are summed in.
    pub total: At<'s>,
    /// Where the result goes.
    pub out: At<'s>,
    /// What is stored, where that is not the sum itself, and the sum as it stands in it.
    pub finish: Option<(&'s TExpr, TExpr)>,
}

impl<'s> SumOfProducts<'s> {
    /// The sum that a loop is, if it is one.
    #[must_use]
    pub fn of(program: &TensorProgram, stmt: &'s Stmt) -> Option<Self> {
        let (loops, body) = flat(std::slice::from_ref(stmt));
        summed(program, loops, body)
    }

    /// Factors `W[…, i, j]`, as an element of a buffer: `j` is what is summed over, and all before it are loops over the result.
    pub fn row_factors(&self) -> impl Iterator<Item = At<'s>> {
        let along = match self.along[..] {
            [along] => Some(along.var),
            _ => None,
        };
        self.factors.into_iter().filter_map(move |factor| {
            let mut factor = factor;
            while let TExpr::Cast(_, inner) = factor {
                factor = inner;
            }
            let TExpr::Load { buffer, indices } = factor else { return None };
            let places: Option<Vec<ScalarId>> = indices.iter().map(TExpr::as_scalar).collect();
            let (last, rows) = places.as_deref()?.split_last()?;
            let fits = Some(*last) == along
                && !rows.is_empty()
                && rows.iter().all(|row| self.loops.iter().any(|item| item.var == *row));
            fits.then_some(At { buffer: *buffer, indices })
        })
    }
}

/// First value, terms and result as statements, of factors that are elements of matrices.
fn staged<'s>(
    program: &TensorProgram,
    loops: Vec<&'s Loop>,
    body: &'s [Stmt],
) -> Option<Product<'s>> {
    let within = |count| summed(program, loops.clone(), body.get(..count)?).zip(body.get(count..));
    let (sum, tail) = within(3).or_else(|| within(2)).filter(|(_, tail)| is_straight(tail))?;
    let SumOfProducts { loops, along, factors: [a, b], wide, out, finish, .. } = sum;
    let [along] = along[..] else { return None };
    let factors = [factor(a, wide)?, factor(b, wide)?];
    let dtype = program.buffer(out.buffer).dtype;
    Some(Product { dtype, loops, along, factors, out, finish, tail, only_with_terms: false })
}

fn summed<'s>(
    program: &TensorProgram,
    loops: Vec<&'s Loop>,
    body: &'s [Stmt],
) -> Option<SumOfProducts<'s>> {
    let (first, terms, last) = match body {
        [first, terms] => (first, terms, None),
        [first, terms, last] => (first, terms, Some(last)),
        _ => return None,
    };
    let (total, zero) = store(first, None)?;
    let (along, inner) = flat(std::slice::from_ref(terms));
    let [term] = inner else { return None };
    let (at, value) = store(term, Some(BinOp::Add))?;
    let TExpr::Binary(BinOp::Mul, both) = value else { return None };
    if !is_zero(zero)
        || at.buffer != total.buffer
        || at.indices != total.indices
        || along.is_empty()
    {
        return None;
    }
    let wide = program.buffer(total.buffer).dtype;
    let factors = [&both.0, &both.1];
    let (out, finish) = match last {
        None => (total, None),
        Some(last) => {
            let (out, value) = store(last, None)?;
            let own = TExpr::Load { buffer: total.buffer, indices: total.indices.to_vec() };
            let is_as_wide = program.buffer(out.buffer).dtype == wide;
            let sum = if is_as_wide { own } else { TExpr::Cast(DType::F32, Box::new(own)) };
            let in_place = matches!(wide, DType::F32 | DType::F64)
                && out.buffer == total.buffer
                && out.indices == total.indices;
            let unused = is_forgotten(program, total.buffer) && uses(program, total.buffer) == 3;
            let beside = unused && !reads(value, out.buffer);
            if !(in_place || beside) || loads_beside(value, &sum, total.buffer) {
                return None;
            }
            (out, (*value != sum).then_some((value, sum)))
        }
    };
    Some(SumOfProducts { loops, along, factors, wide, total, out, finish })
}

/// Whether statements only store and name values.
#[must_use]
pub fn is_straight(body: &[Stmt]) -> bool {
    let plain = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Store { .. } | StmtKind::Let { .. });
    body.iter().all(plain)
}

/// A sum whose first value a block sets.
fn blocked<'s>(
    program: &TensorProgram,
    mut loops: Vec<&'s Loop>,
    body: &'s [Stmt],
) -> Option<Product<'s>> {
    let [Stmt { kind: StmtKind::Block { axes, init, body, .. }, .. }] = body else { return None };
    let ([first], [term]) = (init.as_slice(), body.as_slice()) else { return None };
    let (total, zero) = store(first, None)?;
    let (at, value) = store(term, Some(BinOp::Add))?;
    let same = at.buffer == total.buffer && at.indices == total.indices;
    if !axes.is_empty() || !is_zero(zero) || !same {
        return None;
    }
    let dtype = program.buffer(total.buffer).dtype;
    let factors = factors(value, dtype)?;
    let written = |item: &&Loop| total.indices.contains(&TExpr::Scalar(item.var));
    let reduced: Vec<usize> = (0..loops.len()).filter(|&at| !written(&loops[at])).collect();
    let &[at] = reduced.as_slice() else { return None };
    let along = loops.remove(at);
    let both = factors.iter().any(|factor| mentions(factor.indices, along.var));
    both.then_some(Product {
        dtype,
        loops,
        along,
        factors,
        out: total,
        finish: None,
        tail: &[],
        only_with_terms: true,
    })
}

/// `X[…] * W[…]`, in the dtype of the sum.
fn factors(value: &TExpr, wide: DType) -> Option<[At<'_>; 2]> {
    let TExpr::Binary(BinOp::Mul, both) = value else { return None };
    Some([factor(&both.0, wide)?, factor(&both.1, wide)?])
}

/// An element of an f32 or f64 matrix, in the dtype of the sum.
#[must_use]
pub fn factor(expr: &TExpr, wide: DType) -> Option<At<'_>> {
    match (expr, wide) {
        (TExpr::Load { buffer, indices }, DType::F32 | DType::F64) => {
            Some(At { buffer: *buffer, indices })
        }
        (TExpr::Cast(DType::F64, inner), DType::F64) => factor(inner, DType::F32),
        _ => None,
    }
}

/// Whether f32 has about this number: neither an infinity instead, nor a subnormal number or 0.
#[must_use]
pub fn is_in_f32_range(value: f64) -> bool {
    let range = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
    value == 0.0 || !value.is_finite() || range.contains(&value.abs())
}

/// A factor of a sum of that dtype as an expression of f32, where it has the same value.
#[must_use]
pub fn narrowed(typing: &Typing, expr: &TExpr, wide: DType) -> Option<TExpr> {
    match (expr, wide) {
        (_, DType::F32) => (typing.dtype(expr) == DType::F32).then(|| expr.clone()),
        (TExpr::Cast(DType::F64, inner), DType::F64) => match typing.dtype(inner) {
            DType::F32 => Some((**inner).clone()),
            DType::F16 | DType::BF16 => Some(TExpr::Cast(DType::F32, inner.clone())),
            _ => None,
        },
        (TExpr::Float(value), DType::F64) => {
            (f64::from(*value as f32).to_bits() == value.to_bits()).then(|| expr.clone())
        }
        (TExpr::Select(parts), DType::F64) => {
            let then = narrowed(typing, &parts.1, wide)?;
            let otherwise = narrowed(typing, &parts.2, wide)?;
            Some(TExpr::Select(Box::new((parts.0.clone(), then, otherwise))))
        }
        _ => None,
    }
}

/// `T[…] += f64(a * b)`, where `a` and `b` are made of elements of different buffers: a sum of squares is none.
#[must_use]
pub fn adds_products(stmt: &Stmt) -> bool {
    let StmtKind::Store { update: Some(BinOp::Add), value, .. } = &stmt.kind else { return false };
    let mut value = value;
    while let TExpr::Cast(_, inner) = value {
        value = inner;
    }
    let TExpr::Binary(BinOp::Mul, both) = value else { return false };
    let [a, b] = [&both.0, &both.1].map(buffers_of);
    !a.is_empty() && !b.is_empty() && a != b
}

/// Whether a body forms a sum of products of elements of different buffers.
#[must_use]
pub fn sums_products(body: &[Stmt]) -> bool {
    let mut found = false;
    visit_statements(body, &mut |stmt| found |= adds_products(stmt));
    found
}

fn buffers_of(expr: &TExpr) -> BTreeSet<BufferId> {
    let mut buffers = BTreeSet::new();
    visit(expr, &mut |part| {
        if let TExpr::Load { buffer, .. } = part {
            buffers.insert(*buffer);
        }
    });
    buffers
}

fn is_zero(expr: &TExpr) -> bool {
    matches!(expr, TExpr::Int(0)) || matches!(expr, TExpr::Float(value) if value.to_bits() == 0)
}

/// Whether some index mentions a scalar.
#[must_use]
pub fn mentions(indices: &[TExpr], var: ScalarId) -> bool {
    let mut found = false;
    for index in indices {
        visit(index, &mut |part| found |= *part == TExpr::Scalar(var));
    }
    found
}

fn reads(expr: &TExpr, buffer: BufferId) -> bool {
    let mut found = false;
    visit(expr, &mut |part| {
        found |= matches!(part, TExpr::Load { buffer: other, .. } if *other == buffer);
    });
    found
}

/// Whether the sum is read otherwise than as `sum`.
fn loads_beside(value: &TExpr, sum: &TExpr, total: BufferId) -> bool {
    let (mut loads, mut sums) = (0, 0);
    visit(value, &mut |part| {
        loads += usize::from(matches!(part, TExpr::Load { buffer, .. } if *buffer == total));
        sums += usize::from(part == sum);
    });
    loads != sums
}

/// How many accesses to a buffer there are in the text: stores, and loads at one place each counted once.
fn uses(program: &TensorProgram, buffer: BufferId) -> usize {
    let mut count = 0;
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        let mut reading = 0;
        visit_own(stmt, &mut |expr| reading += usize::from(reads(expr, buffer)));
        count += match &stmt.kind {
            StmtKind::Store { buffer: to, .. } => usize::from(*to == buffer) + reading.min(1),
            _ => 4 * reading,
        };
    });
    count
}
