//! Processes that may hang, abort, or want all memory.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kilobytes that one process may write to; more than any test takes. Of addresses the emulated driver of CUDA takes far more.
const MEMORY: u64 = 12_000_000;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Fine,
    Failed,
    /// It ran for too long, and was stopped.
    Hung,
}

/// A command to run.
pub(crate) struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
}

impl Job {
    pub(crate) fn new(program: &Path, arguments: &[&str], folder: &Path) -> Self {
        Self {
            program: program.to_path_buf(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            folder: folder.to_path_buf(),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -d {MEMORY}; ulimit -c 0; exec \"$0\" \"$@\"")]);
        command.arg(&self.program).args(&self.arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null());
        command.env_remove("RELAX_MUTANT").env_remove("RELAX_BLESS");
        command
    }

    /// What it prints.
    pub(crate) fn output(&self) -> io::Result<String> {
        let output = self.command().stdout(Stdio::piped()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it with a mutant, with files of its own in a folder.
    pub(crate) fn with_mutant(
        &self,
        mutant: u32,
        work: &Path,
        limit: Duration,
    ) -> io::Result<Ended> {
        let mut command = self.command();
        command.env("RELAX_MUTANT", mutant.to_string());
        run(command, work, limit)
    }

    /// Runs it without a mutant: milliseconds, and which mutants it asked for.
    pub(crate) fn noted(
        &self,
        work: &Path,
        seconds: u64,
    ) -> io::Result<(Ended, u64, BTreeSet<u32>)> {
        let notes = work.join("notes");
        std::fs::create_dir_all(&notes)?;
        let mut command = self.command();
        command.env("RELAX_MUTANT_REACHED", &notes);
        let start = Instant::now();
        let ended = run(command, work, Duration::from_secs(seconds))?;
        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut reached = BTreeSet::new();
        for note in std::fs::read_dir(&notes)? {
            let text = std::fs::read_to_string(note?.path())?;
            reached.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        Ok((ended, milliseconds, reached))
    }
}

/// An empty folder. Compiled kernels and modules of one mutant must not be found by another.
pub(crate) fn fresh(work: &Path) -> io::Result<()> {
    if work.exists() {
        std::fs::remove_dir_all(work)?;
    }
    std::fs::create_dir_all(work.join("temporary"))?;
    std::fs::create_dir_all(work.join("cache"))
}

fn run(mut command: Command, work: &Path, limit: Duration) -> io::Result<Ended> {
    command.env("TMPDIR", work.join("temporary")).env("XDG_CACHE_HOME", work.join("cache"));
    let start = Instant::now();
    // A group of its own, so that what it started ends with it.
    let mut child = command.process_group(0).spawn()?;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Fine } else { Ended::Failed });
        }
        if start.elapsed() > limit {
            Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
            child.wait()?;
            return Ok(Ended::Hung);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
