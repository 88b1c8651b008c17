//! Operators that a pass writes in the place of another one: calls in A-normal form, each bound to a variable of its own.

use crate::casts::astype;
use crate::names::Names;
use crate::passes::map_functions;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Constant, Expr, Function, Module, VarId, VarInfo,
};
use std::sync::Arc;

/// The bindings so far of a block that is rewritten.
pub(crate) struct Writer<'a> {
    pub(crate) function: &'a Function,
    pub(crate) names: &'a mut Names,
    pub(crate) vars: &'a mut Vec<VarInfo>,
    pub(crate) made: Vec<Binding>,
}

/// Rebuilds the body of each function: `rewrite` gets it with a writer for new bindings, and says how many operators it replaced.
/// Gives the sum of these numbers too.
pub(crate) fn rewrite_bodies(
    module: &Module,
    rewrite: &mut dyn FnMut(Writer<'_>, &mut Body) -> usize,
) -> (Module, usize) {
    let (mut names, mut replaced) = (Names::of(module), 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let (names, vars, made) = (&mut names, &mut rebuilt.vars, Vec::new());
        replaced += rewrite(Writer { function, names, vars, made }, &mut body);
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    (result, replaced)
}

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, all in f64; without a scale or a shift where there is none.
pub(crate) struct Normalized {
    pub(crate) x: Atom,
    pub(crate) mean: Atom,
    pub(crate) variance: Atom,
    pub(crate) gamma: Option<Atom>,
    pub(crate) beta: Option<Atom>,
    pub(crate) epsilon: f64,
}

impl Writer<'_> {
    /// A new variable near the one that it is for.
    pub(crate) fn bind(&mut self, name: &str, result: VarId, expr: Expr) -> Atom {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let (name, span) = (self.names.fresh(name), self.function.var(result).span);
        self.vars.push(VarInfo { name, annotation: None, span });
        self.made.push(Binding { var, expr });
        Atom::Var(var)
    }

    /// A value in f64.
    pub(crate) fn wide(&mut self, name: &str, result: VarId, value: Atom, from: DType) -> Atom {
        if from == DType::F64 {
            return value;
        }
        self.bind(name, result, astype(value, DType::F64))
    }

    /// A value of each channel, with axes of 1 behind it.
    pub(crate) fn stretched(&mut self, value: Atom, behind: usize, result: VarId) -> Atom {
        if behind == 0 {
            return value;
        }
        let axes = (1_i64..).take(behind).map(|axis| Atom::Dim(Dim::Int(axis))).collect();
        self.bind("channels", result, call("expand_dims", vec![value, Atom::List(axes)]))
    }

    /// The normalized elements, rounded to `dtype`.
    pub(crate) fn normalized(&mut self, norm: Normalized, dtype: DType, result: VarId) -> Expr {
        let Normalized { x, mean, variance, gamma, beta, epsilon } = norm;
        let sum = self.bind("variance", result, call("add", vec![variance, number(epsilon)]));
        let root = self.bind("deviation", result, call("sqrt", vec![sum]));
        let centered = self.bind("centered", result, call("subtract", vec![x, mean]));
        let mut last = call("divide", vec![centered, root]);
        let factors = [("normalized", "multiply", gamma), ("scaled", "add", beta)];
        for (name, operator, operand) in factors {
            if let Some(operand) = operand {
                last = call(operator, vec![self.bind(name, result, last), operand]);
            }
        }
        if dtype == DType::F64 {
            return last;
        }
        astype(self.bind("shifted", result, last), dtype)
    }
}

/// A call with positional operands.
pub(crate) fn call(operator: &str, args: Vec<Atom>) -> Expr {
    Expr::Call { callee: Callee::Operator(Name::new(operator)), args, attrs: Vec::new() }
}

/// A float of f64, as a tensor of rank 0.
pub(crate) fn number(value: f64) -> Atom {
    constant(DType::F64, Literals::Float(vec![value]))
}

/// A tensor of rank 0.
pub(crate) fn constant(dtype: DType, data: Literals) -> Atom {
    Atom::Constant(Arc::new(Constant { shape: Vec::new(), dtype, data }))
}
