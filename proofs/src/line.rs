//! A line of a certificate: a JSON object whose keys are taken one by one, so that a key that nobody
//! takes, or that stands there twice, is refused.

use crate::{Checks, refuse};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The longest line, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The keys of a line that were not taken yet.
#[derive(Debug)]
pub(crate) struct Line(BTreeMap<String, Value>);

impl Line {
    /// Reads a line.
    pub(crate) fn read(text: &str) -> Checks<Self> {
        if text.len() > MAX_BYTES {
            return refuse(format!("a line of more than {MAX_BYTES} bytes"));
        }
        serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))
    }

    /// Whether the key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// No key is left.
    pub(crate) fn done(&self) -> Checks<()> {
        match self.0.keys().next() {
            Some(key) => refuse(format!("the key `{key}` does not belong here")),
            None => Ok(()),
        }
    }

    fn take<T>(&mut self, key: &str, kind: &str, read: fn(Value) -> Option<T>) -> Checks<T> {
        match self.0.remove(key) {
            Some(value) => read(value).ok_or_else(|| format!("`{key}` must be {kind}")),
            None => refuse(format!("the key `{key}` is missing")),
        }
    }

    /// A natural number.
    pub(crate) fn number(&mut self, key: &str) -> Checks<u64> {
        self.take(key, "a natural number", |value| value.as_u64())
    }

    /// A string.
    pub(crate) fn string(&mut self, key: &str) -> Checks<String> {
        self.take(key, "a string", string)
    }

    /// A list of strings.
    pub(crate) fn strings(&mut self, key: &str) -> Checks<Vec<String>> {
        self.take(key, "a list of strings", |value| list(value, string))
    }

    /// A list of numbers of facts.
    pub(crate) fn numbers(&mut self, key: &str) -> Checks<Vec<u64>> {
        self.take(key, "a list of natural numbers", |value| list(value, |item| item.as_u64()))
    }

    /// Two numbers of facts.
    pub(crate) fn two(&mut self, key: &str) -> Checks<[u64; 2]> {
        let two = <[u64; 2]>::try_from(self.numbers(key)?);
        two.map_err(|_| format!("`{key}` must be two natural numbers"))
    }

    /// A list of numbers of facts, each with a term.
    pub(crate) fn pairs(&mut self, key: &str) -> Checks<Vec<(u64, String)>> {
        let pair = |value| match <[Value; 2]>::try_from(list(value, Some)?) {
            Ok([fact, factor]) => Some((fact.as_u64()?, string(factor)?)),
            Err(_) => None,
        };
        let read =
            self.take(key, "a list of pairs `[fact, \"term\"]`", |value| list(value, Some))?;
        let read: Option<Vec<_>> = read.into_iter().map(pair).collect();
        read.ok_or_else(|| format!("`{key}` must be a list of pairs `[fact, \"term\"]`"))
    }

    /// An object of strings.
    pub(crate) fn terms(&mut self, key: &str) -> Checks<BTreeMap<String, String>> {
        self.take(key, "an object of strings", |value| match value {
            Value::Object(entries) => {
                entries.into_iter().map(|(name, term)| Some((name, string(term)?))).collect()
            }
            _ => None,
        })
    }

    /// The key is there and says `true`.
    pub(crate) fn yes(&mut self, key: &str) -> Checks<()> {
        self.take(key, "true", |value| (value == Value::Bool(true)).then_some(()))
    }
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn list<T>(value: Value, item: fn(Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(items) => items.into_iter().map(item).collect(),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Line;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
                let mut keys = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if keys.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key `{key}` stands twice")));
                    }
                    keys.insert(key, value);
                }
                Ok(Line(keys))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// Whether a line begins a certificate.
pub(crate) fn is_header(text: &str) -> bool {
    text.contains("\"relax\"") && Line::read(text).is_ok_and(|line| line.has("relax"))
}
