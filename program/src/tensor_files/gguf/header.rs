//! The header of a GGUF file: version, metadata, and what and where each tensor is.

use super::super::source::Source;
use super::cursor::{Cursor, Refusal};
use super::format::GgufFormat;
use super::value::GgufValue;
use super::{GgufTensor, entry_name};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
/// The format bounds keys; tensors get the same bound.
const LONGEST_NAME: u64 = 65_535;
const MOST_DIMS: u32 = 4;
/// Bytes of a pair with an empty key and a value of one byte.
const LEAST_PAIR: u64 = 13;
/// Bytes of a tensor without name and dims: two lengths, format, offset.
const LEAST_TENSOR: u64 = 24;

pub(super) struct Header {
    pub(super) version: u32,
    pub(super) alignment: u64,
    pub(super) metadata: BTreeMap<String, GgufValue>,
    pub(super) tensors: BTreeMap<String, GgufTensor>,
}

impl Header {
    pub(super) fn read(source: &Source) -> Result<Self, Refusal> {
        let mut cursor = Cursor::new(source);
        if &cursor.array::<4>("the magic number")? != MAGIC {
            return Err("the magic number at byte 0 is not `GGUF`".to_owned().into());
        }
        let version = version(cursor.u32("the version")?)?;
        // The number of tensors comes first, the tensors last.
        let tensors = cursor.count(LEAST_TENSOR, "tensors")?;
        let pairs = cursor.count(LEAST_PAIR, "pairs of metadata")?;
        let metadata = metadata(&mut cursor, pairs)?;
        let alignment = alignment(&metadata)?;
        let mut found = BTreeMap::new();
        for _ in 0..tensors {
            let at = cursor.at();
            let name = cursor.name(LONGEST_NAME, "the name of a tensor")?;
            if found.contains_key(&name) {
                return Err(format!("the tensor `{name}` at byte {at} is there twice").into());
            }
            let tensor = tensor(&mut cursor, alignment)
                .map_err(|refusal| refusal.within(&format!("tensor `{name}`")))?;
            found.insert(name, tensor);
        }
        place(&mut found, cursor.at().next_multiple_of(alignment), source.length())?;
        verify_names(&found)?;
        Ok(Self { version, alignment, metadata, tensors: found })
    }
}

fn version(version: u32) -> Result<u32, Refusal> {
    match version {
        2 | 3 => Ok(version),
        _ if version & 0xffff == 0 && version != 0 => {
            Err(Refusal::Unsupported("it is big-endian; expected little-endian".to_owned()))
        }
        _ => Err(Refusal::Unsupported(format!("it is of version {version}; expected 2 or 3"))),
    }
}

fn metadata(cursor: &mut Cursor, pairs: u64) -> Result<BTreeMap<String, GgufValue>, Refusal> {
    let mut found = BTreeMap::new();
    for _ in 0..pairs {
        let at = cursor.at();
        let key = cursor.name(LONGEST_NAME, "a key")?;
        if found.contains_key(&key) {
            return Err(format!("the key `{key}` at byte {at} is there twice").into());
        }
        let value = GgufValue::read(cursor, &key)?;
        found.insert(key, value);
    }
    Ok(found)
}

fn alignment(metadata: &BTreeMap<String, GgufValue>) -> Result<u64, String> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(GgufValue::U32(value)) if value.is_power_of_two() => Ok((*value).into()),
        Some(_) => Err(format!("`{ALIGNMENT_KEY}` is no uint32 that is a power of two")),
    }
}

/// A tensor after its name; its place counts from the beginning of the data.
fn tensor(cursor: &mut Cursor, alignment: u64) -> Result<GgufTensor, Refusal> {
    let rank = cursor.u32("the number of dims")?;
    if rank > MOST_DIMS {
        return Err(format!("it has {rank} dims, at most {MOST_DIMS}").into());
    }
    // The format has the dim of the fastest index first.
    let mut dims = Vec::new();
    for _ in 0..rank {
        dims.insert(0, cursor.u64("a dim")?);
    }
    let format = GgufFormat::of_id(cursor.u32("the format")?);
    let offset = cursor.u64("the offset")?;
    let format = format.map_err(|what| Refusal::Unsupported(format!("it has {what}")))?;
    if offset % alignment != 0 {
        let why = format!("its offset {offset} is no multiple of the alignment {alignment}");
        return Err(why.into());
    }
    let (shape, size) = extents(&dims, format)?;
    Ok(GgufTensor { format, shape, offset, size })
}

/// The shape, and the number of bytes.
fn extents(dims: &[u64], format: GgufFormat) -> Result<(Vec<usize>, u64), String> {
    let (block, bytes) = (format.block() as u64, format.block_size() as u64);
    let row = dims.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        return Err(format!(
            "its rows of {row} elements are no whole blocks of {block} ({format})"
        ));
    }
    // Extents of 0 must not hide others that no address space holds. Every field has fewer elements than this.
    let hull = dims.iter().try_fold(1_u64, |all, &dim| all.checked_mul(dim.max(1)));
    let hull = hull.and_then(|all| all.checked_mul(8)).filter(|&all| isize::try_from(all).is_ok());
    let Some(hull) = hull else {
        return Err(format!("the shape {dims:?} is beyond what a machine can hold"));
    };
    let shape = dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>();
    let shape =
        shape.map_err(|_| format!("the shape {dims:?} is beyond what a machine can hold"))?;
    Ok((shape, if dims.contains(&0) { 0 } else { hull / 8 / block * bytes }))
}

/// Moves offsets to where the data begins, and checks that each tensor has bytes of its own.
fn place(
    tensors: &mut BTreeMap<String, GgufTensor>,
    begin: u64,
    length: u64,
) -> Result<(), String> {
    let mut places = Vec::new();
    for (name, tensor) in tensors {
        let at = tensor.offset;
        let end = begin.checked_add(at).and_then(|from| from.checked_add(tensor.size));
        let Some(end) = end.filter(|&end| end <= length) else {
            return Err(format!(
                "tensor `{name}`: its {} bytes at offset {at} of the data end after the file: the data has {} bytes",
                tensor.size,
                length.saturating_sub(begin)
            ));
        };
        tensor.offset += begin;
        if tensor.size > 0 {
            places.push((tensor.offset, end, name));
        }
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        let [(_, end, first), (next, _, second)] = pair else { continue };
        if next < end {
            return Err(format!("tensors `{first}` and `{second}` overlap at byte {next}"));
        }
    }
    Ok(())
}

/// No name of a field may be that of another tensor.
fn verify_names(tensors: &BTreeMap<String, GgufTensor>) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (name, tensor) in tensors {
        for field in tensor.format.fields() {
            let entry = entry_name(name, *field);
            if let Some(entry) = names.replace(entry) {
                return Err(format!("`{entry}` is a tensor and a field of another tensor"));
            }
        }
    }
    Ok(())
}
