//! The steps of `tokenizer.json` around the model: which are supported, and what they mean for decoding and for begin and end.

use crate::tokenizer::decoding::{Decoding, LeadingSpace, Spelling};
use crate::tokenizer::document::unsupported;
use crate::tokenizer::error::TokenizerError;
use serde_json::Value;

/// Tokens before and after each text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

const NORMALIZERS: &[&str] =
    &["Sequence", "Prepend", "Replace", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip"];
const PRE_TOKENIZERS: &[&str] = &[
    "Sequence",
    "ByteLevel",
    "Split",
    "Metaspace",
    "Digits",
    "Punctuation",
    "Whitespace",
    "WhitespaceSplit",
];

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// The steps of a sequence, or the one step.
fn steps<'v>(step: &'v Value, list: &str) -> Vec<&'v Value> {
    match step[list].as_array() {
        Some(steps) if kind(step) == "Sequence" => {
            steps.iter().flat_map(|step| self::steps(step, list)).collect()
        }
        _ => vec![step],
    }
}

/// Refuses normalizers and pre-tokenizers of other types.
pub(super) fn check_steps(
    normalizer: Option<&Value>,
    pre_tokenizer: Option<&Value>,
) -> Result<(), TokenizerError> {
    for step in normalizer.iter().flat_map(|step| steps(step, "normalizers")) {
        if !NORMALIZERS.contains(&kind(step)) {
            let expected =
                "a Unicode normal form, Prepend, Replace, Lowercase, Strip or a sequence";
            return Err(unsupported("normalizer", kind(step).to_owned(), expected));
        }
    }
    for step in pre_tokenizer.iter().flat_map(|step| steps(step, "pretokenizers")) {
        if !PRE_TOKENIZERS.contains(&kind(step)) {
            let expected =
                "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace or a sequence";
            return Err(unsupported("pre_tokenizer", kind(step).to_owned(), expected));
        }
    }
    Ok(())
}

/// The meaning of the decoder's steps.
pub(super) fn decoding(decoder: Option<&Value>) -> Result<Decoding, TokenizerError> {
    let steps = decoder.map(|decoder| steps(decoder, "decoders")).unwrap_or_default();
    let kinds: Vec<&str> = steps.iter().map(|step| kind(step)).collect();
    let refused = || {
        let expected = "ByteLevel, Metaspace, or Replace of `▁` with ByteFallback, Fuse and Strip";
        unsupported("decoder", kinds.join(", "), expected)
    };
    if kinds == ["ByteLevel"] {
        return Ok(Decoding { spelling: Spelling::Bytes, space: LeadingSpace::Kept });
    }
    let Some((first, others)) = steps.split_first() else { return Err(refused()) };
    let mut decoding = Decoding { spelling: Spelling::Spaces, space: LeadingSpace::Kept };
    match kind(first) {
        "Replace" if first["pattern"]["String"] == "▁" && first["content"] == " " => {}
        "Metaspace" if first["replacement"] == "▁" => {
            if first["prepend_scheme"] != "never" {
                decoding.space = LeadingSpace::Removed;
            }
        }
        _ => return Err(refused()),
    }
    let mut is_fused = false;
    for step in others {
        match kind(step) {
            "ByteFallback" if !is_fused => decoding.spelling = Spelling::SpacesAndBytes,
            "Fuse" => is_fused = true,
            // Before tokens are fused, it would strip each of them.
            "Strip" if is_fused && decoding.space == LeadingSpace::Kept && is_one_space(step) => {
                decoding.space = LeadingSpace::Removed;
            }
            _ => return Err(refused()),
        }
    }
    Ok(decoding)
}

fn is_one_space(strip: &Value) -> bool {
    strip["content"] == " " && strip["start"] == 1 && strip["stop"] == 0
}

/// The tokens that post-processing adds to one text.
pub(super) fn ends(post_processor: Option<&Value>) -> Result<Ends, TokenizerError> {
    let mut ends = Ends::default();
    for step in post_processor.iter().flat_map(|step| steps(step, "processors")) {
        match kind(step) {
            // It changes offsets only.
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let template = template(step).ok_or_else(|| {
                    unsupported(
                        "post_processor",
                        step["single"].to_string(),
                        "special tokens around the text, each with its ids",
                    )
                })?;
                ends.before.splice(0..0, template.before);
                ends.after.extend(template.after);
            }
            other => {
                let expected = "TemplateProcessing, ByteLevel or a sequence of these";
                return Err(unsupported("post_processor", other.to_owned(), expected));
            }
        }
    }
    Ok(ends)
}

fn template(step: &Value) -> Option<Ends> {
    let mut ends = Ends::default();
    let mut is_after = false;
    for piece in step["single"].as_array()? {
        if let Some(token) = piece["SpecialToken"]["id"].as_str() {
            let ids = step["special_tokens"][token]["ids"].as_array()?;
            let ids = ids.iter().map(|id| u32::try_from(id.as_u64()?).ok());
            let ids: Vec<u32> = ids.collect::<Option<_>>()?;
            if is_after { &mut ends.after } else { &mut ends.before }.extend(ids);
        } else if piece["Sequence"]["id"] == "A" && !is_after {
            is_after = true;
        } else {
            return None;
        }
    }
    is_after.then_some(ends)
}
