//! Local programs that choose among layouts for several sizes.

use crate::branching::on;
use crate::choosing::PROGRAMS;
use crate::{Sharded, arguments, load, near};
use relax_program::frontend::{print, print_and_parse};
use relax_semantics::ranks::Mesh;
use relax_sharding::propagate::Plan;
use relax_sharding::shard_in_versions;
use relax_sharding::versions::Version;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Counterexample;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const MESHES: [&str; 4] = ["2", "3, 2", "p", "p, q"];
const RUNS: [[usize; 2]; 4] = [[1, 1], [2, 1], [3, 2], [7, 1]];

fn in_versions(text: &str) -> (Sharded, Vec<Version>) {
    let global = load(text);
    let function = global.function("main").expect("a main");
    let sharded = shard_in_versions(&global, function, &BTreeMap::new(), &mut Prover::new());
    let sharded = sharded.unwrap_or_else(|refused| panic!("{refused:?}\n{text}"));
    let text = print(&sharded.local);
    let read = print_and_parse(&sharded.local);
    let local = read.unwrap_or_else(|why| panic!("{why}\n{text}")).module;
    (Sharded { global, plan: sharded.plan, text, local }, sharded.others)
}

/// A program on a mesh, with the shapes of its arguments for a size.
struct Case {
    name: &'static str,
    on: &'static str,
    shapes: fn(usize) -> Vec<Vec<usize>>,
    sharded: Sharded,
    others: Vec<Version>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let on_all = PROGRAMS.into_iter().flat_map(|own| MESHES.map(|mesh| (own, mesh)));
    let cases = on_all.map(|((name, main, shapes), mesh)| {
        let (sharded, others) = in_versions(&on(mesh, main));
        assert!(!others.is_empty(), "{name} on {mesh} has one version");
        Case { name, on: mesh, shapes, sharded, others }
    });
    cases.collect()
});

/// The meshes of the runs of a program.
fn meshes(plan: &Plan) -> Vec<Mesh> {
    match plan.axes.fixed() {
        Some(mesh) => vec![mesh],
        None => {
            let axes = plan.axes.workers.len();
            let mesh = |extents: [usize; 2]| plan.axes.with_extents(&extents[..axes]).ok();
            RUNS.into_iter().filter_map(mesh).collect()
        }
    }
}

/// The values of the dims of a function, whose parameters have these shapes, and of the extents of a mesh.
fn sizes(sharded: &Sharded, shapes: &[Vec<usize>], mesh: &Mesh) -> BTreeMap<Name, i64> {
    let function = sharded.global.function("main").expect("a main");
    let mut found = BTreeMap::new();
    let mut bind = |dim: &Dim, extent: usize| {
        if let Dim::Var(name) = dim {
            found.insert(name.clone(), i64::try_from(extent).expect("a size"));
        }
    };
    for (param, shape) in function.lambda.params.iter().zip(shapes) {
        let dims = function.param_annotation(*param).dims().expect("dims");
        dims.iter().zip(shape).for_each(|(dim, extent)| bind(dim, *extent));
    }
    let axes = sharded.plan.axes.workers.iter().zip(&mesh.extents);
    axes.for_each(|(dim, extent)| bind(dim, *extent));
    found
}

#[test]
fn versions_agree_with_one_device_for_every_size() {
    for Case { name, shapes, sharded, .. } in CASES.iter() {
        for mesh in meshes(&sharded.plan) {
            for n in (0..=33).filter(|n| *name != "experts" || n % 11 == 0) {
                let arguments = arguments(&shapes(n));
                let found = sharded.on_mesh(&mesh, &sharded.local, &arguments);
                let found = found.unwrap_or_else(|(rank, stop)| {
                    panic!("{name} at {n} on {mesh:?}: rank {rank}: {stop}\n{}", sharded.text)
                });
                let expected = sharded.on_one(&arguments);
                assert!(near(&found, &expected), "{name} at {n} on {mesh:?}\n{}", sharded.text);
            }
        }
    }
}

