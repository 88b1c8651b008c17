//! Answers that keep to a form: JSON, by a schema or by none.

use super::{Model, answer, asked};
use serde_json::{Value, json};
use std::fs;

/// The tokens of some letters become those of JSON.
fn with_json(model: &Model) {
    let path = model.path().join("tokenizer.json");
    let text = fs::read_to_string(&path).expect("it is there");
    let mut tokenizer: Value = serde_json::from_str(&text).expect("it is JSON");
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("an object");
    for (letter, other) in [("B", "{"), ("C", "}"), ("D", "\""), ("E", ":"), ("F", ","), ("G", "-")]
    {
        let id = vocabulary.remove(letter).expect("it is a token");
        vocabulary.insert(other.to_owned(), id);
    }
    fs::write(&path, tokenizer.to_string()).expect("it is written");
}

fn form(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "form", "strict": true, "schema": schema } })
}

#[test]
fn answers_keep_to_the_schema_of_a_request() {
    let Some(model) = Model::new() else { return };
    with_json(&model);
    let server = model.serve(&[]);
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["a", "b"],
        "properties": { "a": { "enum": ["x", "yz"] }, "b": { "type": "integer", "minimum": 0, "maximum": 11 } } });
    let mut body = asked("A", 0, 200);
    body["response_format"] = form(&schema);
    let mut whole = 0;
    for seed in 0..8 {
        body["seed"] = json!(seed);
        let choice = server.post("/v1/completions", &body).json()["choices"][0].clone();
        if choice["finish_reason"] != "stop" {
            // Spaces between parts have no end.
            continue;
        }
        whole += 1;
        let text = choice["text"].as_str().expect("a text");
        let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text:?}"));
        let object = value.as_object().expect("an object");
        assert!(object.len() == 2 && [json!("x"), json!("yz")].contains(&object["a"]), "{text}");
        assert!(object["b"].as_u64().is_some_and(|number| number <= 11), "{text}");
    }
    assert!(whole > 3, "{whole} of 8 texts ended");
    // Two choices have forms of their own, and another sequence has none.
    let free = server.post("/v1/completions", &asked("A", 3, 12)).json();
    body["n"] = json!(2);
    let both = server.post("/v1/completions", &body);
    assert_eq!(both.status, 200, "{}", both.body);
    assert_eq!(
        server.post("/v1/completions", &asked("A", 3, 12)).json()["choices"],
        free["choices"]
    );
    body["response_format"] = json!({ "type": "json_object" });
    body["n"] = json!(1);
    for seed in 0..4 {
        body["seed"] = json!(seed);
        let choice = server.post("/v1/completions", &body).json()["choices"][0].clone();
        let text = choice["text"].as_str().expect("a text");
        assert!(text.trim_start().starts_with('{') || text.trim().is_empty(), "{text:?}");
    }
    for (format, param, words) in [
        (json!({ "type": "xml" }), "response_format.type", "json_schema"),
        (json!({ "type": "json_schema" }), "response_format.json_schema", "an object"),
        (
            json!({ "type": "json_schema", "json_schema": { "name": "a" } }),
            "response_format.json_schema.schema",
            "missing",
        ),
        (form(&json!({ "type": "nothing" })), "response_format", "nothing"),
        (form(&json!({ "type": "string", "pattern": "(" })), "response_format", "grammar"),
    ] {
        body["response_format"] = format;
        let refused = answer(server.send("POST", "/v1/completions", "", &body.to_string()));
        assert_eq!(refused.status, 400, "{}", refused.body);
        let error = &refused.json()["error"];
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{error}");
    }
}
