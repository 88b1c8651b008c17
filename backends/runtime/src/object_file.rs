//! The shared object of a module as a file, for the loader of the system: a file in memory on Linux, so that no folder needs to
//! be writable or allow execution; else, and where there are none, a temporary file.

use crate::file::LoadError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that holds an object.
pub(crate) struct ObjectFile {
    path: PathBuf,
    /// Of a file in memory. The loader takes two files of one path for one object: as long as this is open, no other has its
    /// number, which is in the path.
    #[cfg(target_os = "linux")]
    memory: Option<std::os::fd::OwnedFd>,
}

impl ObjectFile {
    pub(crate) fn of(object: &[u8]) -> Result<Self, LoadError> {
        #[cfg(target_os = "linux")]
        if let Some(file) = in_memory(object) {
            return Ok(file);
        }
        written(object)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What must stay as long as the object is loaded.
    pub(crate) fn loaded(self) -> Option<Self> {
        self.is_in_memory().then_some(self)
    }

    fn is_in_memory(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.memory.is_some();
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

impl Drop for ObjectFile {
    fn drop(&mut self) {
        if !self.is_in_memory() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// `None` where the system has no such files, or does not show them.
#[cfg(target_os = "linux")]
fn in_memory(object: &[u8]) -> Option<ObjectFile> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::os::fd::AsRawFd;
    let memory = memfd_create("relax", MemfdFlags::CLOEXEC).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let mut file = std::fs::File::from(memory);
    std::io::Write::write_all(&mut file, object).ok()?;
    path.exists().then(|| ObjectFile { path, memory: Some(file.into()) })
}

/// A temporary file, which its owner alone may read.
fn written(object: &[u8]) -> Result<ObjectFile, LoadError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let failed = |path: &Path, error: &std::io::Error| {
        LoadError::Kernels(format!("{} cannot be written: {error}", path.display()))
    };
    let folder = std::env::temp_dir();
    for _ in 0..64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("relax-{}-{number}.so", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
        let mut file = match options.open(&path) {
            Ok(file) => file,
            // Another process of that number left it.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(failed(&path, &error)),
        };
        return match std::io::Write::write_all(&mut file, object) {
            Ok(()) => Ok(ObjectFile {
                path,
                #[cfg(target_os = "linux")]
                memory: None,
            }),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(failed(&path, &error))
            }
        };
    }
    Err(LoadError::Kernels(format!("{} has no free name for a file", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_their_object_and_have_paths_of_their_own() {
        let files = [b"first".as_slice(), b"second"].map(|object| {
            let file = ObjectFile::of(object).expect("there is room");
            assert_eq!(std::fs::read(file.path()).expect("it is there"), object);
            file
        });
        assert_ne!(files[0].path(), files[1].path());
        let temporary = written(b"third").expect("there is room");
        let path = temporary.path().to_owned();
        assert_eq!(std::fs::read(&path).expect("it is there"), b"third");
        drop(temporary);
        assert!(!path.exists());
    }
}
