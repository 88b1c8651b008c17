//! The calls that are tried: `DT` stands for each dtype, and names in quotes are symbolic variables.

mod distributed;
mod elementwise;
mod folds;
mod movement;

use std::sync::LazyLock;

/// One call.
pub(crate) struct Case {
    /// The row of the table.
    pub(crate) row: &'static str,
    pub(crate) params: &'static str,
    pub(crate) call: &'static str,
    pub(crate) dtypes: &'static [&'static str],
}

const fn case(
    row: &'static str,
    params: &'static str,
    call: &'static str,
    dtypes: &'static [&'static str],
) -> Case {
    Case { row, params, call, dtypes }
}

const ONE: &[&str] = &["f32"];
const FLOATS: &[&str] = &["f16", "bf16", "f32", "f64"];
const INTEGERS: &[&str] = &["i8", "i64", "u8", "u64"];
const SIGNED: &[&str] = &["i8", "i32", "i64"];
const NUMBERS: &[&str] = &["f16", "f32", "f64", "i8", "i64", "u8", "u64"];
const ALL: &[&str] = &["bf16", "f32", "f64", "i8", "i64", "u16", "u64", "bool"];
/// Integers of which sums stay in i64.
const SMALL: &[&str] = &["i8", "u8", "i32", "u32"];
const SMALL_NUMBERS: &[&str] = &["f16", "bf16", "f32", "f64", "i8", "u8", "i32"];

/// All of them.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    static OF_ROWS: LazyLock<Vec<Case>> = LazyLock::new(elementwise::of_rows);
    let written = [distributed::CASES, elementwise::CASES, movement::CASES, folds::CASES];
    OF_ROWS.iter().chain(written.into_iter().flatten())
}

impl Case {
    /// Its symbolic variables, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for name in self.params.split('"').skip(1).step_by(2) {
            let is_variable = name.len() == 1;
            if is_variable && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The text of the call in a function of its own.
    pub(crate) fn text(&self, dtype: &str) -> String {
        let names = self.names();
        let dims = match names.as_slice() {
            [] => String::new(),
            names => {
                let calls = vec!["sym_var()"; names.len()].join(", ");
                format!("    {} = {calls}\n", names.join(", "))
            }
        };
        let params = self.params.replace("DT", &format!("\"{dtype}\""));
        let call = self.call.replace("DT", &format!("\"{dtype}\""));
        format!("def f({params}):\n{dims}    y = {call}\n    return y\n")
    }
}
