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

/// Whether this processor has AVX2, which GCC 12.2 miscompiles guarded reads for.
#[must_use]
#[cfg(target_arch = "x86_64")]
pub fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2")
}

/// Whether this processor has AVX2, which GCC 12.2 miscompiles guarded reads for.
#[must_use]
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx2() -> bool {
    false
}
