//! The command with its standard input from a test.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs it to its end.
pub(crate) fn relax(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_relax"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut pipe = child.stdin.take().expect("the input is a pipe");
    let input = input.to_vec();
    // The command may stop reading before the end, or write much before it has read all.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let ended = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer ends");
    ended
}
