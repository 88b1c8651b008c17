//! Facts without a factor that is at least 1: from `m * q + c >= 0` follows `q >= 1` for `c < 0`, and `q + c >= 0` else.

use crate::context::Context;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Mono, Poly};
use crate::problem::{Problem, Reason};

impl Engine {
    /// Adds what rows and equations say without factors that are at least 1.
    pub(super) fn add_without_factors(&mut self, context: &Context, problem: &mut Problem) {
        let rows = problem.at_least_zero.iter().map(|row| row.0.clone());
        let mut wholes: Vec<Poly> = rows.collect();
        for equation in &problem.zero {
            wholes.extend([Some(equation.clone()), equation.scale(-1)].into_iter().flatten());
        }
        for whole in wholes {
            if let Some((rest, factor)) = self.without_factor(context, &whole) {
                problem.add(rest, Reason::WithoutFactor(Box::new((whole, factor))));
            }
        }
    }

    fn without_factor(&self, context: &Context, whole: &Poly) -> Option<(Poly, Poly)> {
        let constant = whole.constant_term();
        let varying = whole.plus(constant.checked_neg()?)?;
        let bounds = self.bounds(context);
        let positive = |id: &&AtomId| bounds.of_atom(**id).low.is_some_and(|low| low >= 1);
        let common = varying.common_mono();
        let mut ids = common.atoms().iter().filter(positive);
        let factor = ids.try_fold(Mono::ONE, |factor, id| factor.times(&Mono::atom(*id)))?;
        if factor == Mono::ONE {
            return None;
        }
        let rest = varying.over_mono(&factor)?.plus(constant.max(-1))?;
        Some((rest, Poly::term(factor, 1)))
    }
}
