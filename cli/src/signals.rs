//! SIGINT and SIGTERM: temporary files are removed and compilers killed, then the process ends by the signal. A server takes the first one
//! to end its answers, and training to write a checkpoint.

use std::sync::{Mutex, PoisonError};

/// What the first signal does instead of ending the process.
static FIRST: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Lets the next signal call this. Where there are no such signals, it is never called.
pub(crate) fn catch_first(hook: Box<dyn FnOnce() + Send>) {
    *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
}

#[cfg(unix)]
pub(crate) fn watch() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;
    // Without a handler the signals end the process all the same.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let watcher = std::thread::Builder::new().name("signals".to_owned());
    let _ = watcher.spawn(move || {
        for signal in &mut signals {
            let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(first) = first {
                first();
                continue;
            }
            relax_cpu::scratch::remove_all();
            let _ = emulate_default_handler(signal);
        }
    });
}

#[cfg(not(unix))]
pub(crate) fn watch() {}
