//! Expressions of the graph level: nested calls are flattened into bindings of their own.

use super::annotation::{annotation_of_expr, is_annotation};
use super::codes;
use super::constant::{constant_of_arguments, external_of_arguments};
use super::graph::Resolver;
use super::scope::{Builder, Global};
use crate::Name;
use crate::annotation::{Annotation, Extents, TensorType};
use crate::ast::{Argument, Expr as AstExpr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::foreign;
use crate::ir::{Atom, Callee, Expr};
use crate::raise::OPERATOR;
use crate::span::Span;
use crate::suggest;
use std::sync::Arc;

impl Resolver<'_> {
    /// An expression as the right-hand side of a binding.
    pub(super) fn expr(&mut self, expr: &AstExpr, builder: &mut Builder) -> Option<Expr> {
        match &expr.kind {
            ExprKind::Call { callee, arguments } if !self.is_atom_call(expr) => {
                self.call(expr, callee, arguments, builder)
            }
            ExprKind::Subscript { base, indices } if !is_annotation(expr) => {
                self.get(expr, base, indices, builder)
            }
            _ => self.atom(expr, builder).map(Expr::Atom),
        }
    }

    /// An expression as an operand.
    pub(super) fn atom(&mut self, expr: &AstExpr, builder: &mut Builder) -> Option<Atom> {
        match &expr.kind {
            ExprKind::Name(name) => self.name(name, expr),
            ExprKind::Int(value) => Some(Atom::Dim(Dim::Int(*value))),
            ExprKind::Float(value) => Some(Atom::Float(*value)),
            ExprKind::Str(text) => Some(Atom::Str(text.clone())),
            ExprKind::Bool(value) => Some(Atom::Bool(*value)),
            ExprKind::None => Some(Atom::None),
            ExprKind::Tuple(items) => self.atoms(items, builder).map(Atom::Tuple),
            ExprKind::List(items) => self.atoms(items, builder).map(Atom::List),
            ExprKind::Subscript { .. } if is_annotation(expr) => self.annotation(expr),
            ExprKind::Subscript { .. } => self.atom_of_call(expr, builder),
            ExprKind::Call { callee, arguments } if self.is_atom_call(expr) => {
                self.atom_call(expr, callee, arguments)
            }
            ExprKind::Call { .. } => self.atom_of_call(expr, builder),
            ExprKind::Unary(UnaryOp::Negate, operand) if is_float(operand) => {
                self.atom(operand, builder).map(|atom| match atom {
                    Atom::Float(value) => Atom::Float(-value),
                    other => other,
                })
            }
            ExprKind::Unary(UnaryOp::Negate, _) | ExprKind::Binary(..) => self.arithmetic(expr),
            ExprKind::Error => None,
            ExprKind::BigInt(_) | ExprKind::Ellipsis | ExprKind::Unary(..) => {
                self.error(codes::EXPRESSION, expr.span, "this expression does not belong here");
                None
            }
        }
    }

    fn atoms(&mut self, items: &[AstExpr], builder: &mut Builder) -> Option<Vec<Atom>> {
        let is_extent = |item: &AstExpr| matches!(item.kind, ExprKind::Int(_));
        let around = std::mem::replace(&mut self.among_dims, items.iter().any(is_extent));
        let atoms: Vec<_> = items.iter().map(|item| self.atom(item, builder)).collect();
        self.among_dims = around;
        atoms.into_iter().collect()
    }

    /// Binds an expression to a fresh variable.
    pub(super) fn atom_of_call(&mut self, expr: &AstExpr, builder: &mut Builder) -> Option<Atom> {
        let value = self.expr(expr, builder)?;
        if let Expr::Atom(atom) = value {
            return Some(atom);
        }
        let var = self.scope.bind_fresh(expr.span);
        builder.push(var, value);
        Some(Atom::Var(var))
    }

    fn name(&mut self, name: &Name, expr: &AstExpr) -> Option<Atom> {
        if let Some(var) = self.scope.find(name) {
            return Some(Atom::Var(var));
        }
        if self.scope.dims.find(name).is_some() {
            return Some(Atom::Dim(Dim::Var(name.clone())));
        }
        if self.scope.globals.contains_key(name) {
            return Some(Atom::Global(name.clone()));
        }
        if is_annotation(expr) {
            return self.annotation(expr);
        }
        match name.as_str() {
            "inf" => return Some(Atom::Float(f64::INFINITY)),
            "nan" => return Some(Atom::Float(f64::NAN)),
            _ => {}
        }
        if let Some(why) = self.scope.why_hidden(name) {
            let message = format!("`{name}` is not visible here: it {why}");
            let found = Diagnostic::error(codes::UNKNOWN_NAME, expr.span, message);
            self.diagnostics.push(found.with_label("not visible here"));
        } else if self.scope.undefined.insert(name.clone()) {
            let found = self.undefined(name, expr.span);
            self.diagnostics.push(found);
        }
        None
    }

    fn undefined(&self, name: &Name, span: Span) -> Diagnostic {
        let message = format!("undefined name `{name}`");
        let found = Diagnostic::error(codes::UNKNOWN_NAME, span, message)
            .with_label("nothing in scope has this name");
        let word = match name.as_str() {
            "true" => Some("True"),
            "false" => Some("False"),
            "null" | "none" => Some("None"),
            _ => None,
        };
        if let Some(word) = word {
            return found.with_suggestions(&[word]);
        }
        let visible = self.scope.visible();
        let near = suggest::nearest(name, visible.iter().copied());
        if !near.is_empty() {
            return found.with_suggestions(&near);
        }
        if let Some(dtype) = foreign::dtype(name) {
            let help = format!("a dtype stands in quotes: \"{dtype}\"");
            return found.with_help(help).with_fix(format!("\"{dtype}\""));
        }
        let dims: Vec<_> = self.scope.dims.names().collect();
        let seen = if dims.is_empty() {
            String::new()
        } else {
            format!("; symbolic variables here: {}", suggest::quoted(&dims))
        };
        let binds = format!(
            "bind it before: `{name} = ...`; a symbolic variable is bound by a parameter, `Tensor((\"{name}\",), ...)`, \
             or by a `match_cast`{seen}"
        );
        match self.scope.dims.only_name().filter(|_| self.among_dims) {
            Some(only) => {
                let help = format!("did you mean the symbolic variable `{only}`? Else {binds}");
                found.with_help(help).with_possible_fix(only)
            }
            None => found.with_help(binds),
        }
    }

    fn annotation(&mut self, expr: &AstExpr) -> Option<Atom> {
        let read = annotation_of_expr(expr, &mut self.scope.dims);
        self.note(read).map(|annotation| Atom::Annotation(Arc::new(annotation)))
    }

    /// Infix arithmetic is of symbolic expressions only.
    fn arithmetic(&mut self, expr: &AstExpr) -> Option<Atom> {
        if self.has_tensor(expr) {
            let diagnostic = self.infix_on_tensors(expr);
            self.diagnostics.push(diagnostic);
            return None;
        }
        let read = self.scope.dims.read(expr);
        self.note(read).map(Atom::Dim)
    }

    /// The first name in an arithmetic expression that is a variable of the graph, and of no symbolic variable: where only dims may
    /// stand, a name that both have is that of the dim.
    fn variable_in(&self, expr: &AstExpr) -> Option<Name> {
        match &expr.kind {
            ExprKind::Name(name) => {
                let is_symbolic = self.scope.dims.names().any(|own| own == name.as_str());
                self.scope.find(name).filter(|_| !is_symbolic).map(|_| name.clone())
            }
            ExprKind::Unary(_, operand) => self.variable_in(operand),
            ExprKind::Binary(_, operands) => {
                self.variable_in(&operands.0).or_else(|| self.variable_in(&operands.1))
            }
            _ => None,
        }
    }

    /// True for a call that is no computation: constants, shapes, annotations, dims.
    fn is_atom_call(&self, expr: &AstExpr) -> bool {
        let ExprKind::Call { callee, arguments } = &expr.kind else { return false };
        let ExprKind::Name(name) = &callee.kind else { return false };
        match name.as_str() {
            "const" | "param" | "shape" => true,
            // Also the names of nothing else with two dims as operands.
            "min" | "max" | "ceildiv" => {
                arguments.len() == 2
                    && arguments.iter().all(|argument| self.is_dim(&argument.value))
            }
            _ => is_annotation(expr),
        }
    }

    fn is_dim(&self, expr: &AstExpr) -> bool {
        match &expr.kind {
            ExprKind::Int(_) => true,
            ExprKind::Name(name) => {
                self.scope.find(name).is_none() && self.scope.dims.find(name).is_some()
            }
            ExprKind::Unary(UnaryOp::Negate, operand) => self.is_dim(operand),
            ExprKind::Binary(_, operands) => self.is_dim(&operands.0) && self.is_dim(&operands.1),
            ExprKind::Call { .. } => self.is_atom_call(expr),
            _ => false,
        }
    }

    fn atom_call(
        &mut self,
        expr: &AstExpr,
        callee: &AstExpr,
        arguments: &[Argument],
    ) -> Option<Atom> {
        let ExprKind::Name(name) = &callee.kind else { return None };
        match name.as_str() {
            "const" => {
                let read = constant_of_arguments(expr, arguments);
                self.note(read).map(|constant| Atom::Constant(Arc::new(constant)))
            }
            "param" => {
                let read = external_of_arguments(expr, arguments, &mut self.scope.dims);
                self.note(read).map(|external| Atom::External(Arc::new(external)))
            }
            "shape" => self.shape(arguments),
            "min" | "max" | "ceildiv" => {
                let read = self.scope.dims.read(expr);
                self.note(read).map(Atom::Dim)
            }
            _ => self.annotation(expr),
        }
    }

    /// `shape(n, 4)`, also `shape((n, 4))`.
    fn shape(&mut self, arguments: &[Argument]) -> Option<Atom> {
        if let Some(argument) = arguments.iter().find(|argument| argument.keyword.is_some()) {
            self.error(codes::CALL_FORM, argument.value.span, "`shape` takes dims: `shape(n, 4)`");
            return None;
        }
        let items: Vec<&AstExpr> = match arguments {
            [
                Argument {
                    value: AstExpr { kind: ExprKind::Tuple(items) | ExprKind::List(items), .. },
                    ..
                },
            ] => items.iter().collect(),
            _ => arguments.iter().map(|argument| &argument.value).collect(),
        };
        for &item in &items {
            if let Some(name) = self.variable_in(item) {
                let message = format!("`{name}` is no symbolic variable, and `shape` takes dims");
                let help =
                    "a tensor of sizes becomes a shape with `tensor_to_shape` and `match_cast`";
                let diagnostic = Diagnostic::error(codes::CALL_FORM, item.span, message);
                self.diagnostics.push(diagnostic.with_help(help));
                return None;
            }
        }
        let dims: Vec<_> = items.into_iter().map(|item| self.scope.dims.read(item)).collect();
        let dims: Option<Vec<_>> = dims.into_iter().map(|dim| self.note(dim)).collect();
        dims.map(Atom::Shape)
    }

    fn get(
        &mut self,
        expr: &AstExpr,
        base: &AstExpr,
        indices: &[AstExpr],
        builder: &mut Builder,
    ) -> Option<Expr> {
        let index = match indices {
            [AstExpr { kind: ExprKind::Int(index), .. }] => usize::try_from(*index).ok(),
            _ => None,
        };
        let base = self.atom(base, builder);
        let Some(index) = index else {
            let message = "a tuple is indexed by a literal integer from 0 on: `t[0]`";
            let help = "elements of a tensor are taken with `take` or `strided_slice`";
            let diagnostic = Diagnostic::error(codes::EXPRESSION, expr.span, message);
            self.diagnostics.push(diagnostic.with_help(help));
            return None;
        };
        base.map(|base| Expr::Get(base, index))
    }

    /// A call on a line of its own: there the name of a tensor program runs it in
    /// destination-passing style.
    pub(super) fn call_for_effect(
        &mut self,
        expr: &AstExpr,
        callee: &AstExpr,
        builder: &mut Builder,
    ) -> Option<Expr> {
        let ExprKind::Call { arguments, .. } = &expr.kind else { return None };
        if let ExprKind::Name(name) = &callee.kind
            && self.scope.find(name).is_none()
            && matches!(self.scope.globals.get(name), Some(Global::Tensor(_)))
        {
            let (args, attrs) = self.arguments(arguments, builder)?;
            return Some(Expr::Call { callee: Callee::Global(name.clone()), args, attrs });
        }
        match self.expr(expr, builder)? {
            Expr::Atom(_) => {
                self.error(codes::STATEMENT, expr.span, "this expression has no effect");
                None
            }
            call => Some(call),
        }
    }

    fn call(
        &mut self,
        expr: &AstExpr,
        callee: &AstExpr,
        arguments: &[Argument],
        builder: &mut Builder,
    ) -> Option<Expr> {
        let ExprKind::Name(name) = &callee.kind else {
            self.error(codes::CALL_FORM, callee.span, "expected the name of a function before `(`");
            return None;
        };
        if name == "match_cast" {
            return self.match_cast(expr, arguments, builder);
        }
        if matches!(name.as_str(), "sym_var" | "output" | "dataflow" | "func_attr" | "module_attr")
        {
            let message = format!("`{name}` is a line of its own, not an operand");
            self.error(codes::CALL_FORM, expr.span, message);
            return None;
        }
        let (args, mut attrs) = self.arguments(arguments, builder)?;
        let target = self.callee(name);
        if matches!(name.as_str(), "call_tir" | "call_tir_inplace" | "call_dps_library") {
            self.declared_output(&args, &mut attrs, expr.span)?;
        }
        Some(Expr::Call { callee: target, args, attrs })
    }

    fn callee(&self, name: &Name) -> Callee {
        if let Some(var) = self.scope.find(name) {
            return Callee::Var(var);
        }
        if let Some(Global::Graph) = self.scope.globals.get(name) {
            return Callee::Global(name.clone());
        }
        // `relax.op.add` is how TVM writes it.
        let own = name.strip_prefix(OPERATOR).filter(|own| !own.starts_with("op."));
        let name = own.unwrap_or(name);
        let short = name.strip_prefix("nn.").or_else(|| name.strip_prefix("image."));
        Callee::Operator(Name::from(short.unwrap_or(name)))
    }

    fn arguments(&mut self, arguments: &[Argument], builder: &mut Builder) -> Option<Arguments> {
        let (mut args, mut attrs, mut complete) = (Vec::new(), Vec::<(Name, Atom)>::new(), true);
        for argument in arguments {
            let Some(atom) = self.atom(&argument.value, builder) else {
                complete = false;
                continue;
            };
            match &argument.keyword {
                None => args.push(atom),
                Some(keyword) if attrs.iter().any(|(name, _)| *name == keyword.name) => {
                    let message = format!("`{}` is given twice", keyword.name);
                    self.error(codes::CALL_FORM, keyword.span, message);
                }
                Some(keyword) => attrs.push((keyword.name.clone(), atom)),
            }
        }
        complete.then_some((args, attrs))
    }

    fn match_cast(
        &mut self,
        call: &AstExpr,
        arguments: &[Argument],
        builder: &mut Builder,
    ) -> Option<Expr> {
        let [value, annotation] = arguments else {
            self.error(codes::CALL_FORM, call.span, "expected `match_cast(value, annotation)`");
            return None;
        };
        let value = self.atom(&value.value, builder);
        let read = annotation_of_expr(&annotation.value, &mut self.scope.dims);
        let annotation = self.note(read);
        Some(Expr::MatchCast(value?, annotation?))
    }

    /// `out_shape=(n, 4), dtype="f32"` is another spelling of the output annotation. Without a dtype
    /// it is the one of the tensor program's last buffer.
    fn declared_output(
        &mut self,
        args: &[Atom],
        attrs: &mut Vec<(Name, Atom)>,
        span: Span,
    ) -> Option<()> {
        let Some(at) = attrs.iter().position(|(name, _)| name == "out_shape") else {
            return Some(());
        };
        let extents = match &attrs[at].1 {
            Atom::Shape(dims) => Some(dims.clone()),
            Atom::Dim(dim) => Some(vec![dim.clone()]),
            Atom::Tuple(items) | Atom::List(items) => items
                .iter()
                .map(|item| if let Atom::Dim(dim) = item { Some(dim.clone()) } else { None })
                .collect(),
            _ => None,
        };
        let Some(dims) = extents else {
            self.error(codes::CALL_FORM, span, "`out_shape` must be a tuple of dims");
            return None;
        };
        let written =
            attrs.iter().position(|(name, _)| name == "dtype").map(|at| attrs.remove(at).1);
        let dtype = match written {
            Some(Atom::Str(text)) if DType::parse(&text).is_some() => DType::parse(&text),
            Some(_) => {
                self.error(codes::CALL_FORM, span, "`dtype` must be the name of a dtype");
                return None;
            }
            None => self.last_buffer_dtype(args, attrs),
        };
        let annotation = Annotation::Tensor(TensorType { extents: Extents::Known(dims), dtype });
        let at = attrs.iter().position(|(name, _)| name == "out_shape")?;
        attrs[at] = ("out".into(), Atom::Annotation(Arc::new(annotation)));
        Some(())
    }

    fn last_buffer_dtype(&self, args: &[Atom], attrs: &[(Name, Atom)]) -> Option<DType> {
        let named = attrs.iter().find(|(name, _)| name == "func").map(|(_, atom)| atom);
        let Some(Atom::Global(name)) = args.first().or(named) else { return None };
        match self.scope.globals.get(name) {
            Some(Global::Tensor(dtypes)) => dtypes.last().copied().flatten(),
            _ => None,
        }
    }
}

/// Positional arguments, and those with a keyword.
type Arguments = (Vec<Atom>, Vec<(Name, Atom)>);

fn is_float(expr: &AstExpr) -> bool {
    match &expr.kind {
        ExprKind::Float(_) => true,
        ExprKind::Name(name) => name == "inf" || name == "nan",
        _ => false,
    }
}
