//! Damaged and contradictory vocabularies end with an error that names the place.

use super::{Special, Tokenizer, TokenizerError, Vocabulary, VocabularyMetadata};
use crate::metadata::Metadata;
use serde_json::{Value, json};

/// Byte-level BPE: the byte alphabet, `ab`, and a special token.
fn document() -> Value {
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..=u8::MAX {
        let character = super::decoding::spelled_character(byte);
        vocabulary.insert(character.to_string(), byte.into());
    }
    vocabulary.insert("ab".to_owned(), 256.into());
    json!({
        "added_tokens": [{
            "id": 257, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false
        }],
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        },
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]] },
    })
}

fn refusal(document: &str) -> String {
    Tokenizer::from_json(document.as_bytes()).expect_err("it is refused").to_string()
}

/// The error of the document with one value replaced.
fn changed(pointer: &str, value: Value) -> String {
    let mut document = document();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = document.pointer_mut(parent).expect("the document has the parent");
    match parent {
        Value::Array(list) => list[key.parse::<usize>().expect("a place")] = value,
        parent => parent[key] = value,
    }
    refusal(&document.to_string())
}

#[test]
fn the_document_itself_is_accepted() {
    let tokenizer = Tokenizer::from_json(document().to_string().as_bytes()).expect("supported");
    assert_eq!(tokenizer.encode("ab<s>", Special::Parse), Ok(vec![256, 257]));
    assert_eq!(tokenizer.decode(&[256, 257]).as_deref(), Ok("ab"));
}

