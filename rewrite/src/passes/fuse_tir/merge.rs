//! The tensor program of a primitive function.
//!
//! What could stop the program must stop it as before, with the same trap. So there is one only where no
//! check of the function is left to run time, where every dim in it has a value whenever its
//! parameters do, where what a program demands of its dims is proved, and where no program writes to
//! its inputs: what it writes there is lost when it is called, and would be seen by the next.

use super::stage::{Stage, Tables, is_computable};
use crate::tir_call::TirCall;
use relax_semantics::tir::ranges::{assume_declared, is_proved};
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BufferId, BufferInfo, Param, Scope, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Atom, Binding, DimVar, Function, Module, TensorProgram, VarId};
use relax_syntax::span::Span;
use relax_tir::dims::as_expr;
use relax_tir::kernel_kind::output_of;
use relax_tir::renumber::renumber_program;
use std::collections::BTreeMap;

/// What a primitive function becomes.
pub(super) struct Merged {
    pub(super) program: TensorProgram,
    /// Constants of the function, which become inputs after its parameters.
    pub(super) constants: Vec<Atom>,
}

/// `None` where the function has to stay.
pub(super) fn merge(
    module: &Module,
    function: &Function,
    annotations: &[Annotation],
    facts: &mut dyn Facts,
) -> Option<Merged> {
    facts.push();
    assume_declared(facts, &function.dims);
    let merge = Merge {
        module,
        function,
        annotations,
        facts,
        tables: Tables::default(),
        inputs: Vec::new(),
        scalars: Vec::new(),
        known: BTreeMap::new(),
        constants: Vec::new(),
        body: Vec::new(),
    };
    let merged = merge.run();
    facts.pop();
    merged
}

struct Merge<'m, 'f> {
    module: &'m Module,
    function: &'m Function,
    annotations: &'m [Annotation],
    facts: &'f mut dyn Facts,
    tables: Tables,
    inputs: Vec<Param>,
    scalars: Vec<Param>,
    /// The buffer of each variable.
    known: BTreeMap<VarId, BufferId>,
    constants: Vec<(Atom, BufferId)>,
    body: Vec<Stmt>,
}

impl Merge<'_, '_> {
    fn run(mut self) -> Option<Merged> {
        let lambda = &self.function.lambda;
        let body = lambda.body.as_ref()?;
        let results = match &body.result {
            Atom::Var(result) => vec![*result],
            Atom::Tuple(items) => items.iter().map(as_var).collect::<Option<Vec<VarId>>>()?,
            _ => return None,
        };
        let members: Vec<&Binding> = body.bindings().collect();
        let place = |result: &VarId| members.iter().position(|member| member.var == *result);
        let places = results.iter().map(place).collect::<Option<Vec<usize>>>()?;
        if *places.last()? + 1 != members.len() || !places.is_sorted_by(|a, b| a < b) {
            return None;
        }
        self.tables.taken = self.function.dims.iter().map(|dim| dim.name.clone()).collect();
        for &param in &lambda.params {
            self.parameter(param)?;
        }
        for member in &members {
            self.member(member, results.contains(&member.var))?;
        }
        Some(self.finish(&results))
    }

