//! Adjoints of linear operators are proved for all extents. For an operator `L` that is linear in `x`, the gradient of the
//! inner product `⟨L x, g⟩` by `x` must be `Lᵀ g`. The pass `gradient` makes it; the prover of rewrite rules decides, over
//! the real numbers, `⟨L x, g⟩ = ⟨x, d⟩`, where `d` reads another tensor `w` in the place of `x`. Then `d` does not
//! depend on `x`, and is the transpose. `docs/TRAINING.md` has a table of the calls that are proved, which `RELAX_BLESS=1` writes.

#[path = "gradient_cases/bindings.rs"]
mod bindings;
#[path = "gradient_cases/calls.rs"]
mod calls;
mod legalized_cases;

use bindings::{bindings, other};
use calls::own;
use legalized_cases::{Case, cases};
use relax_corpus::par_map::par_map_chunks;
use relax_corpus::sample::{Sample, is_whole};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::ast::StatementKind;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Function;
use relax_syntax::raise::raise_module;
use relax_syntax::span::Source;
use relax_theorems::rules::{Refusal, Rule, Verdict, evaluate, judge, mutants, prove, read_rules};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/TRAINING.md");
/// The first line of the table.
const HEADING: &str = "| operator | proved | of calls |";

/// Operators that are linear in each operand alone.
const IN_EACH: &[&str] = &[
    "broadcast_to",
    "collapse_sum_like",
    "collapse_sum_to",
    "cumsum",
    "dynamic_strided_slice",
    "einsum",
    "expand_dims",
    "flatten",
    "flip",
    "linear",
    "matmul",
    "mean",
    "multiply",
    "negative",
    "nn.adaptive_avg_pool2d",
    "nn.avg_pool1d",
    "nn.avg_pool2d",
    "nn.batch_flatten",
    "nn.conv1d",
    "nn.conv1d_transpose",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.conv3d",
    "nn.pad",
    "nn.pixel_shuffle",
    "outer",
    "permute_dims",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "strided_slice",
    "sum",
    "tile",
    "tril",
    "triu",
];

/// Operators that are linear in all operands together.
const TOGETHER: &[&str] = &["add", "concat", "stack", "subtract"];

/// Operators that divide by extents, and are no numbers where an extent is 0.
const NOT_EMPTY: &[&str] = &["mean", "nn.adaptive_avg_pool2d", "nn.avg_pool1d", "nn.avg_pool2d"];

/// Extents into which the window of a case does not fit where they are 0: such a call is refused.
const WINDOWS: &[(&str, &str)] = &[("nn.conv2d", "h")];

/// A parameter of a call: its name and annotation.
type Param = (String, TensorType);

/// A call whose dims are symbols, and the annotations of its results.
struct Call<'c> {
    case: &'c Case,
    params: Vec<Param>,
    fields: Vec<TensorType>,
    is_tuple: bool,
}

fn float(annotation: &Annotation) -> Option<TensorType> {
    annotation.as_tensor().filter(|tensor| tensor.dtype == Some(DType::F64)).cloned()
}

fn read(case: &Case) -> Option<Call<'_>> {
    let program = Program::load(Source::new("case", case.text("f64")));
    let function = program.module.function("f").filter(|_| !program.has_errors())?;
    let params = tensors(function);
    let results = deduced(function);
    let (fields, is_tuple) = match results? {
        Annotation::Tuple(fields) => (fields.iter().map(float).collect::<Option<Vec<_>>>()?, true),
        one => (vec![float(&one)?], false),
    };
    Some(Call { case, params, fields, is_tuple })
}

fn tensors(function: &Function) -> Vec<Param> {
    let params = function.lambda.params.iter();
    let tensor = |id: &_| {
        let tensor = function.param_annotation(*id).as_tensor()?.clone();
        Some((function.var(*id).name.to_string(), tensor))
    };
    params.filter_map(tensor).collect()
}

/// What was deduced of `y`.
fn deduced(function: &Function) -> Option<Annotation> {
    let found = function.vars.iter().rev().find(|var| &*var.name == "y")?;
    found.annotation.clone()
}

