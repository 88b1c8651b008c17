//! Oracle of the printer: text and program are inverse, as written and as deduced; the formatter is idempotent.

use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_program::frontend::{print, print_and_parse};
use relax_syntax::parse::parse_file;
use relax_syntax::print::print_file;
use relax_syntax::span::Source;

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    let finding = |why: String| Finding::new("print", why, "diff FILE");
    for module in [&case.raw, &case.checked] {
        let read = print_and_parse(module).map_err(finding)?;
        if let Some(first) = read.diagnostics.first().filter(|_| read.has_errors()) {
            return Err(finding(format!("the printed program is refused: {}", first.message)));
        }
        statistics.compared += 1;
    }
    // Deduction of what was deduced finds nothing new.
    let text = print(&case.checked);
    let again = relax_program::frontend::Program::load(Source::new("printed", text.as_str()));
    if print(&again.module) != text {
        let why = "deduction says something else of what it deduced before";
        return Err(Finding::new("deduced twice", why, "check -v FILE"));
    }
    let once = printed(&case.source.text);
    if printed(&once) != once {
        return Err(Finding::new("format", "formatting twice is not formatting once", "fmt FILE"));
    }
    Ok(())
}

fn printed(text: &str) -> String {
    print_file(&parse_file(&Source::new("generated", text)).0)
}
