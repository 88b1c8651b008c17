//! Pipeline stages: values that one worker of an axis of the mesh alone has.

use crate::agree::demand_agreement;
use crate::pipelines::{pipelines, pipelines_on};
use crate::programs::Case;
use crate::seeded::found;
use crate::{Sharded, arguments, planned, same, sharded};
use relax_corpus::sample::Sample;
use relax_program::frontend::Program;
use relax_semantics::interp::{Interpreter, Options};
use relax_semantics::ranks::{Alike, Exchange, Peers, Place, RanRank, Rank, on_all};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_sharding::movement::Collective;
use relax_sharding::run::run_by;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

fn pipeline(name: &str, mesh: &str) -> Case {
    let mut found = pipelines_on(mesh).into_iter().filter(|case| case.name == name);
    found.next().expect("a case")
}

fn collectives(sharded: &Sharded) -> Vec<Collective> {
    sharded.plan.moves().flat_map(|(_, movements)| movements).map(|one| one.collective).collect()
}

/// Activations are sent once for each boundary of stages, of N bytes, and no weight is moved.
#[test]
fn a_pipeline_sends_activations_once() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        let two = sharded(&pipeline("two stages", mesh).text);
        let send = Collective::Send { from: 0, to: 1 };
        assert_eq!(collectives(&two), [send, Collective::Broadcast(1)], "{}", two.text);
        let bytes = two.plan.bytes(&mut Prover::new()).eval(&|name| (name == "n").then_some(7));
        assert_eq!(bytes.ok(), Some(7 * 4 * 4 + (p - 1) * 7 * 4 * 4));
    }
    // The input skips a stage.
    let three = sharded(&pipeline("three stages", "3").text);
    let sends = [(0, 1), (1, 2), (0, 2)].map(|(from, to)| Collective::Send { from, to });
    assert_eq!(collectives(&three), sends, "{}", three.text);
    // Within a stage columns are summed, by its two workers only.
    let columns = sharded(&pipeline("two stages", "2, 2").text);
    let bytes = columns.plan.bytes(&mut Prover::new()).eval(&|name| (name == "n").then_some(7));
    // Each of two sums moves 2 N bytes; two workers of a stage send, and two broadcast.
    assert_eq!(bytes.ok(), Some(7 * 4 * 4 * (2 * 2 + 2 + 2)), "{}", columns.text);
}

/// Where weights are small beside activations, and nothing says where a stage begins: calls go to weights, not weights to calls.
#[test]
fn weights_stay_on_their_workers() {
    let text = "module_attr(\"mesh[0]\", \"3\")\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"O[0]\"), a: DTensor((4, 6), \"f32\", \"mesh[0]\", \"O[0]\"), b: DTensor((6, 4), \"f32\", \"mesh[0]\", \"O[1]\")):\n    h = relu(matmul(x, a))\n    return add(matmul(h, b), x)\n";
    let sharded = sharded(text);
    let sends = [(0, 1), (1, 0)].map(|(from, to)| Collective::Send { from, to });
    let expected = [sends[0], sends[1], Collective::Broadcast(0)];
    assert_eq!(collectives(&sharded), expected, "{}", sharded.text);
    for n in [0, 1, 6] {
        let given = arguments(&[vec![n, 4], vec![4, 6], vec![6, 4]]);
        let found = sharded.on_ranks(&sharded.local, &given).expect("all ranks end");
        assert!(same(&found, &sharded.on_one(&given)));
    }
    // Of two that lie apart the smaller one is moved.
    let apart = "module_attr(\"mesh[0]\", \"2\")\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"O[0]\"), a: DTensor((4, 6), \"f32\", \"mesh[0]\", \"O[1]\")) -> DTensor((\"n\", 6), \"f32\", \"mesh[0]\", \"O[0]\"):\n    y = matmul(x, a)\n    return redistribute(y, \"mesh[0]\", \"O[0]\")\n";
    let apart = crate::sharded(apart);
    assert_eq!(collectives(&apart), [Collective::Send { from: 1, to: 0 }], "{}", apart.text);
}