    fn parameter(&mut self, param: VarId) -> Option<()> {
        match &self.annotations[param.0 as usize] {
            annotation @ (Annotation::Tensor(_) | Annotation::DTensor(_)) => {
                let buffer = self.declare(&self.function.var(param).name.clone(), annotation)?;
                self.inputs.push(Param::Buffer(buffer));
                self.known.insert(param, buffer);
            }
            Annotation::Shape(Extents::Known(dims)) => {
                for dim in dims {
                    let Dim::Var(name) = dim else { return None };
                    let param = Param::Dim(name.clone());
                    if self.scalars.contains(&param) {
                        return None;
                    }
                    self.scalars.push(param);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn declare(&mut self, name: &Name, annotation: &Annotation) -> Option<BufferId> {
        let tensor = annotation.as_tensor()?;
        let shape = tensor.extents.dims()?.to_vec();
        let info = BufferInfo {
            name: name.clone(),
            shape,
            dtype: tensor.dtype?,
            scope: Scope::Global,
            span: Span::default(),
        };
        Some(self.tables.buffer(info))
    }

    /// One call: the statements of its program.
    fn member(&mut self, member: &Binding, is_result: bool) -> Option<()> {
        let call = TirCall::of(&member.expr)?;
        let program = self.module.tensor_program(call.program)?;
        let body = program.body.as_ref()?;
        let mut given = Vec::new();
        for arg in call.args {
            given.push(self.argument(arg)?);
        }
        let name = self.function.var(member.var).name.clone();
        if !call.out.dims()?.iter().all(|dim| self.evaluates(dim)) {
            return None;
        }
        let output = self.declare(&name, call.out)?;
        given.push(output);
        self.known.insert(member.var, output);
        if !is_result {
            self.body.push(Stmt { kind: StmtKind::Alloc(output), span: Span::default() });
        }
        let stage = self.stage(program, &given, &call.scalars)?;
        if writes_to_others(body, output_of(program)?) {
            return None;
        }
        self.body.extend(stage.statements(body, &mut self.tables));
        Some(())
    }

    fn argument(&mut self, arg: &Atom) -> Option<BufferId> {
        let annotation = match arg {
            Atom::Var(var) => return self.known.get(var).copied(),
            Atom::Constant(constant) => {
                let dims = constant.shape.iter().map(|&extent| i64::try_from(extent).ok());
                let dims = dims.map(|extent| extent.map(Dim::Int)).collect::<Option<Vec<_>>>()?;
                Annotation::tensor(dims, constant.dtype)
            }
            Atom::External(external) => external.annotation.clone(),
            _ => return None,
        };
        if let Some((_, buffer)) = self.constants.iter().find(|(known, _)| known == arg) {
            return Some(*buffer);
        }
        let buffer = self.declare(&Name::new("C"), &annotation)?;
        self.constants.push((arg.clone(), buffer));
        Some(buffer)
    }

    /// The program with what a call gives it.
    fn stage<'p>(
        &mut self,
        program: &'p TensorProgram,
        given: &[BufferId],
        values: &[Dim],
    ) -> Option<Stage<'p>> {
        let (mut buffers, mut scalars) = (BTreeMap::new(), BTreeMap::new());
        let mut extents = Vec::new();
        let mut dims: BTreeMap<Name, Dim> = BTreeMap::new();
        let (mut given, mut values) = (given.iter(), values.iter());
        for param in &program.params {
            match param {
                Param::Buffer(id) => {
                    let own = *given.next()?;
                    self.bind(program, *id, own, (&mut dims, &mut extents));
                    buffers.insert(*id, own);
                }
                Param::Scalar(id) => {
                    scalars.insert(*id, values.next()?.clone());
                }
                Param::Dim(name) => {
                    dims.entry(name.clone()).or_insert(values.next()?.clone());
                }
            }
        }
        let all = dims.values().chain(scalars.values());
        let has_values = all.into_iter().all(|dim| is_computable(dim) && self.evaluates(dim));
        let fits = given.next().is_none() && values.next().is_none() && has_values;
        let demands = program.dims.iter().all(|dim| self.holds(dim, &dims));
        (fits && demands).then_some(Stage { program, dims, extents, scalars, buffers })
    }

    /// Symbolic variables of a program, and extents that are expressions, from the shape of what it is given, which is proved to fit.
    fn bind(
        &self,
        program: &TensorProgram,
        id: BufferId,
        own: BufferId,
        (dims, extents): (&mut BTreeMap<Name, Dim>, &mut Vec<(TExpr, Dim)>),
    ) {
        let (declared, given) = (program.buffer(id), &self.tables.buffers[own.0 as usize]);
        for (dim, extent) in declared.shape.iter().zip(&given.shape) {
            match dim {
                Dim::Var(name) => {
                    dims.entry(name.clone()).or_insert_with(|| extent.clone());
                }
                Dim::Op(..) => extents.push((as_expr(dim), extent.clone())),
                Dim::Int(_) => {}
            }
        }
    }

    /// Whether what is declared of a symbolic variable of a program is known of its value.
    fn holds(&mut self, declared: &DimVar, dims: &BTreeMap<Name, Dim>) -> bool {
        let Some(value) = dims.get(&declared.name) else { return false };
        let claims = [
            declared.lower.map(|lower| Claim::new(lower, Relation::AtMost, value.clone())),
            declared.upper.map(|upper| Claim::new(value.clone(), Relation::AtMost, upper)),
            declared.multiple_of.map(|of| Claim::new(of, Relation::Divides, value.clone())),
        ];
        claims.into_iter().flatten().all(|claim| is_proved(self.facts, &claim))
    }

    /// Whether a dim is an extent whenever the parameters are there.
    fn evaluates(&self, dim: &Dim) -> bool {
        let params = self.inputs.iter().filter_map(|param| match param {
            Param::Buffer(id) => Some(self.tables.buffers[id.0 as usize].shape.as_slice()),
            Param::Scalar(_) | Param::Dim(_) => None,
        });
        always_evaluates(dim, &params.collect::<Vec<_>>())
    }

    fn finish(mut self, results: &[VarId]) -> Merged {
        let mut params = std::mem::take(&mut self.inputs);
        params.extend(self.constants.iter().map(|(_, buffer)| Param::Buffer(*buffer)));
        params.extend(results.iter().map(|result| Param::Buffer(self.known[result])));
        params.append(&mut self.scalars);
        let mut program = TensorProgram {
            name: self.function.name.clone(),
            span: self.function.span,
            params,
            attrs: Vec::new(),
            dims: self.function.dims.clone(),
            body: Some(self.body),
            buffers: self.tables.buffers,
            scalars: self.tables.scalars,
        };
        renumber_program(&mut program);
        Merged { program, constants: self.constants.into_iter().map(|(atom, _)| atom).collect() }
    }
}

fn as_var(atom: &Atom) -> Option<VarId> {
    match atom {
        Atom::Var(var) => Some(*var),
        _ => None,
    }
}

/// Whether a program writes to a parameter other than its output. Allocations are its own.
fn writes_to_others(body: &[Stmt], output: BufferId) -> bool {
    let mut own = vec![output];
    let mut others = false;
    visit_statements(body, &mut |stmt| match &stmt.kind {
        StmtKind::Alloc(id) => own.push(*id),
        StmtKind::Store { buffer, .. } => others |= !own.contains(buffer),
        _ => {}
    });
    others
}
