//! Sentences as the ids and masks that the model reads.

use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Data, Tensor};
use std::path::Path;
use tokenizers::{
    PaddingDirection, PaddingParams, PaddingStrategy, TruncationDirection, TruncationParams,
    TruncationStrategy,
};

/// The model has this many positions.
pub const MOST_TOKENS: usize = 512;
/// The id of `[PAD]`.
const PADDING: u32 = 0;

/// Sentences of one run: ids, and 1 where a token counts, both i64 of shape (sentences, tokens).
pub struct Batch {
    /// Token ids; 0 where a sentence is shorter than the longest.
    pub ids: Tensor,
    /// 1 for a token, 0 for padding.
    pub mask: Tensor,
    /// Which sentences are longer than the model reads; their ends are left out.
    pub cut: Vec<usize>,
}

/// Splits sentences into the model's vocabulary.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    /// Reads `tokenizer.json`. Its limits are those of training; here a sentence may have as many
    /// tokens as the model has positions, and a batch is as long as its longest sentence.
    ///
    /// # Errors
    /// When the file cannot be read or describes no tokenizer; a sentence for the user.
    pub fn open(path: &Path) -> Result<Self, String> {
        let read = std::fs::read(path);
        let bytes = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::from_bytes(&bytes).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|why| why.to_string())?;
        let truncation = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: MOST_TOKENS,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        inner.with_truncation(Some(truncation)).map_err(|why| why.to_string())?;
        inner.with_padding(Some(PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            direction: PaddingDirection::Right,
            pad_to_multiple_of: None,
            pad_id: PADDING,
            pad_type_id: 0,
            pad_token: "[PAD]".to_owned(),
        }));
        Ok(Self { inner })
    }

    /// The tokens of sentences, padded to the longest.
    ///
    /// # Errors
    /// When the tokenizer refuses a sentence.
    pub fn batch(&self, sentences: &[String]) -> Result<Batch, String> {
        let encoded = self.inner.encode_batch(sentences.to_vec(), true);
        let encoded = encoded.map_err(|why| why.to_string())?;
        let length = encoded.iter().map(|one| one.get_ids().len()).max().unwrap_or(0);
        let shape = [encoded.len(), length];
        let ids = encoded.iter().flat_map(|one| one.get_ids().iter().copied());
        let mask = encoded.iter().flat_map(|one| one.get_attention_mask().iter().copied());
        let is_cut = |place: &usize| !encoded[*place].get_overflowing().is_empty();
        let cut = (0..encoded.len()).filter(is_cut).collect();
        Ok(Batch { ids: integers(&shape, ids)?, mask: integers(&shape, mask)?, cut })
    }
}

fn integers(shape: &[usize], elements: impl Iterator<Item = u32>) -> Result<Tensor, String> {
    let elements = elements.map(i64::from).collect();
    let array = ArrayD::from_shape_vec(IxDyn(shape), elements)
        .map_err(|_| "the tokenizer did not pad every sentence to the longest".to_owned())?;
    Ok(Tensor::from_data(Data::I64(array.into_shared())))
}
