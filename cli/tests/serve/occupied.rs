//! A server whose places are taken: a full queue, slow clients and clients that leave, and the end by a signal.

use super::{Model, Server, answer, asked};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Occupies a server with one place for a while: 16 answers of so many tokens.
fn long(server: &Server, tokens: usize) -> TcpStream {
    let mut body = asked("A", 0, tokens);
    body["stream"] = json!(true);
    body["n"] = json!(16);
    server.send("POST", "/v1/completions", "", &body.to_string())
}

#[test]
fn a_full_queue_is_refused_and_a_client_that_leaves_makes_room() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&["--parallel", "1", "--queue", "16"]);
    let mut first = long(&server, 1000);
    let mut byte = [0];
    first.read_exact(&mut byte).expect("it begins");
    // One runs and others wait: 16 more do not fit.
    let mut body = asked("A", 0, 4);
    body["n"] = json!(16);
    let full = server.post("/v1/completions", &body);
    assert_eq!(full.status, 429, "{}", full.body);
    assert!(full.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", full.head);
    drop(first);
    server.await_metric("relax_running", 0.0);
    assert_eq!(server.metric("relax_cancelled_total"), 1.0);
    assert!(server.metric("relax_generated_tokens_total") < 16_000.0);
    assert_eq!(server.post("/v1/completions", &body).status, 200);
}

#[test]
fn a_client_that_reads_nothing_holds_up_nobody() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&["--parallel", "2", "--queue", "64"]);
    let slow = long(&server, 100);
    // A head that never ends, and a body that does not come.
    let mut head = server.connect();
    head.write_all(b"POST /v1/completions HTT").expect("it is sent");
    let mut body = server.connect();
    body.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        .expect("it is sent");
    assert_eq!(server.post("/v1/completions", &asked("A", 0, 4)).status, 200);
    server.await_metric("relax_running", 0.0);
    let events = answer(slow).events();
    let ends = events.iter().filter(|event| !event["choices"][0]["finish_reason"].is_null());
    assert_eq!(ends.count(), 16);
}

#[test]
fn a_signal_ends_the_server_after_running_answers() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&["--parallel", "1"]);
    let mut running = long(&server, 100);
    let mut begin = vec![0; 12];
    running.read_exact(&mut begin).expect("it begins");
    let waiting = server.send("POST", "/v1/completions", "", &asked("A", 0, 4).to_string());
    // The refusal below shows that it waited; before the signal it must have arrived.
    server.await_metric("relax_open_requests", 3.0);
    server.signal();
    assert_eq!(answer(waiting).status, 503);
    assert_eq!(server.post("/v1/completions", &asked("A", 0, 4)).status, 503);
    assert_eq!(server.get("/health").status, 503);
    let mut text = String::from_utf8(begin).expect("it is UTF-8");
    running.read_to_string(&mut text).expect("it ends");
    assert!(text.contains("data: [DONE]"), "{text}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let tokens = |line: &&Value| line["completion_tokens"] == 1600;
    assert_eq!(lines.iter().find(tokens).expect("a line")["status"], 200);
}
