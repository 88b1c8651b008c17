//! Floor 8: the sentence encoder all-MiniLM-L6-v2 on its published weights. Sentences become
//! tokens, the program `corpus/models/minilm.rx` runs in the reference interpreter, and the cosines
//! of what it gives are printed.

pub mod encoder;
pub mod similarity;
pub mod tokens;
