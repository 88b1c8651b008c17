//! Which version of a product a device gets, as a small decision tree over its extents (BladeDISC §5.2). A tree chooses among
//! versions of which each is right for all extents, so that a bad one costs time and nothing else.

use std::fmt::{self, Write};

/// The versions that there are of a product (`lower/src/gpu/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A thread computes an element from memory.
    Elements,
    /// A thread computes an element of a tile, from shared memory.
    Tiles,
    /// A thread computes a square of elements of a tile.
    Squares,
    /// A thread computes a square of elements for some of the terms, and the threads of a block add those up; where sums keep their order,
    /// tiles do.
    Split,
    /// Tensor cores compute a tile; where there are none, or for wider elements, squares do.
    Cores,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Elements, Self::Tiles, Self::Squares, Self::Split, Self::Cores];

    /// As a tree's text has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Elements => "elements",
            Self::Tiles => "tiles",
            Self::Squares => "squares",
            Self::Split => "split_k",
            Self::Cores => "cores",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// The extents of a product, and the bytes of an element of its factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sizes {
    /// Rows of the result.
    pub rows: i64,
    /// Terms of a sum.
    pub terms: i64,
    /// Columns of the result.
    pub columns: i64,
    /// Of an element of the factors.
    pub bytes: i64,
}

/// What a tree asks for: none of them falls where an extent grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// `m`
    Rows,
    /// `n`
    Columns,
    /// `k`
    Terms,
    /// `m*n`: elements of the result.
    Elements,
    /// `m*n*k`: all that is multiplied.
    Work,
    /// `bytes` of an element.
    Bytes,
}

impl Feature {
    /// All of them, the plain ones first: of two that tell the same apart the first one is asked.
    pub const ALL: [Self; 6] =
        [Self::Rows, Self::Columns, Self::Terms, Self::Elements, Self::Work, Self::Bytes];

    /// As a tree's text has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "m",
            Self::Columns => "n",
            Self::Terms => "k",
            Self::Elements => "m*n",
            Self::Work => "m*n*k",
            Self::Bytes => "bytes",
        }
    }

    /// Its value.
    #[must_use]
    pub fn of(self, sizes: &Sizes) -> i128 {
        let [m, n, k] = [sizes.rows, sizes.columns, sizes.terms].map(i128::from);
        match self {
            Self::Rows => m,
            Self::Columns => n,
            Self::Terms => k,
            Self::Elements => m * n,
            Self::Work => (m * n).saturating_mul(k),
            Self::Bytes => i128::from(sizes.bytes),
        }
    }
}

/// A decision tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The version for all that come here.
    Leaf(Class),
    /// A question.
    Split(Box<Split>),
}

/// A question of a tree, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What is asked for.
    pub feature: Feature,
    /// Whether it is less than this.
    pub bound: i64,
    /// Where it is.
    pub below: Tree,
    /// Where it is not.
    pub rest: Tree,
}

/// Extents beyond this are one.
const MOST: i64 = 1 << 40;
/// No tree asks more often before it answers.
pub const DEPTH: usize = 3;

impl Tree {
    /// The version for a product.
    #[must_use]
    pub fn class(&self, sizes: &Sizes) -> Class {
        match self {
            Self::Leaf(class) => *class,
            Self::Split(split) => {
                let is_below = split.feature.of(sizes) < i128::from(split.bound);
                (if is_below { &split.below } else { &split.rest }).class(sizes)
            }
        }
    }

    /// How often it asks at most.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Split(split) => 1 + split.below.depth().max(split.rest.depth()),
        }
    }

    /// The versions as a number grows from 1, on which the sizes depend so that none of them falls: from which number on each is
    /// chosen, where another one was before.
    #[must_use]
    pub fn along(&self, sizes: &dyn Fn(i64) -> Sizes) -> Vec<(i64, Class)> {
        let mut starts = vec![1];
        self.starts(sizes, &mut starts);
        starts.sort_unstable();
        let mut found: Vec<(i64, Class)> = Vec::new();
        for start in starts {
            let class = self.class(&sizes(start));
            if found.last().is_none_or(|(_, last)| *last != class) {
                found.push((start, class));
            }
        }
        found
    }

    /// The least number for which each question has its other answer.
    fn starts(&self, sizes: &dyn Fn(i64) -> Sizes, found: &mut Vec<i64>) {
        let Self::Split(split) = self else { return };
        let is_below = |number| split.feature.of(&sizes(number)) < i128::from(split.bound);
        if is_below(1) && !is_below(MOST) {
            let (mut least, mut most) = (1, MOST);
            while most - least > 1 {
                let middle = i64::midpoint(least, most);
                if is_below(middle) {
                    least = middle;
                } else {
                    most = middle;
                }
            }
            found.push(most);
        }
        split.below.starts(sizes, found);
        split.rest.starts(sizes, found);
    }

    /// The tree that these lines are, which end with it.
    ///
    /// # Errors
    /// What is wrong with them; `first` is the number of the first line.
    pub fn parse(lines: &[&str], first: usize) -> Result<Self, String> {
        let mut at = 0;
        let tree = parsed((lines, first), &mut at, 0)?;
        match lines.get(at) {
            None => Ok(tree),
            Some(line) => Err(format!("line {}: nothing follows a tree, but `{line}`", first + at)),
        }
    }

    fn show(&self, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = "  ".repeat(depth);
        match self {
            Self::Leaf(class) => writeln!(f, "{indent}{}", class.name()),
            Self::Split(split) => {
                writeln!(f, "{indent}if {} < {}", split.feature.name(), split.bound)?;
                split.below.show(depth + 1, f)?;
                writeln!(f, "{indent}else")?;
                split.rest.show(depth + 1, f)
            }
        }
    }
}

/// Lines that [`Tree::parse`] reads.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(0, f)
    }
}

fn parsed((lines, first): (&[&str], usize), at: &mut usize, depth: usize) -> Result<Tree, String> {
    let number = first + *at;
    let line = lines.get(*at).ok_or(format!("line {number}: the tree ends too early"))?.trim();
    *at += 1;
    if let Some(class) = Class::named(line) {
        return Ok(Tree::Leaf(class));
    }
    let wrong = || {
        let mut text = format!("line {number}: `if FEATURE < NUMBER` or one of");
        for class in Class::ALL {
            let _ = write!(text, " `{}`", class.name());
        }
        text + " is expected"
    };
    let question = line.strip_prefix("if ").and_then(|rest| rest.split_once(" < "));
    let (feature, bound) = question.ok_or_else(wrong)?;
    let feature = Feature::ALL.into_iter().find(|known| known.name() == feature);
    let bound = bound.parse().ok().filter(|bound| (1..=i64::MAX).contains(bound));
    let (feature, bound) = feature.zip(bound).ok_or_else(wrong)?;
    if depth == DEPTH {
        return Err(format!("line {number}: a tree asks {DEPTH} times at most"));
    }
    let below = parsed((lines, first), at, depth + 1)?;
    if lines.get(*at).map(|line| line.trim()) != Some("else") {
        return Err(format!("line {}: `else` is expected", first + *at));
    }
    *at += 1;
    let rest = parsed((lines, first), at, depth + 1)?;
    Ok(Tree::Split(Box::new(Split { feature, bound, below, rest })))
}
