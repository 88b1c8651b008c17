//! Certificates for every number of ranks: extents of the mesh are variables.

use crate::programs::{Case, cases_on};
use crate::{bugs_by_rule, demand_proofs, is_proved, sharded};
use relax_corpus::sample::Sample;

const MESHES: [&str; 2] = ["p", "p, q"];

#[test]
fn local_programs_are_proved_for_every_number_of_ranks() {
    let cases: Vec<Case> = MESHES.into_iter().flat_map(cases_on).collect();
    demand_proofs(Sample::of("certificates of any number of ranks", 4).take(cases).collect());
}

/// Bugs of extents, each an edit of the local program of `megatron, rows` over two axes of any extents.
const BUGS: &[(&str, &str, &str)] = &[
    ("a literal number of workers", "\"mesh[0]\", 1, q, rank_1", "\"mesh[0]\", 1, 2, rank_1"),
    ("the workers of the other axis", "\"mesh[0]\", 1, q, rank_1", "\"mesh[0]\", 1, p, rank_1"),
    ("a narrower bound", "q = sym_var(lower_bound=1)", "q = sym_var(lower_bound=2)"),
    ("no bound", "q = sym_var(lower_bound=1)", "q = sym_var(lower_bound=0)"),
    ("extents in another order", "\"p\", \"q\"", "\"q\", \"p\""),
    ("ranks in another order", "\"rank_0\", \"rank_1\"", "\"rank_1\", \"rank_0\""),
    ("blocks of the other axis", "ceildiv(n, p)", "ceildiv(n, q)"),
];

#[test]
fn no_bug_of_extents_is_proved() {
    let cases = cases_on("p, q");
    let case = cases.iter().find(|case| case.name == "megatron, rows").expect("the case");
    let sharded = sharded(case);
    for (what, old, new) in BUGS {
        assert!(sharded.text.contains(old), "{what}:\n{}", sharded.text);
        let edited = sharded.text.replace(old, new);
        assert!(!is_proved(&sharded, &edited), "{what}:\n{edited}");
    }
}

#[test]
fn no_bug_by_rule_is_proved_for_every_number_of_ranks() {
    let all: Vec<_> = MESHES.into_iter().flat_map(cases_on).map(|case| sharded(&case)).collect();
    let bugs = bugs_by_rule(&all);
    assert!(bugs.len() >= 200, "{} bugs", bugs.len());
    for (sharded, edit) in Sample::of("bugs of any number of ranks", 192).take(bugs) {
        assert!(!is_proved(sharded, &edit.text), "{}\n{}", edit.what, edit.text);
    }
}
