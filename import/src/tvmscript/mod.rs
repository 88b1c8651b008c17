//! TVMScript, the text that TVM prints for its modules. [`import_tvmscript`] reads the spelling of 0.26 and 0.27
//! (`TypeVar`, `T.sblock`, `out_ty`) and the older one (`T.int64()`, `T.block`, `out_sinfo`);
//! [`export_tvmscript`] writes that of 0.27. Both go from syntax tree to syntax tree: TVMScript is Python, and so is the
//! grammar of the language.

mod around;
mod attributes;
mod blocks;
mod export;
mod export_tensor;
mod graph;
mod prepare;
mod tensor;
mod tree;
mod words;

pub use export::export_tvmscript;

use crate::reason::ImportError;
use relax_syntax::Name;
use relax_syntax::ast::{Def, Expr, ExprKind, File, Statement, StatementKind};
use relax_syntax::format::format_source;
use relax_syntax::parse::parse_file;
use relax_syntax::print::print_file;
use relax_syntax::span::{Source, Span};
use std::collections::BTreeSet;

/// What cannot be said in the other language, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) span: Span,
    pub(crate) why: String,
}

pub(crate) type Turned<T> = Result<T, Refused>;

/// An error at an expression.
pub(crate) fn refuse<T>(span: Span, why: impl Into<String>) -> Turned<T> {
    Err(Refused { span, why: why.into() })
}

/// What a module says for all of its functions.
#[derive(Default)]
pub(crate) struct Module {
    /// Symbolic variables, `n = TypeVar("n")`.
    pub(crate) variables: BTreeSet<Name>,
    /// Names of the module in its own functions.
    pub(crate) own: BTreeSet<Name>,
}

/// The program that a TVMScript module is.
///
/// # Errors
/// All places that are not understood, as `FILE:LINE: why`.
pub fn import_tvmscript(name: &str, text: &str) -> Result<String, ImportError> {
    let source = Source::new(name, prepare::prepare(text));
    let (file, diagnostics) = parse_file(&source);
    let told = |span: Span, why: &str| {
        let (line, _) = source.line_column(span.start);
        format!("{name}:{line}: {why}")
    };
    if !diagnostics.is_empty() {
        let lines = diagnostics.iter().map(|d| told(d.primary.span, &d.message));
        return Err(ImportError::Malformed(lines.collect::<Vec<_>>().join("\n")));
    }
    let (file, refused) = module(&file);
    if !refused.is_empty() {
        let lines = refused.iter().map(|refused| told(refused.span, &refused.why));
        return Err(ImportError::Malformed(lines.collect::<Vec<_>>().join("\n")));
    }
    let text = print_file(&file);
    format_source(&Source::new("imported", text.as_str())).map_err(|diagnostics| {
        let first = diagnostics.first().map_or_else(String::new, |d| d.message.clone());
        ImportError::Malformed(format!("{name}: the program could not be written: {first}"))
    })
}

fn module(file: &File) -> (File, Vec<Refused>) {
    let mut module = Module::default();
    module.own.extend(["cls", "Module"].map(Name::new_static));
    let mut statements = Vec::new();
    let mut refused = Vec::new();
    for statement in &file.statements {
        match top(statement, &mut module) {
            Ok(turned) => statements.extend(turned),
            Err(why) => refused.push(why),
        }
    }
    if statements.is_empty() && refused.is_empty() {
        refused.push(Refused { span: Span::default(), why: "there is no function".to_owned() });
    }
    (File { statements, comments: Vec::new() }, refused)
}

fn top(statement: &Statement, module: &mut Module) -> Turned<Vec<Statement>> {
    match &statement.kind {
        StatementKind::Assign { target, value, .. } if tree::is_call(value, &["TypeVar"]) => {
            if let ExprKind::Name(name) = &target.kind {
                module.variables.insert(name.clone());
            }
            Ok(Vec::new())
        }
        StatementKind::Expr(expr) if tree::is_call(expr, &["I.module_attrs"]) => {
            attributes::attributes(expr, "module_attr")
        }
        StatementKind::Expr(Expr { kind: ExprKind::Str(_), .. }) => Ok(Vec::new()),
        StatementKind::Def(def) => {
            let def = function(def, module)?;
            let kind = StatementKind::Def(Box::new(def));
            Ok(vec![Statement { kind, span: statement.span }])
        }
        _ => refuse(statement.span, "only functions stand in a module"),
    }
}

/// A function of either level, as its decorator says.
fn function(def: &Def, module: &Module) -> Turned<Def> {
    let [decorator] = def.decorators.as_slice() else {
        return refuse(def.header, "a function has one decorator");
    };
    match tree::name_of(decorator).or_else(|| tree::callee(decorator)) {
        Some("R.function") => graph::function(def, decorator, module),
        Some("T.prim_func") => tensor::program(def, decorator, module),
        _ => refuse(decorator.span, "a function is decorated with R.function or T.prim_func"),
    }
}
