//! Structural counts of a module: `# structure[P1]: kernels = 1, main.bindings = 2, add = 1`.
//!
//! `functions` and `kernels` count definitions; `bindings`, `calls`, `match_casts`, `aliases`
//! (`y = x`), `ifs`, `closures` and `dataflow` (blocks) count what is in graph functions, nested bodies
//! included; the name of an operator counts its calls. With `f.` before it only the function `f`
//! counts. `kernels.ElementWise` counts the tensor programs that record this pattern, `buffers` what tensor
//! programs allocate, `f64` those of them in f64, `nests` their outermost loops, `loops` all, `parallel` those of this kind; `p.buffers` those
//! of the program `p`.

use relax_semantics::ops::lookup;
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{LoopKind, Stmt, StmtKind};
use relax_syntax::ir::{
    Atom, AttrValue, BlockKind, Body, Callee, Definition, Expr, Function, Module, TensorProgram,
    attr,
};

/// How many of `what` a module has.
///
/// # Errors
/// When nothing is called so.
pub fn count(module: &Module, what: &str) -> Result<usize, String> {
    match what {
        "functions" => return Ok(module.functions().count()),
        "kernels" => {
            let kernels = module.definitions.iter().filter(|d| matches!(d, Definition::Tensor(_)));
            return Ok(kernels.count());
        }
        _ => {}
    }
    if let Some(pattern) = what.strip_prefix("kernels.") {
        return Ok(recording(module, pattern));
    }
    let (program, kind) = what.rsplit_once('.').unwrap_or(("", what));
    if matches!(kind, "buffers" | "f64" | "nests" | "loops" | "parallel") {
        return in_programs(module, program, kind);
    }
    let (function, kind) = match what.split_once('.') {
        Some((name, kind)) if lookup(what).is_none() => {
            let unknown = || format!("`{what}`: there is no function `{name}`");
            (Some(module.function(name).ok_or_else(unknown)?), kind)
        }
        _ => (None, what),
    };
    let kind = Kind::of(kind).ok_or_else(|| format!("nothing is counted by the name `{kind}`"))?;
    let functions: Vec<&Function> = match function {
        Some(function) => vec![function],
        None => module.functions().collect(),
    };
    let bodies = functions.iter().filter_map(|function| function.lambda.body.as_ref());
    Ok(bodies.map(|body| kind.in_body(body)).sum())
}

/// Tensor programs whose `compute_pattern` is `pattern`.
fn recording(module: &Module, pattern: &str) -> usize {
    let records = |definition: &&Definition| {
        matches!(definition, Definition::Tensor(program)
            if matches!(attr(&program.attrs, "compute_pattern"),
                Some(AttrValue::Str(recorded)) if recorded == pattern))
    };
    module.definitions.iter().filter(records).count()
}

/// Loops at any depth, or those that are `parallel`.
fn loops(body: &[Stmt], what: &str) -> usize {
    let mut count = 0;
    visit_statements(body, &mut |stmt| {
        if let StmtKind::For { loops, kind, .. } = &stmt.kind
            && (what == "loops" || *kind == LoopKind::Parallel)
        {
            count += loops.len();
        }
    });
    count
}

/// Statements of tensor programs, or of one of them.
fn in_programs(module: &Module, program: &str, kind: &str) -> Result<usize, String> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(found) => Some(found),
        Definition::Graph(_) => None,
    });
    let programs: Vec<_> =
        programs.filter(|found| program.is_empty() || found.name == program).collect();
    if programs.is_empty() && !program.is_empty() {
        return Err(format!("there is no tensor program `{program}`"));
    }
    if matches!(kind, "loops" | "parallel") {
        let bodies = programs.into_iter().filter_map(|program| program.body.as_deref());
        return Ok(bodies.map(|body| loops(body, kind)).sum());
    }
    let counts = |program: &TensorProgram, stmt: &Stmt| match stmt.kind {
        StmtKind::Alloc(buffer) => match kind {
            "f64" => program.buffer(buffer).dtype == DType::F64,
            _ => kind == "buffers",
        },
        StmtKind::For { .. } => kind == "nests",
        _ => false,
    };
    let statements = programs.into_iter().flat_map(|program| {
        program.body.iter().flatten().filter(move |stmt| counts(program, stmt))
    });
    Ok(statements.count())
}

#[derive(Clone, Copy)]
enum Kind {
    Bindings,
    Calls,
    MatchCasts,
    Aliases,
    Ifs,
    Closures,
    Dataflow,
    Operator(&'static str),
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "bindings" => Kind::Bindings,
            "calls" => Kind::Calls,
            "match_casts" => Kind::MatchCasts,
            "aliases" => Kind::Aliases,
            "ifs" => Kind::Ifs,
            "closures" => Kind::Closures,
            "dataflow" => Kind::Dataflow,
            _ => Kind::Operator(lookup(name)?.name),
        })
    }

    fn in_body(self, body: &Body) -> usize {
        let blocks = body.blocks.iter();
        let own = match self {
            Kind::Dataflow => {
                blocks.filter(|b| matches!(b.kind, BlockKind::Dataflow { .. })).count()
            }
            _ => 0,
        };
        own + body.bindings().map(|binding| self.in_expr(&binding.expr)).sum::<usize>()
    }

    fn in_expr(self, expr: &Expr) -> usize {
        let nested = match expr {
            Expr::If { then, otherwise, .. } => self.in_body(then) + self.in_body(otherwise),
            Expr::Closure(lambda) => lambda.body.as_ref().map_or(0, |body| self.in_body(body)),
            _ => 0,
        };
        nested + usize::from(self.is(expr))
    }

    fn is(self, expr: &Expr) -> bool {
        match (self, expr) {
            (Kind::Bindings, _)
            | (Kind::Calls, Expr::Call { .. })
            | (Kind::MatchCasts, Expr::MatchCast(..))
            | (Kind::Aliases, Expr::Atom(Atom::Var(_)))
            | (Kind::Ifs, Expr::If { .. })
            | (Kind::Closures, Expr::Closure(_)) => true,
            (Kind::Operator(wanted), Expr::Call { callee: Callee::Operator(name), .. }) => {
                lookup(name).is_some_and(|row| row.name == wanted)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_program::frontend::Program;
    use relax_syntax::span::Source;

    #[test]
    fn counts_by_kind_function_and_operator() {
        let text = "def f(x: Object, c: Prim(\"bool\")):\n    if c:\n        y = nn.relu(x)\n    else:\n        y = x\n    \
                    z = relu(y)\n    return z\n\ndef g(x: Object):\n    return abs(x)\n";
        let program = Program::load(Source::new("text", text));
        assert!(!program.has_errors(), "{:?}", program.diagnostics);
        let counts = |what| count(&program.module, what);
        assert_eq!((counts("functions"), counts("kernels")), (Ok(2), Ok(0)));
        assert_eq!((counts("relu"), counts("f.nn.relu"), counts("g.relu")), (Ok(2), Ok(2), Ok(0)));
        assert_eq!((counts("f.bindings"), counts("bindings")), (Ok(4), Ok(5)));
        assert_eq!((counts("aliases"), counts("ifs")), (Ok(1), Ok(1)));
        assert!(counts("h.calls").is_err() && counts("things").is_err());
    }
}
