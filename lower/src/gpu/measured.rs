//! What the versions of products took on a device, and the tree that is learned of it (CART: Breiman et al. 1984), as text.
//!
//! A tree is grown from the top: of all questions the one is asked whose two answers lose least, when each has the version that
//! is best for it. What a version loses on a product is what it takes beside the best one, so that small products count as large ones do.

use relax_rewrite::classes::{Class, DEPTH, Feature, Sizes, Split, Tree};
use std::fmt::Write;

/// The first line.
const HEADER: &str = "relax products 1";
/// No extent that is measured is greater.
pub const MOST: i64 = 1 << 20;
/// What a loss is counted in.
const UNIT: u64 = 1024;
/// A question has to save this part of what is lost without it; less may be chance.
const LEAST_GAIN: u64 = 50;

/// A product that was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its extents.
    pub sizes: Sizes,
    /// Nanoseconds of a call, for each version of the table.
    pub times: Vec<u64>,
}

/// What was measured on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub device: String,
    /// Who compiles for it.
    pub driver: String,
    /// The versions that were measured.
    pub classes: Vec<Class>,
    /// The products.
    pub samples: Vec<Sample>,
    /// What was learned of them.
    pub tree: Tree,
}

/// What is chosen where nothing was measured, for extents that are known.
#[must_use]
pub fn presumed() -> Tree {
    let ask =
        |feature, bound, below, rest| Tree::Split(Box::new(Split { feature, bound, below, rest }));
    let tiles = || Tree::Leaf(Class::Tiles);
    ask(Feature::Rows, 64, tiles(), ask(Feature::Columns, 64, tiles(), Tree::Leaf(Class::Squares)))
}

impl Table {
    /// Learns of what was measured.
    #[must_use]
    pub fn learned(
        (device, driver): (&str, &str),
        classes: &[Class],
        samples: Vec<Sample>,
    ) -> Self {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let tree = learn(classes, &samples);
        let (device, driver, classes) = (line(device), line(driver), classes.to_vec());
        Self { device, driver, classes, samples, tree }
    }

    /// Whether it is of this device, by the same driver.
    #[must_use]
    pub fn is_of(&self, device: &str, driver: &str) -> bool {
        let words = |text: &str, own: &str| text.split_whitespace().eq(own.split_whitespace());
        words(device, &self.device) && words(driver, &self.driver)
    }

    /// What the choices of a tree take beside the best ones, in the mean of the products, in thousandths.
    #[must_use]
    pub fn relative(&self, tree: &Tree) -> u64 {
        let losses = self.samples.iter().map(|sample| {
            let class = tree.class(&sample.sizes);
            let at = self.classes.iter().position(|known| *known == class);
            loss(sample, at.unwrap_or(self.classes.len()))
        });
        let count = u64::try_from(self.samples.len()).unwrap_or(u64::MAX).max(1);
        losses.fold(0_u64, u64::saturating_add).saturating_mul(1000) / (UNIT * count)
    }

    /// As text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names: Vec<&str> = self.classes.iter().map(|class| class.name()).collect();
        let (device, driver, names) = (&self.device, &self.driver, names.join(" "));
        let mut text = format!("{HEADER}\ndevice {device}\ndriver {driver}\nclasses {names}\n");
        for Sample { sizes, times } in &self.samples {
            let Sizes { rows, terms, columns, bytes } = sizes;
            let _ = write!(text, "time {bytes} {rows}x{terms}x{columns}");
            for time in times {
                let _ = write!(text, " {time}");
            }
            text.push('\n');
        }
        let _ = write!(text, "tree\n{}", self.tree);
        text
    }

    /// From text.
    ///
    /// # Errors
    /// What is wrong with it, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().collect();
        if lines.first() != Some(&HEADER) {
            return Err(format!("line 1: a table of products begins with `{HEADER}`"));
        }
        let field = |at: usize, name: &str| {
            let value = lines.get(at).and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.ok_or(format!("line {}: `{name}` is expected", at + 1))
        };
        let (device, driver) = (field(1, "device")?.to_owned(), field(2, "driver")?.to_owned());
        let named = |name| Class::named(name).ok_or(format!("line 4: there is no `{name}`"));
        let names = field(3, "classes")?.split(' ');
        let classes = names.map(named).collect::<Result<Vec<_>, _>>()?;
        let mut samples = Vec::new();
        let mut at = 4;
        while let Some(line) = lines.get(at).filter(|line| **line != "tree") {
            let sample = sample(line, classes.len());
            samples.push(sample.ok_or_else(|| {
                let at = at + 1;
                format!("line {at}: `time BYTES ROWSxTERMSxCOLUMNS` and a time of each version are expected, or `tree`")
            })?);
            at += 1;
        }
        let tree = Tree::parse(lines.get(at + 1..).unwrap_or(&[]), at + 2)?;
        Ok(Self { device, driver, classes, samples, tree })
    }
}

