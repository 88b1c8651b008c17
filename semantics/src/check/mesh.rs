//! Device meshes: each that a layout names is declared, and has the axes that the layout speaks of.
//!
//! `module_attr("mesh[0]", "2, 4")` declares a mesh of two axes, `"p, 4"` one whose first axis has any number of workers. A layout has
//! one placement an axis (Relax §4.1), and cuts a tensor axis along one of them at most.

use super::codes;
use crate::ops::{lookup, passed};
use crate::tir::walk::visit_statements;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Distributed, Placement};
use relax_syntax::ast::ExprKind;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{LoopKind, StmtKind, TExpr};
use relax_syntax::ir::{
    Atom, AttrValue, Body, Callee, Expr, Function, Module, TensorProgram, VarId, attr,
};
use relax_syntax::parse::parse_expression;
use relax_syntax::resolve::annotation::placements_of_text;
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// What is wrong with the layouts of graph functions: each mistake once a function.
pub(super) fn check(module: &Module) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for function in module.functions() {
        Checker { module, said: BTreeSet::new(), found: &mut found }.function(function);
    }
    found
}

/// What is wrong with the loops over workers of a tensor program.
pub(super) fn check_program(module: &Module, program: &TensorProgram) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    Checker { module, said: BTreeSet::new(), found: &mut found }.program(program);
    found
}

/// The extents of a declared mesh, each a literal of at least 1 or a variable; the message where it is none. Variables are those of the
/// mesh, and no dims of functions.
///
/// # Errors
/// Where there is none of this name, or what it says is no mesh.
pub fn extents(module: &Module, mesh: &str) -> Result<Vec<Dim>, String> {
    let text = match attr(&module.attrs, mesh) {
        Some(AttrValue::Str(text)) => text.to_string(),
        Some(AttrValue::Int(extent)) => extent.to_string(),
        _ => return Err(format!("the mesh \"{mesh}\" is not declared")),
    };
    let each = text.split(',').map(|part| extent(part.trim())).collect::<Option<Vec<Dim>>>();
    let is_twice = |each: &[Dim]| {
        let mut dims = each.iter().enumerate();
        dims.any(|(at, dim)| dim.as_int().is_none() && each[..at].contains(dim))
    };
    each.filter(|each| !is_twice(each)).ok_or_else(|| {
        format!(
            "the mesh \"{mesh}\" is declared as {text:?}, which is no list of extents: integers of at least 1, and different names"
        )
    })
}

/// The extent of an axis: a literal of at least 1, or a name.
fn extent(text: &str) -> Option<Dim> {
    if let Ok(literal) = text.parse::<i64>() {
        return (literal >= 1).then_some(Dim::Int(literal));
    }
    match parse_expression(text, 0).ok()?.kind {
        ExprKind::Name(name) => Some(Dim::Var(name)),
        _ => None,
    }
}

