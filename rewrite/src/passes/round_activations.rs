//! Rounds the rows that products with quantized weights read to bytes, in blocks of 32 elements with a scale each, so that products
//! within a block are sums of integers: the Q8_0 of llama.cpp.
//!
//! Of a block with the greatest magnitude `a` the scale is `s = a / 127`, and an element moves by at most `0.505 * s`: half a step,
//! and the rounding of the quotient. A sum of products moves by at most the sum of `0.505 * s * |w|` over its terms, beside `(k + 4) * 2^-23`
//! times the sum of the magnitudes, those of scaled integers and of minimums, as sums are formed in f32. A block below 1e-30 becomes zeros, which moves
//! an element by 1e-30 at most. A block with an infinity or a NaN makes the results NaN that it goes into. No tolerance on results
//! follows from that without the operands, so verification of whole programs does not compare values here; the bound
//! itself is what this pass is tested with.
//!
//! A product is `matmul(x, permute_dims(w))` where `w` is decoded by a tensor program of the form that [`relax_tir::quantized`]
//! recognizes. Others stay as they are.

mod decoder;
mod programs;

use crate::blocks::tidy;
use crate::casts::{Casts, map_bodies};
use crate::dims::{assume_declared, same_dims};
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::{TirCall, call_tir};
use decoder::Decoder;
use programs::{PRODUCT, ROUNDING, product, rounding};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, BlockKind, Body, Callee, Definition, Expr, Module, TensorProgram, VarId,
};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "round_activations",
    doc: "Rounds what products with quantized weights read to i8, in blocks of 32 with a scale each; sums of \
          blocks are f32. This changes values.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Rounded(DType::I8),
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let decoders = decoders(module);
    let mut made = Made {
        names: Names::of(module),
        rounding: BTreeMap::new(),
        products: BTreeMap::new(),
        programs: Vec::new(),
    };
    let (mut rounded, mut found) = (0, 0);
    let (checked, facts) = (context.checked, &mut *context.facts);
    let mut result = map_bodies(module, checked, &mut |casts, body| {
        facts.push();
        assume_declared(facts, &casts.function().dims);
        let bound = body.bindings().map(|binding| (binding.var, binding.expr.clone())).collect();
        let mut walk = Walk {
            casts,
            facts,
            decoders: &decoders,
            made: &mut made,
            bound,
            replaced: Vec::new(),
            rounded: 0,
            found: 0,
        };
        walk.body(body);
        let replaced = std::mem::take(&mut walk.replaced);
        rounded += walk.rounded;
        found += walk.found;
        facts.pop();
        // Decoders of these forms never trap.
        replaced.into_iter().for_each(|var| drop_unused(body, var));
    });
    result.definitions.extend(made.programs.into_iter().map(Definition::Tensor));
    context.count_of(
        "rounded the left operands of",
        rounded,
        found,
        "products with decoded weights",
    );
    Ok(result)
}

/// The tensor programs that decode a matrix of a form that kernels take.
fn decoders(module: &Module) -> BTreeMap<Name, Option<Decoder>> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some((program.name.clone(), Decoder::of(program))),
        Definition::Graph(_) => None,
    });
    programs.collect()
}

/// The names of the programs that decode a matrix.
pub(super) fn names_of_decoders(module: &Module) -> BTreeSet<Name> {
    let known = decoders(module).into_iter();
    known.filter_map(|(name, decoder)| decoder.map(|_| name)).collect()
}

/// Tensor programs that the pass makes, each once.
struct Made {
    names: Names,
    /// By the number of dims that rows lie in.
    rounding: BTreeMap<usize, Name>,
    /// By the program that decodes, and by that number.
    products: BTreeMap<(Name, usize), Name>,
    programs: Vec<TensorProgram>,
}

impl Made {
    fn rounding(&mut self, around: usize) -> Name {
        let Self { names, rounding: of, programs, .. } = self;
        let name = of.entry(around).or_insert_with(|| {
            let name = names.fresh(ROUNDING);
            programs.push(rounding(name.clone(), around));
            name
        });
        name.clone()
    }

    fn product(&mut self, decoder: &Decoder, around: usize) -> Name {
        let Self { names, products, programs, .. } = self;
        let own = (decoder.program.name.clone(), around);
        let name = products.entry(own).or_insert_with(|| {
            let name = names.fresh(PRODUCT);
            let program = product(name.clone(), decoder, around);
            programs.push(program.expect("invariant: its inputs and its output have two dims"));
            name
        });
        name.clone()
    }
}

/// A product whose right operand is decoded.
struct Found<'d> {
    decoder: &'d Decoder,
    x: VarId,
    /// The right operand, and what it is the transpose of.
    right: [VarId; 2],
    /// The dims of the left operand.
    dims: Vec<Dim>,
    /// What is decoded.
    fields: Vec<Atom>,
    columns: Dim,
    /// Blocks of a row.
    blocks: Dim,
}

