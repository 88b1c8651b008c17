//! ONNX's own tests of single nodes with one attribute changed: what ONNX's reference evaluator gives, the import gives as well
//! (`scripts/varied_onnx.py` recorded it in `varied/reference.txt`). Where the import refuses the attribute, the run traps or the
//! results differ, `varied/ours.txt` says what happens instead. `RELAX_BLESS=1` rewrites that list: look at what is new there.
//!
//! `RELAX_ONNX_TESTS` names the folder that `./setup.sh onnx-tests` fetches; without it nothing is run, and said so.

#[allow(dead_code)] // of the tests as they are
#[path = "conformance/case.rs"]
mod case;
#[path = "varied/edit.rs"]
mod edit;

use case::{Case, Outcome};
use relax_import::Bytes;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const REFERENCE: &str = include_str!("varied/reference.txt");
const OURS: &str = include_str!("varied/ours.txt");

/// What the list begins with.
const HEAD: &str = "\
# Tests of ONNX with one attribute changed, which do not give what the reference evaluator gives: what happens instead.
";

/// Infinite and larger elements count as this much, and NaN as a quarter.
const LARGEST: f64 = 1e6;
/// Of the sum of magnitudes.
const TOLERANCE: f64 = 1e-3;

/// Lines of a list by what stands before the arrow.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" => ").expect("a line has an arrow"))
}

/// Dtype as NumPy says it, shape, weighted sum, and the sum of magnitudes.
fn summed(tensor: &Tensor) -> (String, f64, f64) {
    let number = |at| match tensor.number(at) {
        Number::Float(value) if value.is_nan() => 0.25,
        number => number.as_f64().clamp(-LARGEST, LARGEST),
    };
    let weighted = (0..tensor.len()).map(|at| number(at) * (1 + at % 7) as f64);
    let (sum, all) =
        weighted.fold((0.0, 0.0), |(sum, all), value| (sum + value, all + f64::abs(value)));
    let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    let shape = if shape.is_empty() { "-".to_owned() } else { shape.join("x") };
    (format!("{} {shape}", numpy(tensor.dtype().name())), sum, all)
}

fn numpy(dtype: &str) -> String {
    let kinds = [("bf", "bfloat"), ("bool", "bool"), ("f", "float"), ("i", "int"), ("u", "uint")];
    let named = kinds.iter().find_map(|(own, name)| Some((name, dtype.strip_prefix(own)?)));
    named.map_or_else(|| dtype.to_owned(), |(name, bits)| format!("{name}{bits}"))
}

/// Whether outputs are those of a line.
fn agree(outputs: &[Value], wanted: &str) -> bool {
    let wanted: Vec<&str> = wanted.split("; ").collect();
    wanted.len() == outputs.len()
        && wanted.iter().zip(outputs).all(|(wanted, output)| {
            let (Value::Tensor(tensor), Some((form, total))) = (output, wanted.rsplit_once(' '))
            else {
                return false;
            };
            let (own, sum, all) = summed(tensor);
            let total: f64 = total.parse().expect("a sum is a number");
            own == form && (sum - total).abs() <= TOLERANCE * (all + 1e-3)
        })
}

fn shown(outputs: &[Value]) -> String {
    let one = |output: &Value| match output {
        Value::Tensor(tensor) => {
            let (form, sum, _) = summed(tensor);
            format!("{form} {sum:.4e}")
        }
        other => other.kind().to_owned(),
    };
    outputs.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What a test gives with an edit; `None` where that is what the reference evaluator gives.
fn found(case: Case, edit: &str, wanted: &str) -> Option<String> {
    let model = edit::edited(case.model(), edit);
    let case = case.of(Bytes::from(model));
    let results = catch_unwind(AssertUnwindSafe(|| case.results()));
    match results.unwrap_or_else(|_| Err(Outcome::Fail("a panic".to_owned()))) {
        Ok((outputs, _)) if agree(&outputs, wanted) => None,
        Ok((outputs, _)) => Some(shown(&outputs)),
        Err(outcome) => Some(outcome.to_string().replace('\n', " ")),
    }
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("RELAX_ONNX_TESTS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: RELAX_ONNX_TESTS does not name the tests of ONNX");
    }
    folder
}

/// Lines that are blessed, of all tests that run in this process.
static BLESSED: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());

/// Tests whose names begin so.
fn held(begin: &str) {
    let Some(folder) = folder() else { return };
    let known: BTreeMap<&str, &str> = lines(OURS).collect();
    let begin = format!("test_{begin}");
    let (mut wrong, mut ours, mut count) = (Vec::new(), BTreeMap::new(), 0);
    for (at, (key, wanted)) in lines(REFERENCE).enumerate() {
        let (name, edit) = key.split_once(' ').expect("a test and its edit");
        if !name.starts_with(&begin) {
            continue;
        }
        count += 1;
        let found = found(Case::at(&folder, name), edit, wanted);
        if found.as_deref() != known.get(key).copied() {
            wrong.push(format!("{key}: {found:?}, reference: {wanted}"));
        }
        ours.extend(found.map(|found| (at, format!("{key} => {found}\n"))));
    }
    assert!(count > 0, "no test begins with {begin}");
    if std::env::var_os("RELAX_BLESS").is_some() {
        bless(ours);
    } else {
        assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Adds these lines to the list, which is complete when all tests have run.
fn bless(ours: BTreeMap<usize, String>) {
    let mut all = BLESSED.lock().expect("no test panics while it holds the list");
    all.extend(ours);
    let text: String = all.values().map(String::as_str).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/varied/ours.txt");
    std::fs::write(path, format!("{HEAD}{text}")).expect("the folder is writable");
}

macro_rules! held {
    ($($begin:ident)*) => {
        $(#[test]
        fn $begin() {
            held(stringify!($begin));
        })*

        #[test]
        fn every_line_is_of_some_test() {
            let begins = [$(stringify!($begin)),*];
            for (key, _) in lines(REFERENCE) {
                let of = begins.iter().filter(|begin| key.starts_with(&format!("test_{begin}")));
                assert_eq!(of.count(), 1, "{key}");
            }
        }
    };
}

held! {
    af ar at av ba bi bl ca ce co cu de df dr ed ei el ey fl ga ge gr ha im ins is la le lo lp lr ls ma me mo mv nl no on ql qu re rm rn ro sc se sh si so sp st th to tr un up
}
