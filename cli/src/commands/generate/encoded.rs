//! What the encoder of a model gives for a sequence: keys and values of cross attention, or features of images.

use super::pool::{Rows, dim, tensor};
use relax_llm::Config;
use relax_runtime::{DType, Stop, Tensor, Value};

/// Of one sequence.
#[derive(Clone, Default)]
pub(crate) enum Encoded {
    #[default]
    Nothing,
    /// Keys and values of each layer.
    Cross(Vec<Tensor>),
    /// Rows of features, so many, which the image tokens of the sequence read one after the other.
    Features(Tensor, usize),
}

/// What a call of the model takes beside tokens and caches.
pub(super) enum Beside {
    Nothing,
    /// Keys and values of the cross attention of one sequence.
    Cross,
    /// Features: the token of an image, and a row for calls that read none.
    Features(u32, Tensor),
}

impl Beside {
    pub(super) fn of(config: &Config) -> Result<Self, Stop> {
        if config.max_samples().is_some() {
            return Ok(Self::Cross);
        }
        let Some(image) = config.image_input() else { return Ok(Self::Nothing) };
        // The program reads a row for each token, and takes none of them.
        let row = Tensor::zeros(DType::F32, &[1, dim(config.hidden)?]);
        Ok(Self::Features(image.token, row.map_err(Stop::Unsupported)?))
    }

    /// The arguments of a call with these tokens of each sequence, and the rows of features that each sequence has read after it.
    pub(super) fn arguments(
        &self,
        sequences: &[(&mut Rows, &[u32])],
    ) -> Result<(Vec<Value>, Vec<usize>), Stop> {
        let read = sequences.iter().map(|(rows, _)| rows.features).collect();
        match (self, sequences) {
            (Self::Nothing, _) => Ok((Vec::new(), read)),
            (Self::Features(token, none), _) => features((*token, none), sequences, read),
            (Self::Cross, [(Rows { encoded: Encoded::Cross(tensors), .. }, _)]) => {
                Ok((tensors.iter().cloned().map(Value::Tensor).collect(), read))
            }
            (Self::Cross, _) => {
                Err(Stop::Misuse("a call of a model of speech takes one speech".to_owned()))
            }
        }
    }
}

fn features(
    (image, none): (u32, &Tensor),
    sequences: &[(&mut Rows, &[u32])],
    mut read: Vec<usize>,
) -> Result<(Vec<Value>, Vec<usize>), Stop> {
    let (mut places, mut taken) = (Vec::new(), None);
    let count = sequences.first().map_or(0, |(_, tokens)| tokens.len());
    for ((rows, tokens), read) in sequences.iter().zip(&mut read) {
        for &token in *tokens {
            // An image token beyond those of images is a token as others are.
            let of = match &rows.encoded {
                Encoded::Features(features, rows) if token == image && *read < *rows => features,
                _ => {
                    places.push(-1);
                    continue;
                }
            };
            if sequences.len() > 1 {
                return Err(Stop::Misuse("images are read by one sequence at a time".to_owned()));
            }
            places.push(dim(*read)?);
            *read += 1;
            taken = Some(of);
        }
    }
    let places = tensor(&[dim(sequences.len())?, dim(count)?], &places)?;
    Ok((vec![Value::Tensor(taken.unwrap_or(none).clone()), places], read))
}
