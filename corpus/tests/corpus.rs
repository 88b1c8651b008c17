//! One test a corpus file, named by its path: `cargo test -p relax-corpus --test corpus -- matmul`.
//! `RELAX_BLESS=1` rewrites the values of `# run: … == VALUE` that are wrong.

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::files;
use relax_corpus::harness::{Mode, run_file};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Deep recursion in a program is the interpreter's to limit, not the thread's.
const STACK: usize = 256 << 20;

fn main() {
    let arguments = Arguments::from_args();
    let bless = std::env::var_os("RELAX_BLESS").is_some_and(|value| value == "1");
    let mode = if bless { Mode::Bless } else { Mode::Hold };
    let trials = files::programs().into_iter().map(|path| trial(path, mode)).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(path: PathBuf, mode: Mode) -> Trial {
    Trial::test(files::name(&path), move || {
        let run = move || hold(&path, mode);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(run)?;
        thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
    })
}

fn hold(path: &Path, mode: Mode) -> Result<(), Failed> {
    let bytes = std::fs::read(path)?;
    let outcome = run_file(&path.display().to_string(), &bytes, mode);
    if let Some(text) = &outcome.rewritten {
        replace(path, text)?;
    }
    if outcome.failures.is_empty() {
        return Ok(());
    }
    let lines = outcome
        .failures
        .iter()
        .map(|failure| format!("{}:{}: {}", path.display(), failure.line, failure.message));
    Err(lines.collect::<Vec<_>>().join("\n").into())
}

/// The whole new text, or the old one.
fn replace(path: &Path, text: &str) -> Result<(), Failed> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
