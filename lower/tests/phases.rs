//! Phases have an order: a pass refuses a module of a later phase than it takes. The names of TVM's phase note stand for passes
//! of this compiler, and docs/design/passes.md lists all of them.

use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pass_names::{NOTE, NoPass, NotePass, Ours};
use relax_rewrite::pipeline::{Failed, Route, Unwatched, leads_back, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const PROGRAM: &str = r#"
def main(x: Tensor(("n",), "f32")):
    return exp(x)
"#;

fn apply(module: &Module, route: &Route) -> Result<Module, Failed> {
    run(module, route, &Settings::default(), &mut Prover::new(), &mut Unwatched)
}

fn in_phase(phase: Phase) -> Module {
    let module = Program::load(Source::new("program", PROGRAM)).module;
    apply(&module, &PIPELINE.to(phase)).expect("the pipeline takes it")
}

#[test]
fn passes_refuse_modules_of_later_phases() {
    for phase in [Phase::P1, Phase::P21, Phase::P22, Phase::P23] {
        let module = in_phase(phase);
        for pass in PIPELINE.all_passes() {
            let refused = match apply(&module, &Route::Passes(vec![pass])) {
                Err(Failed::Refused { diagnostics, .. }) => {
                    diagnostics.iter().any(|found| found.code == "RX0318")
                }
                _ => false,
            };
            let (name, phase_name) = (pass.name, phase.name());
            assert_eq!(refused, pass.until < phase, "{name} on a module of {phase_name}");
        }
    }
}

#[test]
fn no_way_leads_back() {
    let module = in_phase(Phase::P21);
    let code = |to| leads_back(&module, to).map(|found| found.code);
    assert_eq!(code(Phase::P0), Some("RX0318"));
    assert_eq!(code(Phase::P1), Some("RX0318"));
    assert_eq!(code(Phase::P21), None);
    assert_eq!(code(Phase::P23), None);
}

#[test]
fn every_pass_of_the_note_is_known_or_reserved() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/design/passes.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for noted in NOTE {
        let ours = match noted.ours {
            Ours::Pass(name) => format!("`{name}`"),
            Ours::Sequence(names) => {
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            }
            Ours::Missing(why) => format!("reserved: {why}"),
        };
        let row = format!("| {} | {} | {ours} |", noted.phase, noted.name);
        assert!(page.contains(&row), "docs/design/passes.md lacks the row\n{row}");
        for name in [noted.name.to_owned(), noted.snake()] {
            match (PIPELINE.lookup(&name), &noted.ours) {
                (Ok(_), Ours::Pass(_) | Ours::Sequence(_))
                | (Err(NoPass::Reserved(..)), Ours::Missing(_)) => {}
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
    }
}

#[test]
fn names_of_the_note_are_aliases() {
    let names = |name: &str| {
        let passes = PIPELINE.lookup(name).expect("it is a name");
        passes.iter().map(|pass| pass.name).collect::<Vec<_>>()
    };
    assert_eq!(names("LambdaLifting"), ["lift_lambdas"]);
    assert_eq!(names("dead_code_elimination"), ["eliminate_dead_code"]);
    assert_eq!(names("FuseTIR"), ["fuse_tir"]);
    assert_eq!(names("AlterOpImpl"), ["alter_op_impl"]);
    assert_eq!(names("DecomposeOpsForTraining"), ["decompose_ops_for_training"]);
    let fusion = ["annotate_tir_op_pattern", "fuse_ops", "fuse_tir"];
    assert_eq!(names("fusion"), fusion);
    assert_eq!(names("Fusion"), fusion);
    let regions = [
        "eliminate_broadcasts",
        "guard_libraries",
        "fuse_ops_by_pattern",
        "merge_composite_functions",
        "run_codegen",
    ];
    assert_eq!(names("byoc"), regions);
}

#[test]
fn reserved_names_say_so() {
    for name in ["MetaSchedule", "meta_schedule", "meta_schedule_tune_tir"] {
        assert!(matches!(PIPELINE.lookup(name), Err(NoPass::Reserved(..))), "{name}");
    }
    let unknown = PIPELINE.lookup("AlterOps").map(|_| ());
    assert_eq!(unknown, Err(NoPass::Unknown("AlterOps".to_owned())));
}

#[test]
fn snake_case_splits_acronyms() {
    let snake = |name| NotePass { phase: "P1", name, ours: Ours::Pass("") }.snake();
    assert_eq!(snake("CallTIRRewrite"), "call_tir_rewrite");
    assert_eq!(snake("VMShapeLower"), "vm_shape_lower");
    assert_eq!(snake("MetaScheduleTuneIRMod"), "meta_schedule_tune_ir_mod");
    assert_eq!(snake("BYOC"), "byoc");
}
