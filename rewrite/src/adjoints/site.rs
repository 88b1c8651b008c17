//! A call whose adjoint is made: its operands, its result and its cotangent. Most adjoints are formulas in
//! text: `d_x = g * cos(x)` gives the cotangent of the operand `x` from `g`, that of the result `y`.

use super::tape::{Made, Tape, axes_atom};
use relax_semantics::ops::{Kind, Operator, lookup, normalize_axis};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ast::{Expr, ExprKind, StatementKind, UnaryOp};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::foreign::infix;
use relax_syntax::ir::{Atom, VarId};
use relax_syntax::parse::parse_file;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// A cotangent of an operand, or of one of its fields.
pub(crate) struct Given {
    pub(crate) of: Atom,
    pub(crate) field: Option<usize>,
    pub(crate) cotangent: Atom,
}

pub(crate) struct Site<'s, 'a> {
    pub(crate) tape: &'s mut Tape<'a>,
    pub(crate) row: &'static Operator,
    /// One a parameter, defaults included.
    pub(crate) params: Vec<Atom>,
    pub(crate) y: Atom,
    /// Of the result, or of each field of it; none where nothing depends on it.
    pub(crate) cotangents: Vec<Option<Atom>>,
    /// Whether a cotangent of a variable is asked for.
    pub(crate) active: &'s dyn Fn(VarId) -> bool,
    pub(crate) given: Vec<Given>,
}

impl Site<'_, '_> {
    pub(crate) fn param(&self, name: &str) -> Atom {
        self.params[self.row.param(name)].clone()
    }

    pub(crate) fn is_none(&self, name: &str) -> bool {
        matches!(self.param(name), Atom::None)
    }

    /// The cotangent of the one result.
    pub(crate) fn g(&self) -> Made<Atom> {
        self.cotangents.first().cloned().flatten().ok_or_else(|| "it has no cotangent".to_owned())
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        let has = self.row.params.iter().any(|param| param.name == name);
        has && self.is_active(&self.param(name))
    }

