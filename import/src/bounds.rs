//! Bounds of symbolic dims that are given to the import. They become declared facts of the program, which the prover uses
//! and a call checks.

use crate::builder::Origin;
use crate::graph::Importer;
use crate::model::Bound;
use crate::reason::ImportError;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::suggest;

impl Importer<'_> {
    /// Declares what is given of a new variable, by its name in the model or in the program.
    pub(crate) fn bound(&mut self, param: Option<&str>, dim: &Dim) {
        let Dim::Var(name) = dim else { return };
        let given = &self.options.bounds;
        let Some(&bound) = param.and_then(|param| given.get(param)).or_else(|| given.get(&**name))
        else {
            return;
        };
        let Bound { lower, upper } = bound;
        let facts = &mut self.builder.facts;
        if let Some(lower) = lower {
            facts.assume(Claim::new(lower, Relation::AtMost, dim.clone()));
        }
        if let Some(upper) = upper {
            facts.assume(Claim::new(dim.clone(), Relation::AtMost, upper));
        }
        self.builder.bounded.insert(name.to_string(), bound);
    }

    /// Every bound is one of a symbolic dim of an input.
    pub(crate) fn refuse_unknown_bounds(&self) -> Result<(), ImportError> {
        let bounded = &self.builder.bounded;
        let is_bounded = |dim: &Dim| matches!(dim, Dim::Var(name) if bounded.contains_key(&**name));
        for name in self.options.bounds.keys() {
            let why = match self.named_dims.get(name) {
                _ if bounded.contains_key(name) => continue,
                Some(dim) if is_bounded(dim) => continue,
                Some(dim) => format!("the dim `{name}` is {dim}: only symbolic dims have bounds"),
                None => self.no_dim(name),
            };
            return Err(ImportError::Bound(why));
        }
        Ok(())
    }

    fn no_dim(&self, name: &str) -> String {
        let mut known: Vec<&str> = self.named_dims.keys().map(String::as_str).collect();
        let of_signature = |(_, origin): &(&String, &Origin)| **origin == Origin::Signature;
        let variables = self.builder.variables.iter().filter(of_signature);
        known.extend(variables.map(|(name, _)| name.as_str()));
        known.sort_unstable();
        known.dedup();
        let hint = suggest::hint(name, &known);
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        format!("the inputs of the model have no dim `{name}`{hint}")
    }
}
