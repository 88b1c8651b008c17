//! The standard streams: results on one, everything else on the other; colors, and what is being done, only for a person.

use crate::args::{ColorChoice, Format, Global, OutputFormat};
use crate::exit::{Exit, Failure};
use crate::report::{Log, Reader};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::{Value, json};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

/// How often what is being done is drawn.
const DRAWN: Duration = Duration::from_millis(200);

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
    /// What is being done.
    progress: Option<ProgressBar>,
    /// The code whose explanation is offered at the end.
    explained: Option<&'static str>,
    /// Findings for a reader in continuous integration, which are all that is printed then.
    log: Option<Log>,
    /// What was shown so far.
    pub(crate) shown: Shown,
    /// What this process would have shown, where another one shows all.
    muted: Option<String>,
}

/// How many errors and warnings were shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
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
        let (format, reader) = match global.format {
            OutputFormat::Text => (Format::Text, None),
            OutputFormat::Json => (Format::Json, None),
            OutputFormat::Sarif => (Format::Text, Some(Reader::Sarif)),
            OutputFormat::Github => (Format::Text, Some(Reader::Github)),
        };
        let verbosity = match (global.quiet || reader.is_some(), global.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        Self {
            out: BufWriter::new(io::stdout()),
            format,
            verbosity,
            color,
            progress: None,
            explained: None,
            log: reader.map(Log::new),
            shown: Shown::default(),
            muted: None,
        }
    }

    /// Shows nothing from now on.
    pub(crate) fn mute(&mut self) {
        self.muted = Some(String::new());
    }

    /// Messages that were not shown.
    pub(crate) fn muted(&self) -> Option<String> {
        self.muted.clone()
    }

    /// Another one of the same kind, which shows what it is given.
    pub(crate) fn like(&self) -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
            format: self.format,
            verbosity: self.verbosity,
            color: self.color,
            progress: None,
            explained: None,
            log: None,
            shown: Shown::default(),
            muted: None,
        }
    }

    /// Writes a result.
    pub(crate) fn result(&mut self, text: &str) -> Result<(), Failure> {
        self.progress = None;
        if self.log.is_some() || self.muted.is_some() {
            return Ok(());
        }
        self.out.write_all(text.as_bytes()).map_err(|error| Failure::stream(&error))
    }

    /// Writes a result, as text for people or as an object for tools.
    pub(crate) fn tell(
        &mut self,
        text: &str,
        object: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Text => self.result(text),
            Format::Json => self.result(&format!("{}\n", object())),
        }
    }

    /// Writes an object, where tools read.
    pub(crate) fn object(&mut self, object: impl FnOnce() -> Value) -> Result<(), Failure> {
        match self.format {
            Format::Text => Ok(()),
            Format::Json => self.result(&format!("{}\n", object())),
        }
    }

    /// Writes the text of a program.
    pub(crate) fn program(&mut self, text: &str) -> Result<(), Failure> {
        self.tell(text, || json!({ "type": "program", "text": text }))
    }

    /// Where findings go that are not drawn.
    pub(crate) fn log(&mut self) -> Option<&mut Log> {
        self.log.as_mut()
    }

    /// Writes out what whoever waits for results of long work shall see now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::stream(&error))
    }

    /// Writes what is buffered.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.progress = None;
        if let Some(log) = self.log.take() {
            self.result(&log.text())?;
        }
        let flushed = self.out.flush().map_err(|error| Failure::stream(&error));
        if let Some(code) = self.explained.take() {
            self.note(&format!("For more, run `relax explain {code}`."));
        }
        flushed
    }

    /// Writes a message. When nobody reads messages, the exit code has to do.
    pub(crate) fn message(&mut self, bytes: &[u8]) {
        self.progress = None;
        if let Some(muted) = &mut self.muted {
            muted.push_str(&String::from_utf8_lossy(bytes));
            return;
        }
        // What was written before the message shall be read before it.
        let _ = self.out.flush();
        let _ = io::stderr().write_all(bytes);
    }

    /// Says why the command does not do its work.
    pub(crate) fn failure(&mut self, exit: Exit, text: &str) {
        if let Some(log) = &mut self.log {
            log.fail(text);
        }
        let message = match self.format {
            Format::Text => format!("error: {text}\n"),
            Format::Json => crate::report::json_message(exit, text),
        };
        self.message(message.as_bytes());
    }

    /// Shows what is being done and for how long, until the next output, where a person watches.
    pub(crate) fn doing(&mut self, what: String) {
        let is_watched = self.verbosity > Verbosity::Quiet
            && self.muted.is_none()
            && self.format == Format::Text
            && io::stderr().is_terminal();
        if !is_watched {
            return;
        }
        let bar = self.progress.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
            let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(what.clone());
            bar.enable_steady_tick(DRAWN);
            bar
        });
        bar.set_message(what);
    }

    /// A line of information, for people, unless they want none.
    pub(crate) fn note(&mut self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.message(format!("{text}\n").as_bytes());
        }
    }

    /// Says once, at the end, where a code is explained.
    pub(crate) fn offer_explanation(&mut self, code: &'static str) {
        self.explained.get_or_insert(code);
    }

    /// Whether more details are asked for.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Verbose
    }

    /// A warning without a place in the program.
    pub(crate) fn warn(&mut self, text: &str) {
        let line = match self.format {
            Format::Text => format!("warning: {text}\n"),
            Format::Json => {
                let object = serde_json::json!({ "type": "finding", "severity": "warning", "message": text });
                format!("{object}\n")
            }
        };
        self.message(line.as_bytes());
    }

    /// A line of information for those who ask for it.
    pub(crate) fn detail(&mut self, text: &str) {
        if self.verbosity >= Verbosity::Verbose && self.format == Format::Text {
            self.message(format!("{text}\n").as_bytes());
        }
    }
}
