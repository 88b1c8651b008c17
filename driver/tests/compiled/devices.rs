//! Ranks on devices of CUDA against interpreted ones: programs of the sharding tests for several sizes and meshes, each collective for each
//! dtype, ranks that disagree, and ranks that fail. They run on an emulated CUDA with as many devices, in processes of their own; with
//! `RELAX_ON_DEVICES` set to `exact` or `fast`, on what this machine has.

use crate::by_hand::{by_hand, collectives, disagreements, given, numbers, shown, tensor};
use crate::emulator::{Emulator, Report};
use crate::ranks::{agree, loaded};
use crate::{pipelines, programs};
use ndarray::{ArrayD, IxDyn};
use relax_driver::ranks::DeviceRanks;
use relax_driver::{Bound, CompileError, Target, backend, compile_on};
use relax_program::compare::Relation;
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_semantics::interp::Options;
use relax_semantics::ops;
use relax_semantics::ranks::{Mesh, RanRank, run as interpret};
use relax_semantics::tensor::{Data, Tensor};
use relax_semantics::value::Value;
use relax_sharding::run::{run as run_interpreted, run_by};
use relax_sharding::shard;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// Whether this process finds the devices.
fn is_on_devices() -> bool {
    std::env::var_os("RELAX_ON_DEVICES").is_some()
}

fn on_devices(
    module: Module,
    source: &Source,
    mesh: &Mesh,
    numerics: Numerics,
) -> Result<DeviceRanks, CompileError> {
    let target = Target::of(Device::Cuda, numerics);
    let source = source.clone();
    let program = Program { source, module, diagnostics: Vec::new(), left: Vec::new() };
    let devices = backend(Device::Cuda).open_ranks(mesh.extents.iter().product())?;
    let made = compile_on(devices, &program, &target, &Bound::default(), &mut Unwatched)?;
    let ranks = DeviceRanks::of(made.into_ranks()?, mesh, &ops::Limits::default());
    Ok(ranks.expect("the tensor programs read"))
}

/// Runs a test of this program on emulated devices; what the driver and the libraries were asked for, and nothing refused or left behind.
fn emulated(name: &str, devices: usize, settings: &[(&str, &str)]) -> Option<Report> {
    let emulator = Emulator::build()?;
    // Ranks that wait for each other in vain end too.
    let mut command = emulator.command("timeout");
    command.arg("300").arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", &format!("devices::{name}"), "--nocapture"]);
    command.env("RELAX_ON_DEVICES", "exact").env("EMULATED_CUDA_DEVICES", devices.to_string());
    let (output, report) = emulator.watch(command.envs(settings.iter().copied()));
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}{report:#?}");
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    Some(report)
}

/// Programs of which each collective moves something, by kind.
const NAMES: [&str; 12] = [
    "paper",
    "megatron, rows",
    "megatron, columns",
    "heads",
    "data parallel",
    "norm",
    "exchange",
    "exchange, columns",
    "two stages",
    "two stages of rows",
    "three stages",
    "loss",
];

#[test]
fn sizes_on_meshes() {
    if !is_on_devices() {
        return;
    }
    let numerics = match std::env::var("RELAX_ON_DEVICES").as_deref() {
        Ok("fast") => Numerics::Reassociated,
        _ => Numerics::Exact,
    };
    let cases = programs::cases().into_iter().chain(pipelines::pipelines());
    for case in cases.filter(|case| NAMES.contains(&case.name)) {
        let program = loaded(&case.text);
        let function = program.module.function("main").expect("a main");
        let sharded = shard(&program.module, function, &BTreeMap::new(), &mut Prover::new());
        let sharded = sharded.unwrap_or_else(|refused| panic!("{refused:?}\n{}", case.text));
        let (plan, mesh) = (&sharded.plan, &sharded.plan.axes.fixed().expect("literal extents"));
        let ranks = on_devices(sharded.local.clone(), &program.source, mesh, numerics);
        let ranks = ranks.unwrap_or_else(|error| panic!("{error}\n{}", case.text));
        for n in [0, 1, 2, 3, 5, 7, 8, 13] {
            let shapes = (case.shapes)(n);
            let arguments: Vec<Value> =
                shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
            let options = Options::default();
            let expected =
                run_interpreted(function, (plan, mesh), &sharded.local, &arguments, &options);
            let found =
                run_by(function, (plan, mesh), &arguments, |given| ranks.call("main", given));
            // In one order, and with no sum that is rounded, bit for bit.
            let relation = match numerics {
                Numerics::Exact => Relation::Equal,
                Numerics::Reassociated => Relation::Close,
            };
            agree(relation, &expected.result, &found.result).unwrap_or_else(|why| {
                panic!("{} at {n} on {:?}: {why}\n{}", case.name, mesh.extents, case.text)
            });
        }
    }
}