    pub(crate) fn is_active(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Var(var) => (self.active)(*var),
            Atom::Tuple(items) | Atom::List(items) => items.iter().any(|item| self.is_active(item)),
            _ => false,
        }
    }

    /// The cotangent of an operand, of a shape that the operand broadcasts to.
    pub(crate) fn give(&mut self, name: &str, cotangent: &Atom) -> Made<()> {
        let of = self.param(name);
        let cotangent = self.tape.fit(cotangent, &of)?;
        self.given.push(Given { of, field: None, cotangent });
        Ok(())
    }

    /// The tensors of an operand that is a list of them.
    pub(crate) fn elements(&mut self, name: &str) -> Made<Vec<Atom>> {
        let list = self.param(name);
        match (&list, self.tape.annotation(&list)) {
            (Atom::Tuple(items) | Atom::List(items), _) => Ok(items.clone()),
            (_, Annotation::Tuple(fields)) => {
                Ok((0..fields.len()).map(|at| self.tape.field(&list, at)).collect())
            }
            _ => Err(format!("the fields of `{name}` are not known")),
        }
    }

    /// Whether a cotangent of an element of a list is asked for.
    pub(crate) fn wants_element(&self, name: &str, at: usize) -> bool {
        match self.param(name) {
            Atom::Tuple(items) | Atom::List(items) => self.is_active(&items[at]),
            other => self.is_active(&other),
        }
    }

    pub(crate) fn give_element(
        &mut self,
        name: &str,
        at: usize,
        own: &Atom,
        cotangent: &Atom,
    ) -> Made<()> {
        let cotangent = self.tape.fit(cotangent, own)?;
        let (of, field) = match self.param(name) {
            Atom::Tuple(items) | Atom::List(items) => (items[at].clone(), None),
            other => (other, Some(at)),
        };
        self.given.push(Given { of, field, cotangent });
        Ok(())
    }

    pub(crate) fn ints(&self, name: &str) -> Made<Vec<i64>> {
        let spelled = || format!("`{name}` is not spelled as integers");
        match self.param(name) {
            Atom::Dim(dim) => Ok(vec![dim.as_int().ok_or_else(spelled)?]),
            Atom::Tuple(items) | Atom::List(items) => items
                .iter()
                .map(|item| if let Atom::Dim(dim) = item { dim.as_int() } else { None })
                .collect::<Option<_>>()
                .ok_or_else(spelled),
            _ => Err(spelled()),
        }
    }

    pub(crate) fn dim(&self, name: &str) -> Made<Dim> {
        match self.param(name) {
            Atom::Dim(dim) => Ok(dim),
            _ => Err(format!("`{name}` is not spelled as an integer")),
        }
    }

    /// Literal axes of a tensor of `rank` dims, counted from 0; all of them for `None`.
    pub(crate) fn axes(&self, name: &str, rank: usize) -> Made<Vec<usize>> {
        if self.is_none(name) {
            return Ok((0..rank).collect());
        }
        let axes = self.ints(name)?;
        let places = axes.iter().map(|&axis| normalize_axis(axis, rank));
        places.collect::<Option<_>>().ok_or_else(|| format!("`{name}` is no axis"))
    }

    pub(crate) fn axis(&self, name: &str, rank: usize) -> Made<usize> {
        self.axes(name, rank)?.first().copied().ok_or_else(|| format!("`{name}` is no axis"))
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        matches!(self.param(name), Atom::Bool(true))
    }

    pub(crate) fn str(&self, name: &str) -> Made<Name> {
        match self.param(name) {
            Atom::Str(text) => Ok(text),
            _ => Err(format!("`{name}` is not spelled")),
        }
    }

    /// The call once more on other operands, in the place of the named ones.
    pub(crate) fn again(&mut self, with: &[(&str, &Atom)]) -> Made<Atom> {
        let row = self.row;
        let args: Vec<Atom> = row
            .params
            .iter()
            .zip(&self.params)
            .map(|(param, own)| {
                let given = with.iter().find(|(name, _)| *name == param.name);
                given.map_or_else(|| own.clone(), |(_, other)| (*other).clone())
            })
            .collect();
        let args: Vec<&Atom> = args.iter().collect();
        self.tape.call(row.name, &args)
    }

    /// Evaluates formulas: each `d_NAME = …` gives the cotangent of an operand, where that is asked for;
    /// other lines are values that they share. Names are those of the parameters, `y`, `g`, and `more`.
    pub(crate) fn formulas(&mut self, text: &str, more: &[(&str, Atom)]) -> Made<()> {
        let mut scope = Scope::of(text, more);
        let given: Vec<Name> =
            scope.lines.keys().filter(|name| name.starts_with("d_")).cloned().collect();
        for line in given {
            let param = &line[2..];
            if self.wants(param) {
                let cotangent = self.name(&line, &mut scope)?;
                self.give(param, &cotangent)?;
            }
        }
        Ok(())
    }

    /// The value of one formula.
    pub(crate) fn value(&mut self, text: &str, more: &[(&str, Atom)]) -> Made<Atom> {
        self.lines(&format!("value = {text}"), more)
    }

    /// The value of the line `value`, of lines that share others.
    pub(crate) fn lines(&mut self, text: &str, more: &[(&str, Atom)]) -> Made<Atom> {
        self.name("value", &mut Scope::of(text, more))
    }

    fn name(&mut self, name: &str, scope: &mut Scope) -> Made<Atom> {
        if let Some(known) = scope.known.get(name) {
            return Ok(known.clone());
        }
        let value = match scope.lines.get(name).cloned() {
            Some(line) => self.tensor(&line, scope)?,
            None if name == "y" => self.y.clone(),
            None if name == "g" => self.g()?,
            None => self.param(name),
        };
        scope.known.insert(Name::new(name), value.clone());
        Ok(value)
    }

    /// The dtype of literals: that of the cotangent.
    fn number_dtype(&self) -> Made<DType> {
        let first = self.cotangents.iter().flatten().next();
        first.map_or(Ok(DType::F64), |first| self.tape.dtype(first))
    }

    fn tensor(&mut self, expr: &Expr, scope: &mut Scope) -> Made<Atom> {
        let atom = self.atom(expr, scope)?;
        self.as_tensor(&atom)
    }

    fn as_tensor(&mut self, atom: &Atom) -> Made<Atom> {
        match atom {
            Atom::Float(value) => Ok(Tape::number(*value, self.number_dtype()?)),
            Atom::Dim(dim) => {
                let dtype = self.number_dtype()?;
                self.tape.scalar(dim, dtype)
            }
            other => Ok(other.clone()),
        }
    }

    fn atom(&mut self, expr: &Expr, scope: &mut Scope) -> Made<Atom> {
        Ok(match &expr.kind {
            ExprKind::Name(name) => self.name(name, scope)?,
            ExprKind::Int(value) => Atom::Dim(Dim::Int(*value)),
            ExprKind::Float(value) => Atom::Float(*value),
            ExprKind::Bool(value) => Atom::Bool(*value),
            ExprKind::Str(text) => Atom::Str(text.clone()),
            ExprKind::List(items) | ExprKind::Tuple(items) => {
                Atom::List(items.iter().map(|item| self.atom(item, scope)).collect::<Made<_>>()?)
            }
            ExprKind::Unary(UnaryOp::Negate, of) => {
                let of = self.tensor(of, scope)?;
                self.tape.call("negative", &[&of])?
            }
            ExprKind::Binary(op, operands) => {
                let (a, b) = (self.tensor(&operands.0, scope)?, self.tensor(&operands.1, scope)?);
                self.tape.call(infix(*op), &[&a, &b])?
            }
            ExprKind::Call { callee, arguments } => {
                let ExprKind::Name(name) = &callee.kind else {
                    unreachable!("invariant: formulas call operators")
                };
                let row = lookup(name).expect("invariant: formulas call operators");
                let (mut args, mut keywords) = (Vec::new(), Vec::new());
                for (at, argument) in arguments.iter().enumerate() {
                    let param = match &argument.keyword {
                        Some(keyword) => &row.params[row.param(&keyword.name)],
                        None => &row.params[at],
                    };
                    let mut value = self.atom(&argument.value, scope)?;
                    if matches!(param.kind, Kind::Tensor | Kind::OptionalTensor) {
                        value = self.as_tensor(&value)?;
                    }
                    match argument.keyword {
                        Some(_) => keywords.push((param.name, value)),
                        None => args.push(value),
                    }
                }
                if row.name == "shape_of" {
                    return self.tape.shape(&args[0]);
                }
                let args: Vec<&Atom> = args.iter().collect();
                self.tape.call_with(row.name, &args, keywords)?
            }
            _ => unreachable!("invariant: formulas are names, literals, infix operators and calls"),
        })
    }

    /// A cotangent or result of a reduction with its reduced axes, of extent 1, put back.
    pub(crate) fn keep(&mut self, value: &Atom, axes: &[usize], kept: bool) -> Made<Atom> {
        if kept || axes.is_empty() {
            return Ok(value.clone());
        }
        self.tape.call("expand_dims", &[value, &axes_atom(axes)])
    }
}

struct Scope {
    lines: BTreeMap<Name, Expr>,
    known: BTreeMap<Name, Atom>,
}

impl Scope {
    fn of(text: &str, more: &[(&str, Atom)]) -> Self {
        let text: String = text.lines().map(|line| format!("{}\n", line.trim())).collect();
        let (file, wrong) = parse_file(&Source::new("adjoint", text.as_str()));
        assert!(wrong.is_empty(), "invariant: formulas parse: {text}");
        let lines = file.statements.into_iter().map(|statement| match statement.kind {
            StatementKind::Assign {
                target: Expr { kind: ExprKind::Name(name), .. },
                value,
                ..
            } => (name, value),
            _ => panic!("invariant: formulas are assignments: {text}"),
        });
        let known = more.iter().map(|(name, atom)| (Name::new(*name), atom.clone())).collect();
        Self { lines: lines.collect(), known }
    }
}
