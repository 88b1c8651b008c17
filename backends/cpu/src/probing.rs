//! Probes that run while a program goes through its passes and its kernels are compiled: on an empty cache they take as long as
//! most passes.

use crate::{Cache, Compiler, Error};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;

type Probed = Result<Compiler, Error>;

/// A compiler that is being probed.
#[derive(Debug)]
pub(crate) struct Probing {
    thread: Mutex<Option<JoinHandle<Probed>>>,
    probed: OnceLock<Probed>,
}

impl Probing {
    /// Starts the probes, or finds what they found before.
    pub(crate) fn start(compiler: &Compiler, cache: &Cache) -> Self {
        let (own, cache) = (compiler.clone(), cache.clone());
        let thread = std::thread::spawn(move || own.probed(&cache));
        Self { thread: Mutex::new(Some(thread)), probed: OnceLock::new() }
    }

    /// The compiler with the flags that its probes ask for, as soon as they are known.
    pub(crate) fn compiler(&self) -> &Probed {
        self.probed.get_or_init(|| {
            let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
            match thread.expect("invariant: it is joined once").join() {
                Ok(probed) => probed,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Probing {
    /// Waits, so that the folder of the probes is removed.
    fn drop(&mut self) {
        let thread = self.thread.get_mut().ok().and_then(Option::take);
        drop(thread.map(JoinHandle::join));
    }
}
