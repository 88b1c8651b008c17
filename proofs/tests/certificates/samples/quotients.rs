//! Certificates for quotients and for terms without a value.

use super::{DEFINED, Text};

pub(super) const SAMPLES: &[Text] = &[
    (
        "quotient by a constant above 0",
        (&[], "x - 4 * (x // 4) <= 3"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"id": 52, "quotient": "x // 4", "part": "high", "is": "3 - x + 4 * (x // 4) >= 0"}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "-1 >= 0"}
{"closed": 53}"#,
        ),
        &[
            ("\"high\"", "\"low\"", "the line gives"),
            ("\"high\"", "\"middle\"", "`part` must be `low` or `high`"),
            ("\"high\", ", "\"high\", \"sign\": 51, ", "the key `sign` does not belong here"),
            ("\"quotient\": \"x // 4\"", "\"quotient\": \"x\"", "`x` is no quotient"),
            ("\"quotient\": \"x // 4\"", "\"quotient\": \"x // 0\"", "`sign` is missing"),
            ("<= 3", "<= 2", "the line gives"),
        ],
    ),
    (
        "quotient by a constant below 0",
        (&[], "x % -4 <= 0"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"id": 52, "quotient": "x // -4", "part": "low", "is": "-x - 4 * (x // -4) >= 0"}
{"id": 53, "lin": [[51, "1"], [52, "1"]], "is": "-1 >= 0"}
{"closed": 53}"#,
        ),
        &[
            ("\"low\"", "\"high\"", "the line gives `4 * ((x) // (-4)) + x + 3 >= 0`"),
            ("x % -4", "x % 4", "the line gives"),
        ],
    ),
    (
        "quotient by a term above 0",
        (&["n >= 1"], "x % n < n"),
        (
            r#"
{"id": [11], "open": 0}
{"cases": 10}
{"case": [12]}
{"id": 13, "lin": [[11, "1"], [12, "-1"]], "is": "-1 >= 0"}
{"closed": 13}
{"end": true}"#,
            r#"
{"id": [51], "open": 0}
{"id": [52, 53], "open": 50}
{"id": 54, "quotient": "x // n", "part": "high", "sign": 51, "is": "n - 1 - x + n * (x // n) >= 0"}
{"id": 55, "lin": [[53, "1"], [54, "1"]], "is": "-1 >= 0"}
{"closed": 55}"#,
        ),
        &[
            ("\"sign\": 51", "\"sign\": 53", "the fact 53 is not on the sign of the divisor"),
            ("\"sign\": 51", "\"sign\": 52", "the fact 52 is not `>= 0`"),
            ("\"sign\": 51, ", "", "the key `sign` is missing"),
            ("n >= 1", "n >= 0", "the line gives"),
            ("[52, 53]", "[52]", "1 numbers for 2 facts"),
            ("\"cases\": 10", "\"closed\": 10", "the fact 10, `a statement`, may be"),
        ],
    ),
    (
        "quotient by a term below 0",
        (&["n <= -1"], "x % n > n"),
        (
            r#"
{"id": [11], "open": 0}
{"cases": 10}
{"case": [12]}
{"id": 13, "lin": [[11, "1"], [12, "1"]], "is": "-1 >= 0"}
{"closed": 13}
{"end": true}"#,
            r#"
{"id": [51], "open": 0}
{"id": [52, 53], "open": 50}
{"id": 54, "quotient": "x // n", "part": "high", "sign": 51, "is": "x - n * (x // n) - n - 1 >= 0"}
{"id": 55, "lin": [[53, "1"], [54, "1"]], "is": "-1 >= 0"}
{"closed": 55}"#,
        ),
        &[("n <= -1", "n <= 1", "the line gives"), ("\"high\"", "\"low\"", "the line gives")],
    ),
    (
        "undefined: the first divisor that is 0",
        (&["a >= 1", "b >= 1"], "x // a // b <= x // a // b"),
        (
            r#"
{"id": [11], "open": 0}
{"id": [12], "open": 1}
{"cases": 10}
{"case": [13]}
{"id": 14, "lin": [[11, "1"], [13, "-1"]], "is": "-1 >= 0"}
{"closed": 14}
{"end": true}
{"case": [15, 16]}
{"id": 17, "lin": [[12, "1"], [16, "-1"]], "is": "-1 >= 0"}
{"closed": 17}
{"end": true}
{"case": [18, 19, 20]}
{"id": 21, "rewrite": 18, "with": [[20, "-1"]], "is": "0 != 0"}
{"closed": 21}
{"end": true}
{"case": [22, 23, 24, 25]}
{"id": 26, "rewrite": 23, "with": [[25, "-1"]], "is": "0 != 0"}
{"closed": 26}
{"end": true}"#,
            r#"
{"id": [51, 52, 53, 54, 55], "open": 50}
{"closed": 55}"#,
        ),
        &[
            ("[15, 16]", "[16]", "1 numbers for 2 facts"),
            ("[[12, \"1\"], [16", "[[12, \"1\"], [15", "which adds nothing"),
            ("a >= 1", "a >= 0", "the line gives"),
        ],
    ),
];
