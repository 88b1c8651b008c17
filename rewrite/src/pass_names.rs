//! Names of passes: those of this compiler, and those of TVM's phase note as aliases. A name of the note may stand for one
//! pass, for several in a row, or for one that this compiler does not have.

use crate::pass::Pass;
use crate::pipeline::Pipeline;
use std::fmt;

/// A pass or megapass of the phase note.
#[derive(Debug)]
pub struct NotePass {
    /// Where the note puts it: `P1`, or `-` where it leaves that open.
    pub phase: &'static str,
    /// In CamelCase, as the note has it.
    pub name: &'static str,
    /// What does the same here.
    pub ours: Ours,
}

/// What stands for a pass of the note.
#[derive(Debug)]
pub enum Ours {
    /// One pass, by its name.
    Pass(&'static str),
    /// A megapass: passes in this order.
    Sequence(&'static [&'static str]),
    /// Nothing yet: the name is reserved.
    Missing(&'static str),
}

const fn one(phase: &'static str, name: &'static str, ours: &'static str) -> NotePass {
    NotePass { phase, name, ours: Ours::Pass(ours) }
}

const fn missing(phase: &'static str, name: &'static str, why: &'static str) -> NotePass {
    NotePass { phase, name, ours: Ours::Missing(why) }
}

const fn sequence(
    phase: &'static str,
    name: &'static str,
    ours: &'static [&'static str],
) -> NotePass {
    NotePass { phase, name, ours: Ours::Sequence(ours) }
}

const TUNING: &str =
    "schedules are chosen by rules, and `relax tune` measures products of a module file";

/// Patterns have operands as people write them: broadcasts that normalization wrote are left out first. Patterns that match
/// for some dims only get a version for those.
const BYOC: &[&str] = &[
    "eliminate_broadcasts",
    "guard_libraries",
    "fuse_ops_by_pattern",
    "merge_composite_functions",
    "run_codegen",
];

/// Every pass of the note, in its order.
pub static NOTE: &[NotePass] = &[
    one("P0", "Normalize", "normalize"),
    one("P0", "LambdaLifting", "lift_lambdas"),
    one("P0", "RewriteDataflowReshape", "rewrite_dataflow_reshape"),
    one("P1", "FoldConstant", "fold_constant"),
    one("P1", "CanonicalizeBindings", "canonicalize_bindings"),
    one("P1", "EliminateCommonSubexpr", "eliminate_common_subexpr"),
    one("P1", "DeadCodeElimination", "eliminate_dead_code"),
    one("P1", "BindParams", "bind_params"),
    sequence("P1", "Fusion", &["annotate_tir_op_pattern", "fuse_ops", "fuse_tir"]),
    one("P1", "AnnotateTIROpPattern", "annotate_tir_op_pattern"),
    one("P1", "FuseOps", "fuse_ops"),
    one("P1", "FuseTIR", "fuse_tir"),
    sequence("P1", "BYOC", BYOC),
    one("P1", "FuseOpsByPattern", "fuse_ops_by_pattern"),
    one("P1", "MergeCompositeFunctions", "merge_composite_functions"),
    one("P1", "RunCodegen", "run_codegen"),
    one("P1", "LiftTransformParams", "lift_transform_params"),
    one("P1", "ConvertLayout", "convert_layout"),
    one("P1", "ToMixedPrecision", "to_mixed_precision"),
    one("P1", "SplitCallTIRByPattern", "split_call_tir_by_pattern"),
    one("P1", "CombineParallelMatmul", "combine_parallel_matmul"),
    one("P2.1", "LegalizeOps", "legalize_ops"),
    one("P2.1", "ToNonDataflow", "to_non_dataflow"),
    one("P2.1", "CallTIRRewrite", "lower_call_tir"),
    one("P2.1", "StaticPlanBlockMemory", "plan_memory"),
    missing("P2.2", "MetaSchedule", TUNING),
    missing("P2.2", "MetaScheduleApplyDatabase", TUNING),
    missing("P2.2", "MetaScheduleTuneTIR", TUNING),
    missing("P2.2", "MetaScheduleTuneIRMod", TUNING),
    one("P2.2", "RewriteCUDAGraph", "rewrite_cuda_graph"),
    one("P2.3", "VMBuiltinLower", "lower_builtins"),
    one("P2.3", "VMShapeLower", "lower_shapes"),
    one("P2.3", "AttachGlobalSymbol", "attach_global_symbol"),
    one("-", "Gradient", "gradient"),
    one("-", "DecomposeOpsForInference", "decompose_ops_for_inference"),
    one("-", "DecomposeOpsForTraining", "decompose_ops_for_training"),
    one("-", "AlterOpImpl", "alter_op_impl"),
];

impl NotePass {
    /// Its name in snake_case: `CallTIRRewrite` is `call_tir_rewrite`.
    #[must_use]
    pub fn snake(&self) -> String {
        let chars: Vec<char> = self.name.chars().collect();
        let mut text = String::new();
        for (at, &c) in chars.iter().enumerate() {
            let ends_word = at > 0 && chars[at - 1].is_lowercase();
            let begins_word = at > 0 && chars.get(at + 1).is_some_and(|next| next.is_lowercase());
            if c.is_uppercase() && (ends_word || begins_word) {
                text.push('_');
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }
}

/// Why a name gives no pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPass {
    /// Nothing has this name.
    Unknown(String),
    /// The note has it and this compiler has not, for this reason.
    Reserved(&'static str, &'static str),
}

impl fmt::Display for NoPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPass::Unknown(name) => write!(f, "there is no pass `{name}`"),
            NoPass::Reserved(name, why) => {
                write!(f, "the pass `{name}` is not there yet; its name is reserved: {why}")
            }
        }
    }
}

impl Pipeline {
    /// The passes that a name stands for: that of a pass, or one of the note in CamelCase or snake_case.
    ///
    /// # Errors
    /// Nothing has the name, or it is reserved.
    pub fn lookup(&self, name: &str) -> Result<Vec<&'static Pass>, NoPass> {
        let unknown = || NoPass::Unknown(name.to_owned());
        let find = |own: &str| self.all_passes().into_iter().find(|pass| pass.name == own);
        if let Some(pass) = find(name) {
            return Ok(vec![pass]);
        }
        let noted = NOTE.iter().find(|noted| noted.name == name || noted.snake() == name);
        match &noted.ok_or_else(unknown)?.ours {
            Ours::Pass(own) => Ok(vec![find(own).ok_or_else(unknown)?]),
            Ours::Sequence(own) => own.iter().map(|own| find(own).ok_or_else(unknown)).collect(),
            Ours::Missing(why) => Err(NoPass::Reserved(noted.map_or("", |noted| noted.name), why)),
        }
    }

    /// Every name that [`Pipeline::lookup`] gives passes for.
    #[must_use]
    pub fn known_names(&self) -> Vec<String> {
        let own = self.all_passes().into_iter().map(|pass| pass.name.to_owned());
        let noted = NOTE.iter().filter(|noted| !matches!(noted.ours, Ours::Missing(_)));
        let mut names: Vec<String> = own
            .chain(noted.flat_map(|noted| [noted.name.to_owned(), noted.snake()]))
            .filter(|name| self.lookup(name).is_ok())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}
