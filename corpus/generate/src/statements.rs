//! Statements of a function: bindings, dataflow blocks, branches, closures and calls.

use super::Signature;
use super::body::Body;
use super::forms::{Call, Made};
use super::scope::{Class, Type, Var, tuple};
use super::tensor_program::{Kind, program};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

/// What a function gives back.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) ty: Type,
    /// The text after `->`, where there is one.
    pub(super) declared: Option<String>,
}

impl Body<'_, '_> {
    /// Up to `most` statements, fewer when the choices end.
    pub(super) fn statements(&mut self, most: usize) {
        for _ in 0..most {
            if self.choices.is_empty() {
                break;
            }
            self.statement();
        }
    }

    /// A result whose dims are those of the signature.
    pub(super) fn outcome(&mut self) -> Outcome {
        let dims = self.dims.clone();
        let signature = |dim: &Dim| dim.vars_all(&|name| dims.contains(&Dim::var(name.as_str())));
        let fits = |ty: &Type| ty.dims.iter().all(signature);
        let found = self.scope.such(self.choices, fits);
        let var = found.expect("invariant: parameters have the dims of the signature");
        let declared = self.choices.once_in(2).then(|| var.ty.quoted());
        Outcome { name: var.name, ty: var.ty, declared }
    }

    /// Variables that nothing reads: given back together, so that nothing is dead.
    pub(super) fn unused(&self) -> Vec<String> {
        const MOST: usize = 8;
        let names = self.scope.vars().iter().rev().map(|var| var.name.clone());
        names.filter(|name| !self.reads(name)).take(MOST).collect()
    }

    /// A statement that may stand at the top of a function.
    fn statement(&mut self) {
        match self.choices.below(16) {
            0 => self.dataflow(),
            1 => self.branch(),
            2 => self.nested(),
            3 => self.cast(),
            4 => self.recursion(),
            _ => self.binding(),
        }
    }

    /// A binding that may stand anywhere.
    fn binding(&mut self) {
        match self.choices.below(12) {
            0 => {
                let (a, b) = (self.scope.any(self.choices), self.scope.any(self.choices));
                self.bind_tuple(&format!("({}, {})", a.name, b.name), vec![a.ty, b.ty]);
            }
            1 if self.call_function() => {}
            _ => self.operator(),
        }
    }

    fn dataflow(&mut self) {
        let mark = self.scope.mark();
        self.line("with dataflow():");
        (self.indent, self.pure) = (self.indent + 1, self.pure + 1);
        for _ in 0..=self.choices.below(5) {
            self.binding();
        }
        let last = self.scope.last().clone();
        if self.scope.mark() == mark {
            let x = self.scope.any(self.choices);
            self.bind(&format!("zeros_like({})", x.name), x.ty);
        } else if self.choices.once_in(2) {
            // Without `output`, what is used afterwards is seen.
            self.line(&format!("output({})", last.name));
            self.scope.leave(mark);
            self.scope.add(&last.name, last.ty);
        }
        (self.indent, self.pure) = (self.indent - 1, self.pure - 1);
    }

    /// Both branches bind one name, to values of the type of one variable.
    fn branch(&mut self) {
        let (tested, model) = (self.pick(Class::F32, 0..=5), self.pick(Class::F32, 0..=5));
        let (condition, result) = (self.scope.fresh("c"), self.scope.fresh("v"));
        let test = format!("greater(sum({}), const(0.0, \"f32\"))", tested.name);
        self.line(&format!("{condition} = {test}"));
        for header in [format!("if {condition}:"), "else:".to_owned()] {
            let mark = self.scope.mark();
            self.line(&header);
            self.indent += 1;
            for _ in 0..self.choices.below(4) {
                self.binding();
            }
            let end = self.choices.of(&["relu", "negative", "tanh", "zeros_like"]);
            self.line(&format!("{result} = {end}({})", model.name));
            self.indent -= 1;
            self.scope.leave(mark);
        }
        self.scope.add(&result, model.ty);
    }

