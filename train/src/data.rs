//! Data: files of examples in the order of an epoch, batches and windows cut from them along symbolic dims of the program.

use crate::config::{ConfigError, Cut, DataConfig};
use crate::error::TrainError;
use crate::tensors::TensorFile;
use relax_program::signature::{Dims, bind};
use relax_semantics::random::Random;
use relax_semantics::show::shown_shape;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use std::path::PathBuf;

/// The place of the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Counts from 0.
    pub(crate) epoch: u64,
    /// In the order of the epoch.
    pub(crate) file: u64,
    /// Examples of the file that were used, in its order of the epoch.
    pub(crate) row: u64,
}

/// A parameter that is data.
struct Input {
    name: Name,
    annotation: Annotation,
    batch_axis: Option<usize>,
    length_axis: Option<usize>,
}

/// All files, and the one that is read.
pub(crate) struct Data {
    config: DataConfig,
    files: Vec<PathBuf>,
    inputs: Vec<Input>,
    seed: u64,
    max_bytes: u64,
    open: Option<OpenFile>,
}

/// The tensors of a file, and the order of its examples in an epoch.
struct OpenFile {
    epoch: u64,
    at: usize,
    tensors: Vec<Tensor>,
    /// Extents along the cut dims.
    rows: Option<usize>,
    length: Option<usize>,
    order: Vec<usize>,
}

/// The values of parameters in a step.
pub(crate) struct Batch {
    pub(crate) values: Vec<(Name, Tensor)>,
    /// Of symbolic variables.
    pub(crate) dims: Dims,
}

impl Data {
    /// Finds files, and where they are cut. No tensor is read.
    pub(crate) fn new(
        config: &DataConfig,
        inputs: Vec<(Name, Annotation)>,
        (seed, max_bytes): (u64, u64),
    ) -> Result<Self, TrainError> {
        let input = |(name, annotation): (Name, Annotation)| {
            let axis =
                |cut: &Option<Cut>| axis_of(annotation.as_tensor()?, &cut.as_ref()?.dim.value);
            let (batch_axis, length_axis) = (axis(&config.batch), axis(&config.length));
            Input { name, batch_axis, length_axis, annotation }
        };
        let inputs: Vec<Input> = inputs.into_iter().map(input).collect();
        let is_cut = |axis: fn(&Input) -> Option<usize>| inputs.iter().any(|i| axis(i).is_some());
        let unknown = |cut: &Cut, key: &str| {
            let message = format!(
                "no tensor of the data has an axis that is the symbolic variable `{}` (`data.{key}`)",
                cut.dim.value
            );
            TrainError::from(ConfigError::new(cut.dim.span, message))
        };
        if let Some(cut) = config.batch.as_ref().filter(|_| !is_cut(|input| input.batch_axis)) {
            return Err(unknown(cut, "batch"));
        }
        if let Some(cut) = config.length.as_ref().filter(|_| !is_cut(|input| input.length_axis)) {
            return Err(unknown(cut, "length"));
        }
        for input in &inputs {
            let place = cut_twice(config, input);
            place.map_or(Ok(()), |(cut, why)| Err(ConfigError::new(cut.dim.span, why)))?;
        }
        let files = found(config)?;
        Ok(Self { config: config.clone(), files, inputs, seed, max_bytes, open: None })
    }

    /// The batch at a place, which moves on. The step counts from 1.
    pub(crate) fn next(&mut self, cursor: &mut Cursor, step: u64) -> Result<Batch, TrainError> {
        if cursor.file >= self.files.len() as u64 {
            *cursor = Cursor { epoch: cursor.epoch + 1, file: 0, row: 0 };
        }
        let file = self.opened(cursor)?;
        let row = usize::try_from(cursor.row).unwrap_or(usize::MAX);
        let rows = match (&self.config.batch, file.rows) {
            (Some(batch), Some(all)) => {
                let size = usize::try_from(batch.size(step)).unwrap_or(usize::MAX);
                let end = row.saturating_add(size).min(all);
                Some(file.order[row.min(end)..end].to_vec())
            }
            _ => None,
        };
        let last = rows.as_ref().is_none_or(|rows| row + rows.len() >= file.order.len());
        let window = self.window(&file, rows.as_deref(), step)?;
        let mut batch = Batch { values: Vec::new(), dims: Dims::new() };
        for (input, tensor) in self.inputs.iter().zip(&file.tensors) {
            let tensor = cut(tensor, input, rows.as_deref(), window.as_ref());
            bind(&input.annotation, &Value::Tensor(tensor.clone()), &mut batch.dims);
            batch.values.push((input.name.clone(), tensor));
        }
        if last {
            *cursor = Cursor { file: cursor.file + 1, row: 0, ..*cursor };
        } else {
            cursor.row += rows.map_or(0, |rows| rows.len() as u64);
        }
        self.open = Some(file);
        Ok(batch)
    }

