//! Atoms as operands: variables are registers, everything else is a constant, or made of those.

use super::Unsupported;
use super::constants::dtype;
use super::function::Code;
use relax_runtime::Output;
use relax_runtime::instruction::{Code as DimCode, Instruction, Kind, Label, Operand, Register};
use relax_runtime::program::Constant;
use relax_runtime::{DType as MachineType, Number};
use relax_semantics::interp::constant_tensor;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, VarId};

impl Code<'_, '_> {
    fn constant(&mut self, constant: Constant) -> Operand {
        Operand::Constant(self.tables.constants.add(constant))
    }

    pub(super) fn operand(&mut self, atom: &Atom) -> Result<Operand, Unsupported> {
        Ok(match atom {
            Atom::Var(var) => Operand::Register(self.register(*var).0),
            Atom::Dim(dim) => {
                let value = self.literal(dim)?;
                self.constant(Constant::Scalar(MachineType::I64, Number::Int(value.into())))
            }
            Atom::Float(value) => {
                self.constant(Constant::Scalar(MachineType::F64, Number::Float(*value)))
            }
            Atom::Bool(value) => {
                self.constant(Constant::Scalar(MachineType::Bool, Number::Int(i128::from(*value))))
            }
            Atom::Str(text) => self.constant(Constant::Str(text.to_string())),
            Atom::None => self.constant(Constant::None),
            Atom::Constant(constant) => {
                Operand::Constant(self.tables.constants.tensor(&constant_tensor(constant)))
            }
            Atom::External(external) => match self.tables.externals.get(&external.name) {
                Some(tensor) => {
                    Operand::Constant(self.tables.constants.external(&external.name, tensor))
                }
                None => {
                    let message = format!("no value is given for the constant `{}`", external.name);
                    self.fail("param/missing", &message);
                    self.constant(Constant::None)
                }
            },
            Atom::Tuple(items) | Atom::List(items) if items.is_empty() => {
                self.constant(Constant::Unit)
            }
            Atom::Tuple(items) | Atom::List(items) => {
                let items = self.operands(items)?;
                let to = self.scratch();
                self.emit(Instruction::Tuple { to, items });
                Operand::Register(to.0)
            }
            Atom::Shape(dims) => {
                let dims = dims.iter().map(|dim| self.literal(dim)).collect::<Result<_, _>>()?;
                self.shape(dims)
            }
            Atom::Annotation(annotation) => self.output(annotation)?,
            Atom::Global(name) => {
                let constant = match (self.function_number(name), self.kernel_number(name)) {
                    (Some(function), _) => Constant::Function(function),
                    (None, Some(kernel)) => {
                        self.tables.passed.insert(name.clone());
                        Constant::Kernel(kernel)
                    }
                    (None, None) => {
                        let message = format!("`{name}` is external: its body is `...`");
                        self.fail("call/external", &message);
                        Constant::None
                    }
                };
                self.constant(constant)
            }
        })
    }

