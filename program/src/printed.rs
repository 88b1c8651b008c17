//! What a program printed, read as numbers in a text: where a pass may round elsewhere, digits of floats differ, and the
//! width of columns with them.

use ndarray::Array1;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;

/// Lines with `{}` where a float stood and one space for any number of them, and a tuple with the floats of each line
/// as a vector of the coarsest dtype that the line names, `f32` where it names none.
#[must_use]
pub fn floats_of(lines: &[String]) -> (Vec<String>, Value) {
    let (texts, floats) = lines.iter().map(|line| of_line(line)).unzip();
    (texts, Value::Tuple(floats))
}

fn of_line(line: &str) -> (String, Value) {
    let (mut text, mut floats) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let part = |wanted: fn(char) -> bool| rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        let length = match first {
            first if first.is_whitespace() => part(char::is_whitespace),
            first if in_word(first) => part(in_word),
            first => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        match float(word) {
            Some(value) => {
                floats.push(value);
                text.push_str("{}");
            }
            // Columns are padded as their widest number is.
            None if first.is_whitespace() && text.ends_with('[') => {}
            None if first.is_whitespace() => text.push(' '),
            None if word == "]" => {
                text.truncate(text.trim_end().len());
                text.push(']');
            }
            None => text.push_str(word),
        }
    }
    let dtypes = [DType::BF16, DType::F16, DType::F32, DType::F64];
    let named = |dtype: &&DType| line.contains(&format!("\"{dtype}\""));
    let dtype = *dtypes.iter().find(named).unwrap_or(&DType::F32);
    let vector = Array1::from(floats).into_dyn();
    (text, Value::Tensor(Tensor::from_floats(dtype, vector)))
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || "+-._".contains(c)
}

/// A number that is written as a float is: an integer has no point and no exponent.
fn float(word: &str) -> Option<f64> {
    let unsigned = word.trim_start_matches(['+', '-']);
    let written = unsigned.contains('.') || unsigned.contains("e+") || unsigned.contains("e-");
    if written || unsigned == "inf" || unsigned == "nan" { word.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Relation, compare};

    fn close(want: &str, got: &str) -> bool {
        let (want, got) = (floats_of(&[want.to_owned()]), floats_of(&[got.to_owned()]));
        want.0 == got.0 && compare(Relation::Close, &want.1, &got.1).is_ok()
    }

    #[test]
    fn the_last_digits_of_floats_may_differ_and_nothing_else() {
        let line = "it is\n Tensor((2, 2), \"f32\")\n[[ 3.4806967e+00  nan]\n [-inf 1.]]\n";
        let other = "it is\n Tensor((2, 2), \"f32\")\n[[3.480697e+00 nan ]\n [-inf 1.0000001]]\n";
        assert!(close(line, other));
        for (from, to) in [
            ("3.4806967", "3.4807967"),
            ("nan", "0.0"),
            ("-inf", "inf"),
            ("(2, 2)", "(2, 3)"),
            ("f32", "f64"),
            ("it is", "it was"),
            ("[-inf 1.]", "[-inf]"),
        ] {
            assert!(!close(line, &line.replace(from, to)), "{from} became {to}");
        }
        assert!(!close("Tensor((1), \"i64\")\n[12]\n", "Tensor((1), \"i64\")\n[13]\n"));
        assert!(close("[1.000] \"f16\"", "[1.001] \"f16\""));
        assert!(!close("[1.000] \"f32\"", "[1.001] \"f32\""));
    }
}
