//! What each phase of compilation demands of a module (language reference, §5).

use super::codes;
use crate::ops::{Family, lookup};
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::ir::{
    Atom, AttrValue, Block, BlockKind, Body, Callee, Expr, Function, Module, VarId, attr,
};
use relax_syntax::suggest;

/// A phase of compilation, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// As a person writes it: nested functions are allowed.
    Surface,
    /// After ingestion.
    P0,
    /// After optimization.
    P1,
    /// Early build: memory is explicit.
    P21,
    /// Target-specific passes.
    P22,
    /// Lowered built-ins: what the virtual machine runs.
    P23,
}

impl Phase {
    /// Reads `P0`, `P1`, `P2.1`, `P2.2` or `P2.3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Phase> {
        Some(match text {
            "P0" => Phase::P0,
            "P1" => Phase::P1,
            "P2.1" => Phase::P21,
            "P2.2" => Phase::P22,
            "P2.3" => Phase::P23,
            _ => return None,
        })
    }

    /// As [`Phase::parse`] reads it; surface text has no name there.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Surface => "surface",
            Phase::P0 => "P0",
            Phase::P1 => "P1",
            Phase::P21 => "P2.1",
            Phase::P22 => "P2.2",
            Phase::P23 => "P2.3",
        }
    }

    /// The phase that a module says it is in; surface text when it says nothing.
    ///
    /// # Errors
    /// The text of the attribute, when it names no phase.
    pub fn of_module(module: &Module) -> Result<Phase, String> {
        match attr(&module.attrs, "phase") {
            None => Ok(Phase::Surface),
            Some(AttrValue::Str(text)) => Phase::parse(text).ok_or_else(|| text.to_string()),
            Some(other) => Err(format!("{other:?}")),
        }
    }
}

fn hint(text: &str) -> String {
    let names = ["P0", "P1", "P2.1", "P2.2", "P2.3"];
    suggest::hint(text, &names).unwrap_or_default()
}

/// Everything that a phase forbids.
pub(super) fn check(module: &Module, phase: Phase) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Err(text) = Phase::of_module(module) {
        let message = format!("`{text}` is no phase; {}", hint(&text));
        let place = relax_syntax::span::Span::default();
        found.push(Diagnostic::error(codes::PHASE_NAME, place, message));
    }
    for function in module.functions() {
        let mut checker = PhaseChecker { module, function, phase, found: &mut found };
        checker.function();
    }
    found
}

struct PhaseChecker<'a> {
    module: &'a Module,
    function: &'a Function,
    phase: Phase,
    found: &'a mut Vec<Diagnostic>,
}

impl PhaseChecker<'_> {
    fn report(&mut self, code: &'static str, var: Option<VarId>, message: impl Into<String>) {
        let span = var.map_or(self.function.span, |var| self.function.var(var).span);
        let part = if code == codes::OPERATOR_PHASE || code == codes::CALL_TIR_PHASE {
            Part::Callee
        } else {
            Part::Value
        };
        let phase = self.phase.name();
        let found = Diagnostic::error(code, span, message).at(part);
        self.found.push(
            found
                .with_label(format!("not in phase {phase}"))
                .with_help(format!("`relax opt --to {phase}` lowers a program to this phase")),
        );
    }

    fn function(&mut self) {
        if self.phase >= Phase::P23 && !self.function.dims.is_empty() {
            let name = &self.function.dims[0].name;
            let message = format!("symbolic variable `{name}` is left");
            self.report(codes::SYMBOLIC_PHASE, None, message);
        }
        if let Some(body) = &self.function.lambda.body {
            self.body(body);
        }
    }

    fn body(&mut self, body: &Body) {
        for block in &body.blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        if self.phase >= Phase::P21 && matches!(block.kind, BlockKind::Dataflow { .. }) {
            let first = block.bindings.first().map(|binding| binding.var);
            self.report(codes::DATAFLOW_PHASE, first, "a dataflow block is left");
        }
        for binding in &block.bindings {
            self.expr(binding.var, &binding.expr);
        }
    }

    fn expr(&mut self, var: VarId, expr: &Expr) {
        match expr {
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Closure(lambda) => {
                if self.phase >= Phase::P0 {
                    let name = self.function.var(var).name.clone();
                    let message = format!("`{name}` is nested in `{}`", self.function.name);
                    let span = self.function.var(var).span;
                    self.found.push(
                        Diagnostic::error(codes::NESTED_FUNCTION, span, message)
                            .with_help("move it to the top level, what it captures as parameters"),
                    );
                }
                if let Some(body) = &lambda.body {
                    self.body(body);
                }
            }
            Expr::Call { callee, args, attrs } => {
                self.call(var, callee);
                args.iter()
                    .chain(attrs.iter().map(|(_, atom)| atom))
                    .for_each(|a| self.atom(var, a));
            }
            Expr::Atom(atom) | Expr::Get(atom, _) => self.atom(var, atom),
            Expr::MatchCast(atom, annotation) => {
                self.atom(var, atom);
                self.annotation(var, annotation);
            }
        }
    }

    fn call(&mut self, var: VarId, callee: &Callee) {
        let Callee::Operator(name) = callee else {
            if let Callee::Global(name) = callee
                && self.module.function(name).is_none()
                && self.module.tensor_program(name).is_none()
            {
                let message = format!("`{name}` is not defined");
                self.report(codes::UNKNOWN_GLOBAL, Some(var), message);
            }
            return;
        };
        if self.phase < Phase::P21 {
            return;
        }
        if matches!(name.as_str(), "call_tir" | "call_tir_inplace" | "call_dps_library") {
            let message = format!("`{name}` is not allowed in phase {}", self.phase.name());
            self.report(codes::CALL_TIR_PHASE, Some(var), message);
        } else if lookup(name).is_some_and(|row| !is_builtin(row.family)) {
            self.report(
                codes::OPERATOR_PHASE,
                Some(var),
                format!(
                    "the tensor operator `{name}` is not allowed in phase {}",
                    self.phase.name()
                ),
            );
        }
    }

    fn atom(&mut self, var: VarId, atom: &Atom) {
        let symbolic =
            |dims: &[relax_syntax::dim::Dim]| dims.iter().any(|dim| dim.as_int().is_none());
        let found = match atom {
            Atom::Dim(dim) => dim.as_int().is_none(),
            Atom::Shape(dims) => symbolic(dims),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.atom(var, item));
                false
            }
            _ => false,
        };
        if found && self.phase >= Phase::P23 {
            self.report(codes::SYMBOLIC_PHASE, Some(var), "a symbolic expression is left");
        }
    }

    fn annotation(&mut self, var: VarId, annotation: &Annotation) {
        let mut symbolic = false;
        annotation.visit_dims(&mut |dim| symbolic |= dim.as_int().is_none());
        if symbolic && self.phase >= Phase::P23 {
            self.report(codes::SYMBOLIC_PHASE, Some(var), "a symbolic expression is left");
        }
    }
}

/// What the virtual machine itself does.
fn is_builtin(family: Family) -> bool {
    matches!(family, Family::Memory | Family::Builtins | Family::Calls)
}
