//! Deduction through one function.

use super::effects::{Effects, is_declared};
use super::fit::{Fit, coarsen, fits, join, limited, more_precise};
use super::purity::forbidden_in_dataflow;
use super::signature::own_signature;
use super::{Cast, Left, codes};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, OWN, TensorType};
use relax_syntax::diagnostic::{Applicability, Diagnostic, Fix, Part};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts};
use relax_syntax::ir::{
    Atom, Block, BlockKind, Body, Expr, Function, Lambda, Module, VarId, donated_names,
};
use relax_syntax::print::print_expression;
use relax_syntax::raise::{Site, annotation_expr};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// What the check of a function found.
pub(super) struct Outcome {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) obligations: Vec<Left>,
    pub(super) casts: Vec<Cast>,
    pub(super) annotations: Vec<Annotation>,
    pub(super) result: Annotation,
}

/// The state of deduction in one function.
pub(super) struct Checker<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    pub(super) results: &'a BTreeMap<Name, Annotation>,
    pub(super) effects: &'a Effects,
    /// Variables whose signature is that of the function they hold.
    pub(super) exact: BTreeSet<VarId>,
    pub(super) facts: &'a mut dyn Facts,
    pub(super) annotations: Vec<Annotation>,
    /// Symbolic variables that have a value here.
    pub(super) bound: BTreeSet<Name>,
    /// Expressions that are assumed to be natural here.
    pub(super) natural: BTreeSet<Dim>,
    /// Where each symbolic variable got its value.
    pub(super) origins: BTreeMap<Name, Span>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) obligations: Vec<Left>,
    pub(super) casts: Vec<Cast>,
    /// The binding that is being checked; `None` at the result of the function.
    pub(super) var: Option<VarId>,
    /// The span of the binding that is being checked.
    pub(super) span: Span,
    pub(super) in_dataflow: bool,
}

/// Checks a function in facts of its own.
pub(super) fn check(
    module: &Module,
    function: &Function,
    results: &BTreeMap<Name, Annotation>,
    effects: &Effects,
    facts: &mut dyn Facts,
) -> Outcome {
    let mut checker = Checker {
        module,
        function,
        results,
        effects,
        exact: BTreeSet::new(),
        facts,
        annotations: vec![Annotation::Object; function.vars.len()],
        bound: BTreeSet::new(),
        natural: BTreeSet::new(),
        origins: BTreeMap::new(),
        diagnostics: Vec::new(),
        obligations: Vec::new(),
        casts: Vec::new(),
        var: None,
        span: function.span,
        in_dataflow: false,
    };
    if is_declared(&function.lambda, "pure") && effects.has_effect(&function.name) {
        let message = format!("`{}` is declared pure, and has an effect", function.name);
        checker.error(codes::EFFECT, function.span, message);
    }
    let deduced = checker.lambda(&function.lambda, function.span);
    let result = of_signature(function, &deduced);
    let Checker { diagnostics, obligations, casts, annotations, .. } = checker;
    Outcome { diagnostics, obligations, casts, annotations, result }
}

/// A result as callers may see it: over variables that the parameters bind.
pub(super) fn of_signature(function: &Function, result: &Annotation) -> Annotation {
    let lone = lone_vars(function, &function.lambda);
    coarsen(result, &|dim| dim.vars_all(&|name| lone.contains(name) || name.starts_with(OWN)))
}

/// Variables that stand alone as a dim of a parameter, which binds them.
pub(super) fn lone_vars(function: &Function, lambda: &Lambda) -> BTreeSet<Name> {
    let mut lone = BTreeSet::new();
    for &param in &lambda.params {
        bindable(function.param_annotation(param), &mut |name| {
            lone.insert(name.clone());
        });
    }
    lone
}

/// Calls `visit` on each variable that stands alone as a dim, callables not entered.
pub(super) fn bindable(annotation: &Annotation, visit: &mut dyn FnMut(&Name)) {
    match annotation {
        Annotation::Tuple(items) => items.iter().for_each(|item| bindable(item, visit)),
        Annotation::Callable(_) => {}
        _ => annotation.visit_dims(&mut |dim| {
            if let Dim::Var(name) = dim {
                visit(name);
            }
        }),
    }
}

/// A value that does not have the annotation of its binding.
fn unlike(code: &'static str, span: Span, message: String, deduced: &Annotation) -> Diagnostic {
    Diagnostic::error(code, span, message)
        .at(Part::Value)
        .with_label(format!("this is `{deduced}`"))
        .with_part(span, Part::Annotation, "declared here")
}

