//! Generated documents are those that the code would generate now, and the planned operators exist.

use crate::project::{report, root};
use xtask::docs::{PLANNED, missing, pages};

fn planned() -> String {
    std::fs::read_to_string(root().join(PLANNED)).expect("the list of planned operators is there")
}

#[test]
fn documents_are_up_to_date() {
    let mut findings = Vec::new();
    for page in pages(&planned()) {
        let committed = std::fs::read_to_string(root().join(page.path)).unwrap_or_default();
        if committed != page.text {
            let same = committed.lines().zip(page.text.lines()).take_while(|(a, b)| a == b).count();
            let (path, line) = (page.path, same + 1);
            findings.push(format!("{path}:{line}: run `cargo run -p xtask -- docs`"));
        }
    }
    report("generated documents", &findings);
}

#[test]
fn planned_operators_exist() {
    let lacking = missing(&planned());
    let findings = lacking.iter().map(|name| format!("{PLANNED}:1: `{name}` is not in the table"));
    report("planned operators", &findings.collect::<Vec<_>>());
    assert_eq!(missing("unary: exp no_such_operator"), ["no_such_operator"]);
}
