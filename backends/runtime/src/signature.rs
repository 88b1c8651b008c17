//! What a function of a module takes, read off the checks that its code begins with.

use crate::dtype::DType;
use crate::instruction::{Instruction, Kind, Operand, Text};
use crate::program::{Function, Program};

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As in the source; empty where nothing is checked of the argument.
    pub name: String,
    /// Its annotation, such as `Tensor((n, 4), "f32")`; `Object` where nothing is checked.
    pub annotation: String,
    /// Its element type, of a tensor.
    pub dtype: Option<DType>,
    /// Its dims as the annotation has them, such as `n` and `4`; `None` where the rank is not known.
    pub dims: Option<Vec<String>>,
    /// Whether the caller gives its tensor up: the function may overwrite the memory.
    pub is_donated: bool,
}

/// The parameters of a function.
pub(crate) fn parameters(program: &Program, function: &Function) -> Vec<Parameter> {
    (0..function.params).map(|at| parameter(program, function, at)).collect()
}

fn parameter(program: &Program, function: &Function, at: u32) -> Parameter {
    let is_it = |value: &Operand| matches!(value, Operand::Register(register) if *register == at);
    let text = |text: Text| program.texts.get(text.0 as usize).map_or("", String::as_str);
    let mut found = Parameter {
        name: String::new(),
        annotation: "Object".to_owned(),
        dtype: None,
        dims: None,
        is_donated: function.donated.contains(&at),
    };
    for instruction in &function.code {
        match instruction {
            Instruction::CheckKind { value, kind, size, dtype, label } if is_it(value) => {
                let Some(name) = named(text(label.about)) else { continue };
                (found.name, found.annotation) = (name, text(label.expected).to_owned());
                let is_tensor = *kind == Kind::Tensor;
                found.dtype = dtype.filter(|_| is_tensor);
                found.dims = size
                    .filter(|_| is_tensor)
                    .and_then(|rank| Some(vec!["?".to_owned(); usize::try_from(rank).ok()?]));
            }
            Instruction::MatchShape { value, terms, label, .. } if is_it(value) => {
                let is_known = named(text(label.about)).is_some() && !terms.is_empty();
                if is_known {
                    found.dims = Some(terms.iter().map(|&term| text(term).to_owned()).collect());
                }
            }
            _ => {}
        }
    }
    found
}

/// The name in "parameter `x`".
fn named(about: &str) -> Option<String> {
    Some(about.strip_prefix("parameter `")?.strip_suffix('`')?.to_owned())
}
