//! The program as text. Small constants stand where they are used, large ones are tensors of the
//! safetensors file; integers over dims become shapes or scalars where a tensor is asked for.

use crate::argument::Arg;
use crate::builder::{Builder, Content, Line, Origin, V};
use crate::model::Bound;
use crate::weight::Weight;
use relax_semantics::show::show_number;
use relax_semantics::tensor::Tensor;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::ir::OUTPUT_NAME;
use relax_syntax::raise::OPERATOR;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Constants with more elements go to the file.
const INLINE: usize = 16;

/// What comes of a program.
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// The tensors of the file.
    pub(crate) externals: Vec<(String, Weight)>,
}

/// A function in the making.
pub(crate) struct Renderer<'b> {
    builder: &'b mut Builder,
    names: BTreeMap<V, String>,
    /// Names of tensors in the file.
    stored: BTreeSet<String>,
    header: Vec<String>,
    externals: Vec<(String, Weight)>,
    used: BTreeSet<String>,
    /// Variables of inner functions, which those declare.
    declared: BTreeSet<String>,
    body: String,
    /// The name of the function, which hides an operator of that name.
    entry: String,
}

/// The function `entry` with these parameters and results.
pub(crate) fn function(
    builder: &mut Builder,
    entry: &str,
    (inputs, outputs): (&[V], &[V]),
    names: &[String],
) -> Rendered {
    let mut renderer = Renderer {
        builder,
        names: BTreeMap::new(),
        stored: BTreeSet::new(),
        header: Vec::new(),
        externals: Vec::new(),
        used: BTreeSet::new(),
        declared: BTreeSet::new(),
        body: String::new(),
        entry: entry.to_owned(),
    };
    let lines = std::mem::take(&mut renderer.builder.lines);
    let params: Vec<String> = inputs.iter().map(|&input| renderer.parameter(input)).collect();
    let result = renderer.result(outputs);
    renderer.blocks(&lines);
    let results: Vec<String> = outputs.iter().map(|&output| renderer.value(output)).collect();
    let returned = match results.as_slice() {
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    };
    let mut text = format!("def {entry}({}){result}:\n", params.join(", "));
    text += &renderer.declarations();
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(text, "    func_attr(\"{OUTPUT_NAME}{index}\", {name:?})");
    }
    for line in &renderer.header {
        let _ = writeln!(text, "    {line}");
    }
    text += &renderer.body;
    let _ = writeln!(text, "    return {returned}");
    Rendered { text, externals: renderer.externals }
}

