//! How the threads of a row go through its elements: each of them through those that lie apart by the number of threads.

use super::bind::{indexed, named};
use super::block::Kernel;
use super::expressions::{add, ceil_divide, extent, multiply};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};

/// Elements that a thread goes through at once, where none of them is beyond the end: as many loads are under way.
const AT_ONCE: i64 = 4;

impl Kernel<'_> {
    /// Iterations of inner loops, in one loop with a guard for each: write coverage proves that it comes to all of them.
    pub(super) fn in_turns(&mut self, loops: &[Loop], body: Vec<Stmt>) -> Vec<Stmt> {
        let (width, extents) = self.width(loops);
        let turns = ceil_divide(width.clone(), self.all());
        vec![self.turns((loops, &extents), (TExpr::Int(0), turns), &width, body)]
    }

    /// Iterations of inner loops: some at once without a guard, then one by one those that are left. Of several loops each has a guard: only
    /// by that is it proved that no extent is 0 by which the number is divided.
    pub(super) fn strided(&mut self, loops: &[Loop], body: &[Stmt]) -> Vec<Stmt> {
        if loops.len() > 1 {
            return self.in_turns(loops, body.to_vec());
        }
        let (width, extents) = self.width(loops);
        let all = self.all() * AT_ONCE;
        let (whole, left) = match &width {
            TExpr::Int(width) => (TExpr::Int(width / all), TExpr::Int(width % all)),
            _ => {
                let part = |op| TExpr::binary(op, width.clone(), TExpr::Int(all));
                (part(BinOp::FloorDiv), part(BinOp::Mod))
            }
        };
        let mut done = Vec::new();
        let kind =
            StmtKind::For { loops: loops.to_vec(), kind: LoopKind::Serial, body: body.to_vec() };
        let own = self.writer.renamed(&Stmt { kind, span: self.span });
        if whole != TExpr::Int(0)
            && let StmtKind::For { loops, body, .. } = own.kind
        {
            done.push(self.at_once((&loops, &extents), whole.clone(), body));
        }
        if left != TExpr::Int(0) {
            let begin = multiply(whole, TExpr::Int(all));
            let turns = ceil_divide(left, self.all());
            let rest = self.turns((loops, &extents), (begin, turns), &width, body.to_vec());
            done.push(rest);
        }
        done
    }

    /// Threads that share a row.
    fn all(&self) -> i64 {
        self.piece.map_or(self.threads, |(_, pieces)| self.threads * pieces)
    }

    /// Which of them this one is.
    fn number(&self) -> TExpr {
        let thread = TExpr::Scalar(self.thread);
        let Some((piece, _)) = self.piece else { return thread };
        add(multiply(TExpr::Scalar(piece), TExpr::Int(self.threads)), thread)
    }

    /// How many iterations inner loops have, and the extents of each.
    fn width(&mut self, loops: &[Loop]) -> (TExpr, Vec<TExpr>) {
        let extents: Vec<TExpr> = loops.iter().map(extent).collect();
        let product = extents.iter().cloned().reduce(multiply).unwrap_or(TExpr::Int(1));
        let (width, outside) = named(self.writer, product, self.span);
        self.outside.extend(outside);
        (width, extents)
    }

    /// An iteration for each thread and turn, from `begin` on, where it is below `width`.
    fn turns(
        &mut self,
        (loops, extents): (&[Loop], &[TExpr]),
        (begin, turns): (TExpr, TExpr),
        width: &TExpr,
        body: Vec<Stmt>,
    ) -> Stmt {
        let step = self.writer.scalar("step", Some(DType::I64), self.span);
        let at = multiply(TExpr::Scalar(step), TExpr::Int(self.all()));
        let at = add(add(begin, at), self.number());
        let loops: Vec<&Loop> = loops.iter().collect();
        let body = indexed(self.writer, &loops, (at, Some(width), extents), body, self.span);
        self.over((step, turns), LoopKind::Serial, body)
    }

    fn over(&self, (var, stop): (ScalarId, TExpr), kind: LoopKind, body: Vec<Stmt>) -> Stmt {
        let loops = vec![Loop { var, start: TExpr::Int(0), stop }];
        Stmt { kind: StmtKind::For { loops, kind, body }, span: self.span }
    }

    /// Some iterations for each thread and turn, all of which are there.
    fn at_once(
        &mut self,
        (loops, extents): (&[Loop], &[TExpr]),
        turns: TExpr,
        body: Vec<Stmt>,
    ) -> Stmt {
        let [step, part] =
            ["step", "u"].map(|base| self.writer.scalar(base, Some(DType::I64), self.span));
        let number = multiply(TExpr::Scalar(step), TExpr::Int(AT_ONCE * self.all()));
        let within = multiply(TExpr::Scalar(part), TExpr::Int(self.all()));
        let at = add(add(number, within), self.number());
        let loops: Vec<&Loop> = loops.iter().collect();
        let body = indexed(self.writer, &loops, (at, None, extents), body, self.span);
        let body = self.over((part, TExpr::Int(AT_ONCE)), LoopKind::Unroll, body);
        self.over((step, turns), LoopKind::Serial, vec![body])
    }
}