/// `Tensor(("n", 4), "f64")`
fn annotation(tensor: &TensorType) -> Option<String> {
    let dims = tensor.extents.dims()?.iter().map(|dim| match dim {
        Dim::Int(value) => value.to_string(),
        other => format!("\"{other}\""),
    });
    let dims: String = dims.map(|dim| format!("{dim}, ")).collect();
    Some(format!("Tensor(({}), \"{}\")", dims.trim_end_matches(' '), tensor.dtype?))
}

impl Call<'_> {
    /// The terms of `⟨L x, g⟩`.
    fn product(&self, of: &str) -> String {
        let field = |at: usize| if self.is_tuple { format!("{of}[{at}]") } else { of.to_owned() };
        let terms = (0..self.fields.len()).map(|at| format!("sum(multiply({}, g{at}))", field(at)));
        terms.reduce(|sum, term| format!("add({sum}, {term})")).expect("a call has a result")
    }

    fn cotangents(&self) -> Option<String> {
        let one =
            |(at, field): (usize, &TensorType)| Some(format!("g{at}: {}", annotation(field)?));
        Some(self.fields.iter().enumerate().map(one).collect::<Option<Vec<_>>>()?.join(", "))
    }

    /// The bindings of the gradients of `⟨L x, g⟩`, and their names.
    fn gradients(&self, operands: &[&str]) -> Result<(String, Vec<String>), String> {
        let text = self.case.text("f64");
        let cotangents = self.cotangents().ok_or("a shape is not known")?;
        let text = text.replacen("def f(", "def main(", 1).replacen(
            "):\n",
            &format!(", {cotangents}):\n"),
            1,
        );
        let body = text.trim_end().trim_end_matches("return y").trim_end();
        let text = format!("{body}\n    return {}\n", self.product("y"));
        let program = Program::load(Source::new("case", text.as_str()));
        if program.has_errors() {
            return Err(format!("{:?}", program.diagnostics[0].message));
        }
        let mut settings = Settings::default();
        settings.gradient.wrt = operands.iter().map(|name| (*name).into()).collect();
        let route = PIPELINE.named("normalize,gradient")?;
        let after = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
            .map_err(|failed| format!("{failed:?}"))?;
        let file = raise_module(&after);
        let adjoint = file.statements.iter().find_map(|statement| match &statement.kind {
            StatementKind::Def(def) if &*def.name.name == "main_adjoint" => Some((**def).clone()),
            _ => None,
        });
        let (body, gradients) = bindings(adjoint.expect("the pass made it"), operands)?;
        Ok((self.with_dims(&body), gradients))
    }

    /// With the dims of the result for the shape of its product with `g`.
    fn with_dims(&self, body: &str) -> String {
        let [TensorType { extents, .. }] = self.fields.as_slice() else { return body.to_owned() };
        let Some(dims) = extents.dims() else { return body.to_owned() };
        let dims = dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
        let (shapes, rest): (Vec<&str>, Vec<&str>) =
            body.lines().partition(|line| line.contains(" = shape_of(lv"));
        let mut text: String = rest.iter().map(|line| format!("{line}\n")).collect();
        for name in shapes.iter().filter_map(|line| line.trim_start().split(' ').next()) {
            text = text.replace(name, &format!("[{dims}]"));
        }
        text
    }

    /// The theorem as a rule.
    fn rule(&self, operands: &[&str]) -> Result<String, String> {
        let (bindings, gradients) = self.gradients(operands)?;
        let annotated = |name: &str, tensor| Some(format!("{name}: {}", annotation(tensor)?));
        let mut params = Vec::new();
        for (name, tensor) in &self.params {
            params.push(annotated(name, tensor));
            if operands.contains(&name.as_str()) {
                params.push(annotated(&other(name), tensor));
            }
        }
        let params: Option<Vec<String>> = params.into_iter().collect();
        let params = params.zip(self.cotangents()).ok_or("a shape is not known")?;
        let call = self.case.call.replace("DT", "\"f64\"");
        let right = operands.iter().zip(&gradients);
        let right =
            right.map(|(operand, gradient)| format!("sum(multiply({operand}, {gradient}))"));
        let right = right.reduce(|sum, term| format!("add({sum}, {term})")).expect("an operand");
        let names = self.case.names();
        let is_limited = |name: &&&str| {
            NOT_EMPTY.contains(&self.case.row) || WINDOWS.contains(&(self.case.row, **name))
        };
        let conditions: Vec<String> =
            names.iter().filter(is_limited).map(|name| format!("{name} >= 1")).collect();
        let conditions = if !conditions.is_empty() {
            format!("    where = [{}]\n", conditions.join(", "))
        } else {
            String::new()
        };
        Ok(format!(
            "@rewrite_rule(\"approximate\", reason=\"an adjoint\")\ndef adjoint({}, {}):\n{conditions}{bindings}    left = {}\n    right = {right}\n",
            params.0.join(", "),
            params.1,
            self.product(&call)
        ))
    }
}

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

