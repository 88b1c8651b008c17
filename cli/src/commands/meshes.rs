//! Meshes as text and JSON: extents are integers, or names of what a run binds.

use relax_sharding::layout::Axes;
use relax_syntax::dim::Dim;
use serde_json::{Value, json};

/// The extents as text, such as `2 x p`.
pub(super) fn times(axes: &Axes) -> String {
    let each: Vec<String> = axes.workers.iter().map(ToString::to_string).collect();
    each.join(" x ")
}

/// The extents as JSON: integers, and names as strings.
pub(super) fn extents(axes: &Axes) -> Vec<Value> {
    let extent = |own: &Dim| match own {
        Dim::Int(literal) => json!(literal),
        name => json!(name.to_string()),
    };
    axes.workers.iter().map(extent).collect()
}
