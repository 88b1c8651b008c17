//! One test of ONNX: a folder with a model, inputs, and outputs.

use relax_import::{
    Bytes, Given, ImportError, Imported, Kind, Options, import_model, input_names, kinds,
    read_value,
};
use relax_program::frontend::{Program, RunOptions, parameters, run};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As the runner of ONNX compares floats.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;
/// More is a test that does not end.
const STEPS: u64 = 200_000_000;

/// A test.
pub(crate) struct Case {
    pub(crate) name: String,
    folder: PathBuf,
    model: Bytes,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The outputs are right. Inputs that decide shapes or axes were given to the import, which knows
    /// only programs of fixed rank.
    Pass(Vec<String>),
    /// The model was refused, with this reason.
    Unsupported(String),
    /// Anything else.
    Fail(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Pass(bound) if bound.is_empty() => f.write_str("pass"),
            Outcome::Pass(bound) => write!(f, "pass, with {} given", bound.join(", ")),
            Outcome::Unsupported(why) => write!(f, "unsupported: {why}"),
            Outcome::Fail(why) => write!(f, "fail: {why}"),
        }
    }
}

/// The inputs of a test by name, each as far as it reads.
type Inputs = BTreeMap<String, Result<Option<Value>, String>>;

/// The tests of a folder, in the order of their names.
pub(crate) fn read(folder: &Path) -> Vec<Case> {
    let entries = fs::read_dir(folder.join("node")).expect("the folder of tests can be read");
    let mut cases: Vec<Case> = entries
        .filter_map(|entry| {
            let folder = entry.expect("the folder of tests can be read").path();
            Case::read(folder)
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

impl Case {
    fn read(folder: PathBuf) -> Option<Self> {
        let model = Bytes::from(fs::read(folder.join("model.onnx")).ok()?);
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some(Self { name, folder, model })
    }

    /// The test of this name among those of a folder.
    pub(crate) fn at(folder: &Path, name: &str) -> Self {
        Self::read(folder.join("node").join(name)).expect("the test is there")
    }

    /// The same test of another model.
    pub(crate) fn of(self, model: Bytes) -> Self {
        Self { model, ..self }
    }

    pub(crate) fn run(&self) -> Outcome {
        let run = AssertUnwindSafe(|| self.outcome());
        catch_unwind(run).unwrap_or_else(|_| Outcome::Fail("a panic".to_owned()))
    }

    /// The operator sets of the model, and its operators: what the table is made of.
    pub(crate) fn model(&self) -> &Bytes {
        &self.model
    }

    fn data(&self, kind: &str, kinds: &[Kind]) -> Vec<Result<Option<Value>, String>> {
        let set = self.folder.join("test_data_set_0");
        kinds
            .iter()
            .enumerate()
            .map(|(index, of)| (fs::read(set.join(format!("{kind}_{index}.pb"))), *of))
            .take_while(|(bytes, _)| bytes.is_ok())
            .map(|(bytes, of)| read_value(Bytes::from(bytes.expect("it is there")), of))
            .collect()
    }

    fn outcome(&self) -> Outcome {
        match self.results() {
            Ok((results, bound)) => match self.compared(results) {
                Ok(()) => Outcome::Pass(bound),
                Err(why) => Outcome::Fail(why),
            },
            Err(outcome) => outcome,
        }
    }

    /// The outputs for the inputs of the test, and the inputs that were given to the import.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn results(&self) -> Result<(Vec<Value>, Vec<String>), Outcome> {
        let fail = |error: ImportError| Outcome::Fail(error.to_string());
        let names = input_names(self.model.clone()).map_err(fail)?;
        let (inputs, outputs) = kinds(self.model.clone()).map_err(fail)?;
        let values: Inputs = names.into_iter().zip(self.data("input", &inputs)).collect();
        let (imported, bound) = self.imported(&values)?;
        let mut arguments = Vec::new();
        for name in &imported.inputs {
            match values.get(name) {
                Some(Ok(Some(value))) => arguments.push(value.clone()),
                Some(Ok(None)) => arguments.push(Value::Tuple(Vec::new())),
                Some(Err(why)) => return Err(Outcome::Unsupported(why.clone())),
                None => return Err(Outcome::Fail(format!("no value for `{name}`"))),
            }
        }
        match ran(&imported, arguments).map_err(Outcome::Fail)? {
            Value::Tuple(items) if outputs.len() > 1 => Ok((items, bound)),
            other => Ok((vec![other], bound)),
        }
    }

    /// The program, for which the values of some inputs may be needed.
    fn imported(&self, values: &Inputs) -> Result<(Imported, Vec<String>), Outcome> {
        let mut options = Options::default();
        let mut bound = Vec::new();
        loop {
            match import_model(self.model.clone(), &options) {
                Ok(imported) => return Ok((imported, bound)),
                Err(ImportError::Needs(inputs)) => {
                    for input in inputs {
                        let Some(Ok(Some(Value::Tensor(tensor)))) = values.get(&input) else {
                            return Err(Outcome::Unsupported(format!("no value for `{input}`")));
                        };
                        options.bind.insert(input.clone(), tensor.clone());
                        bound.push(input);
                    }
                }
                Err(ImportError::Untyped(inputs)) => {
                    for input in inputs {
                        let given = match values.get(&input) {
                            Some(Ok(None)) => Given::Nothing,
                            Some(Ok(Some(value))) => Given::Type(type_of(value)),
                            Some(Err(why)) => return Err(Outcome::Unsupported(why.clone())),
                            None => return Err(Outcome::Fail(format!("no value for `{input}`"))),
                        };
                        options.types.insert(input.clone(), given);
                        bound.push(format!("the type of {input}"));
                    }
                }
                Err(ImportError::Unsupported(missing)) => {
                    let why = missing.iter().map(|m| format!("{}: {}", m.operator, m.why));
                    return Err(Outcome::Unsupported(why.collect::<Vec<_>>().join("; ")));
                }
                Err(
                    ImportError::Malformed(why) | ImportError::Limit(why) | ImportError::Bound(why),
                ) => {
                    return Err(Outcome::Unsupported(why));
                }
            }
        }
    }

    fn compared(&self, results: Vec<Value>) -> Result<(), String> {
        let outputs = kinds(self.model.clone()).map_err(|error| error.to_string())?.1;
        let wanted = self.data("output", &outputs);
        if wanted.len() > results.len() {
            return Err(format!("{} outputs, expected {}", results.len(), wanted.len()));
        }
        for (index, (want, got)) in wanted.into_iter().zip(results).enumerate() {
            same(&want?.unwrap_or(Value::Tuple(Vec::new())), &got)
                .map_err(|why| format!("output {index}: {why}"))?;
        }
        Ok(())
    }
}

/// Runs a program in the interpreter.
fn ran(imported: &Imported, arguments: Vec<Value>) -> Result<Value, String> {
    let externals = imported.params.iter();
    let externals: BTreeMap<Name, Tensor> =
        externals.map(|(name, tensor)| (Name::new(name), tensor.tensor())).collect();
    let program = Program::load(Source::new("imported.rx", imported.text.as_str()));
    if let Some(first) = program.diagnostics.first() {
        return Err(format!("{}: {}", first.code, first.message));
    }
    let parameters = parameters(&program.module, "main").unwrap_or_default();
    let arguments = arguments.into_iter().zip(parameters).map(|(value, (_, annotation))| {
        match (value, annotation.as_tensor().and_then(|tensor| tensor.dtype)) {
            (Value::Tensor(bits), Some(DType::BF16)) => Value::Tensor(as_bf16(&bits)),
            (value, _) => value,
        }
    });
    let options =
        RunOptions { externals: Arc::new(externals), steps: Some(STEPS), ..RunOptions::default() };
    let ran = run(&program.module, "main", arguments.collect(), &options);
    ran.result.map_err(|stop| stop.to_string())
}

/// The annotation of a tensor or a tuple of them.
fn type_of(value: &Value) -> Annotation {
    match value {
        Value::Tensor(tensor) => {
            let dims = tensor.shape().iter().map(|&extent| Dim::Int(extent as i64)).collect();
            Annotation::tensor(dims, tensor.dtype())
        }
        Value::Tuple(items) => Annotation::Tuple(items.iter().map(type_of).collect()),
        _ => Annotation::Object,
    }
}

/// Tensors and lists of them.
fn same(want: &Value, got: &Value) -> Result<(), String> {
    match (want, got) {
        (Value::Tensor(want), Value::Tensor(got)) => agree(want, got),
        (Value::Tuple(want), Value::Tuple(got)) if want.len() == got.len() => {
            want.iter().zip(got).try_for_each(|(want, got)| same(want, got))
        }
        (want, got) => Err(format!("expected {}, found {}", want.kind(), got.kind())),
    }
}

/// Test data has bf16 as the u16 of its bits.
fn as_bf16(tensor: &Tensor) -> Tensor {
    let bits = tensor.to_ints().mapv(|bits| f64::from(f32::from_bits((bits as u32) << 16)));
    Tensor::from_floats(DType::BF16, bits)
}

fn agree(want: &Tensor, got: &Tensor) -> Result<(), String> {
    let converted;
    let want = if want.dtype() == DType::U16 && got.dtype() == DType::BF16 {
        converted = as_bf16(want);
        &converted
    } else {
        want
    };
    if want.dtype() != got.dtype() || want.shape() != got.shape() {
        return Err(format!(
            "expected {:?} of {}, found {:?} of {}",
            want.shape(),
            want.dtype(),
            got.shape(),
            got.dtype()
        ));
    }
    let near = |want: Number, got: Number| match (want, got) {
        (Number::Float(a), Number::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= ABSOLUTE + RELATIVE * a.abs()
        }
        (a, b) => a == b,
    };
    let wrong = (0..want.len()).find(|&place| !near(want.number(place), got.number(place)));
    wrong.map_or(Ok(()), |place| {
        let (want, got) = (want.number(place), got.number(place));
        Err(format!("element {place}: expected {want:?}, found {got:?}"))
    })
}
