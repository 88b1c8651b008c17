//! Seeded bugs in local programs: each is found by the checker, by a trap or by another result; none is accepted.

use crate::bugs::BUGS;
use crate::edits::edited;
use crate::programs::{case, cases};
use crate::{Sharded, near, same, sharded, tensor};
use relax_program::frontend::Program;
use relax_semantics::value::Value;
use relax_syntax::span::Source;

/// Whether the edited program agrees with one device for every size.
fn is_accepted(sharded: &Sharded, text: &str, shapes: fn(usize) -> Vec<Vec<usize>>) -> bool {
    let program = Program::load(Source::new("edited", text));
    if program.has_errors() {
        return false;
    }
    (0..=33).all(|n| {
        let arguments: Vec<Value> =
            shapes(n).iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
        let expected = sharded.on_one(&arguments);
        sharded
            .on_ranks(&program.module, &arguments)
            .is_ok_and(|found| same(&found, &expected) || near(&found, &expected))
    })
}

#[test]
fn no_seeded_bug_is_accepted() {
    let mut accepted = Vec::new();
    for &(name, mesh, what, old, new) in BUGS {
        let case = case(name, mesh);
        let sharded = sharded(&case.text);
        assert_eq!(
            sharded.text.matches(old).count(),
            1,
            "{what} in {name} on {mesh}:\n{}",
            sharded.text
        );
        let edited = sharded.text.replace(old, new);
        if is_accepted(&sharded, &edited, case.shapes) {
            accepted.push(format!("{what} in {name} on {mesh}"));
        }
    }
    assert!(accepted.is_empty(), "accepted of {}: {accepted:#?}", BUGS.len());
}

/// The programs themselves are accepted, so that an edit is what is found.
#[test]
fn programs_without_a_bug_are_accepted() {
    for &(name, mesh, ..) in BUGS {
        let case = case(name, mesh);
        let sharded = sharded(&case.text);
        assert!(is_accepted(&sharded, &sharded.text, case.shapes), "{name} on {mesh}");
    }
}

#[test]
fn no_edit_of_a_collective_is_accepted() {
    let (mut count, mut accepted) = (0, Vec::new());
    for case in cases() {
        let sharded = sharded(&case.text);
        for (what, text) in edited(&sharded.local) {
            count += 1;
            if is_accepted(&sharded, &text, case.shapes) {
                accepted.push(format!("{}: {what}\n{text}", case.name));
            }
        }
    }
    assert!(accepted.is_empty(), "accepted of {count}: {}", accepted.join("\n"));
    eprintln!("{count} edits");
    assert!(count >= 200, "{count} edits");
}
