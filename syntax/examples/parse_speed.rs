//! Measures the parser and the formatter: one function of 100,000 bindings, or the file that is named.
#![allow(clippy::print_stdout)]

use relax_syntax::format::format_source;
use relax_syntax::parse::parse_file;
use relax_syntax::span::Source;
use std::fmt::Write as _;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => generated(100_000)?,
    };
    let bytes = text.len();
    let source = Source::new("generated", text);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let (file, diagnostics) = parse_file(&source);
        best = best.min(start.elapsed().as_secs_f64());
        for diagnostic in &diagnostics {
            let (line, column) = source.line_column(diagnostic.primary.span.start);
            println!("{line}:{column}: {}: {}", diagnostic.code, diagnostic.message);
        }
        if !diagnostics.is_empty() {
            return Err(format!("{} statements were read", file.statements.len()).into());
        }
    }
    println!("parse: {bytes} bytes in {best:.4} s: {:.1} MB/s", bytes as f64 / best / 1e6);
    let start = Instant::now();
    let formatted =
        format_source(&source).map_err(|_| "the formatter read what the parser did not")?;
    let seconds = start.elapsed().as_secs_f64();
    println!("format: {} bytes in {seconds:.4} s", formatted.len());
    Ok(())
}

/// A function of `count` bindings, like those of a lowered model.
fn generated(count: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "def main(lv0: Tensor((\"n\", 4), \"f32\")) -> Tensor((\"n\", 4), \"f32\"):\n",
    );
    for index in 1..=count {
        let before = index - 1;
        match index % 3 {
            0 => writeln!(text, "    lv{index}: Tensor((n, 4), \"f32\") = add(lv{before}, lv0)")?,
            1 => writeln!(
                text,
                "    lv{index} = call_tir(fused, [lv{before}], Tensor((n, 4 * n + 1), \"f32\"))"
            )?,
            _ => writeln!(text, "    lv{index} = softmax(lv{before}, axis=-1)  # a comment")?,
        }
    }
    writeln!(text, "    return lv{count}")?;
    Ok(text)
}
