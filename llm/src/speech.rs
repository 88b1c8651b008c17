//! How a model of speech is asked for a text: the tokens that it begins with, and those that it never has (`generation_config.json` of
//! Whisper).

use crate::error::Error;
use crate::timestamps::Timestamps;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the text is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// What is said.
    Transcribe,
    /// What is said, in English.
    Translate,
}

impl Task {
    /// As `task_to_id` and `--task` call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Transcribe => "transcribe",
            Self::Translate => "translate",
        }
    }
}

/// Tokens of a model of speech.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeechTokens {
    start: u32,
    /// By code, such as `en`.
    languages: BTreeMap<String, u32>,
    tasks: BTreeMap<String, u32>,
    no_timestamps: Option<u32>,
    /// How a text has times; `None` where the model has no tokens for these.
    pub times: Option<Timestamps>,
    /// Tokens that a text never has.
    pub suppressed: Vec<u32>,
    /// Tokens that a text does not begin with.
    pub suppressed_first: Vec<u32>,
}

/// The texts of the files of a checkpoint; older ones have in `config.json` what others have in `generation_config.json`.
struct Files {
    generation: Value,
    config: Value,
    vocabulary: usize,
}

impl Files {
    fn get(&self, key: &str) -> &Value {
        match &self.generation[key] {
            Value::Null => &self.config[key],
            found => found,
        }
    }

    fn token(&self, key: &str, value: &Value) -> Result<Option<u32>, Error> {
        if value.is_null() {
            return Ok(None);
        }
        let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
        match token.filter(|token| (*token as usize) < self.vocabulary) {
            Some(token) => Ok(Some(token)),
            None => {
                let expected = format!("a token below `vocab_size` = {}", self.vocabulary);
                Err(Error::setting(key, value, expected))
            }
        }
    }

    /// Those beyond the vocabulary cannot be chosen: defaults of a larger one may be left in a file.
    fn suppressed(&self, key: &str) -> Result<Vec<u32>, Error> {
        let wrong = |value: &Value| Error::setting(key, value, "a list of tokens");
        let tokens = match self.get(key) {
            Value::Null => return Ok(Vec::new()),
            Value::Array(tokens) => tokens,
            other => return Err(wrong(other)),
        };
        let token = |value: &Value| value.as_u64().ok_or_else(|| wrong(value));
        let tokens = tokens.iter().map(token).collect::<Result<Vec<u64>, Error>>()?;
        let tokens = tokens.into_iter().filter_map(|token| u32::try_from(token).ok());
        Ok(tokens.filter(|token| (*token as usize) < self.vocabulary).collect())
    }

    /// Times are the tokens behind the one for a text without them.
    fn times(&self, no_timestamps: Option<u32>) -> Result<Option<Timestamps>, Error> {
        let key = "eos_token_id";
        let end = match self.get(key) {
            Value::Array(tokens) => tokens.first().unwrap_or(&Value::Null),
            one => one,
        };
        let key_of_latest = "max_initial_timestamp_index";
        let latest_first = self.token(key_of_latest, self.get(key_of_latest))?;
        let begin = no_timestamps.map(|token| token + 1);
        let begin = begin.filter(|token| (*token as usize) < self.vocabulary);
        let both = begin.zip(self.token(key, end)?);
        Ok(both.map(|(begin, end)| Timestamps { begin, end, latest_first }))
    }

    fn table(&self, key: &str) -> Result<BTreeMap<String, u32>, Error> {
        let table = match self.get(key) {
            Value::Null => return Ok(BTreeMap::new()),
            Value::Object(table) => table,
            other => return Err(Error::setting(key, other, "an object of tokens by name")),
        };
        let mut tokens = BTreeMap::new();
        for (name, value) in table {
            if let Some(token) = self.token(&format!("{key}.{name}"), value)? {
                // Languages are spelled as their tokens are: `<|en|>`.
                let name = name.trim_start_matches("<|").trim_end_matches("|>");
                tokens.insert(name.to_owned(), token);
            }
        }
        Ok(tokens)
    }
}

impl SpeechTokens {
    /// Reads `generation_config.json`, and `config.json` for what it does not have.
    ///
    /// # Errors
    /// When a token is missing or is none of the vocabulary.
    pub fn from_json(
        generation: Option<&str>,
        config: &str,
        vocabulary: usize,
    ) -> Result<Self, Error> {
        let parsed = |text: &str| {
            serde_json::from_str(text).map_err(|error| Error::NotJson(error.to_string()))
        };
        let generation = generation.map_or(Ok(Value::Null), parsed)?;
        let files = Files { generation, config: parsed(config)?, vocabulary };
        let key = "decoder_start_token_id";
        let start = files.token(key, files.get(key))?;
        let start = start.ok_or_else(|| Error::MissingKey {
            key: key.to_owned(),
            expected: "the token that texts begin with".to_owned(),
        })?;
        let is_multilingual = files.get("is_multilingual").as_bool() != Some(false);
        let table = |key| if is_multilingual { files.table(key) } else { Ok(BTreeMap::new()) };
        let key = "no_timestamps_token_id";
        let no_timestamps = files.token(key, files.get(key))?;
        Ok(Self {
            times: files.times(no_timestamps)?,
            start,
            languages: table("lang_to_id")?,
            tasks: table("task_to_id")?,
            no_timestamps,
            suppressed: files.suppressed("suppress_tokens")?,
            suppressed_first: files.suppressed("begin_suppress_tokens")?,
        })
    }

