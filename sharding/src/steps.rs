//! Steps of a plan in the making: many plans begin with the same ones, which they share.

use crate::propagate::Step;
use std::sync::Arc;

/// Steps in order, of which a copy is cheap.
#[derive(Clone, Default)]
pub(crate) struct Steps(Option<Arc<Last>>);

struct Last {
    step: Step,
    before: Steps,
}

impl Steps {
    pub(crate) fn push(&mut self, step: Step) {
        let before = Steps(self.0.take());
        self.0 = Some(Arc::new(Last { step, before }));
    }

    /// The steps, the first one first.
    pub(crate) fn to_vec(&self) -> Vec<Step> {
        let mut found = Vec::new();
        let mut now = self;
        while let Some(last) = &now.0 {
            found.push(last.step.clone());
            now = &last.before;
        }
        found.reverse();
        found
    }
}

/// Without recursion: a plan may have many steps.
impl Drop for Steps {
    fn drop(&mut self) {
        let mut now = self.0.take();
        while let Some(last) = now {
            now = Arc::into_inner(last).and_then(|mut last| last.before.0.take());
        }
    }
}
