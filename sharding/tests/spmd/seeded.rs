//! Seeded bugs in local programs: each is found by the checker, by a trap or by another result; none is accepted.

use crate::bugs::BUGS;
use crate::edits::{Edit, Kind, edited};
use crate::programs::{Case, Shapes, case, cases};
use crate::{Sharded, arguments, near, same, sharded};
use relax_corpus::sample::Sample;
use relax_program::frontend::Program;
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};

/// How a bug is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    /// Deduction rejects the program.
    Rejected,
    /// A rank stops.
    Stopped,
    /// The result is another one.
    Different,
}

/// How the edited program is found not to agree with one device; `None` where it agrees for every size.
pub(crate) fn found(sharded: &Sharded, text: &str, shapes: &[Shapes]) -> Option<Found> {
    let program = Program::load(Source::new("edited", text));
    if program.has_errors() {
        return Some(Found::Rejected);
    }
    let each = shapes.iter().flat_map(|shapes| (0..=33).map(shapes));
    let mut ended = each.map(|shapes| {
        let arguments = arguments(&shapes);
        let expected = sharded.on_one(&arguments);
        match sharded.on_ranks(&program.module, &arguments) {
            Ok(found) if same(&found, &expected) || near(&found, &expected) => None,
            Ok(_) => Some(Found::Different),
            Err(_) => Some(Found::Stopped),
        }
    });
    ended.find_map(|ended| ended)
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
        if found(&sharded, &edited, &[case.shapes]).is_none() {
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
        assert_eq!(found(&sharded, &sharded.text, &[case.shapes]), None, "{name} on {mesh}");
    }
}

#[test]
fn no_bug_by_rule_is_accepted() {
    // Some cases are other sizes of the same program.
    let mut programs: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    cases().into_iter().for_each(|case| programs.entry(case.text.clone()).or_default().push(case));
    let programs: Vec<(Sharded, Vec<Case>)> =
        programs.into_iter().map(|(text, cases)| (sharded(&text), cases)).collect();
    let mut bugs: Vec<(&(Sharded, Vec<Case>), Edit)> = Vec::new();
    for program in &programs {
        bugs.extend(edited(&program.0.local).into_iter().map(|edit| (program, edit)));
    }
    // Of two ways to say the same one counts.
    let mut texts = BTreeSet::new();
    bugs.retain(|(_, edit)| texts.insert(edit.text.clone()));
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    bugs.iter().for_each(|(_, edit)| *kinds.entry(edit.kind).or_default() += 1);
    eprintln!("{} bugs: {kinds:?}", bugs.len());
    for kind in [Kind::Axis, Kind::Reduction, Kind::Ragged, Kind::Group] {
        assert!(kinds.get(&kind).is_some_and(|count| *count >= 50), "{kind:?}: {kinds:?}");
    }
    let (mut accepted, mut ways) = (Vec::new(), BTreeMap::<Found, usize>::new());
    for ((sharded, cases), edit) in Sample::of("bugs of ranks that are run", 4).take(bugs) {
        let shapes: Vec<_> = cases.iter().map(|case| case.shapes).collect();
        match found(sharded, &edit.text, &shapes) {
            Some(way) => *ways.entry(way).or_default() += 1,
            None => accepted.push(format!("{}: {}\n{}", cases[0].name, edit.what, edit.text)),
        }
    }
    eprintln!("found: {ways:?}");
    assert!(accepted.is_empty(), "{} accepted: {}", accepted.len(), accepted.join("\n"));
}
