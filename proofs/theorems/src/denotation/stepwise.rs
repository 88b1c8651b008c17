//! What operators compute, step by step in the dtypes that they compute in: the denotation of the tensor program of
//! their row. Over floats as they are, a rule only needs that an operator is some function of its elements; a program
//! that computes it needs to know which.
//!
//! Sums of f64 have the error of each addition carried along, as operators form them; that a program may leave this
//! out makes legalization approximate.

use super::denoter::Stops;
use super::program::{Asked, Called, Written, element, rebuilt, run};
use super::term::{FoldOp, Known, Term, Test, unknown};
use relax_semantics::ops::programs::{
    Gives, Input, Made, Renaming, Request, Sums, TensorSpec, kernel,
};
use relax_semantics::ops::{Known as Value, Layout, Operator};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Facts};
use std::collections::BTreeMap;

/// A tensor operand.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: Name,
    pub(crate) dims: Vec<Dim>,
    pub(crate) dtype: DType,
    /// The least and greatest of its elements, where the text spells them, as integers.
    pub(crate) range: Option<(i128, i128)>,
}

/// A call of an operator.
pub(crate) struct Op {
    pub(crate) row: &'static Operator,
    /// The tensors, each with its parameter.
    pub(crate) tensors: Vec<(&'static str, Tensor)>,
    /// The other parameters.
    pub(crate) attrs: BTreeMap<&'static str, Value>,
    /// The dims and dtype of each result.
    pub(crate) results: Vec<(Vec<Dim>, DType)>,
}

/// What a call writes.
pub(crate) struct Steps {
    written: Written,
    /// Buffers of the program before its first result.
    operands: usize,
}

impl Steps {
    /// Runs the program of a call.
    pub(crate) fn of(
        op: &Op,
        asked: Asked,
        facts: &mut dyn Facts,
        fresh: &mut usize,
    ) -> Known<Self> {
        let (request, scalars) = op.request(facts);
        let Some(Made { program, passed }) = kernel(&request) else {
            return unknown(format!("`{}` has no tensor program for this call", op.row.name));
        };
        let tensors = op.tensors.iter().zip(passed).filter(|(_, passed)| *passed);
        let tensors: Vec<&Tensor> = tensors.map(|((_, tensor), _)| tensor).collect();
        let names = tensors.iter().map(|tensor| Some(tensor.name.clone()));
        let dims = tensors.iter().map(|tensor| tensor.dims.clone());
        let called = Called {
            program: &program,
            buffers: names.chain(op.results.iter().map(|_| None)).collect(),
            shapes: dims.chain(op.results.iter().map(|(dims, _)| dims.clone())).collect(),
            scalars,
            asked,
        };
        Ok(Self { written: run(&called, facts, fresh)?, operands: tensors.len() })
    }

    /// Where it may stop.
    pub(crate) fn into_stops(self) -> Vec<Stops> {
        self.written.stops
    }

