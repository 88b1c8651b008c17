//! Files in and out: programs, and where the tensors of `relax_program::tensor_files` lie.

use crate::exit::Failure;
use relax_driver::file_kind;
pub(crate) use relax_driver::file_kind::FileKind;
use relax_driver::whole_file::{Content, Place, beside, keep_permissions, place, write_to};
use relax_program::tensor_files::{
    FileError, Stored, encode_safetensors, read_file, read_npy, read_npz_within,
    write_safetensors_to,
};
use relax_semantics::tensor::Tensor;
use relax_syntax::parse::read_source;
use relax_syntax::span::Source;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Reads a program. The inner error is a finding of its own where the bytes are no text.
pub(crate) fn read_program(path: &Path) -> Result<Result<Source, Box<Unreadable>>, Failure> {
    let bytes = read_bytes(path)?;
    let name = shown_name(path);
    if let Some(why) = file_kind::refused(&name, &bytes) {
        return Err(Failure::usage(why));
    }
    Ok(match file_kind::encoded(&name, &bytes) {
        Some(diagnostic) => {
            Err(Box::new(Unreadable { source: Source::new(&name, ""), diagnostic }))
        }
        None => read_source(&name, &bytes),
    })
}

/// Reads a text that is no program, such as certificates.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = read_bytes(path)?;
    let cannot = |why: &str| Failure::usage(format!("cannot read {}: {why}", shown_name(path)));
    if bytes.len() > relax_syntax::parse::limits::FILE_BYTES {
        return Err(cannot("it is too large"));
    }
    String::from_utf8(bytes).map_err(|_| cannot("it is no UTF-8 text"))
}

/// The kind of a file by its first bytes, and by its name where they do not say.
pub(crate) fn kind_of(path: &Path) -> Result<FileKind, Failure> {
    if is_stdin(path) {
        return Ok(FileKind::Text);
    }
    let mut bytes = Vec::new();
    // What is read from a pipe is gone.
    if fs::metadata(path).map_err(|error| unreadable(path, &error))?.is_file() {
        let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
        let begin = file.take(file_kind::BEGIN as u64).read_to_end(&mut bytes);
        begin.map_err(|error| unreadable(path, &error))?;
    }
    Ok(FileKind::of(&bytes, path))
}

/// Whether a file is a module file.
pub(crate) fn is_module(path: &Path) -> Result<bool, Failure> {
    Ok(kind_of(path)? == FileKind::Module)
}

/// What messages call a file.
pub(crate) fn shown_name(path: &Path) -> String {
    if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() }
}

pub(crate) use relax_syntax::parse::Unreadable;

/// `-`
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The bytes of a file, or of the standard input; of neither more than a program may have.
fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = relax_syntax::parse::limits::FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if is_stdin(path) {
        io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

/// The tensor that `@path` means: `file.npy`, or `file.npz:name` (the name may be left out when
/// there is one tensor). Neither the file nor the tensor may have more bytes than the limit.
pub(crate) fn read_tensor(text: &str, limit: u64) -> Result<Tensor, FileError> {
    let (file, member) = match text.rsplit_once(".npz:") {
        Some((file, member)) => (format!("{file}.npz"), Some(member)),
        None => (text.to_owned(), None),
    };
    let bytes = read_file(Path::new(&file), limit);
    let bytes = bytes.map_err(|error| error.at(&format!("cannot read {file}")))?;
    if !file.ends_with(".npz") {
        return read_npy(&bytes).map_err(|why| FileError::from(why).at(&file));
    }
    read_npz_within(&bytes, member, limit).map_err(|error| error.at(&file))
}

/// Writes a whole file or none: the new content appears under its name in one step. A link stays
/// one, its target is replaced; what is no file (a pipe, a device such as `/dev/null`) cannot be
/// replaced and is written to as it is.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_to(path, &mut |to| to.write_all(content), fs::File::sync_all)
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

/// As [`write_whole`], a safetensors file, one tensor after the other: never all of it in memory.
pub(crate) fn write_tensors(path: &Path, tensors: &[(&str, Stored)]) -> Result<(), Failure> {
    let written = match place(path) {
        // The library would put a file in its place.
        Ok(Place::Device) => encode_safetensors(tensors)
            .and_then(|content| fs::write(path, content).map_err(|error| error.to_string())),
        Ok(Place::File(path)) => tensors_in_place(&path, tensors),
        Err(error) => Err(error.to_string()),
    };
    written.map_err(|why| Failure::usage(format!("cannot write {}: {why}", path.display())))
}

fn tensors_in_place(path: &Path, tensors: &[(&str, Stored)]) -> Result<(), String> {
    let (_guard, file) = beside(path).map_err(|error| error.to_string())?;
    // The library makes the file anew under that name.
    write_safetensors_to(file.path(), tensors)?;
    let settled = fs::File::open(file.path()).and_then(|made| {
        keep_permissions(path, &made)?;
        made.sync_all()
    });
    settled.map_err(|error| error.to_string())?;
    file.persist(path).map_err(|error| error.error.to_string())?;
    Ok(())
}

/// As [`write_whole`], for module files: nobody waits until the disk has it, as a file that the machine lost on the way
/// has not its checksums.
pub(crate) fn write_module(path: &Path, content: Content<'_>) -> Result<(), Failure> {
    write_to(path, content, |_| Ok(()))
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}
