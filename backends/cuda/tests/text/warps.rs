//! Rows of a warp each: the printed text on the processor, where a warp that meets on its own goes on before others run, against the
//! scheduled program in the interpreter, at sizes on both sides of warps, of blocks, and of what is long enough for a block.

use super::cases::case;
use super::cores::{Wanted, first_difference, wanted};
use super::shim::compiler;
use super::{printed, programs_of, scheduled};
use relax_corpus::requirement;
use relax_lower::gpu::Limits;
use relax_rewrite::pass::Exactness;
use relax_syntax::ir::TensorProgram;

const TEXT: &str = include_str!("warps.rx");
/// Four warps, and a grid of two dims. Rows of 512 elements are long enough for a block.
const LIMITS: Limits = Limits { threads: 128, blocks: 3, shared: 48 << 10, busy: 3 };
/// Of `n` and `m`.
const SIZES: [[i64; 2]; 11] = [
    [0, 5],
    [5, 0],
    [1, 1],
    [4, 31],
    [3, 32],
    [5, 33],
    [13, 97],
    [17, 64],
    [2, 511],
    [2, 512],
    [3, 521],
];

fn programs(limits: Limits) -> Vec<TensorProgram> {
    scheduled(&programs_of("warps", TEXT), limits, Exactness::Approximate)
}

#[test]
fn warps_that_meet_on_their_own_do_what_all_threads_do() {
    if compiler().is_none() {
        requirement::skip(
            "RELAX_REQUIRE_CC",
            "no C++ compiler to run CUDA source on the processor",
        );
        return;
    }
    let programs = programs(LIMITS);
    let source = printed(&programs);
    let cases = |program: &TensorProgram| {
        let sizes = SIZES.iter().zip(1..);
        let drawn = sizes.filter_map(|([n, m], seed)| {
            case(program, &|name| if name == "n" { *n } else { *m }, seed)
        });
        drawn.map(|case| (case.clone(), wanted(program, &case))).collect()
    };
    let wanted: Wanted = programs.iter().map(cases).collect();
    assert_eq!(first_difference(&source.text, &source, &wanted), None);
    // Where threads do not wait at all, or those of other warps are not waited for.
    for to in ["", "__syncwarp();"] {
        let from = if to.is_empty() { "__syncwarp();" } else { "__syncthreads();" };
        let wrong = source.text.replace(from, to);
        assert_ne!(wrong, source.text);
        assert!(first_difference(&wrong, &source, &wanted).is_some(), "`{to}` passes");
    }
}

#[test]
fn warps_meet_on_their_own_where_they_touch_what_is_theirs() {
    let source = printed(&programs(Limits::default()));
    let count = |name: &str| {
        let symbol = &source.kernels.iter().find(|kernel| &*kernel.name == name);
        let symbols = &symbol.expect("a kernel of this name").launches;
        let of = |what: &str| {
            let functions = symbols.iter().map(|launch| {
                let text = source.text.split(&format!("{}(", launch.symbol)).nth(1);
                let text = text.and_then(|text| text.split("extern \"C\"").next());
                text.expect("its function").matches(what).count()
            });
            functions.collect::<Vec<usize>>()
        };
        (of("__syncthreads();"), of("__syncwarp();"))
    };
    // The memory of a block is used again in its next turn: there all meet, and in blocks of one row everywhere.
    assert_eq!(count("softmax"), (vec![8, 1], vec![0, 13]));
    assert_eq!(count("sums"), (vec![3, 1, 3, 1], vec![0, 5, 0, 5]));
    // What is stored in memory that others see, and what is read of it, is parted by barriers of all threads.
    assert_eq!(count("twice"), (vec![8, 3], vec![0, 11]));
    assert_eq!(count("own"), (vec![1], vec![1]));
    assert_eq!(count("crossed"), (vec![2], vec![0]));
    assert_eq!(count("wide"), (vec![2], vec![0]));
}
