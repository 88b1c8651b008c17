//! `cargo run -p xtask -- docs` writes the generated documents; `lines [COMMIT ...]` counts lines of code.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((what, [])) if what == "docs" => write(),
        Some((what, commits)) if what == "lines" => lines(commits),
        _ => {
            eprintln!("usage: cargo run -p xtask -- docs | lines [COMMIT ...]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn write() -> std::io::Result<()> {
    let planned = std::fs::read_to_string(root().join(xtask::docs::PLANNED))?;
    for page in xtask::docs::pages(&planned) {
        std::fs::write(root().join(page.path), page.text)?;
        eprintln!("wrote {}", page.path);
    }
    Ok(())
}

#[allow(clippy::print_stdout)] // the table is what was asked for
fn lines(commits: &[String]) -> std::io::Result<()> {
    print!("{}", xtask::lines::table(&root(), commits)?);
    Ok(())
}
