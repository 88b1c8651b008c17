//! Values as a person reads them: the layout of NumPy, with shape and dtype above.
//!
//! The same value always gives the same text, on every platform: digits come from exact
//! conversions, never from the formatting of a C library.

use crate::tensor::{Number, Tensor};
use crate::value::{Value, tensor_type};
use relax_syntax::dtype::{Class, DType};
use std::fmt::Write as _;

mod floats;

use floats::FloatStyle;

/// Tensors of more elements than this are shown by their edges.
const SUMMARY_ABOVE: usize = 1000;
/// How many elements an edge has.
const EDGE: usize = 3;
/// Rows are broken before this column.
const LINE_WIDTH: usize = 75;

/// Extents as messages have them: `(2, 3)`, `(4,)`.
pub fn shown_shape(shape: &[impl ToString]) -> String {
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    match extents.as_slice() {
        [one] => format!("({one},)"),
        extents => format!("({})", extents.join(", ")),
    }
}

/// The text of a value: a line with its annotation, then its elements. Items of a tuple follow one
/// another, each under its index.
#[must_use]
pub fn show(value: &Value) -> String {
    let mut text = String::new();
    show_at("", value, &mut text);
    text
}

fn show_at(path: &str, value: &Value, text: &mut String) {
    match value {
        Value::Tuple(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                show_at(&format!("{path}[{index}]"), item, text);
            }
        }
        _ => {
            if !path.is_empty() {
                let _ = write!(text, "{path}: ");
            }
            show_leaf(value, text);
        }
    }
}

fn show_leaf(value: &Value, text: &mut String) {
    let _ = match value {
        Value::Tensor(tensor) => {
            writeln!(text, "{}\n{}", tensor_type(tensor), show_tensor(tensor))
        }
        Value::Prim(dtype, number) => {
            writeln!(text, "Prim(\"{dtype}\")\n{}", show_number(*dtype, *number))
        }
        Value::Shape(dims) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            writeln!(text, "shape({})", dims.join(", "))
        }
        Value::Tuple(_) => writeln!(text, "()"),
        Value::Str(string) => writeln!(text, "{string:?}"),
        Value::None => writeln!(text, "None"),
        Value::Annotation(annotation) => writeln!(text, "{annotation}"),
        Value::Global(name) => writeln!(text, "function {name}"),
        Value::Closure(closure) => writeln!(text, "closure in {}", closure.function),
        Value::Partial(partial) => {
            writeln!(text, "function with {} arguments given", partial.last.len())
        }
        Value::Heap(_) => writeln!(text, "shape heap"),
        Value::Placed(_) => writeln!(text, "{} in a storage", value.annotation()),
        Value::Storage(storage) => writeln!(text, "storage of {} bytes", storage.bytes),
    };
}

/// One number as it stands alone, as short as its dtype allows to read it back.
#[must_use]
pub fn show_number(dtype: DType, number: Number) -> String {
    match (dtype.class(), number) {
        (Class::Bool, number) => bool_text(number).to_owned(),
        (Class::Float, number) => floats::alone(dtype, number.as_f64()),
        (_, Number::Int(value)) => value.to_string(),
        (_, Number::Float(value)) => format!("{value}"),
    }
}

fn bool_text(number: Number) -> &'static str {
    if number == Number::Int(0) { "False" } else { "True" }
}

/// The elements of a tensor in nested brackets, summarized where there are many.
#[must_use]
pub fn show_tensor(tensor: &Tensor) -> String {
    if tensor.rank() == 0 {
        return match tensor.undefined_elements() {
            Some(_) => "?".to_owned(),
            None => show_number(tensor.dtype(), tensor.number(0)),
        };
    }
    if tensor.is_empty() {
        return "[]".to_owned();
    }
    let summarized = tensor.len() > SUMMARY_ABOVE;
    let layout = Layout { tensor, summarized, cells: Cells::of(tensor, summarized) };
    let mut text = String::new();
    layout.write(0, 0, &mut text);
    text
}

/// The indices of an axis that are shown; `None` stands for what is left out.
fn shown(extent: usize, summarized: bool) -> Vec<Option<usize>> {
    if !summarized || extent <= 2 * EDGE {
        return (0..extent).map(Some).collect();
    }
    let tail = extent - EDGE..extent;
    (0..EDGE).map(Some).chain([None]).chain(tail.map(Some)).collect()
}

/// The texts of the shown elements, all of one width, in the order in which they are written.
struct Cells {
    style: Option<FloatStyle>,
    width: usize,
}

impl Cells {
    fn of(tensor: &Tensor, summarized: bool) -> Self {
        let mut positions = Vec::new();
        collect_shown(tensor.shape(), 0, summarized, &mut positions);
        let defined = |&&p: &&usize| tensor.undefined_elements().is_none_or(|mask| !mask[p]);
        let style = tensor.dtype().is_float().then(|| {
            let values: Vec<f64> =
                positions.iter().filter(defined).map(|&p| tensor.number(p).as_f64()).collect();
            FloatStyle::of(tensor.dtype(), &values)
        });
        let mut cells = Cells { style, width: 0 };
        cells.width = positions.iter().map(|&p| cells.text(tensor, p).len()).max().unwrap_or(0);
        cells
    }

    fn text(&self, tensor: &Tensor, position: usize) -> String {
        if tensor.undefined_elements().is_some_and(|mask| mask[position]) {
            return format!("{:>width$}", "?", width = self.width);
        }
        let number = tensor.number(position);
        let text = match (&self.style, number) {
            (Some(style), number) => style.text(number.as_f64()),
            (None, number) => show_number(tensor.dtype(), number),
        };
        format!("{text:>width$}", width = self.width)
    }
}

