//! Text of a sequence as it becomes certain: complete characters that no stop text begins in.

use relax_llm::{Stream, Tokenizer, TokenizerError};

/// The text of what continues a prompt.
pub(super) struct Text<'t> {
    stream: Stream<'t>,
    stops: Vec<String>,
    /// Text that may be the begin of a stop text.
    held: String,
}

impl<'t> Text<'t> {
    pub(super) fn new(
        tokenizer: &'t Tokenizer,
        prompt: &[u32],
        stops: Vec<String>,
    ) -> Result<Self, TokenizerError> {
        let mut stream = tokenizer.stream();
        stream.skip(prompt)?;
        Ok(Self { stream, stops, held: String::new() })
    }

    /// The text that a token makes certain, and whether it ends before a stop text.
    pub(super) fn push(&mut self, token: u32) -> Result<(String, bool), TokenizerError> {
        self.held += &self.stream.push(token)?;
        Ok(taken(&mut self.held, &self.stops))
    }

    /// The text that was not certain before the end.
    pub(super) fn finish(self) -> String {
        self.held + &self.stream.finish()
    }
}

/// Takes the text before the first stop text; without one, the text in which none begins.
fn taken(held: &mut String, stops: &[String]) -> (String, bool) {
    let stops = stops.iter().filter(|stop| !stop.is_empty());
    if let Some(at) = stops.clone().filter_map(|stop| held.find(stop.as_str())).min() {
        held.truncate(at);
        return (std::mem::take(held), true);
    }
    let begins = |at: &usize| {
        let rest = &held[*at..];
        stops.clone().any(|stop| stop.starts_with(rest))
    };
    let ends = held.char_indices().map(|(at, _)| at).find(begins);
    let rest = held.split_off(ends.unwrap_or(held.len()));
    (std::mem::replace(held, rest), false)
}

#[cfg(test)]
mod tests {
    use super::taken;

    /// What is certain after each piece of a text.
    fn texts(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let (mut held, mut texts) = (String::new(), Vec::new());
        for piece in pieces {
            held.push_str(piece);
            let (text, stops) = taken(&mut held, &stops);
            texts.push(text);
            if stops {
                return (texts, true);
            }
        }
        (texts, false)
    }

    #[test]
    fn a_stop_text_ends_the_text_wherever_tokens_end() {
        assert_eq!(
            texts(&["END"], &["a E", "N", "x"]),
            (vec!["a ".into(), String::new(), "ENx".into()], false)
        );
        assert_eq!(texts(&["END"], &["a E", "ND", "x"]), (vec!["a ".into(), String::new()], true));
        assert_eq!(texts(&["END", "d E"], &["and END"]), (vec!["an".into()], true));
        assert_eq!(
            texts(&["\u{e9}\n"], &["caf\u{e9}", "!"]),
            (vec!["caf".into(), "\u{e9}!".into()], false)
        );
        assert_eq!(texts(&[""], &["a"]), (vec!["a".into()], false));
        assert_eq!(texts(&["aab"], &["aa", "ab"]), (vec![String::new(), "a".into()], true));
    }
}
