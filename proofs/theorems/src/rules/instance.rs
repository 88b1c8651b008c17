//! Instances of a rule: its groups of axes with a number of axes each, and element types chosen.

use super::rule::{Arg, Axis, Call, ElementType, Entry, Node, Operand, Param, Rule, rank_of};
use relax_semantics::ops::{Kind as ParamKind, Known, Operand as Deduced};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

/// How many axes each group has.
pub(crate) type Ranks = BTreeMap<Name, usize>;
/// The dtype of each variable for one.
pub(crate) type Types = BTreeMap<ElementType, DType>;

/// The dim of an axis of a group. A single axis has the group's own name.
fn dim_of(group: &str, at: usize, rank: usize) -> Dim {
    Dim::Var(if rank == 1 { format!("*{group}") } else { format!("{group}_{at}") }.into())
}

/// The rule without groups.
pub(crate) fn expanded(rule: &Rule, ranks: &Ranks) -> Rule {
    let lengths: BTreeMap<Name, Dim> = ranks
        .iter()
        .map(|(group, &rank)| (rank_of(group), Dim::Int(i64::try_from(rank).unwrap_or(i64::MAX))))
        .collect();
    let expand = Expand { ranks, lengths };
    let param = |param: &Param| Param {
        name: param.name.clone(),
        what: match &param.what {
            Operand::Float => Operand::Float,
            Operand::Tensor(axes, kind) => Operand::Tensor(expand.axes(axes), kind.clone()),
        },
    };
    Rule {
        params: rule.params.iter().map(param).collect(),
        left: expand.node(&rule.left),
        right: expand.node(&rule.right),
        mutant: rule.mutant.as_ref().map(|mutant| expand.node(mutant)),
        ..rule.clone()
    }
}

struct Expand<'a> {
    ranks: &'a Ranks,
    lengths: BTreeMap<Name, Dim>,
}

impl Expand<'_> {
    fn group(&self, name: &Name) -> Vec<Dim> {
        let rank = self.ranks.get(name).copied().unwrap_or(1);
        (0..rank).map(|at| dim_of(name, at, rank)).collect()
    }

    fn axes(&self, axes: &[Axis]) -> Vec<Axis> {
        let one = |axis: &Axis| match axis {
            Axis::Dim(dim) => vec![Axis::Dim(dim.clone())],
            Axis::Group(name) => self.group(name).into_iter().map(Axis::Dim).collect(),
        };
        axes.iter().flat_map(one).collect()
    }

    fn node(&self, node: &Node) -> Node {
        match node {
            Node::Param(_) | Node::Constant(..) => node.clone(),
            Node::Part(whole, at) => Node::Part(Box::new(self.node(whole)), *at),
            Node::Call(call) => {
                let args = call.args.iter().map(|arg| self.arg(arg)).collect();
                Node::Call(Call { row: call.row, args })
            }
        }
    }

    fn arg(&self, arg: &Arg) -> Arg {
        match arg {
            Arg::Node(node) => Arg::Node(self.node(node)),
            Arg::Nodes(nodes) => Arg::Nodes(nodes.iter().map(|node| self.node(node)).collect()),
            Arg::Integer(dim) => Arg::Integer(dim.substitute(&self.lengths)),
            Arg::List(entries) => {
                Arg::List(entries.iter().flat_map(|entry| self.entry(entry)).collect())
            }
            _ => arg.clone(),
        }
    }

    fn entry(&self, entry: &Entry) -> Vec<Entry> {
        match entry {
            Entry::One(dim) => vec![Entry::One(dim.substitute(&self.lengths))],
            Entry::Dims(group) => self.group(group).into_iter().map(Entry::One).collect(),
            Entry::Unpadded(group) => {
                let widths = [Entry::One(Dim::Int(0)), Entry::One(Dim::Int(0))];
                self.group(group).iter().flat_map(|_| widths.clone()).collect()
            }
            Entry::Span(at, group) => {
                let first = at.substitute(&self.lengths);
                let rank = self.ranks.get(group).copied().unwrap_or(1);
                let axis = |at: usize| {
                    let at = Dim::Int(i64::try_from(at).unwrap_or(i64::MAX));
                    Entry::One(Dim::op(DimOp::Add, first.clone(), at))
                };
                (0..rank).map(axis).collect()
            }
        }
    }
}

