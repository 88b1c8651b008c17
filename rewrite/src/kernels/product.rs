//! The matrix product, with batch dims that broadcast. Floats are summed in f64 and rounded once;
//! products of f64 itself stay operators.

use super::builder::{Builder, binary, broadcast_index, cast, load};
use super::reduction::accumulator;
use super::{Request, TensorSpec};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, TExpr};

/// `matmul(a, b)` of matrices.
pub(super) fn matmul(request: &Request) -> Option<TensorProgram> {
    let [a, b] = request.tensors::<2>()?;
    let out = &request.out;
    let dtype = out.dtype;
    let is_known = a.rank() >= 2
        && b.rank() >= 2
        && a.dtype == dtype
        && b.dtype == dtype
        && !matches!(dtype, DType::Bool | DType::F64)
        && a.dims.last() == b.dims.get(b.rank() - 2);
    if !is_known {
        return None;
    }
    let zeros = vec![TExpr::Int(0); out.rank()];
    operand_index(a, out, &zeros)?;
    operand_index(b, out, &zeros)?;
    let mut builder = Builder::new(request);
    let (left, right) = (builder.inputs[0], builder.inputs[1]);
    let (total, wide) = accumulator(&mut builder, &out.dims, dtype);
    let nest: Vec<Dim> = out.dims.iter().chain(a.dims.last()).cloned().collect();
    builder.for_each(&nest, total, Some(BinOp::Add), |indices| {
        let (outer, k) = indices.split_at(out.rank());
        let fits = "invariant: the batch dims broadcast";
        let mut at_a = operand_index(a, out, outer).expect(fits);
        at_a.extend([outer[out.rank() - 2].clone(), k[0].clone()]);
        let mut at_b = operand_index(b, out, outer).expect(fits);
        at_b.extend([k[0].clone(), outer[out.rank() - 1].clone()]);
        let (x, y) = (load(left, at_a), load(right, at_b));
        let product = binary(BinOp::Mul, cast(dtype, wide, x), cast(dtype, wide, y));
        (outer.to_vec(), product)
    });
    if total != builder.output {
        builder.for_each(&out.dims, builder.output, None, |indices| {
            (indices.to_vec(), cast(wide, dtype, load(total, indices.to_vec())))
        });
    }
    Some(builder.finish())
}

/// The index into the batch dims of an operand, for one into the result.
fn operand_index(operand: &TensorSpec, out: &TensorSpec, indices: &[TExpr]) -> Option<Vec<TExpr>> {
    let batch = out.rank().checked_sub(2)?;
    broadcast_index(&operand.dims[..operand.rank() - 2], &out.dims[..batch], &indices[..batch])
}