    /// The file at a place; that of the step before is not read again.
    fn opened(&mut self, cursor: &Cursor) -> Result<OpenFile, TrainError> {
        let order = self.order(cursor.epoch, "files", self.files.len());
        let at = order[usize::try_from(cursor.file).expect("invariant: it is less than a length")];
        let file = match self.open.take() {
            Some(open) if (open.epoch, open.at) == (cursor.epoch, at) => return Ok(open),
            // With one file, the tensors of an epoch are those of the next one.
            Some(open) if open.at == at => open,
            _ => self.read(at)?,
        };
        let rows = file.rows.unwrap_or(0);
        let order = self.order(cursor.epoch, &format!("examples/{at}"), rows);
        Ok(OpenFile { epoch: cursor.epoch, order, ..file })
    }

    /// The numbers below `count`, in the order of an epoch.
    fn order(&self, epoch: u64, what: &str, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        if self.config.shuffles {
            let mut random = Random::new(self.seed, &format!("data/{what}/{epoch}"));
            for end in (1..count).rev() {
                let other = random.int(&(0..=i64::try_from(end).unwrap_or(i64::MAX)));
                order.swap(end, usize::try_from(other).expect("invariant: it is not negative"));
            }
        }
        order
    }

    fn read(&self, at: usize) -> Result<OpenFile, TrainError> {
        let file = TensorFile::open(&self.files[at], self.max_bytes)?;
        let shown = file.path().display();
        let mut tensors = Vec::new();
        for input in &self.inputs {
            let tensor = file.tensor(&input.name)?;
            let wanted = input.annotation.as_tensor();
            let dtype = wanted.and_then(|wanted| wanted.dtype).unwrap_or(tensor.dtype());
            let rank = wanted.and_then(|wanted| wanted.extents.rank()).unwrap_or(tensor.rank());
            if (dtype, rank) != (tensor.dtype(), tensor.rank()) {
                return Err(TrainError::Input(format!(
                    "{shown}: `{}` must be `{}`, found {} of shape {}; nothing is cast silently",
                    input.name,
                    input.annotation,
                    tensor.dtype(),
                    shown_shape(tensor.shape())
                )));
            }
            tensors.push(tensor);
        }
        let extent = |cut: &Option<Cut>, axis: fn(&Input) -> Option<usize>| {
            let Some(cut) = cut else { return Ok(None) };
            common_extent(cut, self.inputs.iter().map(axis), (&self.inputs, &tensors))
                .map_err(|why| TrainError::Input(format!("{shown}: {why}")))
        };
        let rows = extent(&self.config.batch, |input| input.batch_axis)?;
        let length = extent(&self.config.length, |input| input.length_axis)?;
        if rows == Some(0) {
            return Err(TrainError::Input(format!("{shown}: there are no examples in it")));
        }
        Ok(OpenFile { epoch: u64::MAX, at, tensors, rows, length, order: Vec::new() })
    }

    /// Where the windows of a step begin, one for each example, and how long they are.
    fn window(
        &self,
        file: &OpenFile,
        rows: Option<&[usize]>,
        step: u64,
    ) -> Result<Option<(Vec<usize>, usize)>, TrainError> {
        let (Some(cut), Some(extent)) = (&self.config.length, file.length) else { return Ok(None) };
        let wanted = cut.size(step);
        let size =
            usize::try_from(wanted).ok().filter(|size| *size <= extent).ok_or_else(|| {
                TrainError::Input(format!(
                    "{}: step {step} takes windows of {wanted} of `{}`, and the file has {extent}",
                    self.files[file.at].display(),
                    cut.dim.value
                ))
            })?;
        let mut random = Random::new(self.seed, &format!("data/windows/{step}"));
        let free = i64::try_from(extent - size).unwrap_or(i64::MAX);
        let mut begin = || usize::try_from(random.int(&(0..=free))).unwrap_or(0);
        let count = rows.map_or(1, <[usize]>::len);
        Ok(Some(((0..count).map(|_| begin()).collect(), size)))
    }
}

