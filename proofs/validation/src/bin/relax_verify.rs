//! `relax-verify CERTIFICATE [PROGRAM]`: verifies the certificate of a compilation, and that it is about this
//! program, without any part of the compiler that searches. Exit code 0 where it is accepted, 1 where it is refused,
//! 2 for bad usage.

use relax_validation::check::verify;
use relax_validation::derive::Counts;
use relax_validation::report;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (certificate, program) = match arguments.as_slice() {
        [certificate] => (certificate, None),
        [certificate, program] => (certificate, Some(program)),
        _ => return fail(2, "usage: relax-verify CERTIFICATE [PROGRAM]"),
    };
    let read =
        |path: &String| std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"));
    let texts = read(certificate).and_then(|text| Ok((text, program.map(read).transpose()?)));
    let (certificate, program) = match texts {
        Ok(texts) => texts,
        Err(why) => return fail(2, &why),
    };
    match verify(&certificate, program.as_deref()) {
        Ok(verified) => {
            let counts = Counts::of(&verified.obligations);
            let text = report::table(&counts, verified.header.tested);
            // Whoever reads may have stopped reading.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => fail(1, &why),
    }
}

fn fail(code: u8, why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {why}");
    ExitCode::from(code)
}
