//! The checks of values against annotations: of parameters, casts, calls and results.

use super::code::{Code, integer, text};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Expr, VarId};
use relax_syntax::span::Span;

/// A value and what it must be.
pub(super) struct Subject<'a> {
    pub(super) annotation: &'a Annotation,
    pub(super) value: VarId,
    /// "parameter `x`"
    pub(super) about: String,
    /// Where the text says so.
    pub(super) span: Span,
}

/// What a check does with a variable that is not bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binds {
    /// It is bound where it stands alone.
    Lone,
    /// The dim is not compared.
    Nothing,
}

/// Dims of a value that are compared once every variable is bound.
struct Pending {
    value: VarId,
    about: String,
    expected: String,
    span: Span,
    /// `None`: nothing to compare.
    dims: Vec<Option<Dim>>,
}

/// A check of several values at once.
struct Check<'c> {
    name: &'c str,
    binds: Binds,
    pending: Vec<Pending>,
}

impl Code<'_> {
    /// Checks parameters against their annotations.
    pub(super) fn boundary(&mut self) {
        let function = self.function;
        let subjects: Vec<Subject> = function
            .lambda
            .params
            .iter()
            .map(|&value| {
                let about = format!("parameter `{}`", function.var(value).name);
                let (annotation, span) =
                    (function.param_annotation(value), function.var(value).span);
                Subject { annotation, value, about, span }
            })
            .collect();
        self.check(&subjects, "boundary", Binds::Lone);
    }

    /// Checks the result of the function.
    pub(super) fn checked_result(&mut self, result: Atom) -> Atom {
        self.span = self.function.span;
        match &self.function.lambda.result {
            None | Some(Annotation::Object) => result,
            Some(annotation) => {
                let value = self.held(result, "result");
                let about = "the result".to_owned();
                let span = self.span;
                self.check(&[Subject { annotation, value, about, span }], "return", Binds::Nothing);
                Atom::Var(value)
            }
        }
    }

    pub(super) fn check(&mut self, subjects: &[Subject], name: &str, binds: Binds) {
        let mut check = Check { name, binds, pending: Vec::new() };
        let statement = self.span;
        for subject in subjects {
            self.span = subject.span;
            self.kind(subject, &mut check);
        }
        for pending in std::mem::take(&mut check.pending) {
            self.span = pending.span;
            self.compare(&pending, name);
        }
        self.span = statement;
    }

    fn kind(&mut self, subject: &Subject, check: &mut Check) {
        match subject.annotation {
            Annotation::Object => {}
            Annotation::Callable(_) => self.kind_call(subject, check, "function", None, None),
            Annotation::Prim(dtype) => {
                self.kind_call(subject, check, "scalar", None, Some(*dtype));
            }
            Annotation::Shape(extents) => {
                self.kind_call(subject, check, "shape", extents.rank(), None);
                self.extents(subject, extents, check);
            }
            Annotation::Tuple(fields) => {
                self.kind_call(subject, check, "tuple", Some(fields.len()), None);
                self.fields(subject, fields, check);
            }
            Annotation::Tensor(_) | Annotation::DTensor(_) => {
                let known = subject.annotation.as_tensor().expect("invariant: it is of a tensor");
                self.kind_call(subject, check, "tensor", known.extents.rank(), known.dtype);
                self.extents(subject, &known.extents, check);
            }
        }
    }

    fn fields(&mut self, subject: &Subject, fields: &[Annotation], check: &mut Check) {
        for (index, annotation) in fields.iter().enumerate() {
            if *annotation == Annotation::Object {
                continue;
            }
            let value = self.bound("field", Expr::Get(Atom::Var(subject.value), index));
            let about = format!("field {index} of {}", subject.about);
            self.kind(&Subject { annotation, value, about, span: subject.span }, check);
        }
    }

    fn kind_call(
        &mut self,
        subject: &Subject,
        check: &Check,
        kind: &str,
        size: Option<usize>,
        dtype: Option<DType>,
    ) {
        self.checks += 1;
        let mut attrs = Vec::new();
        attrs.extend(size.map(|size| ("size", integer(size))));
        attrs.extend(dtype.map(|dtype| ("dtype", text(dtype.to_string()))));
        attrs.extend(labels(check.name, &subject.about, &subject.annotation.to_string()));
        self.emit("builtin.check_kind", vec![Atom::Var(subject.value), text(kind)], attrs);
    }

    /// Stores dims that bind a variable, and notes the others.
    fn extents(&mut self, subject: &Subject, extents: &Extents, check: &mut Check) {
        let dims = extents.dims().unwrap_or_default();
        let mut codes = vec![Atom::None; dims.len()];
        let mut pending = vec![None; dims.len()];
        let mut bound = Vec::new();
        for (axis, dim) in dims.iter().enumerate() {
            let is_known =
                dim.vars_all(&|name| self.scope.slots.contains_key(&Dim::Var(name.clone())));
            match (dim, check.binds) {
                (Dim::Var(name), Binds::Lone) if !is_known => {
                    let slot = self.fresh_slot();
                    self.scope.slots.insert(dim.clone(), slot);
                    codes[axis] = Atom::Tuple(vec![text("store"), integer(slot)]);
                    bound.push((axis, name.clone(), slot));
                }
                (_, Binds::Nothing) if !is_known => {}
                _ => pending[axis] = Some(dim.clone()),
            }
        }
        let expected = subject.annotation.to_string();
        if !bound.is_empty() {
            self.match_call(subject.value, codes, labels(check.name, &subject.about, &expected));
        }
        for (axis, name, slot) in bound {
            self.bounds(&name, slot, &format!("dim {axis} of {}", subject.about));
        }
        if pending.iter().any(Option::is_some) {
            let (value, about) = (subject.value, subject.about.clone());
            let span = subject.span;
            check.pending.push(Pending { value, about, expected, span, dims: pending });
        }
    }

    fn match_call(&mut self, value: VarId, codes: Vec<Atom>, attrs: Vec<(&'static str, Atom)>) {
        self.checks += 1;
        let args = vec![Atom::Var(value), self.heap(), Atom::Tuple(codes)];
        self.emit("builtin.match_shape", args, attrs);
    }

    /// What is declared of a variable that was bound.
    fn bounds(&mut self, name: &Name, slot: usize, about: &str) {
        let Some(declared) = self.function.dim(name) else { return };
        let facts = [
            ("lower_bound", declared.lower),
            ("upper_bound", declared.upper),
            ("multiple_of", declared.multiple_of),
        ];
        for (fact, limit) in facts {
            let Some(limit) = limit else { continue };
            self.checks += 1;
            let args = vec![self.heap(), integer(slot), text(fact), Atom::Dim(Dim::Int(limit))];
            self.emit(
                "builtin.check_bound",
                args,
                vec![("name", text(name)), ("about", text(about))],
            );
        }
    }

    fn compare(&mut self, pending: &Pending, name: &str) {
        // A dim that has no value fails the check, too.
        let failing = if name.contains('/') { name.to_owned() } else { format!("{name}/dim") };
        let mut codes = Vec::new();
        for dim in &pending.dims {
            codes.push(match dim {
                None => Atom::None,
                Some(dim) => self.operand(dim, &failing, &pending.about),
            });
        }
        self.match_call(pending.value, codes, labels(name, &pending.about, &pending.expected));
    }
}

/// What a check is a part of.
fn labels(check: &str, about: &str, expected: &str) -> Vec<(&'static str, Atom)> {
    vec![("check", text(check)), ("about", text(about)), ("expected", text(expected))]
}
