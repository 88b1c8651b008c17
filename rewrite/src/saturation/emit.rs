//! A form of a region as bindings: variables that are still computed keep their names, what is new gets one.

use super::encode::{Encoded, From, default};
use super::solve::{Made, Solution};
use super::term::{Attr, Head};
use crate::names::Names;
use relax_semantics::ops::{Kind, lookup};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, Binding, Callee, Expr, VarId, VarInfo};
use relax_syntax::span::Span;

/// What new bindings need.
pub(super) struct Emit<'e> {
    pub(super) names: &'e mut Names,
    pub(super) vars: &'e mut Vec<VarInfo>,
    pub(super) span: Span,
}

impl Emit<'_> {
    /// The bindings of a form of a region that had these.
    pub(super) fn bindings(
        &mut self,
        region: &Encoded,
        before: &[Binding],
        solution: &Solution,
    ) -> Vec<Binding> {
        let mut values = Values { region, solution, vars: Vec::new() };
        let mut made = Vec::with_capacity(solution.steps.len());
        for step in &solution.steps {
            let var = self.var(region, step);
            let expr = verbatim(region, before, step, &values)
                .unwrap_or_else(|| expression(step, &values));
            values.vars.push(var);
            made.push(Binding { var, expr });
        }
        for (&var, &from) in region.outputs.iter().zip(&solution.outputs) {
            let atom = values.atom(from);
            if atom != Atom::Var(var) {
                made.push(Binding { var, expr: Expr::Atom(atom) });
            }
        }
        made
    }

    fn var(&mut self, region: &Encoded, step: &Made) -> VarId {
        if let Some(at) = step.named
            && let Some(var) = var_of(region, at)
        {
            return var;
        }
        let wanted = match &step.head {
            Head::Call(name, _) => lookup(name).map_or(*name, |row| row.short_name()),
            _ => "part",
        };
        let name = self.names.fresh(wanted);
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name, annotation: None, span: self.span });
        var
    }
}

/// The first variable that a step of a region was the value of; one that is seen after it, if there is one.
fn var_of(region: &Encoded, step: usize) -> Option<VarId> {
    let is_it = |from: &From| *from == From::Step(step);
    let seen = region.outputs.iter().copied().find(|var| is_it(&region.values[var]));
    seen.or_else(|| region.values.iter().find(|(_, from)| is_it(from)).map(|(var, _)| *var))
}

struct Values<'v> {
    region: &'v Encoded,
    solution: &'v Solution,
    /// Of each step of the form.
    vars: Vec<VarId>,
}

impl Values<'_> {
    fn atom(&self, from: From) -> Atom {
        match from {
            From::Step(at) => Atom::Var(self.vars[at]),
            From::Leaf(at) => self.region.leaves[at].atom.clone(),
            From::Scalar(scalar) => Atom::Constant(scalar.constant()),
        }
    }

    /// What holds now the value that a variable had.
    fn now(&self, var: VarId) -> Option<Atom> {
        let from = match self.region.values.get(&var) {
            None => return Some(Atom::Var(var)),
            Some(From::Step(at)) => *self.solution.now.get(at)?,
            Some(&other) => other,
        };
        match from {
            From::Step(at) if at >= self.vars.len() => None,
            from => Some(self.atom(from)),
        }
    }
}

/// The call as the program has it, with the operands as they are called now.
fn verbatim(region: &Encoded, before: &[Binding], step: &Made, values: &Values) -> Option<Expr> {
    let at = step.verbatim?;
    let is_it = |binding: &&Binding| {
        region.values.get(&binding.var) == Some(&From::Step(at))
            && !matches!(binding.expr, Expr::Atom(_))
    };
    let mut expr = before.iter().find(is_it)?.expr.clone();
    let mut all = true;
    match &mut expr {
        Expr::Get(atom, _) => all &= rename(atom, values),
        Expr::Call { args, attrs, .. } => {
            let attrs = attrs.iter_mut().map(|(_, atom)| atom);
            args.iter_mut().chain(attrs).for_each(|atom| all &= rename(atom, values));
        }
        _ => return None,
    }
    all.then_some(expr)
}

fn rename(atom: &mut Atom, values: &Values) -> bool {
    match atom {
        Atom::Var(var) => match values.now(*var) {
            Some(now) => {
                *atom = now;
                true
            }
            None => false,
        },
        Atom::Tuple(items) | Atom::List(items) => items.iter_mut().all(|item| rename(item, values)),
        _ => true,
    }
}

fn expression(step: &Made, values: &Values) -> Expr {
    let mut operands = step.operands.iter().map(|&from| values.atom(from));
    let (name, attrs) = match &step.head {
        Head::Call(name, attrs) => (name, attrs),
        Head::Part(at) => return Expr::Get(operands.next().unwrap_or(Atom::None), *at),
        Head::Leaf(_) | Head::Scalar(_) | Head::Outputs => {
            return Expr::Atom(operands.next().unwrap_or(Atom::None));
        }
    };
    let row = lookup(name).expect("invariant: terms have rows");
    let (mut args, mut keywords) = (Vec::new(), Vec::new());
    for (param, attr) in row.params.iter().zip(attrs) {
        let atom = match attr {
            Attr::Operand => operands.next().unwrap_or(Atom::None),
            Attr::Operands(count) => Atom::List(operands.by_ref().take(*count).collect()),
            other => attribute(param.kind, other),
        };
        match param.default {
            None => args.push(atom),
            Some(literal) if default(literal) == *attr => {}
            Some(_) => keywords.push((Name::new(param.name), atom)),
        }
    }
    Expr::Call { callee: Callee::Operator(row.short_name().into()), args, attrs: keywords }
}

fn attribute(kind: Kind, attr: &Attr) -> Atom {
    let is_shape = matches!(kind, Kind::Shape | Kind::OptionalShape | Kind::InferredShape);
    match attr {
        Attr::None | Attr::Operand | Attr::Operands(_) => Atom::None,
        Attr::Dim(dim) => Atom::Dim(dim.clone()),
        Attr::Float(bits) => Atom::Float(f64::from_bits(*bits)),
        Attr::Bool(value) => Atom::Bool(*value),
        Attr::Str(text) => Atom::Str(text.clone()),
        Attr::List(dims) if is_shape => Atom::Shape(dims.clone()),
        Attr::List(dims) => Atom::List(dims.iter().cloned().map(Atom::Dim).collect()),
    }
}
