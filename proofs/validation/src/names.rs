//! Names of variables as certificates of arithmetic write them: ASCII letters, digits and `_`. Different names
//! stay different, or a certificate on one question would answer another.

use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words that no variable of a certificate is called by.
const RESERVED: [&str; 12] = [
    "and", "or", "not", "implies", "divides", "min", "max", "ceildiv", "True", "False", "true",
    "false",
];
/// What the spelling of any other name begins with.
const SPELLED: &str = "x_";

/// Spellings of names, and the way back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spelling {
    spelled: BTreeMap<Name, Dim>,
    names: BTreeMap<Name, Dim>,
}

impl Spelling {
    /// A claim in spelled names.
    pub(crate) fn claim(&mut self, claim: &Claim) -> Claim {
        Claim {
            left: self.dim(&claim.left),
            relation: claim.relation,
            right: self.dim(&claim.right),
        }
    }

    /// A dim in spelled names.
    pub(crate) fn dim(&mut self, dim: &Dim) -> Dim {
        dim.visit_vars(&mut |name| self.learn(name));
        renamed(dim, &self.spelled)
    }

    /// A dim in the names as they were.
    pub(crate) fn back(&self, dim: &Dim) -> Dim {
        renamed(dim, &self.names)
    }

    /// The name that is spelled so.
    pub(crate) fn name_of(&self, spelled: &Name) -> Name {
        match self.names.get(spelled) {
            Some(Dim::Var(name)) => name.clone(),
            _ => spelled.clone(),
        }
    }

    fn learn(&mut self, name: &Name) {
        if !self.spelled.contains_key(name) {
            let spelled = Name::new(spell(name));
            self.spelled.insert(name.clone(), Dim::Var(spelled.clone()));
            self.names.insert(spelled, Dim::Var(name.clone()));
        }
    }
}

/// As [`Dim::substitute`], but nothing is folded: the text of a claim is what it is known by.
fn renamed(dim: &Dim, names: &BTreeMap<Name, Dim>) -> Dim {
    match dim {
        Dim::Int(value) => Dim::Int(*value),
        Dim::Var(name) => names.get(name).unwrap_or(dim).clone(),
        Dim::Op(op, operands) => {
            Dim::Op(*op, Box::new((renamed(&operands.0, names), renamed(&operands.1, names))))
        }
    }
}

fn spell(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.chars().all(plain) && !RESERVED.contains(&name) && !name.starts_with(SPELLED)
    {
        return name.to_owned();
    }
    let mut spelled = SPELLED.to_owned();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            spelled.push(c);
        } else {
            let _ = write!(spelled, "_{:x}_", u32::from(c));
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_spelled_as_the_documents_say() {
        for (name, spelled) in [("n_1", "n_1"), ("loop 3", "x_loop_20_3"), ("1n", "x_1n")] {
            assert_eq!(spell(name), spelled);
        }
        assert_eq!(["max", "x_n", "_n", "n'"].map(spell), ["x_max", "x_x_5f_n", "_n", "x_n_27_"]);
    }

    #[test]
    fn different_names_are_spelled_differently() {
        let names = [
            "n",
            "x_n",
            "loop 3",
            "loop_3",
            "loop_20_3",
            "x_loop_20_3",
            "'n",
            "min",
            "x_min",
            "é",
            "",
        ];
        let spelled: BTreeSet<String> = names.iter().map(|name| spell(name)).collect();
        assert_eq!(spelled.len(), names.len());
        assert!(
            spelled.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        );
    }
}
