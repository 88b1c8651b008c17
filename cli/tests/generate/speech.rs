//! Models of speech: a WAV file is transcribed, in a language that is given or detected.

use super::{Folder, errors, letters, listed, model, reference};
use relax_program::tensor_files::read_npz;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Bits of a sample and the tag of their kind: integers, or floats.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    I16,
    F32,
}

/// A WAV file of frames with a sample for each channel.
fn write_wav(path: &Path, (rate, kind): (u32, Kind), channels: u16, samples: &[f32]) {
    let (tag, bytes): (u16, Vec<u8>) = match kind {
        Kind::F32 => (3, samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()),
        Kind::I16 => {
            let integer = |sample: &f32| ((sample * 32768.0) as i16).to_le_bytes();
            (1, samples.iter().flat_map(integer).collect())
        }
    };
    let width = match kind {
        Kind::I16 => 2,
        Kind::F32 => 4,
    };
    let length = u32::try_from(bytes.len()).expect("it is short");
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0");
    file.extend(tag.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(channels) * width).to_le_bytes());
    file.extend((channels * u16::try_from(width).expect("a few bytes")).to_le_bytes());
    file.extend(u16::try_from(8 * width).expect("a few bits").to_le_bytes());
    file.extend(b"data");
    file.extend(length.to_le_bytes());
    file.extend(bytes);
    fs::write(path, file).expect("it is written");
}

/// The samples of the prompt of the reference.
fn samples() -> Vec<f32> {
    let bytes = fs::read(model("whisper").join("reference.npz")).expect("it is there");
    let samples = read_npz(&bytes, Some("samples")).expect("it is an array");
    let length = samples.shape()[1];
    samples.to_floats().iter().take(length).map(|&sample| sample as f32).collect()
}

pub(crate) fn wav(
    folder: &Folder,
    name: &str,
    form: (u32, Kind),
    channels: u16,
    samples: &[f32],
) -> String {
    let path = folder.path().join(name);
    write_wav(&path, form, channels, samples);
    path.display().to_string()
}

pub(crate) const PLAIN: (u32, Kind) = (16_000, Kind::F32);

#[test]
fn greedy_tokens_of_speech_are_those_of_transformers() {
    let Some(folder) = Folder::new() else { return };
    let whisper = model("whisper");
    let file = wav(&folder, "speech.wav", PLAIN, 1, &samples());
    let prompt = listed(&reference("whisper", "prompt"));
    let with = |file: &str, more: &[&str]| {
        let arguments = ["--audio", file, "--tokens", &prompt];
        folder.objects(&whisper, &[arguments.as_slice(), more].concat())
    };
    let tokens = |objects: &[Value]| -> Vec<u64> {
        objects.iter().filter_map(|object| object["token"].as_u64()).collect()
    };
    let objects = with(&file, &["--max-tokens", "64", "--bench"]);
    assert_eq!(tokens(&objects), reference("whisper", "greedy"));
    let speed = objects.last().expect("there are objects");
    assert_eq!(speed["audio_seconds"], 0.1875);
    assert!(speed["encode_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{speed}");
    // Both channels of 16 bits have what the floats have.
    let rounded: Vec<f32> =
        samples().iter().map(|sample| f32::from((sample * 32768.0) as i16) / 32768.0).collect();
    let twice: Vec<f32> = rounded.iter().flat_map(|&sample| [sample, sample]).collect();
    let stereo = wav(&folder, "stereo.wav", (16_000, Kind::I16), 2, &twice);
    let mono = wav(&folder, "mono.wav", PLAIN, 1, &rounded);
    assert_eq!(tokens(&with(&stereo, &[])), tokens(&with(&mono, &[])));
    // The context of 128 positions is full where nothing else ends a text.
    assert_eq!(tokens(&with(&mono, &[])).len(), 128 - 5);
    // Another sound has another text, and silence has one.
    let none = wav(&folder, "none.wav", PLAIN, 1, &[]);
    assert_ne!(tokens(&with(&none, &["--max-tokens", "64"])), tokens(&objects));
    let longest = wav(&folder, "longest.wav", PLAIN, 1, &vec![0.0; 12 * 320]);
    assert_eq!(tokens(&with(&none, &[])), tokens(&with(&longest, &[])));
}

/// The tiny model with a tokenizer.
pub(crate) fn speech_tokens(folder: &Folder) -> PathBuf {
    let copy = folder.path().join("model");
    fs::create_dir_all(&copy).expect("it is made");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model("whisper").join(file), copy.join(file)).expect("it is copied");
    }
    fs::write(copy.join("tokenizer.json"), letters().to_string()).expect("it is written");
    copy
}

/// Says how a model is asked.
pub(crate) fn ask(model: &Path, generation: &Value) {
    fs::write(model.join("generation_config.json"), generation.to_string()).expect("it is written");
}

