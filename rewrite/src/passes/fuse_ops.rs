//! Calls of tensor programs that may run as one become one call of a private function (paper,
//! Algorithm 2 and Figures 8 and 9). Within it they are still calls; merging the programs is another
//! pass.
//!
//! Groups are made in each dataflow block ([`groups`]) from what tensor programs record of themselves
//! and from how they read each operand ([`graph`]). A group gives one value, that of its last call, and
//! is called where that stood: what is used elsewhere is not fused away, and no trap changes places
//! with another. Other passes make groups with several results. The function keeps symbolic shapes ([`crate::outline`]).

mod graph;
mod groups;
mod order;
mod spoken;
mod stops;

use crate::blocks::for_each_dataflow;
use crate::outline::{Label, Outline, outlined};
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use crate::trap_free::TrapAnalysis;
pub(super) use graph::Graph;
use groups::groups;
pub(super) use groups::{Group, joined, may_be_one};
use order::{Unit, order};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{
    AttrValue, Binding, Block, BlockKind, Definition, Function, Module, TensorProgram, VarId,
    VarInfo, attr,
};
use relax_tir::kernel_kind::Analysis;
use spoken::spoken;
use std::collections::{BTreeMap, BTreeSet};
use stops::Stops;

/// The record.
pub static PASS: Pass = Pass {
    name: "fuse_ops",
    doc: "Groups calls of tensor programs, by the patterns that annotate_tir_op_pattern records, into \
          private functions marked primitive.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Marks the function of a group.
pub const PRIMITIVE: &str = "primitive";

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    Ok(grouped(module, context, "fused", &|_, graph, never_stop| groups(graph, never_stop)))
}

/// Which calls of a block become one. What is said of each binding is whether it cannot stop the program.
pub(super) type Grouping<'g> = dyn Fn(&Block, &Graph, &[bool]) -> Vec<Group> + 'g;

/// The module with groups of calls in primitive functions, which are called by what they compute.
pub(super) fn grouped(
    module: &Module,
    context: &mut PassContext,
    word: &'static str,
    grouping: &Grouping,
) -> Module {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some((&program.name, Known::of(program))),
        Definition::Graph(_) => None,
    });
    let programs = programs.collect();
    let mut traps = TrapAnalysis::new(module, context.checked);
    let stops = Stops::new(context.checked, &traps, &programs, context.facts);
    let mut calls = 0;
    let (result, made) = outlined(module, context.checked, &mut |function, rebuilt, outline| {
        let Some(body) = &mut rebuilt.lambda.body else { return };
        let attrs = &function.lambda.attrs;
        if !matches!(attr(attrs, PRIMITIVE), Some(AttrValue::Bool(true))) {
            let (programs, traps, stops) = (&programs, &mut traps, &stops);
            let vars = &mut rebuilt.vars;
            let label = &|members: &[Binding]| label(members, word, programs);
            let mut fusion = Fusion {
                function,
                programs,
                traps,
                stops,
                grouping,
                label,
                outline,
                vars,
                calls: 0,
            };
            // A group takes calls that could stop the program from between others, which may join then.
            for_each_dataflow(body, &mut |block| while fusion.block(block) {});
            calls += fusion.calls;
        }
    });
    context.count(word, calls, "calls");
    context.count("made", made, "primitive functions");
    result
}

/// What is known of a tensor program.
struct Known<'m> {
    program: &'m TensorProgram,
    analysis: Analysis,
}

impl<'m> Known<'m> {
    fn of(program: &'m TensorProgram) -> Self {
        Self { program, analysis: Analysis::of(program) }
    }
}

type Programs<'m> = BTreeMap<&'m Name, Known<'m>>;

struct Fusion<'f, 'a, 'o> {
    function: &'f Function,
    programs: &'f Programs<'f>,
    traps: &'f mut TrapAnalysis<'a>,
    stops: &'f Stops<'f>,
    grouping: &'f Grouping<'f>,
    label: &'f dyn Fn(&[Binding]) -> Label,
    outline: &'f mut Outline<'o>,
    /// The variables of the function that is being made.
    vars: &'f mut Vec<VarInfo>,
    /// Those that went into groups.
    calls: usize,
}

impl Fusion<'_, '_, '_> {
    /// Makes groups as the block stands; says whether there were any.
    fn block(&mut self, block: &mut Block) -> bool {
        let BlockKind::Dataflow { outputs } = &block.kind else { return false };
        let graph = Graph::of(block, outputs, self.programs);
        let stays = self.never_stop(block);
        let mut groups = (self.grouping)(block, &graph, &stays);
        groups.retain(|group| graph.keeps_overlap(group));
        if groups.is_empty() {
            return false;
        }
        let order = order(&graph, &groups, &stays);
        let (mut have_one_result, mut bindings) = (true, Vec::with_capacity(order.len()));
        for unit in order {
            let at = match unit {
                Unit::Binding(at) => {
                    bindings.push(block.bindings[at].clone());
                    continue;
                }
                Unit::Group(at) => at,
            };
            let group = &groups[at];
            let members: Vec<_> = group.iter().map(|&at| block.bindings[at].clone()).collect();
            self.calls += members.len();
            let label = (self.label)(&members);
            let seen = group.iter().filter(|&&at| !graph.is_used_within(at, group));
            let results: Vec<VarId> = seen.map(|&at| block.bindings[at].var).collect();
            if results.len() < 2 {
                bindings.push(self.outline.group(label, members));
            } else {
                have_one_result = false;
                let tuple = self.tuple(results[0]);
                bindings.extend(self.outline.group_of_several(label, members, &results, tuple));
            }
        }
        block.bindings = bindings;
        have_one_result
    }

    /// A new variable for the results of a group, named after the first.
    fn tuple(&mut self, first: VarId) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let VarInfo { name, span, .. } = self.vars[first.0 as usize].clone();
        let name = self.outline.fresh(&Name::new(format!("{name}_and_more")));
        self.vars.push(VarInfo { name, annotation: None, span });
        var
    }

    /// For each binding, whether it never stops the program.
    fn never_stop(&mut self, block: &Block) -> Vec<bool> {
        let mut whole = BTreeSet::new();
        let bindings = block.bindings.iter();
        bindings
            .map(|binding| {
                self.stops.never(self.function, binding, &mut whole)
                    || self.traps.is_removable(self.function, binding)
            })
            .collect()
    }
}

fn label(members: &[Binding], word: &str, programs: &Programs) -> Label {
    let calls = members.iter().filter_map(|member| TirCall::of(&member.expr));
    let calls: Vec<&str> = calls.map(|call| call.program.as_str()).collect();
    let marks = vec![(Name::new(PRIMITIVE), AttrValue::Bool(true))];
    Label { name: spoken(word, &calls, programs), marks, first: Vec::new() }
}
