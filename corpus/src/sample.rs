//! Samples of what is too slow to test whole: one item in N, and with each commit other ones.
//!
//! The first item is chosen by a hash of `RELAX_SAMPLE`, else of the commit that is checked out, so that a commit tests
//! the same items wherever it is tested, and N commits test all of them. `RELAX_WHOLE=1` takes everything. Files that the last commits
//! changed can be taken as well: what is new fails at the commits that make it, and not at one of the next N.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The question for the files of the last commits, which are new.
const RECENT_COMMITS: &str = "log -40 --name-only --format= --relative -- .";

/// Every `stride`-th item from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    stride: usize,
    offset: usize,
}

impl Sample {
    /// The sample of a test at the commit that is checked out; printed to stderr with the key that repeats it. Samples
    /// of other tests, by name, start elsewhere. A stride of 0 counts as 1.
    #[must_use]
    pub fn of(test: &str, stride: usize) -> Self {
        if is_whole() {
            return Self { stride: 1, offset: 0 };
        }
        let sample = Self::with_key(key(), test, stride);
        let Self { stride, offset } = sample;
        eprintln!(
            "{test}: items {offset}, {}, ... (one in {stride}; RELAX_SAMPLE={} repeats it, RELAX_WHOLE=1 runs all)",
            offset + stride,
            key()
        );
        sample
    }

    fn with_key(key: &str, test: &str, stride: usize) -> Self {
        let stride = stride.max(1);
        let hash =
            key.bytes().chain([0]).chain(test.bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3_u64)
            });
        // The low bits of FNV-1a are weak: those of the middle are mixed by all bytes.
        let offset = (hash >> 20) % u64::try_from(stride).unwrap_or(u64::MAX);
        Self { stride, offset: usize::try_from(offset).unwrap_or(0) }
    }

    /// The items of the sample, in their order.
    pub fn take<T>(self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.offset).step_by(self.stride)
    }

    /// The files of the sample, and those that one of the last commits changed, in their order.
    pub fn take_files(self, files: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
        let each = files.iter().enumerate();
        let is_taken = move |at: usize, path: &Path| {
            (at >= self.offset && (at - self.offset).is_multiple_of(self.stride)) || is_recent(path)
        };
        each.filter(move |(at, path)| is_taken(*at, path)).map(|(_, path)| path)
    }

    /// Whether everything is in it.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.stride == 1
    }
}

/// Whether `RELAX_WHOLE` asks for everything.
#[must_use]
pub fn is_whole() -> bool {
    std::env::var_os("RELAX_WHOLE").is_some_and(|value| value == "1")
}

/// `RELAX_SAMPLE`, or else the hash of the commit, or nothing outside of a repository.
fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        std::env::var("RELAX_SAMPLE").ok().filter(|key| !key.is_empty()).unwrap_or_else(commit)
    })
}

fn commit() -> String {
    git("rev-parse HEAD").trim().to_owned()
}

/// What git says of the repository of this crate; nothing outside of one. Arguments have no spaces.
fn git(arguments: &str) -> String {
    let arguments = arguments.split(' ');
    let said = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let said = said.ok().filter(|output| output.status.success());
    said.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default()
}

/// Whether one of the last commits, or an edit that is not committed, changed a file of this crate's folder.
fn is_recent(path: &Path) -> bool {
    static RECENT: OnceLock<BTreeSet<PathBuf>> = OnceLock::new();
    let recent = RECENT.get_or_init(|| {
        let committed = git(RECENT_COMMITS);
        let edited = git("diff HEAD --name-only --relative -- .");
        let of_crate = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name).canonicalize();
        committed.lines().chain(edited.lines()).filter_map(|name| of_crate(name).ok()).collect()
    });
    path.canonicalize().is_ok_and(|path| recent.contains(&path))
}

#[cfg(test)]
mod tests {
    use super::{Sample, git};
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    #[test]
    fn a_key_repeats_its_sample_and_keys_together_take_everything() {
        for stride in [0, 1, 2, 3, 4, 12] {
            let mut taken = BTreeSet::new();
            for commit in 0..200 {
                let key = format!("{commit:040x}");
                let sample = Sample::with_key(&key, "test", stride);
                assert_eq!(sample, Sample::with_key(&key, "test", stride));
                let items: Vec<usize> = sample.take(0..60).collect();
                assert_eq!(items.len(), 60 / stride.max(1));
                taken.extend(items);
            }
            assert_eq!(taken, (0..60).collect(), "one in {stride}");
        }
    }

    #[test]
    fn tests_of_one_commit_start_at_different_items() {
        let names = (0..100).map(|at| format!("test {at}"));
        let starts: BTreeSet<usize> =
            names.map(|name| Sample::with_key("ca5e5ec", &name, 12).offset).collect();
        assert_eq!(starts, (0..12).collect());
    }

    #[test]
    fn the_offset_depends_on_the_stride_alone_when_all_is_taken() {
        let whole = Sample::with_key("ca5e5ec", "test", 1);
        assert!(whole.is_whole());
        assert_eq!(whole.take(0..7).count(), 7);
    }

    #[test]
    fn what_the_last_commits_changed_is_taken() {
        if git("rev-parse HEAD").is_empty() {
            return; // Outside of a repository nothing is new.
        }
        let said = git("log -1 --diff-filter=AM --name-only --format= --relative -- *.rx");
        let name = said.lines().next().expect("a commit made or changed a program");
        let recent = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let files = [recent.clone(), PathBuf::from("another"), recent.clone()];
        let sample = Sample { stride: 5, offset: 1 };
        assert_eq!(sample.take_files(&files).collect::<Vec<_>>(), files.iter().collect::<Vec<_>>());
        let sample = Sample { stride: 5, offset: 4 };
        assert_eq!(sample.take_files(&files).collect::<Vec<_>>(), [&recent, &recent]);
    }
}
