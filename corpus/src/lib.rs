//! Floor 2: the corpus and its harness.
