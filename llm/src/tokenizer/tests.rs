//! Tokenizers agree with the packages of Hugging Face (`scripts/models/tokenizer_reference.py`), in both forms of a vocabulary.

use super::{Special, Tokenizer, TokenizerError, Vocabulary};
use serde_json::Value;

/// Tokenizers that GGUF files have too.
const NAMES: [&str; 4] = ["bytes", "bytes_llama", "bytes_qwen", "pieces"];

#[test]
fn unigram_agrees_with_the_package() {
    for name in ["unigram", "unigram_bytes"] {
        assert_agrees(name, &tokenizer(name));
    }
}

fn file(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/llm/tokenizers");
    std::fs::read(format!("{folder}/{name}.json")).expect("the corpus has it")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&file(name)).expect("it is JSON")
}

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::from_json(&file(name)).expect("it is supported")
}

/// The vocabulary as a GGUF file would have it. `pieces` has scores instead of merges.
fn vocabulary(name: &str) -> Vocabulary {
    let json = json(name);
    let is_pieces = name == "pieces";
    let mut typed: Vec<(u64, String, i32)> = Vec::new();
    for (token, id) in json["model"]["vocab"].as_object().expect("an object") {
        let is_byte = is_pieces && token.starts_with("<0x");
        typed.push((id.as_u64().expect("an id"), token.clone(), if is_byte { 6 } else { 1 }));
    }
    typed.sort();
    for added in json["added_tokens"].as_array().expect("a list") {
        let id = usize::try_from(added["id"].as_u64().expect("an id")).expect("it is small");
        typed[id].2 = if added["special"] == true { 3 } else { 4 };
    }
    let merges = json["model"]["merges"].as_array().expect("a list").iter();
    let merges = merges.map(|merge| {
        format!("{} {}", merge[0].as_str().expect("a token"), merge[1].as_str().expect("a token"))
    });
    let pre = match name {
        "bytes" => "gpt-2",
        "bytes_llama" => "llama-bpe",
        _ => "qwen2",
    };
    if is_pieces {
        typed[0].2 = 2;
    }
    let scores = (0_u16..).zip(&typed).map(|(id, _)| -f32::from(id));
    Vocabulary {
        model: if is_pieces { "llama" } else { "gpt2" }.to_owned(),
        pre: (!is_pieces).then(|| pre.to_owned()),
        scores: if is_pieces { scores.collect() } else { Vec::new() },
        merges: if is_pieces { Vec::new() } else { merges.collect() },
        token_types: typed.iter().map(|(_, _, kind)| *kind).collect(),
        tokens: typed.into_iter().map(|(_, token, _)| token).collect(),
        bos: Some(1),
        ..Vocabulary::default()
    }
}

/// A text, its ids in both ways, and the decoded text.
struct Case {
    text: String,
    parsed: Vec<u32>,
    plain: Vec<u32>,
    decoded: String,
}

fn ids(value: &Value) -> Vec<u32> {
    let ids = value.as_array().expect("a list").iter();
    ids.map(|id| u32::try_from(id.as_u64().expect("an id")).expect("it is small")).collect()
}

fn cases(name: &str) -> Vec<Case> {
    let all = json("texts");
    let texts = all["texts"].as_array().expect("a list");
    assert_eq!(texts.len(), 500);
    let case = |(place, text): (usize, &Value)| {
        let at = |list: &str| Some(&all[name][list][place]).filter(|value| !value.is_null());
        let text = text.as_str().expect("a text").to_owned();
        let parsed = ids(&all[name]["parsed"][place]);
        Case {
            plain: at("plain").map_or_else(|| parsed.clone(), ids),
            decoded: at("decoded")
                .map_or(text.as_str(), |text| text.as_str().expect("a text"))
                .to_owned(),
            text,
            parsed,
        }
    };
    texts.iter().enumerate().map(case).collect()
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = tokenizer.stream();
    let texts: Vec<String> =
        ids.iter().map(|id| stream.push(*id).expect("it is a token")).collect();
    texts.concat() + &stream.finish()
}

