//! Metadata of GGUF files, as language models and vocabularies read them.

use relax_llm::{Metadata, VocabularyMetadata};
use relax_program::tensor_files::{GgufArray, GgufValue};
use std::collections::BTreeMap;

/// The metadata of a GGUF file by key.
pub(crate) struct GgufMetadata<'g>(pub(crate) &'g BTreeMap<String, GgufValue>);

impl Metadata for GgufMetadata<'_> {
    fn keys(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn number(&self, key: &str) -> Option<f64> {
        number(self.0.get(key)?)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.as_str().map(str::to_owned)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }

    fn texts(&self, key: &str) -> Option<Vec<String>> {
        let items = self.0.get(key)?.as_array()?.iter();
        items.map(|item| item.as_str().map(str::to_owned)).collect()
    }

    fn length(&self, key: &str) -> Option<usize> {
        self.0.get(key)?.as_array().map(GgufArray::len)
    }
}

impl VocabularyMetadata for GgufMetadata<'_> {
    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        let items = self.0.get(key)?.as_array()?.iter();
        items.map(|item| number(&item)).collect()
    }
}

fn number(value: &GgufValue) -> Option<f64> {
    let integer = || value.as_i64().map(|integer| integer as f64);
    value.as_f64().or_else(integer).or_else(|| value.as_u64().map(|integer| integer as f64))
}
