//! Certificates for what statements open to.

use super::{DEFINED, Text};

/// Two parts without divisors have values: the first one, and the second where the first does not
/// decide.
const TWO_DEFINED: &str = r#"
{"cases": 10}
{"case": [11]}
{"closed": 11}
{"end": true}
{"case": [12, 13]}
{"closed": 13}
{"end": true}"#;

pub(super) const JOINED: &[Text] = &[
    (
        "and",
        (&["x >= 1 and y >= 1"], "x + y >= 2 and x >= 0"),
        (
            TWO_DEFINED,
            r#"
{"id": [51, 52], "open": 0}
{"id": [53], "open": 51}
{"id": [54], "open": 52}
{"cases": 50}
{"case": [55]}
{"id": [56], "open": 55}
{"id": 57, "lin": [[53, "1"], [54, "1"], [56, "1"]], "is": "-1 >= 0"}
{"closed": 57}
{"end": true}
{"case": [58, 59]}
{"id": [60], "open": 59}
{"id": 61, "lin": [[53, "1"], [60, "1"]], "is": "-2 >= 0"}
{"closed": 61}
{"end": true}"#,
        ),
        &[
            ("\"cases\": 50", "\"cases\": 0", "the fact 0 opens to facts, not to cases"),
            ("\"cases\": 50", "\"cases\": 53", "the fact 53 is no statement"),
            ("x >= 1 and y", "x >= 1 or y", "the fact 0 opens to cases, not to facts"),
            ("and x >= 0", "and x >= 4", "the line gives `2 >= 0`"),
            ("\"closed\": 13", "\"closed\": 12", "may be"),
        ],
    ),
    (
        "or",
        (&["x >= 1 or y >= 1 or False"], "x >= 1 or y >= 1"),
        (
            TWO_DEFINED,
            r#"
{"id": [51, 52], "open": 50}
{"id": [53], "open": 51}
{"id": [54], "open": 52}
{"cases": 0}
{"case": [55]}
{"cases": 55}
{"case": [56]}
{"id": [57], "open": 56}
{"id": 58, "lin": [[53, "1"], [57, "1"]], "is": "-1 >= 0"}
{"closed": 58}
{"end": true}
{"case": [59, 60]}
{"id": [61], "open": 60}
{"id": 62, "lin": [[54, "1"], [61, "1"]], "is": "-1 >= 0"}
{"closed": 62}
{"end": true}
{"end": true}
{"case": [63, 64]}
{"closed": 64}
{"end": true}"#,
        ),
        &[
            ("or False", "or True", "the fact 64, `a statement`, may be"),
            ("\"id\": [61], \"open\": 60", "\"id\": [61], \"open\": 59", "the line gives"),
            ("\"goal\": \"x >= 1 or", "\"goal\": \"x >= 1 and", "opens to cases, not to facts"),
        ],
    ),
    (
        "implies",
        (&["implies(x >= 1, y >= 1)", "y <= 0"], "implies(x >= 0, x == 0)"),
        (
            TWO_DEFINED,
            r#"
{"id": [51], "open": 1}
{"id": [52, 53], "open": 50}
{"id": [54], "open": 52}
{"id": [55], "open": 53}
{"cases": 0}
{"case": [56]}
{"id": [57], "open": 56}
{"id": 58, "both": [54, 57], "is": "x == 0"}
{"id": 59, "rewrite": 55, "with": [[58, "-1"]], "is": "0 != 0"}
{"closed": 59}
{"end": true}
{"case": [60, 61]}
{"id": [62], "open": 61}
{"id": 63, "lin": [[51, "1"], [62, "1"]], "is": "-1 >= 0"}
{"closed": 63}
{"end": true}"#,
        ),
        &[
            ("y <= 0", "y <= 1", "the line gives `0 >= 0`"),
            ("\"open\": 56", "\"open\": 61", "the fact 61 is not known here"),
            ("implies(x >= 1, y >= 1)", "implies(y >= 1, x >= 1)", "is not the fact"),
        ],
    ),
    (
        "a part that does not count need not have a value",
        (&["x >= y"], "y == 0 or x // y * y <= x // y * y"),
        (
            r#"
{"cases": 10}
{"case": [11]}
{"closed": 11}
{"end": true}
{"case": [12, 13]}
{"id": [14], "open": 12}
{"cases": 13}
{"case": [15]}
{"id": 16, "rewrite": 14, "with": [[15, "-1"]], "is": "0 != 0"}
{"closed": 16}
{"end": true}
{"case": [17, 18]}
{"id": 19, "rewrite": 14, "with": [[18, "-1"]], "is": "0 != 0"}
{"closed": 19}
{"end": true}
{"end": true}"#,
            r#"
{"id": [51, 52], "open": 50}
{"id": [53, 54, 55], "open": 52}
{"closed": 55}"#,
        ),
        &[
            ("y == 0 or", "y == 1 or", "the line gives"),
            ("y == 0 or", "y != 0 or", "the line gives `0 == 0`"),
        ],
    ),
];

