//! What a diagnostic on dims tells beyond its message: where the variables of a counterexample get
//! their values, and which single fact would decide the question.

use super::fit::Misfit;
use super::function::Checker;
use relax_syntax::annotation::OWN;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Counterexample, Relation};

/// How many variables of a counterexample get a label.
const MOST_LABELS: usize = 4;

impl Checker<'_> {
    /// Reports what does not fit, with the places that its dims come from.
    pub(super) fn report_misfit(&mut self, diagnostic: Diagnostic, misfit: &Misfit) {
        let diagnostic = match &misfit.claim {
            Some(claim) => self.with_origins(diagnostic, claim, &misfit.values),
            None => diagnostic,
        };
        self.diagnostics.push(diagnostic);
    }

    /// Adds a label where each variable of the claim gets its value.
    pub(super) fn with_origins(
        &self,
        mut diagnostic: Diagnostic,
        claim: &Claim,
        values: &Counterexample,
    ) -> Diagnostic {
        for name in claim.vars().into_iter().take(MOST_LABELS) {
            let Some(&origin) = self.origins.get(name) else { continue };
            let text = match values.get(name) {
                Some(value) => format!("`{name}` comes from here, say {value}"),
                None => format!("`{name}` comes from here"),
            };
            diagnostic = diagnostic.with_place(origin, text);
        }
        diagnostic
    }

    /// Which fact would decide it: "declare `n = sym_var(multiple_of=4)`: then this dim fits".
    pub(super) fn advice(&mut self, misfit: &Misfit) -> Option<String> {
        let facts = self.facts.missing(misfit.claim.as_ref()?);
        let told: Vec<String> = facts.iter().filter_map(|fact| self.told(fact)).collect();
        (!told.is_empty()).then(|| format!("{}: then this dim fits", told.join(", or ")))
    }

    fn told(&self, fact: &Claim) -> Option<String> {
        if fact.vars().iter().any(|name| name.starts_with(OWN)) {
            return None;
        }
        Some(match (fact.relation, &fact.left, &fact.right) {
            (Relation::Divides, Dim::Int(step), Dim::Var(name)) if *step > 0 => {
                format!("declare `{name} = sym_var(multiple_of={step})`")
            }
            (Relation::AtMost, Dim::Int(low), Dim::Var(name)) => {
                format!("declare `{name} = sym_var(lower_bound={low})`")
            }
            (Relation::AtMost, Dim::Var(name), Dim::Int(high)) => {
                format!("declare `{name} = sym_var(upper_bound={high})`")
            }
            (Relation::NotEqual, Dim::Var(name), Dim::Int(0)) => {
                format!("declare `{name} = sym_var(lower_bound=1)`")
            }
            (Relation::Equal, Dim::Var(a), Dim::Var(b)) => {
                format!("use one variable for `{a}` and `{b}`")
            }
            _ => format!("see to it that `{fact}`"),
        })
    }
}
