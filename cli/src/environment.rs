//! Environment variables of the command. A name or a value that it does not understand is an error: `RELAX_THREAD=1` would else mean that
//! there are as many threads as processors.

use crate::exit::Failure;
use relax_syntax::suggest;
use std::ffi::OsString;

/// How many threads there are.
const THREADS: &str = "RELAX_THREADS";

/// The key that requests to `relax serve` need.
pub(crate) const API_KEY: &str = "RELAX_API_KEY";

/// Whether cuBLASLt may be used where it is installed.
const CUBLAS: &str = "RELAX_CUBLAS";

/// What the command reads. Sizes of the cache and the key are checked where they are used.
const KNOWN: [&str; 8] = [
    THREADS,
    "RELAX_CACHE_SIZE",
    "RELAX_MODEL_CACHE_SIZE",
    "RELAX_MPI",
    "RELAX_NVRTC",
    "RELAX_NCCL",
    CUBLAS,
    API_KEY,
];

/// What tests and scripts of the project read; they run the command, too.
const OF_TESTS: [&str; 14] = [
    "RELAX_BLESS",
    "RELAX_DOUBLES",
    "RELAX_GENERATED",
    "RELAX_MUTANT",
    "RELAX_MUTANT_REACHED",
    "RELAX_ONNX_TESTS",
    "RELAX_ON_DRIVER",
    "RELAX_PROGRAM",
    "RELAX_ROW",
    "RELAX_SAMPLE",
    "RELAX_TVMSCRIPT",
    "RELAX_UNDECIDED",
    "RELAX_WEIGHTS",
    "RELAX_WHOLE",
];

/// The first variable that is not understood, as an error.
pub(crate) fn check(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<(), Failure> {
    let mut own: Vec<(String, String)> = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| name.starts_with("RELAX_") && !value.is_empty())
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect();
    own.sort();
    own.iter().try_for_each(|(name, value)| check_one(name, value))
}

fn check_one(name: &str, value: &str) -> Result<(), Failure> {
    if name == THREADS {
        return match value.trim().parse::<usize>() {
            Ok(1..) => Ok(()),
            _ => Err(Failure::usage(format!("{THREADS} is a number of threads, found `{value}`"))),
        };
    }
    if name == CUBLAS && !matches!(value, "0" | "1") {
        return Err(Failure::usage(format!(
            "{CUBLAS} is 0 (kernels of relax only) or 1 (cuBLASLt where it is installed), found `{value}`"
        )));
    }
    if KNOWN.contains(&name) || OF_TESTS.contains(&name) || name.starts_with("RELAX_REQUIRE_") {
        return Ok(());
    }
    let near = suggest::nearest(name, KNOWN);
    let hint = match near.as_slice() {
        [] => format!("relax reads {}", KNOWN.join(", ")),
        near => format!("did you mean {}?", suggest::quoted(near)),
    };
    Err(Failure::usage(format!("the environment variable {name} is not understood; {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, value: &str) -> Option<String> {
        let variables = [("PATH", "/bin"), (name, value)];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        match check(variables.into_iter()) {
            Ok(()) => None,
            Err(Failure::Message { text, .. }) => Some(text),
            Err(failure) => panic!("no message: {failure:?}"),
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let near = message("RELAX_THREAD", "1").expect("an unknown name");
        assert_eq!(
            near,
            "the environment variable RELAX_THREAD is not understood; did you mean `RELAX_THREADS`?"
        );
        let far = message("RELAX_LEVEL", "3").expect("an unknown name");
        assert!(
            far.ends_with(
                "; relax reads RELAX_THREADS, RELAX_CACHE_SIZE, RELAX_MODEL_CACHE_SIZE, RELAX_MPI, \
                 RELAX_NVRTC, RELAX_NCCL, RELAX_CUBLAS, RELAX_API_KEY"
            ),
            "{far}"
        );
        let text = message(CUBLAS, "off").expect("neither 0 nor 1");
        assert!(text.starts_with("RELAX_CUBLAS is 0 ") && text.ends_with("found `off`"), "{text}");
        for value in ["0", "-1", "two", "1.5"] {
            let text = message(THREADS, value).expect("no number of threads");
            assert_eq!(text, format!("RELAX_THREADS is a number of threads, found `{value}`"));
        }
    }

    #[test]
    fn what_is_understood_or_of_others_is_let_be() {
        for (name, value) in [
            (THREADS, " 2 "),
            (THREADS, ""),
            ("RELAX_LEVEL", ""),
            ("RELAX_CACHE_SIZE", "1G"),
            ("RELAX_MODEL_CACHE_SIZE", "1G"),
            (CUBLAS, "0"),
            (CUBLAS, "1"),
            (API_KEY, "secret"),
            ("RELAX_REQUIRE_CC", "1"),
            ("RELAXED", "1"),
        ] {
            assert_eq!(message(name, value), None, "{name}={value}");
        }
    }
}
