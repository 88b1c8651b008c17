//! The tensor programs that the pass writes: rounding as text, and a product for each program that decodes.

use super::decoder::Decoder;
use relax_semantics::tir::walk::{Place, Rewrite, expr};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, Param, ScalarId, ScalarInfo, Scope, Stmt,
    StmtKind, TExpr,
};
use relax_syntax::ir::{Attrs, Definition, DimVar, TensorProgram};
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::{Source, Span};
use relax_tir::quantized::BLOCK;
use std::collections::BTreeSet;

pub(super) const ROUNDING: &str = "round_rows";
pub(super) const PRODUCT: &str = "rounded_product";

/// Of rows that lie in so many dims.
pub(super) fn rounding(name: Name, around: usize) -> TensorProgram {
    let each = |base: &str| -> String { (0..around).map(|at| format!("{base}{at}, ")).collect() };
    let (rows, i) = (each("n"), each("i"));
    let extents: String = (0..around).map(|at| format!("\"n{at}\", ")).collect();
    let dims = "sym_var(), ".repeat(around);
    // Magnitudes below the first number and above the second have no quotient by them.
    let text = format!(
        r#"
@tensorir_function
def round_rows(
    x: Buffer(({extents}"b * 32"), "f32"),
    q: Buffer(({extents}"b * 32"), "i8"),
    s: Buffer(({extents}"b"), "f32"),
):
    {rows}b = {dims}sym_var()
    for {i}j in grid({rows}b):
        with block("most"):
            s[{i}j] = 0.0
            for t in range(32):
                s[{i}j] = max(s[{i}j], abs(x[{i}j * 32 + t]))
    for {i}k in grid({rows}b * 32):
        with block("round"):
            most = s[{i}k // 32]
            is_normal = most >= 1e-30 and most <= 3e38
            q[{i}k] = i8(select(is_normal, round(x[{i}k] * (127.0 / most)), 0.0))
    for {i}j in grid({rows}b):
        with block("scale"):
            s[{i}j] = select(s[{i}j] < 1e-30, 0.0, s[{i}j] / 127.0)
"#
    );
    program(&text, name)
}

/// `y[i, j] = sum of f32(q[i, t]) * s[i, t // 32] * w[j, t]` with what a program stores in the place of `w[j, t]`, and as many indices
/// for `i` as rows have dims.
pub(super) fn product(name: Name, decoder: &Decoder, around: usize) -> Option<TensorProgram> {
    let [terms, blocks] = decoder.own_extents()?;
    let mut taken: BTreeSet<Name> = decoder.names().cloned().collect();
    let mut fresh = |base: &str| {
        let others = (0..).map(|at| Name::new(format!("{base}{at}")));
        let name =
            std::iter::once(Name::new(base)).chain(others).find(|name| !taken.contains(name));
        let name = name.expect("invariant: names do not end");
        taken.insert(name.clone());
        name
    };
    let rows: Vec<Name> = (0..around).map(|_| fresh("n")).collect();
    let [q, s, y] = ["q", "s", "y"].map(&mut fresh);
    let names: Vec<Name> = std::iter::repeat_n("i", around).chain(["j", "t"]).map(fresh).collect();
    let in_rows = |last: Dim| rows.iter().cloned().map(Dim::Var).chain([last]).collect();
    let columns = decoder.program.buffer(decoder.out).shape.first()?.clone();
    let buffer = |name, shape, dtype| {
        let (scope, span) = (Scope::Global, Span::default());
        BufferInfo { name, shape, dtype, scope, span }
    };
    let inputs = decoder.inputs.iter().map(|input| decoder.program.buffer(*input).clone());
    let buffers: Vec<BufferInfo> =
        [buffer(q, in_rows(terms), DType::I8), buffer(s, in_rows(blocks), DType::F32)]
            .into_iter()
            .chain(inputs)
            .chain([buffer(y, in_rows(columns), DType::F32)])
            .collect();
    let params = (0..).take(buffers.len()).map(|at| Param::Buffer(BufferId(at))).collect();
    let scalar = |name| ScalarInfo { name, dtype: Some(DType::I64), span: Span::default() };
    let own = rows.iter().map(|row| {
        let mut dim = DimVar::new(row.clone(), Span::default());
        dim.in_signature = true;
        dim
    });
    let dims = own.chain(decoder.program.dims.iter().cloned());
    let dims = as_named(dims.collect(), &buffers);
    let program = TensorProgram {
        name,
        span: Span::default(),
        params,
        attrs: Attrs::default(),
        dims,
        body: Some(vec![sum(decoder, &rows, u32::try_from(buffers.len()).ok()? - 1)]),
        buffers,
        scalars: names.into_iter().map(scalar).collect(),
    };
    // Spans are those of another text.
    Some(without_spans(program))
}

/// Dims in the order in which the text of a program names them, as it is read back.
fn as_named(mut dims: Vec<DimVar>, buffers: &[BufferInfo]) -> Vec<DimVar> {
    let mut named: Vec<Name> = Vec::new();
    for dim in buffers.iter().flat_map(|buffer| &buffer.shape) {
        dim.visit_vars(&mut |name| {
            if !named.contains(name) {
                named.push(name.clone());
            }
        });
    }
    dims.sort_by_key(|dim| named.iter().position(|name| *name == dim.name).unwrap_or(named.len()));
    dims
}

/// The loops of the product, whose buffers are `q`, `s`, the inputs of the decoder and `y`.
fn sum(decoder: &Decoder, rows: &[Name], y: u32) -> Stmt {
    let own: Vec<ScalarId> = (0..).map(ScalarId).take(rows.len() + 2).collect();
    let (i, [j, t]) = own.split_last_chunk().expect("invariant: a column and a term come last");
    let load = |buffer, indices| TExpr::Load { buffer: BufferId(buffer), indices };
    let stmt = |kind| Stmt { kind, span: Span::default() };
    let scalar = TExpr::Scalar;
    let at_row = |last| i.iter().copied().map(scalar).chain([last]).collect();
    let block = TExpr::binary(BinOp::FloorDiv, scalar(*t), TExpr::Int(BLOCK));
    let integer = TExpr::Cast(DType::F32, Box::new(load(0, at_row(scalar(*t)))));
    let x = TExpr::binary(BinOp::Mul, integer, load(1, at_row(block)));
    let mut renamed = Renamed { decoder, scalars: [*j, *t] };
    let w = expr(&decoder.value, &mut renamed, Place::Value);
    let store = |update, value| {
        let indices = at_row(scalar(*j));
        stmt(StmtKind::Store { buffer: BufferId(y), indices, update, value })
    };
    let each = |loops, kind, body| stmt(StmtKind::For { loops, kind, body });
    let [row, term] = &decoder.loops;
    let counted = |var, stop| Loop { var, start: TExpr::Int(0), stop };
    let terms = vec![counted(*t, term.stop.clone())];
    let added = store(Some(BinOp::Add), TExpr::binary(BinOp::Mul, x, w));
    let body = vec![store(None, TExpr::Float(0.0)), each(terms, LoopKind::Serial, vec![added])];
    let (name, axes, init) = (Some(Name::new("product")), Vec::new(), Vec::new());
    let block = stmt(StmtKind::Block { name, axes, init, body });
    let of_rows = i.iter().zip(rows).map(|(i, n)| counted(*i, TExpr::Dim(n.clone())));
    let loops = of_rows.chain([counted(*j, row.stop.clone())]).collect();
    each(loops, LoopKind::Grid, vec![block])
}

/// What a decoder stores, in the product.
struct Renamed<'d> {
    decoder: &'d Decoder,
    /// Its row and its term.
    scalars: [ScalarId; 2],
}

