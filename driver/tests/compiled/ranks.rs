//! Compiled ranks against interpreted ones: for every size of the programs of the sharding tests on every mesh; each collective for
//! each dtype, bit for bit; and ranks that disagree, which stop in the same way.

use crate::by_hand::{
    beside, by_hand, collectives, disagreements, given, numbers, posted, shown, tensor,
};
use crate::{pipelines, programs};
use relax_corpus::sample::Sample;
use relax_cpu::{Cache, Compiler};
use relax_driver::ranks::Ranks;
use relax_driver::{Bound, KernelCheck, Target, Toolchain, compile};
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, RunOptions, run as run_on_one};
use relax_rewrite::inlined::inlined;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Limits;
use relax_runtime::program::Numerics;
use relax_semantics::interp::Options;
use relax_semantics::ops;
use relax_semantics::ranks::{Mesh, RanRank, run as interpret};
use relax_semantics::value::Value;
use relax_sharding::run::{run as run_interpreted, run_by};
use relax_sharding::shard;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// A program that is loaded, and a folder for what is compiled of it.
struct Local {
    module: Module,
    ranks: Ranks,
}

pub(crate) fn loaded(text: &str) -> Program {
    let program = Program::load(Source::new("program", text));
    assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
    program
}

impl Local {
    fn of(module: Module, source: Source, mesh: &Mesh, cache: &Cache) -> Self {
        let compiler = Compiler::of_system().expect("a C compiler");
        let tools = Toolchain { compiler, cache: cache.clone(), check: KernelCheck::default() };
        let target = Target::of(Device::Cpu, Numerics::Exact).by(tools);
        let program = Program { source, module, diagnostics: Vec::new(), left: Vec::new() };
        let image = compile(&program, &target, &Bound::default(), &mut Unwatched)
            .and_then(relax_driver::Artifact::into_file)
            .unwrap_or_else(|error| panic!("{error}\n{}", program.source.text));
        let limits = (Limits::default(), ops::Limits::default());
        let ranks = Ranks::load(&image, mesh, limits.0, &limits.1).expect("it loads");
        Self { module: program.module, ranks }
    }
}

/// Whether both give a value, and these are alike.
pub(crate) fn agree(
    relation: Relation,
    expected: &Result<Value, impl std::fmt::Debug>,
    found: &Result<Value, impl std::fmt::Debug>,
) -> Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) => compare(relation, expected, found),
        (expected, found) => Err(format!("{found:?} is not {expected:?}")),
    }
}

/// Demands for every size that compiled ranks give what interpreted ones give.
fn agrees_on_every_size(case: &programs::Case, cache: &Cache) {
    let program = loaded(&case.text);
    let function = program.module.function("main").expect("a main");
    let sharded = shard(&program.module, function, &BTreeMap::new(), &mut Prover::new());
    let sharded = sharded.unwrap_or_else(|refused| panic!("{refused:?}\n{}", case.text));
    let (plan, mesh) = (&sharded.plan, &sharded.plan.axes.fixed().expect("literal extents"));
    let local = Local::of(sharded.local.clone(), program.source.clone(), mesh, cache);
    let relation = if case.is_exact { Relation::Equal } else { Relation::Close };
    for n in 0..=33 {
        let shapes = (case.shapes)(n);
        let arguments: Vec<Value> =
            shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
        let options = Options::default();
        let expected =
            run_interpreted(function, (plan, mesh), &sharded.local, &arguments, &options).result;
        let found =
            run_by(function, (plan, mesh), &arguments, |given| local.ranks.call("main", given))
                .result;
        agree(relation, &expected, &found)
            .unwrap_or_else(|why| panic!("{} at {n}: {why}\n{}", case.name, case.text));
    }
}

#[test]
fn every_size_on_every_mesh_gives_what_interpreted_ranks_give() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let mut cases = 0;
    for case in Sample::of("compiled ranks", 5).take(programs::cases()) {
        agrees_on_every_size(&case, &cache);
        cases += 1;
    }
    for case in Sample::of("compiled stages", 5).take(pipelines::pipelines()) {
        agrees_on_every_size(&case, &cache);
        cases += 1;
    }
    assert!(cases >= 8, "{cases} cases");
}

/// Layers are functions; one has two results, and the cut of its columns is one of heads.
const LAYERS: &str = r#"module_attr("mesh[0]", "2")

def attention(x: Tensor(("b", "n", 8), "f32"), w: Tensor((8, 24), "f32"), o: Tensor((8, 8), "f32")):
    b, n = sym_var(), sym_var()
    parts = split(reshape(matmul(x, w), shape(b, n, 4, 6)), 3, axis=-1)
    q = permute_dims(parts[0], axes=[0, 2, 1, 3])
    k = permute_dims(parts[1], axes=[0, 2, 3, 1])
    v = permute_dims(parts[2], axes=[0, 2, 1, 3])
    heads = permute_dims(matmul(softmax(matmul(q, k)), v), axes=[0, 2, 1, 3])
    return (add(x, matmul(reshape(heads, shape(b, n, 8)), o)), sum(x, axis=[2]))

