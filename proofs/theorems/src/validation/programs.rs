//! Tensor programs up to what makes no difference to a call: names, attributes, the order of parameters, and whether
//! memory that nothing wrote is passed in or allocated before anything else is done.

use super::values::Id;
use relax_semantics::tir::walk::{Rewrite, statements};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, ScalarId, Scope, Stmt, StmtKind};
use std::collections::BTreeMap;

/// A program whose buffers and scalars are numbered in the order in which its statements use them.
pub(super) struct Plain {
    pub(super) program: TensorProgram,
    numbers: Numbers,
    /// What it allocates first.
    allocated: Vec<BufferId>,
}

#[derive(Default)]
struct Numbers {
    buffers: Vec<BufferId>,
    scalars: Vec<ScalarId>,
}

fn number<T: PartialEq + Copy>(known: &mut Vec<T>, id: T) -> u32 {
    let at = known.iter().position(|other| *other == id).unwrap_or_else(|| {
        known.push(id);
        known.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Rewrite for Numbers {
    fn buffer(&mut self, id: BufferId) -> BufferId {
        BufferId(number(&mut self.buffers, id))
    }

    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        ScalarId(number(&mut self.scalars, id))
    }
}

impl Plain {
    pub(super) fn of(program: &TensorProgram) -> Self {
        let body: &[Stmt] = program.body.as_deref().unwrap_or_default();
        let leading = body.iter().map_while(|stmt| match stmt.kind {
            StmtKind::Alloc(id) if program.buffer(id).scope == Scope::Global => Some(id),
            _ => None,
        });
        let allocated: Vec<BufferId> = leading.collect();
        let mut numbers = Numbers::default();
        let statements = statements(&body[allocated.len()..], &mut numbers);
        for param in &program.params {
            match param {
                Param::Buffer(id) => _ = numbers.buffer(*id),
                Param::Scalar(id) => _ = numbers.scalar(*id),
                Param::Dim(_) => {}
            }
        }
        let mut plain = program.clone();
        plain.name = "".into();
        plain.attrs.clear();
        plain.params.clear();
        plain.body = program.body.is_some().then_some(statements);
        plain.buffers = numbers.buffers.iter().map(|id| program.buffer(*id).clone()).collect();
        plain.buffers.iter_mut().for_each(|buffer| buffer.name = "".into());
        plain.scalars = numbers.scalars.iter().map(|id| program.scalar(*id).clone()).collect();
        plain.scalars.iter_mut().for_each(|scalar| scalar.name = "".into());
        plain.dims.sort_by(|a, b| a.name.cmp(&b.name));
        plain.dims.iter_mut().for_each(|dim| dim.in_signature = true);
        Self { program: plain, numbers, allocated }
    }

    /// The number of the buffer that a parameter is, counted among those that are buffers.
    pub(super) fn number(&self, program: &TensorProgram, at: usize) -> Option<usize> {
        let id = program.buffer_params().nth(at)?;
        self.numbers.buffers.iter().position(|&other| other == id)
    }

    /// What tells one call from another: what each buffer and scalar is, by its number.
    pub(super) fn call(
        &self,
        program: &TensorProgram,
        held: &[Option<Id>],
        shapes: &[Vec<Dim>],
        scalars: &[Dim],
    ) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        let (mut dims, mut buffer, mut scalar) = (BTreeMap::new(), 0, scalars.iter());
        for param in &program.params {
            match param {
                Param::Buffer(id) => {
                    let (actual, formal) = (shapes.get(buffer)?, &program.buffer(*id).shape);
                    bind(&mut dims, formal, actual);
                    parts.push(part(self.number(program, buffer)?, held[buffer], actual));
                    buffer += 1;
                }
                Param::Scalar(id) => {
                    let at = self.numbers.scalars.iter().position(|other| other == id)?;
                    parts.push(format!("scalar {at} is {:?}", scalar.next()?));
                }
                Param::Dim(name) => {
                    let value = scalar.next()?;
                    dims.entry(name.clone()).or_insert_with(|| value.clone());
                    parts.push(format!("{name} is {value:?}"));
                }
            }
        }
        for id in &self.allocated {
            let shape = &program.buffer(*id).shape;
            // An allocation that nothing uses may stop the program, where an extent is negative.
            let may_stop = shape.iter().any(|dim| !matches!(dim, Dim::Var(_) | Dim::Int(0..)));
            let shape: Vec<Dim> = shape.iter().map(|dim| dim.substitute(&dims)).collect();
            match self.numbers.buffers.iter().position(|other| other == id) {
                Some(at) => parts.push(part(at, None, &shape)),
                None if may_stop => parts.push(format!("allocates {shape:?}")),
                None => {}
            }
        }
        parts.sort();
        Some(parts.join(", "))
    }
}

fn bind(dims: &mut BTreeMap<Name, Dim>, formal: &[Dim], actual: &[Dim]) {
    for (formal, actual) in formal.iter().zip(actual) {
        if let Dim::Var(name) = formal {
            dims.entry(name.clone()).or_insert_with(|| actual.clone());
        }
    }
}

fn part(number: usize, held: Option<Id>, shape: &[Dim]) -> String {
    let held = held.map_or("nothing".to_owned(), |id| format!("v{id}"));
    format!("buffer {number} is {held} {shape:?}")
}
