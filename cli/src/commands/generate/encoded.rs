//! Results of an encoder for the sequences of a pool: keys and values of cross attention, or features of images.

use super::pool::{Rows, dim, tensor};
use relax_llm::Config;
use relax_runtime::{DType, Stop, Tensor, Value};

/// What a call is given beside tokens and caches.
pub(super) enum Encoded {
    Nothing,
    /// Keys and values of each layer, of one sequence.
    Cross(Vec<Tensor>),
    /// Rows of features. So many are of images, which the image tokens of a sequence read one after the other.
    Features {
        features: Tensor,
        rows: usize,
        token: u32,
    },
}

impl Encoded {
    /// What there is before anything is encoded.
    pub(super) fn before(config: &Config) -> Result<Self, Stop> {
        let Some(image) = config.image_input() else { return Ok(Self::Nothing) };
        // The program reads a row for each token, and takes none of them.
        let features = Tensor::zeros(DType::F32, &[1, dim(config.hidden)?]);
        let features = features.map_err(Stop::Unsupported)?;
        Ok(Self::Features { features, rows: 0, token: image.token })
    }

    /// The arguments of a call with these tokens of each sequence, and the rows of features that each sequence has read after it.
    pub(super) fn arguments(
        &self,
        sequences: &[(&mut Rows, &[u32])],
    ) -> Result<(Vec<Value>, Vec<usize>), Stop> {
        let mut read: Vec<usize> = sequences.iter().map(|(rows, _)| rows.features).collect();
        let (features, rows, image) = match self {
            Self::Nothing => return Ok((Vec::new(), read)),
            Self::Cross(tensors) => {
                return Ok((tensors.iter().cloned().map(Value::Tensor).collect(), read));
            }
            Self::Features { features, rows, token } => (features, *rows, *token),
        };
        let mut places = Vec::new();
        let count = sequences.first().map_or(0, |(_, tokens)| tokens.len());
        for ((_, tokens), read) in sequences.iter().zip(&mut read) {
            for &token in *tokens {
                // An image token beyond those of images is a token as others are.
                let is_row = token == image && *read < rows;
                places.push(if is_row { dim(*read)? } else { -1 });
                *read += usize::from(is_row);
            }
        }
        let places = tensor(&[dim(sequences.len())?, dim(count)?], &places)?;
        Ok((vec![Value::Tensor(features.clone()), places], read))
    }
}
