//! Deduction with little known, and attributes that no one should write: what programs of the corpus
//! can't say. Convolution and attention are here too.

use crate::concrete::Concrete;
use crate::ops::{Family, Infer, Kind, Limits, Literal, Operand, apply, bind, lookup};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// What is deduced, and how many obligations are left for the run.
fn deduced(name: &str, tensors: &[Annotation], attributes: &[(&str, Literal)]) -> (String, usize) {
    let row = lookup(name).expect("invariant: the row exists");
    let operand = |annotation: &Annotation| Operand { annotation: annotation.clone(), known: None };
    let keywords = attributes.iter();
    let keywords =
        keywords.map(|(name, value)| ((*name).into(), Operand::of_known(value.known()))).collect();
    let positional = tensors.iter().map(operand).collect();
    let operands = bind(row, positional, keywords, &|literal| Operand::of_known(literal.known()))
        .expect("invariant: the arguments fit the row");
    let facts = &mut Concrete;
    let mut infer =
        Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
    let result = (row.infer)(&mut infer).expect("invariant: the call is accepted");
    (result.to_string(), infer.obligations.len())
}

fn dims(dims: &[&str]) -> Annotation {
    let dim = |text: &&str| text.parse().map_or_else(|_| Dim::var(*text), Dim::Int);
    Annotation::tensor(dims.iter().map(dim).collect(), DType::F32)
}

fn of(extents: Extents) -> Annotation {
    Annotation::Tensor(TensorType { extents, dtype: Some(DType::F32) })
}

fn check<const COUNT: usize>(
    name: &str,
    tensors: [Annotation; COUNT],
    attributes: &[(&str, Literal)],
    expected: &str,
    obligations: usize,
) {
    let found = deduced(name, &tensors, attributes);
    assert_eq!(found, (expected.to_owned(), obligations), "{name}");
}

#[test]
fn little_known_gives_little() {
    let (rank, unknown) = (of(Extents::Rank(3)), of(Extents::Unknown));
    let vector = dims(&["k"]);
    let axes: &[_] = &[("axes", Literal::Ints(&[-1]))];
    check("softmax", [rank.clone()], &[], "Tensor(ndim=3, dtype=\"f32\")", 0);
    check("softmax", [Annotation::Object], &[], "Tensor()", 0);
    let norm = [rank.clone(), vector.clone(), vector.clone()];
    check("layer_norm", norm, axes, "Tensor(ndim=3, dtype=\"f32\")", 0);
    let norm = [Annotation::Object, vector.clone(), Annotation::Object];
    check("layer_norm", norm, axes, "Tensor(dtype=\"f32\")", 0);
    check("rms_norm", [dims(&["n", "m"]), vector], &[], "Tensor((n, m), \"f32\")", 1);
    let widths = [("pad_width", Literal::Ints(&[1, 1, 0, 2]))];
    check("pad", [unknown.clone()], &widths, "Tensor(ndim=2, dtype=\"f32\")", 0);
    check("batch_flatten", [unknown.clone()], &[], "Tensor(ndim=2, dtype=\"f32\")", 0);
    check("nll_loss", [unknown.clone(), Annotation::Object], &[], "Tensor((), \"f32\")", 0);
    let none = [("reduction", Literal::Str("none"))];
    check(
        "nll_loss",
        [rank.clone(), Annotation::Object],
        &none,
        "Tensor(ndim=2, dtype=\"f32\")",
        0,
    );
    let both = "Tuple[Tensor(dtype=\"f32\"), Tensor(dtype=\"f32\")]";
    check("dropout", [unknown], &[], both, 0);
}

#[test]
fn windows_over_little_known() {
    let kernel = dims(&["8", "3", "3", "3"]);
    let unknown = of(Extents::Unknown);
    check("conv2d", [unknown, kernel.clone()], &[], "Tensor(ndim=4, dtype=\"f32\")", 0);
    let objects = [Annotation::Object, Annotation::Object];
    check(
        "conv2d",
        objects,
        &[("out_dtype", Literal::Str("i32"))],
        "Tensor(ndim=4, dtype=\"i32\")",
        0,
    );
    // Height and width fit only if they are large enough, which is left to the run.
    let image = dims(&["n", "3", "h", "32"]);
    let same = [("padding", Literal::Int(1))];
    let (found, obligations) = deduced("conv2d", &[image, kernel], &same);
    assert_eq!((&found[..12], obligations), ("Tensor((n, 8", 1), "{found}");
    assert!(found.ends_with(", 32), \"f32\")"), "{found}");
    let pool = [("pool_size", Literal::Int(2)), ("strides", Literal::Int(2))];
    check("max_pool2d", [dims(&["n", "c", "8", "6"])], &pool, "Tensor((n, c, 4, 3), \"f32\")", 0);
    let size = [("output_size", Literal::Int(1))];
    check(
        "adaptive_avg_pool2d",
        [dims(&["n", "c", "8", "6"])],
        &size,
        "Tensor((n, c, 1, 1), \"f32\")",
        0,
    );
}

