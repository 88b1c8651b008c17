//! Modules as TVMScript, in the spelling of TVM 0.27. What TVM does not have is refused, all of it at once.

use super::around::{Around, around, bound, is_int};
use super::blocks::renamed;
use super::export_tensor;
use super::tree::{
    argument, arguments, call, callee, expr, items, keyword, name, name_of, statement, taken,
};
use super::words::{attributes, dim, dtype, is_attribute, is_declaration, quoted};
use super::{Refused, Turned, refuse};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::ast::{Argument, Def, Expr, ExprKind, Parameter, Statement, StatementKind};
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::print::print_statement;
use relax_syntax::raise::{OPERATOR, raise_module};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const HEAD: &str = "# from typing import TypeVar\n# from tvm.script import ir as I\n\
                    # from tvm.script import tirx as T\n# from tvm.script import relax as R\n\n";

/// Operators that only this language has, by name or by how the name begins.
const OURS: &[&str] = &[
    "all_to_all",
    "allgather",
    "allreduce",
    "annotate_sharding",
    "assert_op",
    "broadcast_from_worker0",
    "builtin.",
    "call_tir_local_view",
    "empty",
    "invoke_",
    "make_closure",
    "memory.",
    "param",
    "print",
    "random_bits",
    "redistribute",
    "reduce_scatter",
    "scatter_from_worker0",
    "spmd.",
];

/// What TVM's text calls its own parts.
const TAKEN: &[&str] = &["I", "Module", "R", "T", "TypeVar", "cls"];

/// The text of a module, which must have been checked.
///
/// # Errors
/// What TVM has no words for, each with the name of its function.
pub fn export_tvmscript(module: &Module) -> Result<String, Vec<String>> {
    let file = raise_module(module);
    let around = around(&file.statements);
    let mut refused = Vec::new();
    let mut variables = BTreeSet::new();
    let mut body = String::new();
    // Once for the variables of all signatures: those of bodies have other names.
    for line in &file.statements {
        if let StatementKind::Def(def) = &line.kind {
            drop(function(def, &around, &mut variables));
        }
    }
    for line in &file.statements {
        let turned = match &line.kind {
            StatementKind::Def(def) => {
                let turned = function(def, &around, &mut variables);
                turned.map_err(|Refused { why, .. }| format!("{}: {why}", def.name.name))
            }
            StatementKind::Expr(expr) if callee(expr) == Some("module_attr") => {
                Ok(vec![attributes(&[expr], "I.module_attrs")])
            }
            _ => Err("a statement of the module".to_owned()),
        };
        match turned {
            Ok(lines) => {
                for line in lines {
                    let _ = writeln!(body, "{}\n", print_statement(&line, 1).trim_end());
                }
            }
            Err(why) => refused.push(why),
        }
    }
    // A symbolic variable of TVM has its name in all functions.
    for line in &file.statements {
        if let StatementKind::Def(def) = &line.kind {
            let mut bound = bound(&def.body);
            bound.extend(def.parameters.iter().filter(|p| !is_int(p)).map(|p| p.name.name.clone()));
            if bound.iter().any(|name| TAKEN.contains(&name.as_str())) {
                refused.push(format!(
                    "{}: a value with the name of a part of TVM's text",
                    def.name.name
                ));
            }
            if bound.iter().any(|name| variables.contains(name)) {
                refused.push(format!(
                    "{}: a value with the name of a symbolic variable",
                    def.name.name
                ));
            }
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    let mut text = HEAD.to_owned();
    for name in &variables {
        let _ = writeln!(text, "{name} = TypeVar(\"{name}\")");
    }
    let _ = write!(text, "@I.ir_module\nclass Module:\n{}\n", body.trim_end());
    Ok(text)
}

fn function(def: &Def, around: &Around, variables: &mut BTreeSet<Name>) -> Turned<Vec<Statement>> {
    let def = match def.decorators.is_empty() {
        true => Export { around, locals: BTreeSet::new(), site: Site::Signature, span: def.header }
            .function(def, variables)?,
        false => export_tensor::program(def, around, variables)?,
    };
    let span = def.header;
    Ok(vec![statement(StatementKind::Def(Box::new(def)), span)])
}

/// Other names for variables of a body that have the name of one of a signature, which TVM has once for all functions.
fn fresh_names(
    locals: &[Name],
    variables: &BTreeSet<Name>,
    mut taken: BTreeSet<Name>,
) -> BTreeMap<Name, Name> {
    taken.extend(locals.iter().cloned());
    let mut names = BTreeMap::new();
    for name in locals.iter().filter(|name| variables.contains(*name)) {
        let mut numbered = (1_u64..).map(|number| Name::new(format!("{name}_{number}")));
        let fresh = numbered.find(|fresh| !taken.contains(fresh));
        let fresh = fresh.expect("invariant: a name is free among infinitely many");
        taken.insert(fresh.clone());
        names.insert(name.clone(), fresh);
    }
    names
}

/// Where an annotation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Site {
    /// Expressions of dims are quoted.
    Signature,
    Body,
}

struct Export<'a> {
    around: &'a Around,
    /// Symbolic variables.
    locals: BTreeSet<Name>,
    site: Site,
    span: Span,
}

