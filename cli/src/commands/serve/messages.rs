//! Messages of a conversation: texts and images with a role. Parts of other kinds are refused by their place.

use super::fields::Fields;
use super::refusal::Refusal;
use crate::commands::generate::{Pixels, Vision};
use relax_llm::{Content, Message, Part};
use serde_json::Value;

/// Where images of messages go.
pub(super) struct Images<'a> {
    /// `None` for a model of text.
    pub(super) vision: Option<&'a Vision>,
    pub(super) pixels: &'a mut Pixels,
    /// Positions of a sequence at most.
    pub(super) context: usize,
}

pub(super) fn messages(
    fields: &mut Fields,
    images: &mut Images<'_>,
) -> Result<Vec<Message>, Refusal> {
    match fields.take("messages") {
        None => Err(Refusal::field("messages", "`messages` is missing")),
        Some(Value::Array(items)) if !items.is_empty() => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| message(item, &format!("messages[{at}]"), images)).collect()
        }
        Some(other) => Err(fields.wrong("messages", &other, "an array of at least one message")),
    }
}

fn message(value: Value, place: &str, images: &mut Images<'_>) -> Result<Message, Refusal> {
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
    let content = content(&mut fields, images)?;
    fields.unsupported(&[
        "name",
        "refusal",
        "audio",
        "tool_calls",
        "tool_call_id",
        "function_call",
    ])?;
    fields.end()?;
    Ok(Message { role, content })
}

/// A text, or an array of parts; one text where there are no images.
fn content(fields: &mut Fields, images: &mut Images<'_>) -> Result<Content, Refusal> {
    let kinds = if images.vision.is_some() { "`text` or `image_url`" } else { "`text`" };
    let value = match fields.take("content") {
        Some(Value::String(text)) => return Ok(Content::Text(text)),
        Some(Value::Array(parts)) => parts,
        other => {
            let expected = format!("a string, or an array of parts of the type {kinds}");
            return Err(fields.wrong("content", &other.unwrap_or_default(), &expected));
        }
    };
    let (mut parts, mut whole) = (Vec::new(), String::new());
    for (at, part) in value.into_iter().enumerate() {
        let mut part = Fields::within(part, &fields.place(&format!("content[{at}]")))?;
        let kind = part.text("type")?;
        match (kind.as_deref(), images.vision) {
            (Some("text"), _) => {
                let text = part.text("text")?.unwrap_or_default();
                whole += &text;
                parts.push(Part::Text { text });
            }
            (Some("image_url"), Some(vision)) => {
                image(&mut part, vision, images)?;
                parts.push(Part::Image);
            }
            _ => {
                let found = kind.map_or(Value::Null, Value::String);
                return Err(part.wrong("type", &found, kinds));
            }
        }
        part.end()?;
    }
    let has_images = parts.iter().any(|part| matches!(part, Part::Image));
    Ok(if has_images { Content::Parts(parts) } else { Content::Text(whole) })
}

/// Decodes the image of a data URL.
fn image(part: &mut Fields, vision: &Vision, images: &mut Images<'_>) -> Result<(), Refusal> {
    let value = part.take("image_url").unwrap_or_default();
    let mut fields = Fields::within(value, &part.place("image_url"))?;
    let place = fields.place("url");
    let refused = |why: String| Refusal::field(place.clone(), format!("`{place}`: {why}"));
    let url = fields.text("url")?.unwrap_or_default();
    // There is one size of images.
    fields.take("detail");
    fields.end()?;
    let data = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
    let Some((_, data)) = data else {
        let expected = "expected `data:image/png;base64,...`, as the server fetches nothing";
        return Err(refused(expected.to_owned()));
    };
    let rows = vision.rows();
    if (images.pixels.images + 1).saturating_mul(rows) >= images.context {
        let context = images.context;
        return Err(refused(format!(
            "an image has {rows} positions, and a sequence {context} at most"
        )));
    }
    let bytes = base64::decode(data).map_err(|why| refused(format!("it is no base64: {why}")))?;
    vision.add_of_request(&bytes, images.pixels).map_err(refused)
}
