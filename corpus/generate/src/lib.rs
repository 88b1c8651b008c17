//! Floor 3: random program generator. It makes well-typed modules from a string of bytes: for all bytes, the module
//! parses, resolves and checks.
//!
//! Well-typed by construction: dims are chosen first, the generator carries the type of each variable,
//! and chooses among the forms whose rules it knows; operands that a form needs are taken from what is
//! there or made to order. What it knows of a rule is written here a second time, on purpose: that the
//! checker agrees is one of the properties that are tested.

mod body;
mod choices;
mod constant;
mod forms;
mod placed;
mod scope;
mod statements;
mod tensor_program;

use body::Body;
use choices::Choices;
pub use placed::placed;
use relax_semantics::random::Random;
use relax_syntax::dim::{Dim, DimOp};
use scope::{Type, Var};

/// Literal dims: nothing, one, primes, and about the extent of a tile.
const DIMS: [i64; 8] = [1, 2, 3, 0, 5, 15, 16, 17];
/// Statements of a function.
const STATEMENTS: usize = 12;

/// A graph function that later functions may call.
#[derive(Clone, Debug)]
struct Signature {
    name: String,
    /// The variables of the signature.
    dims: Vec<Dim>,
    params: Vec<Type>,
    /// Over the same variables.
    result: Type,
    /// Whether it may stand in a dataflow block.
    pure: bool,
}

/// What the functions of a module share.
#[derive(Default)]
struct Shared {
    callable: Vec<Signature>,
    /// Texts of tensor programs, and of functions that call themselves.
    programs: Vec<String>,
}

/// The text of a module with one to three graph functions and the tensor programs that they call.
#[must_use]
pub fn module(bytes: &[u8]) -> String {
    let mut choices = Choices::new(bytes);
    let mut shared = Shared::default();
    let mut text = String::new();
    if choices.once_in(3) {
        text.push_str("module_attr(\"origin\", \"generated\")\n\n");
    }
    let functions = 1 + choices.below(3);
    for index in 0..functions {
        let mut part = choices.part(index, functions);
        let is_last = index + 1 == functions;
        text.push_str(&function(index, is_last, &mut part, &mut shared));
        text.push('\n');
    }
    if text.contains("\"mesh[0]\"") {
        text.insert_str(0, "module_attr(\"mesh[0]\", \"2\")\n\n");
    }
    text + &shared.programs.join("\n")
}

/// The string of bytes of a seed, `length` or fewer of them.
#[must_use]
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let longest = i64::try_from(length.max(20)).unwrap_or(i64::MAX);
    drawn(&mut Random::new(seed, "module"), longest)
}

/// A string of 20 to `longest` random bytes.
#[must_use]
pub fn drawn(random: &mut Random, longest: i64) -> Vec<u8> {
    let length = random.int(&(20..=longest));
    (0..length).map(|_| random.bits().to_le_bytes()[0]).collect()
}

/// The types of the first parameters of a function, which bind its variables `n` and `m`.
fn parameters(choices: &mut Choices) -> Vec<Type> {
    let (n, m) = (Dim::var("n"), Dim::var("m"));
    let op = |op, a: &Dim, b: &Dim| Dim::op(op, a.clone(), b.clone());
    let two = Dim::Int(2);
    let shapes: [Vec<Vec<Dim>>; 11] = [
        vec![vec![n.clone(), m.clone()], vec![n.clone(), m.clone()]],
        vec![vec![n.clone()], vec![n.clone()]],
        vec![vec![n.clone(), Dim::Int(3)], vec![Dim::Int(3), m.clone()]],
        vec![vec![n.clone(), m.clone()], vec![op(DimOp::Mul, &n, &two), m.clone()]],
        vec![vec![n.clone(), two.clone(), m.clone()], vec![m.clone()]],
        vec![vec![n.clone()], vec![op(DimOp::Add, &n, &Dim::Int(1)), m.clone()]],
        vec![vec![n.clone(), m.clone()], vec![op(DimOp::Add, &n, &m)]],
        vec![vec![n.clone(), m.clone()], vec![op(DimOp::FloorDiv, &n, &two), m.clone()]],
        vec![vec![n.clone()], vec![n.clone(), n.clone()]],
        vec![vec![n.clone(), m.clone()], vec![op(DimOp::Max, &n, &m)]],
        vec![vec![n.clone(), m.clone()], vec![op(DimOp::Mul, &n, &m)]],
    ];
    let chosen = choices.below(shapes.len());
    let mut types: Vec<Type> = shapes[chosen].iter().cloned().map(Type::f32).collect();
    if choices.once_in(3) {
        types[1].dtype = constant::dtype(choices);
    }
    types
}

/// The lines that declare the variables of a signature, some with facts.
fn declared(dims: &[Dim], choices: &mut Choices) -> String {
    let facts = ["", "", "", "upper_bound=64", "lower_bound=1", "multiple_of=2", "lower_bound=2"];
    let line =
        |dim: &Dim, choices: &mut Choices| format!("    {dim} = sym_var({})\n", choices.of(&facts));
    if choices.once_in(3) {
        return dims.iter().map(|dim| line(dim, choices)).collect();
    }
    match dims {
        [n, m] => format!("    {n}, {m} = sym_var(), sym_var()\n"),
        dims => dims.iter().map(|dim| format!("    {dim} = sym_var()\n")).collect(),
    }
}

fn function(index: usize, is_last: bool, choices: &mut Choices, shared: &mut Shared) -> String {
    let name = format!("f{index}");
    let types = parameters(choices);
    let has_m = types.iter().any(|ty| ty.quoted().contains('m'));
    let dims: Vec<Dim> =
        ["n", "m"][..1 + usize::from(has_m)].iter().map(|&v| Dim::var(v)).collect();
    let declared = declared(&dims, choices);
    let attribute = attribute(choices);
    let params = ["x", "y"].into_iter().zip(types);
    let params = params.map(|(name, ty)| Var { name: name.to_owned(), ty }).collect();
    let mut body = Body::new(choices, shared, params, dims.clone());
    body.statements(STATEMENTS);
    let result = body.outcome();
    let unused = if is_last { body.unused() } else { Vec::new() };
    let (lines, params) = body.into_parts();
    shared.callable.push(Signature {
        name: name.clone(),
        dims,
        params: params.iter().map(|param| param.ty.clone()).collect(),
        result: result.ty,
        pure: !EFFECTS.iter().any(|name| lines.contains(name)),
    });
    let header: Vec<String> =
        params.iter().map(|param| format!("{}: {}", param.name, param.ty.quoted())).collect();
    let (arrow, returned) = match unused.as_slice() {
        [_, _, ..] => (String::new(), format!("({})", unused.join(", "))),
        _ => {
            let arrow = result.declared.map(|text| format!(" -> {text}")).unwrap_or_default();
            (arrow, result.name)
        }
    };
    format!(
        "def {name}({}){arrow}:\n{declared}{attribute}{lines}    return {returned}\n",
        header.join(", ")
    )
}

/// Calls that make a function impure. One that calls another is impure where that one is; since the
/// first such function is the first to be called, it is enough that calls of functions count.
const EFFECTS: [&str; 7] =
    ["print(", "assert_op(", "call_packed(", "run_operator(", "invoke_closure(", "= f0(", "= f1("];

fn attribute(choices: &mut Choices) -> String {
    let values = ["", "\"a \\\"quoted\\\" word\"", "-7", "0.1", "True"];
    let value = choices.of(&values);
    if value.is_empty() { String::new() } else { format!("    func_attr(\"note\", {value})\n") }
}
