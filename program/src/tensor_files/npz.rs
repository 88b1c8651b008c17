//! The `.npz` format: a zip archive of `.npy` files.

use super::limited::FileError;
use super::npy::{read_npy, write_npy};
use relax_semantics::tensor::Tensor;
use std::io::{Cursor, Read, Write};
use zip::read::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

/// What one member may unpack to: a small archive must not fill the memory.
const LARGEST_MEMBER: u64 = 8 << 30;
/// How much larger than the archive a member may be: deflate reaches about a thousand.
const LARGEST_RATIO: u64 = 1100;

/// Reads one tensor of an archive; without a name, the only one.
///
/// # Errors
/// What is wrong with the archive, or which tensors there are where the name is of none.
pub fn read_npz(bytes: &[u8], member: Option<&str>) -> Result<Tensor, String> {
    read_npz_within(bytes, member, LARGEST_MEMBER).map_err(|error| error.to_string())
}

/// As [`read_npz`], of a tensor whose file has so many bytes at most.
///
/// # Errors
/// As of [`read_npz`], and a larger tensor.
pub fn read_npz_within(
    bytes: &[u8],
    member: Option<&str>,
    limit: u64,
) -> Result<Tensor, FileError> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = archive.file_names().map(str::to_owned).collect();
    names.sort();
    let wanted = match (member, names.as_slice()) {
        (Some(member), names) => names
            .iter()
            .find(|name| *name == member || name.strip_suffix(".npy") == Some(member))
            .ok_or_else(|| format!("there is no `{member}`; there is {}", listed(names)))?,
        (None, [one]) => one,
        (None, names) => {
            let why = format!("say which tensor, `@file.npz:name`; there is {}", listed(names));
            return Err(FileError::Wrong(why));
        }
    };
    let entry = archive.by_name(wanted).map_err(|error| format!("`{wanted}`: {error}"))?;
    if entry.size() > limit {
        return Err(FileError::limit(entry.size(), limit).at(&format!("`{wanted}`")));
    }
    // The size that the archive records may be false.
    let limit = limit.min((bytes.len() as u64).saturating_mul(LARGEST_RATIO));
    let mut content = Vec::new();
    let read = entry.take(limit + 1).read_to_end(&mut content);
    read.map_err(|error| format!("`{wanted}`: {error}"))?;
    if content.len() as u64 > limit {
        return Err(FileError::Limit(format!("`{wanted}` unpacks to more than {limit} bytes")));
    }
    read_npy(&content).map_err(|why| FileError::Wrong(format!("`{wanted}`: {why}")))
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> =
        names.iter().take(SHOWN).map(|n| format!("`{}`", n.trim_end_matches(".npy"))).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    if shown.is_empty() { "nothing in it".to_owned() } else { shown.join(", ") }
}

/// The whole content of an archive. The same tensors give the same bytes: no time is stored.
///
/// # Errors
/// When a tensor has no `.npy` form.
pub fn write_npz(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, String> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .large_file(true);
    for (name, tensor) in tensors {
        let content = write_npy(tensor).map_err(|why| format!("{name}: {why}"))?;
        archive.start_file(format!("{name}.npy"), options).map_err(|error| error.to_string())?;
        archive.write_all(&content).map_err(|error| error.to_string())?;
    }
    archive.finish().map(Cursor::into_inner).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_semantics::tensor::Number;
    use relax_syntax::dtype::DType;

    #[test]
    fn archives_read_back_and_say_what_they_hold() {
        let one = Tensor::full(DType::F32, &[2], Number::Float(0.5));
        let two = Tensor::full(DType::I64, &[0, 3], Number::Int(0));
        let both = [("a".to_owned(), one.clone()), ("b".to_owned(), two)];
        let bytes = write_npz(&both).expect("NumPy has these dtypes");
        assert_eq!(bytes, write_npz(&both).expect("NumPy has these dtypes"));
        assert!(read_npz(&bytes, Some("a")).expect("`a` is in it").same_as(&one));
        let why = read_npz(&bytes, None).expect_err("there are two");
        assert!(why.contains("`a`, `b`"), "{why}");
        assert!(read_npz(&bytes, Some("c")).expect_err("there is no c").contains("`a`, `b`"));
        assert!(read_npz(&bytes[..40], Some("a")).is_err());
        assert!(read_npz(b"", None).is_err());
    }
}
