//! Local programs written by hand, for ranks of any kind: each collective for each dtype, and ranks that disagree.

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::ranks::{Mesh, RanRank};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Data, Tensor};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;

/// A local program on a mesh of three workers, of which `x` has `[m, 3]`.
pub(crate) fn by_hand(dtype: DType, body: &str) -> (String, Mesh) {
    let text = format!(
        "module_attr(\"mesh[0]\", \"3\")\n\ndef main(world: Shape([\"r\", \"n\"]), x: Tensor((\"m\", 3), \"{dtype}\")):\n{body}\n"
    );
    (text, Mesh { name: "mesh[0]".into(), extents: vec![3] })
}

/// What each rank passes: all ranks rows alike, or the shard of `n` rows.
pub(crate) fn given(dtype: DType, n: i64, is_shard: bool) -> Vec<Vec<Value>> {
    let block = (n + 2) / 3;
    let rows = |rank: i64| if is_shard { (n - rank * block).clamp(0, block) } else { n };
    let of_rank = |rank: i64| {
        let rows = usize::try_from(rows(rank)).expect("it is not negative");
        vec![Value::Shape(vec![rank, n]), Value::Tensor(values(dtype, rows, rank))]
    };
    (0..3).map(of_rank).collect()
}

/// Small integers in an order that no cut keeps.
pub(crate) fn tensor(shape: &[usize], seed: usize) -> Value {
    let count: usize = shape.iter().product();
    let element =
        |at: usize| f32::from(u8::try_from((at * 7 + seed * 5 + at * at) % 7).unwrap_or(0)) - 3.0;
    let elements = (0..count).map(element).collect();
    let array = ArrayD::from_shape_vec(IxDyn(shape), elements).expect("as many as the shape says");
    Value::Tensor(Tensor::from_data(Data::F32(array.into_shared())))
}

/// Values that hurt, at other places on each rank.
pub(crate) fn values(dtype: DType, rows: usize, rank: i64) -> Tensor {
    const FLOATS: [f64; 17] = [
        f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.0,
        65504.0,
        1e-45,
        -3.5,
        1e30,
        0.1,
        // Sums of these depend on their order.
        1.0 / 3.0,
        2.0 / 7.0,
        -0.7,
        12345.678,
        -1e4 / 3.0,
        3e-3,
    ];
    const INTEGERS: [i64; 7] = [i64::MAX, i64::MIN, 0, -1, 1, 127, 40_000];
    let shape = IxDyn(&[rows, 3]);
    let place = |at: usize| at * (2 + usize::try_from(rank).unwrap_or(0)) + at / 5;
    let float = |at: usize| FLOATS[place(at) % FLOATS.len()];
    let integer = |at: usize| INTEGERS[place(at) % INTEGERS.len()];
    macro_rules! data {
        ($variant:ident, $of:expr) => {
            Data::$variant(ArrayD::from_shape_fn(shape, |at| $of(at[0] * 3 + at[1])).into_shared())
        };
    }
    Tensor::from_data(match dtype {
        DType::F16 => data!(F16, |at| f16::from_f64(float(at))),
        DType::BF16 => data!(BF16, |at| bf16::from_f64(float(at))),
        DType::F32 => data!(F32, |at| float(at) as f32),
        DType::F64 => data!(F64, float),
        DType::I8 => data!(I8, |at| integer(at) as i8),
        DType::I16 => data!(I16, |at| integer(at) as i16),
        DType::I32 => data!(I32, |at| integer(at) as i32),
        DType::I64 => data!(I64, integer),
        DType::U8 => data!(U8, |at| integer(at) as u8),
        DType::U16 => data!(U16, |at| integer(at) as u16),
        DType::U32 => data!(U32, |at| integer(at) as u32),
        DType::U64 => data!(U64, |at| integer(at) as u64),
        DType::Bool => data!(Bool, |at| integer(at) > 0),
    })
}

/// The bodies of each collective, with a mark where ranks pass shards.
pub(crate) fn collectives(dtype: DType) -> Vec<(String, bool)> {
    const CUT: &str = "min(max(n - r * ceildiv(n, 3), 0), ceildiv(n, 3))";
    let shard = format!("    y = match_cast(x, Tensor(({CUT}, 3), DTYPE))\n");
    let own = "    return spmd.own_shard(x, 3, r, 1)".to_owned();
    let reduce = |op| format!("    return spmd.all_reduce(x, \"mesh[0]\", 0, 3, r, \"{op}\")");
    let scatter = |axis, op| {
        format!("    return spmd.reduce_scatter(x, \"mesh[0]\", 0, 3, r, {axis}, \"{op}\")")
    };
    let gather = format!("{shard}    return spmd.all_gather(y, \"mesh[0]\", 0, 3, r, 0, n)");
    let exchange = format!("{shard}    return spmd.all_to_all(y, \"mesh[0]\", 0, 3, r, 1, 0, n)");
    let of_one = |rest: &str| format!("    y = spmd.only(x, 3, r, 2)\n    return {rest}");
    let sent = of_one("spmd.send(y, \"mesh[0]\", 0, 3, r, 2, 0, m)");
    let told = of_one("spmd.broadcast(y, \"mesh[0]\", 0, 3, r, 2, m)");
    let mut bodies = vec![(own, false), (gather, true), (exchange, true)];
    bodies.extend([(of_one("y"), false), (sent, false), (told, false)]);
    if dtype != DType::Bool {
        bodies.extend(["sum", "max", "min"].map(|op| (reduce(op), false)));
        bodies.extend(
            [(0, "sum"), (1, "max"), (-1, "min")].map(|(axis, op)| (scatter(axis, op), false)),
        );
    }
    for (body, _) in &mut bodies {
        *body = body.replace("DTYPE", &format!("\"{dtype}\""));
    }
    bodies
}