impl Renderer<'_> {
    fn parameter(&mut self, input: V) -> String {
        let name = self.named(input);
        let annotation = quoted(&self.builder.annotation(input));
        format!("{name}: {annotation}")
    }

    /// ` -> …`, where the signature's variables say what there is.
    fn result(&self, outputs: &[V]) -> String {
        let of_signature = |dim: &Dim| {
            dim.vars_all(&|name| {
                self.builder.variables.get(name.as_str()) == Some(&Origin::Signature)
            })
        };
        let known = outputs.iter().all(|&v| self.builder.info(v).dims.iter().all(of_signature));
        if !known || !outputs.iter().all(|&v| self.builder.is_tensor(v)) {
            return String::new();
        }
        let types: Vec<String> =
            outputs.iter().map(|&v| quoted(&self.builder.annotation(v))).collect();
        match types.as_slice() {
            [one] => format!(" -> {one}"),
            many => format!(" -> Tuple[{}]", many.join(", ")),
        }
    }

    fn declarations(&self) -> String {
        let needed = |(name, _): &(&String, &Origin)| {
            let is_told = self.declared.contains(*name) || self.builder.bounded.contains_key(*name);
            self.used.contains(*name) && !is_told
        };
        let names: Vec<&str> =
            self.builder.variables.iter().filter(needed).map(|(name, _)| name.as_str()).collect();
        let plain = names.chunks(6).map(|some| format!("    {}\n", declaration(some)));
        let bounded = self.builder.bounded.iter();
        let bounded = bounded.map(|(name, bound)| format!("    {}\n", bounded_line(name, bound)));
        bounded.chain(plain).collect()
    }

    /// Runs of lines without a branch are dataflow blocks.
    fn blocks(&mut self, lines: &[Line]) {
        let mut rest = lines;
        while !rest.is_empty() {
            let run = rest.iter().take_while(|line| is_plain(line)).count();
            let (now, later) = rest.split_at(run.max(1));
            rest = later;
            if run == 0 {
                self.lines(now, 1);
                continue;
            }
            let before = self.body.len();
            self.lines(now, 2);
            if now.iter().all(|line| matches!(line, Line::Comment(_))) {
                self.body.truncate(before);
            } else {
                self.body.insert_str(before, "    with dataflow():\n");
            }
        }
    }

    fn lines(&mut self, lines: &[Line], depth: usize) {
        for line in lines {
            self.line(line, depth);
        }
    }

    fn line(&mut self, line: &Line, depth: usize) {
        let text = match line {
            Line::Comment(text) => format!("# {text}"),
            Line::Call { targets, operator, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.argument(arg)).collect();
                let targets: Vec<String> = targets.iter().map(|&v| self.named(v)).collect();
                let target = targets.join(", ");
                let comma = if targets.len() == 1 && operator == "split" { "," } else { "" };
                let prefix = if *operator == self.entry { OPERATOR } else { "" };
                format!("{target}{comma} = {prefix}{operator}({})", args.join(", "))
            }
            Line::Cast { target, from } => {
                let from = self.value(*from);
                let annotation = self.builder.annotation(*target);
                annotation.visit_dims(&mut |dim| self.used_in(dim));
                format!("{} = match_cast({from}, {annotation})", self.named(*target))
            }
            Line::ShapeCast { target, from, dims } => {
                dims.iter().for_each(|dim| self.used_in(dim));
                let from = self.value(*from);
                let target = self.named(*target);
                format!("{target} = match_cast(tensor_to_shape({from}), Shape([{}]))", listed(dims))
            }
            Line::Assert { condition, message } => {
                let (condition, message) = (self.argument(condition), self.argument(message));
                format!("assert_op({condition}, {message})")
            }
            Line::Alias { target, from } => {
                let from = self.value(*from);
                format!("{} = {from}", self.named(*target))
            }
            Line::Fields { targets, from } => {
                let from = self.value(*from);
                format!("{} = {from}", self.fields(targets))
            }
            Line::Apply { targets, function, args } => {
                let args: Vec<String> = args.iter().map(|&v| self.value(v)).collect();
                format!("{} = {function}({})", self.fields(targets), args.join(", "))
            }
            Line::Define { .. } => return self.define(line, depth),
            Line::If { condition, then, otherwise } => {
                return self.branches(*condition, then, otherwise, depth);
            }
        };
        self.push(&text, depth);
    }

    fn branches(&mut self, condition: V, then: &[Line], otherwise: &[Line], depth: usize) {
        let condition = self.value(condition);
        self.push(&format!("if {condition}:"), depth);
        self.lines(then, depth + 1);
        self.push("else:", depth);
        self.lines(otherwise, depth + 1);
    }

    /// The fields of a tuple, as the left side of a binding.
    fn fields(&mut self, targets: &[V]) -> String {
        let names: Vec<String> = targets.iter().map(|&v| self.named(v)).collect();
        if names.len() == 1 { format!("{},", names[0]) } else { names.join(", ") }
    }

    fn define(&mut self, line: &Line, depth: usize) {
        let Line::Define { name, params, results, locals, lines, returns } = line else { return };
        let params: Vec<String> = params.iter().map(|&param| self.parameter(param)).collect();
        let results: Vec<String> = results.iter().map(quoted).collect();
        let (params, results) = (params.join(", "), results.join(", "));
        self.push(&format!("def {name}({params}) -> Tuple[{results}]:"), depth);
        let body = std::mem::take(&mut self.body);
        self.lines(lines, depth + 1);
        let returned: Vec<String> = returns.iter().map(|&v| self.value(v)).collect();
        self.push(&format!("return ({},)", returned.join(", ")), depth + 1);
        let inner = std::mem::replace(&mut self.body, body);
        let own = |name: &&String| self.used.contains(*name) && !self.declared.contains(*name);
        let own: Vec<String> = locals.iter().filter(own).cloned().collect();
        for some in own.chunks(6) {
            let names: Vec<&str> = some.iter().map(String::as_str).collect();
            self.push(&declaration(&names), depth + 1);
        }
        self.declared.extend(own);
        self.body += &inner;
    }

    fn push(&mut self, text: &str, depth: usize) {
        let _ = writeln!(self.body, "{}{text}", "    ".repeat(depth));
    }

    /// The name of what a line or the signature binds.
    fn named(&mut self, v: V) -> String {
        if let Some(name) = self.names.get(&v) {
            return name.clone();
        }
        let wanted = self.builder.info(v).hint.clone();
        let name = match wanted {
            Some(wanted) => self.builder.names.fresh(&wanted),
            None => self.builder.names.numbered("lv"),
        };
        self.names.insert(v, name.clone());
        name
    }

    fn value(&mut self, v: V) -> String {
        match self.builder.info(v).content.clone() {
            Content::Computed | Content::Input(_) => self.named(v),
            Content::Constant(tensor) if tensor.len() > INLINE => {
                self.external(v, Weight::Computed(tensor))
            }
            Content::Stored(stored) => self.external(v, Weight::Stored(stored)),
            Content::Constant(tensor) => constant(&tensor),
            Content::Dims(dims) => self.integers(v, &dims),
            Content::Nothing => "()".to_owned(),
            Content::Sequence(items) => {
                let items: Vec<String> = items.iter().map(|&item| self.value(item)).collect();
                match items.as_slice() {
                    [one] => format!("({one},)"),
                    many => format!("({})", many.join(", ")),
                }
            }
        }
    }

    fn external(&mut self, v: V, weight: Weight) -> String {
        if let Some(name) = self.names.get(&v) {
            return name.clone();
        }
        let name = self.named(v);
        let wanted = self.builder.info(v).hint.clone().unwrap_or_else(|| name.clone());
        let mut stored = wanted.clone();
        while !self.stored.insert(stored.clone()) {
            stored.push('_');
        }
        let annotation = self.builder.annotation(v);
        self.header.push(format!("{name} = param({stored:?}, {annotation})"));
        self.externals.push((stored, weight));
        name
    }

    /// Integers over dims as a tensor.
    fn integers(&mut self, v: V, dims: &[Dim]) -> String {
        let (rank, dtype) = (self.builder.rank(v), self.builder.dtype(v));
        dims.iter().for_each(|dim| self.used_in(dim));
        let positive = dims.iter().all(|dim| self.builder.at_least(dim, 0));
        if rank == 1 && positive && dtype == relax_syntax::dtype::DType::I64 {
            return format!("shape_to_tensor({})", shape(dims));
        }
        let scalars: Vec<String> =
            dims.iter().map(|dim| format!("full(shape(), {dim}, \"{dtype}\")")).collect();
        match rank {
            0 => scalars.join(", "),
            1 => format!("stack([{}])", scalars.join(", ")),
            _ => {
                let dims = self.builder.dims(v);
                format!("reshape(stack([{}]), {})", scalars.join(", "), shape(&dims))
            }
        }
    }

    fn used_in(&mut self, dim: &Dim) {
        dim.visit_vars(&mut |name| _ = self.used.insert(name.to_string()));
    }

    fn argument(&mut self, arg: &Arg) -> String {
        match arg {
            Arg::V(v) => self.value(*v),
            Arg::Many(vs) => {
                let items: Vec<String> = vs.iter().map(|&v| self.value(v)).collect();
                format!("[{}]", items.join(", "))
            }
            Arg::Scalar(dtype, number) => constant(&Tensor::scalar(*dtype, *number)),
            Arg::Dim(dim) => {
                self.used_in(dim);
                dim.to_string()
            }
            Arg::Dims(dims) => {
                dims.iter().for_each(|dim| self.used_in(dim));
                format!("[{}]", listed(dims))
            }
            Arg::Shape(dims) => {
                dims.iter().for_each(|dim| self.used_in(dim));
                shape(dims)
            }
            Arg::Float(value) => format!("{value:?}"),
            Arg::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Arg::Str(text) => format!("{text:?}"),
            Arg::Key(name, arg) => format!("{name}={}", self.argument(arg)),
        }
    }
}

