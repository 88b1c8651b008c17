//! `relax export`: a program in the text of another compiler.

use super::loading::{Given, load};
use crate::args::{ExportArgs, Exported};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_import::export_tvmscript;
use serde_json::json;

pub(super) fn export(args: &ExportArgs, terminal: &mut Terminal) -> Outcome {
    let Exported::Tvmscript = args.to;
    let Some(Given { program, .. }) = load(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    match export_tvmscript(&program.module) {
        Ok(text) => {
            match &args.output {
                Some(path) => write_whole(path, text.as_bytes())?,
                None => terminal.tell(
                    &text,
                    || json!({ "type": "source", "language": "tvmscript", "text": text }),
                )?,
            }
            Ok(Exit::Fine)
        }
        Err(refused) => {
            let lines: String = refused.iter().map(|why| format!("\n  {why}")).collect();
            let name = args.file.display();
            let text = format!("{name}: TVMScript has no words for this:{lines}");
            Err(Failure::Message { exit: Exit::Wrong, text })
        }
    }
}
