//! Texts that keep to a form.

use super::{Folder, errors, letters, model};
use std::fs;

#[test]
fn texts_keep_to_a_grammar() {
    let Some(folder) = Folder::new() else { return };
    let copy = folder.path().join("model");
    fs::create_dir(&copy).expect("it is made");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model("llama").join(file), copy.join(file)).expect("it is copied");
    }
    fs::write(copy.join("tokenizer.json"), letters().to_string()).expect("it is written");
    let file = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it is written");
    };
    let with = |grammar: &str, more: &[&str]| {
        let arguments = ["-q", "--prompt", "DBE", "--max-tokens", "20", "--grammar", grammar];
        let output = folder.generate(&copy, &[arguments.as_slice(), more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("it is UTF-8").trim_end().to_owned()
    };
    file("three.regex", "[a-c]{3}Z\n");
    for seed in ["1", "2", "3"] {
        let text = with("three.regex", &["--temperature", "2", "--seed", seed]);
        let head = text.strip_suffix('Z').expect("it ends so");
        assert!(head.len() == 3 && head.chars().all(|one| "abc".contains(one)), "{text}");
    }
    file("pairs.lark", "start: pair+ \"Q\"\npair: \"X\" pair? \"Y\"\n");
    let mut whole = 0;
    for seed in 0..6 {
        let text = with("pairs.lark", &["--temperature", "3", "--seed", &seed.to_string()]);
        let mut depth = 0_i32;
        for letter in text.chars() {
            depth += match letter {
                'X' => 1,
                'Y' => -1,
                'Q' => 0,
                other => panic!("{other} in {text}"),
            };
            assert!(depth >= 0, "{text}");
        }
        whole += i32::from(text.ends_with('Q'));
        assert!(text.len() == 20 || (text.ends_with('Q') && depth == 0), "{text}");
    }
    assert!(whole > 0, "no text is whole");
    let objects = folder.objects(&copy, &["--prompt", "D", "--grammar", "three.regex"]);
    assert_eq!(objects.last().expect("an end")["reason"], "form");
    let refused = |grammar: &str, words: &str| {
        folder.refused(&copy, &["--prompt", "D", "--grammar", grammar], 2, words);
    };
    file("wrong.lark", "start: x\n");
    refused("wrong.lark", "wrong.lark: the grammar: at 1(8): unknown name");
    refused("none.lark", "cannot read it");
    file("wrong.json", "{");
    refused("wrong.json", "wrong.json: EOF");
    file("schema.json", "{\"type\": 3}");
    refused("schema.json", "the grammar: ");
    file("a.gbnf", "root ::= \"a\"");
    refused("a.gbnf", "neither in .lark");
    file("digits.regex", "[0-9]+");
    // Letters do not spell it.
    let output = folder.generate(&copy, &["--prompt", "D", "--grammar", "digits.regex"]);
    assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
    assert!(errors(&output).contains("no token of the vocabulary"), "{}", errors(&output));
}
