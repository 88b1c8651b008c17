//! Module files that were made before, on disk. The name of an entry is a digest of all that decides its bytes: who makes
//! it, the text, the options, the weights, the C compiler and the processor. Nobody can make two inputs with one digest,
//! so that they are not compared. An entry appears whole, by being renamed; a damaged one has not its
//! checksums and counts as none. The folder is bounded: what was not used for longest goes first.

use relax_cpu::scratch::{Orphans, Scratch, sweep, unique};
use relax_program::tensor_files::{Stored, encode_safetensors};
use relax_runtime::file::Image;
use relax_semantics::tensor::Tensor;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of all entries together.
const LIMIT: u64 = 1 << 30;

/// A folder of module files.
#[derive(Clone, Debug)]
pub struct Modules {
    folder: PathBuf,
    limit: u64,
}

/// What decides the bytes of a module file, as far as it was told.
#[derive(Clone, Debug, Default)]
pub struct Key {
    hasher: blake3::Hasher,
}

/// Of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Of the dtype, the dims and the elements of a tensor.
    ///
    /// # Errors
    /// A tensor that cannot be stored.
    pub fn of_tensor(tensor: &Tensor) -> Result<Self, String> {
        Ok(Self::of(&encode_safetensors(&[("tensor", Stored::Tensor(tensor.clone()))])?))
    }

    /// As a module file has it.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Of a file, which is read in pieces.
    ///
    /// # Errors
    /// What the system says.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        // A device has no end, and a pipe is read once.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        Self::of_reader(File::open(path)?)
    }

    /// Of all that a reader gives, which is read in pieces.
    ///
    /// # Errors
    /// What the reader says.
    pub fn of_reader(reader: impl io::Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(reader)?;
        Ok(Self(*hasher.finalize().as_bytes()))
    }
}

/// Hexadecimal, in small letters.
impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl Key {
    /// With one thing more, after the others.
    #[must_use]
    pub fn with(mut self, what: &str, value: &[u8]) -> Self {
        for bytes in [what.as_bytes(), value] {
            self.hasher.update(&(bytes.len() as u64).to_le_bytes());
            self.hasher.update(bytes);
        }
        self
    }

    /// With the content of a file.
    #[must_use]
    pub fn with_file(self, what: &str, digest: Digest) -> Self {
        self.with(what, &digest.0)
    }

    fn name(&self) -> String {
        format!("{}.rxm", self.hasher.finalize().to_hex())
    }
}

impl Modules {
    /// In this folder, which is made when it is needed.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), limit: LIMIT }
    }

    /// With so many bytes at most.
    #[must_use]
    pub fn of_at_most(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The file that was made of this, if there is one. It may be damaged, or go at any time.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<PathBuf> {
        let path = self.folder.join(key.name());
        let file = File::options().append(true).open(&path).ok()?;
        // Who cannot note that it was used reads it all the same.
        let _ = file.set_modified(SystemTime::now());
        Some(path)
    }

    /// Keeps a file; gives its place. A module that would fill the folder is not kept.
    ///
    /// # Errors
    /// What the system says: then there is nothing new.
    pub fn keep(&self, key: &Key, image: &Image) -> io::Result<Option<PathBuf>> {
        if image.data.len() as u64 > self.limit / 4 {
            return Ok(None);
        }
        fs::create_dir_all(&self.folder)?;
        sweep(&self.folder, Orphans::Old)?;
        let name = key.name();
        let own = self.folder.join(format!("{name}-{}", unique()));
        let path = self.folder.join(name);
        let (_guard, mut file) = Scratch::holding(|| Named::new(&own))?;
        image.write(&mut file.file)?;
        fs::rename(&own, &path)?;
        self.make_room(&path)?;
        Ok(Some(path))
    }

    /// Removes what was not used for longest, but not the newest.
    fn make_room(&self, newest: &Path) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            entries.push((metadata.modified()?, entry.path(), metadata.len()));
        }
        entries.sort();
        let mut all: u64 = entries.iter().map(|(_, _, length)| length).sum();
        for (_, path, length) in entries {
            if all <= self.limit {
                break;
            }
            if path != newest && fs::remove_file(&path).is_ok() {
                all = all.saturating_sub(length);
            }
        }
        Ok(())
    }
}

/// A new file and its name.
struct Named<'p> {
    file: File,
    path: &'p Path,
}

impl<'p> Named<'p> {
    fn new(path: &'p Path) -> io::Result<Self> {
        Ok(Self { file: File::create_new(path)?, path })
    }
}

impl AsRef<Path> for Named<'_> {
    fn as_ref(&self) -> &Path {
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_runtime::Limits;

    fn image(length: usize) -> Image {
        Image { data: vec![7; length], ..Image::default() }
    }

    #[test]
    fn what_was_kept_is_found_under_its_key_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let modules = Modules::at(folder.path().join("modules"));
        let key = Key::default().with("text", b"ab");
        assert_eq!(modules.find(&key), None);
        let path = modules.keep(&key, &image(100)).expect("it is written").expect("it is small");
        assert_eq!(modules.find(&key), Some(path.clone()));
        assert_eq!(fs::read(&path).expect("it is there"), image(100).to_bytes());
        assert!(relax_runtime::Module::open(&path, Limits::default()).is_ok());
        let others = [
            Key::default().with("text", b"a").with("", b"b"),
            Key::default().with("texta", b"b"),
            key.with("text", b""),
        ];
        assert!(others.iter().all(|other| modules.find(other).is_none()));
    }

    #[test]
    fn the_folder_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let modules = Modules::at(folder.path()).of_at_most(8 << 10);
        let key = |number: u8| Key::default().with("number", &[number]);
        for number in 0..10 {
            modules.keep(&key(number), &image(2 << 10)).expect("it is written");
            // The first one is in use.
            assert!(modules.find(&key(0)).is_some());
        }
        let kept: Vec<u8> =
            (0..10).filter(|&number| modules.find(&key(number)).is_some()).collect();
        assert!(kept.len() < 4 && kept.contains(&0) && kept.contains(&9), "{kept:?}");
        assert_eq!(modules.keep(&key(11), &image(3 << 10)).expect("no error"), None);
    }

    #[test]
    fn a_file_in_pieces_is_the_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, bytes) = (folder.path().join("weights"), vec![3; 300_000]);
        fs::write(&path, &bytes).expect("it is written");
        assert_eq!(Digest::of_file(&path).expect("it is read"), Digest::of(&bytes));
    }
}
