//! Models exported from PyTorch (`scripts/models/make.py`): one import each, then five shapes in the interpreter and
//! compiled by the same build, against what PyTorch computed.

use libtest_mimic::{Arguments, Failed, Trial};
use relax_build::{build_cpu, lower_for_cpu};
use relax_corpus::pipeline::{Program, RunOptions, run};
use relax_corpus::tensor_files::read_npz;
use relax_cpu::{Cache, Compiler};
use relax_emit::Sums;
use relax_import::{Bytes, Imported, Options, import_onnx};
use relax_lower::program::Around;
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::pass::Settings;
use relax_runtime::Module;
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
/// References of a model.
const SHAPES: usize = 5;

fn main() {
    let arguments = Arguments::from_args();
    let mut models: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the models are in the corpus")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "onnx"))
        .collect();
    models.sort();
    let trials = models.into_iter().flat_map(|path| {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let compiled = path.clone();
        [
            Trial::test(format!("{name}/interpreter"), move || interpreted(&Model::read(&path)?)),
            Trial::test(format!("{name}/cpu"), move || built(&Model::read(&compiled)?)),
        ]
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/models/onnx")
}

/// An imported model and its references.
struct Model {
    imported: Imported,
    program: Program,
    references: Vec<u8>,
}

impl Model {
    fn read(path: &Path) -> Result<Self, Failed> {
        let imported = import_onnx(Bytes::from(fs::read(path)?), &Options::default())?;
        let program = Program::load(Source::new("imported.rx", imported.text.as_str()));
        if let Some(first) = program.diagnostics.first() {
            return Err(format!("{}: {}\n{}", first.code, first.message, imported.text).into());
        }
        let references = fs::read(path.with_extension("npz"))?;
        Ok(Self { imported, program, references })
    }

    fn externals(&self) -> BTreeMap<Name, Tensor> {
        let params = self.imported.params.iter();
        params.map(|(name, tensor)| (Name::new(name), tensor.tensor())).collect()
    }

    /// Holds a way of running the model against every reference.
    fn agrees(&self, call: impl Fn(Vec<Value>) -> Result<Value, String>) -> Result<(), Failed> {
        for case in 0..SHAPES {
            let inputs = self.imported.inputs.iter();
            let arguments = inputs
                .map(|name| read_npz(&self.references, Some(&format!("{case}/in/{name}"))))
                .map(|tensor| tensor.map(Value::Tensor))
                .collect::<Result<_, _>>()?;
            let results = match call(arguments).map_err(|stop| format!("shape {case}: {stop}"))? {
                Value::Tuple(items) => items,
                other => vec![other],
            };
            for (place, got) in results.iter().enumerate() {
                let want = read_npz(&self.references, Some(&format!("{case}/out/{place}")))?;
                let Value::Tensor(got) = got else { return Err("a result is no tensor".into()) };
                near(&want, got).map_err(|why| format!("shape {case}, output {place}: {why}"))?;
            }
        }
        Ok(())
    }
}

fn interpreted(model: &Model) -> Result<(), Failed> {
    let options = RunOptions { externals: Arc::new(model.externals()), ..RunOptions::default() };
    model.agrees(|arguments| {
        let ran = run(&model.program.module, "main", arguments, &options);
        ran.result.map_err(|stop| stop.to_string())
    })
}

fn built(model: &Model) -> Result<(), Failed> {
    let Ok(compiler) = Compiler::of_system() else {
        eprintln!("SKIPPED: no C compiler");
        return Ok(());
    };
    let cache = tempfile::tempdir()?;
    let lowered = lower_for_cpu(&model.program.module, &Settings::default())
        .map_err(|failed| format!("{failed:?}"))?;
    let externals = model.externals();
    let around = Around {
        externals: &externals,
        source: &model.program.source,
        signatures: &model.program.module,
    };
    let image = build_cpu(&lowered, &around, Sums::AnyOrder, &compiler, &Cache::at(cache.path()))
        .map_err(|error| error.to_string())?;
    let mut module = Module::load(&image.to_bytes())?;
    register(&mut module, &Limits::default(), &Printed::default())?;
    let main = module.function("main").ok_or("no `main`")?;
    model.agrees(|arguments| {
        let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(|why| format!("{why:?}"))?;
        let result = main.call(&arguments).map_err(|stop| stop.to_string())?;
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
