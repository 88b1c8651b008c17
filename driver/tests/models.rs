//! Models exported from PyTorch (`scripts/models/make.py`): one import each, then five shapes in the interpreter and
//! compiled by the same build, against what PyTorch computed. The decoder also with weights of 4 bits, as a model and as a
//! program with tensor programs of its own (`scripts/models/quantize.py`).

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::sample::Sample;
use relax_corpus::{files, requirement};
use relax_cpu::{Cache, Compiler, hardware};
use relax_driver::{KernelCheck, Target, build_cpu, lower, panel};
use relax_import::{Bytes, Options, import_model};
use relax_lower::lowered::Lowered;
use relax_lower::program::Around;
use relax_program::externals::constants;
use relax_program::frontend::{Program, RunOptions, parameters, run};
use relax_program::tensor_files::{Weights, read_npz};
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::accounts::Accounts;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// PyTorch sums f32 in its own order, the interpreter in f64: values are of the size of 1.
const TOLERANCE: f64 = 1e-5;
/// Where the code of all tests is: models have kernels in common, and all are linked with the same routines.
const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");
/// References of a model.
const SHAPES: usize = 5;

fn main() {
    let arguments = Arguments::from_args();
    let mut models: Vec<PathBuf> = fs::read_dir(folder().join("onnx"))
        .expect("the models are in the corpus")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "onnx"))
        .collect();
    models.sort();
    let exported = models.clone();
    let mut trials = vec![Trial::test("no operator is interpreted", move || compiled(&exported))];
    for path in models {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        trials.extend(both(&name, move || Model::exported(&path, &Options::default())));
    }
    trials.extend(both("llama.onnx as prefill", || llama("prefill", "past", "0")));
    trials.extend(both("llama.onnx as decode", || llama("decode", "length", "1")));
    trials.extend(both("llama_q4.rx", Model::four_bits));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A model in the interpreter and compiled.
fn both(
    name: &str,
    read: impl Fn() -> Result<Model, Failed> + Send + Clone + 'static,
) -> [Trial; 2] {
    let again = read.clone();
    [
        Trial::test(format!("{name}/interpreter"), move || interpreted(&read()?)),
        Trial::test(format!("{name}/cpu"), move || built(&again()?)),
    ]
}

/// A program of the corpus whose tensors have no known rank, so that some of its operators stay.
const UNKNOWN_RANK: &str = "suite/cliffs/layout_of_unknown_rank";

/// What `relax build --deny-fallback` would refuse of models and of programs whose dims are left open: nothing.
fn compiled(exported: &[PathBuf]) -> Result<(), Failed> {
    let mut all = Vec::new();
    // To compile one takes seconds.
    for path in Sample::of("models without interpreted operators", 3).take(exported) {
        let imported = import_model(Bytes::from(fs::read(path)?), &Options::default())?;
        all.push((path.display().to_string(), loaded(&imported.text)?));
    }
    let programs = files::programs().into_iter().map(|path| (files::name(&path), path));
    let is_meant = |name: &str| name.starts_with("models/") || name.starts_with("suite/cliffs/");
    for (name, path) in programs.filter(|(name, _)| is_meant(name)) {
        all.push((name, loaded(&fs::read_to_string(path)?)?));
    }
    for (name, program) in &all {
        let mut unwatched = Unwatched;
        let mut watch = Accounts::before(&mut unwatched);
        lower(&Target::default(), &program.module, &Settings::default(), &mut watch)
            .map_err(|failed| format!("{name}: {failed:?}"))?;
        let found: Vec<String> =
            watch.fallbacks.iter().map(|found| found.diagnostic().message).collect();
        if found.is_empty() == (name == UNKNOWN_RANK) {
            return Err(format!("{name}: {found:?}").into());
        }
    }
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models")
}

/// The exported decoder with a number in the place of a dim: one of the two functions that it serves as.
fn llama(entry: &str, dim: &str, extent: &str) -> Result<Model, Failed> {
    let dims = BTreeMap::from([(dim.to_owned(), extent.to_owned())]);
    let options = Options { entry: entry.to_owned(), dims, ..Options::default() };
    let mut model = Model::exported(&folder().join("onnx/llama.onnx"), &options)?;
    // Of the references those of such inputs: empty caches, single tokens.
    let [call] = &mut model.calls[..] else { return Err("one function was asked for".into()) };
    let axis = if entry == "prefill" { ("keys0", 2, 0) } else { ("tokens", 1, 1) };
    let references = &model.references;
    call.cases.retain(|case| {
        read_npz(references, Some(&format!("{case}/in/{}", axis.0)))
            .is_ok_and(|tensor| tensor.shape()[axis.1] == axis.2)
    });
    assert!(call.cases.len() >= 2, "{:?}", call.cases);
    Ok(model)
}

/// A function of a model, its parameters, and the names of its references.
struct Call {
    entry: String,
    parameters: Vec<String>,
    cases: Vec<String>,
}

/// A program, its weights and its references.
struct Model {
    program: Program,
    externals: BTreeMap<Name, Tensor>,
    calls: Vec<Call>,
    references: Vec<u8>,
}

fn loaded(text: &str) -> Result<Program, Failed> {
    let program = Program::load(Source::new("model.rx", text));
    match program.diagnostics.first() {
        Some(first) => Err(format!("{}: {}\n{text}", first.code, first.message).into()),
        None => Ok(program),
    }
}

