//! Fields of a JSON object of a request. Each is taken once; those that are left are not known, and refused by name.

use super::refusal::Refusal;
use axum::http::StatusCode;
use serde_json::{Map, Value};

/// An object, and where it is in the request.
pub(super) struct Fields {
    map: Map<String, Value>,
    /// Such as `messages[2].`, before the names of its fields.
    place: String,
}

impl Fields {
    /// The body of a request.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| bad(format!("the body is not JSON: {error}")))?;
        match value {
            Value::Object(map) => Ok(Self { map, place: String::new() }),
            other => Err(bad(format!("the body is {}: expected an object", kind(&other)))),
        }
    }

    /// The fields of a form.
    pub(super) fn of(map: Map<String, Value>) -> Self {
        Self { map, place: String::new() }
    }

    /// A value within the request.
    pub(super) fn within(value: Value, place: &str) -> Result<Self, Refusal> {
        match value {
            Value::Object(map) => Ok(Self { map, place: format!("{place}.") }),
            other => {
                let words = format!("`{place}` is {}: expected an object", kind(&other));
                Err(Refusal::field(place, words))
            }
        }
    }

    pub(super) fn place(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// Refuses a field.
    pub(super) fn wrong(&self, name: &str, found: &Value, expected: &str) -> Refusal {
        let place = self.place(name);
        let words = format!("`{place}` is {}: expected {expected}", shown(found));
        Refusal::field(place, words)
    }

    /// `null` is as if the field were not there.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    fn taken<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(&value).map(Some).ok_or_else(|| self.wrong(name, &value, expected))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f32>, Refusal> {
        self.taken(name, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    /// A number without a fraction, in the range.
    pub(super) fn integer(
        &mut self,
        name: &str,
        (least, most): (u64, u64),
    ) -> Result<Option<u64>, Refusal> {
        let expected = format!("an integer from {least} to {most}");
        self.taken(name, &expected, |value| {
            value.as_u64().filter(|number| (least..=most).contains(number))
        })
    }

    /// A seed: an integer of 64 bits with or without sign.
    pub(super) fn seed(&mut self, name: &str) -> Result<Option<u64>, Refusal> {
        self.taken(name, "an integer of 64 bits", |value| {
            value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned))
        })
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        Ok(self.taken(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        self.taken(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// One text or several, none of them empty.
    pub(super) fn texts(&mut self, name: &str, most: usize) -> Result<Vec<String>, Refusal> {
        let expected = format!("a string, or an array of at most {most}, none of them empty");
        let one = |value: &Value| Some(value.as_str().filter(|text| !text.is_empty())?.to_owned());
        let read = |value: &Value| match value {
            Value::Array(items) if items.len() <= most => items.iter().map(one).collect(),
            other => Some(vec![one(other)?]),
        };
        Ok(self.taken(name, &expected, read)?.unwrap_or_default())
    }

    /// Refuses a field unless it asks for nothing.
    pub(super) fn unsupported(&mut self, names: &[&str]) -> Result<(), Refusal> {
        for name in names {
            let Some(value) = self.take(name) else { continue };
            let asks_nothing = match &value {
                Value::Bool(flag) => !flag,
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::String(text) => ["", "none", "auto", "default"].contains(&text.as_str()),
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::Null => true,
            };
            if !asks_nothing {
                let place = self.place(name);
                return Err(Refusal::field(place.clone(), format!("`{place}` is not supported")));
            }
        }
        Ok(())
    }

    /// Refuses what is left.
    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => {
                let place = self.place(&shortened(name));
                Err(Refusal::field(place.clone(), format!("`{place}` is no parameter")))
            }
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value in a message: scalars as they are.
fn shown(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", shortened(text)),
        other => kind(other).to_owned(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).expect("it is an object")
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
        result.expect_err("it is refused").message
    }

    #[test]
    fn every_mistake_names_its_field() {
        let mut wrong =
            fields(r#"{"a": "x", "b": 1.5, "c": 9, "d": [""], "e": {"f": 1}, "g": -1}"#);
        assert_eq!(message(wrong.number("a")), "`a` is \"x\": expected a number");
        let range = (0, 4);
        assert_eq!(
            message(wrong.integer("b", range)),
            "`b` is 1.5: expected an integer from 0 to 4"
        );
        assert_eq!(message(wrong.integer("c", range)), "`c` is 9: expected an integer from 0 to 4");
        assert!(message(wrong.texts("d", 4)).starts_with("`d` is an array"));
        assert_eq!(message(wrong.unsupported(&["e"])), "`e` is not supported");
        assert_eq!(wrong.seed("g"), Ok(Some(u64::MAX)));
        assert_eq!(wrong.end(), Ok(()));
        assert_eq!(message(fields(r#"{"tempratur": 1}"#).end()), "`tempratur` is no parameter");
        assert!(message(Fields::parse(b"[1]").map(|_| ())).contains("an array"));
        assert!(message(Fields::parse(b"{\"a\": \xff}").map(|_| ())).contains("not JSON"));
        let deep = "[".repeat(100_000);
        assert!(message(Fields::parse(deep.as_bytes()).map(|_| ())).contains("recursion limit"));
    }

    #[test]
    fn null_and_fields_that_ask_for_nothing_are_taken() {
        let mut fields = fields(r#"{"a": null, "b": 0, "c": {}, "d": "none", "e": false}"#);
        assert_eq!(fields.number("a"), Ok(None));
        assert_eq!(fields.unsupported(&["b", "c", "d", "e"]), Ok(()));
        assert_eq!(fields.end(), Ok(()));
    }
}
