//! Bindings of a region as terms.

use super::graph::{Graph, Leaf};
use super::spelling::spelled;
use super::term::{Attr, Head, Scalar, Term};
use egg::Id;
use relax_semantics::ops::{self, Kind, Operator, lookup};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Callee, Expr, VarId};
use std::collections::BTreeMap;

/// A binding of a region without names: operands are earlier bindings of it, or values from outside.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) head: Head,
    pub(super) operands: Vec<From>,
    pub(super) annotation: Annotation,
}

/// Where an operand of a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum From {
    Step(usize),
    Leaf(usize),
    Scalar(Scalar),
}

/// A region: what it computes, with what, and what of it is seen after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoded {
    pub(super) steps: Vec<Step>,
    pub(super) leaves: Vec<Leaf>,
    /// The value of each variable that the region binds.
    pub(super) values: BTreeMap<VarId, From>,
    /// The variables that are seen after it, in order.
    pub(super) outputs: Vec<VarId>,
}

/// What an argument of an operator is, if it can be a part of a term.
enum Passed {
    Attr(Attr),
    One(Atom),
    Several(Vec<Atom>),
}

/// Whether a binding can be part of a region, its traps aside.
pub(super) fn can_encode(binding: &Binding) -> bool {
    match &binding.expr {
        Expr::Atom(Atom::Var(_)) | Expr::Get(Atom::Var(_), _) => true,
        Expr::Atom(Atom::Constant(constant)) => Scalar::of(constant).is_some(),
        Expr::Call { callee: Callee::Operator(name), args, attrs } => {
            lookup(name).is_some_and(|row| passed(row, args, attrs).is_some())
        }
        _ => false,
    }
}

impl Encoded {
    /// The region of some bindings; `None` where one is of no use after all.
    pub(super) fn of(bindings: &[Binding], annotations: &[Annotation]) -> Option<Encoded> {
        let mut region = Encoded::default();
        for binding in bindings {
            let value = region.value(binding, annotations)?;
            region.values.insert(binding.var, value);
        }
        Some(region)
    }

    fn value(&mut self, binding: &Binding, annotations: &[Annotation]) -> Option<From> {
        let annotation = annotations[binding.var.0 as usize].clone();
        match &binding.expr {
            Expr::Atom(atom) => self.operand(atom, annotations),
            Expr::Get(atom, at) => {
                let operands = vec![self.operand(atom, annotations)?];
                Some(self.step(Step { head: Head::Part(*at), operands, annotation }))
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let row = lookup(name)?;
                let (mut operands, mut found) = (Vec::new(), Vec::new());
                let mut first = None;
                for passed in passed(row, args, attrs)? {
                    let atoms = match passed {
                        Passed::Attr(attr) => {
                            found.push(attr);
                            continue;
                        }
                        Passed::One(atom) => {
                            found.push(Attr::Operand);
                            vec![atom]
                        }
                        Passed::Several(atoms) => {
                            found.push(Attr::Operands(atoms.len()));
                            atoms
                        }
                    };
                    for atom in &atoms {
                        let operand = self.operand(atom, annotations)?;
                        first = first.or_else(|| self.rank(operand));
                        operands.push(operand);
                    }
                }
                let attrs = spelled(row, found, first, Some(&annotation))?;
                Some(self.step(Step { head: Head::Call(row.name, attrs), operands, annotation }))
            }
            _ => None,
        }
    }

    fn step(&mut self, step: Step) -> From {
        self.steps.push(step);
        From::Step(self.steps.len() - 1)
    }

    fn rank(&self, operand: From) -> Option<usize> {
        self.annotation(operand).as_tensor()?.extents.rank()
    }

    /// The annotation of a value.
    pub(super) fn annotation(&self, value: From) -> Annotation {
        match value {
            From::Step(at) => self.steps[at].annotation.clone(),
            From::Leaf(at) => self.leaves[at].annotation.clone(),
            From::Scalar(scalar) => Annotation::tensor(Vec::new(), scalar.dtype()),
        }
    }