pub(super) const NEGATED: &[Text] = &[
    (
        "not",
        (&["not x == 0"], "not x + x == x"),
        (
            r#"
{"id": [11], "open": 10}
{"closed": 11}"#,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 51}
{"id": [53], "open": 50}
{"id": [54], "open": 53}
{"id": 55, "rewrite": 52, "with": [[54, "-1"]], "is": "0 != 0"}
{"closed": 55}"#,
        ),
        &[
            ("not x == 0", "not x == 1", "the line gives `-1 != 0`"),
            ("not x == 0", "not not x == 0", "the fact 52 is a statement"),
        ],
    ),
    (
        "True and False",
        (&["True", "False"], "x == 1"),
        (
            DEFINED,
            r#"
{"id": [], "open": 0}
{"closed": 1}"#,
        ),
        &[
            ("\"False\"", "\"True\"", "the fact 1, `a statement`, may be"),
            ("\"open\": 0", "\"open\": 1", "the fact 1 opens to cases, not to facts"),
            ("{\"closed\": 1}", "{\"cases\": 1}", "the fact 1 opens to no cases: close it"),
        ],
    ),
    (
        "comparisons that fail",
        (&["not x != 0", "not x < 0", "not x >= y"], "y >= 1"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 51}
{"id": [53], "open": 1}
{"id": [54], "open": 53}
{"id": [55], "open": 2}
{"id": [56], "open": 55}
{"id": [57], "open": 50}
{"id": 58, "lin": [[52, "1"], [56, "1"], [57, "1"]], "is": "-1 >= 0"}
{"closed": 58}"#,
        ),
        &[
            ("not x >= y", "not x > y", "the line gives `0 >= 0`"),
            ("not x != 0", "not x == 0", "which adds nothing"),
        ],
    ),
];

pub(super) const DIVISIONS: &[Text] = &[
    (
        "divides that holds",
        (&["divides(4, x)"], "x % 2 == 0"),
        (
            DEFINED,
            r#"
{"id": [51, 52], "open": 0}
{"id": [53], "open": 50}
{"id": 54, "quotient": "x // 2", "part": "low", "is": "x - 2 * (x // 2) >= 0"}
{"id": 55, "quotient": "x // 2", "part": "high", "is": "1 - x + 2 * (x // 2) >= 0"}
{"id": 56, "lin": [[52, "-1"], [54, "1"]], "is": "4 * (x // 4) - 2 * (x // 2) >= 0"}
{"id": 57, "lin": [[52, "1"], [55, "1"]], "is": "1 - 4 * (x // 4) + 2 * (x // 2) >= 0"}
{"id": 58, "divide": 56, "by": "2", "is": "2 * (x // 4) - x // 2 >= 0"}
{"id": 59, "divide": 57, "by": "2", "is": "x // 2 - 2 * (x // 4) >= 0"}
{"id": 60, "both": [58, 59], "is": "2 * (x // 4) - x // 2 == 0"}
{"id": 61, "rewrite": 53, "with": [[52, "-1"], [60, "-2"]], "is": "0 != 0"}
{"closed": 61}"#,
        ),
        &[
            ("divides(4, x)", "divides(5, x)", "the line gives"),
            ("x % 2 == 0", "x % 3 == 0", "the line gives"),
            ("[60, \"-2\"]", "[60, \"2\"]", "the line gives"),
            ("[51, 52]", "[52]", "1 numbers for 2 facts"),
        ],
    ),
    (
        "divides that fails",
        (&["x % n == 0"], "divides(n, x)"),
        (
            DEFINED,
            r#"
{"id": [51, 52], "open": 0}
{"cases": 50}
{"case": [53]}
{"id": 54, "rewrite": 51, "with": [[53, "-1"]], "is": "0 != 0"}
{"closed": 54}
{"end": true}
{"case": [55, 56]}
{"id": 57, "rewrite": 56, "with": [[52, "-1"]], "is": "0 != 0"}
{"closed": 57}
{"end": true}"#,
        ),
        &[
            ("divides(n, x)", "divides(x, n)", "the line gives"),
            ("x % n == 0", "x // n == 0", "the line gives"),
        ],
    ),
    (
        "ceildiv",
        (&["ceildiv(x, 3) == 2"], "x >= 4 and x > 3"),
        (
            TWO_DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": 52, "quotient": "(0 - x) // 3", "part": "high", "is": "2 + x + 3 * ((0 - x) // 3) >= 0"}
{"id": 53, "lin": [[51, "3"], [52, "1"]], "is": "x - 4 >= 0"}
{"cases": 50}
{"case": [54]}
{"id": [55], "open": 54}
{"id": 56, "lin": [[53, "1"], [55, "1"]], "is": "-1 >= 0"}
{"closed": 56}
{"end": true}
{"case": [57, 58]}
{"id": [59], "open": 58}
{"id": 60, "lin": [[53, "1"], [59, "1"]], "is": "-1 >= 0"}
{"closed": 60}
{"end": true}"#,
        ),
        &[
            ("ceildiv(x, 3) == 2", "ceildiv(x, 3) == 1", "the line gives"),
            ("x > 3", "x > 4", "the line gives `0 >= 0`"),
        ],
    ),
];
