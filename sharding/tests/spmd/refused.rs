//! What is not sharded is refused with its place.

use crate::{planned, same, sharded, tensor};

fn refusal(body: &str) -> (String, bool) {
    let text = format!("module_attr(\"mesh[0]\", \"2\")\n\n{body}\n");
    match planned(&text) {
        Err(found) => {
            assert_eq!(found.code, "RX0322");
            (found.message, !found.primary.span.is_synthetic())
        }
        Ok(_) => panic!("it is sharded:\n{text}"),
    }
}

const X: &str = "x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"S[0]\")";

#[test]
fn what_is_not_sharded_is_refused() {
    let main = |lines: &str| format!("def main({X}):\n{lines}");
    let cases = [
        (main("    return call(x)\n\ndef call(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"S[0]\")):\n    return add(x, x)"), "a call of a function"),
        (main("    y = match_cast(x, DTensor((3, 4), \"f32\", \"mesh[0]\", \"S[0]\"))\n    return y"), "a `match_cast` to"),
        (main("    return unique(x)"), "not known"),
        (main("    y = redistribute(x, \"mesh[0]\", \"P(sum)\")\n    return redistribute(y, \"mesh[0]\", \"R\")"), "no redistribution to `P(sum)`"),
        ("def main(x: DTensor((\"n\",), \"f32\", \"mesh[0]\", \"P(sum)\")):\n    return redistribute(x, \"mesh[0]\", \"R\")".to_owned(), "partial"),
        ("def main(x: Tensor(ndim=2, dtype=\"f32\"), y: DTensor((4,), \"f32\", \"mesh[0]\", \"R\")):\n    return y".to_owned(), "not known"),
        ("module_attr(\"mesh[1]\", \"2\")\n\ndef main(x: DTensor((4,), \"f32\", \"mesh[1]\", \"R\"), y: DTensor((4,), \"f32\", \"mesh[0]\", \"R\")):\n    return y".to_owned(), "one is supported"),
        ("module_attr(\"mesh[1]\", \"2000\")\n\ndef main(x: DTensor((4,), \"f32\", \"mesh[1]\", \"R\")):\n    return x".to_owned(), "workers"),
    ];
    for (body, words) in cases {
        let (message, has_place) = refusal(&body);
        assert!(message.contains(words), "{message}");
        assert!(has_place, "{message}");
    }
}

/// Operators that are not row by row get whole rows, and so does what has no index function.
#[test]
fn what_cannot_stay_cut_is_redistributed() {
    for call in [
        "softmax(x, axis=0)",
        "cumsum(x, axis=0)",
        "reshape(x, shape(n * 2, 2))",
        "mean(x, axis=[0])",
        "max(x, axis=[0])",
        "sort(x, axis=0)",
        "argsort(x, axis=0)",
        "topk(x, 0, axis=0, ret_type=\"values\")",
        "flip(x, axis=0)",
        "matmul(x, permute_dims(x))",
    ] {
        let text = format!(
            "module_attr(\"mesh[0]\", \"2\")\n\ndef main({X}):\n    n = sym_var()\n    return {call}\n"
        );
        let sharded = sharded(&text);
        assert!(sharded.plan.moves().count() > 0, "{call}");
        for n in 1..9 {
            let arguments = [tensor(&[n, 4], 1)];
            let found = sharded.on_ranks(&sharded.local, &arguments);
            let found = found.unwrap_or_else(|(_, stop)| panic!("{call} at {n}: {stop}"));
            assert!(same(&found, &sharded.on_one(&arguments)), "{call} at {n}\n{}", sharded.text);
        }
    }
}

/// What is in order along another axis is a function of a row, and rows stay where they are.
#[test]
fn rows_that_are_ordered_stay_cut() {
    for call in [
        "sort(x, axis=1)",
        "argsort(x, axis=-1, descending=True)",
        "argsort(x, axis=1, dtype=\"f32\")",
        "topk(x, 2, axis=1, ret_type=\"values\")",
        "topk(x, 3, ret_type=\"indices\", largest=False, dtype=\"i64\")",
        "topk(x, 0, axis=1, ret_type=\"values\")",
        "topk(x, 2)[0]",
        "topk(x, 2)[1]",
    ] {
        let text = format!(
            "module_attr(\"mesh[0]\", \"3\")\n\ndef main({X}):\n    y = {call}\n    return redistribute(y, \"mesh[0]\", \"S[0]\")\n"
        );
        let sharded = sharded(&text);
        assert_eq!(sharded.plan.moves().count(), 0, "{call}\n{}", sharded.text);
        for n in 0..9 {
            let arguments = [tensor(&[n, 4], 1)];
            let found = sharded.on_ranks(&sharded.local, &arguments);
            let found = found.unwrap_or_else(|(_, stop)| panic!("{call} at {n}: {stop}"));
            assert!(same(&found, &sharded.on_one(&arguments)), "{call} at {n}\n{}", sharded.text);
        }
    }
}
