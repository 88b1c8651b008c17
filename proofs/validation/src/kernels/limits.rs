//! What is known to be an i64: extents of the tensors that a program is given, and numbers of their elements.

use super::scope::Around;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::Param;
use std::collections::BTreeMap;

/// Far above the lower end of i64.
pub(super) const LOWEST: i64 = -(1 << 62);
/// Far below the upper end of i64.
const HIGHEST: i64 = 1 << 62;
/// Limits that are asked for one number.
const MOST: usize = 3;

/// Numbers that are each an i64: a tensor has no more elements than bytes, and as many bytes as an i64 counts.
pub(super) struct Limits {
    limits: Vec<Dim>,
    /// Values of the symbolic variables: what is above a limit there is not asked.
    samples: Vec<BTreeMap<Name, i64>>,
    /// Values near the end of i64.
    highest: BTreeMap<Name, i64>,
}

impl Limits {
    pub(super) fn of(program: &TensorProgram) -> Self {
        let mut limits = Vec::new();
        for param in &program.params {
            let Param::Buffer(id) = param else { continue };
            let shape = &program.buffer(*id).shape;
            let size = i64::try_from(program.buffer(*id).dtype.size()).unwrap_or(1);
            limits.extend(shape.iter().cloned());
            limits.push(Dim::product(shape));
            limits.push(Dim::op(DimOp::Mul, Dim::product(shape), Dim::Int(size)));
        }
        let mut seen = Vec::new();
        for limit in limits {
            if !seen.contains(&limit) {
                seen.push(limit);
            }
        }
        let sample = |bases: [i64; 2]| {
            let dims = program.dims.iter().enumerate();
            dims.map(|(at, dim)| {
                let step = dim.multiple_of.unwrap_or(1).max(1);
                let value =
                    (bases[at % 2] + i64::try_from(at).unwrap_or(0) * 3) / step * step + step;
                let value = value.min(dim.upper.unwrap_or(i64::MAX)).max(dim.lower.unwrap_or(0));
                (dim.name.clone(), value)
            })
            .collect()
        };
        let (small, large) = (1, 1_000_000_007);
        let samples = [[small, small], [large, large], [small, large], [large, small]].map(sample);
        Self { limits: seen, samples: samples.into(), highest: sample([1 << 61, 1 << 61]) }
    }

    /// Limits that may be above a number, the most promising first.
    pub(super) fn above(&self, dim: &Dim, loops: &[Around]) -> Vec<Dim> {
        if self.limits.contains(dim) {
            return vec![dim.clone()];
        }
        let samples = self.samples.iter().map(|sample| last_iteration(sample, loops));
        let samples: Vec<BTreeMap<Name, i64>> = samples.collect();
        let value = |dim: &Dim, sample: &BTreeMap<Name, i64>| {
            dim.eval(&|name| sample.get(name).copied()).ok()
        };
        let highest = value(dim, &last_iteration(&self.highest, loops));
        let number = highest.filter(|value| *value <= HIGHEST).map(|_| Dim::Int(HIGHEST));
        let fits = |limit: &Dim, times: i64| {
            samples.iter().all(|sample| match (value(dim, sample), value(limit, sample)) {
                (Some(dim), Some(limit)) => dim <= limit.saturating_mul(times),
                // What has no value in a sample may have one elsewhere.
                _ => limit.as_int().is_none(),
            })
        };
        let below = self.limits.iter().filter(|limit| fits(limit, 1)).take(MOST);
        // Under a condition, as for the last of some blocks, the last iteration may be far from what it comes to.
        let about = self.limits.iter().filter(|limit| fits(limit, 2) && !fits(limit, 1)).take(1);
        number.into_iter().chain(below.chain(about).cloned()).collect()
    }
}

/// The values of loop variables in the last iteration.
fn last_iteration(sample: &BTreeMap<Name, i64>, loops: &[Around]) -> BTreeMap<Name, i64> {
    let mut values = sample.clone();
    for around in loops {
        let stop =
            around.stop.as_ref().and_then(|stop| stop.eval(&|name| values.get(name).copied()).ok());
        values.insert(around.name.clone(), stop.map_or(0, |stop| stop - 1));
    }
    values
}
