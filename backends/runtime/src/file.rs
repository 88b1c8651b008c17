//! The module file, `.rxm`.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `89 52 58 4d 0d 0a 1a 0a`: as PNG's, so that a transfer as text is found out |
//! | 8..12 | the version of the format |
//! | 12..16 | how many sections there are |
//! | 16..24 | the length of the file |
//! | 24..28 | CRC-32 of the table of sections |
//! | 28..32 | CRC-32 of bytes 0..28 |
//! | 32.. | the table: of each section its kind and CRC-32 (4 bytes each), place and length (8 each) |
//! | then | the sections in the order of the table, each at the next multiple of 64, zeros between |
//!
//! A file of version 12 has one section more at the end: its code is for each rank of a mesh ([`Image::ranks`]).
//!
//! Numbers are little-endian. There is one way to write a program, so equal programs have equal bytes, and
//! each byte is covered by a checksum or must be 0.

mod sections;

use crate::mapping::Mapping;
use crate::program::{Metadata, Program};
use sections::{Kind, read, write};
use std::io;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// How a module file begins.
pub const MAGIC: [u8; 8] = [0x89, b'R', b'X', b'M', b'\r', b'\n', 0x1a, b'\n'];

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 11;

/// The version of a file whose code is for each rank of a mesh: it has one section more. Readers of [`VERSION`] alone, which would
/// call the code as that of the whole program, refuse it.
pub const RANKS_VERSION: u32 = 12;

/// What a module file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// For which machine the kernels are, as [`crate::host_target`] says it; empty for a program without
    /// machine code.
    pub target: String,
    /// Code, signatures, constants without elements, texts.
    pub program: Program,
    /// The machine code of the kernels: a shared object of the target.
    pub object: Vec<u8>,
    /// The elements of constants.
    pub data: Vec<u8>,
    /// What an embedder may want to know.
    pub metadata: Metadata,
    /// The text that spans refer to.
    pub source: String,
    /// What was proved of the way from the text to the program, for those who verify it; empty where nothing was asked
    /// for. Nothing here reads it.
    pub certificate: String,
    /// Where the code is what each rank of a mesh runs: the mesh, and the functions as a caller of all ranks sees them, with the layouts
    /// of their parameters and results, as text of the language. Empty where the code is the whole program. Nothing here
    /// reads it.
    pub ranks: String,
}

/// What a module file holds, as far as it was read: the large sections stay where they are.
#[derive(Debug)]
pub struct Parts<'b> {
    /// As in [`Image::target`].
    pub target: String,
    /// As in [`Image::program`].
    pub program: Program,
    /// The shared object.
    pub object: &'b [u8],
    /// The elements of constants.
    pub data: &'b [u8],
    /// As in [`Image::metadata`].
    pub metadata: Metadata,
    /// As in [`Image::source`].
    pub source: String,
    /// UTF-8; empty where there is none.
    pub certificate: &'b [u8],
    /// As in [`Image::ranks`].
    pub ranks: String,
}

/// A module file that lies on disk and was found whole. It is mapped, not read: as long as this or a module of it
/// lives, nobody may write into the file. To put another file in its place is no such change.
#[derive(Clone, Debug)]
pub struct ModuleFile {
    mapping: Arc<Mapping>,
    kernels: usize,
    hosts: Vec<String>,
    metadata: Metadata,
    target: String,
    ranks: String,
}

/// Why bytes are no module that can be run here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The system does not give the file.
    #[error("cannot read {path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
    /// It is something else.
    #[error("this is no module file: {0}")]
    Foreign(&'static str),
    /// It is of another version.
    #[error(
        "the module file is of version {found}, this version of relax reads version {VERSION}: build it anew"
    )]
    Version {
        /// Of the file.
        found: u32,
    },
    /// It is not as it was written.
    #[error("the module file is damaged: {0}")]
    Damaged(String),
    /// It is for another machine.
    #[error("the module file is for another machine: {0}")]
    Target(String),
    /// Its machine code cannot be loaded.
    #[error("the kernels of the module cannot be loaded: {0}")]
    Kernels(String),
    /// It was written by something that is wrong.
    #[error("the module file holds a program that is not valid: {0}")]
    Invalid(String),
}

