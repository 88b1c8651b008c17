//! Certificates of programs with branches and checks, and of local programs that choose between two ways to compute the same.

use crate::branching::{BY_SIZE, BY_SUM, CHECKED, SKIPPED, on};
use crate::choosing::PROGRAMS as CHOOSING;
use crate::programs::MESHES;
use crate::{Sharded, bugs_by_rule, certificate, is_proved, of_text, open};
use relax_corpus::sample::Sample;
use relax_program::frontend::{Program, print};
use relax_sharding::shard_in_versions;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use relax_validation::check::verify;
use std::collections::BTreeMap;

const PROGRAMS: [&str; 4] = [SKIPPED, BY_SIZE, BY_SUM, CHECKED];

fn all() -> Vec<Sharded> {
    let meshes = || MESHES.into_iter().chain(["p", "p, q"]);
    let on_all = PROGRAMS.into_iter().flat_map(|main| meshes().map(move |mesh| on(mesh, main)));
    on_all.map(|text| of_text(&text)).collect()
}

fn demand_proof(sharded: &Sharded, local: &str) {
    let certificate = certificate(sharded, local).expect("a program");
    let open = open(&certificate);
    assert!(open.is_empty(), "{open:#?}\n{local}");
    let verified = verify(&certificate.text(), Some(local));
    assert_eq!(verified.map(|verified| verified.obligations), Ok(certificate.obligations));
}

#[test]
fn branches_and_checks_are_proved() {
    for sharded in all() {
        demand_proof(&sharded, &sharded.text);
    }
}

/// Edits of local programs over "2": what is wrong, the program, a text and another in its place.
const BUGS: &[(&str, &str, &str, &str)] = &[
    ("the condition is negated", SKIPPED, "greater(", "less("),
    ("another condition", SKIPPED, "greater(deep, ", "greater(multiply(deep, deep), "),
    ("the branch of the other", SKIPPED, "relu(h)", "add(x, x)"),
    ("another branch", SKIPPED, "add(x, x)", "multiply(x, x)"),
    ("a shard decides", BY_SUM, "spmd.all_reduce(", "add(lv0, lv0)#"),
    ("another check", CHECKED, "Tensor((m, n), \"f32\")", "Tensor((m, m), \"f32\")"),
    ("a check of another value", CHECKED, "match_cast(s, Shape([n]))", "match_cast(s, Shape([k]))"),
];

#[test]
fn no_bug_of_branches_is_proved() {
    for &(what, main, old, new) in BUGS {
        let sharded = of_text(&on("2", main));
        assert_eq!(sharded.text.matches(old).count(), 1, "{what}:\n{}", sharded.text);
        let mut lines = sharded.text.lines().map(|line| match line.find(old) {
            // What is behind `#` of the new text is what is left of the line, which is dropped.
            Some(at) if new.ends_with('#') => line[..at].to_owned() + new.trim_end_matches('#'),
            _ => line.replace(old, new),
        });
        let edited = lines.by_ref().fold(String::new(), |all, line| all + &line + "\n");
        assert!(!is_proved(&sharded, &edited), "{what}:\n{edited}");
    }
}

#[test]
fn no_bug_by_rule_in_a_branch_is_proved() {
    let all = all();
    let bugs = bugs_by_rule(&all);
    assert!(bugs.len() >= 100, "{} bugs", bugs.len());
    for (sharded, edit) in Sample::of("bugs of branches that are certified", 48).take(bugs) {
        assert!(!is_proved(sharded, &edit.text), "{}\n{}", edit.what, edit.text);
    }
}

/// A product whose second operand is cut along what is summed: a rank has terms of it, which become rows, or the whole.
const ONE_WAY: &str = r#"module_attr("mesh[0]", "2")

def main(a: DTensor(("n", "k"), "f32", "mesh[0]", "S[0]"), b: DTensor(("k", 4), "f32", "mesh[0]", "R")) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0]"):
    y = relu(matmul(a, b))
    return redistribute(y, "mesh[0]", "S[0]")
"#;

/// The same in two ways, by a comparison of dims.
const TWO_WAYS: &str = r#"module_attr("mesh[0]", "2")

def main(world: Shape(["rank_0", "n", "k"]), a: Tensor(("min(max(n - rank_0 * ceildiv(n, 2), 0), ceildiv(n, 2))", "k"), "f32"), b: Tensor(("k", 4), "f32")):
    rank_0 = sym_var(lower_bound=0, upper_bound=1)
    small = squeeze(less_equal(shape_to_tensor(shape(n)), shape_to_tensor(shape(k // 2))), [0])
    if small:
        whole = spmd.all_gather(a, "mesh[0]", 0, 2, rank_0, 0, n)
        all = relu(matmul(whole, b))
        y = spmd.own_shard(all, 2, rank_0, 0)
    else:
        y = relu(matmul(a, b))
    return y
"#;

#[test]
fn two_ways_to_the_same_are_proved() {
    demand_proof(&of_text(ONE_WAY), TWO_WAYS);
}

/// What is wrong in the two ways, a text and another in its place.
const BUGS_OF_WAYS: &[(&str, &str, &str)] = &[
    ("a rank decides for itself", "shape(k // 2)", "shape(rank_0)"),
    ("the condition may stop", "shape_to_tensor(shape(k // 2))", "full((1,), k // n, \"i64\")"),
    ("a shape may have no value", "shape(k // 2)", "shape(k // n)"),
    ("a shape may be negative", "shape(k // 2)", "shape(k - n)"),
    ("one way is wrong", "all = relu(matmul(whole, b))", "all = matmul(whole, b)"),
    ("the other way is wrong", "y = relu(matmul(a, b))", "y = matmul(a, b)"),
    ("one way is in another layout", "y = spmd.own_shard(all, 2, rank_0, 0)", "y = all"),
    (
        "the shard of another rank",
        "spmd.own_shard(all, 2, rank_0, 0)",
        "spmd.own_shard(all, 2, 1, 0)",
    ),
];

#[test]
fn no_bug_in_two_ways_is_proved() {
    let sharded = of_text(ONE_WAY);
    for (what, old, new) in BUGS_OF_WAYS {
        assert_eq!(TWO_WAYS.matches(old).count(), 1, "{what}");
        assert!(!is_proved(&sharded, &TWO_WAYS.replace(old, new)), "{what}");
    }
}

/// Local programs that choose among layouts for several sizes are proved, whichever is chosen.
#[test]
fn versions_are_proved() {
    let meshes = ["2", "p", "p, q"];
    let on_all = |main: &str| meshes.map(|mesh| on(mesh, main));
    let all: Vec<String> = CHOOSING.iter().flat_map(|own| on_all(own.1)).collect();
    let texts: Vec<String> = Sample::of("certificates of versions", 5).take(all).collect();
    for text in texts {
        let global = Program::load(Source::new("program", text.as_str())).module;
        let function = global.function("main").expect("a main");
        let made = shard_in_versions(&global, function, &BTreeMap::new(), &mut Prover::new());
        let made = made.unwrap_or_else(|refused| panic!("{refused:?}\n{text}"));
        assert!(!made.others.is_empty(), "one version:\n{text}");
        let text = print(&made.local);
        demand_proof(&Sharded { global, text: text.clone() }, &text);
    }
}
