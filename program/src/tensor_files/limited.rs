//! Reading of files that may be hostile: never more bytes than a limit, and nothing from devices, which have no end.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Why a file gives no tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// It cannot be read, or is malformed.
    Wrong(String),
    /// It takes more memory than the limit allows.
    Limit(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (FileError::Wrong(why) | FileError::Limit(why)) = self;
        f.write_str(why)
    }
}

impl From<String> for FileError {
    fn from(why: String) -> Self {
        FileError::Wrong(why)
    }
}

impl FileError {
    /// With a place before the sentence.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        match self {
            FileError::Wrong(why) => FileError::Wrong(format!("{place}: {why}")),
            FileError::Limit(why) => FileError::Limit(format!("{place}: {why}")),
        }
    }

    pub(super) fn limit(bytes: u64, limit: u64) -> Self {
        FileError::Limit(format!("it takes {bytes} bytes, the limit is {limit} (--max-memory)"))
    }
}

/// Opens a file, or a pipe; its length, if it is a file of no more bytes than the limit.
pub(super) fn open(path: &Path, limit: u64) -> Result<(File, Option<u64>), FileError> {
    let failed = |error: std::io::Error| FileError::Wrong(error.to_string());
    let metadata = path.metadata().map_err(failed)?;
    if is_device(&metadata) {
        return Err(FileError::Wrong("it is a device; expected a file".to_owned()));
    }
    let length = metadata.is_file().then_some(metadata.len());
    match length.filter(|&length| length > limit) {
        Some(length) => Err(FileError::limit(length, limit)),
        None => Ok((File::open(path).map_err(failed)?, length)),
    }
}

/// The bytes of a file or pipe, at most so many.
///
/// # Errors
/// What the system says; a device, or more bytes than the limit.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let (file, _) = open(path, limit)?;
    read_rest(file, Vec::new(), limit)
}

/// What is left of a file, after the bytes that were read of it.
pub(super) fn read_rest(file: File, mut bytes: Vec<u8>, limit: u64) -> Result<Vec<u8>, FileError> {
    let left = limit.saturating_sub(bytes.len() as u64).saturating_add(1);
    file.take(left).read_to_end(&mut bytes).map_err(|error| FileError::Wrong(error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::Limit(format!(
            "it has more bytes than the limit of {limit} (--max-memory)"
        )));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn is_device(_metadata: &std::fs::Metadata) -> bool {
    false
}
