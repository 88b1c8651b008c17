//! Names in scope while a graph function is resolved, and the bindings made so far.

use super::dim::DimTable;
use crate::Name;
use crate::annotation::Annotation;
use crate::ast::{Def, Expr as AstExpr, ExprKind, Identifier, Statement, StatementKind};
use crate::ir::{Atom, Binding, Block, BlockKind, Body, Expr, VarId, VarInfo};
use crate::span::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What the top level defines: for each name, whether it is a tensor program.
pub(super) type Globals = BTreeMap<Name, Global>;

/// What a global name is.
#[derive(Clone, Debug)]
pub(super) enum Global {
    /// A graph function.
    Graph,
    /// A tensor program, with the dtypes of its buffers in order.
    Tensor(Vec<Option<crate::dtype::DType>>),
}

/// The names that one scope binds.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Name, VarId>);

impl Names {
    pub(super) fn get(&self, name: &Name) -> Option<&VarId> {
        self.0.get(name)
    }

    pub(super) fn contains(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    /// Those that `keep` wants, in order of their binding.
    pub(super) fn in_order(&self, vars: &[VarInfo], keep: impl Fn(&Name) -> bool) -> Vec<Name> {
        let mut ids: Vec<VarId> = self.0.values().copied().collect();
        ids.sort_unstable();
        ids.into_iter()
            .map(|id| vars[id.0 as usize].name.clone())
            .filter(|name| keep(name))
            .collect()
    }
}

impl std::ops::Index<&Name> for Names {
    type Output = VarId;

    fn index(&self, name: &Name) -> &VarId {
        self.0.get(name).expect("invariant: asked only for names that the scope binds")
    }
}

/// The tables of a function in the making.
pub(super) struct FunctionScope<'a> {
    pub(super) globals: &'a Globals,
    pub(super) vars: Vec<VarInfo>,
    pub(super) dims: DimTable,
    /// Variables of dataflow blocks without `output(...)`, by index.
    pub(super) open_outputs: BTreeSet<usize>,
    scopes: Vec<Names>,
    /// Undefined names that were reported.
    pub(super) undefined: HashSet<Name>,
    /// Names that are bound somewhere but not seen here, with why.
    hidden: HashMap<Name, &'static str>,
    /// Every name in the text of the function: fresh ones avoid them, and those of the module.
    taken: HashSet<Name>,
    next_fresh: usize,
    /// The fresh names.
    fresh: HashSet<Name>,
}

impl<'a> FunctionScope<'a> {
    pub(super) fn new(def: &Def, globals: &'a Globals) -> Self {
        let mut taken = HashSet::new();
        collect_def(def, &mut taken);
        Self {
            globals,
            vars: Vec::new(),
            dims: DimTable::default(),
            open_outputs: BTreeSet::new(),
            scopes: vec![Names::default()],
            undefined: HashSet::new(),
            hidden: HashMap::new(),
            taken,
            next_fresh: 0,
            fresh: HashSet::new(),
        }
    }

    pub(super) fn enter(&mut self) {
        self.scopes.push(Names::default());
    }

    pub(super) fn leave(&mut self) -> Names {
        self.scopes.pop().expect("invariant: every scope that is left was entered")
    }

    pub(super) fn find(&self, name: &Name) -> Option<VarId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// The names in scope as the text has them, in order.
    pub(super) fn visible(&self) -> BTreeSet<&str> {
        let vars = self.scopes.iter().flat_map(|scope| scope.0.keys());
        // Fresh names are no one's.
        let vars = vars.filter(|name| !self.fresh.contains(*name)).map(Name::as_str);
        vars.chain(self.dims.names()).chain(self.globals.keys().map(Name::as_str)).collect()
    }

    /// Where a name that is about to be bound is bound already.
    pub(super) fn conflict(&self, name: &Name) -> Option<Span> {
        if name == "_" {
            return None;
        }
        let var = self.find(name).map(|id| self.vars[id.0 as usize].span);
        var.or_else(|| self.dims.find(name).map(|dim| dim.span))
    }

    pub(super) fn bind(&mut self, name: &Identifier, annotation: Option<Annotation>) -> VarId {
        let id = self.add(name.name.clone(), annotation, name.span);
        if name.name != "_" {
            self.innermost().0.insert(name.name.clone(), id);
        }
        id
    }

    /// A variable for a call made for its effect.
    pub(super) fn bind_unnamed(&mut self, span: Span) -> VarId {
        self.add("_".into(), None, span)
    }

