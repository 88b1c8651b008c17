//! Operators, parameters and keywords that do not exist: what was probably meant.

use super::blame::Passed;
use super::codes;
use super::function::Checker;
use crate::ops::{BindError, Operator, all, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::foreign::{self, Ours};
use relax_syntax::suggest;

impl Checker<'_> {
    pub(super) fn unknown_operator(&mut self, name: &Name) -> Annotation {
        let message = format!("there is no operator or function `{name}`");
        let found = Diagnostic::error(codes::UNKNOWN_OPERATOR, self.span, message).at(Part::Callee);
        let found = match meant(name) {
            Some(Ours::Operator(ours)) => found
                .with_label("another framework's name")
                .with_help(format!("write `{ours}`; `relax ops {ours}` shows its parameters"))
                .with_fix(ours),
            Some(Ours::Form(form)) => found
                .with_label("another framework's name")
                .with_help(format!("there is no operator for this alone; write `{form}`")),
            None => {
                let module = self.module;
                let mut known: Vec<&str> = names().collect();
                known
                    .extend(module.definitions.iter().map(|definition| definition.name().as_str()));
                let near = suggest::nearest(name, known);
                let found = found.with_label("unknown operator");
                if near.is_empty() {
                    found.with_help("`relax ops` lists the operators")
                } else {
                    found.with_suggestions(&near)
                }
            }
        };
        self.diagnostics.push(found);
        Annotation::Object
    }

    pub(super) fn bad_arguments(
        &mut self,
        row: &'static Operator,
        error: &BindError,
        passed: Passed<'_>,
    ) {
        let params: Vec<_> = row.params.iter().map(|param| param.name).collect();
        let message = format!("`{}`: {error}", row.short_name());
        let found = Diagnostic::error(codes::ARGUMENTS, self.span, message);
        let help = format!("its parameters are ({})", params.join(", "));
        let found = match error {
            BindError::TooMany { limit } => found
                .at(Part::Argument(limit + passed.skipped))
                .with_label("one argument too many")
                .with_help(help),
            BindError::Missing(name) => found
                .at(Part::Callee)
                .with_label(format!("called without `{name}`"))
                .with_help(help),
            BindError::Twice(name) => found
                .at(Part::KeywordName(Name::new(name)))
                .with_label("given before")
                .with_help(help),
            BindError::UnknownKeyword(name) => {
                let found =
                    found.at(Part::KeywordName(name.clone())).with_label("no such parameter");
                let mut near: Vec<&str> =
                    foreign::keywords(name).filter(|ours| params.contains(ours)).collect();
                if near.is_empty() {
                    near = suggest::nearest(name, params.iter().copied());
                }
                match near.first() {
                    Some(first) => {
                        let mut fixed = found.with_suggestions(&near[..1]);
                        fixed.help = Some(format!("did you mean `{first}`? I{}", &help[1..]));
                        fixed
                    }
                    None => found.with_help(help),
                }
            }
        };
        self.diagnostics.push(found);
    }
}

/// What a name of another framework means.
#[must_use]
pub fn meant(name: &str) -> Option<Ours> {
    let short = foreign::without_module(name);
    if let Some(row) = lookup(short) {
        return Some(Ours::Operator(row.short_name()));
    }
    let plain = foreign::plain(short);
    let same = all().find(|row| foreign::plain(row.short_name()) == plain);
    same.map(|row| Ours::Operator(row.short_name())).or_else(|| foreign::function(name))
}

/// Every name of an operator.
fn names() -> impl Iterator<Item = &'static str> {
    all().flat_map(|row| [row.short_name()].into_iter().chain(row.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::ast::BinaryOp;

    /// The table of foreign names knows no operators: this holds it against them.
    #[test]
    fn what_foreign_names_mean_exists() {
        for (foreign, ours) in foreign::FUNCTIONS {
            if let Ours::Operator(name) = ours {
                assert!(lookup(name).is_some(), "`{foreign}` means `{name}`, which is no operator");
            }
            assert_eq!(*foreign, foreign::plain(foreign), "`{foreign}` is never looked up");
            let is_ours = all().any(|row| {
                foreign::plain(row.short_name()) == *foreign && row.short_name() == *foreign
            });
            assert!(!is_ours, "`{foreign}` is an operator");
        }
        use BinaryOp as B;
        for op in
            [B::Or, B::Less, B::BitAnd, B::ShiftLeft, B::Add, B::Div, B::Mod, B::Power, B::MatMul]
        {
            assert!(lookup(foreign::infix(op)).is_some(), "{op:?}");
        }
        for (foreign, ours) in foreign::KEYWORDS {
            let is_param = all().any(|row| row.params.iter().any(|param| param.name == *ours));
            assert!(is_param, "`{foreign}` means `{ours}`, which no operator has");
        }
    }

    #[test]
    fn foreign_names_are_told_by_what_they_mean() {
        let operator = |name| match meant(name) {
            Some(Ours::Operator(name)) => name,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(operator("torch.relu"), "relu");
        assert_eq!(operator("np.concatenate"), "concat");
        assert_eq!(operator("F.LeakyReLU"), "leakyrelu");
        assert_eq!(operator("LayerNorm"), "layer_norm");
        assert!(matches!(meant("torch.nn.Linear"), Some(Ours::Form(_))));
        assert_eq!(meant("rleu"), None);
    }
}