def layer(x: Tensor(("b", "n", 8), "f32"), w: Tensor((8, 24), "f32"), o: Tensor((8, 8), "f32")):
    w_cut = annotate_sharding(w, "mesh[0]", "S[1]")
    o_cut = annotate_sharding(o, "mesh[0]", "S[0]")
    y = attention(x, w_cut, o_cut)
    return (relu(y[0]), y[1])

def main(x: Tensor(("b", "n", 8), "f32"), w: Tensor((8, 24), "f32"), o: Tensor((8, 8), "f32")):
    a = layer(x, w, o)
    c = layer(a[0], w, o)
    return (c[0], add(a[1], c[1]))
"#;

#[test]
fn calls_are_inlined_and_heads_stay_on_their_ranks() {
    let program = loaded(LAYERS);
    let module = inlined(&program.module, "main", &mut Prover::new()).expect("the passes take it");
    let function = module.function("main").expect("a main");
    let sizes = BTreeMap::from([("b".into(), 1), ("n".into(), 2)]);
    let sharded = shard(&module, function, &sizes, &mut Prover::new());
    let sharded = sharded.unwrap_or_else(|refused| panic!("{refused:?}"));
    let (plan, mesh) = (&sharded.plan, &sharded.plan.axes.fixed().expect("literal extents"));
    // As of two all-reduces.
    let at = |name: &Name| match name.as_str() {
        "b" => Some(5),
        "n" => Some(7),
        _ => None,
    };
    assert_eq!(plan.bytes(&mut Prover::new()).eval(&at), Ok(2 * 2 * 5 * 7 * 8 * 4));
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let local = Local::of(sharded.local.clone(), program.source.clone(), mesh, &cache);
    for (b, n) in [(0, 3), (1, 1), (2, 5), (3, 0), (5, 7)] {
        let shapes = [vec![b, n, 8], vec![8, 24], vec![8, 8]];
        let arguments: Vec<Value> =
            shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
        let run = RunOptions::default();
        let expected = run_on_one(&program.module, "main", arguments.clone(), &run).result;
        let found =
            run_by(function, (plan, mesh), &arguments, |given| local.ranks.call("main", given))
                .result;
        agree(Relation::Close, &expected, &found).unwrap_or_else(|why| panic!("{b}, {n}: {why}"));
    }
}

fn local(dtype: DType, body: &str, cache: &Cache) -> (Local, Mesh) {
    let (text, mesh) = by_hand(dtype, body);
    let program = loaded(&text);
    (Local::of(program.module, program.source, &mesh, cache), mesh)
}

/// What interpreted ranks give, and compiled ones.
fn both((local, mesh): &(Local, Mesh), given: &[Vec<Value>]) -> [Vec<RanRank>; 2] {
    let options = Options::default();
    let expected = interpret(&local.module, mesh, "main", given.to_vec(), &options);
    [expected, local.ranks.call("main", given.to_vec())].map(|ran| ran.expect("a mesh of three"))
}

#[test]
fn collectives_have_the_bits_of_the_interpreter_for_each_dtype() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let mut compared = 0;
    for dtype in DType::ALL {
        let bodies = collectives(dtype).into_iter().flat_map(|(body, is_shard)| {
            let later = posted(&body);
            [(body, is_shard), (later, is_shard)]
        });
        for (body, is_shard) in bodies {
            let local = local(dtype, &body, &cache);
            for n in [0, 1, 4, 7] {
                let [expected, found] = both(&local, &given(dtype, n, is_shard));
                for (rank, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    agree(Relation::Equal, &expected.result, &found.result)
                        .unwrap_or_else(|why| panic!("rank {rank}, {n} rows: {why}\n{body}"));
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 2 * (12 * 12 + 6) * 4 * 3);
}

#[test]
fn ranks_that_disagree_stop_as_interpreted_ones_do() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let later: Vec<String> = disagreements().iter().map(|body| posted(body)).collect();
    for body in disagreements().into_iter().chain(later) {
        let local = local(DType::I64, &body, &cache);
        let stops = both(&local, &numbers(2)).map(shown);
        assert_eq!(stops[0], stops[1], "{body}");
        assert!(!stops[0].is_empty(), "{body}");
        // Other shapes.
        let stops = both(&local, &numbers(5)).map(shown);
        assert_eq!(stops[0], stops[1], "{body}");
    }
}

/// The first trap of the text counts, whatever the machine came to meanwhile.
#[test]
fn what_a_rank_computes_beside_a_collective_stops_as_after_it() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    for body in beside() {
        let local = local(DType::I64, &body, &cache);
        // Those of other shapes stop in the first collective.
        for rows in [2, 5] {
            let [expected, found] = both(&local, &numbers(rows));
            for (expected, found) in expected.iter().zip(&found) {
                if expected.result.is_ok() {
                    agree(Relation::Equal, &expected.result, &found.result)
                        .unwrap_or_else(|why| panic!("{why}\n{body}"));
                }
            }
            assert!(rows == 2 || expected.iter().all(|ran| ran.result.is_err()), "{body}");
            assert_eq!(shown(expected), shown(found), "{rows} rows\n{body}");
        }
    }
}
