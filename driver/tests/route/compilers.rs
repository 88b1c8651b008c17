//! The C compilers of this machine, and the levels of processors that it can run code of.

use relax_corpus::requirement;
use relax_corpus::sample::{Sample, is_whole};
use relax_cpu::{Compiler, Cpu};
use relax_runtime::check_target;
use std::sync::OnceLock;

/// Debian's, beside that of the system.
const NAMES: [&str; 4] = ["gcc-11", "clang-14", "clang-16", "clang-19"];
pub(crate) const LEVELS: [&str; 4] = ["native", "x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// Compilers for a level each, without the pair that all tests have: one of them, which a hash of the commit chooses, or all
/// with `RELAX_WHOLE=1`.
pub(crate) fn others() -> &'static [(String, Compiler)] {
    static FOUND: OnceLock<Vec<(String, Compiler)>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let all = all();
        if is_whole() || all.is_empty() {
            return all;
        }
        Sample::of("C compilers and processors", all.len()).take(all).collect()
    })
}

fn all() -> Vec<(String, Compiler)> {
    let named = NAMES.iter().filter_map(|name| {
        let compiler = Compiler::named(name).ok().map(|compiler| (*name, compiler));
        if compiler.is_none() {
            requirement::skip("RELAX_REQUIRE_COMPILERS", &format!("there is no {name}"));
        }
        compiler
    });
    let system = Compiler::of_system().ok().map(|compiler| ("the system's", compiler));
    let pairs = system.into_iter().chain(named).flat_map(|(name, compiler)| {
        LEVELS.iter().filter_map(move |level| Some((name, *level, at(&compiler, level)?)))
    });
    let others = pairs.filter(|(name, level, _)| (*name, *level) != ("the system's", "native"));
    others.map(|(name, level, compiler)| (format!("{name}, {level}"), compiler)).collect()
}

/// The compiler for a level, if it knows it and this machine can run the code.
fn at(compiler: &Compiler, level: &str) -> Option<Compiler> {
    let cpu: Cpu = level.parse().ok()?;
    let compiler = compiler.clone().for_cpu(&cpu).ok()?;
    // Of what cannot be decoded, all extensions count.
    let words = compiler.target().ok()?.words(b"no object");
    check_target(&words).is_ok().then_some(compiler)
}
