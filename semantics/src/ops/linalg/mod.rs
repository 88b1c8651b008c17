//! Products of tensors beyond the matrix product.

mod einsum;
pub mod subscripts;

use super::dims::tensor;
use super::{Effect, Traps, constraint, required};
use super::{Eval, Evaluate, Family, Infer, Kind, Operator, Reject};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dtype::DType;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "einsum",
        aliases: &[],
        family: Family::LinearAlgebra,
        doc: "Einstein's summation: for `ab,bc->ac` the sum over b of the products of elements (a, b) \
              and (b, c). A label that occurs twice in a term takes its diagonal; without `->` the \
              result has the labels that occur once, sorted; `...` stands for further dims, which \
              broadcast. The dims of a label must be equal, also where one is 1, which NumPy \
              stretches. Floats are multiplied and summed in f64 and rounded once, integers wrap.",
        params: &[required("operands", Kind::Tensors), required("subscripts", Kind::Str)],
        constraints: &[
            constraint(
                "C1",
                "there is at least one operand, and all have the same dtype, not bool",
            ),
            constraint(
                "C2",
                "subscripts are terms of letters and at most one `...` each, and labels of the \
                 result occur in a term, once in the result",
            ),
            constraint("C3", "each operand has a term, with as many labels as it has dims"),
            constraint("C4", "all dims of a label are equal"),
            constraint("C5", "the dims of `...` broadcast"),
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: einsum::infer,
        program: Programs::Of(programs::product::einsum),
        eval: Evaluate::Values(einsum::eval),
    },
    Operator {
        name: "outer",
        aliases: &[],
        family: Family::LinearAlgebra,
        doc: "The products of every element of the vector x1 with every element of the vector x2. \
              NumPy flattens its operands; TVM, as here, takes vectors only.",
        params: &[required("x1", Kind::Tensor), required("x2", Kind::Tensor)],
        constraints: &[
            constraint("C1", "x1 and x2 have the same dtype, and it is not bool"),
            constraint("C2", "x1 and x2 are vectors"),
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: infer_outer,
        program: Programs::Of(programs::product::outer),
        eval: Evaluate::Values(eval_outer),
    },
];

fn infer_outer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["x1", "x2"])?;
    let mut dims = Vec::new();
    for param in ["x1", "x2"] {
        infer.require_dtype("C1", param, |dtype| dtype != DType::Bool)?;
        let extents = infer.tensor(param)?.extents;
        if let Some(rank) = extents.rank().filter(|&rank| rank != 1) {
            let message = format!("`{param}` must be a vector, found rank {rank}");
            return Err(infer.reject("C2", message));
        }
        dims.push(extents.dims().and_then(<[_]>::first).cloned());
    }
    let known: Option<Vec<_>> = dims.into_iter().collect();
    Ok(tensor(known.map_or(Extents::Rank(2), Extents::Known), dtype))
}

fn eval_outer(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let (a, b) = (eval.tensor("x1")?, eval.tensor("x2")?);
    Ok(Value::Tensor(match (a.elements(), b.elements()) {
        (Elements::Int(a), Elements::Int(b)) => {
            let products = a.iter().flat_map(|x| b.iter().map(move |y| x.wrapping_mul(*y)));
            Tensor::from_ints(dtype, array(&shape, products.collect()))
        }
        _ => {
            let (a, b) = (a.to_floats(), b.to_floats());
            let products = a.iter().flat_map(|x| b.iter().map(move |y| x * y));
            Tensor::from_floats(dtype, array(&shape, products.collect()))
        }
    }))
}
