//! The statements of a function: bindings, dataflow blocks, branches, closures and calls.

use super::choices::Choices;
use super::constant::constant;
use super::operator::operator;
use super::scope::{Scope, Type, tuple};
use super::{Shared, Signature, tensor_program};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

/// A body while it is written.
pub(super) struct Body<'a, 'b> {
    choices: &'a mut Choices<'b>,
    shared: &'a mut Shared,
    scope: Scope,
    lines: String,
    indent: usize,
}

/// What a function gives back.
pub(super) struct Result {
    pub(super) name: String,
    pub(super) ty: Type,
    /// The text after `->`, where there is one.
    pub(super) declared: Option<String>,
}

impl<'a, 'b> Body<'a, 'b> {
    pub(super) fn new(choices: &'a mut Choices<'b>, shared: &'a mut Shared, scope: Scope) -> Self {
        Self { choices, shared, scope, lines: String::new(), indent: 1 }
    }

    /// Up to `most` statements, fewer when the choices end.
    pub(super) fn statements(&mut self, most: usize) {
        for _ in 0..most {
            if self.choices.is_empty() {
                break;
            }
            self.statement();
        }
    }

    /// The lines, and a result whose dims are those of the signature.
    pub(super) fn finish(self) -> (String, Result) {
        let signature = |dim: &Dim| dim.vars_all(&|name| name == "n" || name == "m");
        let found = self.scope.such(self.choices, |ty| ty.dims.iter().all(signature));
        let var = found.expect("invariant: parameters have the dims of the signature");
        let declared = self.choices.once_in(2).then(|| var.ty.quoted());
        (self.lines, Result { name: var.name, ty: var.ty, declared })
    }