    /// A nested function over what is around it, and a call of it.
    fn nested(&mut self) {
        let model = self.pick(Class::F32, 0..=5);
        let (name, param) = (self.scope.fresh("g"), self.scope.fresh("p"));
        let mark = self.scope.mark();
        self.line(&format!("def {name}({param}: {}):", model.ty.quoted()));
        (self.indent, self.pure) = (self.indent + 1, self.pure + 1);
        self.scope.add(&param, model.ty.clone());
        for _ in 0..self.choices.below(4) {
            self.binding();
        }
        self.bind(&format!("add({param}, {})", model.name), model.ty.clone());
        let result = self.scope.last().name.clone();
        self.line(&format!("return {result}"));
        (self.indent, self.pure) = (self.indent - 1, self.pure - 1);
        self.scope.leave(mark);
        self.bind(&format!("{name}({})", model.name), model.ty);
    }

    /// A cast that binds a variable of its own, one that holds anyway, or one that holds by accident.
    fn cast(&mut self) {
        let mut var = self.scope.any(self.choices);
        if !var.ty.dims.is_empty() && self.choices.once_in(2) {
            let axis = self.choices.below(var.ty.dims.len());
            if self.choices.once_in(3) {
                if matches!(var.ty.dims[axis], Dim::Int(_)) {
                    return;
                }
                var.ty.dims[axis] = self.dims[self.dims.len() - 1].clone();
            } else {
                let own = self.scope.fresh("k");
                self.line(&format!("{own} = sym_var()"));
                var.ty.dims[axis] = Dim::var(own.as_str());
            }
        }
        let name = self.scope.fresh("v");
        self.line(&format!("{name} = match_cast({}, {})", var.name, var.ty.text()));
        self.scope.add(&name, var.ty);
    }

    /// A call of a function that calls itself a few times.
    fn recursion(&mut self) {
        let x = self.pick(Class::F32, 1..=3);
        let (name, depth) = (format!("r{}", self.shared.programs.len()), self.choices.below(4));
        let dims: Vec<Dim> = (0..x.ty.rank()).map(|axis| Dim::var(format!("d{axis}"))).collect();
        let ty = Type::f32(dims.clone()).quoted();
        let vars: String = dims.iter().map(|dim| format!("    {dim} = sym_var()\n")).collect();
        let step = self.choices.of(&["relu(x)", "add(x, x)", "multiply(x, exp(x))", "sort(x)"]);
        self.shared.programs.push(format!(
            "def {name}(x: {ty}, i: Tensor((), \"i64\")) -> {ty}:\n{vars}    c = less(i, const(1, \
             \"i64\"))\n    if c:\n        y = x\n    else:\n        j = subtract(i, const(1, \
             \"i64\"))\n        z = {step}\n        y = {name}(z, j)\n    return y\n"
        ));
        self.bind(&format!("{name}({}, const({depth}, \"i64\"))", x.name), x.ty);
    }

    /// A call of a fresh tensor program.
    pub(super) fn call_tensor_program(&mut self) -> Option<Call> {
        let kinds =
            [Kind::Elementwise, Kind::Elementwise, Kind::Reduction, Kind::Stencil, Kind::Gather];
        let kind = self.choices.of(&kinds);
        let ranks = match kind {
            Kind::Elementwise => 0..=4,
            Kind::Reduction => 1..=4,
            _ => 1..=1,
        };
        let x = self.pick(Class::F32, ranks);
        let name = self.add_program(kind, &x);
        if kind == Kind::Reduction {
            let ty = Type::f32(x.ty.dims[..x.ty.rank() - 1].to_vec());
            let text = format!("call_tir({name}, [{}], {})", x.name, ty.text());
            return Some(Call { text, made: Made::One(ty) });
        }
        let w = self.exact(&x.ty);
        let (out, dims) = (x.ty.text(), tuple(&x.ty.dims));
        let text = match self.choices.below(5) {
            0 | 1 => format!("call_tir({name}, [{}, {w}], {out})", x.name),
            2 => format!("call_tir_local_view({name}, ({}, {w}), {out})", x.name),
            _ => format!(
                "call_tir(func={name}, args=[{}, {w}], out_shape={dims}, dtype=\"f32\")",
                x.name
            ),
        };
        Some(Call { text, made: Made::One(x.ty) })
    }

