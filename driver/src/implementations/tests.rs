//! Implementations that are equal, nearly equal, different, and such as do not fit.

use super::*;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::passes::alter_op_impl::{Alterations, PASS, candidates};
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_rewrite::verify::{self, verify};
use relax_syntax::span::Source;

/// Twice each element, by rows and by columns, and once with the sum of each row.
const PROGRAMS: &str = r#"
@tensorir_function
def twice(X: Buffer(("n", "m"), "f32"), Y: Buffer(("n", "m"), "f32")):
    func_attr("operator_name", "my.twice")
    for i, j in grid(n, m):
        Y[i, j] = X[i, j] + X[i, j]

@tensorir_function
def by_columns(X: Buffer(("n", "m"), "f32"), Y: Buffer(("n", "m"), "f32")):
    for j, i in grid(m, n):
        Y[i, j] = X[i, j] * 2.0

@tensorir_function
def with_sums(X: Buffer(("n", "m"), "f32"), Y: Buffer(("n", "m"), "f32"), S: Buffer(("n",), "f32")):
    for i in range(n):
        S[i] = 0.0
        for j in range(m):
            Y[i, j] = X[i, j] + X[i, j]
            S[i] += X[i, j]

@tensorir_function
def times(X: Buffer(("n", "m"), "f32"), Y: Buffer(("n", "m"), "f32"), k: int):
    for i, j in grid(n, m):
        Y[i, j] = X[i, j] * f32(k)
"#;

const MAIN: &str = r#"
def main(x: Tensor(("n", "m"), "f32")):
    return call_tir(twice, [x], Tensor((n, m), "f32"))
"#;

/// An implementation of `twice` by an operator.
const OWN: &str = r#"
def own(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "twice")
    return add(a, a)
"#;

fn effort(relation: Relation) -> Effort {
    Effort { cases: 20, seed: 1, relation, trust: Trust::Rules }
}

/// What became of each candidate, by the words of this test, and the program after the pass.
fn altered(text: &str, relation: Relation) -> (Vec<String>, String) {
    let program = Program::load(Source::new("test.rx", format!("{text}\n{PROGRAMS}")));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let checked = check(&program.module, &mut Prover::new(), Phase::P0);
    let (mut words, mut alterations) = (Vec::new(), Alterations::new());
    for candidate in candidates(&program.module).pairs {
        let judgement = judged(&checked, &candidate, &BTreeMap::new(), effort(relation))
            .expect("it reads back");
        let (word, is_used) = match judgement {
            Judgement::Proved => ("proved".to_owned(), true),
            Judgement::Tested(..) => ("tested".to_owned(), true),
            Judgement::Different(..) => ("different".to_owned(), false),
            Judgement::Refuted(why) => (format!("refuted: {why}"), false),
            Judgement::Unfit(why) => (why, false),
            Judgement::Nothing(why) => (format!("nothing: {why}"), false),
        };
        words.push(word);
        if is_used {
            alterations.entry(candidate.of).or_insert(candidate.by);
        }
    }
    let settings = Settings { alterations, ..Settings::default() };
    let route = Route::Passes(vec![&PASS]);
    let result = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched);
    let after = result.unwrap_or_else(|failed| panic!("{failed:?}"));
    let effort = verify::Effort { cases: 20, seed: 2 };
    let tally = verify(&program.module, &after, Exactness::Reals, effort, &BTreeMap::new());
    let tally = tally.unwrap_or_else(|difference| panic!("{difference}"));
    assert!(tally.compared > 0, "{tally}");
    (words, print(&after))
}

