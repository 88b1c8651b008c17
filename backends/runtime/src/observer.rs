//! What somebody who watches a module is told: each call of a kernel or of a host function, when it began, how
//! long it took, and the shapes that it was given. Nobody watches, nothing is measured.

use crate::stop::Span;
use std::time::{Duration, Instant};

/// Watches the calls of a module, from whichever thread makes them.
pub trait Observer: Send + Sync {
    /// Something was called and came back, with a result or not.
    fn called(&self, call: &ObservedCall<'_>);
}

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A kernel of the module.
    Kernel,
    /// A function that the embedder registered.
    Host,
}

/// One call.
#[derive(Clone, Debug)]
pub struct ObservedCall<'a> {
    /// What kind of thing was called.
    pub callee: Callee,
    /// Its name.
    pub name: &'a str,
    /// The extents of the tensors among its arguments, in order.
    pub shapes: Vec<&'a [i64]>,
    /// The integers among its arguments, in order; none of a host function.
    pub integers: &'a [i64],
    /// The place in the source of the call.
    pub span: Span,
    /// When it began.
    pub start: Instant,
    /// How long it took; of a kernel, on the device where that has a clock.
    pub duration: Duration,
}

/// A clock that runs only while somebody watches.
pub(crate) struct Watch<'m> {
    watched: Option<(&'m dyn Observer, Instant)>,
}

impl<'m> Watch<'m> {
    pub(crate) fn start(observer: Option<&'m dyn Observer>) -> Self {
        Self { watched: observer.map(|observer| (observer, Instant::now())) }
    }

    /// Tells of the call; `call` is asked only when somebody watches.
    pub(crate) fn stop<'a>(self, call: impl FnOnce(Instant, Duration) -> ObservedCall<'a>) {
        if let Some((observer, start)) = self.watched {
            let duration = start.elapsed();
            observer.called(&call(start, duration));
        }
    }
}
