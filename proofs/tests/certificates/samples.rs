//! A certificate for every rule of the specification, each with wrong neighbours: one edit that must
//! be refused, and a piece of the reason.

mod branches;
mod connectives;
mod quotients;

/// The rules of `sample.rules`.
pub(crate) const RULES: &str = include_str!("sample.rules");

/// From `sha256sum sample.rules`.
const HASH: &str = "001e6a5b2409d144bb992597e4368b4356ed3ed7ea902f87f8a6f0b7ce34aead";

/// An edit, and a piece of the message that refuses the result.
pub(crate) type Wrong = (&'static str, &'static str, &'static str);

pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) wrong: &'static [Wrong],
}

/// A certificate: the bodies of the two cases, whose facts have the numbers 10 and 50.
pub(crate) fn certificate(hypotheses: &[&str], goal: &str, undefined: &str, fails: &str) -> String {
    let hypotheses: Vec<String> = hypotheses.iter().map(|text| format!("\"{text}\"")).collect();
    let hypotheses = hypotheses.join(", ");
    let rules =
        if fails.contains("\"rule\"") { format!(", \"rules\": \"{HASH}\"") } else { String::new() };
    format!(
        "{{\"relax\": \"certificate\", \"version\": 1, \"hypotheses\": [{hypotheses}], \
         \"goal\": \"{goal}\"{rules}}}\n{{\"case\": [10]}}\n{}\n{{\"end\": true}}\n\
         {{\"case\": [50]}}\n{}\n{{\"end\": true}}\n",
        undefined.trim(),
        fails.trim()
    )
}

/// The goal has no divisors and no connectives: it opens to no cases.
const DEFINED: &str = r#"{"closed": 10}"#;

/// A sample as it is written down: name, hypotheses and goal, the bodies of the two cases, and wrong
/// neighbours.
type Text = (
    &'static str,
    (&'static [&'static str], &'static str),
    (&'static str, &'static str),
    &'static [Wrong],
);

pub(crate) fn samples() -> Vec<Sample> {
    let texts = [
        SUMS,
        PRODUCTS,
        INSTANCES,
        quotients::SAMPLES,
        branches::SAMPLES,
        connectives::JOINED,
        connectives::NEGATED,
        connectives::DIVISIONS,
    ];
    let sample = |(name, (hypotheses, goal), (undefined, fails), wrong): &Text| {
        let text = certificate(hypotheses, goal, undefined, fails);
        Sample { name, text, wrong }
    };
    texts.into_iter().flatten().map(sample).collect()
}

/// The divisor of the goal is `n`, which is at least 1.
const NOT_ZERO: &str = r#"
{"id": [11], "open": 0}
{"cases": 10}
{"case": [12]}
{"id": 13, "lin": [[11, "1"], [12, "-1"]], "is": "-1 >= 0"}
{"closed": 13}
{"end": true}"#;

