//! One function: its bindings in order, its branches as jumps.

use super::{Tables, Unsupported};
use relax_rewrite::verify::is_private;
use relax_runtime as machine;
use relax_runtime::instruction::{Instruction, Operand, Register, Text};
use relax_runtime::program::Constant;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, AttrValue, Body, Expr, Function, Module, VarId, attr};
use relax_syntax::resolve::{atom_uses, expr_uses};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A function that grows.
pub(super) struct Code<'c, 'a> {
    pub(super) module: &'c Module,
    pub(super) function: &'c Function,
    pub(super) tables: &'c mut Tables<'a>,
    code: Vec<Instruction>,
    spans: Vec<machine::Span>,
    /// Of variables.
    registers: BTreeMap<VarId, Register>,
    /// How many there are, with those of tuples.
    count: u32,
    /// Registers of the binding's own, free again after it.
    free: Vec<Register>,
    used: Vec<Register>,
    pub(super) span: Span,
    /// Variables that some atom names.
    named: BTreeSet<VarId>,
    /// Variables that are bound to what the text says.
    pub(super) literals: BTreeMap<VarId, Atom>,
    /// Shape heaps: they stay until the function ends, as traps tell the dims in them.
    pub(super) heaps: BTreeSet<VarId>,
}

/// The place as the runtime has it.
pub(super) fn span(span: Span) -> machine::Span {
    machine::Span { start: span.start, end: span.end }
}

pub(super) fn lower_function(
    module: &Module,
    function: &Function,
    tables: &mut Tables<'_>,
) -> Result<machine::program::Function, Unsupported> {
    let mut code = Code {
        module,
        function,
        tables,
        code: Vec::new(),
        spans: Vec::new(),
        registers: BTreeMap::new(),
        count: 0,
        free: Vec::new(),
        used: Vec::new(),
        span: function.span,
        named: BTreeSet::new(),
        literals: BTreeMap::new(),
        heaps: BTreeSet::new(),
    };
    for &param in &function.lambda.params {
        let register = code.fresh();
        code.registers.insert(param, register);
    }
    let params = code.count;
    let donated = function.donated().map(|param| code.registers[&param].0).collect();
    match &function.lambda.body {
        Some(body) => {
            uses_of_body(body, &mut code.named);
            code.body(body)?;
            code.span = function.span;
            let result = code.operand(&body.result)?;
            code.emit(Instruction::Return(result));
        }
        None => code.external(),
    }
    let symbol = match attr(&function.lambda.attrs, "global_symbol") {
        Some(AttrValue::Str(symbol)) => Some(symbol.to_string()),
        _ if is_private(function) => None,
        _ => Some(function.name.to_string()),
    };
    Ok(machine::program::Function {
        name: function.name.to_string(),
        symbol,
        params,
        donated,
        registers: code.count,
        code: code.code,
        spans: code.spans,
        span: span(function.span),
    })
}

impl Code<'_, '_> {
    pub(super) fn emit(&mut self, instruction: Instruction) {
        self.code.push(instruction);
        self.spans.push(span(self.span));
    }

    pub(super) fn unsupported(&self, message: impl Into<String>) -> Unsupported {
        let function = Some(self.function.name.clone());
        Unsupported { message: message.into(), span: self.span, function }
    }

    fn fresh(&mut self) -> Register {
        self.count += 1;
        Register(self.count - 1)
    }

    /// A register for a value that only this binding uses.
    pub(super) fn scratch(&mut self) -> Register {
        let register = self.free.pop().unwrap_or_else(|| self.fresh());
        self.used.push(register);
        register
    }

    /// The register of a variable.
    pub(super) fn register(&mut self, var: VarId) -> Register {
        if let Some(&register) = self.registers.get(&var) {
            return register;
        }
        let register = self.fresh();
        self.registers.insert(var, register);
        register
    }

    pub(super) fn text(&mut self, text: &str) -> Text {
        let next = u32::try_from(self.tables.texts.len()).expect("invariant: texts are few");
        Text(*self.tables.texts.entry(text.to_owned()).or_insert(next))
    }

    /// What is called has no body here. The interpreter compares kinds before it says so; what is declared of
    /// such a function in this phase are kinds, ranks and dtypes.
    fn external(&mut self) {
        for &param in &self.function.lambda.params {
            let annotation = self.function.param_annotation(param).clone();
            let about = format!("parameter `{}`", self.function.var(param).name);
            if annotation != Annotation::Object {
                self.declared(param, &annotation, &about);
            }
        }
        let message = format!("`{}` is external: its body is `...`", self.function.name);
        self.fail("call/external", &message);
    }

    pub(super) fn fail(&mut self, id: &str, message: &str) {
        let (id, message) = (self.text(id), self.text(message));
        self.emit(Instruction::Fail { id, message });
    }

