//! Tools that tests need and a machine may lack: a test without one is skipped, or fails where the tool is required.

/// Reports that tests are skipped for lack of a tool.
///
/// # Panics
///
/// If `variable` (`RELAX_REQUIRE_CC`, …) is 1, which is how CI says that the tool must be there.
pub fn skip(variable: &str, why: &str) {
    let is_required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!is_required, "{why}, and {variable}=1 requires it");
    eprintln!("SKIPPED: {why}");
}
