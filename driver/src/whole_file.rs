//! Atomic writes of files: a file appears under its name when it is complete.

use relax_cpu::scratch::Scratch;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What writes a file.
pub type Content<'c> = &'c mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Writes a whole file or none: the new content appears under its name in one step. A link stays one, its target is
/// replaced; a pipe or a device is written to as it is. `settle` is called with the file before it takes its name.
///
/// # Errors
/// What the system says.
pub fn write_to(
    path: &Path,
    content: Content<'_>,
    settle: impl FnOnce(&fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let path = match place(path)? {
        Place::Device => return content(&mut fs::OpenOptions::new().write(true).open(path)?),
        Place::File(path) => path,
    };
    let (_guard, mut file) = beside(&path)?;
    keep_permissions(&path, file.as_file())?;
    content(&mut file)?;
    settle(file.as_file())?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// What lies under a name that is written to.
#[derive(Debug)]
pub enum Place {
    /// No file: it is written to as it is.
    Device,
    /// A file, or nothing yet: under this name.
    File(PathBuf),
}

/// Finds what lies under a name.
///
/// # Errors
/// When a link does not lead to a file.
pub fn place(path: &Path) -> io::Result<Place> {
    Ok(match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Place::File(fs::canonicalize(path)?),
        Ok(metadata) if !metadata.is_dir() => Place::Device,
        _ => Place::File(path.to_owned()),
    })
}

/// A file that may take this name, and a guard that removes it until then.
///
/// # Errors
/// When the folder takes no file.
pub fn beside(path: &Path) -> io::Result<(Scratch, tempfile::NamedTempFile)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    Scratch::holding(|| tempfile::Builder::new().prefix(".relax-").tempfile_in(folder))
}

/// A temporary file is for its owner alone; what replaces a file is for whom that file was for.
///
/// # Errors
/// When the system refuses it.
pub fn keep_permissions(path: &Path, file: &fs::File) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) => file.set_permissions(metadata.permissions()),
        Err(_) => readable_by_all(file),
    }
}

#[cfg(unix)]
fn readable_by_all(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable_by_all(_file: &fs::File) -> io::Result<()> {
    Ok(())
}