impl Checker<'_> {
    pub(super) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, span, message).at(Part::Value));
    }

    /// A caller gives up tensors, and only to a function that it calls by its name.
    fn donated(&mut self, lambda: &Lambda, span: Span) {
        let is_tensor = |param: &&VarId| {
            let annotation = self.function.param_annotation(**param);
            matches!(
                annotation,
                Annotation::Tensor(_) | Annotation::DTensor(_) | Annotation::Object
            )
        };
        let tensors = lambda.params.iter().filter(is_tensor);
        let tensors: BTreeSet<&str> =
            tensors.map(|&param| self.function.var(param).name.as_str()).collect();
        let is_nested = !std::ptr::eq(lambda, &raw const self.function.lambda);
        let wrong =
            donated_names(&lambda.attrs).filter(|name| is_nested || !tensors.contains(name));
        let wrong: Vec<String> = wrong.map(str::to_owned).collect();
        for name in wrong {
            let message = match is_nested {
                true => {
                    format!("a nested function is given `{name}` by callers that do not know it")
                }
                false => format!("`{name}` is donated, and is no tensor parameter"),
            };
            self.error(codes::DONATED, span, message);
        }
    }

    /// Parameters, body and result; gives the deduced result (the declared one where there is one).
    fn lambda(&mut self, lambda: &Lambda, span: Span) -> Annotation {
        self.donated(lambda, span);
        for &param in &lambda.params {
            let annotation = self.function.param_annotation(param).clone();
            bindable(&annotation, &mut |name| self.bind_dim(name));
        }
        for &param in &lambda.params {
            let annotation = self.function.param_annotation(param).clone();
            self.require_bound(&annotation, self.function.var(param).span);
            self.assume_extents(&annotation);
            self.annotations[param.0 as usize] = annotation;
        }
        let Some(body) = &lambda.body else {
            return lambda.result.clone().unwrap_or(Annotation::Object);
        };
        let deduced = self.body(body);
        let Some(declared) = &lambda.result else { return deduced };
        (self.var, self.span) = (None, span);
        self.require_bound(declared, span);
        match fits(self.facts, &deduced, declared) {
            Fit::Yes => more_precise(&deduced, declared),
            Fit::Never(misfit) => {
                let why = misfit.text();
                let message = format!("the result is `{deduced}`, declared is `{declared}`: {why}");
                let diagnostic = Diagnostic::error(codes::RESULT, span, message)
                    .at(Part::Returned)
                    .with_label(format!("this is `{deduced}`"))
                    .with_part(span, Part::Result, format!("declared is `{declared}`"));
                let diagnostic = self.with_result(diagnostic, &deduced);
                self.report_misfit(diagnostic, &misfit);
                declared.clone()
            }
            Fit::Fails(misfit) | Fit::Unknown(misfit) => {
                self.leave(format!("return: {}", misfit.text()));
                declared.clone()
            }
        }
    }

    /// Suggests to declare the result that was deduced, where a signature can say it.
    fn with_result(&self, diagnostic: Diagnostic, deduced: &Annotation) -> Diagnostic {
        if of_signature(self.function, deduced) != *deduced {
            return diagnostic;
        }
        let replacement = print_expression(&annotation_expr(deduced, Site::Signature));
        let help = format!("declare what is returned: `{replacement}`");
        diagnostic.with_help(help).with_edit(Fix {
            span: self.span,
            part: Part::Result,
            replacement,
            applicability: Applicability::Possible,
        })
    }

    /// Notes a check that run time makes.
    pub(super) fn leave(&mut self, text: String) {
        self.leave_claim(text, None);
    }

    /// The same for a check that compares dims.
    pub(super) fn leave_claim(&mut self, text: String, claim: Option<Claim>) {
        let (function, var, span) = (self.function.name.clone(), self.var, self.span);
        self.obligations.push(Left { function, var, span, text, claim });
    }

    /// Reports variables of an annotation that have no value here.
    pub(super) fn require_bound(&mut self, annotation: &Annotation, span: Span) {
        let mut missing = BTreeSet::new();
        annotation.visit_dims(&mut |dim| self.missing_dims(dim, &mut missing));
        self.report_missing(missing, span);
    }

    fn missing_dims(&self, dim: &Dim, missing: &mut BTreeSet<Name>) {
        dim.visit_vars(&mut |name| {
            if !self.bound.contains(name) && !name.starts_with(OWN) {
                missing.insert(name.clone());
            }
        });
    }

    fn report_missing(&mut self, missing: BTreeSet<Name>, span: Span) {
        for name in missing {
            let message = format!("symbolic variable `{name}` is declared and not bound here");
            let diagnostic = Diagnostic::error(codes::UNBOUND_DIM, span, message).at(Part::Value);
            let mut diagnostic = diagnostic.with_label(format!("uses `{name}`")).with_help(
                "it is bound where it stands alone as a dim: in a parameter, or in a `match_cast`",
            );
            if let Some(dim) = self.function.dim(&name) {
                diagnostic = diagnostic.with_place(dim.span, "declared here");
            }
            self.diagnostics.push(diagnostic);
        }
    }

    fn body(&mut self, body: &Body) -> Annotation {
        for block in &body.blocks {
            self.block(block);
        }
        limited(self.atom(&body.result))
    }

    fn block(&mut self, block: &Block) {
        let outer = self.in_dataflow;
        self.in_dataflow = matches!(block.kind, BlockKind::Dataflow { .. });
        for binding in &block.bindings {
            self.binding(binding.var, &binding.expr);
        }
        self.in_dataflow = outer;
    }

    fn binding(&mut self, var: VarId, expr: &Expr) {
        let info = self.function.var(var);
        (self.var, self.span) = (Some(var), info.span);
        let before = self.diagnostics.len();
        let deduced = self.expr(var, expr);
        (self.var, self.span) = (Some(var), info.span);
        let annotation = match &info.annotation {
            // What is wrong has been said: the annotation is all that is known, and not compared.
            Some(wanted) if self.diagnostics.len() > before => wanted.clone(),
            Some(wanted) => {
                self.require_bound(wanted, info.span);
                self.annotated(&deduced, wanted)
            }
            None => deduced,
        };
        // Were a signature written down, calls would be held against it: only what is so anyway is.
        let annotation = match limited(annotation) {
            Annotation::Callable(Some(_)) if !self.is_held(var) => Annotation::Callable(None),
            annotation => annotation,
        };
        self.assume_extents(&annotation);
        self.annotations[var.0 as usize] = annotation;
    }

    /// `v: wanted = e` where `deduced` is known of `e`.
    fn annotated(&mut self, deduced: &Annotation, wanted: &Annotation) -> Annotation {
        let span = self.span;
        match fits(self.facts, deduced, wanted) {
            Fit::Yes => return more_precise(deduced, wanted),
            Fit::Never(misfit) => {
                let why = misfit.text();
                let message = format!("the value is `{deduced}`, not `{wanted}`: {why}");
                let diagnostic = unlike(codes::ANNOTATION_WRONG, span, message, deduced);
                self.report_misfit(diagnostic, &misfit);
            }
            Fit::Fails(misfit) => {
                let why = misfit.text();
                let message = format!("the value is `{deduced}`, not `{wanted}`: {why}");
                let mut diagnostic = unlike(codes::ANNOTATION_WRONG, span, message, deduced);
                if let Some(advice) = self.advice(&misfit) {
                    diagnostic = diagnostic.with_help(advice);
                }
                self.report_misfit(diagnostic, &misfit);
            }
            Fit::Unknown(misfit) => {
                let why = misfit.text();
                let message =
                    format!("the value is `{deduced}`; cannot prove that it is `{wanted}`: {why}");
                let mut help =
                    format!("write `match_cast(..., {wanted})`: then it is checked at run time");
                if let Some(advice) = self.advice(&misfit) {
                    help += &format!("; or {advice}");
                }
                let diagnostic = unlike(codes::ANNOTATION_UNDECIDED, span, message, deduced);
                self.report_misfit(diagnostic.with_help(help), &misfit);
            }
        }
        wanted.clone()
    }

    fn expr(&mut self, var: VarId, expr: &Expr) -> Annotation {
        if self.in_dataflow {
            self.require_dataflow(expr);
        }
        match expr {
            Expr::Atom(atom) => {
                let exact = match atom {
                    Atom::Global(name) => self.module.function(name).is_some(),
                    Atom::Var(of) => self.exact.contains(of),
                    _ => false,
                };
                if exact {
                    self.exact.insert(var);
                }
                self.atom(atom)
            }
            Expr::Call { callee, args, attrs } => self.call(callee, args, attrs),
            Expr::Get(atom, index) => self.get(atom, *index),
            Expr::MatchCast(atom, annotation) => self.match_cast(var, atom, annotation),
            Expr::If { condition, then, otherwise } => {
                self.condition(condition);
                let then = self.branch(then);
                let otherwise = self.branch(otherwise);
                let joined = join(self.facts, &then, &otherwise);
                coarsen(&joined, &|dim| {
                    dim.vars_all(&|name| self.bound.contains(name) || name.starts_with(OWN))
                })
            }
            Expr::Closure(lambda) => self.closure(var, lambda),
        }
    }

    /// A dataflow block holds what has no effect and no control flow.
    fn require_dataflow(&mut self, expr: &Expr) {
        let forbidden = forbidden_in_dataflow(
            self.module,
            &|name| self.effects.has_effect(name),
            &|var| &self.annotations[var.0 as usize],
            expr,
        );
        if let Some(what) = forbidden {
            let message = format!("{what} stands in a dataflow block");
            self.error(codes::DATAFLOW_CONTENT, self.span, message);
        }
    }

    /// A branch sees what is bound before it, and what it binds stays in it.
    fn branch(&mut self, body: &Body) -> Annotation {
        let (bound, natural) = (self.bound.clone(), self.natural.clone());
        self.facts.push();
        let result = self.body(body);
        self.facts.pop();
        (self.bound, self.natural) = (bound, natural);
        result
    }

    fn closure(&mut self, var: VarId, lambda: &Lambda) -> Annotation {
        let (outer, natural) = (self.bound.clone(), self.natural.clone());
        let params: Vec<_> =
            lambda.params.iter().map(|&p| self.function.param_annotation(p).clone()).collect();
        let mut own = BTreeSet::new();
        params.iter().for_each(|param| {
            bindable(param, &mut |name| {
                if !outer.contains(name) {
                    own.insert(name.clone());
                }
            })
        });
        let is_own = |name: &Name| own.contains(name);
        // Within its own body a closure is known by what is declared of it.
        let declared = lambda.result.clone().unwrap_or(Annotation::Object);
        let pure = !self.effects.closure_has_effect(self.function, lambda);
        self.annotations[var.0 as usize] = own_signature(params.clone(), &declared, pure, &is_own);
        self.exact.insert(var);
        let (span, in_dataflow) = (self.span, std::mem::replace(&mut self.in_dataflow, false));
        self.facts.push();
        let deduced = self.lambda(lambda, span);
        self.facts.pop();
        (self.in_dataflow, self.bound, self.natural) = (in_dataflow, outer, natural);
        let known = coarsen(&deduced, &|dim| {
            dim.vars_all(&|name| {
                self.bound.contains(name) || own.contains(name) || name.starts_with(OWN)
            })
        });
        own_signature(params, &known, pure, &is_own)
    }

    fn condition(&mut self, atom: &Atom) {
        let known = self.atom(atom);
        let fits = match &known {
            Annotation::Object => true,
            Annotation::Prim(dtype) => *dtype == DType::Bool,
            Annotation::Tensor(TensorType { extents, dtype }) => {
                dtype.is_none_or(|dtype| dtype == DType::Bool)
                    && extents.rank().is_none_or(|rank| rank == 0)
            }
            _ => false,
        };
        if !fits {
            let message = format!("a condition is a bool scalar, found `{known}`");
            self.error(codes::CONDITION, self.span, message);
        }
    }

    fn get(&mut self, atom: &Atom, index: usize) -> Annotation {
        match self.atom(atom) {
            Annotation::Tuple(mut items) if index < items.len() => items.swap_remove(index),
            Annotation::Object => Annotation::Object,
            other => {
                let message = match &other {
                    Annotation::Tuple(items) => {
                        format!("a tuple of {} fields has no field {index}", items.len())
                    }
                    _ => format!("only a tuple has fields, found `{other}`"),
                };
                self.error(codes::FIELD, self.span, message);
                Annotation::Object
            }
        }
    }

    /// What is known of an atom; reports dims without a value.
    pub(super) fn atom(&mut self, atom: &Atom) -> Annotation {
        match atom {
            Atom::Var(var) => self.annotations[var.0 as usize].clone(),
            Atom::Global(name) => self.global(name),
            Atom::Dim(dim) => {
                self.use_dims([dim]);
                Annotation::Prim(DType::I64)
            }
            Atom::Float(_) => Annotation::Prim(DType::F64),
            Atom::Bool(_) => Annotation::Prim(DType::Bool),
            Atom::Str(_) | Atom::None => Annotation::Object,
            Atom::Annotation(annotation) => {
                self.require_bound(annotation, self.span);
                Annotation::Object
            }
            Atom::Constant(constant) => {
                let extents =
                    Extents::Known(relax_syntax::resolve::constant::constant_dims(constant));
                Annotation::Tensor(TensorType { extents, dtype: Some(constant.dtype) })
            }
            Atom::External(external) => external.annotation.clone(),
            Atom::Tuple(items) | Atom::List(items) => {
                Annotation::Tuple(items.iter().map(|item| self.atom(item)).collect())
            }
            Atom::Shape(dims) => {
                self.use_dims(dims);
                Annotation::Shape(Extents::Known(dims.clone()))
            }
        }
    }

    fn use_dims<'d>(&mut self, dims: impl IntoIterator<Item = &'d Dim>) {
        let mut missing = BTreeSet::new();
        dims.into_iter().for_each(|dim| self.missing_dims(dim, &mut missing));
        self.report_missing(missing, self.span);
    }

    fn global(&mut self, name: &Name) -> Annotation {
        let Some(function) = self.module.function(name) else { return Annotation::Callable(None) };
        let params = &function.lambda.params;
        let params = params.iter().map(|&p| function.param_annotation(p).clone()).collect();
        let result = self.results.get(name).cloned().unwrap_or(Annotation::Object);
        own_signature(params, &result, !self.effects.has_effect(name), &|_| true)
    }
}
