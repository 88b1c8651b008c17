//! Inputs of the model become parameters: tensors by their dims, lists as tuples whose length is given to
//! the import, since a model does not say it.

use crate::builder::{Content, Origin, V};
use crate::elements;
use crate::graph::Importer;
use crate::model::Given;
use crate::narrow::Narrow;
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

impl Importer<'_> {
    /// The value of an input; parameters are added to `inputs`.
    pub(crate) fn parameter(
        &mut self,
        name: &str,
        input: &proto::ValueInfo,
        inputs: &mut Vec<V>,
    ) -> Done<V> {
        if let Some(tensor) = self.options.bind.get(name) {
            let value = self.builder.constant(tensor.clone());
            self.hint(Some(value), name);
            return Ok(value);
        }
        let r#type = input.r#type.clone().unwrap_or_default();
        match self.options.types.get(name).cloned() {
            Some(Given::Nothing) if r#type.optional_type.is_some() => {
                Ok(self.builder.add(Vec::new(), DType::F32, Content::Nothing))
            }
            Some(Given::Nothing) => invalid("only an optional can be left out"),
            Some(Given::Type(annotation)) => self.typed(name, &annotation, inputs),
            None if r#type.sequence_type.is_some() || r#type.optional_type.is_some() => {
                Err(Reason::Untyped(name.to_owned()))
            }
            None => {
                let Some(tensor) = r#type.tensor_type else {
                    return unsupported("an input that is no tensor");
                };
                let number = tensor.elem_type.unwrap_or(0);
                let narrow = Narrow::of(number);
                let dtype = narrow.map_or_else(|| elements::dtype(number), |n| Ok(n.dtype()))?;
                let shape = tensor.shape.ok_or_else(|| Reason::Untyped(name.to_owned()))?;
                let mut dims = Vec::new();
                for (axis, dim) in shape.dim.iter().enumerate() {
                    dims.push(self.dimension(name, axis, dim)?);
                }
                let value = self.input(name, dims, dtype, inputs);
                narrow.map(|narrow| self.builder.narrow.insert(value, narrow));
                self.notes.extend(self.builder.note_narrow(name, value));
                Ok(value)
            }
        }
    }

    fn input(&mut self, name: &str, dims: Vec<Dim>, dtype: DType, inputs: &mut Vec<V>) -> V {
        let value = self.builder.add(dims, dtype, Content::Input(name.to_owned()));
        self.hint(Some(value), name);
        inputs.push(value);
        value
    }

    /// An input of the type that was given.
    fn typed(&mut self, name: &str, annotation: &Annotation, inputs: &mut Vec<V>) -> Done<V> {
        let annotation = self.renamed(annotation);
        let parts = |tensor: &TensorType| Some((tensor.extents.dims()?.to_vec(), tensor.dtype?));
        let wrong =
            || Reason::Invalid("the type given is no tensor and no tuple of tensors".into());
        if let Some(tensor) = annotation.as_tensor() {
            let (dims, dtype) = parts(tensor).ok_or_else(wrong)?;
            return Ok(self.input(name, dims, dtype, inputs));
        }
        let Annotation::Tuple(fields) = &annotation else { return Err(wrong()) };
        let mut items = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            let (dims, dtype) = field.as_tensor().and_then(parts).ok_or_else(wrong)?;
            let item = self.builder.add(dims, dtype, Content::Computed);
            self.hint(Some(item), &format!("{name}_{place}"));
            items.push(item);
        }
        let whole = self.input(name, Vec::new(), DType::F32, inputs);
        self.builder.tuples.insert(whole, annotation.clone());
        if !items.is_empty() {
            let line = crate::builder::Line::Fields { targets: items.clone(), from: whole };
            self.builder.lines.push(line);
        }
        Ok(self.builder.add(Vec::new(), DType::F32, Content::Sequence(items)))
    }

    /// With the variables of the program for those of the type.
    fn renamed(&mut self, annotation: &Annotation) -> Annotation {
        let mut names = BTreeMap::new();
        annotation.visit_dims(&mut |dim| {
            dim.visit_vars(&mut |name| _ = names.insert(name.clone(), Dim::Int(0)));
        });
        let given: Vec<Name> = names.keys().cloned().collect();
        for name in given {
            let dim = self.named(name.as_str());
            names.insert(name, dim);
        }
        annotation.map_dims(&mut |dim| dim.substitute(&names))
    }

    fn dimension(&mut self, input: &str, axis: usize, dim: &proto::Dimension) -> Done<Dim> {
        if let Some(extent) = dim.dim_value {
            return if extent >= 0 {
                Ok(Dim::Int(extent))
            } else {
                invalid(format!("the dim {extent} of `{input}` is negative"))
            };
        }
        let Some(param) = dim.dim_param.as_deref().filter(|param| !param.is_empty()) else {
            let dim = self.builder.variable(None, Origin::Signature);
            self.bound(None, &dim);
            self.notes.push(format!("dim {axis} of `{input}` has no name: it is `{dim}`"));
            return Ok(dim);
        };
        Ok(self.named(param))
    }

    /// The dim of that name.
    fn named(&mut self, param: &str) -> Dim {
        if let Some(dim) = self.named_dims.get(param) {
            return dim.clone();
        }
        let dim = match self.options.dims.get(param) {
            Some(wanted) => match wanted.parse::<i64>() {
                Ok(extent) => Dim::Int(extent.max(0)),
                Err(_) => self.builder.variable(Some(wanted), Origin::Signature),
            },
            None => self.builder.variable(Some(param), Origin::Signature),
        };
        self.bound(Some(param), &dim);
        self.named_dims.insert(param.to_owned(), dim.clone());
        dim
    }
}
