//! Names of C: those of the program where they are free, made of letters, digits and `_`.

use std::collections::BTreeSet;

/// Words of C, of its headers and of the prelude that a program might use for itself.
const TAKEN: &[&str] = &[
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while", "asm", "typeof", "main", "tensors", "ints",
    "threads", "from", "to", "part", "parts", "total", "frame", "context", "r0", "r1", "c0", "c1",
    "row", "k0", "deep", "width", "status", "done", "free", "memset", "malloc", "calloc", "linux",
    "unix", "j0", "j1", "jn", "y0", "y1", "yn", "gamma", "signgam", "true", "false", "bool",
    "NULL", "NAN", "INFINITY", "I", "M_PI", "M_E", "div", "abs", "exp", "log", "pow", "sin", "cos",
    "tan", "tanh", "erf", "floor", "ceil", "round", "trunc", "sqrt", "fma", "rint", "random",
    "rand", "index", "select", "errno",
];

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    used: BTreeSet<String>,
}

impl Names {
    /// A name like `wish` that nothing else has.
    pub(crate) fn fresh(&mut self, wish: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let mut base: String = wish.chars().map(plain).collect();
        let starts_well = base.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts_well || base.starts_with("rx_") || TAKEN.contains(&base.as_str()) {
            base = format!("v_{base}");
        }
        let mut name = base.clone();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn names_are_those_of_the_program_where_they_are_free() {
        let mut names = Names::default();
        assert_eq!(names.fresh("x"), "x");
        assert_eq!(names.fresh("x"), "x_2");
        assert_eq!(names.fresh("int"), "v_int");
        assert_eq!(names.fresh("größe"), "gr__e");
        assert_eq!(names.fresh("_"), "v__");
    }
}
