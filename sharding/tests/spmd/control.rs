//! Branches and checks that all ranks take alike.

use crate::branching::{BY_SIZE, BY_SUM, CHECKED, SKIPPED, on};
use crate::programs::MESHES;
use crate::{Sharded, arguments, near, planned, same, sharded, tensor};
use relax_program::frontend::print;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::annotated::annotated;
use relax_sharding::movement::Collective;
use relax_sharding::propagate::Plan;
use relax_syntax::dtype::DType;

fn scalar(value: f32) -> Value {
    Value::Tensor(Tensor::from_floats(DType::F32, ndarray::arr0(f64::from(value)).into_dyn()))
}

fn agrees(main: &str, arguments: &dyn Fn(usize) -> Vec<Vec<Value>>) {
    for mesh in MESHES {
        let text = on(mesh, main);
        let first = sharded(&text);
        let function = first.global.function("main").expect("a main");
        let printed = print(&annotated(&first.global, function, &first.plan));
        let again = sharded(&printed);
        assert_eq!(collectives(&first.plan), collectives(&again.plan), "{text}\n{printed}");
        for sharded in [first, again] {
            for n in 0..=33 {
                for arguments in arguments(n) {
                    let expected = sharded.on_one(&arguments);
                    let found = sharded.on_ranks(&sharded.local, &arguments);
                    let found = found.unwrap_or_else(|(rank, stop)| {
                        panic!("on {mesh} at {n}: rank {rank}: {stop}\n{}", sharded.text)
                    });
                    assert!(near(&found, &expected), "on {mesh} at {n}\n{}", sharded.text);
                }
            }
        }
    }
}

fn collectives(plan: &Plan) -> Vec<Collective> {
    plan.moves().flat_map(|(_, movements)| movements).map(|one| one.collective).collect()
}

#[test]
fn branches_agree_with_one_device_for_every_size() {
    agrees(SKIPPED, &|n| {
        [-1.0, 1.0].map(|deep| vec![tensor(&[n, 4], 1), tensor(&[4, 4], 2), scalar(deep)]).to_vec()
    });
    agrees(BY_SIZE, &|n| vec![vec![tensor(&[n, 4], 1), tensor(&[4, 4], 2)]]);
    agrees(BY_SUM, &|n| [1, 2, 3].map(|seed| vec![tensor(&[n, 4], seed)]).to_vec());
}

/// Where both ways keep rows cut, nothing is moved. Alone a rank moves nothing, whatever it calls.
#[test]
fn branches_keep_what_is_cut() {
    for mesh in &MESHES[1..] {
        let sharded = sharded(&on(mesh, SKIPPED));
        assert_eq!(collectives(&sharded.plan), [], "{}", sharded.text);
    }
}

#[test]
fn checks_agree_with_one_device_for_every_size() {
    agrees(CHECKED, &|n| {
        let extent = i64::try_from(n).expect("a size");
        vec![vec![tensor(&[n, 4], 1), Value::Shape(vec![extent])]]
    });
    // Where one device stops, a rank does.
    let sharded = sharded(&on("2", CHECKED));
    let arguments = [tensor(&[3, 4], 1), Value::Shape(vec![4])];
    let (_, stop) = sharded.on_ranks(&sharded.local, &arguments).expect_err("it stops");
    assert!(stop.to_string().contains("match_cast"), "{stop}");
}

/// What branches give must have dims.
#[test]
fn branches_of_unknown_dims_are_refused() {
    let unknown = r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), c: Tensor((), "bool")):
    if c:
        y = x
    else:
        y = unique(x)
    return y
"#;
    let refused = planned(&on("2", unknown)).expect_err("it is refused");
    assert!(refused.message.contains("not known"), "{}", refused.message);
}

fn regression(name: &str) -> Sharded {
    let path = relax_corpus::files::root().join("regressions").join(format!("{name}.rx"));
    sharded(&std::fs::read_to_string(path).expect("the file can be read"))
}

/// The trap of one device is that of the statement that comes first, whatever ranks do meanwhile.
#[test]
fn the_first_statement_that_traps_counts() {
    for (name, shapes, id) in [
        ("constraint_beside_a_collective", [vec![0], vec![0]], "min/C2"),
        ("traps_of_two_stages", [vec![0, 4], vec![0]], "take/C4"),
    ] {
        let sharded = regression(name);
        let stop = sharded.on_ranks(&sharded.local, &arguments(&shapes)).expect_err("a trap");
        assert!(
            matches!(&stop.1, Stop::Trap(trap) if trap.id == id),
            "{name}: {stop:?}\n{}",
            sharded.text
        );
    }
}

/// Truth values along a cut axis are gathered, as ranks have no reduction of them.
#[test]
fn truth_values_along_a_cut_axis_are_gathered() {
    let sharded = regression("least_of_cut_truth_values");
    for n in [1, 2, 7] {
        let arguments = arguments(&[vec![n], vec![n]]);
        let found = sharded.on_ranks(&sharded.local, &arguments).expect("a value");
        assert!(same(&found, &sharded.on_one(&arguments)), "at {n}\n{}", sharded.text);
    }
}
