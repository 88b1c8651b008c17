//! The choice of versions that kernels make, held against the model that tells people about it; and what it takes.

use relax_cpu::{Cache, Choices, Compiler, choices, hardware};
use relax_emit::tiles::{Hardware, Plan, Right, Table};

#[test]
fn kernels_choose_as_the_model_says() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let compiler = Compiler::of_system().expect("a C compiler").with_flag("-O1");
    let mut extents = Vec::new();
    for m in [2, 3, 5, 7, 13, 14, 15, 16, 28, 29, 43, 62, 64, 81, 100, 128, 300, 512, 5000] {
        for n in [1, 16, 63, 64, 65, 500, 768, 2304, 1 << 29] {
            extents.extend([Right::Rows, Right::Turned, Right::Panels].map(|right| (m, n, right)));
        }
    }
    let Choices { chosen, seconds } =
        choices(&extents, &compiler, &Cache::at(folder.path())).expect("they are compiled");
    let plan = Plan::of(&Table::built_in(Hardware::assumed(hardware().isa)));
    for (&(m, n, right), chosen) in extents.iter().zip(chosen) {
        let wanted = plan.choose(m, n, right);
        assert_eq!(chosen, (wanted.tiles, wanted.columns, wanted.packs), "{m} x {n}, {right:?}");
    }
    println!("{:.0} ns to choose, {:.0} ns to remember", seconds[0] * 1e9, seconds[1] * 1e9);
}