/// A number that tells texts apart: FNV-1a with 64 bits.
#[must_use]
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn sample(line: &str, classes: usize) -> Option<Sample> {
    let mut words = line.strip_prefix("time ")?.split(' ');
    let bytes = words.next()?.parse().ok().filter(|bytes| (1..=8).contains(bytes))?;
    let sizes = sizes(words.next()?, bytes)?;
    let times = words.map(|word| word.parse().ok().filter(|time| (1..1 << 40).contains(time)));
    let times = times.collect::<Option<Vec<u64>>>()?;
    (times.len() == classes).then_some(Sample { sizes, times })
}

/// `64x768x2304`: rows, terms and columns, each one that may be measured.
#[must_use]
pub fn sizes(text: &str, bytes: i64) -> Option<Sizes> {
    let extents = text.split('x').map(|part| part.parse().ok());
    let extents = extents.collect::<Option<Vec<i64>>>()?;
    let &[rows, terms, columns] = extents.as_slice() else { return None };
    let fits = extents.iter().all(|extent| (1..=MOST).contains(extent));
    fits.then_some(Sizes { rows, terms, columns, bytes })
}

/// The tree that loses least of those that are grown from the top.
#[must_use]
pub fn learn(classes: &[Class], samples: &[Sample]) -> Tree {
    grown(classes, &samples.iter().collect::<Vec<_>>(), DEPTH)
}

/// What a version loses on a product, where the best one loses [`UNIT`]. One without a time is as bad as any.
fn loss(sample: &Sample, class: usize) -> u64 {
    let best = sample.times.iter().min().copied().unwrap_or(1).max(1);
    let worst = sample.times.iter().max().copied().unwrap_or(best);
    sample.times.get(class).unwrap_or(&worst).saturating_mul(UNIT) / best
}

/// The best version for all of them, and what is lost.
fn best(classes: &[Class], samples: &[&Sample]) -> (u64, Class) {
    let lost =
        |at: usize| samples.iter().map(|sample| loss(sample, at)).fold(0_u64, u64::saturating_add);
    let all = classes.iter().enumerate().map(|(at, class)| (lost(at), *class));
    all.min_by_key(|(lost, _)| *lost).unwrap_or((0, Class::Tiles))
}

fn grown(classes: &[Class], samples: &[&Sample], depth: usize) -> Tree {
    let (lost, class) = best(classes, samples);
    let worth = lost.saturating_sub(lost / LEAST_GAIN);
    let question = if depth == 0 { None } else { question(classes, samples) };
    let Some((_, feature, bound)) = question.filter(|(left, _, _)| *left < worth) else {
        return Tree::Leaf(class);
    };
    let (below, rest) = parted(samples, feature, bound);
    let [below, rest] = [below, rest].map(|part| grown(classes, &part, depth - 1));
    Tree::Split(Box::new(Split { feature, bound, below, rest }))
}

/// The question whose answers lose least, and what; the first one of several.
fn question(classes: &[Class], samples: &[&Sample]) -> Option<(u64, Feature, i64)> {
    let mut found: Option<(u64, Feature, i64)> = None;
    for feature in Feature::ALL {
        let mut values: Vec<i128> =
            samples.iter().map(|sample| feature.of(&sample.sizes)).collect();
        values.sort_unstable();
        values.dedup();
        for two in values.windows(2) {
            // In the middle of both, as ratios tell extents apart.
            let middle = u128::try_from(two[0] * two[1]).unwrap_or(u128::MAX).isqrt();
            let Ok(bound) = i64::try_from(middle + 1) else { continue };
            let (below, rest) = parted(samples, feature, bound);
            let left = best(classes, &below).0.saturating_add(best(classes, &rest).0);
            if found.is_none_or(|(least, _, _)| left < least) {
                found = Some((left, feature, bound));
            }
        }
    }
    found
}