struct Checker<'a> {
    module: &'a Module,
    said: BTreeSet<String>,
    found: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    fn report(&mut self, (span, part): (Span, Part), message: String, help: Option<String>) {
        if !self.said.insert(message.clone()) {
            return;
        }
        let found =
            Diagnostic::error(codes::MESH, span, message).at(part).with_label("this layout");
        self.found.push(match help {
            Some(help) => found.with_help(help),
            None => found,
        });
    }

    fn function(&mut self, function: &Function) {
        let params = &function.lambda.params;
        for (at, info) in function.vars.iter().enumerate() {
            let Some(annotation) = &info.annotation else { continue };
            let param = params.iter().position(|param| param.0 as usize == at);
            let place = match param {
                Some(param) => (function.span, Part::Parameter(param)),
                None => (info.span, Part::Annotation),
            };
            self.annotation(annotation, &place);
        }
        if let Some(result) = &function.lambda.result {
            self.annotation(result, &(function.span, Part::Result));
        }
        if let Some(body) = &function.lambda.body {
            self.body(function, body);
        }
    }

    fn body(&mut self, function: &Function, body: &Body) {
        for binding in body.bindings() {
            self.expr(function, binding.var, &binding.expr);
        }
    }

    fn expr(&mut self, function: &Function, var: VarId, expr: &Expr) {
        let place = (function.var(var).span, Part::Value);
        match expr {
            Expr::If { then, otherwise, .. } => {
                self.body(function, then);
                self.body(function, otherwise);
            }
            Expr::Closure(lambda) => {
                lambda.result.iter().for_each(|result| self.annotation(result, &place));
                lambda.body.iter().for_each(|body| self.body(function, body));
            }
            Expr::MatchCast(_, annotation) => self.annotation(annotation, &place),
            Expr::Atom(atom) => self.atom(atom, &place),
            Expr::Get(..) => {}
            Expr::Call { callee, args, attrs } => {
                args.iter().for_each(|arg| self.atom(arg, &place));
                attrs.iter().for_each(|(_, attr)| self.atom(attr, &place));
                if let Callee::Operator(name) = callee {
                    self.operator(name, args, attrs, &place);
                }
            }
        }
    }

    /// `redistribute(x, "mesh[0]", "R")` and `annotate_sharding` spell a layout.
    fn operator(
        &mut self,
        name: &Name,
        args: &[Atom],
        attrs: &[(Name, Atom)],
        place: &(Span, Part),
    ) {
        let Some(row) = lookup(name) else { return };
        let at = |name: &str| row.params.iter().position(|param| param.name == name);
        let Some((mesh, placement)) = at("device_mesh").zip(at("placement")) else { return };
        let Ok(bound) = passed(row, args, attrs) else { return };
        if let (Some(Atom::Str(mesh)), Some(Atom::Str(placement))) = (bound[mesh], bound[placement])
            && !mesh.is_empty()
            && let Some(placements) = placements_of_text(placement)
        {
            self.layout(mesh, &placements, place);
        }
    }

    fn atom(&mut self, atom: &Atom, place: &(Span, Part)) {
        match atom {
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.atom(item, place));
            }
            Atom::Annotation(annotation) => self.annotation(annotation, place),
            Atom::External(external) => self.annotation(&external.annotation, place),
            _ => {}
        }
    }

    fn annotation(&mut self, annotation: &Annotation, place: &(Span, Part)) {
        annotation.visit(&mut |part| {
            if let Annotation::DTensor(distributed) = part {
                self.distributed(distributed, place);
            }
        });
    }

    fn distributed(&mut self, distributed: &Distributed, place: &(Span, Part)) {
        if let Some(rank) = distributed.tensor.extents.rank() {
            for placement in &distributed.placements {
                if let Placement::Sharded(axis) = placement
                    && *axis >= rank
                {
                    let message = format!(
                        "`S[{axis}]` names an axis that a tensor of rank {rank} does not have"
                    );
                    self.report(place.clone(), message, None);
                }
            }
        }
        self.layout(&distributed.mesh, &distributed.placements, place);
    }

    fn layout(&mut self, mesh: &Name, placements: &[Placement], place: &(Span, Part)) {
        for (at, placement) in placements.iter().enumerate() {
            if let Placement::Sharded(axis) = placement
                && placements[..at].contains(placement)
            {
                let message = format!("axis {axis} is cut along two axes of the mesh \"{mesh}\"");
                let help = "an axis of a tensor is cut along one axis of a mesh at most".to_owned();
                self.report(place.clone(), message, Some(help));
            }
        }
        match extents(self.module, mesh) {
            Err(message) => {
                let each = placements.iter().map(|_| "2").collect::<Vec<_>>().join(", ");
                let help = format!("declare it: module_attr(\"{mesh}\", \"{each}\")");
                self.report(place.clone(), message, Some(help));
            }
            Ok(extents) if extents.len() != placements.len() => {
                let message = format!(
                    "the mesh \"{mesh}\" has {} axes, and the layout has {} placements",
                    extents.len(),
                    placements.len()
                );
                self.report(place.clone(), message, None);
            }
            Ok(extents) => {
                for (at, (placement, extent)) in placements.iter().zip(&extents).enumerate() {
                    if let (Placement::Only(stage), Some(extent)) = (placement, extent.as_int())
                        && i64::try_from(*stage).is_ok_and(|stage| stage >= extent)
                    {
                        let message = format!(
                            "`{placement}` names a worker that axis {at} of the mesh \"{mesh}\" does not have: it has {extent}"
                        );
                        self.report(place.clone(), message, None);
                    }
                }
            }
        }
    }

    /// Loops over shards have the extent of their axis of the mesh.
    fn program(&mut self, program: &TensorProgram) {
        let Some(body) = &program.body else { return };
        visit_statements(body, &mut |stmt| {
            let StmtKind::For { loops, kind: LoopKind::Shard { mesh, mesh_dim }, .. } = &stmt.kind
            else {
                return;
            };
            let place = (stmt.span, Part::Whole);
            match extents(self.module, mesh) {
                Err(message) => {
                    let help = format!("declare it: module_attr(\"{mesh}\", \"2\")");
                    self.report(place, message, Some(help));
                }
                Ok(extents) => {
                    let Some(extent) = extents.get(*mesh_dim) else {
                        let message = format!(
                            "the mesh \"{mesh}\" has {} axes, so none is {mesh_dim}",
                            extents.len()
                        );
                        return self.report(place, message, None);
                    };
                    let mut stops = loops.iter().map(|item| &item.stop);
                    if stops.any(
                        |stop| matches!(stop, TExpr::Int(stop) if extent.as_int() != Some(*stop)),
                    ) {
                        let message =
                            format!("axis {mesh_dim} of the mesh \"{mesh}\" has extent {extent}");
                        self.report(place, message, None);
                    }
                }
            }
        });
    }
}
