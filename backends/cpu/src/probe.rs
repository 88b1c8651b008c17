//! Probes of a C compiler: programs with known results, among them known miscompilations (docs/FOUND-ELSEWHERE.md). They are compiled
//! as kernels are and run in a process of their own, once for each compiler, processor and cache. Where results are wrong, flags
//! that switch optimizations off are tried.
//!
//! Limit: a compiler that passes may miscompile other programs; the kernel check compares each kernel with the interpreter.

use crate::scratch::{Running, Scratch, unique};
use crate::{Cache, Compiler, Cpu, Error};
use relax_emit::prelude;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROBES: &str = include_str!("probe/probes.c");
/// Flags for right code, in the order in which they are tried. The first are for what is known of GCC: loops whose guarded reads
/// become masked loads; the second for vectorizers; compilers refuse flags that they do not know.
const SAFER: [&[&str]; 3] = [
    &["-fno-tree-loop-if-convert"],
    &["-fno-tree-vectorize", "-fno-tree-slp-vectorize"],
    &["-O1", "-fno-tree-vectorize"],
];
/// The last line of a run that came to its end.
const DONE: &str = "done";
/// Probes take milliseconds.
const LONGEST: Duration = Duration::from_secs(10);
/// Signal of an instruction that the processor lacks.
#[cfg(unix)]
const SIGILL: i32 = 4;

/// What the probes found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    state: State,
    /// Names of probes whose results are wrong by the usual flags.
    wrong: Vec<String>,
    /// More flags, by which they are right.
    flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ran,
    /// The processor does not run the code.
    Foreign,
}

impl Findings {
    /// Flags by which all probes are right, after the usual ones.
    pub fn flags(&self) -> impl Iterator<Item = &str> {
        self.flags.iter().map(String::as_str)
    }

