//! Certificates for the lines that divide a branch.

use super::{DEFINED, Text};

pub(super) const SAMPLES: &[Text] = &[
    (
        "split",
        (&[], "x * x >= x"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 50}
{"split": "x - 1"}
{"case": [52]}
{"id": 53, "lin": [[52, "1"]], "plus": "1", "is": "x >= 0"}
{"id": 54, "times": [52, 53], "is": "x * x - x >= 0"}
{"id": 55, "lin": [[51, "1"], [54, "1"]], "is": "-1 >= 0"}
{"closed": 55}
{"end": true}
{"case": [56]}
{"id": 57, "square": "x", "is": "x * x >= 0"}
{"id": 58, "lin": [[51, "1"], [56, "1"], [57, "1"]], "is": "-1 >= 0"}
{"closed": 58}
{"end": true}"#,
        ),
        &[
            ("\"split\": \"x - 1\"", "\"split\": \"x\"", "the line gives"),
            ("[56, \"1\"]", "[52, \"1\"]", "the fact 52 is not known here"),
            ("\"closed\": 58", "\"closed\": 55", "the fact 55 is not known here"),
            ("{\"closed\": 58}\n{\"end\": true}\n", "{\"closed\": 58}\n", "ends before its proof"),
            ("{\"case\": [56]}", "{\"end\": true}", "the key `case` is missing"),
            ("{\"split\": \"x - 1\"}\n", "", "neither a derivation nor the end"),
        ],
    ),
    (
        "lemma",
        (&["2 * x >= 7"], "x * x >= 16"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"id": 53, "lemma": "x - 4 >= 0", "case": [54]}
{"id": 55, "lin": [[51, "1"], [54, "2"]], "is": "-1 >= 0"}
{"closed": 55}
{"end": true}
{"id": 56, "times": [53, 53], "is": "x * x - 8 * x + 16 >= 0"}
{"id": 57, "lin": [[52, "1"], [53, "8"], [56, "1"]], "is": "-1 >= 0"}
{"closed": 57}"#,
        ),
        &[
            ("[51, \"1\"], [54, \"2\"]", "[51, \"1\"], [53, \"2\"]", "53 is not known here"),
            ("[53, 53]", "[53, 54]", "the fact 54 is not known here"),
            ("\"id\": 53", "\"id\": 55", "the number 54 does not rise: it must be 56"),
            ("\"x - 4 >= 0\"", "\"x - 5 >= 0\"", "the line gives `1 >= 0`"),
            ("\"x - 4 >= 0\"", "\"x - 4 != 0\"", "a lemma must be `>= 0`"),
            ("{\"closed\": 55}\n{\"end\": true}\n", "", "the fact 53 is not known here"),
            ("{\"closed\": 55}\n", "", "neither a derivation nor the end"),
            ("\"case\": [54]", "\"case\": []", "0 numbers for 1 facts"),
        ],
    ),
    (
        "sides",
        (&["x != 0"], "x * x >= 1"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 50}
{"sides": 51}
{"case": [53]}
{"id": 54, "times": [53, 53], "is": "x * x - 2 * x + 1 >= 0"}
{"id": 55, "lin": [[52, "1"], [53, "2"], [54, "1"]], "is": "-1 >= 0"}
{"closed": 55}
{"end": true}
{"case": [56]}
{"id": 57, "times": [56, 56], "is": "x * x + 2 * x + 1 >= 0"}
{"id": 58, "lin": [[52, "1"], [56, "2"], [57, "1"]], "is": "-1 >= 0"}
{"closed": 58}
{"end": true}"#,
        ),
        &[
            ("\"sides\": 51", "\"sides\": 52", "the fact 52 is not `!= 0`"),
            ("\"x != 0\"", "\"x != 1\"", "the line gives"),
        ],
    ),
    (
        "choose",
        (&["max(x, y, z) >= 5", "x <= 4", "y <= 4"], "z >= 5"),
        (
            DEFINED,
            r#"
{"id": [51], "open": 0}
{"id": [52], "open": 1}
{"id": [53], "open": 2}
{"id": [54], "open": 50}
{"choose": "max(x, y, z)"}
{"case": [60]}
{"id": 61, "lin": [[51, "1"], [52, "1"], [60, "-1"]], "is": "-1 >= 0"}
{"closed": 61}
{"end": true}
{"case": [62]}
{"id": 63, "lin": [[51, "1"], [53, "1"], [62, "-1"]], "is": "-1 >= 0"}
{"closed": 63}
{"end": true}
{"case": [64]}
{"id": 65, "lin": [[51, "1"], [54, "1"], [64, "-1"]], "is": "-1 >= 0"}
{"closed": 65}
{"end": true}"#,
        ),
        &[
            ("\"choose\": \"max(x, y, z)\"", "\"choose\": \"max(x, y)\"", "the line gives"),
            ("\"choose\": \"max(x, y, z)\"", "\"choose\": \"x\"", "no `min` or `max`"),
            ("y <= 4", "y <= 5", "the line gives"),
        ],
    ),
];
