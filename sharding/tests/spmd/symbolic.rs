//! Meshes whose extents a run binds: one local program for every number of ranks.

use crate::agree::demand_agreement;
use crate::programs::cases_on;
use crate::{load, planned, same, sharded, tensor};
use relax_sharding::movement::Collective;
use relax_symbolic::Prover;
use relax_syntax::annotation::Reduction;

/// The meshes, with the extents of runs.
const RUNS: &[(&str, &[&[usize]])] = &[
    ("p", &[&[1], &[2], &[3], &[4], &[7]]),
    ("p, q", &[&[1, 1], &[2, 2], &[3, 1], &[1, 4], &[2, 3]]),
];

#[test]
fn one_program_agrees_with_one_device_on_every_number_of_ranks() {
    for &(mesh, runs) in RUNS {
        for case in cases_on(mesh) {
            let sharded = sharded(&case.text);
            let mesh = |extents: &&[usize]| sharded.plan.axes.with_extents(extents);
            let meshes: Result<Vec<_>, _> = runs.iter().map(mesh).collect();
            demand_agreement(&case, &sharded, &meshes.expect("the extents fit"));
        }
    }
}

#[test]
fn bytes_are_a_polynomial_of_the_number_of_ranks() {
    let case = cases_on("p").into_iter().find(|case| case.name == "megatron, rows").expect("it");
    let sharded = sharded(&case.text);
    let moves: Vec<_> = sharded.plan.moves().flat_map(|(_, movements)| movements).collect();
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].collective, Collective::AllReduce(Reduction::Sum));
    for (p, n) in [(1, 5), (2, 0), (2, 7), (3, 100), (256, 33)] {
        let at = |name: &relax_syntax::Name| match name.as_str() {
            "p" => Some(p),
            "n" => Some(n),
            _ => None,
        };
        assert_eq!(sharded.plan.bytes(&mut Prover::new()).eval(&at), Ok(2 * (p - 1) * n * 4 * 4));
    }
}

/// The names of the mesh are no dims of the function.
#[test]
fn a_dim_of_the_same_name_is_another_one() {
    let text = "module_attr(\"mesh[0]\", \"n\")\n\ndef main(x: DTensor((\"n\", 3), \"f32\", \"mesh[0]\", \"S[0]\"), rank_0: DTensor((\"n\", 3), \"f32\", \"mesh[0]\", \"S[0]\")):\n    return add(x, rank_0)\n";
    let sharded = sharded(text);
    let arguments = [tensor(&[5, 3], 1), tensor(&[5, 3], 2)];
    let mesh = sharded.plan.axes.with_workers(2).expect("a mesh");
    let found = sharded.on_mesh(&mesh, &sharded.local, &arguments).expect("all ranks end");
    assert!(same(&found, &sharded.on_one(&arguments)), "{}", sharded.text);
}

/// Heads may be cut where their number is a literal that the workers divide. For any number of workers they may not: columns of a
/// rank would begin within a head.
#[test]
fn what_holds_for_some_numbers_of_ranks_is_not_taken_for_all() {
    let case = cases_on("p").into_iter().find(|case| case.name == "heads of matrices").expect("it");
    let any = sharded(&case.text);
    let movements: Vec<_> = any.plan.moves().flat_map(|(_, movements)| movements).collect();
    let is_one = |collectives: &[&relax_sharding::movement::Movement]| matches!(collectives, [one] if one.collective == Collective::AllReduce(Reduction::Sum));
    assert!(!is_one(&movements), "{}", any.text);
    // The greatest of an empty shard is none of the terms.
    let text = "module_attr(\"mesh[0]\", \"p\")\n\ndef main(x: DTensor((\"n\", 16), \"f32\", \"mesh[0]\", \"S[1]\")):\n    return max(x, axis=[1])\n";
    let moves = planned(text).expect("layouts").1;
    let reduces = |one: &relax_sharding::movement::Movement| {
        matches!(one.collective, Collective::AllReduce(_))
    };
    assert!(!moves.moves().flat_map(|(_, movements)| movements).any(reduces));
}

#[test]
fn meshes_that_do_not_fit_are_refused() {
    let text = |mesh: &str| {
        format!(
            "module_attr(\"mesh[0]\", \"{mesh}\")\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"S[0], R\")):\n    return add(x, x)\n"
        )
    };
    for wrong in
        ["p, p", "p + 1, 2", "0, p", "-1, p", "p,", "True, 2", "\\\"p\\\", 2", "p q, 2", "0x2, 2"]
    {
        let source = relax_syntax::span::Source::new("program", text(wrong));
        let program = relax_program::frontend::Program::load(source);
        assert!(program.has_errors(), "{wrong}");
    }
    let axes = planned(&text("p, 3")).expect("layouts").1.axes;
    assert_eq!(axes.with_workers(6).map(|mesh| mesh.extents), Ok(vec![2, 3]));
    for workers in [0, 1, 2, 4, 3 * 256] {
        assert!(axes.with_workers(workers).is_err(), "{workers}");
    }
    for extents in [&[2, 2][..], &[0, 3], &[2], &[2, 3, 1], &[usize::MAX, 3]] {
        assert!(axes.with_extents(extents).is_err(), "{extents:?}");
    }
    let free = planned(&text("p, q")).expect("layouts").1.axes;
    assert!(free.with_workers(4).is_err());
    assert!(load(&text("p, 4")).attrs.len() == 1);
}
