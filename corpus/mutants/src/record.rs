//! What one stage leaves for the next, in the folder that the user names.

use crate::cargo::Binary;
use crate::sites::Mutant;
use std::collections::BTreeSet;
use std::path::Path;

const MUTANTS: &str = "mutants.txt";
const BINARIES: &str = "binaries.txt";

/// Writes the mutants, and which of them are not compiled.
pub(crate) fn write(
    folder: &Path,
    mutants: &[Mutant],
    refused: &BTreeSet<u32>,
) -> Result<(), String> {
    let line = |mutant: &Mutant| {
        let Mutant { number, file, line, function, edit, text } = mutant;
        let state = if refused.contains(number) { "refused" } else { "compiled" };
        format!("{number}\t{state}\t{file}\t{line}\t{function}\t{edit}\t{text}\n")
    };
    let text: String = mutants.iter().map(line).collect();
    std::fs::write(folder.join(MUTANTS), text).map_err(|error| error.to_string())
}

/// The mutants, and which of them are not compiled.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Mutant>, BTreeSet<u32>), String> {
    let text = std::fs::read_to_string(folder.join(MUTANTS)).map_err(|error| error.to_string())?;
    let mut refused = BTreeSet::new();
    let mut mutants = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(7, '\t').collect();
        let [number, state, file, at, function, edit, text] = fields[..] else { continue };
        let (Ok(number), Ok(line)) = (number.parse(), at.parse()) else { continue };
        if state == "refused" {
            refused.insert(number);
        }
        let [file, function, edit, text] = [file, function, edit, text].map(str::to_owned);
        mutants.push(Mutant { number, file, line, function, edit, text });
    }
    Ok((mutants, refused))
}

/// Writes what was built.
pub(crate) fn write_binaries(folder: &Path, binaries: &[Binary]) -> Result<(), String> {
    let line = |binary: &Binary| {
        let (path, at) = (binary.path.display(), binary.folder.display());
        format!("{}\t{path}\t{at}\t{}\n", binary.name, binary.is_test)
    };
    let text: String = binaries.iter().map(line).collect();
    std::fs::write(folder.join(BINARIES), text).map_err(|error| error.to_string())
}

/// What was built.
pub(crate) fn read_binaries(folder: &Path) -> Result<Vec<Binary>, String> {
    let text = std::fs::read_to_string(folder.join(BINARIES)).map_err(|error| error.to_string())?;
    let binary = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, path, folder, is_test] = fields[..] else { return None };
        let is_test = is_test == "true";
        Some(Binary { name: name.to_owned(), path: path.into(), folder: folder.into(), is_test })
    };
    Ok(text.lines().filter_map(binary).collect())
}