fn assert_agrees(name: &str, tokenizer: &Tokenizer) {
    let mut plain = 0;
    for Case { text, parsed, plain: want, decoded } in cases(name) {
        let encode = |special| tokenizer.encode(&text, special).expect("it is short");
        assert_eq!(encode(Special::Parse), parsed, "{name}: {text:?}");
        assert_eq!(encode(Special::Plain), want, "{name}: {text:?}");
        assert_eq!(tokenizer.decode(&parsed).as_ref(), Ok(&decoded), "{name}: {text:?}");
        assert_eq!(streamed(tokenizer, &parsed), decoded, "{name}: {text:?}");
        plain += usize::from(parsed != want);
    }
    assert!(plain >= 20, "{name}: {plain} texts have special tokens");
}

#[test]
fn tokenizers_agree_with_the_reference() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        assert_agrees(name, &tokenizer);
        assert_eq!(tokenizer.size(), 400, "{name}");
    }
}

#[test]
fn vocabularies_of_gguf_are_the_same_tokenizers() {
    for name in NAMES {
        let tokenizer = Tokenizer::from_vocabulary(&vocabulary(name)).expect("it is supported");
        assert_agrees(name, &tokenizer);
    }
}

#[test]
fn plain_text_survives() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for Case { text, .. } in cases(name) {
            // Qwen normalizes. SentencePiece reads `▁` as a space, and adds one after each added token.
            let is_changed = text.contains('▁') || text.contains("<think>");
            if name == "bytes_qwen" || (name == "pieces" && is_changed) {
                continue;
            }
            let ids = tokenizer.encode(&text, Special::Plain).expect("it is short");
            assert_eq!(tokenizer.decode(&ids).as_ref(), Ok(&text), "{name}");
        }
    }
}

/// Streams of any tokens, most of them no text, are decoded as by the standard library, and never too late.
#[test]
fn streams_replace_what_is_no_text() {
    let tokenizer = tokenizer("bytes");
    let mut state = 7_u64;
    for _ in 0..2_000 {
        let mut ids = Vec::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Ids below are special; most of the others are single bytes.
            ids.push(5 + u32::try_from(state >> 40).expect("24 bits") % 270);
        }
        let text = tokenizer.decode(&ids).expect("they are tokens");
        assert_eq!(streamed(&tokenizer, &ids), text);
        let reference = tokenizer.inner.decode(&ids, true).expect("they are tokens");
        assert_eq!(text, reference);
    }
}

#[test]
fn characters_are_emitted_whole_and_at_once() {
    let tokenizer = tokenizer("pieces");
    let ids: Vec<u32> = "<0xF0> <0x9F> <0x98> <0x80> <0xC3> a <0xA9> <0xE2> <0x82>"
        .split(' ')
        .map(|token| tokenizer.token_id(token).expect("it is a token"))
        .collect();
    let mut stream = tokenizer.stream();
    let texts: Vec<String> = ids.iter().map(|id| stream.push(*id).expect("a token")).collect();
    assert_eq!(texts, ["", "", "", "😀", "", "\u{fffd}a", "\u{fffd}", "", ""]);
    assert_eq!(stream.finish(), "\u{fffd}");
}

/// The package replaces all bytes of such tokens one after the other, or none. Streams and GGUF files do not wait for the last.
#[test]
fn bytes_that_are_no_text_are_replaced_together() {
    let unigram = tokenizer("unigram_bytes");
    let pieces = Tokenizer::from_vocabulary(&vocabulary("pieces")).expect("it is supported");
    for (tokenizer, want) in [(&unigram, "\u{fffd}\u{fffd}\u{fffd}en"), (&pieces, "\u{fffd}éen")] {
        let ids = ["<0xB4>", "<s>", "<0xC3>", "<0xA9>", "en"];
        let ids = ids.map(|token| tokenizer.token_id(token).expect("it is a token"));
        assert_eq!(tokenizer.decode(&ids).as_deref(), Ok(want));
        assert_eq!(streamed(tokenizer, &ids), "\u{fffd}éen");
    }
    let ids = unigram.encode("Ľ<0xB7> &<0x90>", Special::Plain).expect("it is short");
    let text = unigram.decode(&ids).expect("they are tokens");
    assert_eq!(text, "\u{fffd}\u{fffd}\u{fffd} \u{fffd}\u{fffd}");
}

