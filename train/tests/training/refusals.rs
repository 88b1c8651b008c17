//! Wrong configurations and data: each has an error that says what is wrong and, in a configuration, where.

use super::folder::{CONFIG, Folder, Mistake, refusal, refuse_edits};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use relax_train::TrainError;

/// Edits of the configuration, what is said, and the text at the place.
const EDITS: &[Mistake] = &[
    ("steps = 12", "stepz = 12", "`steps` is missing: an integer of at least 1", "\n"),
    ("seed = 3", "sed = 3", "`sed` is no key of a configuration", "sed"),
    ("rate = 0.1", "rate = 0.1\nrat = 1", "`optimizer.rat` is no key of a configuration", "rat"),
    ("every = 5", "every = 5\nevry = 1", "`checkpoint.evry` is no key of a configuration", "evry"),
    (
        "steps = 12",
        "steps = \"x\"",
        "`steps` must be an integer of at least 1, found \"x\"",
        "\"x\"",
    ),
    ("steps = 12", "steps = 0", "`steps` must be an integer of at least 1, found 0", "0"),
    (
        "[4, 3]",
        "0",
        "`data.batch_size` must be an integer of at least 1, or a list of such integers, found 0",
        "0",
    ),
    (
        "[4, 3]",
        "[]",
        "`data.batch_size` must be an integer of at least 1, or a list of such integers, found an array of 0",
        "[]",
    ),
    (
        "[4, 3]",
        "[4, -1]",
        "`data.batch_size` must be an integer of at least 1, or a list of such integers, found an array of 2",
        "[4, -1]",
    ),
    ("\nbatch_size = [4, 3]", "", "`data.batch` needs `data.batch_size` beside it", "\"b\""),
    ("\nlength = \"t\"", "", "`data.length_size` needs `data.length` beside it", "[5, 9, 2]"),
    (
        "batch = \"b\"",
        "batch = \"c\"",
        "no tensor of the data has an axis that is the symbolic variable `c` (`data.batch`)",
        "\"c\"",
    ),
    ("files = \"data.npz\"", "files = \"*.npy\"", "`*.npy`: no file has such a name", "\"*.npy\""),
    (
        "files = \"data.npz\"",
        "files = []",
        "`data.files` must be a text, or a list of texts, found an array of 0",
        "[]",
    ),
    (
        "rate = 0.1",
        "rate = nan",
        "`optimizer.rate` must be a number of at least 0, found NaN",
        "nan",
    ),
    (
        "warm_up = 2",
        "warm_up = 13",
        "`optimizer.warm_up` has 13 steps, and the run has 12 (`steps`)",
        "13",
    ),
    (
        "schedule = \"cosine\"",
        "last_rate = 0.1",
        "`optimizer.last_rate` needs a `schedule` that is `linear` or `cosine`",
        "0.1",
    ),
    (
        "schedule = \"cosine\"",
        "schedule = \"cos\"",
        "`optimizer.schedule` must be `constant`, `linear` or `cosine`, found \"cos\"",
        "\"cos\"",
    ),
    ("name = \"adamw\"", "name = \"adam\"", "`adam` is no built-in optimizer", "\"adam\""),
    ("name = \"adamw\"", "name = \"adamw\"\nfile = \"none.rx\"", "cannot read ", "\"none.rx\""),
    ("clip_norm = 1.0", "parameters = { beta3 = 1 }", "`adamw` has no scalar `beta3`", "beta3"),
    ("\"zeros\"", "\"zero\"", "`zero` makes no value; did you mean `zeros`?", "\"zero\""),
    (
        "bias = \"zeros\"",
        "tokens = \"zeros\"",
        "`tokens` is `Tensor((b, t), \"i64\")`, which is no weight: gradients are of float tensors only",
        "tokens",
    ),
    (
        "bias = \"zeros\"",
        "bais = \"zeros\"",
        "no parameter of `main` that can be a weight is named `bais`, or an earlier pattern names it",
        "bais",
    ),
    (
        "bias = \"zeros\"\n\"*\" = \"normal(0.5)\"",
        "",
        "`weights` is missing: a table of names, or patterns of names, and how these weights begin",
        "\n",
    ),
    (
        "backend = \"interp\"",
        "backend = \"interp\"\nexact = false",
        "the interpreter does not reassociate sums: `exact = false` needs `backend = \"cpu\"`",
        "false",
    ),
    (
        "backend = \"interp\"",
        "backend = \"cuda\"",
        "`backend` must be `interp` or `cpu`, found \"cuda\"",
        "\"cuda\"",
    ),
    ("seed = 3", "entry = \"man\"", "the program has no function `man`", "\"man\""),
    (
        "[checkpoint]\nfolder = \"out\"\nevery = 5",
        "",
        "the table `[checkpoint]` is missing: `folder`",
        "\n",
    ),
    ("seed = 3", "seed = = 3", "extra `=`, expected nothing", "="),
];

