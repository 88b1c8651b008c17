//! Every size on every mesh: the ranks give what one device gives; bytes are those of the textbook.

use crate::pipelines::pipelines;
use crate::programs::{Case, case, cases, mixture};
use crate::{Sharded, arguments, load, near, same, sharded};
use relax_semantics::ranks::Mesh;
use relax_sharding::annotated::annotated;
use relax_sharding::movement::Collective;
use relax_sharding::propagate::propagate;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Reduction;
use std::collections::BTreeMap;

/// Demands for every size that the ranks of each mesh give what one device gives.
pub(crate) fn demand_agreement(case: &Case, sharded: &Sharded, meshes: &[Mesh]) {
    for n in 0..=33 {
        let arguments = arguments(&(case.shapes)(n));
        let expected = sharded.on_one(&arguments);
        for mesh in meshes {
            let place = format!("{} at {n} on {:?}", case.name, mesh.extents);
            let found = sharded.on_mesh(mesh, &sharded.local, &arguments);
            let found = found.unwrap_or_else(|(rank, stop)| {
                panic!("{place}: rank {rank}: {stop}\n{}", sharded.text)
            });
            let agrees =
                if case.is_exact { same(&found, &expected) } else { near(&found, &expected) };
            assert!(agrees, "{place}: {found:?} is not {expected:?}\n{}", sharded.text);
        }
    }
}

#[test]
fn ranks_agree_with_one_device_for_every_size() {
    for case in cases().into_iter().chain(pipelines()) {
        let sharded = sharded(&case.text);
        demand_agreement(&case, &sharded, &[sharded.mesh()]);
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

/// Tokens go to their experts and come back: two all-to-alls, each of (p - 1) N / p bytes, N of them dispatched. Neither tokens nor
/// weights of experts are gathered. Without a layout of what is dispatched the same is found, at sizes at which weights are larger than
/// what is dispatched.
#[test]
fn a_mixture_of_experts_moves_the_bytes_of_the_textbook() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        for (name, choices) in [("experts, groups", 2), ("switch", 1)] {
            let text = case(name, mesh).text;
            let free = text.replace("sent = redistribute(einsum((dispatch, x), \"gsec,gsd->egcd\"), \"mesh[0]\", \"S[0]\")", "sent = einsum((dispatch, x), \"gsec,gsd->egcd\")");
            assert_eq!(free.matches("redistribute").count(), 1, "{free}");
            let sizes = [("g", 12), ("s", 120), ("d", 512), ("e", 24), ("h", 2048)];
            let sizes = sizes.map(|(name, size)| (name.into(), size));
            for (text, sizes) in [(text, BTreeMap::new()), (free, BTreeMap::from(sizes))] {
                let module = load(&text);
                let function = module.function("main").expect("a main");
                let plan = propagate(&module, function, &sizes, &mut Prover::new());
                let plan = plan.unwrap_or_else(|refused| panic!("{refused:?}\n{text}"));
                let collectives: Vec<_> =
                    plan.moves().flat_map(|(_, moves)| moves).map(|one| one.collective).collect();
                let exchanges =
                    [(1, 0), (0, 1)].map(|(from, to)| Collective::AllToAll { from, to });
                assert_eq!(collectives, exchanges, "{name} on {mesh}\n{text}");
                // Of 20 tokens 24 experts have one or two slots each, of 120 five or ten.
                for [g, s, d, e] in [[12, 20, 512, 24], [24, 120, 8, 24], [0, 7, 3, 24]] {
                    let value = |name: &Name| {
                        let known = [("g", g), ("s", s), ("d", d), ("e", e)];
                        known.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
                    };
                    let dispatched = e * g * ((choices * s + e - 1) / e) * d * 4;
                    let bytes = plan.bytes(&mut Prover::new()).eval(&value).ok();
                    assert_eq!(bytes, Some(2 * (p - 1) * dispatched / p), "{name} on {mesh}");
                }
            }
        }
    }
}

