//! Each tensor program records what kind of computation it is (paper, Algorithm 1), told from its
//! loops and accesses, never from its name.
//!
//! What a program already records stays where it promises less than what was found: whoever wrote
//! `Opaque` wants no fusion. Where it promises more, or is no kind at all, it is replaced.

use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Definition, Module, TensorProgram};
use relax_tir::kernel_kind::{ATTRIBUTE, Analysis, KernelKind};

/// The record.
pub static PASS: Pass = Pass {
    name: "annotate_tir_op_pattern",
    doc: "Records of each tensor program, from its loops and accesses, whether it is ElementWise, \
          Broadcast, Injective, Reduction, OutputEwiseFusible or Opaque.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let (mut told, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        if program.body.is_none() {
            continue;
        }
        let analysis = Analysis::of(program).kind;
        found += 1;
        told += usize::from(analysis != KernelKind::Opaque);
        record(program, analysis.max(KernelKind::recorded(program).unwrap_or(analysis)));
    }
    context.count_of("classified", told, found, "tensor programs");
    Ok(result)
}

fn record(program: &mut TensorProgram, pattern: KernelKind) {
    let value = AttrValue::Str(Name::new(pattern.name()));
    match program.attrs.iter_mut().find(|(key, _)| key == ATTRIBUTE) {
        Some((_, recorded)) => *recorded = value,
        None => program.attrs.push((Name::new(ATTRIBUTE), value)),
    }
}
