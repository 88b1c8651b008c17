//! Generated tokens as they are printed: by number, or as text up to the first stop text.

use crate::args::Format;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_llm::{Chosen, Stream, Tokenizer};
use serde_json::json;

/// Prints tokens.
pub(super) struct Shown<'r> {
    /// Of the text so far; `None` for numbers.
    stream: Option<Stream<'r>>,
    stops: &'r [String],
    /// Text that may be the begin of a stop text.
    held: String,
    is_first: bool,
}

impl<'r> Shown<'r> {
    /// Of what continues a prompt.
    pub(super) fn new(
        tokenizer: Option<&'r Tokenizer>,
        prompt: &[u32],
        stops: &'r [String],
    ) -> Result<Self, Failure> {
        let mut stream = tokenizer.map(Tokenizer::stream);
        if let Some(stream) = &mut stream {
            stream.skip(prompt).map_err(Failure::usage)?;
        }
        Ok(Self { stream, stops, held: String::new(), is_first: true })
    }

    /// Prints one more token; whether a stop text ends it.
    pub(super) fn add(
        &mut self,
        chosen: Chosen,
        logprobs: bool,
        terminal: &mut Terminal,
    ) -> Result<bool, Failure> {
        let Chosen { token, logprob } = chosen;
        let is_first = std::mem::replace(&mut self.is_first, false);
        let (text, stops) = match &mut self.stream {
            None => ((if is_first { "" } else { "," }).to_owned() + &token.to_string(), false),
            Some(stream) => {
                self.held += &stream.push(token).map_err(Failure::usage)?;
                self.taken()
            }
        };
        if terminal.format == Format::Json {
            let mut object = json!({ "type": "token", "token": token, "logprob": logprob });
            if self.stream.is_some() {
                object["text"] = json!(text);
            }
            terminal.result(&format!("{object}\n"))?;
        } else {
            terminal.result(&text)?;
            if logprobs {
                terminal.note(&json!({ "token": token, "logprob": logprob }).to_string());
            }
        }
        terminal.flush()?;
        Ok(stops)
    }

    /// The text that can be printed, and whether it ends before a stop text.
    fn taken(&mut self) -> (String, bool) {
        let stops = self.stops.iter().filter(|stop| !stop.is_empty());
        if let Some(at) = stops.clone().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        // A stop text may begin in what is there.
        let begins = |at: &usize| {
            let rest = &self.held[*at..];
            stops.clone().any(|stop| stop.starts_with(rest))
        };
        let ends = self.held.char_indices().map(|(at, _)| at).find(begins);
        let rest = self.held.split_off(ends.unwrap_or(self.held.len()));
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Prints the rest, and why there is no more.
    pub(super) fn end(
        &mut self,
        reason: &str,
        tokens: usize,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let mut rest = std::mem::take(&mut self.held);
        // After a stop text nothing is printed.
        if let Some(stream) = self.stream.take().filter(|_| reason != "stop") {
            rest += &stream.finish();
        }
        if terminal.format == Format::Json {
            let object = json!({ "type": "end", "reason": reason, "tokens": tokens, "text": rest });
            return terminal.result(&format!("{object}\n"));
        }
        terminal.result(&format!("{rest}\n"))?;
        terminal.detail(&format!("{tokens} tokens, ended by: {reason}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    /// What is printed of pieces of a text.
    fn printed(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut shown = Shown::new(None, &[], &stops).unwrap_or_else(|why| panic!("{why:?}"));
        let mut printed = Vec::new();
        for piece in pieces {
            shown.held.push_str(piece);
            let (text, stops) = shown.taken();
            printed.push(text);
            if stops {
                return (printed, true);
            }
        }
        (printed, false)
    }

    #[test]
    fn a_stop_text_ends_the_text_wherever_tokens_end() {
        assert_eq!(
            printed(&["END"], &["a E", "N", "x"]),
            (vec!["a ".into(), String::new(), "ENx".into()], false)
        );
        assert_eq!(
            printed(&["END"], &["a E", "ND", "x"]),
            (vec!["a ".into(), String::new()], true)
        );
        assert_eq!(printed(&["END", "d E"], &["and END"]), (vec!["an".into()], true));
        assert_eq!(
            printed(&["\u{e9}\n"], &["caf\u{e9}", "!"]),
            (vec!["caf".into(), "\u{e9}!".into()], false)
        );
        assert_eq!(printed(&[""], &["a"]), (vec!["a".into()], false));
        assert_eq!(printed(&["aab"], &["aa", "ab"]), (vec![String::new(), "a".into()], true));
    }
}
