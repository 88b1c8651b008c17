//! Keys and values of sequences, in pages of one pool: calls of `step_in_pages` for several sequences, each after as many positions as it has.

use super::compiled::Compiled;
use super::encoded::{Beside, Encoded};
#[cfg(feature = "serve")]
use relax_emit::MOST_SEQUENCES;
use relax_llm::{Config, Image, PAGE};
use relax_runtime::{DType, Stop, Stopped, Tensor, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Pages that no sequence has.
type Free = Rc<RefCell<Vec<usize>>>;

/// Keys and values of all sequences.
pub(crate) struct Pool<'m> {
    model: &'m Compiled,
    /// Keys and values of each layer: (pages, heads, rows of a page, elements). A call overwrites them.
    tensors: Vec<Tensor>,
    beside: Beside,
    free: Free,
    pages: usize,
    /// Pages at most.
    most: usize,
}

/// The pages of a sequence, which it gives back in the end.
pub(crate) struct Rows {
    pages: Vec<usize>,
    /// Rows that are in use.
    positions: usize,
    /// What its tokens read beside it, and rows of features that they have read.
    pub(super) encoded: Encoded,
    pub(super) features: usize,
    free: Free,
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.free.borrow_mut().append(&mut self.pages);
    }
}

/// Pages of so many positions.
fn pages_of(positions: usize) -> usize {
    positions.div_ceil(PAGE)
}

/// Bytes of so many pages. While the pool grows, one of its tensors is there twice.
fn bytes_of(config: &Config, pages: usize) -> Option<u64> {
    let tensors = config.layers.len().checked_mul(2)?.checked_add(1)?;
    let row = config.kv_heads.checked_mul(config.head_dim)?.checked_mul(size_of::<f32>())?;
    let page = row.checked_mul(PAGE)?.checked_mul(tensors)?;
    u64::try_from(page.checked_mul(pages)?).ok()
}

impl<'m> Pool<'m> {
    /// An empty pool, which grows to so many pages.
    fn new(model: &'m Compiled, config: &Config, most: usize) -> Result<Self, Stop> {
        let shape = [0, dim(config.kv_heads)?, dim(PAGE)?, dim(config.head_dim)?];
        let empty = Tensor::zeros(DType::F32, &shape).map_err(Stop::Unsupported)?;
        let tensors = vec![empty; 2 * config.layers.len()];
        let (beside, free) = (Beside::of(config)?, Free::default());
        Ok(Self { model, tensors, beside, free, pages: 0, most })
    }

    /// Encodes speech for the cross attention of one sequence, 16,000 samples a second.
    pub(crate) fn encode_speech(&self, samples: &[f32]) -> Result<Encoded, Stop> {
        let samples = floats(&[1, dim(samples.len())?], samples)?;
        Ok(Encoded::Cross(tensors_of(&self.called("encode", samples)?)?))
    }

    /// Decades of the power of each band for windows of samples, band by band, and the number of bands.
    pub(super) fn spectrum(&self, samples: &[f32]) -> Result<(Vec<f32>, usize), Stop> {
        let decades = self.called("spectrum", floats(&[1, dim(samples.len())?], samples)?)?;
        let decades = tensor_of(&decades)?;
        let bands = decades.shape().get(1).and_then(|bands| usize::try_from(*bands).ok());
        let values = decades.to_f32().ok_or_else(|| no("decades of f32"))?;
        Ok((values, bands.ok_or_else(|| no("bands"))?))
    }

    /// Encodes a window of levels, band by band, for the cross attention of one sequence.
    pub(super) fn encode_levels(&self, levels: &[f32], bands: usize) -> Result<Encoded, Stop> {
        let frames = levels.len() / bands.max(1);
        let levels = floats(&[1, dim(bands)?, dim(frames)?], levels)?;
        Ok(Encoded::Cross(tensors_of(&self.called("encode_levels", levels)?)?))
    }

    /// Encodes so many images for the image tokens of one sequence.
    pub(crate) fn encode_images(
        &self,
        (pixels, images): (&[f32], usize),
        image: Image,
    ) -> Result<Encoded, Stop> {
        let shape = [dim(images)?, 3, dim(image.side)?, dim(image.side)?];
        let Value::Tensor(features) = self.called("encode", floats(&shape, pixels)?)? else {
            return Err(no("tensor of features"));
        };
        Ok(Encoded::Features(features, images * image.rows()))
    }

    fn called(&self, name: &str, input: Value) -> Result<Value, Stop> {
        let function = self.model.module.function(name);
        function.ok_or_else(|| no(&format!("function `{name}`")))?.call(&[input])
    }

    /// A pool for one sequence of so many positions.
    pub(crate) fn of_positions(
        model: &'m Compiled,
        config: &Config,
        positions: usize,
    ) -> Result<Self, Stop> {
        Self::new(model, config, pages_of(positions))
    }

    /// A pool of so many bytes at most.
    #[cfg(feature = "serve")]
    pub(crate) fn of_bytes(model: &'m Compiled, config: &Config, bytes: u64) -> Result<Self, Stop> {
        let page = bytes_of(config, 1).map_or(u64::MAX, |page| page.max(1));
        Self::new(model, config, usize::try_from(bytes / page).unwrap_or(usize::MAX))
    }

    /// Bytes that a sequence of so many positions takes; `None` is more than can be counted.
    #[cfg(feature = "serve")]
    pub(crate) fn bytes(config: &Config, positions: usize) -> Option<u64> {
        bytes_of(config, pages_of(positions))
    }

    /// A sequence without positions.
    pub(super) fn rows(&self, encoded: Encoded) -> Rows {
        let free = Rc::clone(&self.free);
        Rows { pages: Vec::new(), positions: 0, encoded, features: 0, free }
    }

