//! Key-value metadata of a checkpoint, and the reader that refuses keys which nothing reads.
//!
//! A configuration of Hugging Face is seen as metadata too: keys of nested objects are joined by dots.

use crate::error::Error;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Metadata such as those of a GGUF file. A method gives `None` when the key is absent or has a value of another type.
pub trait Metadata {
    /// All keys, in any order.
    fn keys(&self) -> Vec<String>;
    /// An integer or float.
    fn number(&self, key: &str) -> Option<f64>;
    /// The value of a string.
    fn text(&self, key: &str) -> Option<String>;
    /// The value of a bool.
    fn flag(&self, key: &str) -> Option<bool>;
    /// An array of strings.
    fn texts(&self, key: &str) -> Option<Vec<String>>;
    /// The number of elements of an array, whatever they are.
    fn length(&self, key: &str) -> Option<usize>;
}

/// The values of a JSON object by dotted path. Nulls and empty objects count as absent.
pub(crate) struct Flattened(BTreeMap<String, Value>);

/// Objects in objects beyond this depth are refused.
const DEEPEST: usize = 8;

impl Flattened {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| Error::NotJson(error.to_string()))?;
        if !value.is_object() {
            return Err(Error::NotJson("another value stands there".to_owned()));
        }
        let mut flat = BTreeMap::new();
        flatten("", value, 0, &mut flat)?;
        Ok(Self(flat))
    }

    /// Whether a key has this text.
    pub(crate) fn is_text(&self, key: &str, text: &str) -> bool {
        self.0.get(key).and_then(Value::as_str) == Some(text)
    }

    /// Gives a key that is absent its default.
    pub(crate) fn set_missing(&mut self, key: &str, value: Value) {
        self.0.entry(key.to_owned()).or_insert(value);
    }
}

fn flatten(
    path: &str,
    value: Value,
    depth: usize,
    into: &mut BTreeMap<String, Value>,
) -> Result<(), Error> {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            if depth > DEEPEST {
                return Err(Error::setting(path, "an object", "fewer objects in each other"));
            }
            for (key, value) in fields {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(&path, value, depth + 1, into)?;
            }
        }
        other => {
            into.insert(path.to_owned(), other);
        }
    }
    Ok(())
}

impl Metadata for Flattened {
    fn keys(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key)?.as_f64()
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.as_str().map(str::to_owned)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }

    fn texts(&self, key: &str) -> Option<Vec<String>> {
        let items = self.0.get(key)?.as_array()?;
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }

    fn length(&self, key: &str) -> Option<usize> {
        self.0.get(key)?.as_array().map(Vec::len)
    }
}

/// Reads metadata and records which keys were read.
pub(crate) struct Keys<'m> {
    source: &'m dyn Metadata,
    all: BTreeSet<String>,
    prefix: String,
    used: RefCell<BTreeSet<String>>,
}

impl<'m> Keys<'m> {
    /// Keys are given without the prefix.
    pub(crate) fn new(source: &'m dyn Metadata, prefix: &str) -> Self {
        let all = source.keys().into_iter().collect();
        Self { source, all, prefix: prefix.to_owned(), used: RefCell::default() }
    }

    /// The key as the source has it.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A value in words, for messages.
    fn shown(&self, full: &str) -> String {
        let source = self.source;
        let number = || source.number(full).map(|number| number.to_string());
        let text = || source.text(full).map(|text| format!("\"{text}\""));
        let flag = || source.flag(full).map(|flag| flag.to_string());
        let list = || source.length(full).map(|length| format!("a list of {length}"));
        number().or_else(text).or_else(flag).or_else(list).unwrap_or("another value".to_owned())
    }

    pub(crate) fn refused(&self, key: &str, expected: impl Into<String>) -> Error {
        let full = self.full(key);
        Error::setting(&full, self.shown(&full), expected)
    }

    pub(crate) fn missing(&self, key: &str, expected: &str) -> Error {
        Error::MissingKey { key: self.full(key), expected: expected.to_owned() }
    }