/// Bodies in which the ranks disagree, of i64.
pub(crate) fn disagreements() -> Vec<String> {
    let if_first = |then: &str, otherwise: &str| {
        format!(
            "    if equal(const(0, \"i64\"), max(x)):\n        y = {then}\n    else:\n        y = {otherwise}\n    return y"
        )
    };
    let reduce = |rank: &str, workers: i64, op: &str| {
        format!("spmd.all_reduce(x, \"mesh[0]\", 0, {workers}, {rank}, \"{op}\")")
    };
    let send = |from: usize, to: usize| {
        format!("spmd.send(spmd.only(x, 3, r, {from}), \"mesh[0]\", 0, 3, r, {from}, {to}, m)")
    };
    let returned = |value: String| format!("    return {value}");
    vec![
        if_first(&reduce("r", 3, "sum"), &reduce("r", 3, "max")),
        if_first(&reduce("r", 3, "sum"), "x"),
        returned(reduce("0", 3, "sum")),
        returned(reduce("r", 2, "sum")),
        returned("spmd.all_reduce(x, \"mesh[1]\", 0, 3, r)".to_owned()),
        returned("spmd.all_gather(x, \"mesh[0]\", 0, 3, r, 0, n)".to_owned()),
        // Two ranks wait for the first one, which waits for one of them.
        if_first(&send(0, 1), &send(0, 2)),
        // Rank 1 waits for one that sends to it later.
        if_first(&send(0, 2), &send(2, 1)),
    ]
}

/// Bodies in which a rank computes something, which may trap, between a collective and the use of its result, of i64.
pub(crate) fn beside() -> [String; 6] {
    let reduce = |of: &str, op: &str| {
        format!("spmd.all_reduce({of}, \"mesh[0]\", 0, 3, r, \"{op}\", async_op=True)")
    };
    let (sum, most) = (reduce("x", "sum"), reduce("x", "max"));
    let last = reduce("z", "min");
    let trap = "take(x, const([9], \"i64\"), axis=0)";
    [
        // The result is the operand of another collective.
        format!("    y = {sum}\n    z = add(x, x)\n    return add({}, z)", reduce("y", "max")),
        format!("    y = {sum}\n    z = {most}\n    return add({last}, y)"),
        format!("    y = {sum}\n    z = {trap}\n    return (y, z)"),
        format!("    y = {sum}\n    z = {trap}\n    return (y, {last})"),
        // Two ranks stop in the first one, and never come to the second, which the third would take for the first.
        format!("    y = {}\n    z = {sum}\n    return add(y, z)", sum.replace(" r,", " 0,")),
        // One that the machine waits for, after one that it does not.
        format!(
            "    y = {sum}\n    z = {}\n    return (add(x, x), y, z)",
            most.replace("True", "False")
        ),
    ]
}

/// The same body with collectives that a rank does not wait for before it uses what they give.
pub(crate) fn posted(body: &str) -> String {
    let later = |line: &str| match line.strip_suffix(')') {
        Some(call) if call.contains("\"mesh[") => format!("{call}, async_op=True)"),
        _ => line.to_owned(),
    };
    body.lines().map(later).collect::<Vec<_>>().join("\n")
}

/// What ranks pass that disagree: their numbers, `rows` of them on the last rank.
pub(crate) fn numbers(rows: usize) -> Vec<Vec<Value>> {
    let of_rank = |rank: i64| {
        let rows = if rank == 2 { rows } else { 2 };
        vec![Value::Shape(vec![rank, 2]), Value::Tensor(ints(rank, rows))]
    };
    (0..3).map(of_rank).collect()
}

fn ints(rank: i64, rows: usize) -> Tensor {
    Tensor::from_data(Data::I64(ArrayD::from_elem(IxDyn(&[rows, 3]), rank).into_shared()))
}

/// Each stop with its places; the functions of the machine are not those of the interpreter.
pub(crate) fn shown(ran: Vec<RanRank>) -> Vec<String> {
    let shown = |(rank, ran): (usize, RanRank)| match ran.result.err()? {
        Stop::Trap(trap) => Some(format!(
            "rank {rank}: {} {} {:?} {:?}",
            trap.id, trap.message, trap.span, trap.places
        )),
        other => Some(format!("rank {rank}: {other}")),
    };
    ran.into_iter().enumerate().filter_map(shown).collect()
}