    /// How many sequences a call takes. Keys and values of cross attention of several would be copied to one tensor for each call.
    #[cfg(feature = "serve")]
    pub(crate) fn most_sequences(&self) -> usize {
        if matches!(self.beside, Beside::Cross) { 1 } else { MOST_SEQUENCES }
    }

    /// Adds to each sequence as many tokens, at least one; the logits of the token after them. When a call stops, every sequence is as
    /// it was before: the call wrote only behind the rows that are in use.
    pub(super) fn step(
        &mut self,
        sequences: &mut [(&mut Rows, &[u32])],
    ) -> Result<Vec<Vec<f32>>, Stop> {
        self.reserve(sequences)?;
        let mut arguments = arguments(sequences)?;
        let function = self.model.module.function("step_in_pages");
        let function = function.ok_or_else(|| no("function `step_in_pages`"))?;
        let (beside, features) = self.beside.arguments(sequences)?;
        arguments.extend(self.tensors.drain(..).map(Value::Tensor));
        arguments.extend(beside);
        let result = match function.call_returning(arguments) {
            Ok(result) => result,
            Err(Stopped { stop, donated }) => {
                self.tensors = donated.iter().map(tensor_of).collect::<Result<_, _>>()?;
                return Err(stop);
            }
        };
        let mut tensors = tensors_of(&result)?.into_iter();
        let logits = tensors.next().ok_or_else(|| no("logits"))?;
        self.tensors.extend(tensors);
        for ((rows, tokens), features) in sequences.iter_mut().zip(features) {
            rows.positions += tokens.len();
            rows.features = features;
        }
        let logits = logits.to_f32().ok_or_else(|| no("logits of f32"))?;
        let vocabulary = logits.len() / sequences.len().max(1);
        Ok(logits.chunks(vocabulary.max(1)).map(<[f32]>::to_vec).collect())
    }

    /// Gives each sequence the pages that it needs. The pool doubles where there are none left, so that a page is copied once in the mean.
    fn reserve(&mut self, sequences: &mut [(&mut Rows, &[u32])]) -> Result<(), Stop> {
        for (rows, tokens) in sequences {
            while rows.pages.len() < pages_of(rows.positions + tokens.len()) {
                if self.free.borrow().is_empty() {
                    self.grow()?;
                }
                rows.pages.extend(self.free.borrow_mut().pop());
            }
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<(), Stop> {
        let pages = (2 * self.pages).max(1).min(self.most);
        if pages <= self.pages {
            return Err(Stop::Unsupported(format!("no page is left of {pages}")));
        }
        let extent = dim(pages)?;
        for at in 0..self.tensors.len() {
            match self.tensors[at].extended(0, extent) {
                Ok(longer) => self.tensors[at] = longer,
                Err(why) => {
                    // All have as many pages still: a sequence with enough of them goes on.
                    let own = dim(self.pages)?;
                    for tensor in &mut self.tensors[..at] {
                        *tensor = tensor.truncated(own).map_err(Stop::Unsupported)?;
                    }
                    return Err(Stop::Unsupported(why));
                }
            }
        }
        // The first ones are taken first.
        self.free.borrow_mut().extend((self.pages..pages).rev());
        self.pages = pages;
        Ok(())
    }
}

/// Tokens, lengths and tables of pages. As many columns as a power of two: then memory of the last call fits the next one.
fn arguments(sequences: &[(&mut Rows, &[u32])]) -> Result<Vec<Value>, Stop> {
    let batch = dim(sequences.len())?;
    let count = dim(sequences.first().map_or(0, |(_, tokens)| tokens.len()))?;
    let most = sequences.iter().map(|(rows, _)| rows.pages.len()).max().unwrap_or(0);
    let columns = most.next_power_of_two();
    let (mut tokens, mut lengths, mut table) = (Vec::new(), Vec::new(), Vec::new());
    for (rows, new) in sequences {
        tokens.extend(new.iter().map(|&token| i64::from(token)));
        lengths.push(dim(rows.positions)?);
        for at in 0..columns {
            table.push(dim(rows.pages.get(at).copied().unwrap_or(0))?);
        }
    }
    Ok(vec![
        tensor(&[batch, count], &tokens)?,
        tensor(&[batch], &lengths)?,
        tensor(&[batch, dim(columns)?], &table)?,
    ])
}

/// A tensor of i64.
pub(super) fn tensor(shape: &[i64], elements: &[i64]) -> Result<Value, Stop> {
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
    let tensor = Tensor::from_bytes(DType::I64, shape, &bytes);
    tensor.map(Value::Tensor).map_err(Stop::Unsupported)
}

/// A tensor of f32.
fn floats(shape: &[i64], elements: &[f32]) -> Result<Value, Stop> {
    Tensor::from_f32(shape, elements).map(Value::Tensor).map_err(Stop::Unsupported)
}

/// The items of a tuple of tensors.
fn tensors_of(value: &Value) -> Result<Vec<Tensor>, Stop> {
    let Value::Tuple(items) = value else { return Err(no("tuple")) };
    items.items().iter().map(tensor_of).collect()
}

fn tensor_of(value: &Value) -> Result<Tensor, Stop> {
    match value {
        Value::Tensor(tensor) => Ok(tensor.clone()),
        _ => Err(no("tensor")),
    }
}

pub(super) fn dim(extent: usize) -> Result<i64, Stop> {
    i64::try_from(extent).map_err(|error| Stop::Unsupported(error.to_string()))
}

fn no(what: &str) -> Stop {
    Stop::Unsupported(format!("the program of the model gives no {what}"))
}
