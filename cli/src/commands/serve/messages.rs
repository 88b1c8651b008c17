//! Messages of a conversation: texts with a role. Parts of other kinds are refused by their place.

use super::fields::Fields;
use super::refusal::Refusal;
use relax_llm::{Content, Message};
use serde_json::Value;

pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Message>, Refusal> {
    match fields.take("messages") {
        None => Err(Refusal::field("messages", "`messages` is missing")),
        Some(Value::Array(items)) if !items.is_empty() => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| message(item, &format!("messages[{at}]"))).collect()
        }
        Some(other) => Err(fields.wrong("messages", &other, "an array of at least one message")),
    }
}

fn message(value: Value, place: &str) -> Result<Message, Refusal> {
    let mut fields = Fields::within(value, place)?;
    let role = fields.text("role")?;
    let role = match role.as_deref() {
        // The name of system messages for later models.
        Some("developer") => "system".to_owned(),
        Some(role @ ("system" | "user" | "assistant")) => role.to_owned(),
        _ => {
            let found = role.map_or(Value::Null, Value::String);
            let expected = "system, developer, user or assistant";
            return Err(fields.wrong("role", &found, expected));
        }
    };
    let content = content(&mut fields)?;
    fields.unsupported(&[
        "name",
        "refusal",
        "audio",
        "tool_calls",
        "tool_call_id",
        "function_call",
    ])?;
    fields.end()?;
    Ok(Message { role, content: Content::Text(content) })
}

/// A text, or an array of parts that are texts.
fn content(fields: &mut Fields) -> Result<String, Refusal> {
    let expected = "a string, or an array of parts of the type `text`";
    match fields.take("content") {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for (at, part) in parts.into_iter().enumerate() {
                let mut part = Fields::within(part, &fields.place(&format!("content[{at}]")))?;
                let kind = part.text("type")?;
                if kind.as_deref() != Some("text") {
                    let found = kind.map_or(Value::Null, Value::String);
                    return Err(part.wrong("type", &found, "`text`"));
                }
                text += &part.text("text")?.unwrap_or_default();
                part.end()?;
            }
            Ok(text)
        }
        other => Err(fields.wrong("content", &other.unwrap_or_default(), expected)),
    }
}