fn collect_shown(shape: &[usize], base: usize, summarized: bool, positions: &mut Vec<usize>) {
    let Some((&extent, rest)) = shape.split_first() else {
        positions.push(base);
        return;
    };
    let step: usize = rest.iter().product();
    for index in shown(extent, summarized).into_iter().flatten() {
        collect_shown(rest, base + index * step, summarized, positions);
    }
}

struct Layout<'t> {
    tensor: &'t Tensor,
    summarized: bool,
    cells: Cells,
}

impl Layout<'_> {
    fn write(&self, axis: usize, base: usize, text: &mut String) {
        if axis + 1 == self.tensor.rank() {
            self.write_row(axis, base, text);
            return;
        }
        let shape = self.tensor.shape();
        let step: usize = shape[axis + 1..].iter().product();
        // One line break between rows, one more for every axis in between.
        let gap = format!("{}{}", "\n".repeat(shape.len() - axis - 1), " ".repeat(axis + 1));
        text.push('[');
        for (count, index) in shown(shape[axis], self.summarized).into_iter().enumerate() {
            if count > 0 {
                text.push_str(&gap);
            }
            match index {
                Some(index) => self.write(axis + 1, base + index * step, text),
                None => text.push_str("..."),
            }
        }
        text.push(']');
    }

    fn write_row(&self, axis: usize, base: usize, text: &mut String) {
        let indent = " ".repeat(axis + 1);
        let mut column = axis + 1;
        text.push('[');
        for (count, index) in
            shown(self.tensor.shape()[axis], self.summarized).into_iter().enumerate()
        {
            let word = match index {
                Some(index) => self.cells.text(self.tensor, base + index),
                None => "...".to_owned(),
            };
            if count > 0 && column + 1 + word.len() >= LINE_WIDTH {
                text.push('\n');
                text.push_str(&indent);
                column = indent.len();
            } else if count > 0 {
                text.push(' ');
                column += 1;
            }
            column += word.len();
            text.push_str(&word);
        }
        text.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::array;

    fn floats(dtype: DType, shape: &[usize], values: &[f64]) -> String {
        show_tensor(&Tensor::from_floats(dtype, array(shape, values.to_vec())))
    }

    #[test]
    fn floats_align_at_the_point() {
        let text = floats(DType::F32, &[2, 2], &[1.0, 2.5, -3.25, 100.0]);
        assert_eq!(text, "[[  1.     2.5 ]\n [ -3.25 100.  ]]");
        assert_eq!(floats(DType::F32, &[2], &[0.1, 0.2]), "[0.1 0.2]");
        assert_eq!(floats(DType::F32, &[1], &[1.0 / 3.0]), "[0.33333334]");
        assert_eq!(floats(DType::F16, &[1], &[1.0 / 3.0]), "[0.3333]");
        assert_eq!(floats(DType::F64, &[1], &[1.0 / 3.0]), "[0.33333333]");
    }

    #[test]
    fn wide_ranges_take_exponents() {
        assert_eq!(floats(DType::F32, &[2], &[1e10, 1.25e-5]), "[1.00e+10 1.25e-05]");
        assert_eq!(floats(DType::F32, &[2], &[f64::NAN, 1.0]), "[nan  1.]");
        assert_eq!(floats(DType::F32, &[2], &[f64::NEG_INFINITY, -0.0]), "[-inf  -0.]");
    }

    #[test]
    fn scalars_stand_alone() {
        assert_eq!(floats(DType::F32, &[], &[2.0]), "2.0");
        assert_eq!(floats(DType::F32, &[], &[0.1]), "0.1");
        assert_eq!(floats(DType::F64, &[], &[1e-7]), "1e-07");
        assert_eq!(floats(DType::BF16, &[], &[0.1]), "0.1");
    }

    #[test]
    fn blocks_are_set_apart() {
        let ints = Tensor::from_ints(DType::I32, array(&[2, 1, 2], vec![1, -20, 3, 4]));
        assert_eq!(show_tensor(&ints), "[[[  1 -20]]\n\n [[  3   4]]]");
        let bools = Tensor::from_ints(DType::Bool, array(&[2], vec![1, 0]));
        assert_eq!(show_tensor(&bools), "[ True False]");
    }

    #[test]
    fn many_elements_are_summarized() {
        let ints = Tensor::from_ints(DType::I64, array(&[2000], (0..2000).collect()));
        assert_eq!(show_tensor(&ints), "[   0    1    2 ... 1997 1998 1999]");
        let wide = Tensor::from_ints(DType::I64, array(&[40], (1000..1040).collect()));
        assert!(show_tensor(&wide).lines().all(|line| line.len() <= LINE_WIDTH + 1));
        assert_eq!(show_tensor(&wide).lines().count(), 3);
    }

    #[test]
    fn unwritten_elements_are_question_marks() {
        let mixed = Tensor::from_ints(DType::I64, array(&[2], vec![10, 0]));
        assert_eq!(show_tensor(&mixed.with_undefined(vec![false, true])), "[10  ?]");
    }

    #[test]
    fn tuples_number_their_items() {
        let value = Value::Tuple(vec![Value::Shape(vec![2, 3]), Value::int(7)]);
        assert_eq!(show(&value), "[0]: shape(2, 3)\n[1]: Prim(\"i64\")\n7\n");
        assert_eq!(show(&Value::Tuple(Vec::new())), "()\n");
    }
}
