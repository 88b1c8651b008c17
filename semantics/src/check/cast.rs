//! What a `match_cast` teaches: its annotation holds from there on.

use super::codes;
use super::fit::{Fit, Misfit, fits, more_precise};
use super::function::{Checker, bindable};
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::{Answer, Claim, Counterexample, Relation};
use relax_syntax::ir::Atom;
use std::collections::BTreeSet;

impl Checker<'_> {
    /// The cast learns: the value has the annotation from here on.
    pub(super) fn match_cast(&mut self, atom: &Atom, annotation: &Annotation) -> Annotation {
        let known = self.atom(atom);
        let before = self.bound.clone();
        let mut fresh = BTreeSet::new();
        bindable(annotation, &mut |name| {
            if !before.contains(name) {
                fresh.insert(name.clone());
            }
        });
        fresh.iter().for_each(|name| self.bind_dim(name));
        self.require_bound(annotation, self.span);
        if let Some(misfit) = self.learn(&known, annotation) {
            let why = misfit.text();
            let message = format!("the value is `{known}` and never `{annotation}`: {why}");
            let diagnostic = Diagnostic::error(codes::CAST, self.span, message);
            self.report_misfit(diagnostic, &misfit);
        }
        self.assume_extents(annotation);
        more_precise(&known, annotation)
    }

    /// Assumes that a value of `known` has `wanted`; says why it never can.
    fn learn(&mut self, known: &Annotation, wanted: &Annotation) -> Option<Misfit> {
        let (found, expected) = match (known, wanted) {
            (Annotation::Object, _) | (_, Annotation::Object) => return None,
            (Annotation::Callable(_), Annotation::Callable(_)) => return None,
            (Annotation::Tuple(found), Annotation::Tuple(expected))
                if found.len() == expected.len() =>
            {
                return found.iter().zip(expected).find_map(|(f, e)| self.learn(f, e));
            }
            (Annotation::Shape(found), Annotation::Shape(expected)) => (found, expected),
            (Annotation::Tensor(found), Annotation::Tensor(expected)) => {
                if let (Some(f), Some(e)) = (found.dtype, expected.dtype)
                    && f != e
                {
                    return Some(format!("dtype {f} is not {e}").into());
                }
                (&found.extents, &expected.extents)
            }
            (found, expected) => {
                return match fits(self.facts, found, expected) {
                    Fit::Never(misfit) => Some(misfit),
                    _ => None,
                };
            }
        };
        if let (Some(f), Some(e)) = (found.rank(), expected.rank())
            && f != e
        {
            return Some(format!("rank {f} is not {e}").into());
        }
        let (Some(found), Some(expected)) = (found.dims(), expected.dims()) else {
            self.leave(format!("match_cast to `{wanted}`"));
            return None;
        };
        for (f, e) in found.iter().zip(expected) {
            let differ = Claim::new(f.clone(), Relation::NotEqual, e.clone());
            let same = Claim::new(f.clone(), Relation::Equal, e.clone());
            if self.facts.decide(&differ) == Answer::Proved {
                let values = match self.facts.decide(&same) {
                    Answer::Refuted(values) => values,
                    Answer::Proved | Answer::Unknown => Counterexample::new(),
                };
                return Some(Misfit {
                    why: format!("{f} is never {e}"),
                    claim: Some(same),
                    values,
                });
            }
            self.facts.assume(same);
        }
        None
    }
}
