//! Each part of a certificate that is another one, left out or in another place is refused, and the reason is told.

use super::header;
use relax_lower::certify::certified;
use relax_validation::check::{Verified, is_compilation, verify};
use relax_validation::derive::{Stage, hash};

/// A function with a plan of memory and a kernel that is not proved, before and after a pass.
const BEFORE: &str = r#"
def main(x: Tensor(("n",), "f32")):
    n = sym_var()
    s = memory.alloc_storage(shape(2 * n), "f32")
    a = memory.alloc_tensor(s, shape(n), "f32")
    b = memory.alloc_tensor(s, shape(n), "f32", offset=n * 4)
    shifted(x, a)
    shifted(a, b)
    return reshape(b, shape(n + n - n))

@tensorir_function
def shifted(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i + 1]
"#;

fn certificate() -> String {
    let after =
        BEFORE.replace("return reshape(b, shape(n + n - n))", "return reshape(b, shape(n))");
    let stages = [("input", BEFORE), ("some_pass", &after)];
    let stages = stages.map(|(name, text)| Stage::read(name, text).expect("it reads"));
    certified(header(), stages.into()).text()
}

/// What is another one, and what is said of it.
const PARTS: [(&str, &str, &str); 13] = [
    ("\"version\": 1,", "\"version\": 2,", "line 1: it is no certificate of a compilation"),
    ("\"compilation\"", "\"other\"", "line 1: it is no certificate of a compilation"),
    ("\"tested\": 0", "\"tested\": -1", "line 1: the header has a value of another kind"),
    ("\"route\": \"P2.1\"", "\"route\": 1", "line 1: the header has a value of another kind"),
    (", \"tested\": 0", "", "line 1: it is no header"),
    ("\"tested\": 0", "\"tested\": 0, \"more\": 0", "line 1: it is no header"),
    ("\"stage\": \"input\"", "\"stage\": \"given\"", "line 1: the hashes of input and output"),
    ("\"stage\": \"some_pass\"", "\"stage\": 1", "line 3: a stage has a name and a text"),
    ("range(n)", "range(m)", "the text of stage `input` is wrong"),
    ("range(n)", "range(n - 1)", "line 2: the hash is not that of the text"),
    ("{\"summary\"", "{\"sum\"", "the next line is not the summary"),
    ("\"outcome\": \"unproved\"", "\"outcome\": 1", "an obligation and its outcome are texts"),
    ("\"outcome\": \"unproved\"", "\"outcome\": \"proved (z3)\"", "what is derived"),
];

#[test]
fn another_part_is_refused_with_a_reason() {
    let text = certificate();
    let verified = verify(&text, None).expect("it is accepted as it is written");
    assert_eq!((verified.header.clone(), verified.input.as_str()), (header(), BEFORE));
    assert_eq!(verified.claims, text.matches("\"relax\": \"certificate\"").count());
    for (from, to, why) in PARTS {
        let forged = text.replacen(from, to, 1);
        assert_ne!(forged, text, "{from}");
        refused(&forged, why);
    }
    let (input, output) = (hash(&verified.input), hash(&verified.output));
    let swapped = text.replacen(&input, &output, 1);
    refused(&swapped, "line 1: the hashes of input and output");
    let swapped = text.replacen(&output, &input, 1);
    refused(&swapped, "line 1: the hashes of input and output");
    assert!(verify(&text, Some(&verified.output)).is_ok());
    let other = verify(&text, Some(&verified.input)).map(|_| ());
    assert_eq!(other, Err("the program is not the one that the certificate is about".to_owned()));
    assert!(is_compilation(&text) && !is_compilation("{}") && !is_compilation(""));
}

#[test]
fn lines_that_are_gone_or_too_many_are_refused() {
    let text = certificate();
    let lines: Vec<&str> = text.lines().collect();
    let proofs = lines.iter().position(|line| line.starts_with("{\"relax\": \"certificate\""));
    let proofs = proofs.expect("something is proved");
    refused(&lines[..proofs].join("\n"), "is not proved, and the certificate does not say so");
    refused("", "line 1: it is no header");
    refused(&lines[proofs..].join("\n"), "line 1: it is no header");
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines.insert(at, line);
        lines.join("\n")
    };
    let place = format!("line {}: ", proofs + 1);
    refused(&with(proofs, "{}"), &format!("{place}a line of this form does not stand here"));
    refused(&with(proofs, "{"), &format!("{place}it is no JSON"));
    refused(&with(1, lines[0]), "it has no stage");
    let summary = lines.iter().position(|line| line.starts_with("{\"summary\""));
    let summary = summary.expect("there is a summary");
    let more = "{\"obligation\": \"pass: main: more\", \"outcome\": \"unproved\"}";
    refused(&with(summary, more), "does not say of its obligations what is derived");
    for claim in ["\"values\": {\"n\": \"1\"}", "\"values\": 1"] {
        let line = format!("{{\"refuted\": \"n <= 1\", {claim}}}");
        refused(&with(summary + 1, &line), "a refuted claim has values");
    }
    for rest in [
        "\"is\": [\"&\", 1, 2], \"given\": []",
        "\"is\": 1, \"given\": [1]",
        "\"is\": true, \"given\": []",
    ] {
        let line = format!("{{\"simplify\": \"n\", {rest}}}");
        refused(&with(summary + 1, &line), "a simplification has a dim and what it rests on");
    }
    for at in 0..summary {
        let mut fewer = lines.clone();
        let line = fewer.remove(at);
        assert!(verify(&fewer.join("\n"), None).is_err(), "without {line}");
    }
}

/// Without a proof, or with one of something else, nothing more is shown; most proofs are needed.
#[test]
fn other_proofs_show_no_more() {
    let text = certificate();
    let whole = verify(&text, None).expect("it is accepted as it is written");
    let begin = "{\"relax\": \"certificate\"";
    let (head, proofs) = text.split_at(text.find(begin).expect("something is proved"));
    let proofs: Vec<String> =
        proofs.split(begin).skip(1).map(|proof| format!("{begin}{proof}")).collect();
    let mut needed = 0;
    for at in 0..proofs.len() {
        let mut others = proofs.clone();
        let proof = others.remove(at);
        match verify(&format!("{head}{}", others.concat()), None) {
            Ok(verified) => assert_eq!(ends(&verified), ends(&whole)),
            Err(_) => needed += 1,
        }
        for (from, to) in [(" <= ", " < "), (" >= ", " > "), ("\"goal\": \"", "\"goal\": \"1 + ")] {
            let other = proof.replacen(from, to, 1);
            if other != proof {
                others.insert(at, other);
                let outcome = verify(&format!("{head}{}", others.concat()), None);
                assert!(outcome.is_err(), "{from} is {to} in {proof}");
                others.remove(at);
            }
        }
    }
    assert!(needed * 2 > proofs.len(), "{needed} of {}", proofs.len());
}

/// How each obligation ended, without the reasons.
fn ends(verified: &Verified) -> Vec<(String, &'static str)> {
    let each = verified.obligations.iter();
    each.map(|obligation| (obligation.to_string(), obligation.outcome.word())).collect()
}

fn refused(text: &str, why: &str) {
    match verify(text, None) {
        Ok(_) => panic!("it is accepted, and not refused because {why}"),
        Err(found) => assert!(found.contains(why), "{found} is not {why}"),
    }
}