/// Every choice of representatives for the element types of a rule. Where there are several, dtypes
/// of more than one width are among them: what holds only of a wider one is not mistaken for a law.
pub(crate) fn type_choices(rule: &Rule, of_class: fn(&str) -> &'static [DType]) -> Vec<Types> {
    let mut choices = vec![Types::new()];
    let kinds = rule.element_types();
    for kind in &kinds {
        let class = kind.class().unwrap_or_default();
        let dtypes = if kinds.len() > 1 { several(class) } else { of_class(class) };
        let extend = |types: &Types| -> Vec<Types> {
            let with = |&dtype| {
                let mut types = types.clone();
                types.insert(kind.clone(), dtype);
                types
            };
            dtypes.iter().map(with).collect()
        };
        choices = choices.iter().flat_map(extend).collect();
    }
    choices
}

/// One dtype for each way in which a class computes: floats, wrapping integers, truth values.
pub(crate) fn representatives(class: &str) -> &'static [DType] {
    match class {
        "float" => &[DType::F32],
        "int" => &[DType::I32],
        "uint" => &[DType::U32],
        "number" => &[DType::F32, DType::I32],
        "bool" => &[DType::Bool],
        _ => &[DType::F32, DType::I32, DType::Bool],
    }
}

/// Representatives beside those of another variable.
fn several(class: &str) -> &'static [DType] {
    match class {
        "float" => &[DType::F32, DType::F16],
        "int" => &[DType::I32, DType::I8],
        "uint" => &[DType::U32, DType::U8],
        "number" => &[DType::F32, DType::F16, DType::I32, DType::I8],
        "bool" => &[DType::Bool],
        _ => &[DType::F32, DType::F16, DType::I32, DType::I8, DType::Bool],
    }
}

/// Dtypes that differ in more: rounding, width and sign.
pub(crate) fn samples(class: &str) -> &'static [DType] {
    match class {
        "float" => &[DType::F32, DType::F16, DType::F64],
        "int" => &[DType::I32, DType::U8],
        "uint" => &[DType::U8, DType::U64],
        "number" => &[DType::F32, DType::F16, DType::I8, DType::U32],
        "bool" => &[DType::Bool],
        _ => &[DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool],
    }
}

/// The dtype that a type is.
pub(crate) fn dtype_of(kind: &ElementType, types: &Types) -> DType {
    match kind {
        ElementType::Fixed(dtype) => *dtype,
        ElementType::Variable(_) => types.get(kind).copied().unwrap_or(DType::F32),
    }
}

/// What deduction is told of an argument that is no tensor.
pub(crate) fn known(arg: &Arg, kind: ParamKind, types: &Types) -> Known {
    match arg {
        Arg::Integer(dim) => match (kind, dim) {
            (ParamKind::Float | ParamKind::OptionalFloat, Dim::Int(value)) => {
                Known::Float(*value as f64)
            }
            _ => Known::Dim(dim.clone()),
        },
        Arg::List(entries) => Known::List(
            entries
                .iter()
                .filter_map(|entry| match entry {
                    Entry::One(dim) => Some(Known::Dim(dim.clone())),
                    Entry::Dims(_) | Entry::Span(..) | Entry::Unpadded(_) => None,
                })
                .collect(),
        ),
        Arg::Float(value) => Known::Float(*value),
        Arg::Scalar(_) => Known::Float(SCALAR),
        Arg::Bool(value) => Known::Bool(*value),
        Arg::Str(text) => Known::Str(text.clone()),
        Arg::Type(kind) => Known::Str(dtype_of(kind, types).name().into()),
        Arg::Node(_) | Arg::Nodes(_) | Arg::None => Known::None,
    }
}

/// What stands for a float operand where one is needed.
pub(crate) const SCALAR: f64 = 0.0625;

/// An operand of which the value is known.
pub(crate) fn deduced(arg: &Arg, kind: ParamKind, types: &Types) -> Deduced {
    Deduced::of_known(known(arg, kind, types))
}
