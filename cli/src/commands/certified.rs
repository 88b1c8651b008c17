//! The certificate of a compilation, as far as every command makes it.

use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use relax_lower::certify::Stages;
use relax_validation::certificate::{Certificate, Header};
use relax_validation::derive::Counts;
use relax_validation::report;

/// The certificate, after a table of its obligations is printed; `None` where one that is no access of a kernel is
/// refuted, which is printed as an error.
pub(super) fn certificate(
    stages: &Stages,
    header: Header,
    terminal: &mut Terminal,
) -> Result<Option<Certificate>, Failure> {
    let tested = header.tested;
    let certificate = stages.certified(header).map_err(|why| {
        let text = format!("a program that was made does not read back: {why}");
        Failure::Message { exit: Exit::Internal, text }
    })?;
    let refuted = certificate.obligations.iter().filter(|each| each.refuses());
    let refuted: Vec<String> =
        refuted.map(|each| format!("error: {each}: {}\n", each.why())).collect();
    if !refuted.is_empty() {
        terminal.message(refuted.concat().as_bytes());
        return Ok(None);
    }
    for line in report::unproved(&certificate.obligations) {
        terminal.detail(&line);
    }
    let table = report::table(&Counts::of(&certificate.obligations), tested);
    terminal.message(table.as_bytes());
    Ok(Some(certificate))
}
