//! What `relax --version` says: which commit it is of, and what was built in, which decides what it can prove and where it can run.

/// The version, the commit, devices and the solver.
pub(crate) fn long() -> &'static str {
    let devices: Vec<&str> = [("cuda", cfg!(feature = "cuda")), ("wgpu", cfg!(feature = "wgpu"))]
        .into_iter()
        .filter_map(|(name, is_there)| is_there.then_some(name))
        .collect();
    let devices = if devices.is_empty() { "none".to_owned() } else { devices.join(", ") };
    let solver = relax_symbolic::solver_version();
    let solver = solver.map_or_else(|| "none".to_owned(), |version| format!("z3 {version}"));
    let text = format!(
        "{}\ncommit: {}\nbackends beside cpu: {devices}\nsolver: {solver}",
        env!("CARGO_PKG_VERSION"),
        env!("COMMIT"),
    );
    // Clap keeps it for as long as the command runs.
    Box::leak(text.into_boxed_str())
}