    fn body(&mut self, body: &Body) -> Result<(), Unsupported> {
        for (binding, unused) in body.bindings().zip(last_uses(body)) {
            self.span = self.function.var(binding.var).span;
            self.expr(binding.var, &binding.expr)?;
            let mut dropped: Vec<Register> = self.used.clone();
            self.free.append(&mut self.used);
            let unused = unused.iter().filter(|var| !self.heaps.contains(var));
            dropped.extend(unused.filter_map(|var| self.registers.get(var)));
            if !dropped.is_empty() {
                self.emit(Instruction::Drop(dropped.into()));
            }
        }
        Ok(())
    }

    fn expr(&mut self, var: VarId, expr: &Expr) -> Result<(), Unsupported> {
        match expr {
            Expr::Atom(atom) => {
                let value = self.operand(atom)?;
                let to = self.register(var);
                self.emit(Instruction::Copy { to, value });
                if let Some(literal) = self.written(atom).cloned() {
                    self.literals.insert(var, literal);
                }
            }
            Expr::Get(atom, index) => {
                let (value, index) = (self.operand(atom)?, *index as u64);
                let to = self.register(var);
                self.emit(Instruction::Field { to, value, index });
            }
            Expr::Call { callee, args, attrs } => self.call(var, callee, args, attrs)?,
            Expr::If { condition, then, otherwise } => {
                self.branches(var, condition, then, otherwise)?;
            }
            Expr::MatchCast(..) => {
                return Err(self.unsupported("a `match_cast` is left in a text of P2.3"));
            }
            Expr::Closure(_) => {
                return Err(self.unsupported("a nested function is left in a text of P2.3"));
            }
        }
        Ok(())
    }

    fn branches(
        &mut self,
        var: VarId,
        condition: &Atom,
        then: &Body,
        otherwise: &Body,
    ) -> Result<(), Unsupported> {
        let (at, condition) = (self.span, self.operand(condition)?);
        let branch = self.code.len();
        self.emit(Instruction::Branch { condition, otherwise: 0 });
        // What the condition needed is not free before both branches are there.
        let held = std::mem::take(&mut self.used);
        self.branch(var, then, at)?;
        let jump = self.code.len();
        self.emit(Instruction::Jump(0));
        self.land(branch);
        self.branch(var, otherwise, at)?;
        self.land(jump);
        self.used = held;
        // Something stands where both meet, so that no jump leads past the end.
        self.emit(Instruction::Drop(Box::default()));
        Ok(())
    }

    fn branch(&mut self, var: VarId, body: &Body, at: Span) -> Result<(), Unsupported> {
        self.body(body)?;
        self.span = at;
        let value = self.operand(&body.result)?;
        let to = self.register(var);
        self.emit(Instruction::Copy { to, value });
        let mut own: BTreeSet<VarId> = body.bindings().map(|binding| binding.var).collect();
        own.remove(&var);
        let mut dropped = std::mem::take(&mut self.used);
        self.free.extend(&dropped);
        let own = own.difference(&self.heaps);
        dropped.extend(own.filter_map(|var| self.registers.get(var)));
        self.emit(Instruction::Drop(dropped.into()));
        Ok(())
    }

    /// The jump at a place leads here.
    fn land(&mut self, at: usize) {
        let here = u32::try_from(self.code.len()).expect("invariant: code is short");
        match &mut self.code[at] {
            Instruction::Jump(target) | Instruction::Branch { otherwise: target, .. } => {
                *target = here;
            }
            _ => {}
        }
    }

    /// The binding is of a call that gives nothing: its variable is unit, where something names it.
    pub(super) fn unit(&mut self, var: VarId) {
        if self.named.contains(&var) {
            let value = Operand::Constant(self.tables.constants.add(Constant::Unit));
            let to = self.register(var);
            self.emit(Instruction::Copy { to, value });
        }
    }

    /// The number of a function of the module.
    pub(super) fn function_number(&self, name: &Name) -> Option<u32> {
        let at = self.tables.functions.iter().position(|known| known == name)?;
        u32::try_from(at).ok()
    }

    /// The number of a kernel.
    pub(super) fn kernel_number(&self, name: &Name) -> Option<u32> {
        let at = self.tables.kernels.iter().position(|known| known == name)?;
        u32::try_from(at).ok()
    }
}

/// For each binding of a body, in order, its variables that nothing uses after it.
fn last_uses(body: &Body) -> Vec<Vec<VarId>> {
    let bindings: Vec<_> = body.bindings().collect();
    let own: BTreeSet<VarId> = bindings.iter().map(|binding| binding.var).collect();
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    let mut unused = vec![Vec::new(); bindings.len()];
    for (binding, unused) in bindings.iter().zip(&mut unused).rev() {
        let mut here = BTreeSet::from([binding.var]);
        expr_uses(&binding.expr, &mut here);
        unused.extend(here.into_iter().filter(|&var| used.insert(var) && own.contains(&var)));
    }
    unused
}

/// Every variable that an atom in a body names.
fn uses_of_body(body: &Body, used: &mut BTreeSet<VarId>) {
    body.bindings().for_each(|binding| expr_uses(&binding.expr, used));
    atom_uses(&body.result, used);
}
