//! From the syntax tree to the IR: names get their meaning, nested calls are flattened into A-normal
//! form, `param`, `const` and annotations become what they are.
//!
//! The way back is `raise`: IR → syntax tree, total, and the inverse of this on normal forms.

pub mod annotation;
pub mod codes;
pub mod constant;
pub mod dim;
mod expr;
mod graph;
mod infix;
mod outputs;
mod scope;
mod sym_var;
mod tensor;
pub mod tensor_codes;
mod tensor_expr;
mod tensor_loops;

pub use outputs::{atom_uses, expr_uses, visit_atom_uses, visit_expr_uses};
pub use tensor::resolve_tensor_program;

use crate::ast::{Def, Expr, ExprKind, File, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::ir::{Definition, Module};
use scope::{Global, Globals};

/// Resolves a file. Without diagnostics the module is the whole file; else it lacks what was wrong.
#[must_use]
pub fn resolve_file(file: &File) -> (Module, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut module = Module::default();
    let globals = collect_globals(file, &mut diagnostics);
    for statement in &file.statements {
        match &statement.kind {
            StatementKind::Def(def) if is_tensor_program(def) => {
                let program = tensor::resolve_tensor_program(def, &mut diagnostics);
                module.definitions.extend(program.map(Definition::Tensor));
            }
            StatementKind::Def(def) => {
                let function = graph::resolve_function(def, &globals, &mut diagnostics);
                module.definitions.extend(function.map(Definition::Graph));
            }
            StatementKind::Expr(expr) => top_level(expr, &mut module, &mut diagnostics),
            _ => {
                let message = "expected `def` or `module_attr(key, value)` at the top level";
                diagnostics.push(Diagnostic::error(codes::STATEMENT, statement.span, message));
            }
        }
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.primary.span);
    (module, diagnostics)
}

fn top_level(expr: &Expr, module: &mut Module, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(arguments) = sym_var::call_of(expr, "module_attr") {
        if let Err(diagnostic) = sym_var::read_attr(expr, arguments, &mut module.attrs) {
            diagnostics.push(diagnostic);
        }
    } else if !matches!(expr.kind, ExprKind::Str(_)) {
        let message = "expected `def` or `module_attr(key, value)` at the top level";
        diagnostics.push(Diagnostic::error(codes::STATEMENT, expr.span, message));
    }
}

fn is_tensor_program(def: &Def) -> bool {
    def.decorators.iter().any(
        |decorator| matches!(&decorator.kind, ExprKind::Name(name) if name == "tensorir_function"),
    )
}

fn collect_globals(file: &File, diagnostics: &mut Vec<Diagnostic>) -> Globals {
    let mut globals = Globals::new();
    let mut places = std::collections::BTreeMap::new();
    for statement in &file.statements {
        let StatementKind::Def(def) = &statement.kind else { continue };
        for decorator in &def.decorators {
            if !matches!(&decorator.kind, ExprKind::Name(name) if name == "tensorir_function") {
                let message = "the only decorator is `@tensorir_function`";
                diagnostics.push(Diagnostic::error(codes::DECORATOR, decorator.span, message));
            }
        }
        let name = def.name.name.clone();
        if let Some(first) = places.insert(name.clone(), def.name.span) {
            let message = format!("`{name}` is defined twice");
            let diagnostic = Diagnostic::error(codes::DUPLICATE_DEFINITION, def.name.span, message);
            diagnostics.push(diagnostic.with_place(first, "defined here first"));
        }
        let global =
            if is_tensor_program(def) { Global::Tensor(buffer_dtypes(def)) } else { Global::Graph };
        globals.insert(name, global);
    }
    globals
}

/// The dtypes of the buffers of a tensor program, as far as its header tells.
fn buffer_dtypes(def: &Def) -> Vec<Option<DType>> {
    let annotations = def.parameters.iter().filter_map(|parameter| parameter.annotation.as_ref());
    annotations
        .filter_map(|annotation| match &annotation.kind {
            ExprKind::Call { arguments, .. } => {
                Some(arguments.iter().find_map(|argument| match &argument.value.kind {
                    ExprKind::Str(text) => DType::parse(text),
                    _ => None,
                }))
            }
            _ => None,
        })
        .collect()
}
