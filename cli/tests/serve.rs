//! `relax serve` on a tiny model with random weights: answers are those of `relax generate`, whoever else asks; bad requests, slow clients and
//! clients that leave; limits; and the end by a signal.
#![cfg(all(unix, feature = "serve"))]

#[path = "serve/forms.rs"]
mod forms;
#[path = "serve/images.rs"]
mod images;
#[path = "warm/kept.rs"]
mod kept;
#[path = "serve/occupied.rs"]
mod occupied;
#[path = "serve/raw.rs"]
mod raw;
#[path = "serve/sounds.rs"]
mod sounds;
mod warm;

use relax_corpus::requirement;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A tiny model with a tokenizer of bytes: letters are tokens, and token 62 is the first byte of é.
struct Model(TempDir);

impl Drop for Model {
    fn drop(&mut self) {
        kept::keep(&self.0.path().join("cache"));
    }
}

impl Model {
    /// The tiny Llama, with chats; `None` without a C compiler.
    fn new() -> Option<Self> {
        let model = Self::of("llama")?;
        // Longer answers than of the corpus, so that a client can leave before one ends.
        let (from, to) = ("\"max_position_embeddings\": 128", "\"max_position_embeddings\": 2048");
        model.edit("config.json", |config| {
            assert!(config.contains(from));
            config.replace(from, to)
        });
        let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
        fs::write(model.path().join("chat_template.jinja"), template).expect("it is written");
        Some(model)
    }

    /// A tiny model of the corpus.
    fn of(name: &str) -> Option<Self> {
        if !Command::new("cc").arg("--version").output().is_ok_and(|done| done.status.success()) {
            requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for the test");
        let model = folder.path().join("tiny");
        fs::create_dir(&model).expect("it is made");
        let tiny =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/llm/tiny").join(name);
        for file in ["config.json", "model.safetensors"] {
            fs::copy(tiny.join(file), model.join(file)).expect("a file");
        }
        let letters = (0..58_u8).map(|at| char::from(b'A' + at).to_string());
        let letters = letters.chain(["Ġ", "Ċ", "0", "1", "Ã", "©"].map(str::to_owned));
        let vocabulary: serde_json::Map<String, Value> =
            letters.zip(0..).map(|(token, id)| (token, Value::from(id))).collect();
        let step = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": step, "post_processor": null, "decoder": step,
            "model": { "type": "BPE", "dropout": null, "unk_token": "`", "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [] },
        });
        fs::write(model.join("tokenizer.json"), tokenizer.to_string()).expect("it is written");
        Some(Self(folder))
    }

    fn edit(&self, file: &str, change: impl FnOnce(String) -> String) {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).expect("it is there");
        fs::write(&path, change(text)).expect("it is written");
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tiny")
    }

    fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.arg(subcommand).arg(self.path()).args(arguments);
        command
            .env("XDG_CACHE_HOME", warm::cache(self.0.path().join("cache")))
            .env_remove("RELAX_API_KEY");
        command
    }

    /// What `relax generate` continues a prompt with.
    fn generated(&self, prompt: &str, (seed, tokens): (u64, usize), more: &[&str]) -> String {
        let (seed, tokens) = (seed.to_string(), tokens.to_string());
        let arguments = ["--prompt", prompt, "--seed", &seed, "--max-tokens", &tokens, "-q"];
        let output = self
            .command("generate", &[arguments.as_slice(), &["--temperature", "1"], more].concat())
            .output()
            .expect("the command runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        text.strip_suffix('\n').expect("a line ends").to_owned()
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let arguments = [&["--listen", "127.0.0.1:0", "--format", "json"], arguments].concat();
        let mut command = self.command("serve", &arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut said = lines.map(|line| -> Value {
            serde_json::from_str(&line.expect("it prints a line")).expect("it is JSON")
        });
        // What is quantized is said before.
        let said = said.find(|said| said["type"] == "serving").expect("it serves");
        let address = said["address"].as_str().expect("it has an address").to_owned();
        let is_speech = self.path().join("generation_config.json").is_file();
        assert_eq!(said["decode"], if is_speech { "single" } else { "batched" });
        Server { child, address }
    }
}

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.body))
    }

    /// Objects of the events of a stream, which must be done.
    fn events(&self) -> Vec<Value> {
        let data: Vec<&str> =
            self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        let (last, rest) = data.split_last().expect("it has events");
        assert_eq!(*last, "[DONE]");
        rest.iter().map(|event| serde_json::from_str(event).expect("it is JSON")).collect()
    }
}