#[test]
fn sizes_on_meshes_agree_bit_for_bit() {
    let Some(report) = emulated("sizes_on_meshes", 4, &[]) else { return };
    assert_eq!(report.lines, [""; 0]);
    let [sends, reductions, gathers] =
        ["ncclSend", "ncclAllReduce", "ncclAllGather"].map(|of| report.count(of));
    // Sums of floats keep the order of the ranks.
    assert!(sends > 100 && gathers > 10 && reductions == 0, "{report:?}");
}

#[test]
fn sizes_on_meshes_agree_where_sums_may_have_any_order() {
    let Some(report) = emulated("sizes_on_meshes", 4, &[("RELAX_ON_DEVICES", "fast")]) else {
        return;
    };
    assert_eq!(report.lines, [""; 0]);
    assert!(report.count("ncclAllReduce") > 100, "{report:?}");
}

/// A local program on its mesh, and what runs it.
struct Local(Module, Mesh, DeviceRanks);

fn local(dtype: DType, body: &str, numerics: Numerics) -> Local {
    let (text, mesh) = by_hand(dtype, body);
    let Program { module, source, .. } = loaded(&text);
    let ranks = on_devices(module.clone(), &source, &mesh, numerics);
    let ranks = ranks.unwrap_or_else(|error| panic!("{error}\n{body}"));
    Local(module, mesh, ranks)
}

impl Local {
    /// What interpreted ranks give, and those on devices.
    fn both(&self, given: &[Vec<Value>]) -> [Vec<RanRank>; 2] {
        let Self(module, mesh, ranks) = self;
        let expected = interpret(module, mesh, "main", given.to_vec(), &Options::default());
        [expected, ranks.call("main", given.to_vec())].map(|ran| ran.expect("a mesh of three"))
    }
}

#[test]
fn each_collective() {
    if !is_on_devices() {
        return;
    }
    for dtype in DType::ALL {
        for (body, is_shard) in collectives(dtype) {
            // Maxima and sums of integers have the same bits in any order.
            let is_free = !dtype.is_float() || !body.contains("sum");
            let numerics = if is_free { Numerics::Reassociated } else { Numerics::Exact };
            let local = local(dtype, &body, numerics);
            for n in [0, 1, 4, 6, 200] {
                let [expected, found] = local.both(&given(dtype, n, is_shard));
                for (rank, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    agree(Relation::Equal, &expected.result, &found.result)
                        .unwrap_or_else(|why| panic!("rank {rank}, {n} rows: {why}\n{body}"));
                }
            }
        }
    }
}

#[test]
fn each_collective_has_the_bits_of_the_interpreter_for_each_dtype() {
    let Some(report) = emulated("each_collective", 3, &[]) else { return };
    assert_eq!(report.lines, [""; 0]);
    let reductions = ["ncclAllReduce", "ncclReduceScatter"].map(|of| report.count(of));
    assert!(reductions.iter().all(|count| *count > 100), "{report:?}");
}

#[test]
fn disagreeing_ranks() {
    if !is_on_devices() {
        return;
    }
    for body in disagreements() {
        let local = local(DType::I64, &body, Numerics::Exact);
        for rows in [2, 5] {
            let stops = local.both(&numbers(rows)).map(shown);
            assert_eq!(stops[0], stops[1], "{body}");
            assert!(rows != 2 || !stops[0].is_empty(), "{body}");
        }
    }
}

#[test]
fn ranks_that_disagree_stop_as_interpreted_ones_do() {
    let Some(report) = emulated("disagreeing_ranks", 3, &[]) else { return };
    assert_eq!(report.lines, [""; 0]);
}

