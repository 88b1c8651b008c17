//! Placements of tensors on a device mesh.

use crate::ops::{Eval, Infer, Reject};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Distributed, Placement, TensorType};

pub(super) fn infer_annotate(infer: &mut Infer) -> Result<Annotation, Reject> {
    let tensor = infer.tensor("input")?;
    layout(infer, &tensor)?;
    Ok(match &infer.operand("input").annotation {
        distributed @ Annotation::DTensor(_) => distributed.clone(),
        _ => Annotation::Tensor(tensor),
    })
}

pub(super) fn infer_redistribute(infer: &mut Infer) -> Result<Annotation, Reject> {
    let tensor = infer.tensor("input")?;
    let (mesh, placements) = layout(infer, &tensor)?;
    Ok(Annotation::DTensor(Box::new(Distributed { tensor, mesh, placements })))
}

/// The mesh and the placements, which fit the tensor's rank.
fn layout(infer: &Infer, tensor: &TensorType) -> Result<(Name, Vec<Placement>), Reject> {
    let (mesh, text) = (infer.str("device_mesh")?, infer.str("placement")?);
    if mesh.is_empty() {
        return Err(infer.reject("C2", "the name of the device mesh is empty"));
    }
    let mut placements = Vec::new();
    for part in text.split(',').map(str::trim) {
        let placement = Placement::parse(part).ok_or_else(|| {
            let message = format!("`{part}` in the placement {text:?} is none of `R`, `S[d]`, `O[k]`, `P(sum)`, `P(max)`, `P(min)`");
            infer.reject("C1", message)
        })?;
        if let (Placement::Sharded(axis), Some(rank)) = (placement, tensor.extents.rank())
            && axis >= rank
        {
            let message = format!("`{part}` names a dim that a tensor of rank {rank} has not");
            return Err(infer.reject("C1", message));
        }
        placements.push(placement);
    }
    Ok((mesh, placements))
}

pub(super) fn eval_same(eval: &Eval) -> Result<Value, Stop> {
    Ok(eval.value("input").clone())
}
