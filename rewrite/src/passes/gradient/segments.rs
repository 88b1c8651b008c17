//! Gradient checkpointing (Chen et al. 2016): the function that is differentiated becomes a sequence of segments, private functions.
//!
//! The pullback of a function repeats it, so what a segment computes within is not kept from the forward to the backward computation:
//! only what it gives is. The last segment stays where it is, since its adjoint follows at once. Segments hold about as many bytes
//! each, for dims that are given; they change nothing but memory and time, whatever the dims are when the program runs.

use crate::in_place::updated_in_place;
use crate::outline::{Label, Outline, outlined};
use relax_semantics::check::{Checked, Phase, check};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::diagnostic::Severity;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Binding, Block, BlockKind, Expr, Function, Module, VarId, VarInfo};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// Into how many segments a function is cut, of about as many bytes each for these dims.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// Fewer than 2: nothing is outlined.
    pub count: usize,
    /// Values of symbolic variables.
    pub dims: BTreeMap<Name, i64>,
}

/// The module with segments of a function outlined, and what the check knows of it. `None` where it stays as it is.
pub(super) fn cut(
    (module, checked): (&Module, &Checked),
    facts: &mut dyn Facts,
    name: &Name,
    segments: &Segments,
) -> Option<(Module, Checked)> {
    if segments.count < 2 {
        return None;
    }
    let annotations = &checked.annotations[name];
    let (made, count) = outlined(module, checked, &mut |function, rebuilt, outline| {
        if function.name == *name && updated_in_place(module, function).is_empty() {
            Cut { function, annotations, segments, outline }.all(rebuilt);
        }
    });
    // What is deduced in a segment is deduced without the facts of the function around.
    let checked = check(&made, facts, Phase::P0);
    let is_wrong = checked.diagnostics.iter().any(|found| found.severity == Severity::Error);
    (count > 0 && !is_wrong).then_some((made, checked))
}

struct Cut<'c, 'o, 'f> {
    function: &'c Function,
    annotations: &'c [Annotation],
    segments: &'c Segments,
    outline: &'o mut Outline<'f>,
}

impl Cut<'_, '_, '_> {
    fn all(&mut self, rebuilt: &mut Function) {
        let (vars, body) = (&mut rebuilt.vars, rebuilt.lambda.body.as_mut());
        let Some(body) = body else { return };
        let total: i128 = body.bindings().map(|binding| self.bytes(binding)).sum();
        let mut before = 0;
        for block in &mut body.blocks {
            if let BlockKind::Dataflow { .. } = block.kind {
                self.block(block, (&mut before, total), vars);
            } else {
                before += block.bindings.iter().map(|binding| self.bytes(binding)).sum::<i128>();
            }
        }
    }

    /// Outlines the segments of a block. A binding belongs to the segment in which its last byte is.
    fn block(
        &mut self,
        block: &mut Block,
        (before, total): (&mut i128, i128),
        vars: &mut Vec<VarInfo>,
    ) {
        let BlockKind::Dataflow { outputs } = &block.kind else { return };
        let count = i128::try_from(self.segments.count).unwrap_or(i128::MAX);
        let mut runs: Vec<(i128, Vec<Binding>)> = Vec::new();
        for binding in std::mem::take(&mut block.bindings) {
            *before += self.bytes(&binding);
            let segment = ((*before - 1).max(0) * count / total.max(1)).min(count - 1);
            match runs.last_mut() {
                Some((last, members)) if *last == segment => members.push(binding),
                _ => runs.push((segment, vec![binding])),
            }
        }
        let mut used: BTreeSet<VarId> = outputs.iter().copied().collect();
        let mut rebuilt = Vec::new();
        for (segment, members) in runs.into_iter().rev() {
            let seen: Vec<VarId> =
                members.iter().map(|member| member.var).filter(|var| used.contains(var)).collect();
            members.iter().for_each(|member| expr_uses(&member.expr, &mut used));
            // A cast may bind a dim that the function around goes on to use.
            let casts = members.iter().any(|own| matches!(own.expr, Expr::MatchCast(..)));
            let stays = segment == count - 1 || casts || members.len() < 2 || seen.is_empty();
            rebuilt.push(if stays { members } else { self.outlined(members, &seen, vars) });
        }
        block.bindings = rebuilt.into_iter().rev().flatten().collect();
    }

    fn outlined(
        &mut self,
        members: Vec<Binding>,
        seen: &[VarId],
        vars: &mut Vec<VarInfo>,
    ) -> Vec<Binding> {
        let name = format!("{}_segment", self.function.name);
        let label = Label { name, marks: Vec::new(), first: Vec::new() };
        let var = VarId(u32::try_from(vars.len()).expect("ids are u32"));
        let VarInfo { name, span, .. } = vars[seen[0].0 as usize].clone();
        let name = self.outline.fresh(&Name::new(format!("{name}_and_more")));
        vars.push(VarInfo { name, annotation: None, span });
        self.outline.group_of_several(label, members, seen, var)
    }

    /// Bytes of what a binding gives; those that are not known for the given dims do not count.
    fn bytes(&self, binding: &Binding) -> i128 {
        bytes(&self.annotations[binding.var.0 as usize], &self.segments.dims)
    }
}

fn bytes(annotation: &Annotation, dims: &BTreeMap<Name, i64>) -> i128 {
    match annotation {
        Annotation::Tensor(TensorType { extents, dtype: Some(dtype) }) => {
            let value = |name: &Name| dims.get(name).copied();
            let extents = extents.dims().unwrap_or(&[]);
            let size = i128::try_from(dtype.size()).unwrap_or(1);
            let product = extents.iter().try_fold(size, |product, dim| {
                product.checked_mul(i128::from(dim.eval(&value).ok()?.max(0)))
            });
            product.unwrap_or(0)
        }
        Annotation::Tuple(items) => items.iter().map(|item| bytes(item, dims)).sum(),
        _ => 0,
    }
}