fn parted<'s>(
    samples: &[&'s Sample],
    feature: Feature,
    bound: i64,
) -> (Vec<&'s Sample>, Vec<&'s Sample>) {
    samples.iter().copied().partition(|sample| feature.of(&sample.sizes) < i128::from(bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [Class; 3] = [Class::Elements, Class::Tiles, Class::Squares];

    /// Products of many sizes, and what a device takes for them of which `wanted` says what is best.
    fn samples(wanted: fn(&Sizes) -> Class) -> Vec<Sample> {
        let mut samples = Vec::new();
        for m in [1, 4, 16, 64, 256] {
            for k in [16, 256] {
                for n in [8, 64, 512] {
                    let sizes = Sizes { rows: m, terms: k, columns: n, bytes: 4 };
                    let best = wanted(&sizes);
                    let work = u64::try_from(m * n * k).expect("it is positive");
                    let time = |class| if class == best { work } else { work * 3 / 2 };
                    samples.push(Sample { sizes, times: CLASSES.map(time).to_vec() });
                }
            }
        }
        samples
    }

    #[test]
    fn a_tree_says_what_was_best() {
        let all: [fn(&Sizes) -> Class; 3] = [
            |sizes| if sizes.rows < 8 { Class::Elements } else { Class::Tiles },
            |sizes| match (sizes.rows * sizes.columns, sizes.terms) {
                (..1024, _) => Class::Elements,
                (_, ..100) => Class::Tiles,
                _ => Class::Squares,
            },
            |_| Class::Squares,
        ];
        for wanted in all {
            let table = Table::learned(("a device", "1"), &CLASSES, samples(wanted));
            for sample in &table.samples {
                assert_eq!(table.tree.class(&sample.sizes), wanted(&sample.sizes));
            }
            assert!(table.tree.depth() <= 2, "{}", table.tree);
            assert_eq!(table.relative(&table.tree), 1000);
            assert!(table.relative(&Tree::Leaf(Class::Cores)) > 1200, "none was measured");
            // Sizes between those that were measured go with the nearer ones.
            let near = Sizes { rows: 300, terms: 300, columns: 600, bytes: 4 };
            assert_eq!(table.tree.class(&near), wanted(&near));
        }
    }

    /// What is grown is the same whatever the order, and no deeper than trees are.
    #[test]
    fn a_tree_is_small_and_the_same_again() {
        let wanted = |sizes: &Sizes| {
            let number = sizes.rows.ilog2() + sizes.columns.ilog2() + sizes.terms.ilog2();
            CLASSES[number as usize % CLASSES.len()]
        };
        let mut samples = samples(wanted);
        let tree = learn(&CLASSES, &samples);
        assert!(tree.depth() <= DEPTH);
        samples.reverse();
        assert_eq!(learn(&CLASSES, &samples), tree);
    }

    /// Differences that may be chance are none.
    #[test]
    fn noise_is_not_learned() {
        let mut samples = samples(|_| Class::Tiles);
        for (at, sample) in samples.iter_mut().enumerate() {
            let time = 10_000 + 100 * (at as u64 % 2);
            sample.times = vec![20_000, time, 10_050];
        }
        assert_eq!(learn(&CLASSES, &samples).depth(), 0);
        assert_eq!(learn(&CLASSES, &[]).depth(), 0);
    }

    #[test]
    fn a_table_is_its_text() {
        let wanted = |sizes: &Sizes| if sizes.terms < 8 { Class::Elements } else { Class::Tiles };
        let table = Table::learned(("Some\n device", " driver 1.2 "), &CLASSES, samples(wanted));
        assert_eq!(Table::parse(&table.to_text()), Ok(table.clone()));
        assert!(table.is_of("Some device", "driver 1.2") && !table.is_of("Some device", "1.3"));
        let text = Table::learned(("a", "b"), &CLASSES, samples(|_| Class::Tiles)[..1].to_vec());
        let wrong = |from: &str, to: &str| {
            let text = text.to_text();
            assert!(text.contains(from), "{text}");
            Table::parse(&text.replacen(from, to, 1)).expect_err(to)
        };
        assert!(wrong("products 1", "products 2").starts_with("line 1"));
        assert!(wrong("driver", "diver").starts_with("line 3"));
        assert!(wrong("squares", "circles").starts_with("line 4"));
        assert!(wrong("1x16x8", "1x16").starts_with("line 5"));
        assert!(wrong("1x16x8", "0x16x8").starts_with("line 5"));
        assert!(wrong(" 192", "").starts_with("line 5"));
        assert!(wrong("tree\n", "").starts_with("line 6"));
        assert!(wrong("tree\ntiles", "tree\n").starts_with("line 7"));
    }
}