#[test]
fn the_language_is_asked_for_or_given() {
    let Some(folder) = Folder::new() else { return };
    let mut generation = json!({
        "decoder_start_token_id": 5, "is_multilingual": true, "no_timestamps_token_id": 9,
        "lang_to_id": { "<|de|>": 6, "<|en|>": 7, "<|fr|>": 10 },
        "task_to_id": { "transcribe": 8, "translate": 11 },
        "suppress_tokens": [58, 59, 60, 61, 62, 63],
    });
    let copy = speech_tokens(&folder);
    ask(&copy, &generation);
    let file = wav(&folder, "speech.wav", PLAIN, 1, &samples());
    let text = |more: &[&str]| {
        let arguments = ["-q", "--audio", &file, "--max-tokens", "12"];
        let output = folder.generate(&copy, &[arguments.as_slice(), more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("it is UTF-8")
    };
    let spelled = |prompt: &str| {
        let tokens =
            folder.tokens(&copy, &["--audio", &file, "--max-tokens", "12", "--tokens", prompt]);
        let letter = |&token: &u64| char::from(b'A' + u8::try_from(token).expect("a letter"));
        tokens.iter().map(letter).chain(['\n']).collect::<String>()
    };
    let of = |language: &str, task: &str| spelled(&format!("5,{language},{task},9"));
    let texts = [("de", "6"), ("en", "7"), ("fr", "10")].map(|(code, token)| {
        let text = text(&["--language", code]);
        assert_eq!(text, of(token, "8"), "{code}");
        text
    });
    assert_eq!(text(&["--language", "de", "--task", "translate"]), of("6", "11"));
    // By itself it takes the language whose token is the most probable one after the first token.
    let token = |suppressed: &[u64]| {
        let mut asked = generation.clone();
        asked["suppress_tokens"] = json!(suppressed);
        ask(&copy, &asked);
        let tokens =
            folder.tokens(&copy, &["--audio", &file, "--max-tokens", "1", "--tokens", "5"]);
        tokens[0]
    };
    let others: Vec<u64> = (0..64).filter(|token| ![6, 7, 10].contains(token)).collect();
    let detected = token(&others);
    ask(&copy, &generation);
    let place = [6, 7, 10].iter().position(|&token| token == detected).expect("it is a language");
    assert_eq!(text(&[]), texts[place]);
    // A token that a text does not begin with may come later.
    let first = u64::from(texts[place].as_bytes()[0] - b'A');
    generation["begin_suppress_tokens"] = json!([first]);
    ask(&copy, &generation);
    assert_ne!(text(&[])[..1], texts[place][..1]);
    folder.refused(&copy, &["--audio", &file, "--language", "xx"], 2, "one of de, en, fr");
    fs::remove_file(copy.join("generation_config.json")).expect("it is there");
    folder.refused(&copy, &["--audio", &file, "--language", "de"], 2, "knows one only");
}

#[test]
fn what_cannot_be_transcribed_is_refused() {
    let Some(folder) = Folder::new() else { return };
    let whisper = model("whisper");
    let refused = |audio: &str, words: &str| {
        folder.refused(&whisper, &["--audio", audio, "--tokens", "1"], 2, words);
    };
    folder.refused(&whisper, &["--tokens", "1"], 2, "give a WAV file with --audio");
    let file = wav(&folder, "speech.wav", PLAIN, 1, &samples());
    folder.refused(&model("llama"), &["--audio", &file, "--tokens", "1"], 2, "reads text only");
    folder.refused(&whisper, &["--audio", &file, "--prompt", "a"], 2, "cannot be used with");
    folder.refused(&whisper, &["--language", "en"], 2, "--audio");
    refused("nothing.wav", "nothing.wav: cannot read it");
    refused(&folder.path().display().to_string(), "it is no file");
    let config = whisper.join("config.json").display().to_string();
    refused(&config, "it is no WAV file");
    let fast = wav(&folder, "fast.wav", (44_100, Kind::F32), 1, &samples());
    refused(&fast, "it has 44100 samples a second, and the model takes 16000");
    let long = wav(&folder, "long.wav", PLAIN, 1, &vec![0.0; 12 * 320 + 1]);
    refused(&long, "it has 3841 samples (0.24 s), and the model takes 3840 at once (0.24 s)");
    let odd = wav(&folder, "odd.wav", PLAIN, 1, &[0.0, f32::NAN]);
    refused(&odd, "sample 1 is NaN");
    let loud = wav(&folder, "loud.wav", PLAIN, 1, &[0.0, 0.5, -1e30]);
    refused(&loud, "sample 2 is -1");
    let bytes = fs::read(folder.path().join("speech.wav")).expect("it is there");
    let cut = folder.path().join("cut.wav");
    fs::write(&cut, &bytes[..bytes.len() - 5]).expect("it is written");
    refused(&cut.display().to_string(), "its samples");
    fs::write(&cut, &bytes[..20]).expect("it is written");
    refused(&cut.display().to_string(), "it is no WAV file");
}
