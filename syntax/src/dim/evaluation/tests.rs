//! Dims whose evaluation is said to stay in i64, for values at both ends of what variables can be.

use super::{MOST, evaluates_up_to};
use crate::Name;
use crate::dim::{Dim, DimOp};
use std::collections::BTreeMap;

const OPS: [DimOp; 8] = [
    DimOp::Add,
    DimOp::Sub,
    DimOp::Mul,
    DimOp::FloorDiv,
    DimOp::FloorMod,
    DimOp::CeilDiv,
    DimOp::Min,
    DimOp::Max,
];
const VALUES: [i64; 8] = [0, 1, 3, 7, 1 << 31, 1 << 61, i64::MAX - 1, i64::MAX];

/// The value by integers without a limit that is met here.
fn value(dim: &Dim, n: i64, m: i64) -> Option<i128> {
    let (op, operands) = match dim {
        Dim::Int(value) => return Some((*value).into()),
        Dim::Var(name) => return Some(if *name == "n" { n.into() } else { m.into() }),
        Dim::Op(op, operands) => (op, operands),
    };
    let (a, b) = (value(&operands.0, n, m)?, value(&operands.1, n, m)?);
    match op {
        DimOp::Add => a.checked_add(b),
        DimOp::Sub => a.checked_sub(b),
        DimOp::Mul => a.checked_mul(b),
        DimOp::FloorDiv => a.checked_div_euclid(b).filter(|_| b > 0),
        DimOp::CeilDiv => (-a).checked_div_euclid(b).filter(|_| b > 0).map(|found| -found),
        DimOp::FloorMod => a.checked_rem_euclid(b).filter(|_| b > 0),
        DimOp::Min => Some(a.min(b)),
        DimOp::Max => Some(a.max(b)),
    }
}

/// All terms of two operations over two variables and a few literals.
fn dims() -> Vec<Dim> {
    let mut leaves: Vec<Dim> = ["n", "m"].iter().map(|&name| Dim::Var(Name::new(name))).collect();
    leaves.extend([0, 1, 2, 4].map(Dim::Int));
    let of = |a: &[Dim], b: &[Dim]| {
        let mut all = Vec::new();
        for op in OPS {
            for left in a {
                all.extend(b.iter().map(|right| Dim::op(op, left.clone(), right.clone())));
            }
        }
        all
    };
    let twos = of(&leaves, &leaves);
    let mut all = [of(&twos, &leaves), of(&leaves, &twos), twos.clone()].concat();
    // Products and sums of quotients, as a grid of patches has.
    let quotients = of(&leaves[..2], &leaves[4..]);
    all.extend(of(&quotients, &quotients));
    all
}

#[test]
fn what_is_said_to_evaluate_does() {
    let mut said = 0;
    for dim in dims() {
        for most in [MOST, MOST / 2, MOST / 16] {
            if !evaluates_up_to(&dim, most) {
                continue;
            }
            said += 1;
            for (n, m) in VALUES.iter().flat_map(|&n| VALUES.map(|m| (n, m))) {
                let own = BTreeMap::from([(Name::new("n"), n), (Name::new("m"), m)]);
                let fits = value(&dim, n, m).filter(|found| (0..=most).contains(found));
                let found = dim.eval(&|name| own.get(name).copied()).ok().map(i128::from);
                assert!(fits.is_none() || found == fits, "{dim:?} of {n}, {m}, up to {most}");
            }
        }
    }
    assert!(said > 1000, "{said} terms are said to evaluate");
}

#[test]
fn extents_of_patches_and_windows_evaluate() {
    let var = |name: &str| Dim::Var(Name::new(name));
    let quotient = |dim: Dim, by: i64| Dim::op(DimOp::FloorDiv, dim, Dim::Int(by));
    let sum = |dim: Dim, more: Dim| Dim::op(DimOp::Add, dim, more);
    let product = |a: Dim, b: Dim| Dim::op(DimOp::Mul, a, b);
    let patches = product(quotient(var("h"), 4), quotient(var("w"), 4));
    assert!(evaluates_up_to(&sum(patches, Dim::Int(1)), MOST));
    let windows = quotient(sum(var("n"), Dim::Int(1)), 2);
    assert!(evaluates_up_to(&windows, MOST / 16));
    assert!(!evaluates_up_to(&windows, MOST));
    // A factor of 0 hides how large the others are.
    assert!(!evaluates_up_to(&product(sum(var("h"), var("w")), var("n")), MOST));
}
