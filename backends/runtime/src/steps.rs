//! The limit of steps: an instruction of the machine is one, and so is an iteration of a loop of a kernel.

use crate::kernels::KernelTrap;
use crate::stop::Stop;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most that kernels count down from: a `double` of C has it, and half of it more stays in i64.
const MOST: u64 = 1 << 62;

/// The steps that a call of a kernel may take, from all its threads.
#[derive(Debug)]
pub struct StepsLeft(Option<AtomicI64>);

impl StepsLeft {
    /// So many; [`u64::MAX`] is no limit.
    #[must_use]
    pub fn of(steps: u64) -> Self {
        let count = i64::try_from(steps.min(MOST)).unwrap_or(i64::MAX);
        Self((steps != u64::MAX).then(|| AtomicI64::new(count)))
    }

    /// For a run without a limit.
    #[must_use]
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Takes so many from them.
    ///
    /// # Errors
    /// [`StepsLeft::exhausted`] when they are too few; then none is left.
    pub fn spend(&self, steps: u64) -> Result<(), KernelTrap> {
        let Some(counter) = &self.0 else { return Ok(()) };
        let steps = i64::try_from(steps).unwrap_or(i64::MAX);
        let less = |left: i64| Some(if steps <= left { left - steps } else { 0 });
        match counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(left) if steps <= left => Ok(()),
            _ => Err(Self::exhausted()),
        }
    }

    /// How a kernel ends that has more steps than are left.
    #[must_use]
    pub fn exhausted() -> KernelTrap {
        KernelTrap::Stop(Box::new(out_of_steps()))
    }

    /// What kernels count down; none without a limit.
    pub(crate) fn counter(&self) -> Option<&AtomicI64> {
        self.0.as_ref()
    }

    /// What is left of the steps that there were before the call.
    pub(crate) fn left(&self, before: u64) -> u64 {
        let Some(counter) = &self.0 else { return before };
        let left = u64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(0);
        before - before.min(MOST).saturating_sub(left)
    }
}

pub(crate) fn out_of_steps() -> Stop {
    let detail = "the run has more steps than the limit".to_owned();
    Stop::Exhausted { resource: "steps", detail }
}
