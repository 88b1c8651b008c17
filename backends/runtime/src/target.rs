//! For which machine a module was compiled: `cpu x86_64 linux avx avx2 fma`, the instruction-set extensions that its kernels
//! use at the end.

use crate::file::LoadError;

/// The extensions of this processor that can be detected.
#[cfg(target_arch = "x86_64")]
fn extensions() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt)*) => {
            [$(($name, std::is_x86_feature_detected!($name))),*]
        };
    }
    let all = detected!(
        "sse3" "ssse3" "sse4.1" "sse4.2" "sse4a" "popcnt" "avx" "f16c" "fma" "bmi1" "bmi2" "lzcnt" "movbe" "adx" "aes" "pclmulqdq" "sha"
        "avx2" "avx512f" "avx512dq" "avx512bw" "avx512vl" "avx512cd" "avx512vbmi" "avx512vbmi2" "avx512vnni"
        "avx512bitalg" "avx512vpopcntdq" "avx512ifma" "avx512bf16" "avx512fp16" "avx512vp2intersect" "gfni" "vaes" "vpclmulqdq"
        "avxvnni" "avxifma" "avxneconvert" "avxvnniint8" "avxvnniint16"
    );
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

/// The extensions of this processor that can be detected.
#[cfg(target_arch = "aarch64")]
fn extensions() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt)*) => {
            [$(($name, std::arch::is_aarch64_feature_detected!($name))),*]
        };
    }
    let all = detected!(
        "fp16" "dotprod" "fhm" "rdm" "lse" "crc" "aes" "sha2" "sha3" "sm4" "bf16" "i8mm" "fcma" "jsconv" "frintts" "rcpc"
        "sve" "sve2" "f32mm" "f64mm" "sve2-aes" "sve2-bitperm" "sve2-sha3" "sve2-sm4"
    );
    // Linux lists what the standard library does not detect in stable Rust.
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("Features")).unwrap_or_default();
    let listed =
        ["mops", "cssc"].map(|name| (name, line.split_whitespace().any(|word| word == name)));
    all.into_iter().chain(listed).filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn extensions() -> Vec<&'static str> {
    Vec::new()
}

/// The target of a module that uses all extensions of the processor at hand.
#[must_use]
pub fn host_target() -> String {
    let mut words = vec!["cpu", std::env::consts::ARCH, std::env::consts::OS];
    words.extend(extensions());
    words.join(" ")
}

/// Whether code for a target runs on this machine; code for no target has no machine code.
///
/// # Errors
/// The architecture, the system or the extensions that are missing here.
pub fn check_target(target: &str) -> Result<(), LoadError> {
    if target.is_empty() {
        return Ok(());
    }
    let here = host_target();
    let has: Vec<&str> = here.split(' ').collect();
    let wanted: Vec<&str> = target.split(' ').collect();
    if wanted.iter().take(3).ne(has.iter().take(3)) {
        let (wanted, has) = (wanted.iter().take(3), has.iter().take(3));
        let words =
            |words: &mut dyn Iterator<Item = &&str>| words.copied().collect::<Vec<_>>().join(" ");
        let (wanted, has) = (words(&mut wanted.into_iter()), words(&mut has.into_iter()));
        return Err(LoadError::Target(format!("it is for `{wanted}`, this machine is `{has}`")));
    }
    let missing: Vec<&str> = wanted.into_iter().filter(|word| !has.contains(word)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(LoadError::Target(format!("its kernels use {missing}, which this processor lacks")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_here_runs_here() {
        assert_eq!(check_target(&host_target()), Ok(()));
        assert_eq!(check_target(""), Ok(()));
        let [architecture, system] = [std::env::consts::ARCH, std::env::consts::OS];
        assert_eq!(check_target(&format!("cpu {architecture} {system}")), Ok(()));
    }

    #[test]
    fn what_was_made_elsewhere_is_refused() {
        assert!(matches!(check_target("wgpu"), Err(LoadError::Target(_))));
        let [architecture, system] = [std::env::consts::ARCH, std::env::consts::OS];
        for elsewhere in [format!("cpu pdp11 {system}"), format!("cpu {architecture} multics")] {
            let why = check_target(&elsewhere).map_err(|error| error.to_string());
            let expected = format!("it is for `{elsewhere}`, this machine is");
            assert!(why.is_err_and(|why| why.contains(&expected)), "{elsewhere}");
        }
        let other = format!("{} an_extension another", host_target());
        let why = check_target(&other).map_err(|error| error.to_string());
        let expected = "its kernels use an_extension, another, which this processor lacks";
        assert!(why.is_err_and(|why| why.ends_with(expected)));
    }
}
