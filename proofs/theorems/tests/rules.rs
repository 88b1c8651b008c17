//! Every rule is proved as `rules.lock` says, holds in the interpreter, and has mutants, none of which is
//! proved. `RELAX_BLESS=1` writes the lock.

use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_theorems::rules::{self, Refusal, Rule, Status, Verdict};

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

fn proved(rule: &Rule) -> Status {
    rules::prove(rule, &mut prover)
}

/// What has no proof and no counterexample counts as tested.
fn status(rule: &Rule) -> Status {
    match proved(rule) {
        Status::Unproved(why) => {
            eprintln!("{}: {why}", rule.name);
            let found = rules::evaluate(rule);
            if found.difference.is_none() { Status::Tested } else { Status::Unproved(why) }
        }
        status => status,
    }
}

#[test]
fn rules_are_proved_as_the_lock_says() {
    let proved: Vec<(Rule, Status)> = rules::all()
        .into_iter()
        .map(|rule| {
            let status = status(&rule);
            (rule, status)
        })
        .collect();
    let text = rules::lock_text(&proved);
    if std::env::var_os("RELAX_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/rules/rules.lock");
        std::fs::write(path, &text).expect("the lock can be written");
        return;
    }
    for (rule, status) in &proved {
        assert_eq!(rules::status_of(rule).word(), status.word(), "{}: {status:?}", rule.name);
    }
    assert_eq!(rules::locked().len(), proved.len(), "the lock has lines of rules that are gone");
}

#[test]
fn rules_hold_in_the_interpreter() {
    for rule in rules::all() {
        let found = rules::evaluate(&rule);
        assert_eq!(found.difference, None, "{}", rule.name);
        assert!(found.equal > 0, "{}: no case", rule.name);
    }
}