    fn operand(&mut self, atom: &Atom, annotations: &[Annotation]) -> Option<From> {
        let annotation = match atom {
            Atom::Var(var) => match self.values.get(var) {
                Some(&value) => return Some(value),
                None => annotations[var.0 as usize].clone(),
            },
            Atom::Constant(constant) => match Scalar::of(constant) {
                Some(scalar) => return Some(From::Scalar(scalar)),
                None => {
                    let extents = constant.shape.iter().map(|&extent| i64::try_from(extent));
                    let extents = extents.map(|extent| extent.ok().map(Dim::Int));
                    Annotation::tensor(extents.collect::<Option<_>>()?, constant.dtype)
                }
            },
            Atom::External(external) => external.annotation.clone(),
            _ => return None,
        };
        if let Some(at) = self.leaves.iter().position(|leaf| leaf.atom == *atom) {
            return Some(From::Leaf(at));
        }
        self.leaves.push(Leaf { atom: atom.clone(), annotation });
        Some(From::Leaf(self.leaves.len() - 1))
    }

    /// Puts the region into a graph: the class of each step.
    pub(super) fn add_to(&self, graph: &mut Graph) -> Vec<Id> {
        let mut ids: Vec<Id> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let children = step.operands.iter().map(|&from| class(graph, &ids, from)).collect();
            let id = graph.add_uncanonical(Term { head: step.head.clone(), children });
            // The check of the program knows more than what is declared, and what it left to run time was
            // held to be total.
            if graph[id].data.is_none() {
                graph.set_analysis_data(id, Some(step.annotation.clone()));
            }
            ids.push(id);
        }
        ids
    }

    /// The class of each output.
    pub(super) fn output_classes(&self, graph: &mut Graph, ids: &[Id]) -> Vec<Id> {
        self.outputs.iter().map(|var| class(graph, ids, self.values[var])).collect()
    }
}

/// The class of a value.
pub(super) fn class(graph: &mut Graph, steps: &[Id], from: From) -> Id {
    let head = match from {
        From::Step(at) => return steps[at],
        From::Leaf(at) => Head::Leaf(at),
        From::Scalar(scalar) => Head::Scalar(scalar),
    };
    graph.add_uncanonical(Term { head, children: Vec::new() })
}

/// The arguments of a call, one a parameter.
fn passed(
    row: &'static Operator,
    args: &[Atom],
    attrs: &[(relax_syntax::Name, Atom)],
) -> Option<Vec<Passed>> {
    let pairs = row.params.iter().zip(ops::passed(row, args, attrs).ok()?);
    let one = |(param, atom): (&ops::Param, Option<&Atom>)| match atom {
        Some(atom) => argument(param.kind, atom.clone()),
        None => Some(Passed::Attr(default(param.default?))),
    };
    pairs.map(one).collect()
}

fn argument(kind: Kind, atom: Atom) -> Option<Passed> {
    match (kind, atom) {
        (Kind::Function | Kind::Annotation | Kind::Rest, _) => None,
        (Kind::OptionalTensor, Atom::None) => Some(Passed::Attr(Attr::None)),
        (
            Kind::Tensor | Kind::OptionalTensor,
            atom @ (Atom::Var(_) | Atom::Constant(_) | Atom::External(_)),
        ) => Some(Passed::One(atom)),
        (Kind::Tensors, Atom::Tuple(atoms) | Atom::List(atoms)) => Some(Passed::Several(atoms)),
        (Kind::Tensor | Kind::OptionalTensor | Kind::Tensors, _) => None,
        (_, atom) => attribute(&atom).map(Passed::Attr),
    }
}

fn attribute(atom: &Atom) -> Option<Attr> {
    Some(match atom {
        Atom::Dim(dim) => Attr::Dim(dim.clone()),
        Atom::Float(value) => Attr::Float(value.to_bits()),
        Atom::Bool(value) => Attr::Bool(*value),
        Atom::Str(text) => Attr::Str(text.clone()),
        Atom::None => Attr::None,
        Atom::Shape(dims) => Attr::List(dims.clone()),
        Atom::Tuple(items) | Atom::List(items) => {
            let dims = items.iter().map(|item| match item {
                Atom::Dim(dim) => Some(dim.clone()),
                _ => None,
            });
            Attr::List(dims.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// A default as an attribute.
pub(super) fn default(literal: relax_semantics::ops::Literal) -> Attr {
    use relax_semantics::ops::Literal;
    match literal {
        Literal::None => Attr::None,
        Literal::Int(value) => Attr::Dim(Dim::Int(value)),
        Literal::Float(value) => Attr::Float(value.to_bits()),
        Literal::Bool(value) => Attr::Bool(value),
        Literal::Str(text) => match DType::parse(text) {
            Some(dtype) => Attr::Str(dtype.name().into()),
            None => Attr::Str(text.into()),
        },
        Literal::Ints(values) => Attr::List(values.iter().map(|&value| Dim::Int(value)).collect()),
    }
}
