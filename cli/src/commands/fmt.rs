//! `relax fmt`: one layout for every program.

use super::at_most_one_stdin;
use crate::args::{FmtArgs, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{is_stdin, read_program, write_whole};
use crate::report::{Finding, show, show_diagnostics};
use crate::terminal::Terminal;
use relax_syntax::format::format_source;
use relax_syntax::span::Source;
use serde_json::json;
use std::path::Path;

pub(super) fn fmt(args: &FmtArgs, terminal: &mut Terminal) -> Outcome {
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        let Some((source, formatted)) = formatted(path, terminal)? else {
            exit = Exit::Wrong;
            continue;
        };
        let is_formatted = source.text == formatted;
        if args.check {
            if source.text != formatted {
                terminal.note(&format!("{}: not formatted", source.name));
                exit = Exit::Wrong;
            }
        } else if is_stdin(path) {
            if terminal.format == Format::Text {
                terminal.result(&formatted)?;
            }
        } else if source.text != formatted {
            write_whole(path, formatted.as_bytes())?;
            terminal.detail(&format!("{}: formatted", source.name));
        }
        terminal.object(|| {
            let text = (is_stdin(path) && !args.check).then_some(&formatted);
            json!({ "type": "fmt", "file": source.name, "formatted": is_formatted, "text": text })
        })?;
    }
    Ok(exit)
}

/// The text before and after; `None` when it does not parse, which is then shown.
fn formatted(path: &Path, terminal: &mut Terminal) -> Result<Option<(Source, String)>, Failure> {
    let source = match read_program(path)? {
        Ok(source) => source,
        Err(unreadable) => {
            show(terminal, &unreadable.source, &[Finding::from(&unreadable.diagnostic)]);
            return Ok(None);
        }
    };
    match format_source(&source) {
        Ok(text) => Ok(Some((source, text))),
        Err(diagnostics) => {
            show_diagnostics(terminal, &source, &diagnostics);
            Ok(None)
        }
    }
}