impl Model {
    fn exported(path: &Path, options: &Options) -> Result<Self, Failed> {
        let imported = import_model(Bytes::from(fs::read(path)?), options)?;
        let params = imported.params.iter();
        Ok(Self {
            program: loaded(&imported.text)?,
            externals: params.map(|(name, tensor)| (Name::new(name), tensor.tensor())).collect(),
            calls: vec![Call {
                entry: options.entry.clone(),
                parameters: imported.inputs,
                cases: (0..SHAPES).map(|case| case.to_string()).collect(),
            }],
            references: fs::read(path.with_extension("npz"))?,
        })
    }

    /// The decoder whose weights of 4 bits a tensor program decodes (`scripts/models/quantize.py`).
    fn four_bits() -> Result<Self, Failed> {
        let path = folder().join("llama_q4.rx");
        let program = loaded(&fs::read_to_string(&path)?)?;
        let weights = Weights::open(&path.with_extension("safetensors"))?;
        let externals = constants(&program.module, &weights)?;
        let calls = ["prefill", "decode"].map(|entry| {
            let signature = parameters(&program.module, entry).unwrap_or_default();
            Call {
                entry: entry.to_owned(),
                parameters: signature.iter().map(|(name, _)| name.to_string()).collect(),
                cases: (0..SHAPES).map(|case| format!("{entry}/{case}")).collect(),
            }
        });
        let references = fs::read(path.with_extension("npz"))?;
        Ok(Self { program, externals, calls: calls.into(), references })
    }

    /// Holds a way of calling functions of the model against every reference.
    fn agrees(
        &self,
        call: impl Fn(&str, Vec<Value>) -> Result<Value, String>,
    ) -> Result<(), Failed> {
        for Call { entry, parameters, cases } in &self.calls {
            for case in cases {
                let arguments = parameters
                    .iter()
                    .map(|name| read_npz(&self.references, Some(&format!("{case}/in/{name}"))))
                    .map(|tensor| tensor.map(Value::Tensor))
                    .collect::<Result<_, _>>()?;
                let result = call(entry, arguments).map_err(|stop| format!("{case}: {stop}"))?;
                self.is_near(case, result).map_err(|why| format!("{case}, {why}"))?;
            }
        }
        Ok(())
    }

    fn is_near(&self, case: &str, result: Value) -> Result<(), String> {
        let results = match result {
            Value::Tuple(items) => items,
            other => vec![other],
        };
        for (place, got) in results.iter().enumerate() {
            let want = read_npz(&self.references, Some(&format!("{case}/out/{place}")))?;
            let Value::Tensor(got) = got else { return Err("a result is no tensor".into()) };
            near(&want, got).map_err(|why| format!("output {place}: {why}"))?;
        }
        Ok(())
    }
}

fn interpreted(model: &Model) -> Result<(), Failed> {
    let externals = Arc::new(model.externals.clone());
    let options = RunOptions { externals, ..RunOptions::default() };
    model.agrees(|entry, arguments| {
        let ran = run(&model.program.module, entry, arguments, &options);
        ran.result.map_err(|stop| stop.to_string())
    })
}

fn built(model: &Model) -> Result<(), Failed> {
    let Ok(compiler) = Compiler::of_system() else {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return Ok(());
    };
    // As `relax build --fast` does it.
    let params = Arc::new(model.externals.clone());
    let panel = panel(hardware().isa, None);
    let settings = Settings { params, panel, ..Settings::default() };
    let target = Target::of(Device::Cpu, Numerics::Reassociated);
    let lowered = lower(&target, &model.program.module, &settings, &mut Unwatched);
    let Lowered { module: lowered, values, .. } =
        lowered.map_err(|failed| format!("{failed:?}"))?;
    let mut externals = model.externals.clone();
    externals.extend(values);
    let around = Around {
        externals: &externals,
        source: &model.program.source,
        signatures: &model.program.module,
    };
    // Results are compared with the interpreter's.
    let image = build_cpu(
        &lowered,
        &around,
        Numerics::Reassociated,
        (&compiler, &Cache::at(COMPILED)),
        KernelCheck::Off,
    )
    .map_err(|error| error.to_string())?;
    let mut module = Module::load(&image.to_bytes())?;
    register(&mut module, &Limits::default(), &Printed::default())?;
    model.agrees(|entry, arguments| {
        let function = module.function(entry).ok_or("no such function")?;
        let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(|why| format!("{why:?}"))?;
        let result = function.call(&arguments).map_err(|stop| stop.to_string())?;
        to_semantics(&result, &mut |_| None).map_err(|why| format!("{why:?}"))
    })
}

/// Elements that differ by more than the tolerance, relative to those above 1.
fn near(want: &Tensor, got: &Tensor) -> Result<(), String> {
    if (want.dtype(), want.shape()) != (got.dtype(), got.shape()) {
        let (want, got) = ((want.dtype(), want.shape()), (got.dtype(), got.shape()));
        return Err(format!("expected {want:?}, found {got:?}"));
    }
    let is_near = |want: Number, got: Number| match (want, got) {
        (Number::Float(a), Number::Float(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(1.0),
        (a, b) => a == b,
    };
    let wrong = (0..want.len()).find(|&place| !is_near(want.number(place), got.number(place)));
    wrong.map_or(Ok(()), |place| {
        let (want, got) = (want.number(place), got.number(place));
        Err(format!("element {place}: expected {want:?}, found {got:?}"))
    })
}