/// The version that the guards choose moves the fewest bytes of all; quotients are rounded.
#[test]
fn guards_choose_the_fewest_bytes() {
    for Case { name, on, shapes, sharded, others } in CASES.iter() {
        let plans: Vec<&Plan> = others.iter().map(|own| &own.plan).chain([&sharded.plan]).collect();
        let bytes = plans.iter().map(|plan| plan.bytes(&mut Prover::new()));
        let bytes: Vec<Dim> = bytes.collect();
        let moves = plans.iter().map(|plan| plan.moves().count()).max().unwrap_or(0);
        let rounding = i64::try_from(moves).expect("few");
        let mut taken = BTreeSet::new();
        for mesh in meshes(&sharded.plan) {
            for n in 0..=200 {
                let sizes = sizes(sharded, &shapes(n), &mesh);
                let values: Counterexample = sizes.clone().into_iter().collect();
                let holds = |own: &Version| {
                    own.guard.iter().all(|claim| claim.holds(&values) == Some(true))
                };
                let value = |name: &Name| sizes.get(name).copied();
                let all = bytes.iter().map(|own| own.eval(&value).expect("all are bound"));
                let all: Vec<i64> = all.collect();
                let chosen = others.iter().position(holds).unwrap_or(others.len());
                taken.insert(chosen);
                let least = all.iter().min().expect("a plan");
                assert!(all[chosen] <= least + rounding, "{name} at {n} on {mesh:?}: {all:?}");
            }
        }
        // Of `experts` one size of five changes.
        let all = if *name == "experts" { 2 } else { plans.len() };
        assert!(taken.len() >= all, "{name} on {on}: a version is never taken");
    }
}

/// What both sides have in common is in no guard.
#[test]
fn guards_are_short() {
    let guards = |main: &str| {
        let (_, others) = in_versions(&on("p", main));
        let each = others
            .iter()
            .map(|own| own.guard.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "));
        each.collect::<Vec<_>>()
    };
    assert_eq!(guards(PROGRAMS[0].1), ["n < 8"]);
    assert_eq!(guards(PROGRAMS[2].1), ["2 < n and n < 20", "n < 11"]);
    assert_eq!(guards(PROGRAMS[3].1).len(), 3);
    let experts = guards(PROGRAMS[4].1);
    assert!(experts.contains(&"h * p < g * ceildiv(s, e)".to_owned()), "{experts:#?}");
}

/// A guard has its own plan behind it, and the last one is behind none.
#[test]
fn each_guard_leads_to_its_plan() {
    let (sharded, _) = in_versions(&on("p", PROGRAMS[0].1));
    let places =
        ["all_gather(x", "    else:\n", "all_gather(up"].map(|text| sharded.text.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}", sharded.text);
}

/// What a branch of a stage gives has the name of its `if`, in each version.
#[test]
fn versions_with_stages_agree() {
    let text = "module_attr(\"mesh[0]\", \"p, q\")\n\ndef main(a: DTensor((\"n\", 16), \"f32\", \"mesh[0]\", \"S[0], R\")):\n    b = redistribute(a, \"mesh[0]\", \"R, S[1]\")\n    c = max(b, axis=[1])\n    d = redistribute(c, \"mesh[0]\", \"S[0], O[0]\")\n    return abs(d)\n";
    let (sharded, others) = in_versions(text);
    assert!(!others.is_empty(), "{}", sharded.text);
    for mesh in meshes(&sharded.plan) {
        for n in [0, 1, 5, 33] {
            let arguments = arguments(&[vec![n, 16]]);
            let found = sharded.on_mesh(&mesh, &sharded.local, &arguments).expect("all ranks end");
            assert!(near(&found, &sharded.on_one(&arguments)), "{n} on {mesh:?}\n{}", sharded.text);
        }
    }
}
