//! Two-dimensional convolutions work on channels last: `permute_dims` goes before and after them, and
//! between neighbours, elementwise operators and poolings among them, none is left.
//!
//! In each block a value may have a twin in the other layout. What is made of values with twins is made
//! of the twins, and the value itself is the twin permuted back, which dead code elimination takes
//! away when nothing needs it. Only what never stops the program is converted.

use super::map_functions;
use crate::in_place::updated_in_place;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_semantics::ops::{Family, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId, VarInfo};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "convert_layout",
    doc: "Makes 2D convolutions work on NHWC, with what is between them; permute_dims stands where \
          values come from NCHW or go there.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    // The products of a convolution are summed in the order of the layout.
    exactness: Exactness::Approximate,
    run,
};

/// Axes of the value that the result takes in order.
const TO_LAST: [i64; 4] = [0, 2, 3, 1];
const TO_FIRST: [i64; 4] = [0, 3, 1, 2];

/// Rows with a parameter `layout`.
const POOLS: &[&str] = &["nn.max_pool2d", "nn.avg_pool2d"];

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut names = Names::of(module);
    let (mut converted, mut convolutions) = (0, 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut walk = Walk {
            function,
            annotations: &context.checked.annotations[&function.name],
            updated: updated_in_place(module, function),
            traps: &mut traps,
            names: &mut names,
            vars: &mut rebuilt.vars,
            twins: BTreeMap::new(),
            made: Vec::new(),
            convolutions: 0,
            converted: 0,
        };
        walk.body(&mut body);
        convolutions += walk.convolutions;
        converted += walk.converted;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("converted", convolutions, "convolutions");
    context.count("converted", converted, "neighbours of them");
    Ok(result)
}

struct Walk<'a, 'm> {
    function: &'a Function,
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    names: &'a mut Names,
    vars: &'a mut Vec<VarInfo>,
    /// Variables of the block with their values in NHWC.
    twins: BTreeMap<VarId, VarId>,
    /// The bindings of the block so far.
    made: Vec<Binding>,
    convolutions: usize,
    converted: usize,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        let outer = (std::mem::take(&mut self.twins), std::mem::take(&mut self.made));
        for block in &mut body.blocks {
            self.twins.clear();
            for mut binding in std::mem::take(&mut block.bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then);
                    self.body(otherwise);
                }
                self.binding(binding);
            }
            block.bindings = std::mem::take(&mut self.made);
        }
        (self.twins, self.made) = outer;
    }

    fn binding(&mut self, binding: Binding) {
        let twin = self.twin(&binding);
        let Some(twin) = twin else {
            self.made.push(binding);
            return;
        };
        let of_twin = self.bind(&format!("{}_nhwc", self.function.var(binding.var).name), twin);
        let expr = permuted(of_twin, TO_FIRST);
        self.made.push(Binding { var: binding.var, expr });
        self.twins.insert(binding.var, of_twin);
    }

    /// The same computation in NHWC.
    fn twin(&mut self, binding: &Binding) -> Option<Expr> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let row = lookup(name)?;
        let is_named = self.function.var(binding.var).name != "_";
        if !is_named || self.rank(binding.var) != Some(4) || self.updated.contains(&binding.var) {
            return None;
        }
        let is_convolution = row.name == "nn.conv2d";
        let is_neighbour =
            matches!(row.family, Family::Unary) && args.len() == 1 && attrs.is_empty()
                || row.family == Family::Binary && args.len() == 2 && attrs.is_empty()
                || POOLS.contains(&row.name) && args.len() == 1;
        let fits = is_convolution && args.len() == 2 || is_neighbour;
        if !fits || !self.traps.is_removable(self.function, binding) {
            return None;
        }
        let call =
            |args, attrs| Some(Expr::Call { callee: Callee::Operator(name.clone()), args, attrs });
        let Some(Atom::Var(data)) = args.first() else { return None };
        if is_convolution {
            let attrs = with_layouts(attrs, "data_layout")?;
            let data = Atom::Var(self.last(*data));
            self.convolutions += 1;
            return call(vec![data, args[1].clone()], attrs);
        }
        let twins = args.iter().map(|arg| match arg {
            Atom::Var(var) => self.twins.get(var).copied().map(Atom::Var),
            _ => None,
        });
        let twins = twins.collect::<Option<Vec<Atom>>>()?;
        let attrs =
            if POOLS.contains(&row.name) { with_layouts(attrs, "layout")? } else { Vec::new() };
        self.converted += 1;
        call(twins, attrs)
    }

    /// The value in NHWC.
    fn last(&mut self, var: VarId) -> VarId {
        if let Some(&twin) = self.twins.get(&var) {
            return twin;
        }
        let name = format!("{}_nhwc", self.function.var(var).name);
        let twin = self.bind(&name, permuted(var, TO_LAST));
        self.twins.insert(var, twin);
        twin
    }

    fn bind(&mut self, name: &str, expr: Expr) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let (name, span) = (self.names.fresh(name), self.function.span);
        self.vars.push(VarInfo { name, annotation: None, span });
        self.made.push(Binding { var, expr });
        var
    }

    fn rank(&self, var: VarId) -> Option<usize> {
        match &self.annotations[var.0 as usize] {
            Annotation::Tensor(tensor) => tensor.extents.rank(),
            _ => None,
        }
    }
}

fn permuted(var: VarId, axes: [i64; 4]) -> Expr {
    let axes = axes.into_iter().map(|axis| Atom::Dim(Dim::Int(axis))).collect();
    let args = vec![Atom::Var(var), Atom::List(axes)];
    Expr::Call { callee: Callee::Operator(Name::new("permute_dims")), args, attrs: Vec::new() }
}

/// The attributes with the layout of data and result in NHWC; `None` where they are not in NCHW.
fn with_layouts(attrs: &[(Name, Atom)], param: &str) -> Option<Vec<(Name, Atom)>> {
    let mut kept = Vec::with_capacity(attrs.len() + 1);
    for (key, atom) in attrs {
        match atom {
            _ if key != param && key != "out_layout" => kept.push((key.clone(), atom.clone())),
            Atom::Str(layout) if layout == "NCHW" => {}
            Atom::None => {}
            _ => return None,
        }
    }
    kept.push((Name::new(param), Atom::Str(Name::new("NHWC"))));
    Some(kept)
}
