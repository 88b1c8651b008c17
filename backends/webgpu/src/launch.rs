//! What the dims of a call decide: the words of the uniform buffer, the sizes of storage buffers, the workgroups of each stage.

use crate::intervals::Intervals;
use crate::iterations;
use crate::{Content, Kernel, Kind, Part, Word, dtypes};
use relax_syntax::dim::{Dim, floor_mod};
use relax_syntax::ir::tensor::{BufferId, Param, TExpr};

/// Bytes of a storage buffer that every device has.
const BINDING: u64 = 128 << 20;
/// Workgroups of a launch in one dimension.
pub(crate) const GROUPS: i64 = 65_535;

/// How a call of a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The uniform buffer.
    pub words: Vec<i32>,
    /// For each binding, the words of 32 bits of each part.
    pub sizes: Vec<Vec<u64>>,
    /// For each stage the workgroups; none where a loop over blocks has no iteration.
    pub groups: Vec<Option<[u32; 3]>>,
    /// No thread goes through more iterations of loops; saturates.
    pub iterations: u64,
}

/// Why a call is not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Tensors and scalars are not such as the program declares: a trap, which the interpreter tells.
    Boundary,
    /// An index might leave 32 bits.
    Wide,
    /// The device has no room.
    Large(String),
}

impl Kernel {
    /// For tensors of these shapes and these other arguments.
    ///
    /// # Errors
    /// Why it cannot be launched.
    pub fn launch(&self, shapes: &[&[i64]], ints: &[i64]) -> Result<Launch, Refused> {
        let mut known = self.bind(shapes, ints).ok_or(Refused::Boundary)?;
        let mut sizes = Vec::new();
        for binding in &self.bindings {
            let parts = binding.parts.iter().map(|part| self.part_words(part, &known));
            let parts = parts.collect::<Result<Vec<u64>, Refused>>()?;
            let bytes = parts.iter().sum::<u64>().saturating_mul(4);
            if bytes > BINDING {
                let name = &self.program.buffer(binding.parts[0].buffer).name;
                return Err(Refused::Large(format!(
                    "`{name}` takes {bytes} bytes of a storage buffer, of which there are {BINDING}"
                )));
            }
            sizes.push(parts);
        }
        let words = self.words.iter().map(|word| self.word(word, &known, &sizes));
        let words = words.collect::<Option<Vec<i32>>>().ok_or(Refused::Wide)?;
        let body = self.program.body.as_deref().unwrap_or(&[]);
        known.clone().follow(body).map_err(|_| Refused::Wide)?;
        let mut groups = Vec::new();
        let mut iterations = 0;
        for (stage, threads) in self.stages.iter().zip(&self.threads) {
            for (var, value) in &stage.bound {
                let value = known.bind(value).map_err(|_| Refused::Wide)?;
                known.scalars.insert(*var, value);
            }
            groups.push(workgroups(&stage.blocks, &known)?);
            let most = iterations::most(&self.program, threads, &self.watched, &known);
            iterations = iterations.max(most);
        }
        Ok(Launch { words, sizes, groups, iterations })
    }

    /// The values of dims and scalar parameters, where everything declared of them holds.
    fn bind(&self, shapes: &[&[i64]], ints: &[i64]) -> Option<Intervals> {
        let mut known = Intervals::default();
        let (mut shapes, mut ints) = (shapes.iter(), ints.iter());
        let mut later = Vec::new();
        for param in &self.program.params {
            match param {
                Param::Buffer(id) => {
                    let info = self.program.buffer(*id);
                    let shape = shapes.next().filter(|shape| shape.len() == info.shape.len())?;
                    for (dim, &actual) in info.shape.iter().zip(*shape) {
                        match dim {
                            Dim::Var(name) if !known.dims.contains_key(name) => {
                                known.dims.insert(name.clone(), actual);
                            }
                            _ => later.push((dim, actual)),
                        }
                    }
                }
                Param::Scalar(id) => {
                    let value = *ints.next()?;
                    known.scalars.insert(*id, Some((value, value)));
                }
                Param::Dim(name) => {
                    let value = *ints.next()?;
                    if *known.dims.entry(name.clone()).or_insert(value) != value {
                        return None;
                    }
                }
            }
        }
        let agrees = |(dim, actual): &(&Dim, i64)| evaluate(dim, &known) == Some(*actual);
        (later.iter().all(agrees) && self.holds_declared(&known)).then_some(known)
    }

    fn holds_declared(&self, known: &Intervals) -> bool {
        self.program.dims.iter().all(|dim| {
            let Some(&value) = known.dims.get(&dim.name) else { return true };
            value >= dim.lower.unwrap_or(0).max(0)
                && dim.upper.is_none_or(|upper| value <= upper)
                && dim.multiple_of.is_none_or(|divisor| floor_mod(value, divisor) == Some(0))
        })
    }

    fn part_words(&self, part: &Part, known: &Intervals) -> Result<u64, Refused> {
        let count = self.count(part.buffer, known).ok_or(Refused::Boundary)?;
        if i32::try_from(count).is_err() {
            return Err(Refused::Wide);
        }
        // A binding is never empty, and an index that is none is 0.
        let count = count.max(1);
        Ok(match part.content {
            Content::Written | Content::Given(_) => count,
            _ => dtypes::words(self.dtype(part.buffer), count, self.formats),
        })
    }

    fn count(&self, buffer: BufferId, known: &Intervals) -> Option<u64> {
        let shape = &self.program.buffer(buffer).shape;
        let extents = shape.iter().map(|dim| u64::try_from(evaluate(dim, known)?).ok());
        let extents = extents.collect::<Option<Vec<u64>>>()?;
        if extents.contains(&0) {
            return Some(0);
        }
        Some(extents.iter().fold(1_u64, |count, &extent| count.saturating_mul(extent)))
    }

    fn word(&self, word: &Word, known: &Intervals, sizes: &[Vec<u64>]) -> Option<i32> {
        let value = match word {
            Word::Dim(name) => *known.dims.get(name)?,
            Word::Scalar(id) => known.scalars.get(id)?.as_ref()?.0,
            Word::Extent(dim) => evaluate(dim, known)?,
            Word::Base(part) => {
                let mut bindings = self.bindings.iter().zip(sizes);
                bindings.find_map(|(binding, sizes)| {
                    let at = binding.parts.iter().position(|other| other == part)?;
                    let words = sizes[..at].iter().sum::<u64>();
                    let elements = match part.kind(&self.program, self.formats) {
                        Kind::Words => words,
                        Kind::Doubles => words / 2,
                        Kind::Halves => words * 2,
                    };
                    i64::try_from(elements).ok()
                })?
            }
        };
        i32::try_from(value).ok()
    }
}

/// The value of a dim.
pub(crate) fn evaluate(dim: &Dim, known: &Intervals) -> Option<i64> {
    dim.eval(&|name| known.dims.get(name).copied()).ok()
}

fn workgroups(
    blocks: &[Option<(TExpr, TExpr)>; 3],
    known: &Intervals,
) -> Result<Option<[u32; 3]>, Refused> {
    let mut groups = [1; 3];
    for (axis, bounds) in blocks.iter().enumerate() {
        let Some((start, stop)) = bounds else { continue };
        let value = |expr| known.index(expr).ok().flatten().ok_or(Refused::Wide);
        let count = value(stop)?.1 - value(start)?.0;
        if count <= 0 {
            return Ok(None);
        }
        groups[axis] = u32::try_from(count.min(GROUPS)).unwrap_or(1);
    }
    Ok(Some(groups))
}