    fn line(&mut self, text: &str) {
        self.lines.push_str(&"    ".repeat(self.indent));
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    /// Binds a fresh variable, now and then with its annotation.
    fn bind(&mut self, expr: &str, ty: Type) {
        let name = self.scope.fresh("v");
        if self.choices.once_in(4) {
            self.line(&format!("{name}: {} = {expr}", ty.text()));
        } else {
            self.line(&format!("{name} = {expr}"));
        }
        self.scope.add(&name, ty);
    }

    /// A statement that may stand at the top of a function.
    fn statement(&mut self) {
        match self.choices.below(12) {
            0 => self.dataflow(),
            1 => self.branch(),
            2 => self.closure(),
            3 => self.cast(),
            _ => self.binding(),
        }
    }

    /// A binding that may stand anywhere.
    fn binding(&mut self) {
        match self.choices.below(12) {
            0 => self.pair(),
            1 => self.call_tensor_program(),
            2 if self.call_function() => {}
            3 => {
                let (text, ty) = constant(self.choices);
                self.bind(&text, ty);
            }
            _ => {
                let (text, ty) = operator(self.choices, &self.scope);
                self.bind(&text, ty);
            }
        }
    }

    fn dataflow(&mut self) {
        let mark = self.scope.mark();
        self.line("with dataflow():");
        self.indent += 1;
        for _ in 0..=self.choices.below(4) {
            self.binding();
        }
        let last = self.scope.last().clone();
        // Without `output`, what is used afterwards is seen.
        if self.choices.once_in(2) {
            self.line(&format!("output({})", last.name));
            self.scope.leave(mark);
            self.scope.add(&last.name, last.ty);
        }
        self.indent -= 1;
    }

    /// Both branches bind one name, to values of the type of one variable.
    fn branch(&mut self) {
        let (tested, model) = (self.scope.float(self.choices), self.scope.float(self.choices));
        let (condition, result) = (self.scope.fresh("c"), self.scope.fresh("v"));
        let test = format!("greater(sum({}), const(0.0, \"f32\"))", tested.name);
        self.line(&format!("{condition} = {test}"));
        for header in [format!("if {condition}:"), "else:".to_owned()] {
            let mark = self.scope.mark();
            self.line(&header);
            self.indent += 1;
            for _ in 0..self.choices.below(3) {
                self.binding();
            }
            let operation = self.choices.of(&["relu", "negative", "tanh"]);
            self.line(&format!("{result} = {operation}({})", model.name));
            self.indent -= 1;
            self.scope.leave(mark);
        }
        self.scope.add(&result, model.ty);
    }

    /// A nested function over what is around it, and a call of it.
    fn closure(&mut self) {
        let model = self.scope.float(self.choices);
        let (name, param) = (self.scope.fresh("g"), self.scope.fresh("p"));
        let mark = self.scope.mark();
        self.line(&format!("def {name}({param}: {}):", model.ty.quoted()));
        self.indent += 1;
        self.scope.add(&param, model.ty.clone());
        for _ in 0..self.choices.below(3) {
            self.binding();
        }
        self.bind(&format!("add({param}, {})", model.name), model.ty.clone());
        let result = self.scope.last().name.clone();
        self.line(&format!("return {result}"));
        self.indent -= 1;
        self.scope.leave(mark);
        self.bind(&format!("{name}({})", model.name), model.ty);
    }

    /// A cast that binds a variable of its own, and one that holds anyway.
    fn cast(&mut self) {
        let mut var = self.scope.any(self.choices);
        if !var.ty.dims.is_empty() && self.choices.once_in(2) {
            let own = self.scope.fresh("k");
            self.line(&format!("{own} = sym_var()"));
            let axis = self.choices.below(var.ty.dims.len());
            var.ty.dims[axis] = Dim::var(own.as_str());
        }
        self.bind(&format!("match_cast({}, {})", var.name, var.ty.text()), var.ty);
    }

    /// A tuple, taken apart by a field or by names.
    fn pair(&mut self) {
        let (a, b) = (self.scope.any(self.choices), self.scope.any(self.choices));
        let tuple = self.scope.fresh("t");
        self.line(&format!("{tuple} = ({}, {})", a.name, b.name));
        if self.choices.once_in(2) {
            let (first, second) = (self.scope.fresh("v"), self.scope.fresh("v"));
            self.line(&format!("{first}, {second} = {tuple}"));
            self.scope.add(&first, a.ty);
            self.scope.add(&second, b.ty);
        } else {
            self.bind(&format!("{tuple}[1]"), b.ty);
        }
    }

    fn call_tensor_program(&mut self) {
        let a = self.scope.float(self.choices);
        let same = self.scope.such(self.choices, |ty| *ty == a.ty);
        let b = same.expect("invariant: the variable itself has its type");
        let name = format!("kernel{}", self.shared.programs.len());
        let program = tensor_program::elementwise(&name, a.ty.dims.len(), self.choices);
        self.shared.programs.push(program);
        let (out, dims) = (a.ty.text(), tuple(&a.ty.dims));
        let call = match self.choices.below(2) {
            0 => format!("call_tir({name}, [{}, {}], {out})", a.name, b.name),
            _ => format!(
                "call_tir(func={name}, args=[{}, {}], out_shape={dims}, dtype=\"f32\")",
                a.name, b.name
            ),
        };
        self.bind(&call, a.ty);
    }

    /// A call of an earlier function, if there is one that takes the chosen variable.
    fn call_function(&mut self) -> bool {
        let arg = self.scope.float(self.choices);
        let fits = |signature: &&Signature| signature.param.dims.len() == arg.ty.dims.len();
        let Some(callee) = self.shared.callable.iter().find(fits).cloned() else {
            return false;
        };
        let names: BTreeMap<Name, Dim> = callee
            .param
            .dims
            .iter()
            .zip(&arg.ty.dims)
            .filter_map(|(dim, actual)| match dim {
                Dim::Var(name) => Some((name.clone(), actual.clone())),
                _ => None,
            })
            .collect();
        let put = |dim: &Dim| dim.substitute(&names);
        let dims = callee.result.dims.iter().map(put).collect();
        let ty = Type { dims, dtype: callee.result.dtype };
        let literal_dims = callee.param.dims.iter().any(|dim| matches!(dim, Dim::Int(_)));
        if literal_dims || !ty.is_small() {
            return false;
        }
        let args = vec![arg.name.as_str(); callee.params].join(", ");
        self.bind(&format!("{}({args})", callee.name), ty);
        true
    }
}
