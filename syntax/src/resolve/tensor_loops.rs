//! Loops and blocks of tensor programs.

use super::sym_var::call_of;
use super::tensor::TensorResolver;
use super::tensor_codes as codes;
use crate::ast::{Argument, Expr, ExprKind, Identifier, Statement, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::ir::tensor::{Axis, AxisKind, Loop, LoopKind, Stmt, StmtKind, TExpr};

type Read<T> = Result<T, Diagnostic>;

/// Arguments by position or name, one a parameter; `None` for one too many or unknown.
pub(super) fn positional<'a>(
    arguments: &'a [Argument],
    params: &[&str],
) -> Option<Vec<Option<&'a Expr>>> {
    let mut slots = vec![None; params.len()];
    for (at, argument) in arguments.iter().enumerate() {
        let at = match &argument.keyword {
            Some(keyword) => params.iter().position(|param| keyword.name == *param)?,
            None => at,
        };
        let slot = slots.get_mut(at)?;
        if slot.replace(&argument.value).is_some() {
            return None;
        }
    }
    Some(slots)
}

fn wrong<T>(expr: &Expr, message: &str) -> Read<T> {
    Err(Diagnostic::error(codes::LOOP, expr.span, message))
}

type Bounds = (TExpr, TExpr);

impl TensorResolver<'_> {
    pub(super) fn for_loop(
        &mut self,
        targets: &[Identifier],
        iterator: &Expr,
        body: &[Statement],
    ) -> Option<StmtKind> {
        let header = self.iterator(iterator).and_then(|(bounds, kind)| {
            if bounds.len() == targets.len() {
                return Ok((bounds, kind));
            }
            let message =
                format!("{} loop variable(s) for {} range(s)", targets.len(), bounds.len());
            wrong(iterator, &message)
        });
        let header = self.note(header);
        self.scoped(|resolver| {
            let vars: Vec<_> =
                targets.iter().map(|name| resolver.bind_scalar(name, Some(DType::I64))).collect();
            let body = resolver.nested(body);
            let (bounds, kind) = header?;
            let loops = bounds
                .into_iter()
                .zip(vars)
                .map(|((start, stop), var)| Some(Loop { var: var?, start, stop }));
            Some(StmtKind::For { loops: loops.collect::<Option<_>>()?, kind, body })
        })
    }

    fn iterator(&mut self, iterator: &Expr) -> Read<(Vec<Bounds>, LoopKind)> {
        let ExprKind::Call { callee, arguments } = &iterator.kind else {
            return wrong(iterator, "expected `grid(…)`, `range(…)` or another kind of loop");
        };
        let ExprKind::Name(name) = &callee.kind else {
            return wrong(iterator, "expected the name of a kind of loop");
        };
        let kind = match name.as_str() {
            "grid" => return Ok((self.grid(arguments)?, LoopKind::Grid)),
            "thread_binding" => return self.thread_binding(iterator, arguments),
            "shard" => return self.shard(iterator, arguments),
            "range" | "serial" => LoopKind::Serial,
            "parallel" => LoopKind::Parallel,
            "vectorized" => LoopKind::Vectorized,
            "unroll" => LoopKind::Unroll,
            _ => return wrong(iterator, &format!("`{name}` is no kind of loop")),
        };
        let slots = match arguments[..] {
            [_] => positional(arguments, &["stop"]),
            _ => positional(arguments, &["start", "stop"]),
        };
        Ok((vec![self.bounds(iterator, slots.as_deref())?], kind))
    }

    /// `range(stop)` or `range(start, stop)`
    fn bounds(&mut self, iterator: &Expr, slots: Option<&[Option<&Expr>]>) -> Read<Bounds> {
        match slots {
            Some([Some(stop)]) => Ok((TExpr::Int(0), self.expr(stop)?)),
            Some([Some(start), Some(stop)]) => Ok((self.expr(start)?, self.expr(stop)?)),
            _ => wrong(iterator, "a loop has one bound, or a start and a stop"),
        }
    }

    /// Each extent may be a pair of start and stop.
    fn grid(&mut self, arguments: &[Argument]) -> Read<Vec<Bounds>> {
        let mut bounds = Vec::new();
        for argument in arguments {
            if let Some(keyword) = &argument.keyword {
                let message = "`grid` has no named arguments";
                return Err(Diagnostic::error(codes::LOOP, keyword.span, message));
            }
            bounds.push(match &argument.value.kind {
                ExprKind::Tuple(pair) => {
                    let slots: Vec<_> = pair.iter().map(Some).collect();
                    self.bounds(&argument.value, Some(&slots))?
                }
                _ => (TExpr::Int(0), self.expr(&argument.value)?),
            });
        }
        Ok(bounds)
    }

    fn thread_binding(
        &mut self,
        iterator: &Expr,
        arguments: &[Argument],
    ) -> Read<(Vec<Bounds>, LoopKind)> {
        let params: &[&str] = match arguments.len() {
            0..=2 => &["extent", "thread"],
            _ => &["start", "stop", "thread"],
        };
        let slots = positional(arguments, params);
        let Some([bounds @ .., Some(Expr { kind: ExprKind::Str(thread), .. })]) = slots.as_deref()
        else {
            return wrong(iterator, "expected `thread_binding(extent, \"threadIdx.x\")`");
        };
        Ok((vec![self.bounds(iterator, Some(bounds))?], LoopKind::Thread(thread.clone())))
    }

    fn shard(&mut self, iterator: &Expr, arguments: &[Argument]) -> Read<(Vec<Bounds>, LoopKind)> {
        let slots = positional(arguments, &["extent", "mesh", "mesh_dim"]);
        let Some([Some(extent), Some(mesh), mesh_dim]) = slots.as_deref() else {
            return wrong(iterator, "expected `shard(extent, \"mesh[0]\", mesh_dim=0)`");
        };
        let mesh_dim = match mesh_dim.map(|dim| &dim.kind) {
            None => Some(0),
            Some(ExprKind::Int(dim)) => usize::try_from(*dim).ok(),
            Some(_) => None,
        };
        let (ExprKind::Str(mesh), Some(mesh_dim)) = (&mesh.kind, mesh_dim) else {
            return wrong(iterator, "expected the name of a mesh, and the number of its axis");
        };
        let extent = self.expr(extent)?;
        Ok((vec![(TExpr::Int(0), extent)], LoopKind::Shard { mesh: mesh.clone(), mesh_dim }))
    }

    /// `with block("name"):`
    pub(super) fn block(&mut self, context: &Expr, body: &[Statement]) -> Option<StmtKind> {
        let Some(arguments) = call_of(context, "block") else {
            let message = "expected `block(\"name\")`; `init()` stands at the head of a block";
            self.error(codes::BLOCK, context.span, message);
            return None;
        };
        let name = match arguments {
            [] => None,
            [Argument { keyword: None, value: Expr { kind: ExprKind::Str(name), .. } }] => {
                Some(name.clone())
            }
            _ => {
                self.error(codes::BLOCK, context.span, "a block has one name, in quotes");
                None
            }
        };
        self.scoped(|resolver| {
            let (axes, rest) = resolver.axes(body);
            let (init, rest) = resolver.init(rest);
            Some(StmtKind::Block { name, axes, init, body: resolver.nested(rest) })
        })
    }

    /// `with init():` at the head of a block, and the statements after it.
    fn init<'s>(&mut self, body: &'s [Statement]) -> (Vec<Stmt>, &'s [Statement]) {
        let Some((first, rest)) = body.split_first() else { return (Vec::new(), body) };
        match &first.kind {
            StatementKind::With { context, body: init }
                if call_of(context, "init").is_some_and(<[_]>::is_empty) =>
            {
                (self.nested(init), rest)
            }
            _ => (Vec::new(), body),
        }
    }

    /// The axes at the head of a block, and the statements after them.
    fn axes<'s>(&mut self, body: &'s [Statement]) -> (Vec<Axis>, &'s [Statement]) {
        let mut axes = Vec::new();
        for (at, statement) in body.iter().enumerate() {
            let Some(pairs) = axis_pairs(statement) else { return (axes, &body[at..]) };
            for (name, kind, call) in pairs {
                let axis = self.axis(name, kind, call);
                axes.extend(axis);
            }
        }
        (axes, &[])
    }

    fn axis(&mut self, name: &Expr, kind: AxisKind, call: &Expr) -> Option<Axis> {
        let ExprKind::Name(text) = &name.kind else {
            self.error(codes::BLOCK, name.span, "expected a name for this axis");
            return None;
        };
        let arguments = match &call.kind {
            ExprKind::Call { arguments, .. } => arguments.as_slice(),
            _ => &[],
        };
        let Some([Some(extent), Some(value)]) = positional(arguments, &["extent", "value"])
            .as_deref()
            .map(|slots| [slots[0], slots[1]])
        else {
            self.error(codes::BLOCK, call.span, "an axis has an extent and a value");
            return None;
        };
        let (extent, value) = (self.expr(extent), self.expr(value));
        let (extent, value) = (self.note(extent), self.note(value));
        let identifier = Identifier { name: text.clone(), span: name.span };
        let var = self.bind_scalar(&identifier, Some(DType::I64))?;
        Some(Axis { var, kind, extent: extent?, value: value? })
    }
}

/// `vi = spatial(n, i)`, or several of them in a tuple.
fn axis_pairs(statement: &Statement) -> Option<Vec<(&Expr, AxisKind, &Expr)>> {
    let StatementKind::Assign { target, annotation: None, value } = &statement.kind else {
        return None;
    };
    let pairs: Vec<(&Expr, &Expr)> = match (&target.kind, &value.kind) {
        (ExprKind::Tuple(names), ExprKind::Tuple(values)) if names.len() == values.len() => {
            names.iter().zip(values).collect()
        }
        _ => vec![(target, value)],
    };
    let kind = |call: &Expr| {
        let spatial = call_of(call, "spatial").map(|_| AxisKind::Spatial);
        spatial.or(call_of(call, "reduce").map(|_| AxisKind::Reduce))
    };
    pairs.into_iter().map(|(name, call)| Some((name, kind(call)?, call))).collect()
}
