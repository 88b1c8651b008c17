//! Weights in panels: a matrix of constants that products read by columns is laid out as they read it, so that each panel
//! lies in one piece (packing, as libraries of products do it at every call).
//!
//! The text says it: the call of a small tensor program lays the weights out, and a version of the product reads
//! `P[j // w, k, j % w]` in the place of `W[k, j]`. As the weights are constants, whoever builds the program can make that
//! call once (`relax_lower::constants`). The last panel is filled with zeros, which nothing reads as an element: columns
//! of the product stay those that there were.
//!
//! Matrices of one panel or less stay: their rows are as near to each other as those of a panel.

mod layout;
mod program;

use crate::constants::{Reads, is_constant};
use crate::fresh::{Fresh, built_in};
use layout::Layout;
use program::{Version, packable};
use relax_rewrite::names::{Defined, Names};
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{
    Atom, Binding, BlockKind, Body, Callee, Definition, Expr, Module, TensorProgram, VarId,
};
use relax_syntax::span::Span;
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "pack_weights",
    doc: "Lays constant matrices that products read out in panels of columns, by a tensor program, and makes the \
          products read those.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

/// Columns of a panel where the settings say nothing.
const PANEL: i64 = 8;

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let width = context.settings.panel.map_or(PANEL, |panel| panel.get().into());
    let mut made = Made {
        width,
        names: Names::of(module),
        packable: packable_of(module, width),
        packs: BTreeMap::new(),
        versions: BTreeMap::new(),
        programs: Vec::new(),
    };
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut weights, mut calls) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let reads = Reads::of(module, function);
        let fresh = Fresh::of(&defined, function);
        let Some(body) = &mut function.lambda.body else { continue };
        let mut packing = Packing { module, made: &mut made, reads, fresh, weights: 0, calls: 0 };
        packing.body(body, &BTreeMap::new());
        (weights, calls) = (weights + packing.weights, calls + packing.calls);
        function.vars = packing.fresh.vars;
    }
    result.definitions.extend(made.programs.into_iter().map(Definition::Tensor));
    context.count("packed", weights, "weights");
    context.count("changed", calls, "calls");
    Ok(result)
}

/// For each tensor program the parameters that may come in panels.
fn packable_of(module: &Module, width: i64) -> BTreeMap<Name, Vec<(usize, Layout)>> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some((program.name.clone(), packable(program, width))),
        Definition::Graph(_) => None,
    });
    programs.filter(|(_, found)| !found.is_empty()).collect()
}

/// Tensor programs that the pass makes, each once.
struct Made {
    width: i64,
    names: Names,
    packable: BTreeMap<Name, Vec<(usize, Layout)>>,
    packs: BTreeMap<Layout, Name>,
    versions: BTreeMap<(Name, Vec<usize>), Name>,
    programs: Vec<TensorProgram>,
}

impl Made {
    /// The program that lays a matrix out.
    fn pack(&mut self, layout: Layout) -> Name {
        if let Some(name) = self.packs.get(&layout) {
            return name.clone();
        }
        let name = self.names.fresh(&layout.wanted_name());
        self.programs.push(layout.program(name.clone(), self.width));
        self.packs.insert(layout, name.clone());
        name
    }

    /// The program with these of its parameters in panels.
    fn version(&mut self, program: &TensorProgram, packed: &[(usize, Layout)]) -> Name {
        let key = (program.name.clone(), packed.iter().map(|(at, _)| *at).collect());
        if let Some(name) = self.versions.get(&key) {
            return name.clone();
        }
        let name = self.names.fresh(&format!("{}_packed", program.name));
        self.programs.push(Version { program, packed, width: self.width }.rewrite(name.clone()));
        self.versions.insert(key, name.clone());
        name
    }
}

/// One function.
struct Packing<'a, 'm> {
    module: &'m Module,
    made: &'a mut Made,
    reads: Reads<'m>,
    fresh: Fresh,
    weights: usize,
    calls: usize,
}

/// Weights that are packed where a statement stands.
type Packed = BTreeMap<(VarId, Layout), VarId>;

impl Packing<'_, '_> {
    fn body(&mut self, body: &mut Body, known: &Packed) {
        let mut known = known.clone();
        for block in &mut body.blocks {
            let is_plain = block.kind == BlockKind::Plain;
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then, &known);
                    self.body(otherwise, &known);
                }
                if is_plain {
                    self.call(&mut binding, &mut known, &mut bindings);
                }
                bindings.push(binding);
            }
            block.bindings = bindings;
        }
    }

    /// Makes a call take its constants in panels.
    fn call(&mut self, binding: &mut Binding, known: &mut Packed, out: &mut Vec<Binding>) {
        let span = self.fresh.vars[binding.var.0 as usize].span;
        let Expr::Call { callee: Callee::Global(name), args, .. } = &mut binding.expr else {
            return;
        };
        let Some(program) = self.module.tensor_program(name) else { return };
        let Some(candidates) = self.made.packable.get(name) else { return };
        let constant = |(at, _): &&(usize, Layout)| matches!(args.get(*at), Some(Atom::Var(var)) if is_constant(&self.reads, *var));
        let packed: Vec<(usize, Layout)> = candidates.iter().filter(constant).copied().collect();
        if packed.is_empty() {
            return;
        }
        self.calls += 1;
        *name = self.made.version(program, &packed);
        for (at, layout) in packed {
            let Atom::Var(weight) = args[at] else { continue };
            let there = known.get(&(weight, layout)).copied();
            let panels = there.unwrap_or_else(|| self.pack(weight, layout, span, out));
            known.insert((weight, layout), panels);
            args[at] = Atom::Var(panels);
        }
    }

    /// The weights in panels.
    fn pack(&mut self, weight: VarId, layout: Layout, span: Span, out: &mut Vec<Binding>) -> VarId {
        self.weights += 1;
        let base = self.fresh.vars[weight.0 as usize].name.clone();
        let dims = layout.dims(self.made.width);
        let annotation = Annotation::tensor(dims.clone(), DType::F32);
        let storage = format!("{base}_panels_storage");
        let storage = self.fresh.var(&storage, Some(Annotation::Object), span);
        let panels = self.fresh.var(&format!("{base}_panels"), Some(annotation), span);
        let shape = [Atom::Shape(dims), Atom::Str(Name::new(DType::F32.name()))];
        out.push(built_in(storage, "memory.alloc_storage", shape.to_vec()));
        let args = [&[Atom::Var(storage)], shape.as_slice()].concat();
        out.push(built_in(panels, "memory.alloc_tensor", args));
        let callee = Callee::Global(self.made.pack(layout));
        let args = vec![Atom::Var(weight), Atom::Var(panels)];
        let expr = Expr::Call { callee, args, attrs: Vec::new() };
        out.push(Binding { var: self.fresh.unit(span), expr });
        panels
    }
}