    fn add_program(&mut self, kind: Kind, x: &Var) -> String {
        let name = format!("kernel{}", self.shared.programs.len());
        let text = program(kind, &name, x.ty.rank(), self.choices);
        self.shared.programs.push(text);
        name
    }

    /// On a copy, so that what is changed is nobody else's.
    pub(super) fn call_in_place(&mut self) -> Option<Call> {
        let x = self.pick(Class::F32, 0..=4);
        let name = self.add_program(Kind::InPlace, &x);
        let copy = self.scope.fresh("w");
        let make = self.choices.of(&["negative", "exp", "abs"]);
        self.line(&format!("{copy} = {make}({})", x.name));
        let text = format!("call_tir_inplace({name}, [{copy}], [0], {})", x.ty.text());
        Some(Call { text, made: Made::One(x.ty) })
    }

    /// The parameters of a callee as terms of the caller.
    fn instance(&mut self, callee: &Signature) -> (Vec<Type>, Type) {
        let known = self.scope.any(self.choices);
        let mut actual: BTreeMap<Name, Dim> = BTreeMap::new();
        for (index, dim) in callee.dims.iter().enumerate() {
            let chosen = match known.ty.dims.get(index) {
                Some(dim) if self.choices.once_in(2) => dim.clone(),
                _ => self.dims[index % self.dims.len()].clone(),
            };
            if let Dim::Var(name) = dim {
                actual.insert(name.clone(), chosen);
            }
        }
        let put = |ty: &Type| {
            Type::new(ty.dims.iter().map(|dim| dim.substitute(&actual)).collect(), ty.dtype)
        };
        (callee.params.iter().map(put).collect(), put(&callee.result))
    }

    /// A call of an earlier function, if there is one.
    fn call_function(&mut self) -> bool {
        let Some(callee) = self.callee(self.may_have_effects()) else { return false };
        let (params, result) = self.instance(&callee);
        if !params.iter().chain([&result]).all(Type::is_small) {
            return false;
        }
        let args: Vec<String> = params.iter().map(|ty| self.exact(ty)).collect();
        self.bind(&format!("{}({})", callee.name, args.join(", ")), result);
        true
    }

    fn callee(&mut self, may_have_effects: bool) -> Option<Signature> {
        let fits = |signature: &&Signature| may_have_effects || signature.pure;
        let found: Vec<&Signature> = self.shared.callable.iter().filter(fits).collect();
        if found.is_empty() { None } else { Some(found[self.choices.below(found.len())].clone()) }
    }

    /// A function with its first argument, called with the others.
    pub(super) fn call_by_closure(&mut self) -> Option<Call> {
        let callee = self.callee(false)?;
        let (params, result) = self.instance(&callee);
        if !params.iter().chain([&result]).all(Type::is_small) {
            return None;
        }
        let args: Vec<String> = params.iter().map(|ty| self.exact(ty)).collect();
        let (first, rest) = args.split_first()?;
        let closure = self.scope.fresh("g");
        self.line(&format!("{closure} = make_closure({}, ({first},))", callee.name));
        let rest = match rest {
            [] => "()".to_owned(),
            [one] => format!("({one},)"),
            rest => format!("({})", rest.join(", ")),
        };
        let impure = self.may_have_effects() && self.choices.once_in(2);
        let name = if impure { "invoke_closure" } else { "invoke_pure_closure" };
        let text = format!("{name}({closure}, {rest}, ret={})", result.text());
        Some(Call { text, made: Made::One(result) })
    }
}