/// How a theorem ended: proved, or why not.
fn decided(rule: &str) -> Result<Result<(), String>, String> {
    let rules = match read_rules("adjoint", rule) {
        Ok(rules) => rules,
        Err(wrong) => return Ok(Err(format!("no rule: {}", wrong.join("; ")))),
    };
    match judge(&rules[0], &mut prover) {
        // The meanings of operators are trusted: what they prove is compared in the interpreter, too.
        Verdict::Proved(_) => match evaluate(&rules[0]).difference {
            None => Ok(Ok(())),
            Some(_) => Err("it is proved, and the sides differ".to_owned()),
        },
        Verdict::Tested(why, cases) => Ok(Err(format!("tested in {cases} cases: {why}"))),
        Verdict::Refused(Refusal::Wrong(why)) => Err(format!("the sides differ: {why}")),
        Verdict::Refused(why) => Ok(Err(why.to_string())),
    }
}

#[derive(Default)]
struct Tally {
    proved: usize,
    all: usize,
    why: Option<String>,
}

/// Whether a call has an operand.
fn reads(call: &str, operand: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    call.split(|letter| !is_word(letter)).any(|word| word == operand)
}

/// The sets of operands in which a call is linear.
fn linear(call: &Call<'_>) -> Vec<Vec<String>> {
    let floats = call.params.iter().filter(|(_, tensor)| tensor.dtype == Some(DType::F64));
    let names: Vec<String> = floats.map(|(name, _)| name.clone()).collect();
    // Other elements than 0 around it make it affine; the last operand of this one gives a shape.
    let names: Vec<String> = names.into_iter().filter(|name| reads(call.case.call, name)).collect();
    match call.case.row {
        _ if call.case.call.contains("pad_value") => Vec::new(),
        "collapse_sum_like" => vec![names[..1].to_vec()],
        row if TOGETHER.contains(&row) => vec![names],
        _ => names.into_iter().map(|name| vec![name]).collect(),
    }
}

