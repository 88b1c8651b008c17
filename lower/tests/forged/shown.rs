//! Programs in `shown/`, each tensor program and each function of which is right or wrong in one way. Comments say what
//! is not shown of them, with the reason (`# open: …`), and of how many obligations there is a proof (`# proved: …`): more must
//! not be proved, and less would be a proof that was lost. What is wrong also traps: the files have expectations as
//! those of the corpus.

use super::header;
use relax_corpus::harness::{Mode, run_file};
use relax_lower::certify::certified;
use relax_program::frontend::{Program, print};
use relax_syntax::span::Source;
use relax_validation::check::verify;
use relax_validation::derive::Stage;
use relax_validation::report::unproved;
use std::path::{Path, PathBuf};

#[test]
fn what_is_shown_of_small_programs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forged/shown");
    let entries = std::fs::read_dir(folder).expect("the programs are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a program").path()).collect();
    paths.sort();
    assert!(paths.len() > 3);
    let wrong: Vec<String> = paths.iter().flat_map(|path| of_file(path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as the file says.
fn of_file(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a program can be read");
    let name = path.display().to_string();
    let runs = run_file(&name, text.as_bytes(), Mode::Hold).failures;
    let mut wrong: Vec<String> = runs.iter().map(|failure| format!("{name}: {failure}")).collect();
    let module = Program::load(Source::new("shown", text.as_str())).module;
    let stage = Stage::read("input", &print(&module)).expect("what is printed reads back");
    let certificate = certified(header(), vec![stage]);
    let found = unproved(&certificate.obligations);
    let lines = |begin: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    };
    let said = lines("# open: ");
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    wrong.extend(only(&found, &said).into_iter().map(|line| format!("{name}: not said: {line}")));
    wrong.extend(only(&said, &found).into_iter().map(|line| format!("{name}: not so: {line}")));
    let proved = certificate.obligations.len() - found.len();
    if lines("# proved: ") != [proved.to_string()] {
        wrong.push(format!("{name}: {proved} are proved"));
    }
    let is_refuted = certificate.obligations.iter().any(|each| each.refuses());
    match verify(&certificate.text(), None) {
        Ok(verified) if verified.obligations != certificate.obligations => {
            wrong.push(format!("{name}: something else is verified"));
        }
        Ok(_) if is_refuted => wrong.push(format!("{name}: what is refuted is accepted")),
        Err(why) if !is_refuted => wrong.push(format!("{name}: {why}")),
        _ => {}
    }
    wrong
}