impl Rewrite for Renamed<'_> {
    fn buffer(&mut self, id: BufferId) -> BufferId {
        let place = self.decoder.inputs.iter().position(|input| *input == id);
        let place = place.and_then(|at| u32::try_from(at + 2).ok());
        BufferId(place.expect("invariant: it reads its inputs"))
    }

    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        let own = part.as_scalar()?;
        let at = self.decoder.loops.iter().position(|item| item.var == own)?;
        Some(TExpr::Scalar(self.scalars[at]))
    }
}

fn program(text: &str, name: Name) -> TensorProgram {
    let (file, wrong) = parse_file(&Source::new("round_activations", text));
    let (module, unresolved) = resolve_file(&file);
    let found = module.definitions.into_iter().next();
    let (true, Some(Definition::Tensor(program))) =
        (wrong.is_empty() && unresolved.is_empty(), found)
    else {
        panic!("invariant: the text is right: {wrong:?} {unresolved:?}");
    };
    // Spans are those of another text.
    without_spans(TensorProgram { name, ..program })
}

fn without_spans(mut program: TensorProgram) -> TensorProgram {
    program.span = Span::default();
    program.buffers.iter_mut().for_each(|buffer| buffer.span = Span::default());
    program.scalars.iter_mut().for_each(|scalar| scalar.span = Span::default());
    program.dims.iter_mut().for_each(|dim| dim.span = Span::default());
    program.body.iter_mut().flatten().for_each(clear);
    program
}

fn clear(stmt: &mut Stmt) {
    stmt.span = Span::default();
    if let StmtKind::For { body, .. } | StmtKind::Block { body, .. } = &mut stmt.kind {
        body.iter_mut().for_each(clear);
    }
}
