//! Functions of Relax, from TVM's text.

use super::attributes::attributes;
use super::tree::{
    argument, arguments, assign, bare, call, callee, declaration, expr, expressions, is_call,
    items, keyword, name, name_of, names_in, statement, string, taken,
};
use super::{Module, Turned, refuse};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::ast::{
    Argument, Def, Expr, ExprKind, Identifier, Parameter, Statement, StatementKind,
};
use relax_syntax::print::print_expression;
use relax_syntax::raise::OPERATOR;
use std::collections::BTreeSet;

/// Where an annotation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Site {
    /// Symbolic dims are quoted.
    Signature,
    Body,
}

struct Graph<'m> {
    module: &'m Module,
    /// Symbolic variables of the function.
    variables: BTreeSet<Name>,
}

/// `@R.function`
pub(super) fn function(def: &Def, decorator: &Expr, module: &Module) -> Turned<Def> {
    let mut graph = Graph { module, variables: module.variables.clone() };
    graph.declare(&def.body);
    let mut body = Vec::new();
    let mut used = BTreeSet::new();
    expressions(&def.body, &mut |expr| {
        names_in(expr, &mut |name| {
            if graph.variables.contains(name) {
                used.insert(name.clone());
            }
        });
    });
    body.extend(declaration(&used, def.header));
    for option in arguments(decorator) {
        let on = matches!(option.value.kind, ExprKind::Bool(true));
        match option.keyword.as_ref().map(|keyword| keyword.name.as_str()) {
            Some("private") if on => body.push(bare(call(
                "func_attr",
                vec![
                    argument(string("private", def.header)),
                    argument(expr(ExprKind::Bool(true), def.header)),
                ],
                def.header,
            ))),
            // What a function does says whether it is pure.
            Some("private" | "pure" | "check_well_formed") => {}
            _ => return refuse(option.value.span, "an option of R.function that is not known"),
        }
    }
    body.extend(graph.body(&def.body)?);
    let parameters = def.parameters.iter().map(|parameter| {
        let annotation = parameter.annotation.as_ref();
        let annotation = annotation.map(|a| graph.annotation(a, Site::Signature)).transpose()?;
        Ok(Parameter { name: parameter.name.clone(), annotation })
    });
    Ok(Def {
        decorators: Vec::new(),
        name: def.name.clone(),
        parameters: parameters.collect::<Turned<_>>()?,
        returns: def.returns.as_ref().map(|a| graph.annotation(a, Site::Signature)).transpose()?,
        body,
        header: def.header,
    })
}