const SUMS: &[Text] = &[
    (
        "lin",
        (&["n >= 0"], "n * 2 >= n"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "0 - 1 >= 0"}
{"closed": 53}"#,
        ),
        &[
            ("[51, \"1\"]", "[51, \"2\"]", "the line gives `n - 1 >= 0`"),
            ("[52, \"1\"]", "[52, \"-1\"]", "the factor `-1` of the fact 52 is no integer"),
            ("[52, \"1\"]", "[52, \"n\"]", "the factor `n` of the fact 52 is no integer"),
            ("]], \"is\"", "]], \"plus\": \"-1\", \"is\"", "`plus` is negative"),
            ("\"closed\": 53", "\"closed\": 52", "the fact 52, `-n - 1 >= 0`, may be"),
            ("[51, \"1\"]", "[10, \"1\"]", "the fact 10 is not known here"),
            ("[51, \"1\"]", "[0, \"1\"]", "the fact 0 is a statement, to be opened first"),
            ("\"id\": 53", "\"id\": 52", "the number 52 does not rise"),
            ("{\"id\": 53, ", "{\"id\": 53, \"id\": 54, ", "the key `id` stands twice"),
            ("{\"id\": 53, ", "{\"id\": 53, \"by\": \"1\", ", "`by` does not belong here"),
            ("n * 2 >= n", "n * 2 >= n + 1", "the line gives `0 >= 0`"),
            ("\"0 - 1 >= 0\"", "\"0 - 1 > 0\"", "expected `>= 0`, `== 0` or `!= 0`"),
            ("\"0 - 1 >= 0\"", "\"0 - 1 >= 1\"", "expected `0`, found `1`"),
        ],
    ),
    (
        "equation and rewrite",
        (&["x == y", "y == 3"], "x * x == 9"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 1}
{"id": [53], "open": 50}
{"id": 54, "equation": [[51, "x + y"], [52, "y + 3"]], "is": "x * x - 9 == 0"}
{"id": 55, "rewrite": 53, "with": [[54, "-1"]], "is": "0 != 0"}
{"closed": 55}"#,
        ),
        &[
            ("[52, \"y + 3\"]", "[53, \"y + 3\"]", "the fact 53 is not `== 0`"),
            ("[54, \"-1\"]", "[53, \"-1\"]", "the fact 53 is not `== 0`"),
            ("\"x + y\"", "\"x - y\"", "the line gives"),
            ("\"0 != 0\"", "\"0 == 0\"", "the line gives `0 != 0`"),
        ],
    ),
    (
        "divide what is at least 0",
        (&["2 * x >= 1"], "x >= 1"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"id": 53, "divide": 51, "by": "2", "is": "x - 1 >= 0"}
{"id": 54, "lin": [[52, "1"], [53, "1"]], "is": "-1 >= 0"}
{"closed": 54}"#,
        ),
        &[
            ("\"by\": \"2\"", "\"by\": \"3\"", "`3` does not divide `2 * x - 1`"),
            ("\"by\": \"2\"", "\"by\": \"-2\"", "`-2` is not above 0"),
            ("\"by\": \"2\"", "\"by\": \"0\"", "`0` is not above 0"),
            ("\"by\": \"2\"", "\"by\": \"x\"", "`x` is no integer"),
            ("\"x - 1 >= 0\"", "\"x - 2 >= 0\"", "the line gives `x - 1 >= 0`"),
        ],
    ),
    (
        "divide what is 0, and close by a common divisor",
        (&["4 * x == 6"], "False"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": 52, "divide": 51, "by": "2", "is": "2 * x - 3 == 0"}
{"closed": 52}"#,
        ),
        &[
            ("\"by\": \"2\"", "\"by\": \"4\"", "`4` does not divide `4 * x - 6`"),
            ("4 * x == 6", "4 * x == 4", "the line gives `2 * x - 2 == 0`"),
            ("\"closed\": 52", "\"closed\": 50", "the fact 50, `a statement`, may be"),
        ],
    ),
    (
        "negate",
        (&["x - y != 0"], "y != x"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"id": 53, "negate": 51, "is": "y - x != 0"}
{"id": 54, "rewrite": 53, "with": [[52, "-1"]], "is": "0 != 0"}
{"closed": 54}"#,
        ),
        &[
            ("x - y != 0", "x - y >= 0", "the fact 51 is `>= 0`, not to be negated"),
            ("\"y - x != 0\"", "\"x - y != 0\"", "the line gives `y - x != 0`"),
        ],
    ),
    (
        "apart",
        (&["x >= 3"], "x != 2"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"id": 53, "apart": 51, "is": "x - 2 != 0"}
{"id": 54, "rewrite": 53, "with": [[52, "-1"]], "is": "0 != 0"}
{"closed": 54}"#,
        ),
        &[
            ("\"apart\": 51", "\"apart\": 52", "the fact 52 is not `>= 0`"),
            ("\"x - 2 != 0\"", "\"x - 3 != 0\"", "the line gives `x - 2 != 0`"),
        ],
    ),
    (
        "both",
        (&["x <= 3", "x >= 3"], "x == 3"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 1}
{"id": [53], "open": 50}
{"id": 54, "both": [52, 51], "is": "x - 3 == 0"}
{"id": 55, "rewrite": 53, "with": [[54, "-1"]], "is": "0 != 0"}
{"closed": 55}"#,
        ),
        &[
            ("[52, 51]", "[52, 52]", "the fact 52 is not the fact 52 with the other sign"),
            ("[52, 51]", "[52, 53]", "the fact 53 is not `>= 0`"),
            ("[52, 51]", "[52]", "`both` must be two natural numbers"),
            ("x <= 3", "x <= 4", "is not the fact 52 with the other sign"),
        ],
    ),
];

