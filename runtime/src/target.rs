//! For which machine a module was compiled: `cpu x86_64 linux avx avx2 fma`.

use crate::file::LoadError;

/// What code for this processor may use of it.
#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt)*) => {
            [$(($name, std::is_x86_feature_detected!($name))),*]
        };
    }
    let all = detected!(
        "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "f16c" "fma" "bmi1" "bmi2" "lzcnt" "avx2"
        "avx512f" "avx512dq" "avx512bw" "avx512vl" "avx512cd" "avx512vbmi" "avx512vbmi2" "avx512vnni"
        "avx512bitalg" "avx512vpopcntdq" "avx512ifma" "avx512bf16" "avx512fp16" "gfni" "vaes" "vpclmulqdq"
    );
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

/// What a module that is compiled for the processor at hand has as its target.
#[must_use]
pub fn host_target() -> String {
    let mut words = vec!["cpu", std::env::consts::ARCH, std::env::consts::OS];
    words.extend(features());
    words.join(" ")
}

/// Whether code for a target runs here; code for no target has no machine code.
///
/// # Errors
/// What the target demands and this machine lacks.
pub fn check(target: &str) -> Result<(), LoadError> {
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
    Err(LoadError::Target(format!("this processor has not {}", missing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_here_runs_here() {
        assert_eq!(check(&host_target()), Ok(()));
        assert_eq!(check(""), Ok(()));
    }

    #[test]
    fn what_was_made_elsewhere_is_refused() {
        assert!(matches!(check("wgpu"), Err(LoadError::Target(_))));
        let other = format!("{} no_such_feature", host_target());
        let why = check(&other).map_err(|error| error.to_string());
        assert!(why.is_err_and(|why| why.contains("no_such_feature")));
    }
}
