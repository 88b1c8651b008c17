//! Texts of language models: read, checked and run by the interpreter, compared with what transformers computes
//! (`scripts/models/llm_reference.py`).

mod blocks;
mod formats;
mod gguf;
mod model;
mod pages;
mod quantize;
mod reference;
mod refusals;
