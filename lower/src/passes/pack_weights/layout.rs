//! How a matrix lies, and the tensor program that lays it out in panels.

use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, Param, ScalarId, ScalarInfo, Scope, Stmt,
    StmtKind, TExpr,
};
use relax_syntax::span::Span;

/// The right matrix of a product as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Layout {
    /// Terms of the product.
    pub(super) terms: i64,
    /// Columns of the product.
    pub(super) columns: i64,
    /// Whether the columns of the product are its rows.
    pub(super) turned: bool,
}

impl Layout {
    /// How many panels of this width there are.
    fn panels(self, width: i64) -> i64 {
        self.columns.div_euclid(width) + i64::from(self.columns % width != 0)
    }

    /// The dims of the panels.
    pub(super) fn dims(self, width: i64) -> Vec<Dim> {
        [self.panels(width), self.terms, width].map(Dim::Int).to_vec()
    }

    /// Where the element of a term and a column is in panels.
    pub(super) fn place(term: TExpr, column: TExpr, width: i64) -> Vec<TExpr> {
        let panel = TExpr::binary(BinOp::FloorDiv, column.clone(), TExpr::Int(width));
        vec![panel, term, TExpr::binary(BinOp::Mod, column, TExpr::Int(width))]
    }

    pub(super) fn wanted_name(self) -> String {
        let turned = if self.turned { "_turned" } else { "" };
        format!("pack_{}_{}{turned}", self.terms, self.columns)
    }

    /// `P[p, k, c] = X[k, p * width + c]`, and zeros beyond the last column.
    pub(super) fn program(self, name: Name, width: i64) -> TensorProgram {
        let own = if self.turned { [self.columns, self.terms] } else { [self.terms, self.columns] };
        let buffer = |name: &str, shape: Vec<Dim>| BufferInfo {
            name: Name::new(name),
            shape,
            dtype: DType::F32,
            scope: Scope::Global,
            span: Span::default(),
        };
        let buffers = vec![buffer("X", own.map(Dim::Int).to_vec()), buffer("P", self.dims(width))];
        let scalar = |name: &str| ScalarInfo {
            name: Name::new(name),
            dtype: Some(DType::I64),
            span: Span::default(),
        };
        TensorProgram {
            name,
            span: Span::default(),
            params: vec![Param::Buffer(BufferId(0)), Param::Buffer(BufferId(1))],
            attrs: Vec::new(),
            dims: Vec::new(),
            body: Some(self.body(width)),
            buffers,
            scalars: ["p", "k", "c"].map(scalar).to_vec(),
        }
    }

    fn body(self, width: i64) -> Vec<Stmt> {
        let vars = [0, 1, 2].map(|at| TExpr::Scalar(ScalarId(at)));
        let [panel, term, within] = vars.clone();
        let first = TExpr::binary(BinOp::Mul, panel, TExpr::Int(width));
        let column = TExpr::binary(BinOp::Add, first, within);
        let indices =
            if self.turned { vec![column.clone(), term] } else { vec![term, column.clone()] };
        let element = TExpr::Load { buffer: BufferId(0), indices };
        let value = if self.columns % width == 0 {
            element
        } else {
            let there = TExpr::binary(BinOp::Less, column, TExpr::Int(self.columns));
            TExpr::Select(Box::new((there, element, TExpr::Float(0.0))))
        };
        let store =
            StmtKind::Store { buffer: BufferId(1), indices: vars.to_vec(), update: None, value };
        let loops = [self.panels(width), self.terms, width].into_iter().zip(0..);
        let loops = loops.map(|(extent, at)| Loop {
            var: ScalarId(at),
            start: TExpr::Int(0),
            stop: TExpr::Int(extent),
        });
        let of = |kind| Stmt { kind, span: Span::default() };
        let body = vec![of(store)];
        vec![of(StmtKind::For { loops: loops.collect(), kind: LoopKind::Grid, body })]
    }
}
