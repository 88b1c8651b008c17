//! Floor 1: what programs mean.
