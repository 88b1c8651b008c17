//! Temporary files, temporary folders and running compilers of this process. Each is removed when its guard is dropped;
//! [`remove_all`] ends and removes all of them, for a process that a signal ends. Those of processes that were killed are
//! removed by [`sweep`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Age from which a temporary file of a process that is not found is swept. Processes of another container that share
/// the folder are not found either; no compilation takes as long.
const ORPHANED: Duration = Duration::from_secs(3600);
/// Attempts to remove a folder into which a compiler that was killed may write for a moment.
const ATTEMPTS: u32 = 50;

static LIVE: Mutex<Live> = Mutex::new(Live { paths: BTreeSet::new(), compilers: BTreeSet::new() });

struct Live {
    paths: BTreeSet<PathBuf>,
    /// Process groups, by the identifiers of their first processes.
    compilers: BTreeSet<u32>,
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard of a temporary file or folder.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Guards the file or folder that `make` makes. No signal is handled in between.
    ///
    /// # Errors
    /// Of `make`.
    pub fn holding<T: AsRef<Path>>(make: impl FnOnce() -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut live = live();
        let made = make()?;
        let path = made.as_ref().to_owned();
        live.paths.insert(path.clone());
        Ok((Self { path }, made))
    }

    /// A new folder `.work-PID-NUMBER` of mode 0700.
    ///
    /// # Errors
    /// What the system says.
    pub fn folder(parent: &Path) -> io::Result<Self> {
        let (scratch, _) = Self::holding(|| {
            loop {
                let path = parent.join(format!(".work-{}", unique()));
                match private_folder(&path) {
                    // A process of the same number left it.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => return made.map(|()| path),
                }
            }
        })?;
        Ok(scratch)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut live = live();
        live.paths.remove(&self.path);
        // It may have been renamed.
        remove(&self.path);
    }
}

/// `PID-NUMBER`, which no other thread or living process has.
#[must_use]
pub fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A compiler in a process group of its own.
pub(crate) struct Running {
    child: Child,
    id: u32,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut live = live();
        let child = command.spawn()?;
        let id = child.id();
        live.compilers.insert(id);
        Ok(Self { child, id })
    }

    /// The output of a process that prints little; `None` for one that runs longer, which is ended.
    pub(crate) fn wait_within(mut self, longest: Duration) -> io::Result<Option<Output>> {
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > longest {
                kill(self.id);
                self.wait_with_output()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait_with_output().map(Some)
    }

    pub(crate) fn wait_with_output(self) -> io::Result<Output> {
        let output = self.child.wait_with_output();
        live().compilers.remove(&self.id);
        output
    }
}

/// Kills the compilers that run and removes all temporary files and folders. Nothing is made afterwards: the process must
/// end now.
pub fn remove_all() {
    let live = live();
    live.compilers.iter().for_each(|&id| kill(id));
    for path in &live.paths {
        for _ in 0..ATTEMPTS {
            remove(path);
            if !path.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // Nobody gets the lock before the process ends.
    std::mem::forget(live);
}

/// Which orphans are swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// Those not modified for an hour.
    Old,
    /// All.
    All,
}

/// Removes temporary files and folders of processes that ended; their names contain `-PID-NUMBER`.
///
/// # Errors
/// When the folder cannot be read.
pub fn sweep(folder: &Path, which: Orphans) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(process_of) else { continue };
        let is_old = || {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            age.is_some_and(|age| age > ORPHANED)
        };
        if !is_alive(id) && (which == Orphans::All || is_old()) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// The process that a temporary name belongs to: `.work-PID-NUMBER`, or `HASH…-PID-NUMBER` before an extension.
fn process_of(name: &str) -> Option<u32> {
    let is_hash =
        |head: &str| head.len() >= 32 && head.bytes().take(32).all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.splitn(3, '-');
    let (head, id, number) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit());
    ((head == ".work" || is_hash(head)) && is_number).then(|| id.parse().ok()).flatten()
}

fn remove(path: &Path) {
    // It may be gone, or be removed by another process at the same time.
    let _ = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

/// A folder that nobody else may read or write.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn kill(group: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(id) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process_group(id, Signal::KILL);
    }
}

#[cfg(unix)]
fn is_alive(id: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn kill(_group: u32) {}

#[cfg(not(unix))]
fn is_alive(id: u32) -> bool {
    id == std::process::id()
}

#[cfg(test)]
mod tests {
    use super::process_of;

    #[test]
    fn temporary_names_tell_their_process() {
        let hash = "0123456789abcdef".repeat(2);
        assert_eq!(process_of(".work-12-3"), Some(12));
        assert_eq!(process_of(&format!("{hash}-12-3.c")), Some(12));
        assert_eq!(process_of(&format!("{hash}-12-3.0.o")), Some(12));
        assert_eq!(process_of(&format!("{hash}.checks-12-3")), Some(12));
        assert_eq!(process_of(&format!("{hash}{hash}.rxm-12-3")), Some(12));
        for name in [format!("{hash}.c"), "a-12-3".to_owned(), "tiles-0123.txt".to_owned()] {
            assert_eq!(process_of(&name), None, "{name}");
        }
    }
}
