//! Tensors of a model that lie in files of their own: inside of the model's folder, and within a limit of bytes.

use crate::elements::{width, wrong};
use crate::proto;
use crate::reason::{Done, Reason};
use relax_syntax::dtype::DType;
use std::cell::Cell;
use std::fs::File;
use std::io::{Error, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// Where a model lies, and how many bytes of the files beside it may still be read.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) left: &'a Cell<u64>,
}

impl Beside<'_> {
    /// The bytes of a tensor of so many elements.
    pub(crate) fn external(
        self,
        message: &proto::Tensor,
        dtype: DType,
        count: usize,
    ) -> Done<Vec<u8>> {
        let entry = |key: &str| {
            let mut entries = message.external_data.iter();
            let found = entries.find(|entry| entry.key.as_deref() == Some(key));
            found.and_then(|entry| entry.value.as_deref())
        };
        let number = |key: &str| {
            let text = entry(key).map(str::parse::<u64>).transpose();
            text.map_err(|_| wrong(message, format!("`{key}` of its external data is no number")))
        };
        let location = entry("location");
        let location =
            location.ok_or_else(|| wrong(message, "its external data has no location"))?;
        let path = inside(self.folder, location).ok_or_else(|| {
            wrong(message, format!("`{location}` is not inside of the model's folder"))
        })?;
        let length = count.checked_mul(width(dtype)).and_then(|length| u64::try_from(length).ok());
        let length = length.ok_or_else(|| wrong(message, "its dims are too large"))?;
        if number("length")?.is_some_and(|stated| stated != length) {
            let why = "the length of its external data is not what its dims take";
            return Err(wrong(message, why));
        }
        let file = part(&path, number("offset")?.unwrap_or(0), length)
            .map_err(|error| wrong(message, format!("{}: {error}", path.display())))?;
        self.spend(message, length)?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))
            .map_err(|_| limit(message, format!("there is no memory for its {length} bytes")))?;
        file.take(length)
            .read_to_end(&mut bytes)
            .map_err(|error| wrong(message, format!("{}: {error}", path.display())))?;
        Ok(bytes)
    }

    fn spend(self, message: &proto::Tensor, bytes: u64) -> Done<()> {
        let left = self.left.get();
        let rest = left.checked_sub(bytes).ok_or_else(|| {
            let why =
                format!("its data takes {bytes} bytes, the limit leaves {left} (--max-memory)");
            limit(message, why)
        })?;
        self.left.set(rest);
        Ok(())
    }
}

fn limit(message: &proto::Tensor, why: impl std::fmt::Display) -> Reason {
    let name = message.name.as_deref().unwrap_or_default();
    Reason::Limit(format!("the tensor `{name}`: {why}"))
}

/// The path of a file in a folder; `None` when it leads out of it, by links too.
fn inside(folder: &Path, location: &str) -> Option<PathBuf> {
    let plain = Path::new(location).components().all(|part| matches!(part, Component::Normal(_)));
    let root = folder.canonicalize().ok()?;
    let path = root.join(location);
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    (plain && !location.is_empty() && real.starts_with(&root)).then_some(real)
}

/// A file at an offset, from which it has so many bytes.
fn part(path: &Path, offset: u64, length: u64) -> std::io::Result<File> {
    let metadata = path.metadata()?;
    // A pipe would be waited for, a device has no end.
    if !metadata.is_file() {
        return Err(Error::other("it is no file"));
    }
    let size = metadata.len();
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(Error::other(format!("it is shorter than {offset} + {length} bytes")));
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}
