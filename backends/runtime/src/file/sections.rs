//! Sections and their table: kinds, checksums, places.

use super::{LoadError, MAGIC, RANKS_VERSION, VERSION};
use std::io::{self, Write};

const HEADER: usize = 32;
const ENTRY: usize = 24;
/// Sections begin at multiples of it.
const ALIGNMENT: usize = 64;
const SECTIONS: usize = 7;

/// What a section holds; its number is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Target = 1,
    Code = 2,
    Metadata = 3,
    Source = 4,
    Object = 5,
    Data = 6,
    Certificate = 7,
    Ranks = 8,
}

const ORDER: [Kind; SECTIONS] = [
    Kind::Target,
    Kind::Code,
    Kind::Metadata,
    Kind::Source,
    Kind::Certificate,
    Kind::Object,
    Kind::Data,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Target => "target",
            Kind::Code => "code",
            Kind::Metadata => "metadata",
            Kind::Source => "source",
            Kind::Object => "kernels",
            Kind::Data => "constants",
            Kind::Certificate => "certificate",
            Kind::Ranks => "ranks",
        }
    }
}

/// Writes the file with these sections, which are in their order, and what is said of ranks in a section of its own; how many bytes it
/// has.
pub(super) fn write(
    sections: &[(Kind, &[u8]); SECTIONS],
    ranks: Option<&[u8]>,
    to: &mut dyn Write,
) -> io::Result<usize> {
    let version = if ranks.is_some() { RANKS_VERSION } else { VERSION };
    let ranks = ranks.map(|bytes| (Kind::Ranks, bytes));
    let sections: Vec<(Kind, &[u8])> = sections.iter().copied().chain(ranks).collect();
    let mut table = Vec::new();
    let mut at = (HEADER + sections.len() * ENTRY).next_multiple_of(ALIGNMENT);
    for (kind, bytes) in &sections {
        table.extend((*kind as u32).to_le_bytes());
        table.extend(crc32fast::hash(bytes).to_le_bytes());
        table.extend((at as u64).to_le_bytes());
        table.extend((bytes.len() as u64).to_le_bytes());
        at = (at + bytes.len()).next_multiple_of(ALIGNMENT);
    }
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    header.extend(version.to_le_bytes());
    header.extend(u32::try_from(sections.len()).unwrap_or(u32::MAX).to_le_bytes());
    header.extend((at as u64).to_le_bytes());
    header.extend(crc32fast::hash(&table).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header.extend(table);
    to.write_all(&header)?;
    let mut written = header.len();
    for (_, bytes) in sections {
        written += fill(written, to)?;
        to.write_all(bytes)?;
        written += bytes.len();
    }
    Ok(written + fill(written, to)?)
}

/// Zeros up to where a section may begin; how many.
fn fill(written: usize, to: &mut dyn Write) -> io::Result<usize> {
    let gap = written.next_multiple_of(ALIGNMENT) - written;
    to.write_all(&[0; ALIGNMENT][..gap])?;
    Ok(gap)
}

/// The sections of a file, in their order, and what it says of ranks.
pub(super) fn read(bytes: &[u8]) -> Result<([&[u8]; SECTIONS], &[u8]), LoadError> {
    let table = header(bytes)?;
    let (mut sections, mut ranks) = ([&bytes[..0]; SECTIONS], &bytes[..0]);
    let mut end = HEADER + table.len();
    let kinds = ORDER.into_iter().chain([Kind::Ranks]);
    let places = sections.iter_mut().chain([&mut ranks]);
    for ((entry, kind), section) in table.chunks_exact(ENTRY).zip(kinds).zip(places) {
        let damaged =
            |what: &str| LoadError::Damaged(format!("the section `{}` {what}", kind.name()));
        let (number, crc) = (u32_at(entry, 0), u32_at(entry, 4));
        let place = usize::try_from(u64_at(entry, 8)).ok();
        let length = usize::try_from(u64_at(entry, 16)).ok();
        if number != kind as u32 {
            return Err(damaged("is not where it belongs"));
        }
        if place != Some(end.next_multiple_of(ALIGNMENT)) {
            return Err(damaged("does not begin where it must"));
        }
        let range = place.zip(length).and_then(|(at, length)| Some(at..at.checked_add(length)?));
        let found = range.clone().and_then(|range| bytes.get(range));
        let (Some(range), Some(found)) = (range, found) else {
            return Err(damaged("goes past the end of the file"));
        };
        if crc32fast::hash(found) != crc {
            return Err(damaged("does not have its checksum"));
        }
        zeros(bytes, end, range.start)?;
        end = range.end;
        *section = found;
    }
    if end.next_multiple_of(ALIGNMENT) != bytes.len() {
        return Err(LoadError::Damaged("it does not end after its sections".to_owned()));
    }
    zeros(bytes, end, bytes.len())?;
    Ok((sections, ranks))
}

/// Looks at the header; gives the table.
fn header(bytes: &[u8]) -> Result<&[u8], LoadError> {
    if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
        return Err(LoadError::Foreign("it does not begin as one"));
    }
    let damaged = |what: &str| LoadError::Damaged(what.to_owned());
    let header = bytes.get(..HEADER).ok_or_else(|| damaged("it ends within its header"))?;
    // The version is told first: another one may have another header.
    let version = u32_at(header, 8);
    let is_whole = crc32fast::hash(&header[..28]) == u32_at(header, 28);
    let sections = match version {
        _ if !is_whole => return Err(damaged("the header does not have its checksum")),
        VERSION => SECTIONS,
        RANKS_VERSION => SECTIONS + 1,
        found => return Err(LoadError::Version { found }),
    };
    if u32_at(header, 12) as usize != sections {
        return Err(damaged("it has not the sections of its version"));
    }
    if u64_at(header, 16) != bytes.len() as u64 {
        let (says, is) = (u64_at(header, 16), bytes.len());
        return Err(LoadError::Damaged(format!("it has {is} bytes, and says that it has {says}")));
    }
    let table = bytes.get(HEADER..HEADER + sections * ENTRY);
    let table = table.ok_or_else(|| damaged("it ends within its table"))?;
    if crc32fast::hash(table) != u32_at(header, 24) {
        return Err(damaged("the table of sections does not have its checksum"));
    }
    Ok(table)
}

fn zeros(bytes: &[u8], from: usize, to: usize) -> Result<(), LoadError> {
    match bytes.get(from..to) {
        Some(gap) if gap.iter().all(|&byte| byte == 0) => Ok(()),
        _ => Err(LoadError::Damaged("something stands between two sections".to_owned())),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    u32::from_le_bytes(field.expect("invariant: the caller has looked at the length"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
    u64::from_le_bytes(field.expect("invariant: the caller has looked at the length"))
}
