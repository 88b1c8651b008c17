//! How many checks stand in innermost loops of the C text of a kernel, where each costs as much as the work beside it and keeps the loop
//! from vectors. The text is asked, and not the printer: loops come from many places, and some are printed twice or taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Places where a kernel may stop that stand in a loop without another one in it, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Innermost {
    /// Of dims and loop variables alone.
    pub on_dims: usize,
    /// Of elements: an index that is read, or a divisor.
    pub on_values: usize,
}

impl fmt::Display for Innermost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on dims and {} on elements in innermost loops", self.on_dims, self.on_values)
    }
}

/// Arrays of a call, which tell dims and scalars.
const OF_CALL: [&str; 3] = ["tensors[", ".shape[", "ints["];

/// A loop, or another block in braces.
struct Block<'t> {
    is_loop: bool,
    has_loop: bool,
    /// The numbers of the places, and what is asked there.
    stops: Vec<(&'t str, &'t str)>,
}

/// Of the functions of a kernel, but for places in nests that run only where they may stop.
pub(crate) fn innermost(text: &str, out_of_range: &BTreeSet<usize>) -> Innermost {
    let made_of = definitions(text);
    let (mut on_dims, mut on_values) = (BTreeSet::new(), BTreeSet::new());
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let mut begun = 0;
        for (at, sign) in line.match_indices(['{', '}', ';']) {
            let before = &line[begun..at];
            // The parts of the head of a loop end with `;` too.
            let is_loop = before.trim_start().starts_with("for (") || before.contains(" for (");
            if sign == ";" && is_loop && depth(before) > 0 {
                continue;
            }
            begun = at + 1;
            if is_loop {
                blocks.iter_mut().for_each(|block| block.has_loop = true);
            }
            match sign {
                "{" => blocks.push(Block { is_loop, has_loop: false, stops: Vec::new() }),
                "}" => {
                    let Some(block) = blocks.pop() else { continue };
                    if block.is_loop && !block.has_loop {
                        for (site, condition) in block.stops {
                            let reads = reads(condition, &made_of, &mut BTreeSet::new());
                            let of = if reads { &mut on_values } else { &mut on_dims };
                            of.insert(site);
                        }
                    } else if let Some(outer) = blocks.last_mut().filter(|_| !block.is_loop) {
                        outer.stops.extend(block.stops);
                    }
                }
                _ => {
                    let site = before.trim_start().strip_prefix("status = ");
                    let is_counted = |site: &&str| {
                        site.parse().is_ok_and(|site: usize| !out_of_range.contains(&site))
                    };
                    let site = site.filter(is_counted);
                    if let (Some(site), Some(block)) = (site, blocks.last_mut()) {
                        // Values of the message are computed where it stops.
                        let condition = line.split(" rx_note(").next().unwrap_or(line);
                        block.stops.push((site, condition));
                    }
                }
            }
        }
    }
    Innermost { on_dims: on_dims.len(), on_values: on_values.len() }
}

/// How many brackets are open.
fn depth(text: &str) -> i32 {
    text.chars().map(|c| i32::from(c == '(') - i32::from(c == ')')).sum()
}

/// What each variable is computed from: the right sides of its assignments, and the calls that are given its address.
fn definitions(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for statement in text.lines().flat_map(|line| line.split(';')) {
        if let Some((left, right)) = statement.split_once(" = ") {
            let name = words(left).last().filter(|_| !left.ends_with(']'));
            found.entry(name.unwrap_or("")).or_default().push(right);
        }
        for (at, _) in statement.match_indices('&') {
            if let Some(name) = words(&statement[at + 1..]).next() {
                found.entry(name).or_default().push(&statement[..at]);
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether an expression depends on an element.
fn reads<'t>(
    text: &'t str,
    made_of: &BTreeMap<&'t str, Vec<&'t str>>,
    seen: &mut BTreeSet<&'t str>,
) -> bool {
    let arrays = text.matches('[').count();
    let of_call: usize = OF_CALL.iter().map(|name| text.matches(name).count()).sum();
    arrays > of_call
        || words(text).any(|word| {
            seen.insert(word)
                && made_of
                    .get(word)
                    .is_some_and(|parts| parts.iter().any(|part| reads(part, made_of, seen)))
        })
}

#[cfg(test)]
mod tests {
    use super::Innermost;
    use crate::print_c;
    use relax_program::frontend::Program;
    use relax_runtime::program::Numerics;
    use relax_symbolic::Prover;
    use relax_syntax::span::Source;

    fn of(body: &str) -> (usize, usize) {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"m\", \"n\"), \"f32\"), K: Buffer((\"n\",), \"i64\"), Y: Buffer((\"m\", \"n\"), \"f32\")):\n    \
                 m, n = sym_var(), sym_var()\n    {body}\n"
        );
        let module = Program::load(Source::new("loops", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        let Innermost { on_dims, on_values } = source.kernels[0].innermost;
        (on_dims, on_values)
    }

    #[test]
    fn checks_in_innermost_loops_are_counted_by_what_they_ask() {
        let nest = |value: &str| format!("for i, j in grid(m, n):\n        Y[i, j] = {value}");
        assert_eq!(of(&nest("X[i, j]")), (0, 0));
        assert_eq!(of(&nest("X[j, i]")), (1, 0));
        assert_eq!(of(&nest("X[i, K[j]]")), (0, 1));
        assert_eq!(of(&nest("X[i, K[j]] + X[j, i]")), (1, 1));
        assert_eq!(of(&nest("f32(K[j] + 1)")), (0, 0));
        assert_eq!(of(&nest("f32(j // K[j])")), (0, 1));
        // The row is checked in the outer loop.
        let outer = "for i in range(m):\n        k = K[i]\n        s = X[i, k]\n        \
                     for j in range(n):\n            Y[i, j] = s";
        assert_eq!(of(outer), (0, 0));
        assert_eq!(of("Y[0, 0] = X[0, 0]"), (0, 0));
    }
}
