//! Printer of literals: a value as SPEC text, one line that reads back to the same value.

use relax_semantics::show::show_number;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::dtype::{Class, DType};

/// Whether the text says the dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// `const([1.0], "f32")`
    Written,
    /// `[1.0]`: the reader knows it from elsewhere.
    Left,
}

/// The text of a value; `None` for functions and for tensors with unwritten elements, which have no
/// text.
#[must_use]
pub fn literal(value: &Value, typing: Typing) -> Option<String> {
    Some(match value {
        Value::Tensor(tensor) => tensor_text(tensor, typing)?,
        Value::Shape(dims) => format!("shape({})", joined(dims)),
        Value::Tuple(items) => {
            let items: Vec<String> =
                items.iter().map(|item| literal(item, typing)).collect::<Option<_>>()?;
            let comma = if items.len() == 1 { "," } else { "" };
            format!("({}{comma})", items.join(", "))
        }
        Value::Prim(dtype, value) => number(*dtype, *value),
        Value::Str(text) => format!("{text:?}"),
        Value::None => "None".to_owned(),
        Value::Annotation(_)
        | Value::Global(_)
        | Value::Closure(_)
        | Value::Partial(_)
        | Value::Storage(_)
        | Value::Heap(_)
        | Value::Placed(_) => return None,
    })
}

fn tensor_text(tensor: &Tensor, typing: Typing) -> Option<String> {
    if tensor.undefined_elements().is_some() {
        return None;
    }
    let dtype = tensor.dtype();
    if tensor.is_empty() {
        let dims = joined(tensor.shape());
        return Some(match typing {
            Typing::Left => format!("zeros({dims})"),
            Typing::Written if tensor.rank() == 1 => format!("zeros(({dims},), \"{dtype}\")"),
            Typing::Written => format!("zeros(({dims}), \"{dtype}\")"),
        });
    }
    let mut text = String::new();
    nested(tensor, 0, 0, &mut text);
    Some(match typing {
        Typing::Left => text,
        Typing::Written => format!("const({text}, \"{dtype}\")"),
    })
}

fn nested(tensor: &Tensor, axis: usize, base: usize, text: &mut String) {
    let Some(&extent) = tensor.shape().get(axis) else {
        text.push_str(&number(tensor.dtype(), tensor.number(base)));
        return;
    };
    let step: usize = tensor.shape()[axis + 1..].iter().product();
    text.push('[');
    for index in 0..extent {
        if index > 0 {
            text.push_str(", ");
        }
        nested(tensor, axis + 1, base + index * step, text);
    }
    text.push(']');
}

/// A number as the grammar reads it: the exponent of a float without a plus sign is not needed.
fn number(dtype: DType, value: Number) -> String {
    match dtype.class() {
        Class::Float | Class::Bool => show_number(dtype, value),
        _ => match value {
            Number::Int(value) => value.to_string(),
            Number::Float(value) => value.to_string(),
        },
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
