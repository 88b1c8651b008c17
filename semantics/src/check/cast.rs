//! What a `match_cast` teaches: its annotation holds from there on. And what is known of it before:
//! passes remove the checks that hold for all dims.

use super::codes;
use super::fit::{Fit, Misfit, fits, more_precise};
use super::function::{Checker, bindable};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Relation};
use relax_syntax::ir::{Atom, DimVar, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a `match_cast` before the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The function it stands in.
    pub function: Name,
    /// Its binding.
    pub var: VarId,
    /// Symbolic variables that it binds, each with the dim of the value that it takes, over variables
    /// that have a value there. What is declared of the variable is proved of the dim.
    pub binds: BTreeMap<Name, Dim>,
    /// The check holds for all dims that the function admits.
    pub proved: bool,
}

impl Checker<'_> {
    /// The cast learns: the value has the annotation from here on.
    pub(super) fn match_cast(
        &mut self,
        var: VarId,
        atom: &Atom,
        annotation: &Annotation,
    ) -> Annotation {
        let known = self.atom(atom);
        let before = self.bound.clone();
        let mut fresh = BTreeSet::new();
        bindable(annotation, &mut |name| {
            if !before.contains(name) {
                fresh.insert(name.clone());
            }
        });
        let cast = self.verdict(var, &known, annotation, &fresh);
        self.casts.push(cast);
        fresh.iter().for_each(|name| self.bind_dim(name));
        self.require_bound(annotation, self.span);
        if let Some(misfit) = self.learn(&known, annotation) {
            let why = misfit.text();
            let message = format!("the value is `{known}` and never `{annotation}`: {why}");
            let diagnostic = Diagnostic::error(codes::CAST, self.span, message)
                .at(Part::Argument(0))
                .with_label(format!("this is `{known}`"))
                .with_part(self.span, Part::Argument(1), "it never is this");
            self.report_misfit(diagnostic, &misfit);
        }
        self.assume_extents(annotation);
        more_precise(&known, annotation)
    }

    /// What is known of the cast, before anything is learnt from it.
    fn verdict(
        &mut self,
        var: VarId,
        known: &Annotation,
        wanted: &Annotation,
        fresh: &BTreeSet<Name>,
    ) -> Cast {
        let mut binds = BTreeMap::new();
        bound_dims(known, wanted, fresh, &mut binds);
        let known_dims = binds.into_iter().filter_map(|(name, dim)| Some((name, dim?)));
        let binds: BTreeMap<_, _> =
            known_dims.filter(|(name, dim)| self.satisfies_declared(name, dim)).collect();
        let proved =
            !has_callable(wanted) && fresh.iter().all(|name| binds.contains_key(name)) && {
                let wanted = wanted.map_dims(&mut |dim| dim.substitute(&binds));
                fits(self.facts, known, &wanted) == Fit::Yes
            };
        Cast { function: self.function.name.clone(), var, binds, proved }
    }

    /// Whether what is declared of a variable is proved of a dim.
    fn satisfies_declared(&mut self, name: &Name, dim: &Dim) -> bool {
        let Some(DimVar { lower, upper, multiple_of, .. }) = self.function.dim(name) else {
            return true;
        };
        let claims = [
            lower.map(|lower| Claim::new(lower, Relation::AtMost, dim.clone())),
            upper.map(|upper| Claim::new(dim.clone(), Relation::AtMost, upper)),
            multiple_of.map(|step| Claim::new(step, Relation::Divides, dim.clone())),
        ];
        let mut claims = claims.into_iter().flatten();
        claims.all(|claim| self.facts.decide(&claim) == Answer::Proved)
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

/// The dims that variables of `fresh` take from a value of `known`, each at its first lone place;
/// `None` where nothing is known of that.
fn bound_dims(
    known: &Annotation,
    wanted: &Annotation,
    fresh: &BTreeSet<Name>,
    binds: &mut BTreeMap<Name, Option<Dim>>,
) {
    let known = match (known, wanted) {
        (Annotation::Tuple(known), Annotation::Tuple(wanted)) if known.len() == wanted.len() => {
            for (known, wanted) in known.iter().zip(wanted) {
                bound_dims(known, wanted, fresh, binds);
            }
            return;
        }
        (Annotation::Shape(known), Annotation::Shape(_)) => known.dims(),
        _ if wanted.as_tensor().is_some() => known.dims(),
        _ => None,
    };
    let mut known = known.into_iter().flatten();
    visit_value_dims(wanted, &mut |dim| {
        let found = known.next();
        if let Dim::Var(name) = dim
            && fresh.contains(name)
        {
            binds.entry(name.clone()).or_insert_with(|| found.cloned());
        }
    });
}

/// Calls `visit` on each dim, those of signatures left out.
fn visit_value_dims(annotation: &Annotation, visit: &mut dyn FnMut(&Dim)) {
    match annotation {
        Annotation::Callable(_) => {}
        Annotation::Tuple(items) => items.iter().for_each(|item| visit_value_dims(item, visit)),
        _ => annotation.visit_dims(&mut |dim| visit(dim)),
    }
}

/// Whether a function is in it: of its signature a cast compares nothing, but calls are held
/// against it afterwards.
fn has_callable(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Callable(_) => true,
        Annotation::Tuple(items) => items.iter().any(has_callable),
        _ => false,
    }
}
