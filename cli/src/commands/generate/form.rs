//! The form of `--grammar`.

use super::checkpoint::Checkpoint;
use crate::exit::Failure;
use relax_llm::{Constraint, Form, Grammars, Tokenizer};
use std::fs;
use std::path::Path;

/// Bytes of a file.
const LONGEST: u64 = 1 << 20;

/// What a text keeps to, by the ending of the file.
pub(super) fn constraint(
    path: &Path,
    tokenizer: &Tokenizer,
    checkpoint: &Checkpoint,
) -> Result<Constraint, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let form = form(path).map_err(wrong)?;
    let grammars = Grammars::new(tokenizer, checkpoint.config.vocabulary, &checkpoint.ends);
    let constraint = grammars.and_then(|grammars| grammars.constraint(&form));
    constraint.map_err(|error| wrong(error.to_string()))
}

fn form(path: &Path) -> Result<Form, String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !["lark", "json", "regex"].contains(&ending) {
        return Err(
            "the name ends neither in .lark (a grammar in Lark's language), nor in .json (a JSON schema) or .regex"
                .to_owned(),
        );
    }
    let metadata = fs::metadata(path).map_err(|error| format!("cannot read it: {error}"))?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(format!("it is no file of at most {LONGEST} bytes"));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
    Ok(match ending {
        "lark" => Form::Lark(text),
        "json" => Form::JsonSchema(serde_json::from_str(&text).map_err(|error| error.to_string())?),
        // A line, as editors write it.
        _ => Form::Regex(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
    })
}