    /// A variable for an intermediate value, under a name that nothing else has.
    pub(super) fn bind_fresh(&mut self, span: Span) -> VarId {
        let name = self.fresh();
        let id = self.add(name.clone(), None, span);
        self.innermost().0.insert(name, id);
        id
    }

    /// Another variable of the same name: what a branch binds for its `if`.
    pub(super) fn twin(&mut self, id: VarId) -> VarId {
        let VarInfo { name, span, .. } = self.vars[id.0 as usize].clone();
        self.add(name, None, span)
    }

    /// Gives a variable a name that nothing else has.
    pub(super) fn rename(&mut self, id: VarId) {
        self.vars[id.0 as usize].name = self.fresh();
    }

    fn fresh(&mut self) -> Name {
        loop {
            let name = Name::from(format!("lv{}", self.next_fresh));
            self.next_fresh += 1;
            if !self.globals.contains_key(&name) && self.taken.insert(name.clone()) {
                self.fresh.insert(name.clone());
                return name;
            }
        }
    }

    fn add(&mut self, name: Name, annotation: Option<Annotation>, span: Span) -> VarId {
        let id =
            VarId(u32::try_from(self.vars.len()).expect("a file has fewer than 2^32 bindings"));
        self.vars.push(VarInfo { name, annotation, span });
        id
    }

    fn innermost(&mut self) -> &mut Names {
        self.scopes.last_mut().expect("invariant: a function has a scope")
    }

    /// Makes the outputs of a dataflow block (all of its variables when none are listed) visible.
    pub(super) fn after_dataflow(&mut self, inner: Names, outputs: Option<&[VarId]>) {
        let names = inner.in_order(&self.vars, |_| true);
        for name in names {
            let id = inner[&name];
            if outputs.is_none_or(|outputs| outputs.contains(&id)) {
                self.innermost().0.insert(name, id);
            } else {
                self.hidden.insert(name, "is not among the outputs of its dataflow block");
            }
        }
    }

    /// Remembers names that only one branch of an `if` binds.
    pub(super) fn hide(&mut self, then: &Names, otherwise: &Names, both: &[Name]) {
        for names in [then, otherwise] {
            for name in names.in_order(&self.vars, |name| !both.contains(name)) {
                self.hidden.insert(name, "is bound in one branch of an `if` only");
            }
        }
    }

    /// Why a name is not seen here, if it is bound somewhere.
    pub(super) fn why_hidden(&self, name: &Name) -> Option<&'static str> {
        self.hidden.get(name).copied()
    }
}

/// Every name that a function's text binds or declares.
fn collect_def(def: &Def, taken: &mut HashSet<Name>) {
    taken.insert(def.name.name.clone());
    taken.extend(def.parameters.iter().map(|parameter| parameter.name.name.clone()));
    collect(&def.body, taken);
}

fn collect(statements: &[Statement], taken: &mut HashSet<Name>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Assign { target, .. } => collect_target(target, taken),
            StatementKind::If { then, otherwise, .. } => {
                collect(then, taken);
                collect(otherwise, taken);
            }
            StatementKind::With { body, .. } | StatementKind::For { body, .. } => {
                collect(body, taken)
            }
            StatementKind::Def(def) => collect_def(def, taken),
            _ => {}
        }
    }
}

fn collect_target(target: &AstExpr, taken: &mut HashSet<Name>) {
    match &target.kind {
        ExprKind::Name(name) => {
            taken.insert(name.clone());
        }
        ExprKind::Tuple(items) => items.iter().for_each(|item| collect_target(item, taken)),
        _ => {}
    }
}

/// Blocks in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    blocks: Vec<Block>,
    /// True while the last block may still grow.
    open: bool,
}

impl Builder {
    pub(super) fn push(&mut self, var: VarId, expr: Expr) {
        if !self.open {
            self.blocks.push(Block { kind: BlockKind::Plain, bindings: Vec::new() });
            self.open = true;
        }
        let block = self.blocks.last_mut().expect("invariant: an open block is there");
        block.bindings.push(Binding { var, expr });
    }

    pub(super) fn begin(&mut self, kind: BlockKind) {
        self.blocks.push(Block { kind, bindings: Vec::new() });
        self.open = true;
    }

    /// Closes the block that was begun.
    pub(super) fn end(&mut self) -> &mut Block {
        self.open = false;
        self.blocks.last_mut().expect("invariant: a block was begun")
    }

    pub(super) fn finish(self, result: Atom) -> Body {
        Body { blocks: self.blocks, result }
    }
}
