//! Scaled dot-product attention: scores, their softmax, and the sums of values by it. All in f64,
//! rounded once.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::stretched;
use super::normalization::Lanes;
use super::reduction::{Axes, summed};
use super::total::Total;
use crate::formula::{Scalar, select};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::Intrinsic;

/// `attention`: query is (b, s, h, d), key (b, t, k, d), value (b, t, v, e), the result (b, s, h, e).
pub(in crate::ops) fn attention(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let [query, key, value] =
        [builder.input("query")?, builder.input("key")?, builder.input("value")?];
    let (bias, output) = (builder.input("bias"), builder.output());
    let [batch, rows, heads, depth] = query.dims.clone().try_into().ok()?;
    let columns = key.dims[1].clone();
    let scale = match request.is_none("scale") {
        true => {
            Scalar::from(1.0) / Scalar::from(&depth).into_dtype(DType::F64).call(Intrinsic::Sqrt)
        }
        false => request.float("scale")?.into(),
    };
    let mask = Mask::of(request, &rows, &columns)?;
    let dims = [batch, heads, rows, columns.clone()];
    let scores = builder.allocate("S", &dims, DType::F64);
    let products = Total::new(&mut builder, "P", &dims, query.dtype);
    builder.nest(&dims, |builder, at| {
        let [b, h, i, j] = at else { return };
        summed(builder, &products, at, std::slice::from_ref(&depth), |along| {
            let d = &along[0];
            let of_key = [b.clone(), j.clone(), shared(h, &query, &key), d.clone()];
            query.wide(&[b.clone(), i.clone(), h.clone(), d.clone()]) * key.wide(&of_key)
        });
        let mut score = products.value(at) * scale;
        if let Some(bias) = &bias {
            let own = bias.dims.iter().zip(&dims).zip(at);
            let own = own.map(|((own, wide), index)| stretched(own, wide, index));
            score = score + bias.wide(&own.collect::<Vec<_>>());
        }
        builder.store(&scores, at, mask.masked(i, j, score));
    });
    let axes = Axes::over(4, &[3], false);
    let lanes = Lanes::of(&mut builder, &axes, &dims, query.dtype);
    lanes.write(&mut builder, |at| scores.at(at));
    // A row's weights once, and not once for every column of the value.
    let weights = builder.allocate("W", &dims, scores.dtype);
    builder.nest(&dims, |builder, at| {
        let weight = (scores.at(at) - lanes.most.at(&at[..3])).exp() / lanes.total.value(&at[..3]);
        builder.store(&weights, at, weight);
    });
    let sums = Total::new(&mut builder, "Z", &output.dims, query.dtype);
    builder.nest(&output.dims, |builder, at| {
        let [b, i, h, e] = at else { return };
        summed(builder, &sums, at, std::slice::from_ref(&columns), |along| {
            let j = &along[0];
            let of_value = [b.clone(), j.clone(), shared(h, &query, &value), e.clone()];
            weights.at(&[b.clone(), h.clone(), i.clone(), j.clone()]) * value.wide(&of_value)
        });
        builder.store(&output, at, sums.value(at).cast(DType::F64, output.dtype));
    });
    Some(builder)
}

/// Which head of key or value serves a head of query.
fn shared(head: &Scalar, query: &Buffer, other: &Buffer) -> Scalar {
    let (all, own) = (&query.dims[2], &other.dims[2]);
    match own {
        _ if all == own => head.clone(),
        Dim::Int(1) => 0.into(),
        _ => head.clone().floor_div(Scalar::from(all).floor_div(own)),
    }
}

/// Which columns of the scores a row sees: up to its own and an offset, the last ones of a window.
struct Mask(Option<(Scalar, Option<i64>)>);

impl Mask {
    fn of(request: &Request, rows: &Dim, columns: &Dim) -> Option<Self> {
        if request.is_none("causal_mask") {
            return Some(Self(None));
        }
        let offset = match request.str("causal_mask")? {
            "TopLeft" => 0.into(),
            _ => (Scalar::from(rows) - columns).abs(),
        };
        let window = match request.is_none("window_size") {
            true => None,
            false => Some(request.int("window_size")?),
        };
        Some(Self(Some((offset, window))))
    }

    fn masked(self, row: &Scalar, column: &Scalar, score: Scalar) -> Scalar {
        let Some((offset, window)) = self.0 else { return score };
        // Differences of places stay in i64, where a sum of extents may leave it.
        let ahead = column.clone() - row;
        let mut hidden = ahead.greater(&offset);
        if let Some(window) = window {
            hidden = hidden.or((offset - window).at_least(ahead));
        }
        select(hidden, f64::NEG_INFINITY, score)
    }
}
