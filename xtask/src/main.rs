//! `cargo run -p xtask -- docs` writes the generated documents.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["docs"] {
        eprintln!("usage: cargo run -p xtask -- docs");
        return ExitCode::from(2);
    }
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let planned = std::fs::read_to_string(root.join(xtask::docs::PLANNED))?;
    for page in xtask::docs::pages(&planned) {
        std::fs::write(root.join(page.path), page.text)?;
        eprintln!("wrote {}", page.path);
    }
    Ok(())
}