    /// The element of a result at an index.
    pub(crate) fn element(
        &self,
        part: usize,
        at: &[Dim],
        facts: &mut dyn Facts,
        fresh: &mut usize,
    ) -> Known<Term> {
        element(&self.written, self.operands + part, at, facts, fresh)
    }
}

impl Op {
    /// The program that is asked for, and the values of its scalars.
    fn request(&self, facts: &mut dyn Facts) -> (Request, Vec<Dim>) {
        let spec = |dims: &[Dim], dtype: DType| TensorSpec { dims: dims.to_vec(), dtype };
        let outs: Vec<_> = self.results.iter().map(|(dims, dtype)| spec(dims, *dtype)).collect();
        let input = |(param, tensor): &(&'static str, Tensor)| {
            let mut own = spec(&tensor.dims, tensor.dtype);
            match self.row.elementwise().map(|own| own.layout) {
                Some(Layout::Broadcast) => align(&mut own.dims, &outs[0].dims, facts),
                Some(Layout::Channels) => tell_units(&mut own.dims, facts),
                None => {}
            }
            Input { param, spec: own, range: tensor.range, is_passed: true }
        };
        let mut inputs: Vec<Input> = self.tensors.iter().map(input).collect();
        let mut names = Renaming::of(inputs.iter().map(|input| &input.spec).chain(&outs));
        for input in &mut inputs {
            input.spec = names.tensor(&input.spec);
        }
        let outs = outs.iter().map(|out| names.tensor(out)).collect();
        let attrs = self.attrs.iter().map(|(name, known)| (*name, names.known(known))).collect();
        let (scalars, values) = names.unknown();
        let (row, gives, sums) = (self.row, Gives::Result, Sums::Compensated);
        (Request { row, gives, inputs, outs, attrs, scalars, sums }, values)
    }
}

/// The element of an elementwise call: the formula of its row, without loops, over one element of each operand. None where it
/// is not known which element that is.
pub(crate) fn formula(
    op: &Op,
    at: &[Dim],
    facts: &mut dyn Facts,
    fresh: &mut usize,
) -> Option<Known<Term>> {
    let own = op.row.elementwise()?;
    let (dims, out) = op.results.first()?;
    let dtypes: Vec<DType> = op.tensors.iter().map(|(_, tensor)| tensor.dtype).collect();
    let program = own.program(&dtypes, *out, &op.attrs, &[])?;
    let mut operands = BTreeMap::new();
    for (number, (_, tensor)) in op.tensors.iter().enumerate() {
        if own.layout == Layout::Channels && number > 0 {
            return None;
        }
        let index = stretched(&tensor.dims, dims, at, facts)?;
        let element = Term::Read(tensor.name.clone(), index);
        operands.insert(Name::from(format!("operand {number}")), element);
    }
    let called = Called {
        program: &program,
        buffers: operands.keys().cloned().map(Some).chain([None]).collect(),
        shapes: vec![Vec::new(); dtypes.len() + 1],
        scalars: Vec::new(),
        asked: Asked::Elements,
    };
    let term = run(&called, facts, fresh)
        .and_then(|written| element(&written, dtypes.len(), &[], facts, fresh));
    Some(term.and_then(|term| {
        rebuilt(&term, &mut |term| match term {
            Term::Read(name, _) => Ok(operands.get(name).cloned()),
            _ => Ok(None),
        })
    }))
}

/// The index into an operand that is stretched to a shape.
fn stretched(own: &[Dim], wide: &[Dim], at: &[Dim], facts: &mut dyn Facts) -> Option<Vec<Dim>> {
    let lead = wide.len().checked_sub(own.len())?;
    let each = own.iter().zip(&wide[lead..]).zip(&at[lead..]).map(|((own, wide), at)| {
        if *own == Dim::Int(1) && own != wide {
            Some(Dim::Int(0))
        } else if own == wide || facts.equal(own, wide) == Answer::Proved {
            Some(at.clone())
        } else {
            None
        }
    });
    each.collect()
}

/// Dims of an operand under the names of the result's dims that they equal: the others are stretched.
fn align(dims: &mut [Dim], result: &[Dim], facts: &mut dyn Facts) {
    let skipped = result.len().saturating_sub(dims.len());
    for (dim, wide) in dims.iter_mut().zip(&result[skipped..]) {
        if *dim != Dim::Int(1) && facts.equal(dim, wide) == Answer::Proved {
            *dim = wide.clone();
        }
    }
}

/// Dims that are 1, as such: a tensor of one element needs no axis.
fn tell_units(dims: &mut [Dim], facts: &mut dyn Facts) {
    let unit = Dim::Int(1);
    for dim in dims {
        if dim.as_int().is_none() && facts.equal(dim, &unit) == Answer::Proved {
            *dim = unit.clone();
        }
    }
}

/// Whether a term tells what is computed: not only of which elements some function is one.
pub(crate) fn is_told(term: &Term) -> bool {
    match term {
        Term::Read(..) | Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => true,
        Term::Apply(_, _, args) => args.iter().all(is_told),
        Term::If(test, then, otherwise) => {
            let test = match test {
                Test::Element(term) => is_told(term),
                Test::Dims(_) => true,
            };
            test && is_told(then) && is_told(otherwise)
        }
        Term::Fold(_, op, _, body) => !matches!(op, FoldOp::Row(..)) && is_told(body),
        Term::Lookup(index, _, body) => is_told(index) && is_told(body),
    }
}
