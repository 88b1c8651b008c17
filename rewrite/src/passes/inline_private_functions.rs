//! A call of a private function becomes its bindings, one level of calls a run: what the caller knows
//! of its values is then known of the function's too.
//!
//! A call stays where the boundary of the function checks something that is not proved, where a dim of
//! the signature is not told by the arguments' dims, and in a dataflow block, when the function has
//! branches. The function of a fused group stays whole.

use super::fuse_ops::PRIMITIVE;
use super::map_functions;
use crate::blocks::tidy;
use crate::dims::match_dims;
use crate::in_place::updated_in_place;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::references;
use crate::substitute::replace_dims;
use crate::verify::is_private;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, DimVar, Expr, Function, Module,
    Renaming, VarId, VarInfo, attr, rename_body,
};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "inline_private_functions",
    doc: "Puts the bindings of private functions in the place of their calls, where the arguments are \
          proved to fit.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let callees: BTreeMap<&Name, &Function> = module
        .functions()
        .filter(|function| may_go(module, context, function))
        .map(|function| (&function.name, function))
        .collect();
    let mut names = Names::of(module);
    let mut inlined = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut walk = Walk {
            annotations: &context.checked.annotations[&function.name],
            updated: updated_in_place(module, function),
            callees: &callees,
            left: &context.checked.left_in(&function.name).vars,
            names: &mut names,
            function: &mut rebuilt,
            inlined: 0,
        };
        walk.body(&mut body);
        inlined += walk.inlined;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("inlined", inlined, "calls");
    Ok(result)
}

/// Whether calls of a function may be replaced by what it does.
fn may_go(module: &Module, context: &PassContext, function: &Function) -> bool {
    let is_primitive =
        matches!(attr(&function.lambda.attrs, PRIMITIVE), Some(AttrValue::Bool(true)));
    let returns = !context.checked.left_in(&function.name).result;
    is_private(function)
        && function.lambda.body.is_some()
        && !is_primitive
        && returns
        && updated_in_place(module, function).is_empty()
        && !calls_itself(module, &function.name)
}

fn calls_itself(module: &Module, name: &Name) -> bool {
    let (mut seen, mut work) = (BTreeSet::new(), vec![name.clone()]);
    while let Some(at) = work.pop() {
        let Some(function) = module.function(&at) else { continue };
        let references = references(function);
        for called in references.called.into_iter().chain(references.held) {
            if called == *name {
                return true;
            }
            if seen.insert(called.clone()) {
                work.push(called);
            }
        }
    }
    false
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    /// Those that may go.
    callees: &'a BTreeMap<&'a Name, &'a Function>,
    /// Bindings with checks that are left to run time.
    left: &'a BTreeSet<VarId>,
    names: &'a mut Names,
    /// What is being rebuilt, without its body.
    function: &'a mut Function,
    inlined: usize,
}

impl<'a> Walk<'a> {
    fn body(&mut self, body: &mut Body) {
        for block in std::mem::take(&mut body.blocks) {
            match block.kind {
                BlockKind::Plain => self.plain(block, &mut body.blocks),
                BlockKind::Dataflow { .. } => body.blocks.push(self.dataflow(block)),
            }
        }
        tidy(body);
    }