#[test]
fn mistakes_in_configurations_have_a_place() {
    refuse_edits(Folder::new, CONFIG, EDITS);
}

/// A text of one's own: what is no optimizer is refused before the first step.
#[test]
fn functions_that_are_no_optimizers_are_refused() {
    let vector = "Tensor((\"n\",), \"f32\")";
    let cases = [
        (format!("p: {vector}"), "it has 1 parameters"),
        (format!("p: {vector}, g: Tensor((\"m\",), \"f32\")"), "its parameter `g`"),
        (format!("p: {vector}, g: {vector}, k: Tensor((), \"i64\")"), "its parameter `k`"),
        (format!("p: {vector}, g: {vector}, k: Tensor((), \"f32\")"), "needs values of `k`"),
    ];
    for (parameters, expected) in cases {
        let folder = Folder::new();
        folder.edit("name = \"adamw\"", "name = \"own\"\nfile = \"own.rx\"");
        folder.write("own.rx", &format!("def own({parameters}):\n    return p\n"));
        let why = refusal(folder.session());
        assert!(why.contains(expected), "{why}");
    }
    let folder = Folder::new();
    folder.edit("name = \"adamw\"", "name = \"own\"\nfile = \"own.rx\"");
    folder.write("own.rx", &format!("def own(p: {vector}, g: {vector}):\n    return sum(p)\n"));
    let why = refusal(folder.train(None, 12));
    assert!(why.starts_with("the optimizer `own` must give the weight and 0 vectors"), "{why}");
    folder.write("own.rx", &format!("def own(p: {vector}, g: {vector}):\n    return q\n"));
    assert!(matches!(folder.session(), Err(TrainError::Optimizer(_))));
    folder.write(
        "own.rx",
        &format!("def own(p: {vector}, g: {vector}):\n    return subtract(p, g)\n"),
    );
    folder.train(None, 2).expect("it is an optimizer");
}

#[test]
fn data_that_does_not_fit_is_refused() {
    let ints = |shape: &[usize]| Tensor::full(DType::I64, shape, Number::Int(1));
    let halves = ArrayD::from_elem(IxDyn(&[10, 12]), 0.5);
    let floats = Tensor::from_floats(DType::F32, halves);
    let cases = [
        (vec![("tokens", ints(&[10, 12]))], "there is no `targets`; there is `tokens`"),
        (
            vec![("tokens", ints(&[10, 12])), ("targets", ints(&[9, 12]))],
            "`tokens` has 10 of `b`, and `targets` has 9",
        ),
        (
            vec![("tokens", ints(&[10, 12])), ("targets", ints(&[10, 11]))],
            "`tokens` has 12 of `t`, and `targets` has 11",
        ),
        (
            vec![("tokens", ints(&[0, 12])), ("targets", ints(&[0, 12]))],
            "there are no examples in it",
        ),
        (
            vec![("tokens", ints(&[10, 4])), ("targets", ints(&[10, 4]))],
            "step 1 takes windows of 5 of `t`, and the file has 4",
        ),
        (
            vec![("tokens", ints(&[10])), ("targets", ints(&[10]))],
            "`tokens` must be `Tensor((b, t), \"i64\")`, found i64 of shape (10,)",
        ),
        (
            vec![("tokens", floats), ("targets", ints(&[10, 12]))],
            "`tokens` must be `Tensor((b, t), \"i64\")`, found f32 of shape (10, 12)",
        ),
    ];
    for (tensors, expected) in cases {
        let folder = Folder::new();
        folder.tensors("data.npz", &tensors);
        let why = refusal(folder.train(None, 12));
        assert!(why.contains(expected) && why.contains("data.npz"), "{why}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn weights_of_files_must_fit() {
    let bias = |shape: &[usize], dtype| Tensor::full(dtype, shape, Number::Float(0.5));
    for (tensor, expected) in [
        (bias(&[4], DType::F32), "is f32 of shape (5,), found f32 of shape (4,)"),
        (bias(&[5], DType::F64), "is f32 of shape (5,), found f64 of shape (5,)"),
        (bias(&[5], DType::F32), ""),
    ] {
        let folder = Folder::new();
        folder.edit("\"zeros\"", "\"@begin.npz:b\"");
        folder.tensors("begin.npz", &[("b", tensor)]);
        match folder.session() {
            Ok(_) => assert_eq!(expected, ""),
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        }
    }
}