#[test]
fn attention_over_little_known() {
    let (query, key) = (dims(&["2", "s", "8", "16"]), dims(&["2", "9", "4", "16"]));
    let tensors = [query.clone(), key.clone(), dims(&["2", "9", "2", "e"])];
    check("attention", tensors, &[], "Tensor((2, s, 8, e), \"f32\")", 0);
    let tensors = [query, key, Annotation::Object];
    check("attention", tensors, &[], "Tensor(ndim=4, dtype=\"f32\")", 0);
}

/// Values that a parameter of that kind may get from someone who means ill.
fn wild(kind: Kind) -> Vec<Value> {
    let ints = [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, 3, 1 << 32, i64::MAX];
    let list = |items: &[i64]| Value::Tuple(items.iter().map(|&item| Value::int(item)).collect());
    let floats = [f64::NAN, f64::INFINITY, -f64::MAX, -0.0, 1e300];
    match kind {
        Kind::Dim | Kind::OptionalDim => ints.map(Value::int).to_vec(),
        Kind::Dims | Kind::OptionalDims => {
            let lists = ints.iter().flat_map(|&int| {
                [list(&[int]), list(&[int, 1]), list(&[int, int]), list(&[int, 0, 0, int])]
            });
            lists.chain([list(&[]), list(&[0; 7])]).collect()
        }
        Kind::Float | Kind::OptionalFloat => {
            floats.map(|value| Value::Prim(DType::F64, Number::Float(value))).to_vec()
        }
        Kind::Str | Kind::OptionalStr => ["", "NCHWNCHW", "é", "\0", "TopLeft", "circular", "CN"]
            .map(|s| Value::Str(s.into()))
            .to_vec(),
        _ => Vec::new(),
    }
}

/// Every attribute of every row, alone and with every other of the row: no value may panic, and none
/// may make the run large.
#[test]
fn wild_attributes_are_refused_or_run() {
    let limits = Limits { tensor_bytes: 1 << 20, ..Limits::default() };
    let families = [Family::Nn, Family::Convolution, Family::Attention];
    let mut refused = 0;
    for row in crate::ops::all().filter(|row| families.contains(&row.family)) {
        let rank = if row.name.contains("1d") { 3 } else { 4 };
        let tensor = Value::Tensor(Tensor::full(DType::F32, &vec![2; rank], Number::Int(1)));
        let wanted = row.params.iter().take_while(|param| param.kind == Kind::Tensor);
        let tensors: Vec<Value> = wanted.map(|_| tensor.clone()).collect();
        let attributes: Vec<_> = row.params[tensors.len()..]
            .iter()
            .flat_map(|param| wild(param.kind).into_iter().map(move |value| (param.name, value)))
            .collect();
        for (index, (name, value)) in attributes.iter().enumerate() {
            for (other, second) in &attributes[index..] {
                let mut keywords = vec![((*name).into(), value.clone())];
                if other != name {
                    keywords.push(((*other).into(), second.clone()));
                }
                match apply(row, tensors.clone(), keywords, &limits, None) {
                    Ok(_) => {}
                    Err(Stop::Trap(_) | Stop::Exhausted { .. }) => refused += 1,
                    Err(other) => panic!("{}: {other}", row.name),
                }
            }
        }
    }
    assert!(refused > 1000, "only {refused} calls were refused");
}

#[test]
fn nothing_to_compute_is_done_at_once() {
    let limits = Limits::default();
    let call = |name: &str, shapes: &[&[usize]], keywords: Vec<(&str, Value)>| {
        let row = lookup(name).expect("invariant: the row exists");
        let tensors = shapes
            .iter()
            .map(|shape| Value::Tensor(Tensor::full(DType::F32, shape, Number::Int(0))));
        let keywords = keywords.into_iter().map(|(name, value)| (name.into(), value)).collect();
        match apply(row, tensors.collect(), keywords, &limits, None) {
            Ok(Value::Tensor(tensor)) => tensor.shape().to_vec(),
            other => panic!("{name}: {other:?}"),
        }
    };
    let huge = 1 << 29;
    assert_eq!(call("softmax", &[&[huge, 0]], vec![]), [huge, 0]);
    assert_eq!(call("rms_norm", &[&[huge, 0]], vec![]), [huge, 0]);
    assert_eq!(call("rms_norm", &[&[0, huge]], vec![("axes", Value::int(0))]), [0, huge]);
    let widths = Value::Tuple([0, 0, 0, 0].map(Value::int).to_vec());
    assert_eq!(call("pad", &[&[huge, 0]], vec![("pad_width", widths)]), [huge, 0]);
    assert_eq!(call("conv1d", &[&[huge, 0, 1], &[0, 0, 1]], vec![]), [huge, 0, 1]);
    assert_eq!(call("max_pool1d", &[&[huge, 0, 1]], vec![]), [huge, 0, 1]);
    let image = &[huge, 0, 1, 1];
    assert_eq!(call("adaptive_avg_pool2d", &[image], vec![]), [huge, 0, 1, 1]);
    assert_eq!(call("pixel_shuffle", &[image], vec![("upscale_factor", Value::int(1))]), image);
    assert_eq!(call("attention", &[image, image, image], vec![]), image);
}
