//! Attention, with and without a bias and a mask.

use super::{Call, Form, one};
use crate::body::Body;
use crate::scope::Type;
use relax_syntax::dim::Dim;

pub(super) const FORMS: &[Form] = &[attention];

fn attention(body: &mut Body) -> Option<Call> {
    let (batch, queries, keys) = (body.dim(), body.dim(), body.dim());
    let (heads, shared, depth) = body.choices.of(&[(1, 1, 2), (2, 1, 3), (2, 2, 1)]);
    let dtype = body.choices.of(&["f32", "f16"]);
    let of = |length: &Dim, heads: i64, depth: i64| {
        let dims = vec![batch.clone(), length.clone(), Dim::Int(heads), Dim::Int(depth)];
        Type::new(dims, dtype)
    };
    let query = body.exact(&of(&queries, heads, depth));
    let key = body.exact(&of(&keys, shared, depth));
    let value = body.exact(&of(&keys, shared, 2));
    let mask = body.choices.of(&[
        "",
        ", causal_mask=\"TopLeft\"",
        ", causal_mask=\"BottomRight\"",
        ", causal_mask=\"TopLeft\", window_size=2",
    ]);
    let result = of(&queries, heads, 2);
    if body.choices.once_in(2) {
        let dims = vec![batch.clone(), Dim::Int(1), queries, keys];
        let bias = body.exact(&Type::new(dims, dtype));
        return one(format!("attention_bias({query}, {key}, {value}, {bias}{mask})"), result);
    }
    one(format!("attention({query}, {key}, {value}{mask})"), result)
}