/// A body without the lengths of its chunks.
fn unchunked(mut rest: &str) -> String {
    let mut text = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("it is a length");
        text += after.get(..length).expect("the chunk is whole");
        rest = &after[length + 2..];
        if length == 0 {
            break;
        }
    }
    text
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let text = String::from_utf8(bytes).expect("it is UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    Answer { status: status.expect("it has a status"), head: head.to_owned(), body }
}

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("it is set");
        stream
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let (length, host) = (body.len(), &self.address);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n"
        );
        stream.write_all((head + body).as_bytes()).expect("it is sent");
        stream
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.send("POST", path, "", &body.to_string()))
    }

    fn get(&self, path: &str) -> Answer {
        answer(self.send("GET", path, "", ""))
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    }

    /// Waits until a metric has a value; the test fails when it never has.
    fn await_metric(&self, name: &str, value: f64) {
        let start = Instant::now();
        while self.metric(name) != value {
            assert!(start.elapsed() < Duration::from_secs(60), "{name} is not {value}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-TERM", &id]).status().expect("it runs");
        assert!(done.success());
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        let mut errors = self.child.stderr.take().expect("it is piped");
        errors.read_to_string(&mut log).expect("it is UTF-8");
        (self.child.wait().expect("it ends").code(), log)
    }
}

fn asked(prompt: &str, seed: u64, tokens: usize) -> Value {
    json!({ "model": "tiny", "prompt": prompt, "seed": seed, "max_tokens": tokens })
}

/// Prompts of several lengths; the longest takes two steps, and five pages.
fn prompt(client: usize) -> String {
    let letters = (0..2 + client * 9).map(|at| char::from(b'A' + ((at * 7 + client) % 26) as u8));
    letters.collect()
}

/// Tokens of an answer: sequences end while others run.
fn tokens(client: usize) -> usize {
    1 + client * 11 % 37
}

/// Answers of 32 clients at once, with these switches of both commands, and others of the server.
fn agrees_with_generate(model: &Model, switches: &[&str], parallel: &str) {
    let want = |client| model.generated(&prompt(client), (client as u64, tokens(client)), switches);
    let want: Vec<String> = (0..32).map(want).collect();
    let server = model.serve(&[switches, &["--parallel", parallel]].concat());
    std::thread::scope(|scope| {
        for (client, want) in want.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let mut body = asked(&prompt(client), client as u64, tokens(client));
                body["stream"] = json!(client % 2 == 1);
                let answer = server.post("/v1/completions", &body);
                assert_eq!(answer.status, 200, "{}", answer.body);
                let text = match client % 2 {
                    0 => answer.json()["choices"][0]["text"].as_str().expect("a text").to_owned(),
                    _ => streamed(&answer),
                };
                assert_eq!(&text, want, "client {client}");
            });
        }
    });
    let generated: usize = (0..32).map(tokens).sum();
    assert_eq!(server.metric("relax_generated_tokens_total"), generated as f64);
    server.await_metric("relax_running", 0.0);
    // Sequences were computed together.
    let calls = server.metric("relax_steps_total");
    assert!(server.metric("relax_step_sequences_total") > 1.5 * calls, "{calls}");
}

/// The text of a stream.
fn streamed(answer: &Answer) -> String {
    let events = answer.events();
    events.iter().map(|event| event["choices"][0]["text"].as_str().expect("a text")).collect()
}

#[test]
fn answers_are_those_of_generate_with_32_clients_at_once() {
    let Some(model) = Model::new() else { return };
    agrees_with_generate(&model, &[], "8");
}

/// More rows than the routine for few rows has, and rounded ones.
#[test]
fn answers_of_quantized_models_are_those_of_generate() {
    let Some(model) = Model::new() else { return };
    agrees_with_generate(&model, &["--quantize", "q4_0"], "16");
    agrees_with_generate(&model, &["--quantize", "q4_0", "--activations", "f32"], "11");
}

/// A client that leaves while its sequence is in the batch.
#[test]
fn a_client_that_leaves_changes_no_other_answer() {
    let Some(model) = Model::new() else { return };
    let want = model.generated("AB", (3, 200), &[]);
    let server = model.serve(&["--parallel", "3", "--max-tokens", "2000"]);
    let stream = |seed: u64, tokens: usize| {
        let mut body = asked("AB", seed, tokens);
        body["stream"] = json!(true);
        server.send("POST", "/v1/completions", "", &body.to_string())
    };
    let mut leaving = [stream(5, 1900), stream(6, 1900)];
    for stream in &mut leaving {
        stream.read_exact(&mut [0; 64]).expect("it begins");
    }
    let staying = stream(3, 200);
    drop(leaving);
    assert_eq!(streamed(&answer(staying)), want);
    server.await_metric("relax_running", 0.0);
    assert_eq!(server.metric("relax_cancelled_total"), 2.0);
    assert_eq!(server.metric("relax_cache_bytes"), 0.0);
}

