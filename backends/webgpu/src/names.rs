//! Names of WGSL: those of the program with a prefix that says what they are, so that none is a word of the language.

use std::collections::BTreeSet;

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    used: BTreeSet<String>,
}

impl Names {
    /// `prefix_wish`, or with a number behind it where that is taken.
    pub(crate) fn fresh(&mut self, prefix: &str, wish: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let base = format!("{prefix}_{}", wish.chars().map(plain).collect::<String>());
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
    fn names_are_no_words_of_wgsl() {
        let mut names = Names::default();
        assert_eq!(names.fresh("s", "fn"), "s_fn");
        assert_eq!(names.fresh("s", "fn"), "s_fn_2");
        assert_eq!(names.fresh("b", "größe"), "b_gr__e");
    }
}