    /// A shape with a negative dim is the trap of making it.
    fn shape(&mut self, dims: Vec<i64>) -> Operand {
        if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
            let message = format!("a dim may not be negative, found `{dim}` = {dim}");
            self.fail("shape/negative", &message);
        }
        self.constant(Constant::Shape(dims.into_iter().map(|dim| dim.max(0)).collect()))
    }

    pub(super) fn operands(&mut self, atoms: &[Atom]) -> Result<Box<[Operand]>, Unsupported> {
        atoms.iter().map(|atom| self.operand(atom)).collect()
    }

    fn literal(&self, dim: &Dim) -> Result<i64, Unsupported> {
        dim.as_int()
            .ok_or_else(|| self.unsupported(format!("`{dim}` is symbolic in a text of P2.3")))
    }

    /// The annotation of an output, which has no variables here.
    fn output(&mut self, annotation: &Annotation) -> Result<Operand, Unsupported> {
        if let Annotation::Tuple(items) = annotation {
            let items = items.iter().map(|item| self.output(item)).collect::<Result<_, _>>()?;
            let to = self.scratch();
            self.emit(Instruction::Tuple { to, items });
            return Ok(Operand::Register(to.0));
        }
        let known = annotation.as_tensor().and_then(|tensor| {
            let dims: Option<Vec<i64>> =
                tensor.extents.dims()?.iter().map(|dim| dim.as_int().filter(|&d| d >= 0)).collect();
            Some(Output { dtype: tensor.dtype.map(dtype), dims: dims? })
        });
        let known = known.ok_or_else(|| {
            self.unsupported(format!("the annotation `{annotation}` as an operand"))
        })?;
        Ok(self.constant(Constant::Output(known)))
    }

    /// An integer that the text says.
    pub(super) fn integer(&self, atom: &Atom) -> Result<i64, Unsupported> {
        match atom {
            Atom::Dim(dim) => self.literal(dim),
            _ => Err(self.unsupported("an integer that is no literal")),
        }
    }

    pub(super) fn optional_integer(&self, atom: &Atom) -> Result<Option<i64>, Unsupported> {
        if *atom == Atom::None { Ok(None) } else { self.integer(atom).map(Some) }
    }

    /// A text that the text says.
    pub(super) fn string<'t>(&self, atom: &'t Atom) -> Result<&'t str, Unsupported> {
        match atom {
            Atom::Str(text) => Ok(text),
            _ => Err(self.unsupported("a string that is no literal")),
        }
    }

    pub(super) fn dtype(&self, atom: &Atom) -> Result<Option<MachineType>, Unsupported> {
        if *atom == Atom::None {
            return Ok(None);
        }
        let name = self.string(atom)?;
        let known = DType::parse(name).map(dtype);
        known.map(Some).ok_or_else(|| self.unsupported(format!("`{name}` is no dtype")))
    }

    /// One code a dim.
    pub(super) fn codes(&self, atom: &Atom) -> Result<Box<[DimCode]>, Unsupported> {
        let items = self.written(atom).and_then(|atom| match atom {
            Atom::Tuple(items) | Atom::List(items) => Some(items),
            _ => None,
        });
        let items = items.ok_or_else(|| self.unsupported("codes of dims that are no tuple"))?;
        items.iter().map(|item| self.code(item)).collect()
    }

    pub(super) fn code(&self, atom: &Atom) -> Result<DimCode, Unsupported> {
        let unknown = || self.unsupported("an operand that only the run knows, as code of a dim");
        code_of(self.written(atom).ok_or_else(unknown)?)
            .ok_or_else(|| self.unsupported("an operand that is no code of a dim"))
    }

    /// What the text says of an atom: of a variable, what it was bound to.
    pub(super) fn written<'s>(&'s self, atom: &'s Atom) -> Option<&'s Atom> {
        match atom {
            Atom::Var(var) => self.literals.get(var),
            other => Some(other),
        }
    }

    /// What an external function declares of a parameter.
    pub(super) fn declared(&mut self, param: VarId, annotation: &Annotation, about: &str) {
        let rank =
            |extents: &Extents| extents.rank().map(|rank| i64::try_from(rank).unwrap_or(i64::MAX));
        let (kind, size, known) = match annotation {
            Annotation::Object => return,
            Annotation::Prim(known) => (Kind::Scalar, None, Some(*known)),
            Annotation::Shape(extents) => (Kind::Shape, rank(extents), None),
            Annotation::Callable(_) => (Kind::Function, None, None),
            Annotation::Tuple(items) => {
                (Kind::Tuple, Some(i64::try_from(items.len()).unwrap_or(i64::MAX)), None)
            }
            Annotation::Tensor(_) | Annotation::DTensor(_) => {
                let tensor = annotation.as_tensor().expect("invariant: it is of a tensor");
                (Kind::Tensor, rank(&tensor.extents), tensor.dtype)
            }
        };
        let Register(register) = self.register(param);
        let label = Label {
            check: self.text("boundary"),
            about: self.text(about),
            expected: self.text(&annotation.to_string()),
        };
        let (value, dtype) = (Operand::Register(register), known.map(dtype));
        self.emit(Instruction::CheckKind { value, kind, size, dtype, label });
    }
}

/// The code of a dim; `None` for what is none.
pub(super) fn code_of(atom: &Atom) -> Option<DimCode> {
    match atom {
        Atom::None => Some(DimCode::Skip),
        Atom::Dim(dim) => dim.as_int().map(DimCode::Literal),
        Atom::Tuple(items) | Atom::List(items) => match items.as_slice() {
            [Atom::Str(what), Atom::Dim(slot)] => match (what.as_str(), slot.as_int()?) {
                ("slot", slot) => Some(DimCode::Slot(slot)),
                ("store", slot) => Some(DimCode::Store(slot)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