/// The second choice is the first one among the others, so there are two of each value of the routing.
const BY_MAXIMA: &str = r#"    first = max(gates, axis=[2], keepdims=True)
    mask = one_hot(argmax(gates, axis=2), const(1, "i64"), const(0, "i64"), e)
    others = where(equal(mask, const(1, "i64")), const(0.0, "f32"), gates)
    second = max(others, axis=[2], keepdims=True)
    mask_2 = one_hot(argmax(others, axis=2), const(1, "i64"), const(0, "i64"), e)
    place = where(equal(mask, const(1, "i64")), cumsum(mask, axis=1, exclusive=True), const(-1, "i64"))
    before = add(cumsum(mask_2, axis=1, exclusive=True), sum(mask, axis=[1], keepdims=True))
    place_2 = where(equal(mask_2, const(1, "i64")), before, const(-1, "i64"))
    slot = one_hot(place, const(1.0, "f32"), const(0.0, "f32"), ceildiv(2 * s, e))
    slot_2 = one_hot(place_2, const(1.0, "f32"), const(0.0, "f32"), ceildiv(2 * s, e))
    total = add(first, second)
    weighted = multiply(slot, expand_dims(divide(first, total), axis=[3]))
    weighted_2 = multiply(slot_2, expand_dims(divide(second, total), axis=[3]))
    combine = add(weighted, weighted_2)
    dispatch = add(slot, slot_2)"#;

/// More values than fit in the beam can be cut for nothing along the second axis of a mesh, and would have to be gathered later.
#[test]
fn what_can_be_cut_for_nothing_does_not_fill_the_beam() {
    let text = mixture(true, 1, BY_MAXIMA);
    let sharded = sharded(&format!("module_attr(\"mesh[0]\", \"2, 2\")\n\n{text}"));
    assert!(sharded.plan.is_truncated, "{}", sharded.text);
    let moves = sharded.plan.moves().flat_map(|(_, movements)| movements);
    let found: Vec<_> = moves.map(|one| (one.mesh_dim, one.collective)).collect();
    let expected = [
        (0, Collective::AllToAll { from: 1, to: 0 }),
        (0, Collective::AllToAll { from: 0, to: 1 }),
        (1, Collective::AllReduce(Reduction::Sum)),
    ];
    assert_eq!(found, expected, "{}", sharded.text);
}

/// Over two axes of a mesh experts are cut along the first one and their width along the second: what they give are terms, which go back
/// as such and are summed as tokens, of 2 (p - 1) T bytes. Nothing of the routing is moved.
#[test]
fn experts_whose_width_is_cut_exchange_terms_and_sum_tokens() {
    for (name, choices) in [("experts, groups", 2), ("switch", 1)] {
        let sharded = sharded(&case(name, "2, 2").text);
        let moves: Vec<_> = sharded.plan.moves().flat_map(|(_, movements)| movements).collect();
        let along = |axis: usize| {
            let own = moves.iter().filter(move |one| one.mesh_dim == axis);
            own.map(|one| one.collective).collect::<Vec<_>>()
        };
        let exchanges = [(1, 0), (0, 1)].map(|(from, to)| Collective::AllToAll { from, to });
        assert_eq!(along(0), exchanges, "{}", sharded.text);
        // An all-reduce, or one in two parts with less to compute between them.
        let sums = [Collective::AllReduce(Reduction::Sum)];
        let parts = [Collective::ReduceScatter(3, Reduction::Sum), Collective::AllGather(2)];
        assert!(along(1) == sums || along(1) == parts, "{}", sharded.text);
        let value = |name: &Name| (["g", "s", "d", "e"].contains(&name.as_str())).then_some(16);
        let bytes = sharded.plan.bytes(&mut Prover::new()).eval(&value).ok();
        // Groups of ranks along the first axis are two, and exchange the same tokens there and other terms back.
        let tokens = 16 * 16 * 16 * 4;
        assert_eq!(bytes, Some(2 * choices * tokens + 2 * tokens), "{}", sharded.text);
    }
}

/// What is printed with its layouts is sharded in the same way.
#[test]
fn annotated_programs_are_sharded_alike() {
    for case in cases().into_iter().chain(pipelines()) {
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