#[test]
fn answers_have_the_form_of_openai() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&[]);
    let models = server.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("tiny")));
    assert_eq!(server.get("/v1/models/tiny").json(), models["data"][0]);
    assert_eq!(server.get("/health").json(), json!({ "status": "ok" }));
    let messages = json!([{ "role": "system", "content": "D" }, { "role": "user", "content": [{ "type": "text", "text": "BE" }] }]);
    let mut body = json!({ "model": "tiny", "messages": messages, "temperature": 0, "max_completion_tokens": 4, "logprobs": true,
        "top_logprobs": 2, "n": 2, "user": "x", "presence_penalty": 0 });
    let whole = server.post("/v1/chat/completions", &body).json();
    assert_eq!(whole["object"], "chat.completion");
    for index in 0..2 {
        let choice = &whole["choices"][index];
        assert_eq!(choice["index"], index);
        // As `relax generate` has it in the test `texts_are_continued_and_stopped`.
        assert_eq!(choice["message"]["content"], "uLFu");
        assert_eq!(choice["finish_reason"], "length");
        let first = &choice["logprobs"]["content"][0];
        assert_eq!((&first["token"], &first["bytes"]), (&json!("u"), &json!([117])));
        assert_eq!(first["top_logprobs"][0]["logprob"], first["logprob"]);
        assert_eq!(first["top_logprobs"].as_array().map(Vec::len), Some(2));
    }
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11 });
    assert_eq!(whole["usage"], usage);
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    body["stop"] = json!(["Fu"]);
    body["n"] = json!(1);
    let stream = server.post("/v1/chat/completions", &body);
    assert!(stream.head.contains("text/event-stream"), "{}", stream.head);
    let events = stream.events();
    let (last, parts) = events.split_last().expect("it has events");
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(4)));
    assert_eq!(parts[0]["choices"][0]["delta"]["role"], "assistant");
    let texts = parts.iter().filter_map(|part| part["choices"][0]["delta"]["content"].as_str());
    assert_eq!(texts.collect::<String>(), "uL");
    assert_eq!(parts.last().expect("it has parts")["choices"][0]["finish_reason"], "stop");
    let body = json!({ "model": "tiny", "prompt": [3, 1, 4], "temperature": 0, "max_tokens": 3, "logprobs": 1 });
    let text = server.post("/v1/completions", &body).json();
    let choice = &text["choices"][0];
    assert_eq!((&text["object"], &choice["text"]), (&json!("text_completion"), &json!("uLF")));
    assert_eq!(choice["logprobs"]["tokens"], json!(["u", "L", "F"]));
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 1, 2]));
}

#[test]
fn bad_requests_are_refused_by_field() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&["--max-body", "4K", "--max-tokens", "50"]);
    let refused = |path: &str, body: &str, status: u16, param: Option<&str>, words: &str| {
        let answer = answer(server.send("POST", path, "", body));
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["param"].as_str(), param, "{body}: {error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(words), "{body}: {error}");
    };
    let text = "/v1/completions";
    refused(text, "{", 400, None, "not JSON");
    refused(text, "[]", 400, None, "an array");
    refused(text, r#"{"prompt": "A"}"#, 400, Some("model"), "missing");
    refused(text, r#"{"model": "other", "prompt": "A"}"#, 404, Some("model"), "`tiny`");
    refused("/v1/other", "{}", 404, None, "no such path");
    refused("/health", "{}", 405, None, "no such method");
    for (field, value, words) in [
        ("tempratur", json!(1), "no parameter"),
        ("temperature", json!(-1), "temperature"),
        ("temperature", json!("hot"), "expected a number"),
        ("top_p", json!(1e300), "top_p"),
        ("n", json!(0), "from 1 to 16"),
        ("max_tokens", json!(51), "from 1 to 50"),
        ("max_tokens", json!(1.5), "from 1 to 50"),
        ("stop", json!([""]), "none of them empty"),
        ("stream_options", json!({}), "needs `stream`"),
        ("logit_bias", json!({ "1": 2 }), "not supported"),
        ("seed", json!("x"), "integer"),
        ("prompt", json!([64]), "no token"),
        ("prompt", json!([]), "no tokens"),
        ("prompt", json!(["A", "B"]), "expected"),
        ("prompt", json!("A".repeat(2048)), "2048 tokens"),
    ] {
        let mut body = asked("A", 0, 4);
        body[field] = value;
        refused(text, &body.to_string(), 400, Some(field), words);
    }
    let chat = "/v1/chat/completions";
    let with = |messages: Value| json!({ "model": "tiny", "messages": messages }).to_string();
    refused(chat, &with(json!([])), 400, Some("messages"), "at least one");
    refused(
        chat,
        &with(json!([{ "role": "x", "content": "A" }])),
        400,
        Some("messages[0].role"),
        "\"x\"",
    );
    let image = json!([{ "role": "user", "content": [{ "type": "image_url" }] }]);
    refused(chat, &with(image), 400, Some("messages[0].content[0].type"), "`text`");
    refused(
        text,
        &asked(&"A".repeat(100_000), 0, 4).to_string(),
        413,
        None,
        "more than 4096 bytes",
    );
    assert_eq!(server.post(text, &asked("A", 0, 4)).status, 200);
}

#[test]
fn a_key_is_needed_where_one_is_set() {
    let Some(model) = Model::new() else { return };
    let output = model.command("serve", &["--listen", "0.0.0.0:0"]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("is not a loopback address") && errors.contains("RELAX_API_KEY"));
    let server = model.serve(&["--api-key", "secret"]);
    for more in ["", "authorization: Bearer secre\r\n", "authorization: Bearer secrets\r\n"] {
        assert_eq!(answer(server.send("GET", "/v1/models", more, "")).status, 401, "{more}");
    }
    let more = "authorization: Bearer secret\r\n";
    assert_eq!(answer(server.send("GET", "/v1/models", more, "")).status, 200);
    assert_eq!(server.get("/health").status, 200);
}