const PRODUCTS: &[Text] = &[
    (
        "times",
        (&["x >= 0", "y >= 0"], "x * y >= 0"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 1}
{"id": [53], "open": 50}
{"id": 54, "times": [51, 52], "is": "x * y >= 0"}
{"id": 55, "lin": [[53, "1"], [54, "1"]], "is": "-1 >= 0"}
{"closed": 55}"#,
        ),
        &[
            ("[51, 52]", "[51, 51]", "the line gives `x * x >= 0`"),
            ("y >= 0\"]", "y == 0\"]", "the fact 52 is not `>= 0`"),
        ],
    ),
    (
        "square",
        (&[], "x * x + y * y >= 2 * x * y"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"id": 52, "square": "x - y", "is": "x * x + y * y - 2 * x * y >= 0"}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "-1 >= 0"}
{"closed": 53}"#,
        ),
        &[
            ("\"x - y\"", "\"x + y\"", "the line gives"),
            ("\"x - y\"", "\"x == y\"", "expected the end, found `==`"),
        ],
    ),
    (
        "extreme of min",
        (&[], "min(x, y) <= y"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"id": 52, "extreme": "min(x, y)", "argument": 1, "is": "y - min(x, y) >= 0"}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "-1 >= 0"}
{"closed": 53}"#,
        ),
        &[
            ("\"argument\": 1", "\"argument\": 0", "the line gives"),
            ("\"argument\": 1", "\"argument\": 2", "`min(x, y)` has no argument 2"),
            ("\"extreme\": \"min", "\"extreme\": \"max", "the line gives"),
            ("\"extreme\": \"min(x, y)\"", "\"extreme\": \"x\"", "`x` is no `min` or `max`"),
            ("\"extreme\": \"min(x, y)\"", "\"extreme\": \"min(y)\"", "two arguments or more"),
            ("\"extreme\": \"min(x, y)\"", "\"extreme\": \"min(y, x)\"", "the line gives"),
        ],
    ),
    (
        "extreme of max",
        (&[], "max(x, y, 3) >= x"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"id": 52, "extreme": "max(x, y, 3)", "argument": 0, "is": "max(x, y, 3) - x >= 0"}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "-1 >= 0"}
{"closed": 53}"#,
        ),
        &[("max(x, y, 3) - x >= 0", "x - max(x, y, 3) >= 0", "the line gives")],
    ),
];

const INSTANCES: &[Text] = &[
    (
        "rule",
        (&["n >= 1"], "(m * n) // n == m"),
        (
            NOT_ZERO,
            r#"
{"id": [51, 52], "open": 50}
{"id": 53, "rule": "div-multiple", "with": {"a": "m", "c": "n"}, "conditions": [51], "is": "(m * n) // n - m == 0"}
{"id": 54, "rewrite": 52, "with": [[53, "-1"]], "is": "0 != 0"}
{"closed": 54}"#,
        ),
        &[
            ("\"div-multiple\"", "\"div\"", "the rule file has no rule `div`"),
            ("\"div-multiple\"", "\"no-equation\"", "no variable `a`"),
            (", \"c\": \"n\"", "", "nothing is given for `c`"),
            ("\"c\": \"n\"", "\"c\": \"n\", \"d\": \"n\"", "no variable `d`"),
            ("\"c\": \"n\"", "\"c\": \"m\"", "the fact 51 is not the condition `m != 0`"),
            ("\"conditions\": [51]", "\"conditions\": []", "has 1 conditions, found 0"),
            ("\"conditions\": [51]", "\"conditions\": [52]", "is not the condition `n != 0`"),
            ("\"a\": \"m\"", "\"a\": \"m + 1\"", "the line gives"),
            ("\"rules\": \"", "\"rules\": \"0", "made with another rule file"),
        ],
    ),
    (
        "rule with a divisor in a condition",
        (&["n >= 1", "x % n == 0"], "x // n * n == x"),
        (
            NOT_ZERO,
            r#"
{"id": [51, 52], "open": 50}
{"id": [53, 54], "open": 1}
{"id": 55, "rule": "exact-times", "with": {"x": "x", "b": "n"}, "conditions": [51, 54], "is": "x // n * n - x == 0"}
{"id": 56, "rewrite": 52, "with": [[55, "-1"]], "is": "0 != 0"}
{"closed": 56}"#,
        ),
        &[
            ("\"exact-times\"", "\"loose\"", "keeps a divisor in a condition"),
            ("[51, 54]", "[54, 51]", "the fact 54 is not the condition `n != 0`"),
        ],
    ),
    (
        "rule for terms that may have no value",
        (&["min(a, b // c) == 1"], "min(b // c, a) == 1"),
        (
            r#"
{"id": [11, 12], "open": 0}
{"cases": 10}
{"case": [13]}
{"id": 14, "rewrite": 11, "with": [[13, "-1"]], "is": "0 != 0"}
{"closed": 14}
{"end": true}"#,
            r#"
{"id": [51, 52], "open": 0}
{"id": [53, 54], "open": 50}
{"id": 55, "rule": "min-swapped", "with": {"a": "a", "b": "b // c"}, "conditions": [], "is": "min(a, b // c) - min(b // c, a) == 0"}
{"id": 56, "rewrite": 54, "with": [[52, "-1"], [55, "1"]], "is": "0 != 0"}
{"closed": 56}"#,
        ),
        &[("\"b\": \"b // c\"", "\"b\": \"c // b\"", "the line gives")],
    ),
];

/// What binds the line of a solver to a statement.
pub(crate) fn hashed(hypotheses: &[&str], goal: &str) -> String {
    use sha2::{Digest, Sha256};
    let known: String = hypotheses.iter().map(|each| format!("{each}\n")).collect();
    let text = format!("{known}|- {goal}\n");
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