/// Six ranks, of which three form a sum, and three others the same one.
const GROUPS: &str = r#"module_attr("mesh[0]", "3, 2")

def main(world: Shape(["r", "c"]), x: Tensor(("m", 3), "f32")):
    y = spmd.all_reduce(x, "mesh[0]", 0, 3, r, "sum")
    return spmd.all_gather(y, "mesh[0]", 1, 2, c, 0, 2 * m)
"#;

#[test]
fn groups_of_a_mesh() {
    if !is_on_devices() {
        return;
    }
    let Program { module, source, .. } = loaded(GROUPS);
    let mesh = Mesh { name: "mesh[0]".into(), extents: vec![3, 2] };
    let ranks = on_devices(module, &source, &mesh, Numerics::Reassociated).expect("six devices");
    let of_rank = |rank: i64| {
        let (row, column) = (rank / 2, rank % 2);
        let thirds =
            |at: IxDyn| (row as f32 + 1.0) * 0.37 + at[0] as f32 / 3.0 - at[1] as f32 * 1e7;
        let x = Data::F32(ArrayD::from_shape_fn(IxDyn(&[5, 3]), thirds).into_shared());
        vec![Value::Shape(vec![row, column]), Value::Tensor(Tensor::from_data(x))]
    };
    let ran = ranks.call("main", (0..6).map(of_rank).collect()).expect("a mesh");
    for ran in &ran {
        let Ok(Value::Tensor(sums)) = &ran.result else { panic!("{ran:?}") };
        let sums = sums.to_floats();
        let (first, second): (Vec<f64>, Vec<f64>) =
            (sums.iter().take(15).copied().collect(), sums.iter().skip(15).copied().collect());
        assert_eq!(first, second, "two groups form the same sums");
    }
}

#[test]
fn groups_of_a_mesh_form_the_same_sums() {
    let Some(report) = emulated("groups_of_a_mesh", 6, &[]) else { return };
    assert_eq!(report.lines, [""; 0]);
    // Of the first axis there are two groups of three ranks, of the second one three of two.
    assert_eq!(report.count("communicators"), 12);
}

#[test]
fn a_failing_rank() {
    if !is_on_devices() {
        return;
    }
    let body = "    y = spmd.all_reduce(x, \"mesh[0]\", 0, 3, r, \"sum\")\n    return spmd.all_reduce(y, \"mesh[0]\", 0, 3, r, \"max\")";
    let (text, mesh) = by_hand(DType::F32, body);
    let Program { module, source, .. } = loaded(&text);
    let ranks = on_devices(module, &source, &mesh, Numerics::Exact).expect("three devices");
    for _ in 0..2 {
        let ran = ranks.call("main", given(DType::F32, 100, false)).expect("a mesh of three");
        let stops = shown(ran);
        // A rank may be done before another one fails.
        assert!(stops.iter().any(|stop| stop.starts_with("rank 1: ")), "{stops:?}");
    }
}

/// Whatever fails on one rank, all end, and nobody waits for it on a device.
#[test]
fn a_rank_that_fails_ends_all() {
    for (name, call) in [
        ("EMULATED_CUDA_FAILS", "cuMemAlloc@1"),
        ("EMULATED_CUDA_FAILS", "cuLaunchKernel@1"),
        ("EMULATED_CUDA_FAILS", "cuEventQuery@1"),
        ("EMULATED_CUDA_FAILS", "cuMemHostAlloc@1"),
        ("EMULATED_NCCL_FAILS", "ncclCommInitRankConfig@1"),
        ("EMULATED_NCCL_FAILS", "ncclGroupEnd@1"),
        ("EMULATED_NCCL_FAILS", "ncclSend@1"),
        ("EMULATED_NCCL_FAILS", "ncclRecv@1"),
        ("EMULATED_NCCL_FAILS", "ncclCommGetAsyncError@1"),
    ] {
        let Some(report) = emulated("a_failing_rank", 3, &[(name, call)]) else { return };
        let is_told = |line: &String| line.starts_with("refused ");
        assert!(report.lines.iter().all(is_told) && !report.lines.is_empty(), "{call}: {report:?}");
    }
}
