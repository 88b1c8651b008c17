//! Constants of every dtype, with the values that are easily lost on the way through text.

use super::choices::Choices;
use super::scope::Type;
use relax_syntax::dim::Dim;

/// Each dtype with elements at its edges.
const ELEMENTS: &[(&str, &[&str])] = &[
    ("f32", &["1.0", "-0.0", "inf", "-inf", "nan", "3.4028234663852886e38", "1e-45", "0.1"]),
    ("f16", &["0.5", "-0.0", "65504.0", "inf", "nan", "5.960464477539063e-08"]),
    ("bf16", &["2.0", "-0.0", "-inf", "nan", "1e-40"]),
    ("f64", &["0.1", "-0.0", "nan", "inf", "1.7976931348623157e308", "5e-324"]),
    ("i8", &["1", "-128", "127"]),
    ("i16", &["2", "-32768", "32767"]),
    ("i32", &["3", "-2147483648", "2147483647"]),
    ("i64", &["4", "-9223372036854775808", "9223372036854775807"]),
    ("u8", &["5", "255"]),
    ("u16", &["6", "65535"]),
    ("u32", &["7", "4294967295"]),
    ("u64", &["8", "18446744073709551615"]),
    ("bool", &["True", "False"]),
];

/// A constant of rank 0, 1 or 2, and its type.
pub(super) fn constant(choices: &mut Choices) -> (String, Type) {
    let (dtype, elements) = ELEMENTS[choices.below(ELEMENTS.len())];
    let rank = choices.below(3);
    let shape: Vec<usize> = (0..rank).map(|_| 1 + choices.below(3)).collect();
    let text = nested(&shape, elements, choices);
    let extent =
        |&dim: &usize| Dim::Int(i64::try_from(dim).expect("invariant: extents are below 4"));
    let dims = shape.iter().map(extent).collect();
    (format!("const({text}, \"{dtype}\")"), Type { dims, dtype })
}

/// A scalar of a dtype; a plain number half of the time.
pub(super) fn scalar(choices: &mut Choices, dtype: &str) -> String {
    let row = ELEMENTS.iter().find(|(name, _)| *name == dtype);
    let (_, elements) = row.expect("invariant: the table has every dtype");
    let element = if choices.once_in(2) { choices.of(elements) } else { elements[0] };
    format!("const({element}, \"{dtype}\")")
}

/// The name of any dtype.
pub(super) fn dtype(choices: &mut Choices) -> &'static str {
    ELEMENTS[choices.below(ELEMENTS.len())].0
}

fn nested(shape: &[usize], elements: &[&str], choices: &mut Choices) -> String {
    let Some((&count, inner)) = shape.split_first() else {
        return choices.of(elements).to_owned();
    };
    let items: Vec<String> = (0..count).map(|_| nested(inner, elements, choices)).collect();
    format!("[{}]", items.join(", "))
}