impl Graph<'_> {
    /// `n = T.int64()` anywhere in the body.
    fn declare(&mut self, body: &[Statement]) {
        for statement in body {
            match &statement.kind {
                StatementKind::Assign { target, value, .. } if is_variable(value) => {
                    names_in(target, &mut |name| _ = self.variables.insert(name.clone()));
                }
                StatementKind::With { body, .. } => self.declare(body),
                StatementKind::If { then, otherwise, .. } => {
                    self.declare(then);
                    self.declare(otherwise);
                }
                _ => {}
            }
        }
    }

    fn body(&self, statements: &[Statement]) -> Turned<Vec<Statement>> {
        let mut lines = Vec::new();
        for line in statements {
            lines.extend(self.line(line)?);
        }
        Ok(lines)
    }

    fn line(&self, line: &Statement) -> Turned<Vec<Statement>> {
        let kind = match &line.kind {
            StatementKind::Assign { value, .. } if is_variable(value) => return Ok(Vec::new()),
            StatementKind::Assign { target, value, .. }
                if name_of(target) == Some("cls")
                    && name_of(value).is_some_and(|v| self.module.own.contains(v)) =>
            {
                return Ok(Vec::new());
            }
            StatementKind::Assign { target, annotation, value } => {
                let cast = is_call(value, &["R.match_cast"]);
                let value = self.value(value)?;
                let annotation = annotation.as_ref().filter(|_| !cast);
                let annotation = annotation.map(|a| self.annotation(a, Site::Body)).transpose()?;
                return Ok(vec![assign(target.clone(), annotation, value)]);
            }
            StatementKind::Expr(expr) if is_call(expr, &["R.func_attr"]) => {
                return attributes(expr, "func_attr");
            }
            StatementKind::Expr(expr) => StatementKind::Expr(self.value(expr)?),
            StatementKind::Return(expr) => StatementKind::Return(self.value(expr)?),
            StatementKind::Pass => StatementKind::Pass,
            StatementKind::If { condition, then, otherwise, else_span } => StatementKind::If {
                condition: self.value(condition)?,
                then: self.body(then)?,
                otherwise: self.body(otherwise)?,
                else_span: *else_span,
            },
            StatementKind::With { context, body } if is_call(context, &["R.dataflow"]) => {
                let context = call("dataflow", Vec::new(), context.span);
                StatementKind::With { context, body: self.body(body)? }
            }
            StatementKind::Def(def) => {
                let kind = StatementKind::Def(Box::new(super::function(def, self.module)?));
                return Ok(vec![statement(kind, line.span)]);
            }
            _ => return refuse(line.span, "a statement that Relax does not have"),
        };
        Ok(vec![statement(kind, line.span)])
    }

    fn annotation(&self, tree: &Expr, site: Site) -> Turned<Expr> {
        let span = tree.span;
        let all = |items: Vec<&Expr>| -> Turned<Vec<Expr>> {
            items.into_iter().map(|item| self.annotation(item, site)).collect()
        };
        match name_of(tree).or_else(|| callee(tree)) {
            Some("R.Object" | "R.Any") => Ok(name("Object", span)),
            Some("R.Tensor") => {
                let mut out = Vec::new();
                for given in arguments(tree) {
                    let word = given.keyword.as_ref().map(|keyword| keyword.name.as_str());
                    let value = match (word, &given.value.kind) {
                        (Some("vdevice"), _) => continue,
                        (_, ExprKind::Tuple(_)) => self.dims(&given.value, site)?,
                        (_, ExprKind::Str(_) | ExprKind::Int(_)) => given.value.clone(),
                        _ => {
                            return refuse(
                                given.value.span,
                                "a tensor is told by dims and a dtype",
                            );
                        }
                    };
                    out.push(Argument { keyword: given.keyword.clone(), value });
                }
                Ok(call("Tensor", out, span))
            }
            Some("R.Shape") => {
                let mut out = Vec::new();
                for given in arguments(tree) {
                    let value = match &given.value.kind {
                        ExprKind::List(_) => self.dims(&given.value, site)?,
                        _ => given.value.clone(),
                    };
                    out.push(Argument { keyword: given.keyword.clone(), value });
                }
                Ok(call("Shape", out, span))
            }
            Some("R.Prim") => match taken(tree, 0, &["dtype"]) {
                Some(dtype) => Ok(call("Prim", vec![argument(dtype.clone())], span)),
                None => refuse(span, "a scalar of which the value is declared"),
            },
            Some("R.Tuple") => {
                let fields = arguments(tree).iter().map(|argument| &argument.value).collect();
                let fields = all(fields)?.into_iter().map(argument).collect();
                Ok(call("Tuple", fields, span))
            }
            Some("R.Callable") => {
                let Some(params) = taken(tree, 0, &["params"]) else {
                    return Ok(name("Callable", span));
                };
                let params = expr(ExprKind::List(all(items(params))?), span);
                let mut out = vec![argument(params)];
                if let Some(result) = taken(tree, 1, &["ret"]) {
                    out.push(argument(self.annotation(result, site)?));
                }
                if let Some(pure) = taken(tree, 2, &["purity"]) {
                    out.push(keyword("pure", pure.clone()));
                }
                Ok(call("Callable", out, span))
            }
            _ => refuse(span, "an annotation that is not known"),
        }
    }

    fn dims(&self, tree: &Expr, site: Site) -> Turned<Expr> {
        let mut out = Vec::new();
        for item in items(tree) {
            out.push(match &item.kind {
                ExprKind::Str(text) if site == Site::Signature => {
                    string(&without_casts(text), item.span)
                }
                ExprKind::Int(_) => item.clone(),
                _ => {
                    let dim = dim(item)?;
                    match (site, &dim.kind) {
                        (Site::Signature, ExprKind::Int(_)) | (Site::Body, _) => dim,
                        _ => string(&print_expression(&dim), item.span),
                    }
                }
            });
        }
        Ok(expr(
            match &tree.kind {
                ExprKind::List(_) => ExprKind::List(out),
                _ => ExprKind::Tuple(out),
            },
            tree.span,
        ))
    }

    fn values(&self, items: &[Argument]) -> Turned<Vec<Argument>> {
        let mut out = Vec::new();
        for item in items {
            out.push(Argument { keyword: item.keyword.clone(), value: self.value(&item.value)? });
        }
        Ok(out)
    }

    fn value(&self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let all = |items: &[Expr]| -> Turned<Vec<Expr>> {
            items.iter().map(|item| self.value(item)).collect()
        };
        let kind = match &tree.kind {
            ExprKind::Name(text) => return Ok(name(self.own_name(text), span)),
            ExprKind::Tuple(items) => ExprKind::Tuple(all(items)?),
            ExprKind::List(items) => ExprKind::List(all(items)?),
            ExprKind::Subscript { base, .. } if name_of(base) == Some("metadata") => {
                return refuse(span, "a constant that stands in the metadata of TVM");
            }
            ExprKind::Subscript { base, indices } => {
                ExprKind::Subscript { base: Box::new(self.value(base)?), indices: all(indices)? }
            }
            ExprKind::Call { .. } => return self.called(tree),
            ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(self.value(operand)?)),
            ExprKind::Binary(op, pair) => {
                ExprKind::Binary(*op, Box::new((self.value(&pair.0)?, self.value(&pair.1)?)))
            }
            leaf => leaf.clone(),
        };
        Ok(expr(kind, span))
    }

    /// Without the name of the module.
    fn own_name<'t>(&self, text: &'t str) -> &'t str {
        match text.split_once('.') {
            Some((module, rest)) if self.module.own.contains(module) => rest,
            _ => text,
        }
    }

    fn called(&self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let Some(what) = callee(tree) else { return refuse(span, "a call of no name") };
        let needed = |place: usize, words: &[&str]| {
            taken(tree, place, words)
                .map_or_else(|| refuse(span, format!("`{what}` lacks an argument")), Ok)
        };
        match what {
            "R.shape" => {
                let dims = items(needed(0, &["values"])?).into_iter().map(dim);
                let dims = dims.map(|dim| dim.map(argument)).collect::<Turned<_>>()?;
                Ok(call("shape", dims, span))
            }
            "R.prim_value" | "T.int64" | "T.int32" | "T.bool" | "R.str" | "R.dtype" => {
                self.value(needed(0, &["value"])?)
            }
            "R.tuple" => {
                let fields = arguments(tree).iter().map(|argument| self.value(&argument.value));
                Ok(expr(ExprKind::Tuple(fields.collect::<Turned<_>>()?), span))
            }
            "R.const" => Ok(call("const", arguments(tree).to_vec(), span)),
            "R.output" => Ok(call("output", arguments(tree).to_vec(), span)),
            "R.match_cast" => {
                let value = self.value(needed(0, &["value"])?)?;
                let declared = needed(1, &["struct_info", "ty"])?;
                let annotation = self.annotation(declared, Site::Body)?;
                Ok(call("match_cast", vec![argument(value), argument(annotation)], span))
            }
            "R.call_tir" | "R.call_tir_inplace" | "R.call_dps_packed" => self.across(tree, what),
            "R.call_packed" | "R.call_pure_packed" => self.packed(tree, what),
            _ if what.starts_with("R.") => {
                let operator = &what[2..];
                let Some(row) = lookup(operator) else {
                    return refuse(span, format!("the operator `{what}` is not in the language"));
                };
                // What only TVM has is left out where it says nothing.
                let said = arguments(tree).iter().filter(|given| {
                    let has = |word: &Identifier| row.params.iter().any(|p| p.name == word.name);
                    !matches!(given.value.kind, ExprKind::None)
                        || given.keyword.as_ref().is_none_or(has)
                });
                let said: Vec<Argument> = said.cloned().collect();
                // Whatever functions the module has. The formatter leaves the prefix out where it can.
                Ok(call(&format!("{OPERATOR}{operator}"), self.values(&said)?, span))
            }
            _ if what.starts_with("T.") => refuse(span, format!("`{what}` in a function of Relax")),
            _ => Ok(call(self.own_name(what), self.values(arguments(tree))?, span)),
        }
    }

    /// A call of a tensor program or of a library. Integers among its arguments are those of `sym_args`.
    fn across(&self, tree: &Expr, what: &str) -> Turned<Expr> {
        let span = tree.span;
        let (Some(function), Some(given)) =
            (taken(tree, 0, &["gvar", "func"]), taken(tree, 1, &["args"]))
        else {
            return refuse(span, format!("`{what}` lacks an argument"));
        };
        let Some(out) = taken(tree, 2, &["out_ty", "out_sinfo"]).or_else(|| {
            arguments(tree)
                .iter()
                .find(|a| a.keyword.as_ref().is_some_and(|k| k.name.starts_with("out_")))
                .map(|a| &a.value)
        }) else {
            return refuse(span, format!("`{what}` does not say what it gives"));
        };
        let (mut values, mut scalars) = (Vec::new(), Vec::new());
        let mut parts = match is_call(given, &["R.tuple"]) {
            true => arguments(given).iter().map(|argument| &argument.value).collect(),
            false => items(given),
        };
        if let Some(more) = taken(tree, usize::MAX, &["tir_vars"]) {
            let more = if is_call(more, &["R.shape"]) {
                taken(more, 0, &[]).unwrap_or(more)
            } else {
                more
            };
            parts.extend(items(more));
        }
        for part in parts {
            if self.is_scalar(part) {
                scalars.push(dim(part)?)
            } else {
                values.push(self.value(part)?)
            }
        }
        let out = match &out.kind {
            ExprKind::List(outs) | ExprKind::Tuple(outs) => {
                let outs = outs.iter().map(|out| self.annotation(out, Site::Body));
                expr(ExprKind::List(outs.collect::<Turned<_>>()?), out.span)
            }
            _ => self.annotation(out, Site::Body)?,
        };
        let list = |items: Vec<Expr>| argument(expr(ExprKind::List(items), span));
        let mut all = vec![argument(self.value(function)?), list(values)];
        let operator = match what {
            "R.call_tir_inplace" => {
                let Some(places) = taken(tree, usize::MAX, &["inplace_indices"]) else {
                    return refuse(span, "inplace_indices is missing");
                };
                let places = items(places).into_iter().cloned().collect();
                // By its place, before that of the result.
                all.push(argument(expr(ExprKind::List(places), span)));
                "call_tir_inplace"
            }
            "R.call_tir" => "call_tir",
            _ => "call_dps_library",
        };
        all.push(argument(out));
        if !scalars.is_empty() {
            all.push(keyword("sym_args", expr(ExprKind::List(scalars), span)));
        }
        // Positional arguments come first.
        all.sort_by_key(|argument| argument.keyword.is_some());
        Ok(call(operator, all, span))
    }

    fn packed(&self, tree: &Expr, what: &str) -> Turned<Expr> {
        let mut all = Vec::new();
        for given in arguments(tree) {
            match given.keyword.as_ref().map(|keyword| keyword.name.as_str()) {
                None => all.push(argument(self.value(&given.value)?)),
                Some("sinfo_args" | "ty_args") => match items(&given.value).as_slice() {
                    [one] => all.push(keyword("ret", self.annotation(one, Site::Body)?)),
                    many => {
                        let many = many.iter().map(|one| self.annotation(one, Site::Body));
                        let fields = many.map(|one| one.map(argument)).collect::<Turned<_>>()?;
                        all.push(keyword("ret", call("Tuple", fields, tree.span)));
                    }
                },
                Some(_) => return refuse(given.value.span, "attributes of a packed call"),
            }
        }
        Ok(call(&what[2..], all, tree.span))
    }

    /// Whether an argument of a tensor program is an integer over dims.
    fn is_scalar(&self, tree: &Expr) -> bool {
        match &tree.kind {
            ExprKind::Int(_) | ExprKind::Binary(..) => true,
            ExprKind::Name(name) => self.variables.contains(name),
            _ => is_call(tree, &["T.int64", "R.prim_value", "T.max", "T.min"]),
        }
    }
}