fn axis_of(tensor: &TensorType, dim: &Name) -> Option<usize> {
    let is_dim = |found: &Dim| matches!(found, Dim::Var(name) if name == dim);
    tensor.extents.dims()?.iter().position(is_dim)
}

/// A cut that does not say which elements of a tensor are meant, and why.
fn cut_twice<'c>(config: &'c DataConfig, input: &Input) -> Option<(&'c Cut, String)> {
    let name = &input.name;
    for cut in [&config.batch, &config.length].into_iter().flatten() {
        let dims = input.annotation.as_tensor().and_then(|tensor| tensor.extents.dims());
        let dim = &cut.dim.value;
        let is_dim = |found: &&Dim| matches!(found, Dim::Var(name) if name == dim);
        if dims.is_some_and(|dims| dims.iter().filter(is_dim).count() > 1) {
            return Some((cut, format!("`{name}` has two axes of `{dim}`, which cannot be cut")));
        }
    }
    let (batch, length) = (config.batch.as_ref()?, config.length.as_ref()?);
    let is_ambiguous = input.length_axis.is_some() && input.batch_axis.is_none();
    is_ambiguous.then(|| {
        let (rows, dim) = (&batch.dim.value, &length.dim.value);
        let why = "every example has a window of its own";
        (length, format!("`{name}` has an axis of `{dim}` and none of `{rows}`: {why}"))
    })
}

/// The extent of all tensors along a dim that is cut; an error names two that differ.
fn common_extent(
    cut: &Cut,
    axes: impl Iterator<Item = Option<usize>>,
    (inputs, tensors): (&[Input], &[Tensor]),
) -> Result<Option<usize>, String> {
    let mut first: Option<(usize, &Name)> = None;
    for ((axis, input), tensor) in axes.zip(inputs).zip(tensors) {
        let Some(axis) = axis else { continue };
        let extent = tensor.shape()[axis];
        match first {
            Some((other, name)) if other != extent => {
                return Err(format!(
                    "`{name}` has {other} of `{dim}`, and `{}` has {extent}",
                    input.name,
                    dim = cut.dim.value
                ));
            }
            _ => first = Some((extent, &input.name)),
        }
    }
    Ok(first.map(|(extent, _)| extent))
}

/// Examples of a tensor, of each a window.
fn cut(
    tensor: &Tensor,
    input: &Input,
    rows: Option<&[usize]>,
    window: Option<&(Vec<usize>, usize)>,
) -> Tensor {
    let rows = input.batch_axis.zip(rows);
    let window = input.length_axis.zip(window);
    if rows.is_none() && window.is_none() {
        return tensor.clone();
    }
    let mut shape = tensor.shape().to_vec();
    if let Some((axis, rows)) = rows {
        shape[axis] = rows.len();
    }
    if let Some((axis, (_, size))) = window {
        shape[axis] = *size;
    }
    let strides = relax_semantics::tensor::strides(tensor.shape());
    let position = |index: Vec<usize>| {
        let mut index = index;
        let row = rows.map_or(0, |(axis, _)| index[axis]);
        if let Some((axis, rows)) = rows {
            index[axis] = rows[row];
        }
        if let Some((axis, (begins, _))) = window {
            index[axis] += begins[row];
        }
        index.iter().zip(&strides).map(|(at, stride)| at * stride).sum()
    };
    let positions: Vec<usize> = relax_semantics::tensor::indices(&shape).map(position).collect();
    tensor.select(&shape, &positions)
}

/// The files of a configuration: paths as they are given, those of a pattern in the order of their names.
fn found(config: &DataConfig) -> Result<Vec<PathBuf>, ConfigError> {
    let span = config.files.span;
    let mut files = Vec::new();
    for text in &config.files.value {
        if !text.contains(['*', '?', '[']) {
            let path = config.folder.join(text);
            if let Err(error) = path.metadata() {
                let message = format!("cannot read {}: {error}", path.display());
                return Err(ConfigError::new(span, message));
            }
            files.push(path);
            continue;
        }
        let folder = glob::Pattern::escape(&config.folder.to_string_lossy());
        let pattern = PathBuf::from(folder).join(text);
        let wrong = |why: String| ConfigError::new(span, format!("`{text}`: {why}"));
        let matches = glob::glob(&pattern.to_string_lossy()).map_err(|e| wrong(e.to_string()))?;
        let before = files.len();
        for path in matches {
            files.push(path.map_err(|error| wrong(error.to_string()))?);
        }
        if files.len() == before {
            return Err(wrong("no file has such a name".to_owned()));
        }
    }
    Ok(files)
}
