//! The standard streams: results on one, everything else on the other; colors only for a person.

use crate::args::{ColorChoice, Format, Global};
use crate::exit::Failure;
use std::io::{self, BufWriter, IsTerminal, Write};

/// How much is said beside results and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// `-q`
    Quiet,
    /// Without a flag.
    Normal,
    /// `-v`
    Verbose,
}

/// Where a command writes, and how.
pub(crate) struct Terminal {
    out: BufWriter<io::Stdout>,
    /// For people or for tools.
    pub(crate) format: Format,
    /// How much is said.
    pub(crate) verbosity: Verbosity,
    /// Whether messages are colored.
    pub(crate) color: bool,
}

impl Terminal {
    /// As the flags ask for.
    pub(crate) fn new(global: &Global) -> Self {
        let color = match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
            }
        };
        let verbosity = match (global.quiet, global.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        Self { out: BufWriter::new(io::stdout()), format: global.format, verbosity, color }
    }

    /// Writes a result.
    pub(crate) fn result(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(|error| Failure::stream(&error))
    }

    /// Writes what is buffered.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::stream(&error))
    }

    /// Writes a message. When nobody reads messages, the exit code has to do.
    pub(crate) fn message(&mut self, bytes: &[u8]) {
        // What was written before the message shall be read before it.
        let _ = self.out.flush();
        let _ = io::stderr().write_all(bytes);
    }

    /// A line of information, for people, unless they want none.
    pub(crate) fn note(&mut self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.message(format!("{text}\n").as_bytes());
        }
    }

    /// A line of information for those who ask for it.
    pub(crate) fn detail(&mut self, text: &str) {
        if self.verbosity >= Verbosity::Verbose && self.format == Format::Text {
            self.message(format!("{text}\n").as_bytes());
        }
    }
}
