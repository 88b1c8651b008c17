//! Floor 1: decides facts on dims.