    /// The tokens by which a model is asked which language is spoken; `None` where it knows one language only.
    #[must_use]
    pub fn question(&self) -> Option<Vec<u32>> {
        (!self.languages.is_empty()).then(|| vec![self.start])
    }

    /// The language of the greatest of the logits that follow [`SpeechTokens::question`]; the first one where several are as great.
    #[must_use]
    pub fn language(&self, logits: &[f32]) -> Option<&str> {
        let logit = |token: u32| logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let mut best: Option<(&str, f32)> = None;
        for (name, &token) in &self.languages {
            let logit = logit(token);
            if best.is_none_or(|(_, greatest)| logit > greatest) {
                best = Some((name, logit));
            }
        }
        best.map(|(name, _)| name)
    }

    /// The tokens that a text without times begins with.
    ///
    /// # Errors
    /// When the model does not know the language or the task.
    pub fn prompt(&self, language: Option<&str>, task: Task) -> Result<Vec<u32>, Error> {
        let mut tokens = self.prompt_with_times(language, task)?;
        tokens.extend(self.no_timestamps);
        Ok(tokens)
    }

    /// The tokens that a text with times begins with.
    ///
    /// # Errors
    /// As [`SpeechTokens::prompt`].
    pub fn prompt_with_times(&self, language: Option<&str>, task: Task) -> Result<Vec<u32>, Error> {
        let known = |what: &str, name: &str, table: &BTreeMap<String, u32>| {
            let names: Vec<&str> = table.keys().map(String::as_str).collect();
            let expected = match names.is_empty() {
                true => format!("no {what}: the model knows one only"),
                false => format!("one of {}", names.join(", ")),
            };
            let token = table.get(name).copied();
            token.ok_or_else(|| Error::setting(what, name, expected))
        };
        let mut tokens = vec![self.start];
        if let Some(language) = language {
            tokens.push(known("language", language, &self.languages)?);
        }
        if !self.tasks.is_empty() || task == Task::Translate {
            tokens.push(known("task", task.name(), &self.tasks)?);
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::{SpeechTokens, Task};

    const GENERATION: &str = r#"{"decoder_start_token_id": 40, "lang_to_id": {"<|de|>": 41, "<|en|>": 42},
        "task_to_id": {"transcribe": 43, "translate": 44}, "no_timestamps_token_id": 45, "is_multilingual": true,
        "suppress_tokens": [1, 2, 50000], "begin_suppress_tokens": [3]}"#;

    #[test]
    fn a_text_begins_with_language_and_task() {
        let speech_tokens =
            SpeechTokens::from_json(Some(GENERATION), "{}", 64).expect("it is whole");
        assert_eq!(speech_tokens.suppressed, [1, 2]);
        assert_eq!(speech_tokens.suppressed_first, [3]);
        assert_eq!(speech_tokens.question(), Some(vec![40]));
        let prompt = |language, task| speech_tokens.prompt(language, task);
        assert_eq!(prompt(Some("de"), Task::Transcribe), Ok(vec![40, 41, 43, 45]));
        assert_eq!(prompt(None, Task::Translate), Ok(vec![40, 44, 45]));
        let said = prompt(Some("xx"), Task::Transcribe).expect_err("it is unknown").to_string();
        let with_times = speech_tokens.prompt_with_times(Some("de"), Task::Transcribe);
        assert_eq!(with_times, Ok(vec![40, 41, 43]));
        assert_eq!(speech_tokens.times, None);
        assert!(said.contains("`language` = xx") && said.contains("de, en"), "{said}");
        let mut logits = vec![0.0; 64];
        (logits[7], logits[41], logits[42]) = (9.0, 1.0, 2.0);
        assert_eq!(speech_tokens.language(&logits), Some("en"));
        logits[42] = f32::NAN;
        assert_eq!(speech_tokens.language(&logits), Some("de"));
    }

    #[test]
    fn a_model_of_one_language_is_asked_for_none() {
        let config = r#"{"decoder_start_token_id": 5, "suppress_tokens": null}"#;
        let generation = r#"{"is_multilingual": false, "lang_to_id": {"<|en|>": 6}}"#;
        let speech_tokens =
            SpeechTokens::from_json(Some(generation), config, 64).expect("it is whole");
        assert_eq!(speech_tokens.question(), None);
        assert_eq!(speech_tokens.prompt(None, Task::Transcribe), Ok(vec![5]));
        let refused = |language, task| speech_tokens.prompt(language, task).expect_err("unknown");
        assert!(refused(Some("en"), Task::Transcribe).to_string().contains("one only"));
        assert!(refused(None, Task::Translate).to_string().contains("one only"));
    }

    #[test]
    fn tokens_that_are_none_are_refused() {
        for (generation, part) in [
            ("{}", "lacks `decoder_start_token_id`"),
            (r#"{"decoder_start_token_id": 64}"#, "a token below `vocab_size` = 64"),
            (r#"{"decoder_start_token_id": -1}"#, "a token below"),
            (
                r#"{"decoder_start_token_id": 1, "lang_to_id": {"<|en|>": 99}}"#,
                "`lang_to_id.<|en|>` = 99",
            ),
            (r#"{"decoder_start_token_id": 1, "suppress_tokens": ["a"]}"#, "a list of tokens"),
            (r#"{"decoder_start_token_id": 1, "task_to_id": 3}"#, "an object of tokens"),
            ("[", "no JSON object"),
        ] {
            let said = SpeechTokens::from_json(Some(generation), "{}", 64).expect_err(generation);
            assert!(said.to_string().contains(part), "{generation}: {said}");
        }
    }
}