    fn to_text(&self) -> String {
        let Self { state, wrong, flags } = self;
        let state = if *state == State::Ran { "ran" } else { "foreign" };
        format!("{state}\n{}\n{}\n", wrong.join("\t"), flags.join("\t"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let state = match lines.next()? {
            "ran" => State::Ran,
            "foreign" => State::Foreign,
            _ => return None,
        };
        let mut words = || {
            let words = lines.next()?.split('\t').filter(|word| !word.is_empty());
            Some(words.map(str::to_owned).collect::<Vec<_>>())
        };
        Some(Self { state, wrong: words()?, flags: words()? })
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, wrong, flags } = self;
        match (state, wrong.is_empty()) {
            (State::Foreign, _) => {
                f.write_str("not probed: its code does not run on this processor")
            }
            (State::Ran, true) => {
                f.write_str("the probes of known miscompilations give right results")
            }
            (State::Ran, false) => {
                let (wrong, flags) = (wrong.join(", "), flags.join(" "));
                write!(
                    f,
                    "it makes wrong code of {wrong}, and right code with {flags}, which is used"
                )
            }
        }
    }
}

/// The C file of all probes.
#[must_use]
pub fn probes() -> String {
    format!("{}\n{PROBES}", prelude())
}

/// What is known of a compiler, or what its probes find now.
pub(crate) fn probe(compiler: &Compiler, cache: &Cache) -> Result<Findings, Error> {
    let text = probes();
    let key = blake3::hash(format!("{}\n{text}", compiler.key()).as_bytes()).to_hex();
    let path = cache.folder().join(format!("{}{}.txt", Cache::FINDINGS, &key[..32]));
    let known = fs::read_to_string(&path).ok();
    if let Some(known) = known.as_deref().and_then(|known| checked(known, &key)) {
        return Ok(known);
    }
    let findings = found(compiler, cache, &text)?;
    let content = with_digest(&findings.to_text(), &key);
    let new = cache.folder().join(format!("{}-{}", &key[..32], unique()));
    let written = Scratch::holding(|| fs::write(&new, content).map(|()| new.clone()));
    written
        .and_then(|(_guard, new)| fs::rename(new, &path))
        .map_err(|error| failed(&path, &error))?;
    Ok(findings)
}

fn with_digest(text: &str, key: &str) -> String {
    format!("{}\n{text}", blake3::hash(format!("{key}{text}").as_bytes()).to_hex())
}

/// The findings of a file that is about this compiler and not damaged.
fn checked(content: &str, key: &str) -> Option<Findings> {
    let (_, text) = content.split_once('\n')?;
    (with_digest(text, key) == content).then(|| Findings::parse(text)).flatten()
}

fn found(compiler: &Compiler, cache: &Cache, text: &str) -> Result<Findings, Error> {
    cache.make_folder()?;
    let folder = cache.folder();
    let work = Scratch::folder(folder).map_err(|error| failed(folder, &error))?;
    let source = work.path().join("probes.c");
    fs::write(&source, text).map_err(|error| failed(&source, &error))?;
    let outcome = |flags: &[&str]| {
        let compiler =
            flags.iter().fold(compiler.clone(), |compiler, flag| compiler.with_flag(flag));
        let program = work.path().join("probes");
        compiler.executable(&source, &program).map(|()| run(&program, compiler.cpu()))
    };
    let wrong = match outcome(&[])? {
        Outcome::Wrong(wrong) => wrong,
        Outcome::Right => {
            return Ok(Findings { state: State::Ran, wrong: Vec::new(), flags: Vec::new() });
        }
        Outcome::Foreign => {
            return Ok(Findings { state: State::Foreign, wrong: Vec::new(), flags: Vec::new() });
        }
    };
    // One that refuses a flag is asked with the next.
    let safer = SAFER.iter().find(|flags| matches!(outcome(flags), Ok(Outcome::Right)));
    let Some(flags) = safer else {
        return Err(Error::Miscompiles {
            command: compiler.command().to_owned(),
            version: compiler.version().to_owned(),
            probes: wrong.join(", "),
        });
    };
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Ok(Findings { state: State::Ran, wrong, flags })
}

enum Outcome {
    Right,
    /// The names of the probes.
    Wrong(Vec<String>),
    Foreign,
}

fn run(program: &Path, cpu: &Cpu) -> Outcome {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = Running::spawn(&mut command).and_then(|child| child.wait_within(LONGEST));
    let is_named = *cpu != Cpu::Native;
    let all = |why: &str| Outcome::Wrong(vec![format!("all of them ({why})")]);
    match output {
        Ok(Some(output)) if is_named && is_foreign(&output.status) => Outcome::Foreign,
        Ok(Some(output)) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let mut wrong: Vec<String> = text.lines().map(str::to_owned).collect();
            let is_done = wrong.pop().is_some_and(|last| last == DONE) && output.status.success();
            match (is_done, wrong.is_empty()) {
                (true, true) => Outcome::Right,
                (true, false) => Outcome::Wrong(wrong),
                (false, _) => all(&format!("the program ends with {}", output.status)),
            }
        }
        Ok(None) => all("the program does not end"),
        // It is for another architecture.
        Err(_) if is_named => Outcome::Foreign,
        Err(error) => all(&error.to_string()),
    }
}

#[cfg(unix)]
fn is_foreign(status: &std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(status) == Some(SIGILL)
}

#[cfg(not(unix))]
fn is_foreign(_: &std::process::ExitStatus) -> bool {
    false
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Cache { path: path.to_owned(), why: error.to_string() }
}

impl Cache {
    /// How names of files with findings begin.
    const FINDINGS: &str = "probes-";

    /// Removes what was found of compilers.
    pub(crate) fn clear_findings(&self) -> std::io::Result<()> {
        let Ok(files) = fs::read_dir(self.folder()) else { return Ok(()) };
        let paths: Vec<PathBuf> = files
            .filter_map(Result::ok)
            .filter(|file| file.file_name().to_string_lossy().starts_with(Self::FINDINGS))
            .map(|file| file.path())
            .collect();
        paths.iter().try_for_each(fs::remove_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_back_and_damage_is_found() {
        let flags = vec!["-O1".to_owned(), "-g0".to_owned()];
        let findings = Findings { state: State::Ran, wrong: vec!["halves".to_owned()], flags };
        let content = with_digest(&findings.to_text(), "key");
        assert_eq!(checked(&content, "key"), Some(findings));
        assert_eq!(checked(&content, "other"), None);
        assert_eq!(checked(&content.replace("-O1", "-O3"), "key"), None);
        assert_eq!(checked("", "key"), None);
    }
}
