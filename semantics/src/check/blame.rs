//! Which arguments of a call a diagnostic is about: labels with what they are, at the call and where
//! they are bound.

use super::function::Checker;
use crate::ops::{Kind, Operator, Reject};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

/// The arguments of the call that is checked.
#[derive(Clone, Copy)]
pub(super) struct Passed<'a> {
    pub(super) args: &'a [Atom],
    pub(super) attrs: &'a [(Name, Atom)],
    /// Arguments before those: the operator's own name, where it is called by name.
    pub(super) skipped: usize,
}

impl<'a> Passed<'a> {
    /// The argument for a parameter, and where it stands.
    fn of(&self, row: &Operator, index: usize) -> Option<(&'a Atom, Part)> {
        let param = &row.params[index];
        let keyword = self.attrs.iter().find(|(name, _)| param.is_called(name));
        if let Some((name, atom)) = keyword {
            return Some((atom, Part::Keyword(name.clone())));
        }
        let atom = self.args.get(index)?;
        Some((atom, Part::Argument(index + self.skipped)))
    }
}

impl Checker<'_> {
    /// Labels the arguments that an operator refuses: the parameter that the rejection names, else those that the
    /// constraint speaks of.
    pub(super) fn with_arguments(
        &mut self,
        mut diagnostic: Diagnostic,
        row: &'static Operator,
        reject: &Reject,
        passed: Passed<'_>,
    ) -> Diagnostic {
        let text =
            row.constraints.iter().find(|c| c.id == reject.constraint).map_or("", |c| c.text);
        let mut concerned: Vec<usize> = (0..row.params.len())
            .filter(|&at| {
                let name = row.params[at].name;
                reject.param == Some(name) || has_word(text, name)
            })
            .collect();
        // The one to blame comes first: what the rejection names, else an attribute, else the last operand.
        concerned.sort_by_key(|&at| {
            let param = &row.params[at];
            let is_named = reject.param == Some(param.name);
            (!is_named, is_operand(param.kind), std::cmp::Reverse(at))
        });
        let mut is_first = true;
        for at in concerned {
            let Some((atom, part)) = passed.of(row, at) else { continue };
            let label = self.described(row, at, atom, passed);
            let span = self.span;
            if std::mem::take(&mut is_first) {
                diagnostic = diagnostic.at(part).with_label(label);
                if let Some(axis) = self.axis_within(row, at, atom, passed) {
                    diagnostic = diagnostic
                        .with_help(format!("did you mean `{axis}`?"))
                        .with_possible_fix(axis.to_string());
                }
                if let Some(name) = self.fits_transposed(row, at, passed) {
                    diagnostic = diagnostic
                        .with_help(format!("its transpose fits: `permute_dims({name})`"))
                        .with_possible_fix(format!("permute_dims({name})"));
                }
            } else {
                diagnostic = diagnostic.with_part(span, part, label);
            }
            diagnostic = self.with_binding(diagnostic, atom);
        }
        if is_first { diagnostic.at(Part::Value) } else { diagnostic }
    }

    /// What to see of an argument: the shape of a tensor, the valid values of an axis.
    fn described(
        &mut self,
        row: &'static Operator,
        at: usize,
        atom: &Atom,
        passed: Passed<'_>,
    ) -> String {
        let param = &row.params[at];
        if param.name == "axis"
            && matches!(atom, Atom::Dim(_))
            && let Some(rank @ 1..) = self.rank_of_first(row, passed)
        {
            return format!("valid are -{rank} to {}", rank - 1);
        }
        match self.atom(atom) {
            Annotation::Tensor(tensor) => match (&tensor.extents, tensor.dtype) {
                (Extents::Known(dims), dtype) => {
                    let dtype = dtype.map_or_else(String::new, |dtype| format!(" of {dtype}"));
                    format!("{} has the shape {}{dtype}", self.called(atom), shape(dims))
                }
                _ => format!("{} is `{}`", self.called(atom), Annotation::Tensor(tensor)),
            },
            Annotation::Object => format!("passed as `{}`", param.name),
            other => format!("{} is `{other}`", self.called(atom)),
        }
    }

    fn rank_of_first(&mut self, row: &'static Operator, passed: Passed<'_>) -> Option<usize> {
        let first = passed.of(row, 0).map(|(atom, _)| self.atom(atom))?;
        first.as_tensor()?.extents.rank()
    }

    /// The nearest valid value of an axis that is out of range.
    fn axis_within(
        &mut self,
        row: &'static Operator,
        at: usize,
        atom: &Atom,
        passed: Passed<'_>,
    ) -> Option<i64> {
        let Atom::Dim(Dim::Int(axis)) = atom else { return None };
        let rank = i64::try_from(self.rank_of_first(row, passed)?).ok()?;
        let is_wrong = row.params[at].name == "axis" && !(-rank..rank).contains(axis) && rank > 0;
        is_wrong.then(|| (*axis).clamp(-rank, rank - 1))
    }

    /// The name of the second factor of a product, where it is a matrix whose columns are as many as those of the first: as weights
    /// are stored elsewhere.
    fn fits_transposed(
        &mut self,
        row: &'static Operator,
        at: usize,
        passed: Passed<'_>,
    ) -> Option<Name> {
        let (atom, _) = passed.of(row, at).filter(|_| row.name == "matmul" && at == 1)?;
        let Atom::Var(var) = atom else { return None };
        let (first, _) = passed.of(row, 0)?;
        let mut dims = |atom| match self.atom(atom).as_tensor() {
            Some(TensorType { extents: Extents::Known(dims), .. }) => Some(dims.clone()),
            _ => None,
        };
        let (first, second) = (dims(first)?, dims(atom)?);
        let fits = second.len() == 2 && first.last() == second.last() && !self.is_fresh(*var);
        fits.then(|| self.function.var(*var).name.clone())
    }

    /// A variable by the name that the text gives it.
    pub(super) fn called(&self, atom: &Atom) -> String {
        match atom {
            Atom::Var(var) if !self.is_fresh(*var) => format!("`{}`", self.function.var(*var).name),
            _ => "this".to_owned(),
        }
    }

    /// A label where an argument is bound, if that is elsewhere.
    fn with_binding(&self, diagnostic: Diagnostic, atom: &Atom) -> Diagnostic {
        let Atom::Var(var) = atom else { return diagnostic };
        let info = self.function.var(*var);
        let is_known = diagnostic
            .secondary
            .iter()
            .any(|label| label.span == info.span && label.part == Part::Whole);
        if self.is_fresh(*var) || info.span.is_synthetic() || is_known {
            return diagnostic;
        }
        diagnostic.with_place(info.span, format!("`{}` is bound here", info.name))
    }

    /// Whether a variable stands for an intermediate value: the span of such a one is larger than its name, as it
    /// covers the expression.
    fn is_fresh(&self, var: relax_syntax::ir::VarId) -> bool {
        let info = self.function.var(var);
        let length = info.span.end.saturating_sub(info.span.start) as usize;
        length != info.name.len()
    }

    /// The message with the names of operands in place of those of numbered parameters.
    pub(super) fn named(
        &self,
        row: &'static Operator,
        message: &str,
        passed: Passed<'_>,
    ) -> String {
        let mut named = message.to_owned();
        for (at, param) in row.params.iter().enumerate() {
            let is_numbered = param.name.ends_with(|c: char| c.is_ascii_digit());
            if let Some((Atom::Var(var), _)) = passed.of(row, at).filter(|_| is_numbered)
                && !self.is_fresh(*var)
            {
                // Marked, so that a variable `x2` passed as `x1` is not taken for the parameter.
                let name = format!("`\u{1}{}`", self.function.var(*var).name);
                named = named.replace(&format!("`{}`", param.name), &name);
            }
        }
        named.replace('\u{1}', "")
    }
}

/// `(n, 4)`
fn shape(dims: &[Dim]) -> String {
    match dims {
        [only] => format!("({only},)"),
        dims => format!("({})", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn is_operand(kind: Kind) -> bool {
    matches!(kind, Kind::Tensor | Kind::OptionalTensor | Kind::Tensors | Kind::Rest | Kind::Value)
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        // `a` is an article in most of the sentences.
        word.len() > 1 || word == "x"
    } && !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}
