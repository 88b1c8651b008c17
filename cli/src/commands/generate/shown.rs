//! Generated tokens as they are printed: by number, or as text.

use super::sequence::{Emitted, Reason};
use crate::args::Format;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_llm::Chosen;
use serde_json::json;

pub(super) struct Shown {
    is_first: bool,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self { is_first: true }
    }

    /// Prints one more token.
    pub(super) fn add(
        &mut self,
        token: &Emitted,
        logprobs: bool,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let Chosen { token: id, logprob } = token.chosen;
        let is_first = std::mem::replace(&mut self.is_first, false);
        if terminal.format == Format::Json {
            let mut object = json!({ "type": "token", "token": id, "logprob": logprob });
            if let Some(text) = &token.text {
                object["text"] = json!(text);
            }
            terminal.result(&format!("{object}\n"))?;
        } else {
            let number = || (if is_first { "" } else { "," }).to_owned() + &id.to_string();
            terminal.result(&token.text.clone().unwrap_or_else(number))?;
            if logprobs {
                terminal.note(&json!({ "token": id, "logprob": logprob }).to_string());
            }
        }
        terminal.flush()
    }
}

/// Prints the rest of the text, and why there is no more.
pub(super) fn end(
    (reason, rest): (Reason, &str),
    tokens: usize,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let reason = reason.name();
    if terminal.format == Format::Json {
        let object = json!({ "type": "end", "reason": reason, "tokens": tokens, "text": rest });
        return terminal.result(&format!("{object}\n"));
    }
    terminal.result(&format!("{rest}\n"))?;
    terminal.detail(&format!("{tokens} tokens, ended by: {reason}"));
    Ok(())
}
