//! Every size on every mesh: the ranks give what one device gives; bytes are those of the textbook.

use crate::programs::{case, cases};
use crate::{load, near, same, sharded, tensor};
use relax_semantics::value::Value;
use relax_sharding::annotated::annotated;
use relax_sharding::movement::Collective;
use relax_sharding::propagate::propagate;
use relax_symbolic::Prover;
use relax_syntax::annotation::Reduction;
use std::collections::BTreeMap;

#[test]
fn ranks_agree_with_one_device_for_every_size() {
    for case in cases() {
        let sharded = sharded(&case.text);
        for n in 0..=33 {
            let shapes = (case.shapes)(n);
            let arguments: Vec<Value> =
                shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
            let expected = sharded.on_one(&arguments);
            let found = sharded.on_ranks(&sharded.local, &arguments);
            let found = found.unwrap_or_else(|(rank, stop)| {
                panic!("{} at {n}: rank {rank}: {stop}\n{}", case.name, sharded.text)
            });
            let agrees =
                if case.is_exact { same(&found, &expected) } else { near(&found, &expected) };
            assert!(
                agrees,
                "{} at {n}: {found:?} is not {expected:?}\n{}",
                case.name, sharded.text
            );
        }
    }
}

/// Column then row parallel: one all-reduce, of 2 (p - 1) n d elements.
#[test]
fn the_megatron_block_moves_the_bytes_of_the_textbook() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        let sharded = sharded(&case("megatron, rows", mesh).text);
        let moves: Vec<_> = sharded.plan.moves().flat_map(|(_, movements)| movements).collect();
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].collective, Collective::AllReduce(Reduction::Sum));
        for n in [0, 1, 7, 100] {
            let bytes =
                sharded.plan.bytes(&mut Prover::new()).eval(&|name| (name == "n").then_some(n));
            assert_eq!(bytes.ok(), Some(2 * (p - 1) * n * 4 * 4));
        }
    }
}

/// Heads stay where the columns of their projections are: one all-reduce, of 2 (p - 1) n d elements.
#[test]
fn heads_of_matrices_move_the_bytes_of_the_textbook() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        let sharded = sharded(&case("heads of matrices", mesh).text);
        let moves: Vec<_> = sharded.plan.moves().flat_map(|(_, movements)| movements).collect();
        let collectives: Vec<_> = moves.iter().map(|one| one.collective).collect();
        assert_eq!(collectives, [Collective::AllReduce(Reduction::Sum)], "{}", sharded.text);
        let bytes =
            sharded.plan.bytes(&mut Prover::new()).eval(&|name| (name == "n").then_some(100));
        assert_eq!(bytes.ok(), Some(2 * (p - 1) * 100 * 8 * 4));
        // Of five heads three ranks have 2, 2 and 1, and of their ten columns 4, 4 and 2. The shards of columns of two and of four
        // ranks begin within a head.
        let five = crate::sharded(&case("heads that no mesh divides", mesh).text);
        assert_eq!(five.plan.moves().count() == 1, p == 3, "{}", five.text);
    }
}

/// A layer of a decoder sums twice, each time as many bytes as an all-reduce moves, and its cache stays where its heads are.
#[test]
fn a_decoder_with_its_cache_cut_by_heads_moves_the_bytes_of_the_textbook() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        let module = load(&case("decoder", mesh).text);
        let function = module.function("main").expect("a main");
        // For many rows it is cheaper to gather the weights.
        let sizes = BTreeMap::from([("n".into(), 7), ("m".into(), 1000)]);
        let plan = propagate(&module, function, &sizes, &mut Prover::new()).expect("layouts");
        let bytes = plan.bytes(&mut Prover::new()).eval(&|name| (name == "n").then_some(7));
        assert_eq!(bytes.ok(), Some(2 * 2 * (p - 1) * 7 * 8 * 4));
    }
}

/// What is printed with its layouts is sharded in the same way.
#[test]
fn annotated_programs_are_sharded_alike() {
    for case in cases() {
        let first = sharded(&case.text);
        let function = first.global.function("main").expect("a main");
        let text = relax_program::frontend::print(&annotated(&first.global, function, &first.plan));
        let again = sharded(&text);
        let of = |sharded: &crate::Sharded| -> Vec<_> {
            sharded
                .plan
                .moves()
                .flat_map(|(_, movements)| movements.to_vec())
                .map(|one| one.collective)
                .collect()
        };
        assert_eq!(of(&first), of(&again), "{}\n{text}", case.name);
    }
}

/// Of 16 columns three ranks have 6, 6 and 4; of 4 columns the last rank has none, and of `m` columns it may have none.
#[test]
fn maxima_are_partial_where_no_shard_is_empty() {
    for (columns, is_partial) in [("16", true), ("4", false), ("\"m\"", false)] {
        let text = format!(
            "module_attr(\"mesh[0]\", \"3\")\n\ndef main(x: DTensor((\"n\", {columns}), \"f32\", \"mesh[0]\", \"S[1]\")):\n    return max(x, axis=[1])\n"
        );
        let sharded = sharded(&text);
        let moves: Vec<_> = sharded.plan.moves().flat_map(|(_, movements)| movements).collect();
        let collectives: Vec<_> = moves.iter().map(|one| one.collective).collect();
        let all_reduce = collectives == [Collective::AllReduce(Reduction::Max)];
        assert_eq!(all_reduce, is_partial, "{columns}: {collectives:?}\n{}", sharded.text);
    }
}
