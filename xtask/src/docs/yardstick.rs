//! The part of `docs/RULES.md` on the rewrites that other compilers list.

use relax_theorems::rules::yardstick::{Rewrite, SOURCES, Verdict, yardstick};
use relax_theorems::rules::{Kind, Rule, Status};
use std::fmt::Write;

/// What stands before the tables.
const ABOUT: &str = "
## Compared with other compilers

Rewrites that others list, in our notation, and the rules that state each, alone or one after the other
(`proofs/theorems/rules/yardstick.txt`; a test holds it against the rules and their proofs). A rewrite counts as
exact when one of its rules is; where floats make it false, that is the rule for integers.
";

pub(super) fn section(text: &mut String, rules: &[(Rule, Status)]) {
    let rewrites = match yardstick() {
        Ok(rewrites) => rewrites,
        Err(wrong) => panic!("invariant: the yardstick is well-formed: {wrong}"),
    };
    text.push_str(ABOUT);
    for (source, title) in SOURCES {
        let own: Vec<&Rewrite> = rewrites.iter().filter(|own| own.source == source).collect();
        summary(text, title, &own, rules);
    }
    for (source, title) in SOURCES {
        let _ = writeln!(
            text,
            "\n### {title}\n\n| rewrite | | rules, or why there is none |\n|---|---|---|"
        );
        for rewrite in rewrites.iter().filter(|own| own.source == source) {
            row(text, rewrite);
        }
    }
}

fn summary(text: &mut String, title: &str, rewrites: &[&Rewrite], rules: &[(Rule, Status)]) {
    let count = |is: fn(&Verdict) -> bool| rewrites.iter().filter(|own| is(&own.verdict)).count();
    let exact = |name: &str| {
        rules.iter().any(|(rule, _)| rule.name.as_str() == name && rule.kind == Kind::Exact)
    };
    let exact = rewrites.iter().filter(|own| match &own.verdict {
        Verdict::Rules(names) => names.iter().any(|name| exact(name)),
        _ => false,
    });
    let _ = writeln!(
        text,
        "\n- {title}: of {} rewrites {} are rules here ({} exact), {} are done by other passes, {} need operators \
         that do not exist here, {} are open.",
        rewrites.len(),
        count(|verdict| matches!(verdict, Verdict::Rules(_))),
        exact.count(),
        count(|verdict| matches!(verdict, Verdict::Engine(_))),
        count(|verdict| matches!(verdict, Verdict::NoOperator(_))),
        count(|verdict| matches!(verdict, Verdict::Open(_))),
    );
}

fn row(text: &mut String, rewrite: &Rewrite) {
    let (word, detail) = match &rewrite.verdict {
        Verdict::Rules(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            ("rule", names.join(", "))
        }
        Verdict::Engine(pass) => ("engine", (*pass).to_owned()),
        Verdict::NoOperator(what) => ("no operator", (*what).to_owned()),
        Verdict::Open(why) => ("open", (*why).to_owned()),
    };
    let _ = writeln!(text, "| {} | {word} | {detail} |", rewrite.text.replace('|', "\\|"));
}
