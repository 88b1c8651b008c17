//! Function bodies under construction: their lines, what is in scope, and operands made to order.

use super::choices::Choices;
use super::constant::{constant, scalar};
use super::forms::{CHAPTERS, Call, Form, Made};
use super::scope::{Class, Scope, Type, Var, tuple};
use super::{DIMS, Shared};
use relax_syntax::dim::{Dim, DimOp};
use std::ops::RangeInclusive;

/// Parameters that a function may have.
const MOST_PARAMS: usize = 7;

/// A body while it is written.
pub(super) struct Body<'a, 'b> {
    pub(super) choices: &'a mut Choices<'b>,
    pub(super) shared: &'a mut Shared,
    pub(super) scope: Scope,
    /// What the body takes; operands made to order become further ones.
    pub(super) params: Vec<Var>,
    /// The symbolic variables of the signature.
    pub(super) dims: Vec<Dim>,
    lines: String,
    pub(super) indent: usize,
    /// How many dataflow blocks and nested functions are around.
    pub(super) pure: usize,
}

impl<'a, 'b> Body<'a, 'b> {
    pub(super) fn new(
        choices: &'a mut Choices<'b>,
        shared: &'a mut Shared,
        params: Vec<Var>,
        dims: Vec<Dim>,
    ) -> Self {
        let mut scope = Scope::default();
        for param in &params {
            scope.add(&param.name, param.ty.clone());
        }
        Self { choices, shared, scope, params, dims, lines: String::new(), indent: 1, pure: 0 }
    }

    /// Lines and parameters.
    pub(super) fn into_parts(self) -> (String, Vec<Var>) {
        (self.lines, self.params)
    }