struct Walk<'a, 'c> {
    casts: &'a mut Casts<'c>,
    facts: &'a mut dyn Facts,
    decoders: &'a BTreeMap<Name, Option<Decoder>>,
    made: &'a mut Made,
    bound: BTreeMap<VarId, Expr>,
    /// Transposed and decoded weights of products that were rounded.
    replaced: Vec<VarId>,
    rounded: usize,
    found: usize,
}

impl<'a> Walk<'a, '_> {
    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then);
                    self.body(otherwise);
                } else if let Some(found) = self.product(&binding.expr) {
                    self.rounded += 1;
                    self.replaced.extend(found.right);
                    self.round(&found, &mut binding, &mut bindings);
                }
                bindings.push(binding);
            }
            block.bindings = bindings;
        }
    }

    fn product(&mut self, expr: &Expr) -> Option<Found<'a>> {
        let [Atom::Var(x), Atom::Var(turned)] = operands(expr, "matmul")? else { return None };
        let [Atom::Var(weights)] = operands(self.bound.get(turned)?, "permute_dims")? else {
            return None;
        };
        let call = TirCall::of(self.bound.get(weights)?)?;
        let decoder = self.decoders.get(call.program)?;
        self.found += 1;
        let decoder = decoder.as_ref().filter(|_| call.scalars.is_empty())?;
        let [columns, terms] = call.out.dims()? else { return None };
        let (columns, terms) = (columns.clone(), terms.clone());
        let left = self.casts.annotation(*x).as_tensor()?;
        let dims = left.extents.dims()?.to_vec();
        let shapes = call.args.iter().map(|field| match field {
            Atom::Var(field) => Some(self.casts.annotation(*field).dims()?.to_vec()),
            _ => None,
        });
        let [whole, blocks] = decoder.extents(&shapes.collect::<Option<Vec<_>>>()?)?;
        let last = dims.last()?.clone();
        let fits = left.dtype == Some(DType::F32)
            && dims.len() >= 2
            && self.casts.is_steady(&Atom::Var(*x))
            && same_dims(self.facts, &[last.clone(), terms.clone()], &[terms, whole]);
        let (x, right) = (*x, [*turned, *weights]);
        let fields = call.args.to_vec();
        fits.then_some(Found { decoder, x, right, dims, fields, columns, blocks })
    }

    /// Rows stay in the dims that they lie in: kernels tell a batch from the rows of one matrix by these.
    fn round(&mut self, found: &Found, binding: &mut Binding, before: &mut Vec<Binding>) {
        let Found { x, dims, fields, columns, blocks, decoder, .. } = found;
        let (_, around) = dims.split_last().expect("invariant: it has two dims");
        let in_rows = |last: &Dim| around.iter().chain([last]).cloned().collect();
        let bytes = Annotation::tensor(dims.clone(), DType::I8);
        let scales = Annotation::tensor(in_rows(blocks), DType::F32);
        let both = Annotation::Tuple(vec![bytes, scales]);
        let rounding = self.made.rounding(around.len());
        let rounded = self.bind(*x, call_tir(rounding, vec![Atom::Var(*x)], both), before);
        let part = |at: usize| Expr::Get(rounded.clone(), at);
        let both = [0, 1].map(|at| self.bind(*x, part(at), before));
        let args = [&both[..], fields].concat();
        let out = Annotation::tensor(in_rows(columns), DType::F32);
        binding.expr = call_tir(self.made.product(decoder, around.len()), args, out);
    }

    fn bind(&mut self, of: VarId, expr: Expr, before: &mut Vec<Binding>) -> Atom {
        let var = self.casts.fresh(&Atom::Var(of), DType::I8);
        before.push(Binding { var, expr });
        Atom::Var(var)
    }
}

/// Takes the binding of a variable out where nothing uses it.
fn drop_unused(body: &mut Body, var: VarId) {
    let mut used = BTreeSet::new();
    body.bindings().for_each(|binding| expr_uses(&binding.expr, &mut used));
    atom_uses(&body.result, &mut used);
    if used.contains(&var) {
        return;
    }
    for block in &mut body.blocks {
        block.bindings.retain(|binding| binding.var != var);
        if let BlockKind::Dataflow { outputs } = &mut block.kind {
            outputs.retain(|output| *output != var);
        }
    }
    tidy(body);
}

/// The operands of a call of an operator without attributes.
pub(super) fn operands<'e>(expr: &'e Expr, operator: &str) -> Option<&'e [Atom]> {
    match expr {
        Expr::Call { callee: Callee::Operator(name), args, attrs }
            if name == operator && attrs.is_empty() =>
        {
            Some(args)
        }
        _ => None,
    }
}
