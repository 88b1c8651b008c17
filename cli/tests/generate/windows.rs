//! Long speech, and texts with times: segments are those of transformers (`scripts/models/whisper_windows.py`).

use super::speech::{PLAIN, ask, speech_tokens, wav};
use super::{Folder, errors, model};
use relax_program::tensor_files::read_npz;
use relax_semantics::tensor::Tensor;
use serde_json::Value;
use std::fs;

/// The token of the time 0.
const BEGIN: i128 = 51;
/// Samples that the model takes at once.
const WINDOW: usize = 12 * 320;

/// A sound, and its segments: times in hundredths of a second, and words.
struct Sound {
    samples: Vec<f32>,
    segments: Vec<([i64; 2], Vec<i128>)>,
}

fn array(name: &str) -> Tensor {
    let bytes = fs::read(model("whisper").join("windows.npz")).expect("it is there");
    read_npz(&bytes, Some(name)).expect("it is an array")
}

fn hundredths(seconds: f64) -> i64 {
    (seconds * 100.0).round() as i64
}

fn sound(name: &str) -> Sound {
    let of = |part: &str| array(&format!("{name}.{part}"));
    let samples = of("samples").to_floats().iter().map(|sample| *sample as f32).collect();
    let tokens: Vec<i128> = of("tokens").to_ints().iter().copied().collect();
    let times = of("times").to_floats();
    let (mut segments, mut start) = (Vec::new(), 0);
    for (at, length) in of("lengths").to_ints().iter().enumerate() {
        let end = start + usize::try_from(*length).expect("it is small");
        let words = tokens[start..end].iter().copied().filter(|token| *token < BEGIN);
        segments.push(([0, 1].map(|side| hundredths(times[[at, side]])), words.collect()));
        start = end;
    }
    Sound { samples, segments }
}

fn segments(objects: &[Value]) -> Vec<([i64; 2], Vec<i128>)> {
    let objects = objects.iter().filter(|object| object["type"] == "segment");
    let segment = |object: &Value| {
        let time = |key: &str| hundredths(object[key].as_f64().expect("a number"));
        let tokens = object["tokens"].as_array().expect("a list").iter();
        let tokens = tokens.map(|token| token.as_i64().expect("a token").into());
        ([time("start"), time("end")], tokens.collect())
    };
    objects.map(segment).collect()
}

#[test]
fn segments_of_long_speech_are_those_of_transformers() {
    let Some(folder) = Folder::new() else { return };
    let copy = speech_tokens(&folder);
    let generation = fs::read(model("whisper").join("generation.json")).expect("it is there");
    ask(&copy, &serde_json::from_slice(&generation).expect("it is JSON"));
    let languages =
        [("short", Some("de")), ("long", Some("de")), ("longer", Some("fr")), ("detected", None)];
    for (name, language) in languages {
        let Sound { samples, segments: want } = sound(name);
        let file = wav(&folder, &format!("{name}.wav"), PLAIN, 1, &samples);
        let mut arguments = vec!["--audio", &file];
        arguments.extend(language.iter().flat_map(|language| ["--language", *language]));
        let timed = [arguments.as_slice(), &["--timestamps"]].concat();
        assert_eq!(segments(&folder.objects(&copy, &timed)), want, "{name}");
        let printed = |arguments: &[&str]| {
            let output = folder.generate(&copy, &[arguments, &["-q"]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
            String::from_utf8(output.stdout).expect("it is UTF-8")
        };
        let letter = |word: &i128| char::from(b'A' + u8::try_from(*word).expect("a letter"));
        let texts: Vec<String> =
            want.iter().map(|(_, words)| words.iter().map(letter).collect()).collect();
        let lines = want.iter().zip(&texts).map(|(([start, end], _), text)| {
            let clock = |time: &i64| format!("00:00:{:02}.{:03}", time / 100, time % 100 * 10);
            format!("[{} --> {}] {text}\n", clock(start), clock(end))
        });
        assert_eq!(printed(&timed), lines.collect::<String>(), "{name}");
        // Long speech has windows without being asked.
        if samples.len() > WINDOW {
            assert_eq!(printed(&arguments), texts.concat() + "\n", "{name}");
        }
    }
    let file = wav(&folder, "long.wav", PLAIN, 1, &sound("long").samples);
    let refused = |more: &[&str], words: &str| {
        folder.refused(&copy, &[&["--audio", &file], more].concat(), 2, words);
    };
    refused(&["--stop", "A"], "without --stop, --grammar, --logprobs and --bench");
    refused(&["--timestamps", "--logprobs"], "cannot be used with");
    refused(&["--tokens", "1"], "and the model takes 3840 at once");
    // Without the token that ends a text there are no times.
    let mut other: Value = serde_json::from_slice(&generation).expect("it is JSON");
    other["eos_token_id"] = Value::Null;
    ask(&copy, &other);
    refused(&[], "and the model takes 3840 at once");
    refused(&["--timestamps"], "no tokens of times");
}
