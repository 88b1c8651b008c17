//! Orders of collectives and computation in local programs.

use crate::pipelines::pipelines_on;
use crate::sharded;
use relax_program::frontend::Program;
use relax_syntax::span::Source;

const BATCH: &str = r#"x: DTensor(("n", 8), "f32", "mesh[0]", "S[0]"), w: DTensor((8, 8), "f32", "mesh[0]", "S[0]"), v: DTensor((8, 8), "f32", "mesh[0]", "S[0]"), u: DTensor((8, 8), "f32", "mesh[0]", "S[0]")"#;

/// The calls of the local program of a body, each with its operands that are variables, and `later` where the rank goes on.
fn calls(params: &str, body: &[&str]) -> Vec<String> {
    let body: String = body.iter().map(|line| format!("    {line}\n")).collect();
    let text = format!("module_attr(\"mesh[0]\", \"2\")\n\ndef main({params}):\n{body}");
    let local = sharded(&text).text;
    let call = |line: &str| {
        let (var, call) = line.trim().split_once(" = ")?;
        let var = var.split(':').next()?;
        let (name, args) = call.split_once('(')?;
        let is_variable = |arg: &&str| {
            [": ", " = "].iter().any(|after| local.contains(&format!(" {arg}{after}")))
                && *arg != "rank_0"
        };
        let operands: Vec<&str> =
            args.split([',', '(', ')']).map(str::trim).filter(is_variable).collect();
        let later = if call.contains("async_op=True") { " later" } else { "" };
        let name = name.trim_start_matches("spmd.");
        (name != "sym_var").then(|| format!("{var} = {name} {}{later}", operands.join(" ")))
    };
    local.lines().filter_map(call).collect()
}

/// One layer ahead, not two: the weights of the third wait for those of the second.
#[test]
fn weights_of_the_next_layer_are_gathered_beside_this_one() {
    let found = calls(
        BATCH,
        &[
            "a = relu(matmul(x, redistribute(w, \"mesh[0]\", \"R\")))",
            "b = relu(matmul(a, redistribute(v, \"mesh[0]\", \"R\")))",
            "c = matmul(b, redistribute(u, \"mesh[0]\", \"R\"))",
            "return redistribute(c, \"mesh[0]\", \"S[0]\")",
        ],
    );
    let expected = [
        "w_1 = all_gather w",
        "v_1 = all_gather v later",
        "lv1 = matmul x w_1",
        "a = relu lv1",
        "u_1 = all_gather u later",
        "lv3 = matmul a v_1",
        "b = relu lv3",
        "c = matmul b u_1",
    ];
    assert_eq!(found, expected);
}

/// The sum of the first half is on its way while the second half is computed.
#[test]
fn sums_overlap_with_the_next_microbatch() {
    let params = r#"x: Tensor(("n", 8), "f32"), y: Tensor(("n", 8), "f32"), w: DTensor((8, 8), "f32", "mesh[0]", "S[1]"), v: DTensor((8, 8), "f32", "mesh[0]", "S[0]")"#;
    let found = calls(
        params,
        &[
            "a = redistribute(matmul(matmul(x, w), v), \"mesh[0]\", \"R\")",
            "b = relu(a)",
            "c = redistribute(matmul(matmul(y, w), v), \"mesh[0]\", \"R\")",
            "d = relu(c)",
            "return (b, d)",
        ],
    );
    let at = |call: &str| {
        let own = found.iter().position(|own| own.starts_with(call));
        own.unwrap_or_else(|| panic!("no {call} in {found:#?}"))
    };
    let reduces: Vec<usize> =
        (0..found.len()).filter(|&at| found[at].contains("all_reduce")).collect();
    assert_eq!(reduces.len(), 2, "{found:#?}");
    // Both sums are asked for before the first is used, which is used beside the second.
    assert!(reduces[1] < at("b = relu") && at("b = relu") < at("d = relu"), "{found:#?}");
    assert!(reduces.iter().all(|&at| found[at].ends_with("later")), "{found:#?}");
}

/// What needs no collective runs beside one, and what may trap stays where it is.
#[test]
fn what_may_trap_keeps_its_place() {
    let params = format!("{BATCH}, k: Tensor((\"m\",), \"f32\")");
    let gathered = |between: &str| {
        calls(
            &params,
            &[
                "r = redistribute(w, \"mesh[0]\", \"R\")",
                "s = exp(r)",
                between,
                "return (s, redistribute(t, \"mesh[0]\", \"S[0]\"))",
            ],
        )
    };
    let found = gathered("t = exp(x)");
    assert_eq!(found, ["w_1 = all_gather w later", "t = exp x", "s = exp w_1"]);
    for (text, name) in [
        ("t = take(x, const([0], \"i64\"), axis=1)", "t = take"),
        ("t = match_cast(k, Tensor((8,), \"f32\"))", "t = match_cast"),
        // These ask for an element, which `k` may not have.
        ("t = max(k, axis=[0], keepdims=True)", "t = max"),
        ("t = pad(k, [1, 1], pad_mode=\"replicate\")", "t = pad"),
    ] {
        let found = gathered(text);
        let place = |call: &str| found.iter().position(|own| own.contains(call)).expect("a call");
        assert!(found[0].starts_with("w_1 = all_gather"), "{found:#?}");
        assert!(!found[0].ends_with("later") && place("s = exp") < place(name), "{found:#?}");
    }
}

/// What a constraint says is true behind it, and not before it.
#[test]
fn what_a_constraint_before_it_says_keeps_its_place() {
    let params = r#"x: DTensor(("m",), "f32", "mesh[0]", "S[0]"), k: Tensor(("m",), "f32")"#;
    let beside = |asked: &str| {
        let found = calls(
            params,
            &["s = min(redistribute(x, \"mesh[0]\", \"R\"), axis=[0])", asked, "return (s, t)"],
        );
        let name = |own: &String| own.split(' ').nth(2).unwrap_or_default().to_owned();
        found.iter().map(name).collect::<Vec<_>>()
    };
    let asked = "t = pad(k, [1, 1], pad_mode=\"replicate\")";
    assert_eq!(beside(asked), ["all_gather", "min", "pad"]);
    assert_eq!(beside("t = exp(k)"), ["all_gather", "exp", "min"]);
}

/// A stage computes its next microbatch while the last one waits for its receiver.
#[test]
fn stages_go_on_after_they_send() {
    let case = pipelines_on("2").into_iter().find(|case| case.name == "microbatches");
    let local = sharded(&case.expect("the program").text).text;
    let sends = local.split("spmd.send(").skip(1).map(|call| call.split(" = ").next());
    let later: Vec<bool> =
        sends.map(|call| call.is_some_and(|call| call.contains("async_op=True"))).collect();
    assert_eq!(later, [true; 4], "{local}");
}

#[test]
fn a_call_goes_on_or_not() {
    let text = |value: &str| {
        format!(
            "def main(x: Tensor((4,), \"f32\")):\n    return spmd.all_reduce(x, \"mesh[0]\", 0, 1, 0, \"sum\", async_op={value})\n"
        )
    };
    let errors = |value: &str| {
        Program::load(Source::new("program", text(value)))
            .diagnostics
            .into_iter()
            .map(|own| own.message)
    };
    assert_eq!(errors("True").count(), 0);
    for wrong in ["3", "\"yes\"", "None"] {
        let found: Vec<String> = errors(wrong).collect();
        assert!(
            found.iter().any(|own| own.contains("`async_op` must be `True` or `False`")),
            "{wrong}: {found:?}"
        );
    }
}