#[test]
fn mutants_are_refused() {
    let (mut refused, mut problems) = (0, Vec::new());
    for rule in rules::all() {
        let mutants = rules::mutants(&rule);
        let mut wrong = 0;
        for mutant in &mutants {
            let Some(why) = rules::evaluate(mutant).difference else { continue };
            wrong += 1;
            if proved(mutant).is_proved() {
                problems.push(format!("{}: {:?} is proved, but {why}", rule.name, mutant.right));
            }
        }
        refused += wrong;
        if wrong == 0 {
            problems.push(format!("{}: none of {} mutants is wrong", rule.name, mutants.len()));
        }
    }
    eprintln!("{refused} mutants are wrong, and refused");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Neighbours that people take for rules: wrong in the interpreter, and without a proof.
#[test]
fn false_rules_are_refused() {
    let rules = rules::read_rules("refused", include_str!("../rules/refused.rx"));
    let (mut problems, rules) = (Vec::new(), rules.expect("the false rules are well-formed"));
    for rule in &rules {
        if proved(rule).is_proved() {
            problems.push(format!("{} is proved", rule.name));
        }
        if rules::evaluate(rule).difference.is_none() {
            problems.push(format!("{}: no difference was found", rule.name));
        }
    }
    assert!(rules.len() >= 60, "{} false rules", rules.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn what_is_no_rule_is_refused_with_its_place() {
    let text = |left: &str| {
        format!(
            "@rewrite_rule(\"exact\", reason=\"r\")\ndef a(x: Tensor((\"*s\",), \"float\")):\n    \
             left = {left}\n    right = x\n"
        )
    };
    let wrong = |left: &str| match rules::read_rules("f", &text(left)) {
        Ok(_) => String::new(),
        Err(found) => found.join("\n"),
    };
    assert_eq!(wrong("exq(x)"), "f.rx:3: `exq` is no operator");
    assert_eq!(wrong("softmax(x, axs=1)"), "f.rx:3: `softmax`: it has no parameter `axs`");
    assert_eq!(wrong("exp(y)"), "f.rx:3: there is no tensor `y` in this rule");
    assert_eq!(
        wrong("astype(x, \"floot\")"),
        "f.rx:3: `floot` is no dtype and none of the classes float, int, uint, number, bool, any"
    );
    assert_eq!(wrong("exp(x)"), "");
}

/// What is said of a rule of somebody else.
fn verdict(text: &str) -> Verdict {
    let rules = rules::read_rules("mine", text).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    rules::judge(&rules[0], &mut prover)
}

fn rule(head: &str, params: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("@rewrite_rule({head}, reason=\"r\")\ndef mine({params}):\n{lines}")
}

const MATRIX: &str = "x: Tensor((\"m\", \"n\"), \"f32\")";

#[test]
fn rules_of_others_are_judged() {
    let said = |head: &str, params: &str, lines: &[&str]| match verdict(&rule(head, params, lines))
    {
        Verdict::Proved(status) => status.to_string(),
        Verdict::Tested(..) => "tested".to_owned(),
        Verdict::Refused(refusal) => refusal.to_string(),
    };
    let transposed = ["left = permute_dims(permute_dims(x))", "right = x"];
    assert_eq!(said("\"exact\"", MATRIX, &transposed), "proved");
    let undetermined = ["left = relu(x)", "right = reshape(relu(x), (k, m))"];
    assert_eq!(
        said("\"exact\"", MATRIX, &undetermined),
        "its right side mentions `k`, which its left side does not determine"
    );
    assert_eq!(
        said("\"exact\"", MATRIX, &["left = x", "right = relu(relu(x))"]),
        "its left side is no call, so it would be found everywhere"
    );
    let contradictory = ["where = [m >= 3, m < n, n <= 2]", "left = relu(x)", "right = exp(x)"];
    assert_eq!(
        said("\"exact\"", MATRIX, &contradictory),
        "its conditions contradict each other: it says nothing of any dims"
    );
    assert_eq!(
        said("\"exact\"", MATRIX, &["where = [k >= 1]", "left = relu(relu(x))", "right = relu(x)"]),
        "its conditions mention `k`, which no operand determines"
    );
}

#[test]
fn rules_that_are_wrong_are_shown_at_the_least_dims() {
    let wrong = rule(
        "\"exact\"",
        MATRIX,
        &["left = sum(x, axis=0)", "right = sum(permute_dims(x), axis=1)"],
    );
    assert!(matches!(verdict(&wrong), Verdict::Proved(_)), "the same sums: {:?}", verdict(&wrong));
    // Equal where n is 1: the least dims that tell are m = 1, n = 2.
    let squared = rule(
        "\"exact\"",
        "x: Tensor((\"m\", \"n\"), \"i32\")",
        &["left = sum(multiply(x, x), axis=1)", "right = multiply(sum(x, axis=1), sum(x, axis=1))"],
    );
    let Verdict::Refused(Refusal::Wrong(found)) = verdict(&squared) else {
        panic!("{:?}", verdict(&squared));
    };
    assert!(found.why.starts_with("m = 1, n = 2: element 0 is "), "{}", found.why);
    assert!(found.program.contains("    left = sum(multiply(x, x), 1)\n"), "{}", found.program);
    // A shape is no value: where it differs, no element need be there.
    let shaped = rule("\"exact\"", MATRIX, &["left = permute_dims(x)", "right = relu(x)"]);
    let Verdict::Refused(Refusal::Wrong(found)) = verdict(&shaped) else {
        panic!("{:?}", verdict(&shaped));
    };
    assert!(found.program.contains("x = zeros((0, 1), \"f32\")"), "{}", found.program);
}

#[test]
fn what_is_too_large_to_compare_is_no_difference() {
    let huge = "x: Tensor((4000000000000000000, 4000000000000000000), \"f32\")";
    let same = rule("\"exact\"", huge, &["left = relu(relu(x))", "right = relu(x)"]);
    assert!(matches!(verdict(&same), Verdict::Proved(_)), "{:?}", verdict(&same));
    let wide = "x: Tensor((1,), \"f32\")";
    let lines = [
        "left = relu(broadcast_to(x, (100000000000,)))",
        "right = broadcast_to(relu(x), (100000000000,))",
    ];
    assert!(matches!(verdict(&rule("\"exact\"", wide, &lines)), Verdict::Proved(_)));
    let params = "abcde".chars().map(|name| format!("{name}: Tensor((\"n\",), \"any.{name}\")"));
    let params = params.collect::<Vec<_>>().join(", ");
    let many = rule("\"exact\"", &params, &["left = relu(relu(a))", "right = relu(a)"]);
    assert!(matches!(verdict(&many), Verdict::Refused(Refusal::TooManyTypes(4))));
}

#[test]
fn abbreviations_end() {
    let read = |lines: &[&str]| match rules::read_rules("f", &rule("\"exact\"", MATRIX, lines)) {
        Ok(_) => String::new(),
        Err(found) => found.join("\n"),
    };
    assert_eq!(
        read(&["a = exp(a)", "left = a", "right = x"]),
        "f.rx:3: there is no tensor `a` in this rule"
    );
    let mut lines = vec!["a0 = x".to_owned()];
    lines.extend((0..40).map(|at| format!("a{} = add(a{at}, a{at})", at + 1)));
    lines.extend(["left = a40".to_owned(), "right = x".to_owned()]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(read(&lines), "f.rx:3: the rule has more than 1000 calls and operands");
}