#[test]
fn vocabularies_of_unigram_are_checked() {
    let with = |key: &str, value: Value| {
        let mut document = document();
        document["model"] =
            json!({ "type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5]] });
        document["added_tokens"] = json!([]);
        document["model"][key] = value;
        Tokenizer::from_json(document.to_string().as_bytes()).map_err(|error| error.to_string())
    };
    let tokenizer = with("type", json!("Unigram")).expect("it is supported");
    assert_eq!(tokenizer.encode("aa", Special::Plain), Ok(vec![1, 1]));
    for (key, value, words) in [
        ("unk_id", json!(2), "the unk_id \"2\""),
        ("unk_id", json!(null), "lacks \"<unk>\", the token of unknown characters"),
        ("alpha", json!(0.1), "the alpha \"0.1\""),
        ("vocab", json!([]), "the vocabulary has no tokens"),
        ("vocab", json!([["a", 0.0], ["a", 0.0]]), "twice"),
        ("vocab", json!([["a", "b"]]), "expected f64"),
        ("vocab", json!({ "a": 0 }), "a list of tokens with scores"),
        ("type", json!("BPE"), "an object from token to id"),
    ] {
        let why = with(key, value.clone()).err().unwrap_or_else(|| panic!("{key}: {value}"));
        assert!(why.contains(words), "{key} {value}: {why}");
    }
}

#[test]
fn documents_are_refused_by_their_part() {
    let added = |id: u32, content: &str| {
        json!([{ "id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false }])
    };
    let template = json!({ "type": "TemplateProcessing", "pair": [],
        "single": [{ "SpecialToken": { "id": "<x>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "special_tokens": { "<x>": { "id": "<x>", "ids": [900], "tokens": ["<x>"] } } });
    let mut unknown = template.clone();
    unknown["special_tokens"] = json!({});
    let cases = [
        ("/model/type", json!("WordPiece"), "the model \"WordPiece\", which is not supported"),
        ("/model/type", json!("Unigram"), "a list of tokens with scores"),
        ("/model/dropout", json!(0.1), "the dropout \"0.1\""),
        ("/model/end_of_word_suffix", json!("</w>"), "the end_of_word_suffix \"</w>\""),
        ("/model/unk_token", json!("<unk>"), "lacks \"<unk>\", the token of unknown characters"),
        ("/model/vocab", json!({}), "the vocabulary has no tokens"),
        ("/model/vocab", json!({ "a": 0, "b": 1, "ab": 2 }), "lacks \"Ā\", the token of a byte"),
        ("/model/vocab/ab", json!(97), "has the id 97 twice, for the tokens"),
        ("/model/vocab/ab", json!(4_000_000_000_u32), "the id \"4000000000\""),
        ("/model/merges", json!([["a", "b"], ["ab", "ab"]]), "merge 1 names \"abab\""),
        ("/model/merges", json!([["x y", "b"]]), "merge 0 names \"x y\""),
        ("/model/merges", json!(["a b", "a"]), "merge 1 is \"a\": expected two tokens"),
        ("/model/merges", json!(["a b c"]), "merge 0 is \"a b c\""),
        ("/added_tokens", added(300, "ab"), "\"ab\" has the id 300, but 256 in the vocabulary"),
        ("/added_tokens", added(300, "<s>"), "\"<s>\" has the id 300, but 257 in the vocabulary"),
        ("/added_tokens", added(5, "<s>"), "has the id 5 twice"),
        ("/added_tokens", added(257, ""), "at least one character"),
        ("/decoder", json!(null), "the decoder \"\", which is not supported"),
        ("/decoder", json!({ "type": "WordPiece" }), "the decoder \"WordPiece\""),
        ("/normalizer", json!({ "type": "Precompiled" }), "the normalizer \"Precompiled\""),
        ("/pre_tokenizer", json!({ "type": "BertPreTokenizer" }), "\"BertPreTokenizer\""),
        ("/post_processor", json!({ "type": "RobertaProcessing" }), "\"RobertaProcessing\""),
        ("/post_processor", template, "the begin or end token 900 is no token"),
        ("/post_processor", unknown, "special tokens around the text, each with its ids"),
    ];
    for (pointer, value, part) in cases {
        let error = changed(pointer, value);
        assert!(error.contains(part), "{pointer}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn other_files_are_no_tokenizers() {
    for bytes in ["", "[]", "{}", "{\"model\": 3}", "\u{feff}{}"] {
        let error = refusal(bytes);
        assert!(error.starts_with("this is no tokenizer.json: "), "{error}");
    }
    assert!(Tokenizer::from_json(&[0xff, 0xfe]).is_err());
    let nested = "[".repeat(100_000);
    assert!(refusal(&format!("{{\"decoder\": {nested}")).contains("recursion limit"));
    let twice = document().to_string().replace("\"ab\":256", "\"ab\":256,\"ab\":256");
    assert!(refusal(&twice).contains("has the token \"ab\" twice"), "{}", refusal(&twice));
}

/// SentencePiece of seven tokens.
fn pieces() -> Vocabulary {
    let tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", "▁"];
    Vocabulary {
        model: "llama".to_owned(),
        tokens: tokens.map(str::to_owned).to_vec(),
        scores: vec![0.0, 0.0, 0.0, -2.0, -3.0, -1.0, -4.0],
        token_types: vec![2, 3, 3, 1, 1, 1, 1],
        bos: Some(1),
        ..Vocabulary::default()
    }
}

#[test]
fn vocabularies_are_refused_by_their_list() {
    let ok = Tokenizer::from_vocabulary(&pieces()).expect("it is supported");
    assert_eq!(ok.encode("abçç", Special::Parse), Ok(vec![1, 6, 5, 0]));
    let bytes = || Vocabulary { model: "gpt2".to_owned(), ..pieces() };
    let twice = ["<unk>", "a", "a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    let cases = [
        (Vocabulary { model: "bert".to_owned(), ..pieces() }, "the model \"bert\""),
        (Vocabulary { tokens: Vec::new(), ..pieces() }, "the vocabulary has no tokens"),
        (Vocabulary { scores: vec![0.0; 6], ..pieces() }, "`tokenizer.ggml.scores` has 6 elements"),
        (Vocabulary { token_types: vec![1; 8], ..pieces() }, "one for each of the 7 tokens"),
        (Vocabulary { token_types: vec![7; 7], ..pieces() }, "token 0 has the type 7"),
        (Vocabulary { scores: vec![f32::NAN; 7], ..pieces() }, "token 0 has the score NaN"),
        (Vocabulary { tokens: twice, ..pieces() }, "the token \"a\" twice, with the ids 1 and 2"),
        (Vocabulary { unknown: Some(7), ..pieces() }, "the unknown token 7 is no token"),
        (Vocabulary { bos: Some(9), ..pieces() }, "the begin token 9 is no token"),
        (Vocabulary { bos: None, ..pieces() }, "lacks \"bos_token_id\""),
        (Vocabulary { add_eos: Some(true), ..pieces() }, "lacks \"eos_token_id\""),
        (Vocabulary { token_types: vec![3, 3, 3, 1, 1, 1, 1], ..pieces() }, "lacks \"<unk>\""),
        (Vocabulary { merges: vec!["a c".to_owned()], ..bytes() }, "merge 0 names \"c\""),
        (Vocabulary { merges: vec!["ab".to_owned()], ..bytes() }, "merge 0 is \"ab\""),
        (Vocabulary { pre: Some("tekken".to_owned()), ..bytes() }, "tokenizer.ggml.pre \"tekken\""),
    ];
    for (vocabulary, part) in cases {
        let error = Tokenizer::from_vocabulary(&vocabulary).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}, expected {part}");
    }
    let long = Vocabulary {
        tokens: ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec(),
        ..pieces()
    };
    let mut long = Vocabulary { token_types: vec![1; 7], ..long };
    long.tokens.push("x".repeat(513));
    let error = Tokenizer::from_vocabulary(&long).expect_err("refused").to_string();
    assert!(error.contains("token 6 has the length 513 bytes"), "{error}");
}

/// Files of Gemma store runs of spaces as user-defined tokens, some spelled with `▁`.
#[test]
fn user_defined_spaces_are_found_in_texts() {
    for spelling in ["▁▁", "  "] {
        let mut vocabulary = Vocabulary { add_space_prefix: Some(false), ..pieces() };
        vocabulary.tokens.push(spelling.to_owned());
        vocabulary.scores.push(0.0);
        vocabulary.token_types.push(4);
        let tokenizer = Tokenizer::from_vocabulary(&vocabulary).expect("it is supported");
        assert_eq!(tokenizer.encode("a   b", Special::Plain), Ok(vec![1, 3, 7, 6, 4]));
        assert_eq!(tokenizer.decode(&[3, 7, 6, 4]).as_deref(), Ok("a   b"));
    }
}

/// Metadata of one kind of each value.
struct Fields(Value);

impl Metadata for Fields {
    fn keys(&self) -> Vec<String> {
        self.0.as_object().expect("an object").keys().cloned().collect()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0[key].as_f64()
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0[key].as_str().map(str::to_owned)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.0[key].as_bool()
    }

    fn texts(&self, key: &str) -> Option<Vec<String>> {
        self.0[key].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    }

    fn length(&self, key: &str) -> Option<usize> {
        self.0[key].as_array().map(Vec::len)
    }
}

impl VocabularyMetadata for Fields {
    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.0[key].as_array()?.iter().map(Value::as_f64).collect()
    }
}

#[test]
fn metadata_are_read_by_their_keys() {
    let vocabulary = pieces();
    let fields = json!({
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": vocabulary.tokens,
        "tokenizer.ggml.scores": vocabulary.scores,
        "tokenizer.ggml.token_type": vocabulary.token_types,
        "tokenizer.ggml.bos_token_id": 1,
    });
    assert_eq!(Vocabulary::from_metadata(&Fields(fields.clone())), Ok(vocabulary));
    let cases = [
        ("model", Value::Null, "`tokenizer.ggml.model` = another value"),
        ("tokens", json!([1]), "a list of strings"),
        ("scores", json!(["x"]), "a list of numbers"),
        ("bos_token_id", json!(-1), "a token id"),
        ("bos_token_id", json!(1.5), "a token id"),
        ("add_bos_token", json!(1), "true or false"),
    ];
    for (key, value, part) in cases {
        let mut fields = fields.clone();
        fields[format!("tokenizer.ggml.{key}")] = value;
        let error = Vocabulary::from_metadata(&Fields(fields)).expect_err("refused").to_string();
        assert!(error.contains(part), "{key}: {error}");
    }
    let error = Vocabulary::from_metadata(&Fields(json!({}))).expect_err("refused").to_string();
    assert!(error.contains("lacks `tokenizer.ggml.model`"), "{error}");
}

#[test]
fn long_texts_are_errors() {
    let tokenizer = Tokenizer::from_vocabulary(&pieces()).expect("it is supported");
    let text = "a".repeat((1 << 24) + 1);
    let error = TokenizerError::TextLength { found: text.len(), most: 1 << 24 };
    assert_eq!(tokenizer.encode(&text, Special::Plain), Err(error));
}