/// The lines of `main` with calls.
fn main_of(text: &str) -> String {
    let own = text.split("def ").find(|part| part.starts_with("main(")).expect("it has main");
    let calls = own.lines().filter(|line| line.contains(" = "));
    calls
        .map(|line| line.split_once(" = ").map_or("", |(_, call)| call))
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn equal_implementations_take_the_place() {
    let layouts = r#"
def own(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "my.twice")
    return permute_dims(call_tir(by_columns, [permute_dims(a)], Tensor((q, p), "f32")))
"#;
    let (words, text) = altered(&format!("{MAIN}{layouts}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert_eq!(main_of(&text), "own(x)");
    assert!(!text.contains("def twice("), "{text}");

    let program = PROGRAMS.replace("def by_columns(", "def by_rows(");
    let program = program.split("@tensorir_function").nth(2).expect("the second program");
    let marked =
        program.replacen("    for j", "    func_attr(\"implements\", \"twice\")\n    for j", 1);
    let (words, text) = altered(&format!("{MAIN}\n@tensorir_function{marked}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert_eq!(main_of(&text), r#"call_tir(by_rows, [x], Tensor((n, m), "f32"))"#);
}

#[test]
fn every_call_is_found() {
    let main = r#"
def main(x: Tensor(("n", "m"), "f32"), c: Tensor((), "bool")):
    if c:
        y = call_tir(twice, [x], Tensor((n, m), "f32"))
    else:
        with dataflow():
            a = call_tir(twice, [x], Tensor((n, m), "f32"))
            b = call_tir(twice, [a], Tensor((n, m), "f32"))
            output(b)
        y = b
    return y
"#;
    let (words, text) = altered(&format!("{main}{OWN}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert_eq!(main_of(&text), "own(x); own(x); own(a); b");
}

#[test]
fn several_results_are_a_tuple() {
    let main = r#"
def main(x: Tensor(("n", "m"), "f32")):
    t = call_tir(with_sums, [x], [Tensor((n, m), "f32"), Tensor((n,), "f32")])
    return (t[1], t[0])

def own(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "with_sums")
    sums = call_tir(with_sums, [a], [Tensor((p, q), "f32"), Tensor((p,), "f32")])
    return (add(a, a), sums[1])
"#;
    let (words, text) = altered(main, Relation::Equal);
    assert_eq!(words, ["proved"]);
    // The implementation calls what it implements, as before.
    assert_eq!(main_of(&text), "own(x); t[1]; t[0]");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("call_tir( with_sums, [a]"), "{text}");
}

#[test]
fn a_helper_of_an_implementation_stays_as_it_is() {
    let main = r#"
def helper(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    return call_tir(twice, [a], Tensor((p, q), "f32"))

def own(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "twice")
    return helper(a)
"#;
    let (words, text) = altered(&format!("{MAIN}{main}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert_eq!(main_of(&text), "own(x)");
    assert!(text.contains("call_tir(twice, [a]"), "{text}");
}

#[test]
fn what_differs_or_does_not_fit_stays() {
    let own = |header: &str, body: &str| {
        format!(
            "{MAIN}\ndef own({header}):\n    func_attr(\"private\", True)\n    func_attr(\"implements\", \"twice\")\n{body}"
        )
    };
    let any = r#"a: Tensor(("p", "q"), "f32")"#;
    let cases = [
        // NaN, and a -0.0 that becomes 0.0.
        (any, "    return add(add(a, a), multiply(a, const(0.0, \"f32\")))\n", "different"),
        (any, "    return add(a, add(a, a))\n", "different"),
        (r#"a: Tensor(("p",), "f32")"#, "    return add(a, a)\n", "rank"),
        (r#"a: Tensor(("p", "q"), "f64")"#, "    return add(a, a)\n", "f64"),
        (r#"a: Tensor(("p", "p"), "f32")"#, "    return add(a, a)\n", "not known for all dims"),
        (any, "    q = sym_var(lower_bound=1)\n    return add(a, a)\n", "not known for all dims"),
        (any, "    return permute_dims(add(a, a))\n", "different"),
        (any, "    return astype(add(a, a), \"f64\")\n", "different"),
    ];
    for (header, body, expected) in cases {
        let (words, text) = altered(&own(header, body), Relation::Equal);
        let [word] = words.as_slice() else { panic!("{words:?}") };
        assert!(word.contains(expected), "{header} {body}: {word}");
        assert!(main_of(&text).starts_with("call_tir(twice"), "{text}");
    }
}

#[test]
fn sums_in_another_order_are_tested_only() {
    let main = r#"
def main(x: Tensor(("n", "m"), "f32")):
    t = call_tir(with_sums, [x], [Tensor((n, m), "f32"), Tensor((n,), "f32")])
    return t[1]

@tensorir_function
def backwards(X: Buffer(("n", "m"), "f32"), Y: Buffer(("n", "m"), "f32"), S: Buffer(("n",), "f32")):
    func_attr("implements", "with_sums")
    for i in range(n):
        S[i] = 0.0
        for j in range(m):
            Y[i, m - 1 - j] = X[i, m - 1 - j] + X[i, m - 1 - j]
            S[i] += X[i, m - 1 - j]
"#;
    assert_eq!(altered(main, Relation::Close).0, ["tested"]);
    assert_eq!(altered(main, Relation::Equal).0, ["different"]);
}

#[test]
fn calls_that_pass_integers_stay() {
    let main = r#"
def main(x: Tensor(("n", "m"), "f32")):
    return call_tir(times, [x], Tensor((n, m), "f32"), sym_args=[n])

def own(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "times")
    return a
"#;
    let (words, text) = altered(main, Relation::Equal);
    assert!(words[0].contains("integers"), "{words:?}");
    assert!(main_of(&text).starts_with("call_tir(times"), "{text}");
}

#[test]
fn calls_with_checks_of_their_own_stay() {
    let main = r#"
def main(x: Tensor(("n", "m"), "f32"), k: Shape(["u", "v"])):
    u = sym_var()
    v = sym_var()
    y = match_cast(reshape(x, shape(u, v)), Tensor((u, v), "f32"))
    return call_tir(twice, [y], Tensor((n, v), "f32"))
"#;
    let (words, text) = altered(&format!("{main}{OWN}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert!(main_of(&text).contains("call_tir(twice"), "{text}");
}

/// `twice` stays for the call whose operands are checked when the program runs, although nothing calls that function.
#[test]
fn what_an_unreached_function_calls_stays() {
    let unreached = r#"
def lonely(x: Tensor(("n", "m"), "f32"), k: Shape(["u", "v"])):
    func_attr("private", True)
    u = sym_var()
    v = sym_var()
    y = match_cast(reshape(x, shape(u, v)), Tensor((u, v), "f32"))
    return call_tir(twice, [y], Tensor((n, v), "f32"))
"#;
    let (words, text) = altered(&format!("{MAIN}{unreached}{OWN}"), Relation::Equal);
    assert_eq!(words, ["proved"]);
    assert!(text.contains("call_tir(twice") && text.contains("= own(x)"), "{text}");
}

#[test]
fn the_first_that_fits_is_taken() {
    let main = r#"
def narrow(a: Tensor(("p", 4), "f32")):
    func_attr("private", True)
    func_attr("implements", "twice")
    return add(a, a)

def wide(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "twice")
    return add(a, a)

def unused(a: Tensor(("p", "q"), "f32")):
    func_attr("private", True)
    func_attr("implements", "nothing")
    return add(a, a)
"#;
    let (words, text) = altered(&format!("{MAIN}{main}"), Relation::Equal);
    assert!(words[0].contains("not known") && words[1] == "proved", "{words:?}");
    assert_eq!(main_of(&text), "wide(x)");
}