    /// Whether a name stands anywhere but where it is bound.
    pub(super) fn reads(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mentions = self.lines.match_indices(name).filter(|(at, _)| {
            let before = self.lines[..*at].chars().next_back();
            let after = self.lines[at + name.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        });
        mentions.count() > 1
    }

    pub(super) fn line(&mut self, text: &str) {
        self.lines.push_str(&"    ".repeat(self.indent));
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    /// Whether a statement may be made for its effect.
    pub(super) fn may_have_effects(&self) -> bool {
        self.pure == 0
    }

    /// Binds a fresh variable, now and then with its annotation.
    pub(super) fn bind(&mut self, expr: &str, ty: Type) {
        let name = self.scope.fresh("v");
        if self.choices.once_in(4) {
            self.line(&format!("{name}: {} = {expr}", ty.text()));
        } else {
            self.line(&format!("{name} = {expr}"));
        }
        self.scope.add(&name, ty);
    }

    /// A binding of a constant or of a call of an operator.
    pub(super) fn operator(&mut self) {
        if self.choices.once_in(16) {
            let (text, ty) = constant(self.choices);
            return self.bind(&text, ty);
        }
        match self.call_of(CHAPTERS) {
            Some(call) => self.bind_call(call),
            None => self.exponential(),
        }
    }

    /// A binding of a call of one of these chapters whose dims are known.
    pub(super) fn operator_of(&mut self, chapters: &[&[Form]]) {
        match self.call_of(chapters) {
            Some(Call { made: Made::Unknown(..) | Made::Nothing, .. }) | None => self.exponential(),
            Some(call) => self.bind_call(call),
        }
    }

    fn call_of(&mut self, chapters: &[&[Form]]) -> Option<Call> {
        let chapter = chapters[self.choices.below(chapters.len())];
        let form = chapter[self.choices.below(chapter.len())];
        form(self).filter(|call| self.is_small(call))
    }

    fn exponential(&mut self) {
        let x = self.pick(Class::Float, 0..=5);
        self.bind(&format!("exp({})", x.name), x.ty);
    }

    fn is_small(&self, call: &Call) -> bool {
        match &call.made {
            Made::One(ty) | Made::Roughly(ty) => ty.is_small(),
            Made::Each(types) => types.iter().all(Type::is_small),
            Made::Unknown(..) | Made::Nothing => true,
        }
    }

    pub(super) fn bind_call(&mut self, call: Call) {
        match call.made {
            Made::One(ty) => self.bind(&call.text, ty),
            Made::Roughly(ty) => {
                let name = self.scope.fresh("v");
                self.line(&format!("{name} = {}", call.text));
                self.scope.add(&name, ty);
            }
            Made::Each(types) => self.bind_tuple(&call.text, types),
            Made::Unknown(rank, dtype) => self.bind_unknown(&call.text, rank, dtype),
            Made::Nothing => {}
        }
    }

    /// A field, or every part by a name.
    pub(super) fn bind_tuple(&mut self, expr: &str, mut types: Vec<Type>) {
        if self.choices.once_in(2) {
            let tuple = self.scope.fresh("t");
            self.line(&format!("{tuple} = {expr}"));
            let at = self.choices.below(types.len());
            return self.bind(&format!("{tuple}[{at}]"), types.swap_remove(at));
        }
        let names: Vec<String> = types.iter().map(|_| self.scope.fresh("v")).collect();
        self.line(&format!("{} = {expr}", names.join(", ")));
        for (name, ty) in names.iter().zip(types) {
            self.scope.add(name, ty);
        }
    }

    /// A cast gives names to its dims.
    fn bind_unknown(&mut self, expr: &str, rank: usize, dtype: &'static str) {
        let (raw, names): (_, Vec<String>) =
            (self.scope.fresh("u"), (0..rank).map(|_| self.scope.fresh("k")).collect());
        self.line(&format!("{raw} = {expr}"));
        for name in &names {
            self.line(&format!("{name} = sym_var()"));
        }
        let ty = Type::new(names.iter().map(|name| Dim::var(name.as_str())).collect(), dtype);
        let name = self.scope.fresh("v");
        self.line(&format!("{name} = match_cast({raw}, {})", ty.text()));
        self.scope.add(&name, ty);
    }

    /// A variable of the dtypes and ranks; made from another one when there is none.
    pub(super) fn pick(&mut self, class: Class, ranks: RangeInclusive<usize>) -> Var {
        let fits = |ty: &Type| class.has(ty.dtype) && ranks.contains(&ty.rank());
        if let Some(var) = self.scope.such(self.choices, fits) {
            return var;
        }
        let mut var = self.scope.any(self.choices);
        if *ranks.start() > 2 && self.choices.once_in(2) {
            // A tensor of as many dims.
            var.ty.dims = (0..*ranks.start()).map(|_| self.dim()).collect();
            var.name = self.exact(&var.ty);
        }
        self.fit_rank(&mut var, &ranks);
        if !class.has(var.ty.dtype) {
            let dtype = self.choices.of(class.dtypes());
            self.step(&mut var, |x| format!("astype({x}, \"{dtype}\")"));
            var.ty.dtype = dtype;
        }
        var
    }

    fn fit_rank(&mut self, var: &mut Var, ranks: &RangeInclusive<usize>) {
        if var.ty.rank() > *ranks.end() {
            self.step(var, |x| format!("flatten({x})"));
            var.ty.dims = vec![var.ty.size()];
        }
        while var.ty.rank() < *ranks.start() {
            self.step(var, |x| format!("expand_dims({x}, axis=[0])"));
            var.ty.dims.insert(0, Dim::Int(1));
        }
    }

    /// A line that makes a variable from itself.
    fn step(&mut self, var: &mut Var, text: impl Fn(&str) -> String) {
        let name = self.scope.fresh("w");
        self.line(&format!("{name} = {}", text(&var.name)));
        var.name = name;
    }

    /// An axis of a tensor that has one.
    pub(super) fn axis(&mut self, x: &Var) -> usize {
        self.choices.below(x.ty.rank())
    }

    /// A dim: one of the signature, a term over these, or a literal.
    pub(super) fn dim(&mut self) -> Dim {
        let var = self.choices.of(&[0, 1]);
        let var = self.dims[var % self.dims.len()].clone();
        match self.choices.below(10) {
            0..=3 => var,
            4 => Dim::op(DimOp::Mul, var, Dim::Int(2)),
            5 => Dim::op(DimOp::Add, var, Dim::Int(1)),
            6 => Dim::op(DimOp::FloorDiv, var, Dim::Int(2)),
            _ => Dim::Int(self.choices.of(&DIMS)),
        }
    }

    /// An operand of this type: a variable, a new parameter, or filled with a number.
    pub(super) fn exact(&mut self, ty: &Type) -> String {
        let known = self.scope.such(self.choices, |other| other == ty).map(|var| var.name);
        let param = self.params.iter().find(|param| param.ty == *ty).map(|var| var.name.clone());
        if let Some(name) = known.or(param)
            && !self.choices.once_in(4)
        {
            return name;
        }
        let is_of_signature =
            |dim: &Dim| dim.vars_all(&|name| self.dims.contains(&Dim::var(name.as_str())));
        if self.params.len() < MOST_PARAMS && ty.dims.iter().all(is_of_signature) {
            let name = format!("a{}", self.params.len());
            self.params.push(Var { name: name.clone(), ty: ty.clone() });
            return name;
        }
        let (name, value) = (self.scope.fresh("w"), scalar(self.choices, ty.dtype));
        self.line(&format!("{name} = full({}, {value})", tuple(&ty.dims)));
        name
    }

    /// An operand that broadcasts to a variable: of its type, a scalar, or with a dim less or of 1.
    pub(super) fn partner(&mut self, x: &Var) -> String {
        let mut ty = x.ty.clone();
        match self.choices.below(6) {
            0 => return scalar(self.choices, ty.dtype),
            1 => return x.name.clone(),
            2 if ty.rank() > 0 => {
                let axis = self.axis(x);
                ty.dims[axis] = Dim::Int(1);
            }
            3 if ty.rank() > 0 => {
                ty.dims.remove(0);
            }
            _ => {}
        }
        self.exact(&ty)
    }

    /// Indices of this shape: zeros and ones, what a parameter holds, or integers of any size.
    pub(super) fn index(&mut self, dims: &[Dim], may_be_out: bool) -> String {
        let ty = Type::new(dims.to_vec(), self.choices.of(&["i64", "i32"]));
        let choice = self.choices.below(if may_be_out { 4 } else { 8 });
        if choice == 0 {
            return self.exact(&ty);
        }
        let name = self.scope.fresh("w");
        let (shape, dtype) = (tuple(dims), ty.dtype);
        let text = match choice {
            1 => {
                let any = self.exact(&ty);
                format!("clip({any}, 0, 1)")
            }
            2 => format!("full({shape}, 1, \"{dtype}\")"),
            _ => format!("zeros({shape}, \"{dtype}\")"),
        };
        self.line(&format!("{name} = {text}"));
        name
    }
}