    /// Whether there is a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.all.contains(&self.full(key))
    }

    /// Whether there is a key below a dotted path.
    pub(crate) fn has_below(&self, path: &str) -> bool {
        let start = format!("{}.", self.full(path));
        self.all.range(start.clone()..).next().is_some_and(|key| key.starts_with(&start))
    }

    /// The value of a key that may be absent; of another type it is refused.
    fn value<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&dyn Metadata, &str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let full = self.full(key);
        if !self.all.contains(&full) {
            return Ok(None);
        }
        let value = read(self.source, &full).ok_or_else(|| self.refused(key, expected))?;
        self.used.borrow_mut().insert(full);
        Ok(Some(value))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        self.value(key, "a string", |source, key| source.text(key))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.value(key, "true or false", |source, key| source.flag(key))
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.value(key, "a list of strings", |source, key| source.texts(key))
    }

    pub(crate) fn length(&self, key: &str) -> Result<Option<usize>, Error> {
        self.value(key, "a list", |source, key| source.length(key))
    }

    /// A finite number above 0 and up to `most`.
    pub(crate) fn positive(&self, key: &str, most: f64) -> Result<Option<f64>, Error> {
        let expected = format!("a number above 0, at most {most}");
        let Some(number) = self.value(key, &expected, |source, key| source.number(key))? else {
            return Ok(None);
        };
        if number > 0.0 && number <= most {
            return Ok(Some(number));
        }
        Err(self.refused(key, expected))
    }

    /// An integer from 1 to `most`.
    pub(crate) fn size(&self, key: &str, most: usize) -> Result<Option<usize>, Error> {
        let expected = format!("an integer from 1 to {most}");
        let Some(number) = self.value(key, &expected, |source, key| source.number(key))? else {
            return Ok(None);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked below"
        )]
        let size = number as usize;
        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
        let same = size as f64 == number;
        if same && (1..=most).contains(&size) {
            return Ok(Some(size));
        }
        Err(self.refused(key, expected))
    }

    /// An integer within limits.
    pub(crate) fn integer(
        &self,
        key: &str,
        (least, most): (i64, i64),
    ) -> Result<Option<i64>, Error> {
        let expected = format!("an integer from {least} to {most}");
        let Some(number) = self.value(key, &expected, |source, key| source.number(key))? else {
            return Ok(None);
        };
        #[expect(clippy::cast_possible_truncation, reason = "checked below")]
        let integer = number as i64;
        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
        let same = integer as f64 == number;
        if same && (least..=most).contains(&integer) {
            return Ok(Some(integer));
        }
        Err(self.refused(key, expected))
    }

    /// As [`Self::size`], of a key that must be there.
    pub(crate) fn required(&self, key: &str, most: usize) -> Result<usize, Error> {
        let expected = format!("an integer from 1 to {most}");
        self.size(key, most)?.ok_or_else(|| self.missing(key, &expected))
    }

    /// Refuses a key whose text is another one than these.
    pub(crate) fn only(&self, key: &str, allowed: &[&str]) -> Result<Option<String>, Error> {
        let found = self.text(key)?;
        match &found {
            Some(text) if !allowed.contains(&text.as_str()) => {
                let allowed: Vec<String> =
                    allowed.iter().map(|text| format!("\"{text}\"")).collect();
                Err(self.refused(key, allowed.join(" or ")))
            }
            _ => Ok(found),
        }
    }

    /// Refuses a flag that is set.
    pub(crate) fn never(&self, key: &str) -> Result<(), Error> {
        if self.flag(key)? == Some(true) { Err(self.refused(key, "false")) } else { Ok(()) }
    }

    /// Refuses the first key with the prefix that nothing has read and that does change results.
    pub(crate) fn finish(&self, is_ignored: impl Fn(&str) -> bool) -> Result<(), Error> {
        let used = self.used.borrow();
        let unread = self.all.iter().filter(|key| !used.contains(*key));
        let mut unread = unread.filter_map(|key| Some((key, key.strip_prefix(&self.prefix)?)));
        match unread.find(|(_, key)| !is_ignored(key)) {
            None => Ok(()),
            Some((key, _)) => Err(Error::UnknownKey { key: key.clone(), found: self.shown(key) }),
        }
    }
}