impl Export<'_> {
    fn function(&mut self, def: &Def, variables: &mut BTreeSet<Name>) -> Turned<Def> {
        if matches!(&def.body[..], [Statement { kind: StatementKind::Expr(e), .. }] if matches!(e.kind, ExprKind::Ellipsis))
        {
            return refuse(def.header, "an external function");
        }
        let mut parameters = Vec::new();
        for parameter in &def.parameters {
            let annotation = parameter.annotation.as_ref();
            let annotation = annotation.map(|a| self.annotation(a)).transpose()?;
            parameters.push(Parameter { name: parameter.name.clone(), annotation });
        }
        let signature = self.locals.clone();
        let returns = def.returns.as_ref().map(|a| self.annotation(a)).transpose()?;
        if self.locals != signature {
            return refuse(def.header, "a result whose dims the parameters do not tell");
        }
        variables.extend(signature.iter().cloned());
        self.site = Site::Body;
        let mut options = Vec::new();
        let (attrs, body): (Vec<&Statement>, Vec<&Statement>) =
            def.body.iter().partition(|line| is_attribute(line).is_some());
        let mut kept = Vec::new();
        for attr in attrs.into_iter().filter_map(is_attribute) {
            let key = taken(attr, 0, &[]).map(|key| &key.kind);
            match key {
                Some(ExprKind::Str(key)) if key == "private" => {
                    options.push(keyword("private", expr(ExprKind::Bool(true), self.span)));
                }
                _ => kept.push(attr),
            }
        }
        if self.around.impure.contains(&def.name.name) {
            options.push(keyword("pure", expr(ExprKind::Bool(false), self.span)));
        }
        let decorator = match options.is_empty() {
            true => name("R.function", self.span),
            false => call("R.function", options, self.span),
        };
        let mut lines = Vec::new();
        if !kept.is_empty() {
            lines.push(attributes(&kept, "R.func_attr"));
        }
        lines.push(super::tree::assign(name("cls", self.span), None, name("Module", self.span)));
        let after = lines.len();
        for line in body {
            lines.extend(self.line(line)?);
        }
        let only_here: Vec<Name> = self.locals.difference(&signature).cloned().collect();
        let mut taken = bound(&def.body);
        taken.extend(variables.iter().cloned());
        let names = fresh_names(&only_here, variables, taken);
        lines = lines.iter().map(|line| renamed(line, &names)).collect();
        let declared = only_here.iter().map(|name| {
            let value = call("T.int64", Vec::new(), self.span);
            let name = names.get(name).unwrap_or(name);
            super::tree::assign(name_here(name, self.span), None, value)
        });
        let declared: Vec<Statement> = declared.collect();
        lines.splice(after..after, declared);
        Ok(Def {
            decorators: vec![decorator],
            name: def.name.clone(),
            parameters,
            returns,
            body: lines,
            header: def.header,
        })
    }

    fn line(&mut self, line: &Statement) -> Turned<Vec<Statement>> {
        if is_declaration(line)? {
            return Ok(Vec::new());
        }
        let kind = match &line.kind {
            StatementKind::Assign { target, annotation, value } => {
                if !matches!(target.kind, ExprKind::Name(_)) {
                    return refuse(line.span, "several names for the fields of a tuple");
                }
                // A cast says what the annotation would.
                let annotation =
                    annotation.as_ref().filter(|_| callee(value) != Some("match_cast"));
                StatementKind::Assign {
                    target: target.clone(),
                    annotation: annotation.map(|a| self.annotation(a)).transpose()?,
                    value: self.value(value)?,
                }
            }
            StatementKind::Return(value) => StatementKind::Return(self.value(value)?),
            StatementKind::Expr(value) => StatementKind::Expr(self.value(value)?),
            StatementKind::Pass => StatementKind::Pass,
            StatementKind::With { body, .. } => {
                let mut lines = Vec::new();
                for line in body {
                    lines.extend(self.line(line)?);
                }
                let context = call("R.dataflow", Vec::new(), line.span);
                StatementKind::With { context, body: lines }
            }
            StatementKind::If { condition, then, otherwise, .. } => {
                let last = |body: &[Statement]| match &body.last()?.kind {
                    StatementKind::Assign { target, .. } => name_of(target).map(str::to_owned),
                    StatementKind::If { .. } => Some(String::new()),
                    _ => None,
                };
                if last(then).is_none() || last(then) != last(otherwise) {
                    return refuse(
                        line.span,
                        "a branch that does not end in the same name on both sides",
                    );
                }
                let mut sides = [Vec::new(), Vec::new()];
                for (side, body) in sides.iter_mut().zip([then, otherwise]) {
                    for line in body {
                        side.extend(self.line(line)?);
                    }
                }
                let [then, otherwise] = sides;
                let condition = self.value(condition)?;
                StatementKind::If { condition, then, otherwise, else_span: None }
            }
            StatementKind::Def(_) => return refuse(line.span, "a function within a function"),
            _ => return refuse(line.span, "a statement that TVM does not have"),
        };
        Ok(vec![statement(kind, line.span)])
    }

    fn dims(&mut self, tree: &Expr) -> Turned<Vec<Expr>> {
        let mut dims = Vec::new();
        for item in items(tree) {
            let dim = dim(item, &mut self.locals)?;
            dims.push(if self.site == Site::Signature { quoted(dim) } else { dim });
        }
        Ok(dims)
    }

    fn annotation(&mut self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        if let ExprKind::Subscript { indices, .. } = &tree.kind {
            let mut fields = Vec::new();
            for index in indices {
                fields.push(argument(self.annotation(index)?));
            }
            return Ok(call("R.Tuple", fields, span));
        }
        match name_of(tree).or_else(|| callee(tree)) {
            Some("Object") => Ok(name("R.Object", span)),
            Some("Tensor") => {
                let mut out = Vec::new();
                for (place, given) in arguments(tree).iter().enumerate() {
                    let word = given.keyword.as_ref().map(|word| word.name.as_str());
                    match (word, place) {
                        (None, 0) | (Some("shape"), _) => {
                            let dims = ExprKind::Tuple(self.dims(&given.value)?);
                            out.push(argument(expr(dims, span)));
                        }
                        (None, 1) | (Some("dtype"), _) => {
                            out.push(keyword("dtype", dtype(&given.value)?));
                        }
                        _ => out.push(given.clone()),
                    }
                }
                Ok(call("R.Tensor", out, span))
            }
            Some("Shape") => {
                let mut out = Vec::new();
                for given in arguments(tree) {
                    match &given.value.kind {
                        ExprKind::List(_) => {
                            let dims = ExprKind::List(self.dims(&given.value)?);
                            out.push(argument(expr(dims, span)));
                        }
                        _ => out.push(given.clone()),
                    }
                }
                Ok(call("R.Shape", out, span))
            }
            Some("Prim") => match arguments(tree) {
                [one] => Ok(call("R.Prim", vec![argument(dtype(&one.value)?)], span)),
                _ => refuse(span, "a scalar of unknown dtype"),
            },
            Some("Callable") => refuse(span, "a function as a value"),
            _ => refuse(span, "an annotation that TVM does not have"),
        }
    }

    fn value(&mut self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let kind = match &tree.kind {
            ExprKind::Name(text) if self.around.functions.contains(text) => {
                return Ok(name(&format!("cls.{text}"), span));
            }
            ExprKind::Tuple(items) => ExprKind::Tuple(self.all(items)?),
            ExprKind::List(items) => ExprKind::List(self.all(items)?),
            ExprKind::Subscript { base, indices } => {
                ExprKind::Subscript { base: Box::new(self.value(base)?), indices: indices.clone() }
            }
            ExprKind::Call { .. } => return self.called(tree),
            ExprKind::Binary(..) | ExprKind::Unary(..) => {
                let dim = dim(tree, &mut self.locals)?;
                return Ok(call("R.prim_value", vec![argument(dim)], span));
            }
            leaf => leaf.clone(),
        };
        Ok(expr(kind, span))
    }

    fn all(&mut self, items: &[Expr]) -> Turned<Vec<Expr>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    fn called(&mut self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let Some(what) = callee(tree) else { return refuse(span, "a call of no name") };
        let given = arguments(tree);
        match what {
            "shape" => {
                let mut dims = Vec::new();
                for item in given {
                    dims.push(dim(&item.value, &mut self.locals)?);
                }
                Ok(call("R.shape", vec![argument(expr(ExprKind::List(dims), span))], span))
            }
            "const" => match given {
                [value, of]
                    if matches!(
                        value.value.kind,
                        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)
                    ) =>
                {
                    let all = vec![value.clone(), argument(dtype(&of.value)?)];
                    Ok(call("R.const", all, span))
                }
                _ => refuse(span, "a constant that TVM keeps in its metadata"),
            },
            "output" => Ok(call("R.output", given.to_vec(), span)),
            "match_cast" => match given {
                [value, declared] => {
                    let all = [self.value(&value.value)?, self.annotation(&declared.value)?];
                    Ok(call("R.match_cast", all.map(argument).into(), span))
                }
                _ => refuse(span, "a cast of another kind"),
            },
            "call_tir" | "call_tir_inplace" | "call_dps_library" => self.across(tree, what),
            "call_packed" | "call_pure_packed" => {
                let mut all = Vec::new();
                for item in given {
                    all.push(match item.keyword.as_ref().map(|word| word.name.as_str()) {
                        Some("ret") => {
                            let one =
                                expr(ExprKind::Tuple(vec![self.annotation(&item.value)?]), span);
                            keyword("ty_args", one)
                        }
                        _ => argument(self.value(&item.value)?),
                    });
                }
                Ok(call(&format!("R.{what}"), all, span))
            }
            _ if self.around.programs.contains_key(what) => {
                refuse(span, "a tensor program that is called in place")
            }
            _ if self.around.functions.contains(what) => {
                let mut all = Vec::new();
                for item in given {
                    all.push(argument(self.value(&item.value)?));
                }
                Ok(call(&format!("cls.{what}"), all, span))
            }
            _ => self.operator(tree, what),
        }
    }

    fn operator(&mut self, tree: &Expr, what: &str) -> Turned<Expr> {
        let what = what.strip_prefix(OPERATOR).unwrap_or(what);
        let Some(row) = lookup(what).filter(|_| !OURS.iter().any(|ours| what.starts_with(ours)))
        else {
            return refuse(tree.span, format!("`{what}`, which TVM does not have"));
        };
        let is_drawn = row.params.iter().position(|param| param.name == "state");
        if is_drawn.is_some_and(|at| taken(tree, at, &["state"]).is_some()) {
            return refuse(tree.span, format!("`{what}` with a state, which TVM does not have"));
        }
        let mut all = Vec::new();
        for item in arguments(tree) {
            let value = match &item.value.kind {
                ExprKind::Str(text) if DType::parse(text).is_some() => dtype(&item.value)?,
                _ => self.value(&item.value)?,
            };
            all.push(Argument { keyword: item.keyword.clone(), value });
        }
        Ok(call(&format!("R.{}", row.name), all, tree.span))
    }

    fn across(&mut self, tree: &Expr, what: &str) -> Turned<Expr> {
        let span = tree.span;
        // Positions that are overwritten stand before the outputs.
        let places = (what == "call_tir_inplace").then_some(2);
        let at_out = if places.is_some() { 3 } else { 2 };
        let (Some(function), Some(values), Some(out)) =
            (taken(tree, 0, &["func"]), taken(tree, 1, &["args"]), taken(tree, at_out, &["out"]))
        else {
            return refuse(span, "a call of a tensor program without outputs");
        };
        let mut parts = Vec::new();
        for value in items(values) {
            parts.push(self.value(value)?);
        }
        if let Some(scalars) = taken(tree, usize::MAX, &["sym_args"]) {
            // TVM has no name for several scalars: it would be one of another variable.
            if matches!(scalars.kind, ExprKind::Name(_)) {
                return refuse(scalars.span, "scalars of a tensor program by the name of a shape");
            }
            for scalar in items(scalars) {
                parts.push(dim(scalar, &mut self.locals)?);
            }
        }
        let out = match &out.kind {
            ExprKind::List(outs) | ExprKind::Tuple(outs) => {
                let mut all = Vec::new();
                for out in outs {
                    all.push(self.annotation(out)?);
                }
                expr(ExprKind::List(all), span)
            }
            _ => self.annotation(out)?,
        };
        let mut all =
            vec![argument(self.value(function)?), argument(expr(ExprKind::Tuple(parts), span))];
        all.push(keyword("out_ty", out));
        if let Some(places) = places.and_then(|place| taken(tree, place, &["inplace"])) {
            all.push(keyword("inplace_indices", places.clone()));
        }
        let what = if what == "call_dps_library" { "call_dps_packed" } else { what };
        Ok(call(&format!("R.{what}"), all, span))
    }
}

fn name_here(text: &Name, span: Span) -> Expr {
    expr(ExprKind::Name(text.clone()), span)
}
