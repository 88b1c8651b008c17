//! `docs/RULES.md`: how rewrite rules are written, and every one with how far it is proved.

use super::{GENERATED, yardstick};
use relax_theorems::rules::{self, Direction, FAMILIES, Kind, Rule, Status};
use std::fmt::Write;

/// What stands before the tables.
const ABOUT: &str = r#"
A rule states that two expressions have the same value for all extents, and with `"*s"` for any number of
axes. Rules are text in `proofs/theorems/rules/`, one file per family:

```
@rewrite_rule("exact", direction="both", reason="a product transposed")
def transpose_of_matmul(a: Tensor(("*s", "m", "k"), "number"), b: Tensor(("*s", "k", "n"), "number")):
    swap = [span(0, s), len(s) + 1, len(s)]
    left = permute_dims(matmul(a, b), swap)
    right = matmul(permute_dims(b, swap), permute_dims(a, swap))
```

- `left` is replaced by `right`; with `direction="both"` also the other way. `where = [n >= 1]` lists
  conditions on dims (comparisons and `divides(a, b)`), `mutant = …` is a false right side. Any other name is an
  abbreviation of its expression.
- A dtype is one of them, or a class that ranges over several: `float`, `int`, `uint` (unsigned), `number`, `bool`, `any`. The
  same class is the same dtype; `any.a` and `any.b` may differ. `eps: Float` is a float attribute.
- `len(s)` is the number of axes in `*s`, `span(p, s)` are its axes, the first of which is `p`. `unpadded(s)` are the
  widths of a `pad` that leaves them as they are.
- A name in an attribute of `left`, such as `arange(n)`, is a dim too; it may be negative unless a condition says otherwise.
- *exact*: equal bit for bit, with all NaNs equal. *approximate*: equal over the real numbers, and undefined for the
  same inputs. Floats are rounded elsewhere, and may overflow where the other side does not.

## What is proved

1. Deduction gives both sides the same annotation under the conditions, and leaves the same checks to run time (with
   0 to 3 axes in each group).
2. Both trap on the same elements (a divisor of 0, an index out of range).
3. Both have the same domain over the real numbers: divisors, and arguments of roots and logarithms.
4. At every index the elements are equal. A tensor denotes its extents and, for an index, a term over elements of the
   operands. Terms are normalized by the laws of their domain (floats as they are, integers that wrap, real numbers) and
   by lemmas on reductions (empty, one element, split at a point, sums of sums, independent indices, linearity).
   The prover of dims decides every question on indices.

A group of axes is one index in a proof: every operator treats it as a whole, and finds its axes by those before
them. Such a proof holds for any number of axes. The meanings of operators (`proofs/theorems/src/denotation/meanings/`) and the
laws of elements (`functions.rs`, `laws.rs`, `order.rs`, `reals.rs`) are trusted. A law on the sign of integers holds of
operands of the class `uint` only. Tests compare them with deduction and the interpreter: every
rule at sizes 0, 1, 2, 3 and 5, with infinities, NaN and zeros. No false mutant of a rule, and none of the plausible false
rules in `proofs/theorems/rules/refused.rx`, may have a proof. That the dims of a right side fit i64 is not part of a proof. A rule
that drops an operand of its left side applies only where computing that operand cannot trap.

`RELAX_BLESS=1 cargo test -p relax-theorems --test rules` proves all and records the outcome in `proofs/theorems/rules/rules.lock`,
with a digest of each rule. A rule without `"*s"` is a theorem on the ranks that it states. A rule that was changed since
counts as unproved. *tested*: neither a proof nor a counterexample at small sizes was found; such a rule is disabled.
"#;

pub(super) fn page() -> String {
    let all: Vec<(Rule, Status)> = rules::all()
        .into_iter()
        .map(|rule| {
            let status = rules::status_of(&rule);
            (rule, status)
        })
        .collect();
    let mut text = format!("# Rewrite rules\n\n{GENERATED}\n{ABOUT}\n## The rules\n\n");
    text.push_str("| family | rules | exact | proved | of these for any rank | for ranks 0-4 | tested |\n|---|---|---|---|---|---|---|\n");
    for (family, _) in FAMILIES {
        count(
            &mut text,
            family,
            &all.iter().filter(|(rule, _)| rule.family == *family).collect::<Vec<_>>(),
        );
    }
    count(&mut text, "all", &all.iter().collect::<Vec<_>>());
    for (family, _) in FAMILIES {
        let _ = writeln!(
            text,
            "\n### {family}\n\n| rule | | | status | reason |\n|---|---|---|---|---|"
        );
        for (rule, status) in all.iter().filter(|(rule, _)| rule.family == *family) {
            let arrow = if rule.direction == Direction::Both { "↔" } else { "→" };
            let (name, kind, reason) = (&rule.name, rule.kind.word(), &rule.reason);
            let _ = writeln!(text, "| `{name}` | {arrow} | {kind} | {status} | {reason} |");
        }
    }
    yardstick::section(&mut text, &all);
    text
}

fn count(text: &mut String, name: &str, rules: &[&(Rule, Status)]) {
    let of = |status: &Status| rules.iter().filter(|(_, own)| own == status).count();
    let exact = rules.iter().filter(|(rule, _)| rule.kind == Kind::Exact).count();
    let (proved, ranks, tested) =
        (of(&Status::Proved), of(&Status::ProvedForRanks), of(&Status::Tested));
    let any_rank =
        |(rule, status): &&&(Rule, Status)| *status == Status::Proved && !rule.groups().is_empty();
    let (total, any) = (rules.len(), rules.iter().filter(any_rank).count());
    let proved = proved + ranks;
    let _ =
        writeln!(text, "| {name} | {total} | {exact} | {proved} | {any} | {ranks} | {tested} |");
}
