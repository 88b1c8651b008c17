//! Calls of tensor programs: `call_tir`, `call_tir_inplace`, and calls in place.

use super::evaluate::{Ran, Side};
use super::operators::dims_of;
use super::values::{Id, Value};
use relax_semantics::ops::Known;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::Param;

impl Side<'_> {
    /// A parameter that the caller gives up is memory, once memory is explicit.
    pub(super) fn donated(&mut self, value: Value) -> Value {
        let Value::Entry(id) = value else { return value };
        self.cells.push(id);
        Value::Cell(self.cells.len() - 1)
    }

    /// Whether the first operand is a tensor of the dtype that the second one names.
    pub(super) fn has_dtype(&self, bound: &[Value]) -> bool {
        let [tensor, Value::Known(Known::Str(name)), ..] = bound else { return false };
        let Value::Entry(id) = self.settled(tensor.clone()) else { return false };
        let found = self.annotation(id).as_tensor().and_then(|tensor| tensor.dtype);
        found.is_some_and(|dtype| DType::parse(name) == Some(dtype))
    }

    /// The tensors of a list of arguments.
    fn tensors(&self, value: &Value) -> Ran<Vec<Id>> {
        match self.settled(value.clone()) {
            Value::Tuple(items) => {
                let each = items.iter().map(|item| match item {
                    Value::Entry(id) => Ok(self.table.find(*id)),
                    _ => Err("an argument of a tensor program".to_owned()),
                });
                each.collect()
            }
            Value::Entry(id) => Ok(vec![self.table.find(id)]),
            _ => Err("arguments of a tensor program".into()),
        }
    }

    /// Arguments keep their values, those in the places of outputs too.
    pub(super) fn call_tir(&mut self, row: &str, bound: &[Value]) -> Ran<Value> {
        let Value::Function(name) = &bound[0] else { return Err("a program as a value".into()) };
        let Some(program) = self.module.tensor_program(name).cloned() else {
            return Err(format!("there is no tensor program `{name}`"));
        };
        let inputs = self.tensors(&bound[1])?;
        let (places, rest) = match row {
            "call_tir_inplace" => (Some(dims_of(&bound[2])?), &bound[3..]),
            _ => (None, &bound[2..]),
        };
        let mut is_tuple = matches!(rest[0], Value::Tuple(_));
        let outs = match &rest[0] {
            Value::Known(Known::Annotation(annotation)) => match &**annotation {
                Annotation::Tuple(fields) => {
                    is_tuple = true;
                    fields.clone()
                }
                one => vec![one.clone()],
            },
            Value::Tuple(items) => {
                let each = items.iter().map(|item| match item {
                    Value::Known(Known::Annotation(annotation)) => Ok((**annotation).clone()),
                    _ => Err("an output of a tensor program".to_owned()),
                });
                each.collect::<Ran<Vec<_>>>()?
            }
            _ => return Err("outputs of a tensor program".into()),
        };
        let scalars = dims_of(&rest[1])?;
        let mut buffers: Vec<Option<Id>> = inputs.iter().copied().map(Some).collect();
        let (mut fresh, mut from) = (Vec::new(), Vec::new());
        for (at, out) in outs.into_iter().enumerate() {
            let place = places.as_ref().and_then(|places| places.get(at)?.as_int());
            match place.and_then(|place| usize::try_from(place).ok()) {
                Some(place) => from.push(place),
                None => {
                    from.push(buffers.len());
                    buffers.push(None);
                    fresh.push(out);
                }
            }
        }
        let results = self.program(&program, buffers, &fresh, &scalars)?;
        let item = |at: usize| {
            let written = results.get(at).copied().flatten();
            written.or_else(|| inputs.get(at).copied()).map(Value::Entry)
        };
        let items = from.into_iter().map(|at| item(at).ok_or("an output".to_owned()));
        let items: Vec<Value> = items.collect::<Ran<_>>()?;
        Ok(if is_tuple {
            Value::Tuple(items)
        } else {
            items.into_iter().next().ok_or("no output")?
        })
    }

    /// A tensor program that is called in place: what it writes to is memory. Gives what it leaves in arguments that
    /// are no memory, by their places.
    pub(super) fn in_place(
        &mut self,
        program: &TensorProgram,
        args: &[Value],
    ) -> Ran<Vec<(usize, Id)>> {
        let (mut buffers, mut cells, mut scalars) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = Vec::new();
        for (at, (param, arg)) in program.params.iter().zip(args).enumerate() {
            match (param, arg) {
                (Param::Buffer(_), Value::Cell(cell)) => {
                    buffers.push(Some(self.cells[*cell]));
                    cells.push(Some(*cell));
                    places.push(at);
                }
                (Param::Buffer(_), Value::Entry(id)) => {
                    buffers.push(Some(*id));
                    cells.push(None);
                    places.push(at);
                }
                (_, Value::Known(Known::Dim(dim))) => scalars.push(dim.clone()),
                _ => return Err("an argument of a tensor program".into()),
            }
        }
        let results = self.program(program, buffers, &[], &scalars)?;
        let passed = |cell: &usize| cells.iter().filter(|other| **other == Some(*cell)).count();
        for (result, cell) in results.iter().zip(&cells) {
            if let (Some(_), Some(cell)) = (result, cell)
                && (passed(cell) > 1 || self.viewed.contains(cell))
            {
                return Err("memory with two names that is written to".into());
            }
        }
        let mut left = Vec::new();
        for ((result, cell), at) in results.into_iter().zip(cells).zip(places) {
            match (result, cell) {
                (Some(id), Some(cell)) => self.cells[cell] = id,
                (Some(id), None) => left.push((at, id)),
                (None, _) => {}
            }
        }
        Ok(left)
    }
}
