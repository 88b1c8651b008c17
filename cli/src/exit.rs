//! How the command ends: exit codes are part of its contract.

use relax_program::tensor_files::FileError;
use std::fmt;
use std::io;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: all is well.
    Fine,
    /// 1: the program is wrong, or a comparison failed.
    Wrong,
    /// 2: bad usage, or a file that cannot be read or written.
    Usage,
    /// 3: a run-time check failed, or a run gave up at a limit.
    Stopped,
    /// 4: a device, a tool or a part of this version is missing.
    Missing,
    /// 5: a comparison compared nothing.
    Vacuous,
    /// 6: a certificate holds and leaves obligations open.
    Partial,
    /// 70, as `EX_SOFTWARE` of sysexits: a mistake in this program. 101 is never used.
    Internal,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Wrong => 1,
            Exit::Usage => 2,
            Exit::Stopped => 3,
            Exit::Missing => 4,
            Exit::Vacuous => 5,
            Exit::Partial => 6,
            Exit::Internal => 70,
        }
    }
}

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever reads the standard output stopped reading: nobody is left to tell.
    Closed,
    /// What is wrong was shown already.
    Shown(Exit),
    /// A message for the user.
    Message {
        /// What the exit code says.
        exit: Exit,
        /// What is wrong, a sentence; further lines say more.
        text: String,
    },
}

impl Failure {
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Failure::Message { exit: Exit::Usage, text: text.to_string() }
    }

    pub(crate) fn missing(text: impl fmt::Display) -> Self {
        Failure::Message { exit: Exit::Missing, text: text.to_string() }
    }

    /// A file that cannot be read, or reaches a limit.
    pub(crate) fn of_file(error: &FileError) -> Self {
        let exit = match error {
            FileError::Wrong(_) => Exit::Usage,
            FileError::Limit(_) => Exit::Stopped,
        };
        Failure::Message { exit, text: error.to_string() }
    }

    /// A failed write to one of the standard streams.
    pub(crate) fn stream(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::Closed;
        }
        Failure::usage(format!("the output could not be written: {error}"))
    }
}

/// What a subcommand gives.
pub(crate) type Outcome = Result<Exit, Failure>;
