//! Floor 5: C text as code of the processor at hand, or of another one. The system's C compiler makes a shared object of it,
//! which is kept in a cache on disk and loaded. What the kernels do is told by the text (`relax-emit`);
//! here nothing is known of it but the calling convention.

mod cache;
mod compiler;
mod hardware;
mod instructions;
mod library;
mod limits;
mod object;
mod probe;
mod probing;
pub mod scratch;
mod target;
mod tuning;

pub use cache::{CLEAN_UP, Cache, Contents, LIMIT, Unusable, Usage, refusal};
pub use compiler::{Compiler, FLAGS};
pub use hardware::hardware;
pub use library::{Function, Library, Part, Tensor, Threads};
pub use limits::Limits;
pub use object::Object;
pub use probe::{Findings, probes};
pub use target::{Cpu, NoName, Target};
pub use tuning::{Choices, choices, measure};

use relax_emit::Source;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no code.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// There is no C compiler.
    #[error(
        "the C compiler `{command}` cannot be run ({why}): install one, or name it in the environment variable CC"
    )]
    NoCompiler {
        /// What was tried.
        command: String,
        /// What the system says.
        why: String,
    },
    /// It refuses the text.
    #[error("the C compiler `{command}` fails on {path}:\n{output}")]
    Compile {
        /// The compiler.
        command: String,
        /// The text.
        path: PathBuf,
        /// What it printed.
        output: String,
    },
    /// It has no code for the processor that is asked for.
    #[error("the C compiler `{command}` has no code for `{flag}`: {why}")]
    Processor {
        /// `$CC`, with its arguments.
        command: String,
        /// Names the processor.
        flag: String,
        /// What it printed to stderr.
        why: String,
    },
    /// It makes wrong code.
    #[error(
        "the C compiler `{command}` ({version}) makes wrong code of the probes {probes}, also with fewer optimizations: name another one in the environment variable CC"
    )]
    Miscompiles {
        /// `$CC`, with its arguments.
        command: String,
        /// The first line of `--version`.
        version: String,
        /// The names of the probes.
        probes: String,
    },
    /// The program that measures the processor fails.
    #[error("the program that measures what this processor reaches fails")]
    Limits,
    /// The cache cannot be read or written.
    #[error("the cache of compiled kernels, {path}: {why}")]
    Cache {
        /// A folder or file of it.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The shared object cannot be loaded, or lacks a function.
    #[error("the compiled kernels in {path} cannot be used: {why}")]
    Load {
        /// The shared object.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
}

/// A C file, and how it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// All of the file, with what parts leave out.
    pub whole: &'t str,
    /// Units of it that are compiled side by side, by `RX_PART`.
    pub parts: u32,
    /// A unit that its parts are linked with. It is compiled once for all texts.
    pub routines: Option<&'t str>,
}

impl<'t> Text<'t> {
    /// A file that is one unit.
    #[must_use]
    pub fn of(whole: &'t str) -> Self {
        Self { whole, parts: 1, routines: None }
    }
}

impl<'t> From<&'t Source> for Text<'t> {
    fn from(source: &'t Source) -> Self {
        let Source { text, parts, routines, .. } = source;
        Self { whole: text, parts: *parts, routines: routines.as_deref() }
    }
}

/// Compiles a text, or finds what was made of it before.
///
/// # Errors
/// A missing or failing compiler, a cache that cannot be read or written.
pub fn object<'t>(
    text: impl Into<Text<'t>>,
    compiler: &Compiler,
    cache: &Cache,
) -> Result<Object, Error> {
    cache.object(&text.into(), compiler)
}

/// Compiles a text, or finds what was made of it before, and loads it.
///
/// # Errors
/// A missing or failing compiler, a cache that cannot be written, an object that cannot be loaded.
pub fn build<'t>(
    text: impl Into<Text<'t>>,
    compiler: &Compiler,
    cache: &Cache,
) -> Result<Library, Error> {
    cache.object(&text.into(), compiler)?.load()
}