fn listed(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}

fn shape(dims: &[Dim]) -> String {
    format!("shape({})", listed(dims))
}

/// Whether a line can stand in a dataflow block.
fn is_plain(line: &Line) -> bool {
    !matches!(
        line,
        Line::If { .. } | Line::Define { .. } | Line::Apply { .. } | Line::Assert { .. }
    )
}

fn declaration(names: &[&str]) -> String {
    format!("{} = {}", names.join(", "), vec!["sym_var()"; names.len()].join(", "))
}

/// A declaration with what is known of the variable.
fn bounded_line(name: &str, bound: &Bound) -> String {
    let facts = [("lower_bound", bound.lower), ("upper_bound", bound.upper)];
    let facts = facts.iter().filter_map(|(key, value)| Some(format!("{key}={}", (*value)?)));
    format!("{name} = sym_var({})", facts.collect::<Vec<_>>().join(", "))
}

/// An annotation as it stands in a signature: symbolic dims in quotes.
fn quoted(annotation: &Annotation) -> String {
    if let Annotation::Tuple(fields) = annotation {
        return format!("Tuple[{}]", fields.iter().map(quoted).collect::<Vec<_>>().join(", "));
    }
    let quotes = |dims: &[Dim]| -> Vec<String> {
        let shown = |dim: &Dim| match dim.as_int() {
            Some(extent) => extent.to_string(),
            None => format!("\"{dim}\""),
        };
        dims.iter().map(shown).collect()
    };
    if let Annotation::Shape(Extents::Known(dims)) = annotation {
        return format!("Shape([{}])", quotes(dims).join(", "));
    }
    let Some(tensor) = annotation.as_tensor() else { return annotation.to_string() };
    let (Some(dims), Some(dtype)) = (tensor.extents.dims(), tensor.dtype) else {
        return annotation.to_string();
    };
    let shown = quotes(dims);
    let comma = if shown.len() == 1 { "," } else { "" };
    format!("Tensor(({}{comma}), \"{dtype}\")", shown.join(", "))
}

/// A tensor written out.
fn constant(tensor: &Tensor) -> String {
    let dtype = tensor.dtype();
    if tensor.is_empty() && tensor.rank() > 1 {
        let extents: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
        return format!("zeros(shape({}), \"{dtype}\")", extents.join(", "));
    }
    let mut text = String::from("const(");
    let mut position = 0;
    nested(tensor, tensor.shape(), &mut position, &mut text);
    let _ = write!(text, ", \"{dtype}\")");
    text
}

fn nested(tensor: &Tensor, shape: &[usize], position: &mut usize, text: &mut String) {
    let Some((&extent, inner)) = shape.split_first() else {
        text.push_str(&show_number(tensor.dtype(), tensor.number(*position)));
        *position += 1;
        return;
    };
    text.push('[');
    for index in 0..extent {
        if index > 0 {
            text.push_str(", ");
        }
        nested(tensor, inner, position, text);
    }
    text.push(']');
}