/// Ids of llama.cpp (`bench/llm/tokenization.py`).
#[test]
fn vocabularies_without_a_rule_split_as_llama_cpp_does() {
    for pre in [None, Some("default".to_owned())] {
        let vocabulary = Vocabulary { pre, ..vocabulary("bytes") };
        let tokenizer = Tokenizer::from_vocabulary(&vocabulary).expect("it is supported");
        for (text, ids) in [
            (" \"", &[225, 6][..]),
            ("  ]", &[344, 65]),
            (" 4", &[225, 24]),
            ("'t", &[11, 88]),
            ("7255", &[27, 22, 25, 25]),
        ] {
            assert_eq!(tokenizer.encode(text, Special::Plain).as_deref(), Ok(ids), "{text}");
        }
    }
}

#[test]
fn a_continuation_keeps_its_space() {
    let tokenizer = tokenizer("pieces");
    let ids = tokenizer.encode("the model the model", Special::Parse).expect("it is short");
    let (prompt, rest) = ids.split_at(ids.len() / 2);
    let mut stream = tokenizer.stream();
    stream.skip(prompt).expect("they are tokens");
    let mut text = tokenizer.decode(prompt).expect("they are tokens");
    for id in rest {
        text += &stream.push(*id).expect("it is a token");
    }
    assert_eq!(text + &stream.finish(), "the model the model");
}

#[test]
fn templates_add_no_begin_token() {
    for tokenizer in [
        tokenizer("pieces"),
        Tokenizer::from_vocabulary(&vocabulary("bytes_llama")).expect("supported"),
    ] {
        let ids = |text, special| tokenizer.encode(text, special).expect("it is short");
        assert_eq!(ids("<s>a", Special::Template), ids("a", Special::Parse));
        assert!(tokenizer.is_special(1) && tokenizer.spelling(1).as_deref() == Some("<s>"));
    }
}

#[test]
fn ends_are_those_of_the_vocabulary() {
    let encode = |vocabulary: &Vocabulary| {
        let tokenizer = Tokenizer::from_vocabulary(vocabulary).expect("it is supported");
        tokenizer.encode("", Special::Parse).expect("it is short")
    };
    let pieces = vocabulary("pieces");
    assert_eq!(encode(&pieces), [1]);
    let both = Vocabulary { add_eos: Some(true), eos: Some(2), ..pieces.clone() };
    assert_eq!(encode(&both), [1, 2]);
    assert!(encode(&Vocabulary { add_bos: Some(false), ..pieces }).is_empty());
    assert!(encode(&vocabulary("bytes")).is_empty());
}

#[test]
fn heads_have_a_row_for_each_token() {
    let tokenizer = tokenizer("bytes");
    assert_eq!(tokenizer.check_size(400), Ok(()));
    assert_eq!(tokenizer.check_size(512), Ok(()));
    let error = tokenizer.check_size(399).expect_err("one row is missing");
    assert_eq!(error, TokenizerError::Size { tokenizer: 400, model: 399 });
}

#[test]
fn ids_without_tokens_are_errors() {
    let tokenizer = tokenizer("bytes");
    let error = tokenizer.decode(&[7, 400]).expect_err("the vocabulary has 400 tokens").to_string();
    assert_eq!(error, "token id 400 is no token of the vocabulary, whose ids end before 400");
    assert!(tokenizer.decode(&[u32::MAX]).is_err());
}