/// `T.int64()`, in the older spelling a symbolic variable.
fn is_variable(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Tuple(items) => !items.is_empty() && items.iter().all(is_variable),
        _ => {
            is_call(value, &["T.Var"])
                || is_call(value, &["T.int64"])
                    && arguments(value).iter().all(|argument| argument.keyword.is_some())
        }
    }
}

/// A dim: casts of literals fall away.
pub(super) fn dim(tree: &Expr) -> Turned<Expr> {
    let kind = match &tree.kind {
        ExprKind::Int(_) | ExprKind::Name(_) => return Ok(tree.clone()),
        ExprKind::Str(text) => return Ok(name(&without_casts(text), tree.span)),
        ExprKind::Binary(op, pair) => {
            ExprKind::Binary(*op, Box::new((dim(&pair.0)?, dim(&pair.1)?)))
        }
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(dim(operand)?)),
        ExprKind::Call { .. } => {
            let parts = arguments(tree).iter().map(|argument| dim(&argument.value));
            let mut parts: Vec<Expr> = parts.collect::<Turned<_>>()?;
            return match callee(tree) {
                Some("T.int64" | "T.int32" | "R.prim_value") if parts.len() == 1 => {
                    Ok(parts.remove(0))
                }
                Some(what @ ("T.max" | "T.min" | "T.ceildiv")) => {
                    Ok(call(&what[2..], parts.into_iter().map(argument).collect(), tree.span))
                }
                _ => refuse(tree.span, "a dim that is not known to the language"),
            };
        }
        _ => return refuse(tree.span, "a dim that is not known to the language"),
    };
    Ok(expr(kind, tree.span))
}

/// A dim in quotes, without `T.int64(…)` around literals.
fn without_casts(text: &str) -> String {
    relax_syntax::parse::parse_expression(text, 0)
        .ok()
        .and_then(|tree| dim(&tree).ok())
        .map_or_else(|| text.to_owned(), |tree| print_expression(&tree))
}
