//! Sequential reading of a header: every length is compared with the bytes that are left before it is used.

use super::super::source::Source;
use std::io;

/// The longest header in bytes, as of safetensors files.
const LONGEST_HEADER: u64 = 100_000_000;
/// Bytes that are read at once.
const CHUNK: u64 = 1 << 16;

/// Why a header cannot be read.
pub(super) enum Refusal {
    /// The system cannot read the file.
    Unreadable(io::Error),
    /// The file has something of the format that is not read.
    Unsupported(String),
    /// The file breaks a rule of the format.
    Malformed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Unreadable(error)
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Refusal::Malformed(why)
    }
}

impl Refusal {
    /// With a place before the sentence.
    pub(super) fn within(self, place: &str) -> Self {
        match self {
            Refusal::Unreadable(error) => Refusal::Unreadable(error),
            Refusal::Unsupported(why) => Refusal::Unsupported(format!("{place}: {why}")),
            Refusal::Malformed(why) => Refusal::Malformed(format!("{place}: {why}")),
        }
    }

    /// As a sentence about this file.
    pub(super) fn sentence(self, file: &str) -> String {
        match self {
            Refusal::Unreadable(error) => format!("cannot read {file}: {error}"),
            Refusal::Unsupported(why) => format!("cannot read {file}: {why}"),
            Refusal::Malformed(why) => format!("{file} is no proper GGUF file: {why}"),
        }
    }
}

/// A place in a header.
pub(super) struct Cursor<'s> {
    source: &'s Source,
    at: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { source, at: 0, chunk: Vec::new(), chunk_at: 0 }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The number of bytes from here to the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.source.length() - self.at
    }

    /// The next bytes, which are `what`.
    pub(super) fn bytes(&mut self, count: u64, what: &str) -> Result<&[u8], Refusal> {
        let (at, left) = (self.at, self.left());
        if count > left {
            let why = format!("{what} at byte {at} takes {count} bytes, but {left} are left");
            return Err(why.into());
        }
        let end = at + count;
        if end > LONGEST_HEADER {
            let why =
                format!("{what} at byte {at} is beyond the longest header, {LONGEST_HEADER} bytes");
            return Err(why.into());
        }
        if end > self.chunk_at + self.chunk.len() as u64 {
            self.chunk.clear();
            self.chunk.resize(size(count.max(CHUNK.min(left))), 0);
            self.chunk_at = at;
            self.source.read(at, &mut self.chunk)?;
        }
        self.at = end;
        Ok(&self.chunk[size(at - self.chunk_at)..size(end - self.chunk_at)])
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Refusal> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Refusal> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Refusal> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A text behind its length.
    pub(super) fn text(&mut self, what: &str) -> Result<String, Refusal> {
        let at = self.at;
        let length = self.u64(&format!("the length of {what}"))?;
        let text = std::str::from_utf8(self.bytes(length, what)?);
        Ok(text.map(str::to_owned).map_err(|_| format!("{what} at byte {at} is not UTF-8"))?)
    }

    /// A text of at most so many bytes.
    pub(super) fn name(&mut self, most: u64, what: &str) -> Result<String, Refusal> {
        let at = self.at;
        let name = self.text(what)?;
        if name.len() as u64 > most {
            let length = name.len();
            return Err(format!("{what} at byte {at} has {length} bytes, at most {most}").into());
        }
        Ok(name)
    }

    /// A number of items, each of which takes at least so many bytes.
    pub(super) fn count(&mut self, least: u64, what: &str) -> Result<u64, Refusal> {
        let at = self.at;
        let count = self.u64(&format!("the number of {what}"))?;
        let left = self.left();
        if count > left / least {
            let why = format!("{count} {what} are claimed at byte {at}, but {left} bytes are left");
            return Err(why.into());
        }
        Ok(count)
    }
}

/// A number of bytes below the longest header.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("invariant: a header is below 2^32 bytes")
}