#[test]
fn meshes_that_a_run_binds_have_the_workers_of_stages_or_stop() {
    for case in pipelines_on("p").into_iter().filter(|case| case.name != "three stages") {
        let sharded = sharded(&case.text);
        let mesh = |extent: usize| sharded.plan.axes.with_extents(&[extent]).expect("it fits");
        demand_agreement(&case, &sharded, &[mesh(2), mesh(3), mesh(5)]);
        let given = arguments(&(case.shapes)(3));
        match sharded.on_mesh(&mesh(1), &sharded.local, &given) {
            Err((_, Stop::Trap(trap))) if trap.id == "boundary/stage" => {}
            other => panic!("{}: {other:?}", case.name),
        }
    }
    let inner = sharded(
        "module_attr(\"mesh[0]\", \"p\")\n\ndef main(x: Tensor((\"n\",), \"f32\")) -> Tensor((\"n\",), \"f32\"):\n    y = redistribute(x, \"mesh[0]\", \"O[1]\")\n    return add(y, y)\n",
    );
    let mesh = |extent: usize| inner.plan.axes.with_extents(&[extent]).expect("it fits");
    let given = arguments(&[vec![3]]);
    let found = inner.on_mesh(&mesh(2), &inner.local, &given).expect("all ranks end");
    assert!(same(&found, &inner.on_one(&given)));
    match inner.on_mesh(&mesh(1), &inner.local, &given) {
        Err((_, Stop::Trap(trap))) if trap.id == "spmd.only/C2" => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn workers_that_a_mesh_does_not_have_are_refused() {
    let on = |mesh: &str, layout: &str| {
        let text = format!(
            "module_attr(\"mesh[0]\", \"{mesh}\")\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"{layout}\")):\n    y = redistribute(x, \"mesh[0]\", \"{layout}\")\n    return add(y, y)\n"
        );
        Program::load(Source::new("program", text))
    };
    for (mesh, layout) in [
        ("1", "O[1]"),
        ("2", "O[2]"),
        ("2, 3", "O[2], R"),
        ("2", "O[]"),
        ("2", "O[-1]"),
        ("2", "O"),
    ] {
        assert!(on(mesh, layout).has_errors(), "{layout} on {mesh}");
    }
    for (mesh, layout) in
        [("1", "O[0]"), ("p", "O[7]"), ("2, 3", "O[1], O[2]"), ("2, 3", "S[0], O[0]")]
    {
        let program = on(mesh, layout);
        assert!(!program.has_errors(), "{layout} on {mesh}: {:?}", program.diagnostics);
    }
    let terms = "module_attr(\"mesh[0]\", \"2\")\n\ndef main(x: DTensor((4,), \"f32\", \"mesh[0]\", \"O[0]\")):\n    y = redistribute(x, \"mesh[0]\", \"P(sum)\")\n    return redistribute(y, \"mesh[0]\", \"R\")\n";
    assert!(planned(terms).is_err());
}

/// From each layout to each other one, on two axes.
#[test]
fn every_layout_leads_to_every_other_one() {
    let layouts =
        ["R, R", "O[0], R", "O[1], S[0]", "R, O[1]", "O[1], O[0]", "S[0], O[0]", "S[1], S[0]"];
    for from in layouts {
        for to in layouts {
            let text = format!(
                "module_attr(\"mesh[0]\", \"2, 2\")\n\ndef main(x: DTensor((\"n\", 3), \"f32\", \"mesh[0]\", \"{from}\")) -> DTensor((\"n\", 3), \"f32\", \"mesh[0]\", \"{to}\"):\n    return redistribute(x, \"mesh[0]\", \"{to}\")\n"
            );
            let sharded = sharded(&text);
            for n in [0, 1, 2, 5] {
                let given = arguments(&[vec![n, 3]]);
                let found = sharded.on_ranks(&sharded.local, &given);
                let found = found.unwrap_or_else(|stop| panic!("{stop:?}\n{}", sharded.text));
                assert!(same(&found, &sharded.on_one(&given)), "{n}\n{}", sharded.text);
            }
        }
    }
}

/// Collectives that ranks called so far, in the order in which they called them.
#[derive(Debug, Default)]
struct Calls {
    made: Mutex<Vec<(usize, String)>>,
    changed: Condvar,
}

/// A rank that passes something on only after the rank before it came to its next send: it has finished the next part by then.
#[derive(Debug)]
struct Late {
    rank: Rank,
    worker: usize,
    calls: Arc<Calls>,
    parts: usize,
}

impl Late {
    fn sends(made: &[(usize, String)], worker: usize) -> usize {
        let is_send = |what: &str| what.starts_with(&format!("spmd.send(source={worker},"));
        made.iter().filter(|(own, what)| *own == worker && is_send(what)).count()
    }
}

impl Peers<Tensor> for Late {
    fn exchange(
        &self,
        exchange: Exchange,
        alike: &Alike<'_>,
        place: &Place,
    ) -> Result<Tensor, Stop> {
        let mut made = self.calls.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.push((self.worker, exchange.what.clone()));
        self.calls.changed.notify_all();
        let own = Self::sends(&made, self.worker);
        let is_send = exchange.what.starts_with(&format!("spmd.send(source={},", self.worker));
        if is_send && self.worker > 0 {
            let wanted = (own + 1).min(self.parts);
            while Self::sends(&made, self.worker - 1) < wanted {
                let patience = Duration::from_secs(20);
                let (guard, waited) = self
                    .calls
                    .changed
                    .wait_timeout(made, patience)
                    .unwrap_or_else(PoisonError::into_inner);
                made = guard;
                if waited.timed_out() {
                    return Err(Stop::Unsupported(format!("rank {} is held up", self.worker - 1)));
                }
            }
        }
        drop(made);
        self.rank.exchange(exchange, alike, place)
    }
}

/// Four parts go through three stages. Each stage is one part ahead of the next one, whatever time they take, and a rank that is neither the
/// sender nor the receiver takes no part in a send.
#[test]
fn stages_work_ahead() {
    let weight = |at: usize| format!("w{at}: DTensor((4, 4), \"f32\", \"mesh[0]\", \"O[{at}]\")");
    let parts: String = (0..4)
        .map(|at| {
            format!(
                "    a{at} = redistribute(matmul(xs[{at}], w0), \"mesh[0]\", \"O[1]\")\n    b{at} = redistribute(matmul(a{at}, w1), \"mesh[0]\", \"O[2]\")\n    c{at} = matmul(b{at}, w2)\n"
            )
        })
        .collect();
    let text = format!(
        "module_attr(\"mesh[0]\", \"3\")\n\ndef main(x: Tensor((4, \"n\", 4), \"f32\"), {}, {}, {}) -> DTensor((4, \"n\", 4), \"f32\", \"mesh[0]\", \"O[2]\"):\n    xs = split(x, 4)\n{parts}    y = concat([c0, c1, c2, c3], axis=0)\n    return redistribute(y, \"mesh[0]\", \"O[2]\")\n",
        weight(0),
        weight(1),
        weight(2)
    );
    let sharded = sharded(&text);
    let function = sharded.global.function("main").expect("a main");
    let given = arguments(&[vec![4, 5, 4], vec![4, 4], vec![4, 4], vec![4, 4]]);
    let (calls, mesh) = (Arc::new(Calls::default()), sharded.mesh());
    let ran = run_by(function, (&sharded.plan, &mesh), &given, |each| {
        let each = each.into_iter().enumerate().collect();
        on_all(&mesh, each, |rank: Rank, (worker, arguments)| {
            let late = Late { rank, worker, calls: Arc::clone(&calls), parts: 4 };
            let options = Options { rank: Some(Arc::new(late)), ..Options::default() };
            let mut interpreter = Interpreter::new(&sharded.local, options);
            let result = interpreter.call("main", arguments);
            RanRank { result, printed: Vec::new() }
        })
    });
    let found = ran.result.unwrap_or_else(|stop| panic!("{stop:?}\n{}", sharded.text));
    assert!(same(&found, &sharded.on_one(&given)));
    let made = calls.made.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |worker: usize| made.iter().filter(|(own, _)| *own == worker).count();
    assert_eq!([of(0), of(1), of(2)], [4, 8, 4], "{made:?}");
}

/// Texts in which one number or one word of a stage is wrong.
fn wrong(text: &str, workers: usize) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut put = |at: usize, what: &str, line: String| {
        let mut lines: Vec<&str> = lines.clone();
        lines[at] = &line;
        found.push((format!("{what}: {}", lines[at].trim()), format!("{}\n", lines.join("\n"))));
    };
    let heres = ["max(1 - rank_0, 0)", "max(1 - max(rank_0 - 1, 1 - rank_0), 0)"];
    for (at, line) in lines.iter().enumerate() {
        if let Some((name, call)) = line.split_once(" = spmd.")
            && let Some((operator, arguments)) = call.trim_end_matches(')').split_once('(')
            && ["send", "broadcast", "only"].contains(&operator)
            // The arguments of a long call are on lines of their own.
            && !arguments.is_empty()
        {
            let arguments: Vec<&str> = arguments.split(", ").collect();
            put(at, "left out", format!("{name} = {}", arguments[0]));
            let stages = match operator {
                "send" => vec![5, 6],
                "broadcast" => vec![5],
                _ => vec![3],
            };
            for stage in stages {
                let mut arguments: Vec<String> =
                    arguments.iter().map(ToString::to_string).collect();
                let other = arguments[stage].parse().map_or(0, |own: usize| (own + 1) % workers);
                arguments[stage] = other.to_string();
                put(
                    at,
                    "another stage",
                    format!("{name} = spmd.{operator}({})", arguments.join(", ")),
                );
            }
        }
        if line.contains("number") && line.contains("full(shape(), ") {
            for stage in 0..workers {
                let other = line.replace(
                    &format!("full(shape(), {stage},"),
                    &format!("full(shape(), {},", (stage + 1) % workers),
                );
                if other != *line {
                    put(at, "the branch of another worker", other);
                }
            }
        }
        if line.contains("is_stage") && line.contains(" equal(") {
            put(at, "the other branch", line.replace(" equal(", " not_equal("));
        }
        // Rows that nobody reads may be any, and in a branch that a worker takes it is this one.
        let is_cast = line.contains("match_cast(");
        let is_long = !line.contains(" = ") && !line.contains(": Tensor(");
        if is_long || line.contains("zeros(") && !is_passed_on(&lines, line) {
            continue;
        }
        for (own, other) in heres.iter().zip(heres.iter().rev()) {
            for (place, _) in line.match_indices(own) {
                let (before, rest) = line.split_at(place);
                let with = |rows: &str| format!("{before}{}", rest.replacen(own, rows, 1));
                put(at, "rows of another worker", with(other));
                if !is_cast {
                    put(at, "rows of every worker", with("1"));
                }
            }
        }
    }
    found
}

/// Whether what a branch gives is sent, or returned.
fn is_passed_on(lines: &[&str], line: &str) -> bool {
    let name = |line: &str| line.trim().split(" = ").next().unwrap_or_default().to_owned();
    let name = name(line);
    let uses = [format!("({name}, \"mesh"), format!("return {name}")];
    lines.iter().any(|line| uses.iter().any(|own| line.contains(own)))
}

#[test]
fn no_bug_in_a_stage_is_accepted() {
    let (mut accepted, mut count, mut texts) = (Vec::new(), 0, BTreeSet::new());
    for case in pipelines() {
        if !texts.insert(case.text.clone()) {
            continue;
        }
        let sharded = sharded(&case.text);
        let workers = sharded.mesh().extents[0];
        let bugs = wrong(&sharded.text, workers);
        for (what, text) in Sample::of("bugs in stages", 3).take(bugs) {
            count += 1;
            if found(&sharded, &text, &[case.shapes]).is_none() {
                accepted.push(format!(
                    "{} on {:?}: {what}\n{text}",
                    case.name,
                    sharded.mesh().extents
                ));
            }
        }
    }
    assert!(count > 150, "{count}");
    assert!(accepted.is_empty(), "{} of {count} accepted: {}", accepted.len(), accepted.join("\n"));
    eprintln!("{count} bugs");
}

/// A stage whose values nobody uses is computed all the same, as on one device: it may trap.
#[test]
fn stages_that_nobody_uses_are_kept() {
    let text = "module_attr(\"mesh[0]\", \"2\")\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"O[1]\"), i: Tensor((2,), \"i64\")):\n    unused = take(x, i, axis=0, mode=\"fast\")\n    return add(x, x)\n";
    let sharded = sharded(text);
    assert!(sharded.text.contains("take("), "{}", sharded.text);
}
