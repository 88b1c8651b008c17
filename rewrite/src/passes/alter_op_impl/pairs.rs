//! Two modules with one function that takes all that a definition takes: it calls the definition in the one, and an
//! implementation of it in the other. So whether both are equal is a question of two programs.

use super::{Candidate, altered};
use crate::names::Names;
use crate::tir_call::{AnyTirCall, call_tir};
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::ir::references::reached_from;
use relax_syntax::ir::tensor::{BufferInfo, Param};
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Definition, Expr, Function, Lambda, Module,
    TensorProgram, VarId, VarInfo,
};

/// What is to be compared.
#[derive(Debug)]
pub struct Pair {
    /// Its function calls the definition.
    pub one: Module,
    /// Its function calls the implementation.
    pub other: Module,
    /// The name of the function.
    pub function: Name,
}

/// The pair of a candidate of a module that was checked.
///
/// # Errors
/// Why there is no such function.
pub fn pair(checked: &Checked, candidate: &Candidate) -> Result<Pair, String> {
    let (Candidate { of, by }, module) = (candidate, &checked.module);
    let name = Names::of(module).fresh(&format!("{of}_by_{by}"));
    let definition = module.definitions.iter().find(|each| each.name() == of);
    let (one, out) = match definition.expect("invariant: candidates are of the module") {
        Definition::Graph(function) => {
            (around_function(function, &name), checked.results[of].clone())
        }
        Definition::Tensor(program) => around_program(program, &name, outputs(module, of)?)?,
    };
    let mut other = one.clone();
    let body = other.lambda.body.as_mut().expect("invariant: it was made with one");
    let call = &mut body.blocks[0].bindings[0].expr;
    *call = altered(call, module, by, &out)
        .ok_or("a tensor program gives tensors of known dims and dtypes only")?;
    let kept = reached_from(module, vec![of.clone(), by.clone()]);
    let with = |function: Function| {
        let kept = module.definitions.iter().filter(|each| kept.contains(each.name())).cloned();
        let definitions = std::iter::once(Definition::Graph(function)).chain(kept).collect();
        Module { attrs: module.attrs.clone(), definitions }
    };
    Ok(Pair { one: with(one), other: with(other), function: name })
}

/// How many outputs a tensor program has, as a call of it says; `None`: one, which is no tuple.
fn outputs(module: &Module, program: &Name) -> Result<Option<usize>, String> {
    fn find(body: &Body, program: &Name) -> Option<Annotation> {
        body.bindings().find_map(|binding| match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                find(then, program).or_else(|| find(otherwise, program))
            }
            expr => {
                let call = AnyTirCall::of(expr).filter(|call| call.program == program)?;
                call.result().filter(|_| call.scalars.is_empty())
            }
        })
    }
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    match bodies.filter_map(|body| find(body, program)).next() {
        Some(Annotation::Tuple(fields)) => Ok(Some(fields.len())),
        Some(_) => Ok(None),
        None => Err("its calls are in place, or pass integers or tuples".to_owned()),
    }
}

/// A function of the same parameters that calls it.
fn around_function(of: &Function, name: &Name) -> Function {
    let params = of.lambda.params.iter().map(|&param| of.var(param).clone()).collect();
    let args = (0..of.lambda.params.len()).map(var_at).collect();
    let callee = Callee::Global(of.name.clone());
    let call = Expr::Call { callee, args, attrs: Vec::new() };
    let dims = of.dims.iter().filter(|dim| dim.in_signature).cloned().collect();
    around(Function {
        name: name.clone(),
        span: of.span,
        lambda: calling(of.lambda.params.len(), call),
        vars: params,
        dims,
    })
}

/// A function of the tensors that a tensor program reads, and the annotation of its result.
fn around_program(
    of: &TensorProgram,
    name: &Name,
    outputs: Option<usize>,
) -> Result<(Function, Annotation), String> {
    let buffer = |param: &Param| match param {
        Param::Buffer(id) => Ok(&of.buffers[id.0 as usize]),
        Param::Scalar(_) | Param::Dim(_) => Err("it takes integers beside its buffers".to_owned()),
    };
    let buffers = of.params.iter().map(buffer).collect::<Result<Vec<_>, _>>()?;
    let inputs = buffers.len().checked_sub(outputs.unwrap_or(1));
    let (inputs, written) = buffers.split_at(inputs.ok_or("a call of it has too many outputs")?);
    let tensor = |shape: &[_], dtype| {
        Annotation::Tensor(TensorType {
            extents: Extents::Known(shape.to_vec()),
            dtype: Some(dtype),
        })
    };
    let mut out = written.iter().map(|buffer| tensor(&buffer.shape, buffer.dtype));
    let out = match outputs {
        Some(_) => Annotation::Tuple(out.collect()),
        None => out.next().expect("invariant: there is one output"),
    };
    let args = (0..inputs.len()).map(var_at).collect();
    let param = |(at, buffer): (usize, &&BufferInfo)| VarInfo {
        name: Name::new(format!("operand{at}")),
        annotation: Some(tensor(&buffer.shape, buffer.dtype)),
        span: of.span,
    };
    let function = around(Function {
        name: name.clone(),
        span: of.span,
        lambda: calling(inputs.len(), call_tir(of.name.clone(), args, out.clone())),
        vars: inputs.iter().enumerate().map(param).collect(),
        dims: of.dims.clone(),
    });
    Ok((function, out))
}

fn var(at: usize) -> VarId {
    VarId(u32::try_from(at).expect("ids are u32"))
}

fn var_at(at: usize) -> Atom {
    Atom::Var(var(at))
}

/// Parameters, and one call in a dataflow block, where nothing has an effect.
fn calling(params: usize, call: Expr) -> Lambda {
    let result = var(params);
    let bindings = vec![Binding { var: result, expr: call }];
    let block = Block { kind: BlockKind::Dataflow { outputs: vec![result] }, bindings };
    Lambda {
        params: (0..params).map(var).collect(),
        result: None,
        attrs: Vec::new(),
        body: Some(Body { blocks: vec![block], result: Atom::Var(result) }),
    }
}

/// The function with the variable of its result, under a name of its own.
fn around(mut function: Function) -> Function {
    let taken = |name: &str| {
        let mut vars = function.vars.iter().map(|info| &info.name);
        vars.any(|own| own == name) || function.dims.iter().any(|dim| dim.name == name)
    };
    let name = (0..).map(|at| format!("result{at}")).find(|name| !taken(name));
    let name = Name::new(name.expect("invariant: names do not end"));
    function.vars.push(VarInfo { name, annotation: None, span: function.span });
    function
}
