//! `docs/CODES.md`: what `relax explain` says, of every diagnostic and trap.

use super::GENERATED;
use relax_program::frontend::code_tables;
use relax_semantics::traps::TRAPS;
use std::fmt::Write;

pub(super) fn page() -> String {
    let mut text = format!("# Codes\n\n{GENERATED}\n");
    text.push_str("\nThe constraints of operators are in [OPERATORS.md](OPERATORS.md).\n");
    text.push_str("\n## Diagnostics\n");
    let mut infos: Vec<_> = code_tables().into_iter().flatten().collect();
    infos.sort_by_key(|info| info.code);
    for info in infos {
        let _ = writeln!(text, "\n### {}: {}\n\n{}", info.code, info.title, info.explanation);
    }
    text.push_str("\n## Traps\n\nThe id of a constraint of an operator, such as `matmul/C2`, is a trap too.\n");
    for trap in TRAPS {
        let _ = writeln!(text, "\n### {}: {}\n\n{}", trap.id, trap.title, trap.explanation);
    }
    text
}
