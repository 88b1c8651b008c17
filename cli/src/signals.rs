//! SIGINT and SIGTERM: temporary files are removed and compilers killed, then the process ends by the signal.

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
            relax_cpu::scratch::remove_all();
            let _ = emulate_default_handler(signal);
        }
    });
}

#[cfg(not(unix))]
pub(crate) fn watch() {}
