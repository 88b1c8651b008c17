//! Well-typed modules, made from a string of bytes: whatever the bytes, the module that comes out
//! parses, resolves and checks.
//!
//! Well-typed by construction: the generator carries the type of each variable and chooses among
//! the forms whose rules it knows. What it knows of a rule is written here a second time, on
//! purpose: that the checker agrees is one of the properties that are tested.

mod body;
mod choices;
mod constant;
mod operator;
mod scope;
mod tensor_program;

use body::Body;
use choices::Choices;
use relax_syntax::dim::{Dim, DimOp};
use scope::{Scope, Type};

/// A graph function that later functions may call.
#[derive(Clone, Debug)]
struct Signature {
    name: String,
    /// Every parameter has this type; its dims are variables.
    param: Type,
    params: usize,
    /// Over the variables of `param`.
    result: Type,
}

/// What the functions of a module share.
#[derive(Default)]
struct Shared {
    callable: Vec<Signature>,
    /// Texts of tensor programs.
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
        text.push_str(&function(index, &mut choices, &mut shared));
        text.push('\n');
    }
    text + &shared.programs.join("\n")
}

/// The types of the parameters of a function, over variables `n` and `m`.
fn parameters(choices: &mut Choices) -> Vec<Type> {
    let (n, m) = (Dim::var("n"), Dim::var("m"));
    let shapes: [Vec<Vec<Dim>>; 6] = [
        vec![vec![n.clone(), m.clone()], vec![n.clone(), m.clone()]],
        vec![vec![n.clone()], vec![n.clone()]],
        vec![vec![n.clone(), Dim::Int(3)], vec![Dim::Int(3), m.clone()]],
        vec![
            vec![n.clone(), m.clone()],
            vec![Dim::op(DimOp::Mul, n.clone(), Dim::Int(2)), m.clone()],
        ],
        vec![vec![n.clone(), Dim::Int(2), m.clone()], vec![m.clone()]],
        vec![vec![n.clone()], vec![Dim::op(DimOp::Add, n, Dim::Int(1)), m]],
    ];
    let chosen = choices.below(shapes.len());
    shapes[chosen].iter().cloned().map(Type::f32).collect()
}

fn function(index: usize, choices: &mut Choices, shared: &mut Shared) -> String {
    let name = format!("f{index}");
    let types = parameters(choices);
    let mut scope = Scope::default();
    let mut header = Vec::new();
    for (param, ty) in ["x", "y"].into_iter().zip(&types) {
        scope.add(param, ty.clone());
        header.push(format!("{param}: {}", ty.quoted()));
    }
    let dims = if types.iter().any(|ty| ty.quoted().contains("\"m\"")) { "n, m" } else { "n" };
    let declared = match dims {
        "n" => "n = sym_var()".to_owned(),
        _ if choices.once_in(3) => "n = sym_var(upper_bound=64)\n    m = sym_var()".to_owned(),
        _ => "n, m = sym_var(), sym_var()".to_owned(),
    };
    let attribute = attribute(choices);
    let mut body = Body::new(choices, shared, scope);
    body.statements(12);
    let (lines, result) = body.finish();
    if types.iter().all(|ty| *ty == types[0]) {
        let (param, params) = (types[0].clone(), types.len());
        shared.callable.push(Signature {
            name: name.clone(),
            param,
            params,
            result: result.ty.clone(),
        });
    }
    let arrow = result.declared.map(|text| format!(" -> {text}")).unwrap_or_default();
    let header = header.join(", ");
    format!(
        "def {name}({header}){arrow}:\n    {declared}\n{attribute}{lines}    return {}\n",
        result.name
    )
}

fn attribute(choices: &mut Choices) -> String {
    let values = ["", "\"a \\\"quoted\\\" word\"", "-7", "0.1", "True"];
    let value = choices.of(&values);
    if value.is_empty() { String::new() } else { format!("    func_attr(\"note\", {value})\n") }
}
