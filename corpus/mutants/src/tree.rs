//! The mutated copy of the workspace: all mutants compiled in at once, those that the compiler refuses taken out again.

use crate::bugs::{self, Bug};
use crate::cargo;
use crate::edits::{Edits, Placed};
use crate::modules;
use crate::record;
use crate::sites::{self, Mutant};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bugs are numbered from here, so that a new one leaves the numbers of mutants as they are.
pub(crate) const BUGS: u32 = 50_000;
/// Rounds with the compiler. One finds the errors of one crate and one of its phases.
const ROUNDS: usize = 60;
/// The crate that chooses.
const PICK: &str = include_str!("pick.rs");

/// A workspace whose sources hold their mutants.
pub(crate) struct Tree {
    pub(crate) folder: PathBuf,
    root: PathBuf,
    sources: BTreeMap<String, Source>,
    pub(crate) mutants: Vec<Mutant>,
    pub(crate) refused: BTreeSet<u32>,
    /// Of the mutants those that are compiled, unless it is all.
    kept: Option<BTreeSet<u32>>,
}

struct Source {
    text: String,
    edits: Edits,
    placed: Vec<Placed>,
}

impl Tree {
    /// Finds every mutant of the workspace and every bug of the lists.
    pub(crate) fn find(root: &Path, folder: &Path) -> Result<Self, String> {
        let mut tree = Self {
            folder: folder.to_path_buf(),
            root: root.to_path_buf(),
            sources: BTreeMap::new(),
            mutants: Vec::new(),
            refused: BTreeSet::new(),
            kept: None,
        };
        for (index, bug) in bugs::read(&root.join("corpus/mutants/bugs"))?.iter().enumerate() {
            tree.add_bug(BUGS + u32::try_from(index).unwrap_or(0), bug)?;
        }
        let tracked = tracked(root)?;
        let mut first = 0;
        for file in modules::sources(&tracked) {
            let text = tree.source(file)?.text.clone();
            let found = sites::find(file, &text, first)?;
            first += u32::try_from(found.mutants.len()).unwrap_or(0);
            tree.mutants.extend(found.mutants.iter().cloned());
            let edits = found.edits;
            tree.source(file)?.edits.append(edits);
        }
        Ok(tree)
    }

    fn add_bug(&mut self, number: u32, bug: &Bug) -> Result<(), String> {
        let source = self.source(&bug.file)?;
        let found = bug.find(&source.text)?;
        found.put(number, &source.text.clone(), &mut source.edits);
        let line = source.text[..found.at.start].matches('\n').count() + 1;
        self.mutants.push(Mutant {
            number,
            file: bug.file.clone(),
            line,
            function: found.function,
            edit: bug.what.clone(),
            text: String::new(),
        });
        Ok(())
    }

    fn source(&mut self, file: &str) -> Result<&mut Source, String> {
        if !self.sources.contains_key(file) {
            let text = std::fs::read_to_string(self.root.join(file))
                .map_err(|error| format!("{file}: {error}"))?;
            let source = Source { text, edits: Edits::default(), placed: Vec::new() };
            self.sources.insert(file.to_owned(), source);
        }
        self.sources.get_mut(file).ok_or_else(|| file.to_owned())
    }

    /// Compiles these mutants alone.
    pub(crate) fn keep(&mut self, numbers: BTreeSet<u32>) {
        self.kept = Some(numbers);
    }

    /// Writes the copy and builds its tests.
    pub(crate) fn build(&mut self, arguments: &[String]) -> Result<Vec<cargo::Binary>, String> {
        self.copy()?;
        for round in 1..=ROUNDS {
            self.write()?;
            let built =
                cargo::build(&self.folder.join("tree"), &self.folder.join("build"), arguments)?;
            if built.fine {
                return Ok(built.binaries);
            }
            let before = self.refused.len();
            for error in &built.errors {
                self.refuse(error);
            }
            let more = self.refused.len() - before;
            eprintln!("round {round}: the compiler refuses {more} mutants");
            // A build that is broken off goes on from here.
            record::write(&self.folder, &self.mutants, &self.refused)?;
            if more == 0 {
                let said: Vec<&str> =
                    built.errors.iter().map(|error| error.text.as_str()).collect();
                return Err(format!("errors of no mutant:\n{}", said.join("\n")));
            }
        }
        Err("the compiler still refuses mutants".to_owned())
    }

