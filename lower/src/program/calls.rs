//! Calls: of built-ins, one instruction each; of functions, kernels and host functions.

use super::Unsupported;
use super::function::Code;
use super::operands::code_of;
use relax_runtime::instruction::{
    Code as DimCode, DimOp, Fact, Instruction, Kind, Label, Operand, Register, Text,
};
use relax_semantics::ops::{self, Family, Literal, Operator, called_by_name, lookup, only_checks};
use relax_syntax::Name;
use relax_syntax::ast::{self, ExprKind};
use relax_syntax::ir::{Atom, Callee, VarId};
use relax_syntax::parse::parse_expression;

/// The host function that calls an operator by its name.
pub const RUN_OPERATOR: &str = "builtin.run_operator";

impl Code<'_, '_> {
    pub(super) fn call(
        &mut self,
        var: VarId,
        callee: &Callee,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<(), Unsupported> {
        match callee {
            Callee::Operator(name) => self.operator(var, name, args, attrs),
            _ if !attrs.is_empty() => {
                Err(self.unsupported("arguments by name in a call of a function"))
            }
            Callee::Var(function) => {
                let args = self.operands(args)?;
                let function = Operand::Register(self.register(*function).0);
                let to = self.register(var);
                self.emit(Instruction::CallValue { to, function, args });
                Ok(())
            }
            Callee::Global(name) => self.global(var, name, args),
        }
    }

    fn global(&mut self, var: VarId, name: &Name, args: &[Atom]) -> Result<(), Unsupported> {
        let args = self.operands(args)?;
        if let Some(function) = self.function_number(name) {
            let to = self.register(var);
            self.emit(Instruction::Call { to, function, args });
            return Ok(());
        }
        if let Some(kernel) = self.kernel_number(name) {
            self.emit(Instruction::CallKernel { kernel, args });
        } else if self.module.tensor_program(name).is_some() {
            self.fail("call/external", &format!("`{name}` is external: its body is `...`"));
        } else {
            return Err(self.unsupported(format!("`{name}` is not defined")));
        }
        self.unit(var);
        Ok(())
    }

    fn operator(
        &mut self,
        var: VarId,
        name: &Name,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<(), Unsupported> {
        let row = lookup(name)
            .ok_or_else(|| self.unsupported(format!("there is no operator `{name}`")))?;
        if [RUN_OPERATOR, "builtin.call_operator"].contains(&row.name) || only_checks(row) {
            return self.by_name(var, row, args, attrs);
        }
        let bound = ops::bind(row, args.to_vec(), attrs.to_vec(), &Literal::atom)
            .map_err(|error| self.unsupported(format!("`{name}`: {error}")))?;
        match row.family {
            Family::Builtins => self.built_in(var, row, &bound),
            Family::Memory => self.memory(var, row, &bound),
            Family::Calls => self.effect(var, row, &bound),
            _ => Err(self.unsupported(format!("the tensor operator `{name}` is left"))),
        }
    }

    /// An operator that no kernel stands for: a function of the embedder computes it.
    fn by_name(
        &mut self,
        var: VarId,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<(), Unsupported> {
        let operands = self.operands(args)?;
        let mut keywords = Vec::new();
        for (key, atom) in attrs {
            let operand = self.operand(atom)?;
            keywords.push((self.text(key), operand));
        }
        if let Some(named) = called_by_name(row, args.first()) {
            self.computed_dims(named, &args[1..], attrs)?;
        }
        let host = if only_checks(row) { row.name } else { RUN_OPERATOR };
        let (to, name) = (self.register(var), self.text(host));
        self.emit(Instruction::CallHost { to, name, args: operands, keywords: keywords.into() });
        Ok(())
    }

    /// A dim that the program computes never means "what is left over", even when it is -1.
    fn computed_dims(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<(), Unsupported> {
        let shape = |param: &ops::Param| param.kind == ops::Kind::InferredShape;
        let Some(at) = row.params.iter().position(shape) else { return Ok(()) };
        let named = attrs.iter().find(|(name, _)| row.params[at].is_called(name));
        let written = args.get(at).or(named.map(|(_, atom)| atom));
        let Some(Atom::Tuple(items) | Atom::List(items)) = written else { return Ok(()) };
        for item in items.iter().filter(|item| matches!(item, Atom::Var(_))) {
            let value = self.operand(item)?;
            let id = self.text(&format!("{}/C1", row.short_name()));
            self.emit(Instruction::CheckNatural { value, id });
        }
        Ok(())
    }

    fn label(&mut self, texts: &[Atom]) -> Result<Label, Unsupported> {
        let [check, about, expected] = texts else {
            return Err(self.unsupported("a check without its texts"));
        };
        Ok(Label {
            check: self.text_of(check)?,
            about: self.text_of(about)?,
            expected: self.text_of(expected)?,
        })
    }

    /// The dims of an annotation as its text has them; none where it is not one of so many.
    fn terms(&mut self, texts: &[Atom], rank: usize) -> Result<Box<[Text]>, Unsupported> {
        let [_, _, expected] = texts else { return Ok(Box::default()) };
        let expected = self.string(expected)?.to_owned();
        let Ok(annotation) = parse_expression(&expected, 0) else { return Ok(Box::default()) };
        let ExprKind::Call { arguments, .. } = annotation.kind else { return Ok(Box::default()) };
        let Some(ExprKind::Tuple(dims) | ExprKind::List(dims)) =
            arguments.first().map(|first| &first.value.kind)
        else {
            return Ok(Box::default());
        };
        if dims.len() != rank {
            return Ok(Box::default());
        }
        let term = |dim: &ast::Expr| match &dim.kind {
            ExprKind::Str(name) => name.as_str().to_owned(),
            _ => expected[dim.span.start as usize..dim.span.end as usize].to_owned(),
        };
        Ok(dims.iter().map(|dim| self.text(&term(dim))).collect())
    }

    fn text_of(&mut self, atom: &Atom) -> Result<Text, Unsupported> {
        let text = self.string(atom)?.to_owned();
        Ok(self.text(&text))
    }

    /// A literal operand that the row refuses is the trap of its second constraint.
    fn refused(&self, row: &Operator, all: &[Atom]) -> Option<&'static str> {
        let is_code = |atom: &Atom, may_store: bool| {
            self.written(atom).is_none_or(|atom| match code_of(atom) {
                Some(DimCode::Skip | DimCode::Store(_)) => may_store,
                other => other.is_some(),
            })
        };
        let are_codes = |atom: &Atom, may_store: bool| match self.written(atom) {
            Some(Atom::Tuple(items) | Atom::List(items)) => {
                items.iter().all(|item| is_code(item, may_store))
            }
            _ => true,
        };
        let holds = match (row.name, all) {
            ("builtin.match_shape", [_, _, codes, ..]) => are_codes(codes, true),
            ("builtin.make_shape" | "builtin.make_annotation", [_, codes, ..]) => {
                are_codes(codes, false)
            }
            ("builtin.compute_dim", [_, _, op, a, b, ..]) => {
                self.dim_op(op).is_ok() && is_code(a, false) && is_code(b, false)
            }
            ("builtin.check_bound", [_, _, fact, ..]) => self.fact(fact).is_ok(),
            _ => true,
        };
        (!holds).then_some("an operand is none that this built-in takes")
    }

    fn built_in(&mut self, var: VarId, row: &Operator, all: &[Atom]) -> Result<(), Unsupported> {
        if let Some(message) = self.refused(row, all) {
            self.fail(&format!("{}/C2", row.name), message);
            return Ok(());
        }
        let instruction = match (row.name, all) {
            ("builtin.alloc_shape_heap", [size]) => {
                let size = self.operand(size)?;
                self.heaps.insert(var);
                Instruction::AllocHeap { to: self.register(var), size }
            }
            ("builtin.check_kind", [value, kind, size, dtype, texts @ ..]) => {
                let (size, dtype) = (self.optional_integer(size)?, self.dtype(dtype)?);
                let (kind, label) = (self.kind(kind)?, self.label(texts)?);
                let value = self.operand(value)?;
                Instruction::CheckKind { value, kind, size, dtype, label }
            }
            ("builtin.match_shape", [value, heap, codes, texts @ ..]) => {
                let (codes, label) = (self.codes(codes)?, self.label(texts)?);
                let (value, heap) = (self.operand(value)?, self.operand(heap)?);
                let terms = self.terms(texts, codes.len())?;
                Instruction::MatchShape { value, heap, codes, terms, label }
            }
            ("builtin.check_bound", [heap, slot, fact, limit, name, about]) => {
                let (slot, limit) = (self.integer(slot)?, self.integer(limit)?);
                let (name, about) = (self.text_of(name)?, self.text_of(about)?);
                let (fact, heap) = (self.fact(fact)?, self.operand(heap)?);
                Instruction::CheckBound { heap, slot, fact, limit, name, about }
            }
            ("builtin.check_extent", [heap, slot, about]) => {
                let (slot, about) = (self.integer(slot)?, self.text_of(about)?);
                Instruction::CheckExtent { heap: self.operand(heap)?, slot, about }
            }
            ("builtin.compute_dim", [heap, slot, op, a, b, check, about]) => {
                let (slot, op) = (self.integer(slot)?, self.dim_op(op)?);
                let (a, b) = (self.code(a)?, self.code(b)?);
                let (check, about) = (self.text_of(check)?, self.text_of(about)?);
                let heap = self.operand(heap)?;
                Instruction::ComputeDim { heap, slot, op, a, b, check, about }
            }
            ("builtin.load_dim", [heap, slot]) => {
                let (heap, slot) = (self.operand(heap)?, self.integer(slot)?);
                Instruction::LoadDim { to: self.register(var), heap, slot }
            }
            ("builtin.make_shape", [heap, codes]) => {
                let (heap, codes) = (self.operand(heap)?, self.codes(codes)?);
                Instruction::MakeShape { to: self.register(var), heap, codes }
            }
            ("builtin.make_annotation", [heap, codes, dtype]) => {
                let (heap, codes) = (self.operand(heap)?, self.codes(codes)?);
                let dtype = self.dtype(dtype)?;
                Instruction::MakeOutput { to: self.register(var), heap, codes, dtype }
            }
            (name, _) => return Err(self.unsupported(format!("`{name}` has no instruction"))),
        };
        self.finish(var, instruction);
        Ok(())
    }

    fn memory(&mut self, var: VarId, row: &Operator, all: &[Atom]) -> Result<(), Unsupported> {
        let instruction = match (row.name, all) {
            ("memory.alloc_storage", [size, dtype, ..]) => {
                let (size, dtype) = (self.operand(size)?, self.dtype(dtype)?);
                let dtype = dtype.ok_or_else(|| self.unsupported("a storage without dtype"))?;
                Instruction::AllocStorage { to: self.register(var), size, dtype }
            }
            ("memory.alloc_tensor", [storage, shape, dtype, offset]) => {
                let (storage, shape) = (self.operand(storage)?, self.operand(shape)?);
                let (dtype, offset) = (self.dtype(dtype)?, self.operand(offset)?);
                let to = self.register(var);
                Instruction::AllocTensor { to, storage, shape, dtype, offset }
            }
            ("memory.kill_storage", [storage]) => Instruction::KillStorage(self.operand(storage)?),
            ("memory.kill_tensor", [tensor]) => Instruction::KillTensor(self.operand(tensor)?),
            ("memory.kill_object", [tensor]) => Instruction::KillObject(self.operand(tensor)?),
            ("memory.view", [tensor, shape]) => {
                let (tensor, shape) = (self.operand(tensor)?, self.operand(shape)?);
                Instruction::View { to: self.register(var), tensor, shape }
            }
            ("builtin.cuda_graph_get_cached_alloc", [function]) => {
                let function = self.operand(function)?;
                Instruction::KeepMemory { to: self.register(var), function }
            }
            ("builtin.cuda_graph_run_or_capture", [function, args @ ..]) => {
                let (function, args) = (self.operand(function)?, self.operands(args)?);
                Instruction::RunGraph { to: self.register(var), function, args }
            }
            (name, _) => return Err(self.unsupported(format!("`{name}` has no instruction"))),
        };
        self.finish(var, instruction);
        Ok(())
    }

    fn effect(&mut self, var: VarId, row: &Operator, all: &[Atom]) -> Result<(), Unsupported> {
        let instruction = match (row.name, all) {
            ("make_closure", [function, last]) => {
                let (function, last) = (self.operand(function)?, self.operand(last)?);
                Instruction::MakeClosure { to: self.register(var), function, last }
            }
            ("invoke_closure" | "invoke_pure_closure", [function, args, Atom::None]) => {
                let (function, args) = (self.operand(function)?, self.operand(args)?);
                Instruction::Invoke { to: self.register(var), function, args }
            }
            ("call_packed" | "call_pure_packed", [name, Atom::None, args @ ..]) => {
                let (name, args) = (self.text_of(name)?, self.operands(args)?);
                let keywords = Box::default();
                Instruction::CallHost { to: self.register(var), name, args, keywords }
            }
            ("builtin.read_shape", [tensor]) => {
                let tensor = self.operand(tensor)?;
                Instruction::ReadShape { to: self.register(var), tensor }
            }
            ("print", _) => {
                let (name, args) = (self.text("print"), self.operands(all)?);
                let keywords = Box::default();
                Instruction::CallHost { to: self.register(var), name, args, keywords }
            }
            ("assert_op", [condition, _, format]) => {
                let (condition, message) = (self.operand(condition)?, self.text_of(format)?);
                Instruction::Assert { condition, message }
            }
            (name, _) => return Err(self.unsupported(format!("`{name}` has no instruction"))),
        };
        self.finish(var, instruction);
        Ok(())
    }

    /// An instruction that gives nothing leaves unit.
    fn finish(&mut self, var: VarId, instruction: Instruction) {
        let gives = instruction.target().is_some_and(|to: Register| to == self.register(var));
        self.emit(instruction);
        if !gives {
            self.unit(var);
        }
    }

    fn kind(&self, atom: &Atom) -> Result<Kind, Unsupported> {
        Ok(match self.string(atom)? {
            "tensor" => Kind::Tensor,
            "shape" => Kind::Shape,
            "tuple" => Kind::Tuple,
            "scalar" => Kind::Scalar,
            "function" => Kind::Function,
            other => return Err(self.unsupported(format!("there is no kind `{other}`"))),
        })
    }

    fn fact(&self, atom: &Atom) -> Result<Fact, Unsupported> {
        Ok(match self.string(atom)? {
            "lower_bound" => Fact::LowerBound,
            "upper_bound" => Fact::UpperBound,
            "multiple_of" => Fact::MultipleOf,
            other => return Err(self.unsupported(format!("there is no fact `{other}`"))),
        })
    }

    fn dim_op(&self, atom: &Atom) -> Result<DimOp, Unsupported> {
        Ok(match self.string(atom)? {
            "+" => DimOp::Add,
            "-" => DimOp::Sub,
            "*" => DimOp::Mul,
            "//" => DimOp::FloorDiv,
            "%" => DimOp::FloorMod,
            "min" => DimOp::Min,
            "max" => DimOp::Max,
            "ceildiv" => DimOp::CeilDiv,
            other => return Err(self.unsupported(format!("there is no operation `{other}`"))),
        })
    }
}
