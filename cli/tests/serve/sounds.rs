//! Transcriptions: forms as clients of OpenAI send them, with sounds and without.

use super::{Answer, Model, Server, answer};
use serde_json::{Value, json};
use std::fs;
use std::io::{Cursor, Write};

/// A tiny Whisper of three languages.
fn whisper() -> Option<Model> {
    let model = Model::of("whisper")?;
    let generation = json!({
        "decoder_start_token_id": 5, "is_multilingual": true, "no_timestamps_token_id": 9,
        "lang_to_id": { "<|de|>": 6, "<|en|>": 7, "<|fr|>": 10 },
        "task_to_id": { "transcribe": 8, "translate": 11 }, "suppress_tokens": [58, 59, 62, 63],
    });
    let path = model.path().join("generation_config.json");
    fs::write(path, generation.to_string()).expect("it is written");
    Some(model)
}

/// A WAV file of so many samples of a tone.
fn wav(rate: u32, samples: usize, step: f32) -> Vec<u8> {
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: rate, bits_per_sample, sample_format };
    let mut file = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut file, spec).expect("it is a form of files");
    for at in 0..samples {
        let sample = (at as f32 * step).sin() * 9000.0;
        writer.write_sample(sample as i16).expect("it is written");
    }
    writer.finalize().expect("it is written");
    file.into_inner()
}

/// A form with these fields.
fn form(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let file =
            if *name == "file" { "; filename=\"a.wav\"\r\nContent-Type: audio/wav" } else { "" };
        let head = format!("--x7\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend([head.as_bytes(), value, b"\r\n"].concat());
    }
    body.extend(b"--x7--\r\n");
    body
}

fn sent(server: &Server, body: &[u8], more: &str) -> Answer {
    let mut stream = server.connect();
    let (length, host) = (body.len(), &server.address);
    let head = format!(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it is sent");
    answer(stream)
}

const FORM: &str = "content-type: multipart/form-data; boundary=x7\r\n";

fn asked(server: &Server, fields: &[(&str, &[u8])]) -> Answer {
    sent(server, &form(&[&[("model", b"tiny".as_slice())], fields].concat()), FORM)
}

#[test]
fn transcriptions_are_those_of_generate() {
    let Some(model) = whisper() else { return };
    let sounds = [wav(16_000, 3000, 0.2), wav(16_000, 3840, 0.7), wav(16_000, 0, 0.0)];
    let generated = |at: usize, more: &[&str]| {
        let path = model.path().join(format!("{at}.wav"));
        fs::write(&path, &sounds[at]).expect("it is written");
        let path = path.display().to_string();
        let arguments = [&["--audio", &path, "-q"], more].concat();
        let output = model.command("generate", &arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("it is UTF-8")
    };
    let want = [0, 1, 2].map(|at| generated(at, &[]));
    assert!(want[0] != want[1] && want[1] != want[2] && want[0].len() > 20, "{want:?}");
    let german = generated(0, &["--language", "de"]);
    let others = ["en", "fr"].map(|language| generated(0, &["--language", language]));
    assert!(others.iter().any(|other| *other != german));
    let server = model.serve(&["--parallel", "4"]);
    // All at once, each with a sound of its own.
    std::thread::scope(|scope| {
        for client in 0..9 {
            let (server, sounds, want) = (&server, &sounds, &want);
            scope.spawn(move || {
                let at = client % 3;
                let got = asked(server, &[("file", &sounds[at])]);
                assert_eq!(got.status, 200, "{}", got.body);
                assert_eq!(got.json(), json!({ "text": want[at].trim_end_matches('\n') }));
            });
        }
    });
    let fields: [(&str, &[u8]); 4] = [
        ("language", b"de"),
        ("response_format", b"text"),
        ("temperature", b"0"),
        ("file", &sounds[0]),
    ];
    let text = asked(&server, &fields);
    assert!(text.head.contains("text/plain"), "{}", text.head);
    assert_eq!(text.body, german);
    server.await_metric("relax_running", 0.0);
    assert_eq!(server.metric("relax_cache_bytes"), 0.0);
}

#[test]
fn what_is_no_sound_is_refused() {
    let Some(model) = whisper() else { return };
    let server = model.serve(&["--max-body", "20K"]);
    let sound = wav(16_000, 3000, 0.2);
    let refused = |got: Answer, status: u16, param: Option<&str>, words: &str| {
        assert_eq!(got.status, status, "{words}: {}", got.body);
        let error = &got.json()["error"];
        assert_eq!(error["param"].as_str(), param, "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{error}");
    };
    let file = |bytes: &[u8]| asked(&server, &[("file", bytes)]);
    let in_file = Some("file");
    refused(asked(&server, &[]), 400, in_file, "`file` is missing");
    refused(file(b""), 400, in_file, "no WAV file");
    refused(file(b"ID3 not a wav"), 400, in_file, "no WAV file");
    refused(file(&sound[..30]), 400, in_file, "no WAV file");
    refused(file(&sound[..sound.len() - 7]), 400, in_file, "its samples");
    refused(file(&wav(44_100, 100, 0.1)), 400, in_file, "44100 samples a second");
    refused(file(&wav(16_000, 3841, 0.1)), 400, in_file, "takes 3840 at once");
    refused(file(&wav(16_000, 20_000, 0.1)), 413, None, "20480 bytes");
    // A header that promises four billion bytes of samples.
    let mut large = sound.clone();
    large[40..44].copy_from_slice(&[0xfe, 0xff, 0xff, 0xff]);
    refused(file(&large), 400, in_file, "and the model takes 3840 at once");
    for (name, value, words) in [
        ("language", "xx", "one of de, en, fr"),
        ("response_format", "srt", "json or text"),
        ("temperature", "hot", "a number"),
        ("temperature", "-1", "temperature"),
        ("stream", "true", "not supported"),
        ("prompt", "A", "not supported"),
        ("languag", "de", "no parameter"),
    ] {
        let got = asked(&server, &[("file", &sound), (name, value.as_bytes())]);
        refused(got, 400, Some(name), words);
    }
    refused(
        asked(&server, &[("file", &sound), ("language", b"\xff")]),
        400,
        Some("language"),
        "UTF-8",
    );
    refused(asked(&server, &[("model", b"tiny")]), 400, Some("model"), "twice");
    let other = sent(&server, &form(&[("model", b"other"), ("file", &sound)]), FORM);
    refused(other, 404, Some("model"), "`tiny`");
    let whole = form(&[("model", b"tiny"), ("file", &sound)]);
    refused(sent(&server, &whole[..whole.len() - 9], FORM), 400, None, "incomplete data");
    refused(sent(&server, &whole, "content-type: application/json\r\n"), 415, None, "multipart");
    // A page of the web could send a form without asking.
    let page = format!("{FORM}origin: https://example.com\r\n");
    refused(sent(&server, &whole, &page), 403, None, "pages of the web");
    let own = format!("{FORM}origin: http://localhost:3000\r\n");
    assert_eq!(sent(&server, &whole, &own).status, 200);
    let body = json!({ "model": "tiny", "prompt": "A" });
    refused(server.post("/v1/completions", &body), 400, Some("model"), "/v1/audio/transcriptions");
    let text: Value = server.get("/health").json();
    assert_eq!(text, json!({ "status": "ok" }));
}

#[test]
fn a_model_of_text_transcribes_nothing() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&[]);
    let got = asked(&server, &[("file", &wav(16_000, 10, 0.1))]);
    assert_eq!(
        (got.status, &got.json()["error"]["message"]),
        (400, &json!("the model reads text only"))
    );
}
