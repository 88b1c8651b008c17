//! Values of a function that is run on names: equal ones are one entry of a table, whichever module they come
//! from.

use relax_semantics::ops::{Known, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Constant, TensorProgram};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A place in the table.
pub(super) type Id = usize;

/// What a variable holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A tensor, or anything that is not taken apart.
    Entry(Id),
    /// Memory that is written to.
    Cell(usize),
    Tuple(Vec<Value>),
    Shape(Vec<Dim>),
    /// What the text spells.
    Known(Known),
    Function(Name),
    /// A heap of dims, by its number.
    Heap(usize),
}

/// The memory that a value names.
pub(super) fn cells_of(value: &Value) -> Vec<usize> {
    match value {
        Value::Cell(cell) => vec![*cell],
        Value::Tuple(items) => items.iter().flat_map(cells_of).collect(),
        _ => Vec::new(),
    }
}

/// What is known of an entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) annotation: Annotation,
    pub(super) def: Def,
    /// What was known before a check told more.
    pub(super) loose: Option<Annotation>,
    /// Of a call of an operator, whether each side makes it.
    pub(super) runs: [bool; 2],
    /// Another entry that was proved to be equal.
    same: Option<Id>,
}

/// How an entry came to be.
#[derive(Clone, Debug)]
pub(super) enum Def {
    /// A parameter, or something of which no more is known.
    Opaque,
    /// What a tensor program leaves of which the dims are known to the run alone.
    Unseen,
    /// Nothing is written yet.
    Unwritten,
    Constant(Arc<Constant>),
    /// A part of what an operator gives.
    Operator(Arc<Applied>, usize),
    /// What a tensor program leaves in a buffer.
    Program(Arc<Call>, usize),
    /// The one or the other.
    Choice(Id, Id, Id),
}

/// A call of an operator.
#[derive(Clone)]
pub(super) struct Applied {
    pub(super) row: &'static Operator,
    /// One a parameter.
    pub(super) args: Vec<Argument>,
    pub(super) results: Vec<(Vec<Dim>, DType)>,
}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.row.name, self.args)
    }
}

/// An argument of an operator.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    Tensor(Id),
    Tensors(Vec<Id>),
    Known(Known),
}

/// A call of a tensor program.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) program: TensorProgram,
    /// What each buffer holds before; none where nothing is written.
    pub(super) buffers: Vec<Option<Id>>,
    pub(super) shapes: Vec<Vec<Dim>>,
    pub(super) scalars: Vec<Dim>,
}

/// All entries.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    /// Whether dims of operands that are not known have names, and whether there are such without.
    pub(super) names_dims: bool,
    pub(super) has_unnamed: bool,
    by_key: BTreeMap<String, Id>,
    programs: Vec<TensorProgram>,
}

impl Table {
    /// An empty one, for dims with names.
    pub(super) fn with_named_dims() -> Self {
        Self { names_dims: true, ..Self::default() }
    }

    /// The entry that was proved equal to this one, or itself.
    pub(super) fn find(&self, id: Id) -> Id {
        self.entries[id].same.map_or(id, |same| self.find(same))
    }

    /// Notes that two entries are equal.
    pub(super) fn merge(&mut self, known: Id, other: Id) {
        let (known, other) = (self.find(known), self.find(other));
        if known != other {
            self.entries[other].same = Some(known);
        }
    }

    /// The entry of a key, made if there is none.
    pub(super) fn entry(&mut self, key: String, make: impl FnOnce() -> (Annotation, Def)) -> Id {
        if let Some(&id) = self.by_key.get(&key) {
            return self.find(id);
        }
        let (annotation, def) = make();
        self.entries.push(Entry { annotation, def, loose: None, runs: [false; 2], same: None });
        self.by_key.insert(key, self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// The same of a call that a side makes. What it was proved equal to is another call, which that side need not make.
    pub(super) fn called(
        &mut self,
        key: String,
        side: usize,
        make: impl FnOnce() -> (Annotation, Def),
    ) -> Id {
        let id = self.entry(key.clone(), make);
        let own = self.by_key[&key];
        self.entries[own].runs[side] = true;
        id
    }

    /// The entry of a key, if there is one.
    pub(super) fn known(&self, key: &str) -> Option<Id> {
        self.by_key.get(key).map(|&id| self.find(id))
    }

    pub(super) fn get(&self, id: Id) -> &Entry {
        &self.entries[self.find(id)]
    }

    /// How terms call its elements.
    pub(super) fn name(&self, id: Id) -> Name {
        format!("v{}", self.find(id)).into()
    }

    /// The entry of a name in terms.
    pub(super) fn named(&self, name: &str) -> Option<Id> {
        let id: Id = name.strip_prefix('v')?.parse().ok()?;
        (id < self.entries.len()).then(|| self.find(id))
    }

    pub(super) fn tensor(&self, id: Id) -> Option<(&[Dim], DType)> {
        let tensor = self.get(id).annotation.as_tensor()?;
        Some((tensor.extents.dims()?, tensor.dtype?))
    }

    /// What tells a value from all others; `cells` says what memory holds.
    pub(super) fn key(&self, value: &Value, cells: &[Id]) -> String {
        match value {
            Value::Entry(id) => format!("v{}", self.find(*id)),
            Value::Cell(cell) => format!("v{}", self.find(cells[*cell])),
            Value::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.key(item, cells)).collect();
                format!("({})", items.join(", "))
            }
            Value::Shape(dims) => {
                format!("{:?}", Known::List(dims.iter().cloned().map(Known::Dim).collect()))
            }
            Value::Known(Known::Float(value)) => format!("float {:x}", value.to_bits()),
            Value::Known(known) => format!("{known:?}"),
            Value::Function(name) => format!("function {name}"),
            Value::Heap(heap) => format!("heap {heap}"),
        }
    }

    /// A number for a program, the same for the same text but for what makes no difference.
    pub(super) fn program(&mut self, plain: TensorProgram) -> usize {
        if let Some(at) = self.programs.iter().position(|known| *known == plain) {
            return at;
        }
        self.programs.push(plain);
        self.programs.len() - 1
    }

    /// The entries that one is made of, itself included.
    pub(super) fn reached(&self, id: Id) -> BTreeSet<Id> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![self.find(id)]);
        while let Some(id) = open.pop() {
            if reached.insert(id) {
                open.extend(self.get(id).def.operands().into_iter().map(|id| self.find(id)));
            }
        }
        reached
    }
}

impl Def {
    /// The entries that one is made of, in one step.
    pub(super) fn operands(&self) -> Vec<Id> {
        match self {
            Def::Opaque | Def::Unseen | Def::Unwritten | Def::Constant(_) => Vec::new(),
            Def::Operator(applied, _) => {
                let each = applied.args.iter().flat_map(|arg| match arg {
                    Argument::Tensor(id) => vec![*id],
                    Argument::Tensors(ids) => ids.clone(),
                    Argument::Known(_) => Vec::new(),
                });
                each.collect()
            }
            Def::Program(call, _) => call.buffers.iter().flatten().copied().collect(),
            Def::Choice(condition, a, b) => vec![*condition, *a, *b],
        }
    }
}