    fn plain(&mut self, block: Block, into: &mut Vec<Block>) {
        let plain = |bindings| Block { kind: BlockKind::Plain, bindings };
        let mut bindings = Vec::new();
        for mut binding in block.bindings {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                self.body(then);
                self.body(otherwise);
            }
            if let Some((params, body)) = self.inlined(&binding) {
                bindings.extend(params);
                into.push(plain(std::mem::take(&mut bindings)));
                into.extend(body.blocks);
                binding.expr = Expr::Atom(body.result);
            }
            bindings.push(binding);
        }
        into.push(plain(bindings));
    }

    fn dataflow(&mut self, block: Block) -> Block {
        let mut bindings = Vec::new();
        for mut binding in block.bindings {
            let is_flat = self.callee(&binding).is_some_and(|(callee, _)| {
                let body = callee.lambda.body.as_ref();
                let mut bound = body.into_iter().flat_map(Body::bindings);
                bound.all(|binding| !matches!(binding.expr, Expr::If { .. }))
            });
            if is_flat && let Some((params, body)) = self.inlined(&binding) {
                bindings.extend(params);
                bindings.extend(body.blocks.into_iter().flat_map(|block| block.bindings));
                binding.expr = Expr::Atom(body.result);
            }
            bindings.push(binding);
        }
        Block { kind: block.kind, bindings }
    }

    /// The function that is called, where its call may be replaced, and the values of its dims.
    fn callee(&self, binding: &Binding) -> Option<(&'a Function, BTreeMap<Name, Dim>)> {
        let Expr::Call { callee: Callee::Global(name), args, attrs } = &binding.expr else {
            return None;
        };
        let callee = *self.callees.get(name)?;
        if !attrs.is_empty()
            || self.left.contains(&binding.var)
            || args.iter().any(|arg| crate::in_place::mentions(arg, &self.updated))
            || self.updated.contains(&binding.var)
        {
            return None;
        }
        let mut dims = BTreeMap::new();
        for (&param, arg) in callee.lambda.params.iter().zip(args) {
            let mut bind =
                |name: &Name, dim: &Dim| _ = dims.entry(name.clone()).or_insert(dim.clone());
            match_dims(callee.param_annotation(param), &self.annotation(arg)?, &mut bind);
        }
        let bound = callee.dims.iter().filter(|dim| dim.in_signature);
        let told = bound.into_iter().all(|dim| dims.contains_key(&dim.name));
        (told && dims.values().all(evaluates_when_it_fits)).then_some((callee, dims))
    }

    fn annotation(&self, atom: &Atom) -> Option<Annotation> {
        Some(match atom {
            Atom::Var(var) => self.annotations.get(var.0 as usize)?.clone(),
            Atom::External(external) => external.annotation.clone(),
            Atom::Shape(dims) => {
                Annotation::Shape(relax_syntax::annotation::Extents::Known(dims.clone()))
            }
            Atom::Tuple(items) => Annotation::Tuple(
                items.iter().map(|item| self.annotation(item)).collect::<Option<_>>()?,
            ),
            Atom::Constant(constant) => {
                let dims = relax_syntax::resolve::constant::constant_dims(constant);
                Annotation::tensor(dims, constant.dtype)
            }
            // No dims to tell.
            _ => Annotation::Object,
        })
    }

    /// What stands for a call: bindings of the parameters, then the body of the function, in new names.
    fn inlined(&mut self, binding: &Binding) -> Option<(Vec<Binding>, Body)> {
        let (callee, mut dims) = self.callee(binding)?;
        let laid = self.gets_layouts(callee, binding);
        let body = callee.lambda.body.as_ref();
        if !laid.is_empty() && !body.is_some_and(|body| only_operators_read(body, &laid)) {
            return None;
        }
        let mut callee = callee.clone();
        let local: Vec<DimVar> =
            callee.dims.iter().filter(|dim| !dim.in_signature).cloned().collect();
        for dim in local {
            let name = self.names.fresh(&dim.name);
            dims.insert(dim.name.clone(), Dim::Var(name.clone()));
            self.function.dims.push(DimVar { name, ..dim });
        }
        replace_dims(&mut callee, dims);
        let new = self.new_vars(&callee);
        // Deduction finds the layout of the argument.
        for param in &laid {
            self.function.vars[new[param].0 as usize].annotation = None;
        }
        let Expr::Call { args, .. } = &binding.expr else { return None };
        let params = callee
            .lambda
            .params
            .iter()
            .zip(args)
            .map(|(param, arg)| Binding { var: new[param], expr: Expr::Atom(arg.clone()) });
        let mut body = callee.lambda.body.expect("invariant: one that may go has a body");
        rename_body(&mut body, &new);
        self.inlined += 1;
        Some((params.collect(), body))
    }

    /// The parameters of a callee without a layout whose arguments have one.
    fn gets_layouts(&self, callee: &Function, binding: &Binding) -> BTreeSet<VarId> {
        let Expr::Call { args, .. } = &binding.expr else { return BTreeSet::new() };
        let gets = |param: &VarId, arg: &Atom| {
            let has = self.annotation(arg).is_some_and(|annotation| has_layout(&annotation));
            has && !has_layout(callee.param_annotation(*param))
        };
        let pairs = callee.lambda.params.iter().zip(args);
        pairs.filter(|(param, arg)| gets(param, arg)).map(|(param, _)| *param).collect()
    }

    /// Variables of the caller for those of a callee. Both branches of an `if` end in a variable of the
    /// same name: what shared a name shares the new one.
    fn new_vars(&mut self, callee: &Function) -> Renaming {
        let mut renamed: BTreeMap<Name, Name> = BTreeMap::new();
        let mut new = Renaming::new();
        for (index, info) in (0_u32..).zip(&callee.vars) {
            let names = &mut *self.names;
            let name = match info.name.as_str() {
                "_" => info.name.clone(),
                old => renamed.entry(info.name.clone()).or_insert_with(|| names.fresh(old)).clone(),
            };
            let id = VarId(u32::try_from(self.function.vars.len()).expect("ids are u32"));
            self.function.vars.push(VarInfo { name, ..info.clone() });
            new.insert(VarId(index), id);
        }
        new
    }
}

fn has_layout(annotation: &Annotation) -> bool {
    let mut has = false;
    annotation.visit(&mut |part| has |= matches!(part, Annotation::DTensor(_)));
    has
}

/// Whether operators alone read these variables: any other name of them has an annotation, which says nothing of a layout.
fn only_operators_read(body: &Body, vars: &BTreeSet<VarId>) -> bool {
    let reads = |atom: &Atom| crate::in_place::mentions(atom, vars);
    let allows = |binding: &Binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(_), .. } => true,
        Expr::Call { args, attrs, .. } => {
            !args.iter().chain(attrs.iter().map(|(_, atom)| atom)).any(reads)
        }
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => !reads(atom),
        Expr::If { condition, then, otherwise } => {
            !reads(condition)
                && only_operators_read(then, vars)
                && only_operators_read(otherwise, vars)
        }
        Expr::Closure(_) => false,
    };
    !reads(&body.result) && body.bindings().all(allows)
}
