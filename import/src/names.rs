//! Names of the program: those of the model, made valid and unique.

use relax_semantics::ops::all;
use std::collections::BTreeSet;

/// What a name of the program may not be, beside operators.
const RESERVED: &[&str] = &[
    "Buffer",
    "Callable",
    "DTensor",
    "False",
    "None",
    "Object",
    "Prim",
    "Shape",
    "Tensor",
    "True",
    "Tuple",
    "alloc_buffer",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "block",
    "break",
    "cast",
    "ceildiv",
    "class",
    "const",
    "continue",
    "dataflow",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "func_attr",
    "global",
    "grid",
    "if",
    "import",
    "in",
    "inf",
    "init",
    "is",
    "lambda",
    "match_cast",
    "max",
    "min",
    "module_attr",
    "nan",
    "nonlocal",
    "not",
    "or",
    "output",
    "parallel",
    "param",
    "pass",
    "raise",
    "range",
    "return",
    "select",
    "shape",
    "sym_var",
    "try",
    "while",
    "with",
    "yield",
];

/// Longer names of a model are cut.
const LONGEST: usize = 60;

/// The names that are taken.
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    pub(crate) fn new() -> Self {
        let mut taken: BTreeSet<String> = RESERVED.iter().map(|&word| word.to_owned()).collect();
        for row in all() {
            taken.extend([row.name, row.short_name()].map(str::to_owned));
            taken.extend(row.aliases.iter().map(|&alias| alias.to_owned()));
        }
        Self(taken)
    }

    /// A name like `wanted` that nothing has yet.
    pub(crate) fn fresh(&mut self, wanted: &str) -> String {
        let base = valid(wanted);
        let mut name = base.clone();
        let mut count = 1;
        while !self.0.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        name
    }

    /// As [`Names::fresh`], but always with a number, from 0 on: `d0`.
    pub(crate) fn numbered(&mut self, prefix: &str) -> String {
        let names = (0..).map(|number: u64| format!("{prefix}{number}"));
        let mut free = names.filter(|name| !self.0.contains(name));
        let name = free.next().expect("invariant: there are more numbers than names");
        self.0.insert(name.clone());
        name
    }
}

/// The characters that a name can have; others become `_`.
pub(crate) fn valid(wanted: &str) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let cut: String = wanted.chars().take(LONGEST).map(of).collect();
    let trimmed = cut.trim_matches('_');
    match trimmed.chars().next() {
        None => "value".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("v{trimmed}"),
        Some(_) => trimmed.to_owned(),
    }
}