/// The row, the call by its operands, and the rule.
type Theorem = (&'static str, String, Result<String, String>);

/// The linear calls, by which operands, and the theorems on their adjoints; of the row in `RELAX_ROW` alone if it is set.
fn theorems() -> Vec<Theorem> {
    let wanted = std::env::var("RELAX_ROW").ok();
    let is_linear = |case: &&Case| {
        let of_floats =
            case.dtypes.iter().any(|dtype| DType::parse(dtype).is_some_and(DType::is_float));
        of_floats && (IN_EACH.contains(&case.row) || TOGETHER.contains(&case.row))
    };
    let mut found = Vec::new();
    for case in cases().chain(own()).filter(is_linear) {
        if wanted.as_ref().is_some_and(|row| row != case.row) {
            continue;
        }
        let Some(call) = read(case) else { continue };
        for operands in linear(&call) {
            let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
            let at = format!("{} by {}", case.call, operands.join(", "));
            found.push((case.row, at, call.rule(&operands)));
        }
    }
    found
}

/// Adjoints with one thing changed, of another sixteenth of the calls with each commit: one that is proved all the same is equal in the interpreter.
#[test]
fn mutants_of_adjoints_are_proved_only_where_they_are_equal() {
    let sampled = Sample::of("mutants of adjoints", 16).take(theorems()).collect();
    let changed: Vec<(String, Rule)> = par_map_chunks(sampled, |share: Vec<Theorem>| {
        let rules = share.into_iter().filter_map(|(_, at, rule)| {
            let rule = read_rules("adjoint", &rule.ok()?).ok()?.remove(0);
            prove(&rule, &mut prover).is_proved().then_some((at, rule))
        });
        let changed = rules.flat_map(|(at, rule)| {
            mutants(&rule).into_iter().map(move |mutant| (at.clone(), mutant))
        });
        changed.collect::<Vec<_>>()
    })
    .concat();
    let judged = par_map_chunks(changed, |share| {
        let (mut refused, mut equal, mut wrong) = (0, 0, Vec::new());
        for (at, mutant) in share {
            if !prove(&mutant, &mut prover).is_proved() {
                refused += 1;
                continue;
            }
            equal += 1;
            if let Some(why) = evaluate(&mutant).difference {
                wrong.push(format!("{at}: {:?} is proved, but {why}", mutant.right));
            }
        }
        (refused, equal, wrong)
    });
    let refused: usize = judged.iter().map(|share| share.0).sum();
    let equal: usize = judged.iter().map(|share| share.1).sum();
    let wrong: Vec<String> = judged.into_iter().flat_map(|share| share.2).collect();
    eprintln!("{refused} mutants are not proved, {equal} are");
    assert!(refused > 0 || std::env::var_os("RELAX_ROW").is_some(), "no mutant");
    assert!(refused >= 5_000 || !is_whole(), "{refused} mutants");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn adjoints_are_proved_to_be_transposes() {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    let wanted = std::env::var("RELAX_ROW").ok();
    for (row, at, rule) in theorems() {
        let tally = tallies.entry(row).or_default();
        tally.all += 1;
        if wanted.is_some() {
            eprintln!("{}", rule.as_ref().unwrap_or_else(|why| why));
        }
        let ended = match rule {
            Ok(rule) => decided(&rule),
            Err(why) => Ok(Err(why)),
        };
        if wanted.is_some() {
            eprintln!("{at}: {ended:?}");
        }
        match ended {
            Ok(Ok(())) => tally.proved += 1,
            Ok(Err(why)) => {
                tally.why.get_or_insert(format!("{at}: {}", why.replace('\n', " ")));
            }
            Err(why) => wrong.push(format!("{row}: {at}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{} adjoints are wrong:\n{}", wrong.len(), wrong.join("\n"));
    if wanted.is_none() {
        record(&tallies);
    }
}

/// The lines of the table of the page.
fn table(tallies: &BTreeMap<&str, Tally>) -> String {
    let mut lines =
        "| operator | proved | of calls | the first other one |\n|---|---|---|---|\n".to_owned();
    for (row, Tally { proved, all, why }) in tallies {
        let why = why.as_ref().map_or_else(String::new, |why| why.replace('|', "/"));
        let _ = writeln!(lines, "| `{row}` | {proved} | {all} | {why} |");
    }
    lines
}

/// Compares with the table of the page, or writes it.
fn record(tallies: &BTreeMap<&str, Tally>) {
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let begin = page.find(HEADING).expect("the page has the table");
    let (before, rest) = page.split_at(begin);
    let after = rest.lines().skip_while(|line| line.starts_with('|'));
    let after: String = after.map(|line| format!("{line}\n")).collect();
    let wanted = format!("{before}{}{after}", table(tallies));
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(PAGE, &wanted).expect("the page can be written");
        return;
    }
    let (proved, all) = tallies
        .values()
        .fold((0, 0), |(proved, all), tally| (proved + tally.proved, all + tally.all));
    let sentence = format!("{proved} of {all} calls are proved.");
    assert!(page.contains(&sentence), "docs/TRAINING.md does not say: {sentence}");
    assert!(
        page == wanted,
        "RELAX_BLESS=1 writes the table of docs/TRAINING.md:\n{}",
        table(tallies)
    );
}

/// Calls of square matrices, by which operands, and mistakes in their adjoints that keep every shape: an axis off by one, a
/// transpose left out, a begin off by one, parts exchanged, a stretch along another axis.
const MISTAKES: &[(Case, &[&str], &str, &str)] = &[
    (
        square("broadcast_to", "broadcast_to(x, (1, n, n))"),
        &["x"],
        "collapse_sum_to(d_multiply, [n, n])",
        "permute_dims(collapse_sum_to(d_multiply, [n, n]), [1, 0])",
    ),
    (
        square("permute_dims", "permute_dims(x, (1, 0))"),
        &["x"],
        "permute_dims(d_multiply, [1, 0])",
        "permute_dims(d_multiply, [0, 1])",
    ),
    (
        square("matmul", "matmul(x, u)"),
        &["x"],
        "permute_dims(u, [1, 0])",
        "permute_dims(u, [0, 1])",
    ),
    (
        square("matmul", "matmul(x, u)"),
        &["u"],
        "permute_dims(x, [1, 0])",
        "permute_dims(x, [0, 1])",
    ),
    (
        square("sum", "sum(x, axis=1)"),
        &["x"],
        "expand_dims(d_multiply, [1])",
        "expand_dims(d_multiply, [0])",
    ),
    (square("nn.pad", "pad(x, [0, 0, 2, 1])"), &["x"], "[1], [2], [2 + n]", "[1], [1], [1 + n]"),
    (square("concat", "concat((x, u), axis=0)"), &["x", "u"], "[0], [n], [n + n]", "[0], [0], [n]"),
    (
        square("reshape", "reshape(x, (n * n,))"),
        &["x"],
        "reshape(d_multiply, [n, n])",
        "permute_dims(reshape(d_multiply, [n, n]), [1, 0])",
    ),
    (square("flip", "flip(x, 1)"), &["x"], "flip(d_multiply, 1)", "flip(d_multiply, 0)"),
    (square("cumsum", "cumsum(x, axis=1)"), &["x"], "exclusive=False", "exclusive=True"),
    (square("tril", "tril(x)"), &["x"], "tril(d_multiply, 0)", "tril(d_multiply, 1)"),
    (square("triu", "triu(x)"), &["x"], "triu(d_multiply, 0)", "tril(d_multiply, 0)"),
    (square("mean", "mean(x)"), &["x"], "n * n", "n + n"),
    (square("mean", "mean(x, axis=0)"), &["x"], "full([], n,", "full([], n + 1,"),
    (
        square("split", "split(x, [1], axis=0)"),
        &["x"],
        "concat((d_multiply_1, d_multiply), 0)",
        "concat((d_multiply, d_multiply_1), 0)",
    ),
    (
        square("strided_slice", "strided_slice(x, [0], [1], [9])"),
        &["x"],
        "concat((d_zeros, d_multiply, d_zeros_1), 0)",
        "concat((d_zeros_1, d_multiply, d_zeros), 0)",
    ),
    (
        square("tile", "tile(x, (2, 1, 1))"),
        &["x"],
        "reshape(d_sum, [n, n])",
        "permute_dims(reshape(d_sum, [n, n]), [1, 0])",
    ),
    (square("einsum", "einsum((x, u), \"ij,jk->ik\")"), &["x"], "\"ik,jk->ij\"", "\"ik,kj->ij\""),
];

const fn square(row: &'static str, call: &'static str) -> Case {
    Case {
        row,
        params: "x: Tensor((\"n\", \"n\"), DT), u: Tensor((\"n\", \"n\"), DT)",
        call,
        dtypes: &["f64"],
    }
}

#[test]
fn wrong_adjoints_are_not_proved() {
    for (case, operands, from, to) in MISTAKES {
        let rule =
            read(case).expect("the call is well-formed").rule(operands).expect("it has an adjoint");
        assert_eq!(decided(&rule), Ok(Ok(())), "{rule}");
        assert_eq!(rule.matches(from).count(), 1, "{from}: {rule}");
        let why = decided(&rule.replacen(from, to, 1)).expect_err(to);
        assert!(why.contains("differ"), "{why}");
    }
}
