//! Typed access to TOML tables: every value is read once, with its place for errors. Keys that were not read are unknown.

use relax_syntax::span::Span;
use relax_syntax::suggest::hint;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use toml_edit::{Item, TableLike, Value};

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// In the text of the configuration.
    pub span: Span,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What to do, where that is known.
    pub help: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub(crate) fn with_help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// As it was read.
    pub value: T,
    /// In the text of the configuration; of a default, that of the table.
    pub span: Span,
}

/// Values as they were understood, defaults included, by their path such as `optimizer.rate`.
pub type Settings = BTreeMap<String, String>;

/// Keys that are names of the program, with their values, in the order of the text.
pub(super) type Entries<T> = Vec<(Placed<String>, Placed<T>)>;

/// How a value is read: what is expected in words, and the reader.
pub(super) struct Kind<T>(pub(super) &'static str, pub(super) fn(&Value) -> Option<T>);

/// A table of which some keys were read.
pub(super) struct Fields<'d> {
    table: &'d dyn TableLike,
    path: &'static str,
    span: Span,
    asked: Vec<&'static str>,
    settings: Settings,
}

impl<'d> Fields<'d> {
    pub(super) fn new(table: &'d dyn TableLike, path: &'static str, span: Span) -> Self {
        Self { table, path, span, asked: Vec::new(), settings: Settings::new() }
    }

    /// The place of the table.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// A value; none where the key is missing.
    pub(super) fn optional<T: Debug>(
        &mut self,
        key: &'static str,
        kind: &Kind<T>,
    ) -> Result<Option<Placed<T>>, ConfigError> {
        self.asked.push(key);
        let Some(item) = self.table.get(key) else { return Ok(None) };
        let placed = read(&self.named(key), item, self.span, kind)?;
        self.settings.insert(self.named(key), format!("{:?}", placed.value));
        Ok(Some(placed))
    }

    /// A value that must be there.
    pub(super) fn required<T: Debug>(
        &mut self,
        key: &'static str,
        kind: &Kind<T>,
    ) -> Result<Placed<T>, ConfigError> {
        let found = self.optional(key, kind)?;
        found.ok_or_else(|| {
            let message = format!("`{}` is missing: {}", self.named(key), kind.0);
            ConfigError::new(self.span, message)
        })
    }

    /// A value, or its default.
    pub(super) fn or<T: Debug>(
        &mut self,
        key: &'static str,
        kind: &Kind<T>,
        default: T,
    ) -> Result<T, ConfigError> {
        let found = self.optional(key, kind)?;
        let value = found.map_or(default, |placed| placed.value);
        self.settings.insert(self.named(key), format!("{value:?}"));
        Ok(value)
    }

    /// A table below this one; its key is read then.
    pub(super) fn table(
        &mut self,
        key: &'static str,
    ) -> Result<Option<(&'d dyn TableLike, Span)>, ConfigError> {
        self.asked.push(key);
        let Some((found, item)) = self.table.get_key_value(key) else { return Ok(None) };
        let span = place(found.span(), self.span);
        let table = item.as_table_like().ok_or_else(|| {
            let message = format!("`{}` must be a table", self.named(key));
            ConfigError::new(place(item.span(), span), message)
        })?;
        Ok(Some((table, span)))
    }

    /// A table whose keys are names of the program, with their values.
    pub(super) fn entries<T: Debug>(
        &mut self,
        key: &'static str,
        kind: &Kind<T>,
    ) -> Result<Entries<T>, ConfigError> {
        let Some((table, span)) = self.table(key)? else { return Ok(Vec::new()) };
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let path = format!("{}.{name}", self.named(key));
            let found = table.get_key_value(name).and_then(|(key, _)| key.span());
            let value = read(&path, item, span, kind)?;
            // The first pattern that matches decides, so that the order is a part of the meaning.
            self.settings.insert(path, format!("{}, entry {}", shown(item), entries.len() + 1));
            entries.push((Placed { value: name.to_owned(), span: place(found, span) }, value));
        }
        Ok(entries)
    }

    /// What was read; an error for the first key that was not.
    pub(super) fn finish(self) -> Result<Settings, ConfigError> {
        let unknown = self.table.iter().find(|(key, _)| !self.asked.contains(key));
        let Some((key, item)) = unknown else { return Ok(self.settings) };
        let found = self.table.get_key_value(key).and_then(|(key, _)| key.span());
        let span = place(found.or_else(|| item.span()), self.span);
        let message = format!("`{}` is no key of a configuration", self.named(key));
        Err(ConfigError::new(span, message).with_help(hint(key, &self.asked)))
    }

    fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn read<T>(path: &str, item: &Item, at: Span, kind: &Kind<T>) -> Result<Placed<T>, ConfigError> {
    let span = place(item.span(), at);
    let value = item.as_value().and_then(kind.1);
    let value = value.ok_or_else(|| {
        ConfigError::new(span, format!("`{path}` must be {}, found {}", kind.0, shown(item)))
    })?;
    Ok(Placed { value, span })
}

fn shown(item: &Item) -> String {
    match item.as_value() {
        Some(Value::String(text)) => format!("{:?}", text.value()),
        Some(Value::Integer(number)) => number.value().to_string(),
        Some(Value::Float(number)) => number.value().to_string(),
        Some(Value::Boolean(flag)) => flag.value().to_string(),
        Some(Value::Array(array)) => format!("an array of {}", array.len()),
        Some(Value::Datetime(_)) => "a date".to_owned(),
        Some(Value::InlineTable(_)) | None => "a table".to_owned(),
    }
}

pub(super) fn place(range: Option<Range<usize>>, otherwise: Span) -> Span {
    range.map_or(otherwise, |range| Span::new(range.start, range.end))
}

pub(super) const TEXT: Kind<String> = Kind("a text", |value| value.as_str().map(str::to_owned));

pub(super) const FLAG: Kind<bool> = Kind("true or false", Value::as_bool);

pub(super) const COUNT: Kind<u64> = Kind("an integer of at least 1", count);

pub(super) const NATURAL: Kind<u64> =
    Kind("an integer of at least 0", |value| u64::try_from(value.as_integer()?).ok());

pub(super) const NUMBER: Kind<f64> = Kind("a finite number", number);

pub(super) const POSITIVE: Kind<f64> =
    Kind("a number above 0", |value| number(value).filter(|number| *number > 0.0));

pub(super) const NOT_NEGATIVE: Kind<f64> =
    Kind("a number of at least 0", |value| number(value).filter(|number| *number >= 0.0));

pub(super) const TEXTS: Kind<Vec<String>> = Kind("a text, or a list of texts", |value| {
    list(value, |value| value.as_str().map(str::to_owned))
});

pub(super) const COUNTS: Kind<Vec<u64>> =
    Kind("an integer of at least 1, or a list of such integers", |value| list(value, count));

fn count(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|number| u64::try_from(number).ok()).filter(|number| *number >= 1)
}

fn number(value: &Value) -> Option<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    number.filter(|number| number.is_finite())
}

/// One item, or an array that is not empty.
fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    let Some(array) = value.as_array() else { return read(value).map(|one| vec![one]) };
    let items: Option<Vec<T>> = array.iter().map(read).collect();
    items.filter(|items| !items.is_empty())
}