impl Image {
    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).expect("invariant: memory takes what is written to it");
        bytes
    }

    /// Writes the file; how many bytes it has.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, to: &mut dyn io::Write) -> io::Result<usize> {
        let code = encode(&self.program);
        let metadata = encode(&self.metadata);
        let sections = [
            (Kind::Target, self.target.as_bytes()),
            (Kind::Code, &code),
            (Kind::Metadata, &metadata),
            (Kind::Source, self.source.as_bytes()),
            (Kind::Certificate, self.certificate.as_bytes()),
            (Kind::Object, &self.object),
            (Kind::Data, &self.data),
        ];
        let ranks = (!self.ranks.is_empty()).then_some(self.ranks.as_bytes());
        write(&sections, ranks, to)
    }

    /// Reads a file. What it says is checked when a module is made of it.
    ///
    /// # Errors
    /// When the bytes are not those of a whole, unchanged module file of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let Parts { target, program, object, data, metadata, source, certificate, ranks } =
            Parts::of(bytes)?;
        let (object, data) = (object.to_vec(), data.to_vec());
        let certificate = text(certificate, "certificate")?;
        Ok(Self { target, program, object, data, metadata, source, certificate, ranks })
    }
}

impl<'b> Parts<'b> {
    pub(crate) fn of(bytes: &'b [u8]) -> Result<Self, LoadError> {
        let ([target, code, metadata, source, certificate, object, data], ranks) = read(bytes)?;
        Ok(Self {
            target: text(target, "target")?,
            program: decode(code, "code")?,
            object,
            data,
            metadata: decode(metadata, "metadata")?,
            source: text(source, "source")?,
            certificate,
            ranks: text(ranks, "text about ranks")?,
        })
    }
}

impl ModuleFile {
    /// Maps a file, and looks at its checksums.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole, unchanged module file of this version.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let mapping = mapped(path)?;
        let Parts { program, metadata, target, ranks, .. } = Parts::of(&mapping)?;
        let hosts = program.host_functions().into_iter().map(str::to_owned).collect();
        let kernels = program.kernels.len();
        Ok(Self { mapping, kernels, hosts, metadata, target, ranks })
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.mapping
    }

    /// What it holds. The kernels may be for another machine.
    ///
    /// # Errors
    /// When a section does not read.
    pub fn parts(&self) -> Result<Parts<'_>, LoadError> {
        Parts::of(&self.mapping)
    }

    /// The machines that it is for, as [`crate::check_target`] takes it.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// How many kernels it has.
    #[must_use]
    pub fn kernels(&self) -> usize {
        self.kernels
    }

    /// As in [`Image::ranks`].
    #[must_use]
    pub fn ranks(&self) -> &str {
        &self.ranks
    }

    /// Whether it calls the host function of a name.
    #[must_use]
    pub fn calls_host(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host == name)
    }

    /// Numerics, results of the kernel check, and other facts.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A file that nobody has looked at.
pub(crate) fn mapped(path: &Path) -> Result<Arc<Mapping>, LoadError> {
    let unreadable = |error: io::Error| LoadError::Unreadable {
        path: path.display().to_string(),
        why: error.to_string(),
    };
    Mapping::open(path).map(Arc::new).map_err(unreadable)
}

fn text(bytes: &[u8], what: &str) -> Result<String, LoadError> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| LoadError::Damaged(format!("the {what} is no text")))
}

fn encode<T: serde::Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("invariant: everything in a program can be written")
}

fn decode<'b, T: serde::Deserialize<'b>>(bytes: &'b [u8], what: &str) -> Result<T, LoadError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(LoadError::Damaged(format!("bytes are left after the {what}"))),
        Err(error) => Err(LoadError::Damaged(format!("the {what} does not read: {error}"))),
    }
}
