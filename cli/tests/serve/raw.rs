//! Bytes that are no requests, and requests of pages of the web.

use super::{Model, answer, asked};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

#[test]
fn bytes_that_are_no_requests_stop_nothing() {
    let Some(model) = Model::new() else { return };
    let server = model.serve(&[]);
    let raw = |mut stream: TcpStream, bytes: &[u8]| {
        stream.write_all(bytes).expect("it is sent");
        answer(stream)
    };
    let foreign = b"GET /v1/models HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n";
    assert_eq!(raw(server.connect(), foreign).status, 403);
    let form = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(raw(server.connect(), form).status, 415);
    for bytes in [b"\x16\x03\x01\x02\r\n\r\n".as_slice(), b"GET / HTTP/1.1\r\n\xff: \0\r\n\r\n"] {
        let mut stream = server.connect();
        stream.write_all(bytes).expect("it is sent");
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(server.post("/v1/completions", &asked("A", 0, 4)).status, 200);
}