    /// The files as they are tracked, the crate that chooses, and what was fetched.
    fn copy(&self) -> Result<(), String> {
        let tree = self.folder.join("tree");
        for file in tracked(&self.root)? {
            // Cargo joins the flags of every folder above: twice the same flags are others, and all would be built anew.
            let inherited = file.starts_with(".cargo/") && self.folder.starts_with(&self.root);
            if file != "Cargo.toml" && !inherited && !self.sources.contains_key(&file) {
                write_new(
                    &tree.join(&file),
                    &std::fs::read(self.root.join(&file)).unwrap_or_default(),
                )?;
            }
        }
        let profile = std::fs::read_to_string(self.root.join("Cargo.toml")).unwrap_or_default();
        // What is built once and run for seconds at a time need not be quick.
        let profile = profile.replace("debug = \"line-tables-only\"", "debug = false");
        let profile =
            profile.replace("relax-semantics]\nopt-level = 3", "relax-semantics]\nopt-level = 1");
        write_new(&tree.join("Cargo.toml"), profile.as_bytes())?;
        let manifest = "[package]\nname = \"mutation\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        write_new(&tree.join("mutation/Cargo.toml"), manifest.as_bytes())?;
        write_new(&tree.join("mutation/src/lib.rs"), PICK.as_bytes())?;
        let crates: BTreeSet<PathBuf> =
            self.sources.keys().filter_map(|file| self.crate_of(file)).collect();
        for folder in crates {
            let up = "../".repeat(folder.components().count());
            let text = std::fs::read_to_string(self.root.join(&folder).join("Cargo.toml"));
            let line = format!("[dependencies]\nmutation = {{ path = \"{up}mutation\" }}\n");
            let text = text.unwrap_or_default().replacen("[dependencies]\n", &line, 1);
            write_new(&tree.join(&folder).join("Cargo.toml"), text.as_bytes())?;
        }
        for place in [self.folder.join(".cache"), tree.join(".cache")] {
            if !place.exists() {
                // Without what was fetched some tests are left out, as they are elsewhere.
                let _ = std::os::unix::fs::symlink(self.root.join(".cache"), place);
            }
        }
        Ok(())
    }

    /// The folder of the crate that a source belongs to.
    fn crate_of(&self, file: &str) -> Option<PathBuf> {
        let mut folder = Path::new(file).parent()?;
        while !self.root.join(folder).join("Cargo.toml").exists() {
            folder = folder.parent()?;
        }
        Some(folder.to_path_buf())
    }

    fn write(&mut self) -> Result<(), String> {
        let tree = self.folder.join("tree");
        for (file, source) in &mut self.sources {
            let is_compiled = |mutant: u32| {
                let is_kept = self.kept.as_ref().is_none_or(|kept| kept.contains(&mutant));
                is_kept && !self.refused.contains(&mutant)
            };
            let (text, placed) = source.edits.apply(&source.text, is_compiled);
            write_new(&tree.join(file), text.as_bytes())?;
            source.placed = placed;
        }
        Ok(())
    }

    /// Takes out those that an earlier build refused. Numbers may be others since, so the mutants themselves are compared.
    pub(crate) fn refuse_again(&mut self, known: &[Mutant], refused: &BTreeSet<u32>) {
        let is_refused = |mutant: &&Mutant| refused.contains(&mutant.number);
        let old: BTreeSet<&Mutant> = known.iter().filter(is_refused).collect();
        self.refused =
            self.mutants.iter().filter(|mutant| old.contains(mutant)).map(|m| m.number).collect();
    }

    /// Takes out the mutant that an error is about: that whose own text it is in, or else the innermost around it.
    fn refuse(&mut self, error: &cargo::Error) {
        for (file, at) in &error.spans {
            let Some(source) = self.sources.get(file) else { continue };
            let own = |placed: &&Placed| placed.at.start < at.end && at.start < placed.at.end;
            let mut guilty: Vec<u32> =
                source.placed.iter().filter(own).map(|placed| placed.mutant).collect();
            if guilty.is_empty() {
                guilty.extend(innermost(&source.placed, at.start));
            }
            if guilty.iter().any(|mutant| !self.refused.contains(mutant)) {
                self.refused.extend(guilty);
                return;
            }
        }
    }
}

/// The mutant with the shortest region around a place.
fn innermost(placed: &[Placed], place: usize) -> Option<u32> {
    let mut regions: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for piece in placed {
        let region = regions.entry(piece.mutant).or_insert((piece.at.start, piece.at.end));
        *region = (region.0.min(piece.at.start), region.1.max(piece.at.end));
    }
    let around = regions.iter().filter(|(_, region)| region.0 <= place && place < region.1);
    around.min_by_key(|(_, region)| region.1 - region.0).map(|(mutant, _)| *mutant)
}

/// The files of the project, by path from its root.
fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Writes a file unless it has this text already: cargo looks at times.
fn write_new(path: &Path, text: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(said)?;
    std::fs::write(path, text).map_err(said)
}
