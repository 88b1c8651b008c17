//! The tensor programs that the pass writes, as text.

use super::decoder::Decoder;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Stmt, StmtKind};
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::{Source, Span};

pub(super) const ROUNDING: &str = "round_rows";
pub(super) const PRODUCT: &str = "rounded_product";

pub(super) fn rounding(name: Name) -> TensorProgram {
    // Magnitudes below the first number and above the second have no quotient by them.
    let text = r#"
@tensorir_function
def round_rows(
    x: Buffer(("n", "b * 32"), "f32"),
    q: Buffer(("n", "b * 32"), "i8"),
    s: Buffer(("n", "b"), "f32"),
):
    n, b = sym_var(), sym_var()
    for i, j in grid(n, b):
        with block("most"):
            s[i, j] = 0.0
            for t in range(32):
                s[i, j] = max(s[i, j], abs(x[i, j * 32 + t]))
    for i, k in grid(n, b * 32):
        with block("round"):
            most = s[i, k // 32]
            is_normal = most >= 1e-30 and most <= 3e38
            q[i, k] = i8(select(is_normal, round(x[i, k] * (127.0 / most)), 0.0))
    for i, j in grid(n, b):
        with block("scale"):
            s[i, j] = select(s[i, j] < 1e-30, 0.0, s[i, j] / 127.0)
"#;
    program(text, name)
}

/// Of rounded rows and the matrix that is decoded so.
pub(super) fn product(name: Name, decoder: &Decoder) -> TensorProgram {
    let Decoder { data_dtype, scale_dtype, bits, zero, .. } = decoder;
    let words = match (bits, data_dtype) {
        (4, DType::U32) => "b * 4",
        (4, _) => "b * 16",
        _ => "b * 32",
    };
    let integer = match (bits, data_dtype) {
        (4, DType::U32) => "i32(w[j, t // 8] >> u32(t % 8 * 4) & 15)",
        (4, _) => "i32(w[j, t // 2] >> u8(t % 2 * 4) & 15)",
        _ => "i32(w[j, t])",
    };
    let integer = if *zero == 0 { integer.to_owned() } else { format!("{integer} - {zero}") };
    let scale = if *scale_dtype == DType::F16 { "f32(d[j, t // 32])" } else { "d[j, t // 32]" };
    let text = format!(
        r#"
@tensorir_function
def rounded_product(
    q: Buffer(("n", "b * 32"), "i8"),
    s: Buffer(("n", "b"), "f32"),
    w: Buffer(("c", "{words}"), "{data_dtype}"),
    d: Buffer(("c", "b"), "{scale_dtype}"),
    y: Buffer(("n", "c"), "f32"),
):
    n, b, c = sym_var(), sym_var(), sym_var()
    for i, j in grid(n, c):
        with block("product"):
            y[i, j] = 0.0
            for t in range(b * 32):
                y[i, j] += f32(q[i, t]) * s[i, t // 32] * (f32({integer}) * {scale})
"#
    );
    program(&text, name)
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
