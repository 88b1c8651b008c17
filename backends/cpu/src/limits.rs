//! What the processor reaches: float operations a second, and bytes a second for working sets that fit its caches and for one
//! that does not. Times of kernels are compared with these (the roofline).

use crate::scratch::{Running, Scratch};
use crate::{Cache, Compiler, Error, hardware};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

const TEXT: &str = include_str!("limits/limits.c");
/// The measurements take half a second.
const LONGEST: Duration = Duration::from_secs(30);
/// A working set of so many times the last cache lies in memory.
const BEYOND: u64 = 4;
/// Bytes of the largest working set: a virtual machine may tell the cache of the whole processor.
const MOST: u64 = 256 << 20;

/// What so many threads reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Threads that it was measured with.
    pub threads: usize,
    /// Operations on f32 a second, two for a fused multiply-add.
    pub operations: f64,
    /// Working sets in bytes, and the bytes a second at which one is read, the smallest set first.
    pub reads: Vec<(u64, f64)>,
}

impl Limits {
    /// Measures them; takes half a second.
    ///
    /// # Errors
    /// The compiler fails, or the program does.
    pub fn measured(compiler: &Compiler, cache: &Cache, threads: usize) -> Result<Self, Error> {
        cache.make_folder()?;
        let folder = cache.folder();
        let failed = |error: std::io::Error| Error::Cache {
            path: folder.to_owned(),
            why: error.to_string(),
        };
        let work = Scratch::folder(folder).map_err(failed)?;
        let (source, program) = (work.path().join("limits.c"), work.path().join("limits"));
        fs::write(&source, TEXT).map_err(failed)?;
        // Sums are rounded as the processor likes it: nobody reads them.
        let compiler = compiler.clone().with_flag("-ffp-contract=fast").with_flag("-pthread");
        compiler.executable(&source, &program)?;
        let mut command = Command::new(&program);
        command.arg(threads.to_string()).args(sets().map(|bytes| bytes.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let output = Running::spawn(&mut command).and_then(|child| child.wait_within(LONGEST));
        let output = output.map_err(failed)?.filter(|output| output.status.success());
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.and_then(|text| Self::parse(&text, threads)).ok_or(Error::Limits)
    }

    fn parse(text: &str, threads: usize) -> Option<Self> {
        let mut lines = text.lines();
        let operations = lines.next()?.parse().ok()?;
        let reads = lines.map(|line| {
            let (bytes, rate) = line.split_once(' ')?;
            Some((bytes.parse().ok()?, rate.parse().ok()?))
        });
        Some(Self { threads, operations, reads: reads.collect::<Option<_>>()? })
    }

    /// The shortest time, in seconds, in which so much is computed and read.
    #[must_use]
    pub fn seconds(&self, operations: f64, bytes: f64) -> f64 {
        let fits = self.reads.iter().find(|(set, _)| *set as f64 >= bytes);
        let rate = fits.or(self.reads.last()).map_or(f64::INFINITY, |(_, rate)| *rate);
        (operations / self.operations).max(bytes / rate)
    }
}

/// Half of each cache, and what fits none.
fn sets() -> impl Iterator<Item = u64> {
    let hardware = hardware();
    let caches = [hardware.l1, hardware.l2, hardware.l3].map(|bytes| bytes / 2);
    let last = hardware.l3.max(hardware.l2);
    caches.into_iter().filter(|bytes| *bytes > 0).chain([(BEYOND * last).min(MOST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_counts() {
        let reads = vec![(1000, 100.0), (10_000, 10.0)];
        let limits = Limits { threads: 1, operations: 50.0, reads };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        close(limits.seconds(100.0, 100.0), 2.0);
        close(limits.seconds(10.0, 1000.0), 10.0);
        close(limits.seconds(10.0, 2000.0), 200.0);
        // More than any set that was measured.
        close(limits.seconds(10.0, 20_000.0), 2000.0);
    }

    #[test]
    fn what_the_program_prints_is_read() {
        let limits = Limits { threads: 2, operations: 5e9, reads: vec![(16, 7.0), (32, 3.0)] };
        assert_eq!(Limits::parse("5000000000\n16 7\n32 3\n", 2), Some(limits));
        assert_eq!(Limits::parse("", 2), None);
        assert_eq!(Limits::parse("5\n16\n", 2), None);
    }
}
