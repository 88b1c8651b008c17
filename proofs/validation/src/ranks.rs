//! The program that every rank of a mesh runs, against the program of one device.
//!
//! Of each value of the local program it is found which value of one device it stands for, and in which layout: from the layouts of the
//! parameters forward, by what collectives mean, and by a proof for each call that on shards of its operands it gives the shard of its
//! result ([`relax_theorems::placement`]). The local program says nothing of that, so it cannot say it wrong. What is shown holds over
//! the reals, for all dims: if the program of one device does not stop, no rank stops, and results are shards of its results. All
//! ranks take the same branches ([`branches`]), so they call the same collectives in the same order.

mod branches;
mod calls;
mod collectives;
mod stages;
mod world;

use crate::answers::Source;
use crate::derive::Stage;
use crate::obligation::{Kind, Obligation, Outcome};
use relax_semantics::check::{Phase, check};
use relax_semantics::ops::{OfDims, is_of_ranks, lookup, passed, says_layout};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts};
use relax_syntax::ir::{Atom, Binding, Callee, Definition, Expr, Function, Module, VarId};
use relax_theorems::placement::calls::{assume_declared, tensor};
use stages::Workers;
use std::collections::{BTreeMap, BTreeSet};
use world::World;

/// The route of a certificate of a local program: its last stage is what every rank runs of the function before.
pub const RANKS: &str = "ranks";

/// A placement for each axis of the mesh.
type Layout = Vec<Placement>;

/// A value of one device, in a layout.
type Held = (VarId, Layout);

/// What must be shown of a local program.
pub(crate) fn obligations(
    global: &Stage,
    local: &Stage,
    source: &mut dyn Source,
) -> Vec<Obligation> {
    let functions: Vec<&Function> = local.module.functions().collect();
    let [function] = functions[..] else {
        return vec![refused(local, "the module of ranks has not one function")];
    };
    let is_alone = |definition: &Definition| matches!(definition, Definition::Graph(_));
    if !local.module.definitions.iter().all(is_alone) {
        return vec![refused(local, "the module of ranks has tensor programs")];
    }
    match compared(&global.module, &local.module, &function.name, source) {
        Ok(found) => found,
        Err(why) => vec![refused(local, &why)],
    }
}

fn refused(local: &Stage, why: &str) -> Obligation {
    let name = local.module.functions().next().map_or_else(Name::default, |own| own.name.clone());
    obligation(&name, String::new(), RESULT, Outcome::Unproved(why.to_owned()))
}

const RESULT: &str = "the results are those of one device";

fn obligation(function: &Name, place: String, what: &str, outcome: Outcome) -> Obligation {
    Obligation {
        kind: Kind::Rank,
        function: function.clone(),
        place,
        what: what.to_owned(),
        outcome,
    }
}

/// A module with what is deduced of the variables of a function.
struct Side {
    name: Name,
    module: Module,
    annotations: Vec<Annotation>,
    /// Checks that are no constraints of operators, of a variable or of the result, such as those of annotations.
    checks: BTreeMap<Option<VarId>, String>,
    /// All that is left to be checked of variables and of the result, as a claim where it is one.
    left: Vec<(Option<VarId>, Option<Claim>)>,
}

impl Side {
    fn of(module: &Module, name: &Name, facts: &mut dyn Facts) -> Result<Self, String> {
        let checked = check(module, facts, Phase::Surface);
        if !checked.is_ok() {
            let first = checked.diagnostics.first().map_or("", |first| first.message.as_str());
            return Err(format!("a program is not well-formed: {first}"));
        }
        let annotations = checked.annotations.get(name).cloned();
        let annotations = annotations.ok_or_else(|| format!("there is no function `{name}`"))?;
        let left = checked.obligations.iter();
        let own: Vec<_> = left.filter(|left| left.function == *name).collect();
        let others = own.iter().filter(|left| left.claim.is_none());
        let checks = others.map(|left| (left.var, left.text.clone())).collect();
        let left = own.iter().map(|left| (left.var, left.claim.clone())).collect();
        let (name, module) = (name.clone(), checked.module);
        Ok(Self { name, module, annotations, checks, left })
    }

    /// Demands that only constraints of operators are checked of a variable, or of the result: what else is could stop a rank.
    fn has_no_check(&self, var: Option<VarId>) -> Result<(), String> {
        let check = self.checks.get(&var);
        check.map_or(Ok(()), |text| Err(format!("a rank may stop, for it must be that {text}")))
    }

    fn function(&self, name: &Name) -> Result<&Function, String> {
        self.module.function(name).ok_or_else(|| format!("there is no function `{name}`"))
    }

    fn annotation(&self, var: VarId) -> Option<&Annotation> {
        self.annotations.get(var.0 as usize)
    }

    fn name_of(&self, var: VarId) -> Name {
        self.function(&self.name).map_or_else(|_| Name::default(), |own| own.var(var).name.clone())
    }

    /// What the text says of a variable.
    fn declared(&self, var: VarId) -> Option<&Annotation> {
        self.function(&self.name).ok()?.var(var).annotation.as_ref()
    }

    /// Dims and dtype of a tensor.
    fn tensor(&self, var: VarId) -> Option<(Vec<Dim>, DType)> {
        self.annotation(var).and_then(tensor)
    }
}

fn bindings(function: &Function) -> Vec<&Binding> {
    function.lambda.body.iter().flat_map(relax_syntax::ir::Body::bindings).collect()
}

fn compared(
    global: &Module,
    local: &Module,
    name: &Name,
    source: &mut dyn Source,
) -> Result<Vec<Obligation>, String> {
    let one = Side::of(global, name, &mut *source.facts())?;
    let ranks = Side::of(local, name, &mut *source.facts())?;
    let (function, own) = (one.function(name)?, ranks.function(name)?);
    let world = World::of((&one.module, function), (&ranks.module, own))?;
    let mut facts = source.facts();
    assume_declared(function, &mut *facts);
    world.assume(&mut *facts);
    let mut comparison = Comparison {
        one: &one,
        ranks: &ranks,
        roots: BTreeMap::new(),
        global: bindings(function),
        world: &world,
        held: BTreeMap::new(),
        alike: BTreeSet::new(),
        tuples: BTreeMap::new(),
        scalars: BTreeMap::new(),
        stage: Workers::new(),
        facts: &mut *facts,
    };
    comparison.find_roots(0);
    let mut shown = Vec::new();
    let of_params = comparison.params(function, own);
    shown.push(Shown::of(
        String::new(),
        "the parameters are shards of those of one device",
        of_params,
    ));
    for binding in bindings(own) {
        comparison.bound(binding, &mut shown);
    }
    let of_results = ranks.has_no_check(None).and_then(|()| comparison.results(function, own));
    shown.push(Shown::of(String::new(), RESULT, of_results));
    let was_trusted = source.was_trusted();
    let ended = |Shown { place, what, is }: Shown| {
        let outcome = match is {
            Ok(()) if was_trusted => Outcome::Trusted,
            Ok(()) => Outcome::Proved,
            Err(why) => Outcome::Unproved(why),
        };
        obligation(name, place, what, outcome)
    };
    Ok(shown.into_iter().map(ended).collect())
}

/// A part of what must be shown, and whether it is.
struct Shown {
    place: String,
    what: &'static str,
    is: Result<(), String>,
}

impl Shown {
    fn of(place: String, what: &'static str, is: Result<(), String>) -> Self {
        Self { place, what, is }
    }
}

struct Comparison<'a> {
    one: &'a Side,
    ranks: &'a Side,
    /// Of each variable of one device that is another name of a value: the first name.
    roots: BTreeMap<VarId, VarId>,
    global: Vec<&'a Binding>,
    world: &'a World,
    /// What each variable of the local program is, as far as it is known: everything that is said of one is true.
    held: BTreeMap<VarId, Vec<Held>>,
    /// Variables of the local program that are no values of one device, and that every rank has alike, such as a comparison of dims.
    alike: BTreeSet<VarId>,
    /// What each field is of a tuple of the local program that is no tuple of one device.
    tuples: BTreeMap<VarId, Vec<Vec<Held>>>,
    /// What scalars of the local program are that are computed of dims.
    scalars: BTreeMap<VarId, OfDims>,
    /// The workers that are in this branch alone.
    stage: Workers,
    facts: &'a mut dyn Facts,
}

impl Comparison<'_> {
    /// The layouts that a program of one device asks for change no value. These are of its bindings from this one on.
    fn find_roots(&mut self, first: usize) {
        let asks = |name: &Name| lookup(name).filter(|row| says_layout(row));
        for at in first..self.global.len() {
            let binding = self.global[at];
            let of = match &binding.expr {
                Expr::Atom(Atom::Var(of)) => Some(*of),
                Expr::Call { callee: Callee::Operator(name), args, attrs } => asks(name)
                    .and_then(|row| passed(row, args, attrs).ok()?.first().copied().flatten())
                    .and_then(|input| match input {
                        Atom::Var(of) => Some(*of),
                        _ => None,
                    }),
                _ => None,
            };
            if let Some(of) = of {
                self.roots.insert(binding.var, self.root(of));
            }
        }
    }

    fn root(&self, var: VarId) -> VarId {
        self.roots.get(&var).copied().unwrap_or(var)
    }

    fn is_equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.facts.equal(a, b) == Answer::Proved
    }

    /// Whether a tensor is the shard in a layout of one of these dims.
    fn is_shard(
        &mut self,
        whole: &(Vec<Dim>, DType),
        own: &(Vec<Dim>, DType),
        layout: &Layout,
    ) -> bool {
        let wanted = self.world.local(&whole.0, layout);
        whole.1 == own.1
            && wanted.len() == own.0.len()
            && wanted.iter().zip(&own.0).all(|(wanted, own)| self.is_equal(wanted, own))
    }

    fn params(&mut self, function: &Function, own: &Function) -> Result<(), String> {
        let given = &own.lambda.params[1..];
        if given.len() != function.lambda.params.len() {
            return Err("a rank has not the parameters of one device".to_owned());
        }
        for (&param, &local) in function.lambda.params.iter().zip(given) {
            let name = &function.var(param).name;
            let (annotation, here) =
                (function.param_annotation(param), own.param_annotation(local));
            let layout = self.world.layout_of(annotation)?;
            match (tensor(annotation), tensor(here)) {
                (Some(whole), Some(shard)) => {
                    if layout.iter().any(|own| matches!(own, Placement::Partial(_))) {
                        return Err(format!("`{name}` is partial: a caller has it whole"));
                    }
                    if matches!(here, Annotation::DTensor(_))
                        || !self.is_shard(&whole, &shard, &layout)
                    {
                        return Err(format!(
                            "`{name}` is `{here}`, which is no shard of `{annotation}`"
                        ));
                    }
                }
                _ if annotation == here
                    && matches!(here, Annotation::Shape(_) | Annotation::Prim(_)) => {}
                _ => return Err(format!("`{name}` is `{here}`, and `{annotation}` on one device")),
            }
            self.held.insert(local, vec![(param, layout)]);
        }
        Ok(())
    }

    /// Finds what a binding of the local program is.
    fn bound(&mut self, binding: &Binding, shown: &mut Vec<Shown>) {
        self.held.remove(&binding.var);
        let place = format!("`{}`", self.ranks.name_of(binding.var));
        let held = match &binding.expr {
            Expr::If { condition, then, otherwise } => {
                self.branches((binding.var, condition), [then, otherwise], shown)
            }
            Expr::MatchCast(Atom::Var(of), annotation) => {
                self.checked(binding.var, *of, annotation)
            }
            Expr::Atom(Atom::Tuple(items)) => self.tuple(binding.var, items),
            _ => self.ranks.has_no_check(Some(binding.var)).and_then(|()| self.binding(binding)),
        };
        if let Some(scalar) = self.of_dims(binding) {
            self.scalars.insert(binding.var, scalar);
        }
        let what = "it is a value of one device in a layout";
        match held {
            Err(_) if self.is_alike(binding) => {
                self.alike.insert(binding.var);
                shown.push(Shown::of(place, "every rank has the same, and does not stop", Ok(())));
            }
            Err(_) if self.is_of_dims(binding) => {
                shown.push(Shown::of(place, "it is computed of dims, and no rank stops", Ok(())));
            }
            held => shown.push(Shown::of(place, what, held)),
        }
    }

    /// Finds what a binding without branches is.
    fn binding(&mut self, binding: &Binding) -> Result<(), String> {
        let held = match &binding.expr {
            Expr::Atom(Atom::Var(of)) => self.held(*of),
            Expr::Atom(constant @ (Atom::Constant(_) | Atom::External(_))) => {
                self.constant(constant)
            }
            Expr::Get(Atom::Var(of), field) => self.field(*of, *field),
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let row = lookup(name).ok_or_else(|| format!("there is no operator `{name}`"))?;
                if is_of_ranks(row) {
                    self.collective(row, args, attrs)?
                } else {
                    self.call(row, (args, attrs), binding.var)?
                }
            }
            _ => return Err("it is no call of an operator".to_owned()),
        };
        if held.is_empty() {
            return Err("no value of one device is known to be this one".to_owned());
        }
        self.held.insert(binding.var, held);
        Ok(())
    }

    /// The bindings of the same constant.
    fn constant(&self, atom: &Atom) -> Vec<Held> {
        let same = |binding: &&&Binding| matches!(&binding.expr, Expr::Atom(own) if is_same_constant(own, atom));
        let all = self.global.iter().filter(same);
        all.map(|binding| (binding.var, self.world.replicated())).collect()
    }

    fn field(&self, of: VarId, field: usize) -> Vec<Held> {
        if let Some(fields) = self.tuples.get(&of) {
            return fields.get(field).cloned().unwrap_or_default();
        }
        let mut found = Vec::new();
        for (value, layout) in self.held(of) {
            for binding in &self.global {
                if let Expr::Get(Atom::Var(whole), own) = &binding.expr
                    && self.root(*whole) == value
                    && *own == field
                {
                    found.push((binding.var, layout.clone()));
                }
            }
        }
        found
    }

    fn results(&mut self, function: &Function, own: &Function) -> Result<(), String> {
        let result =
            |function: &Function| function.lambda.body.as_ref().map(|body| body.result.clone());
        let (Some(whole), Some(local)) = (result(function), result(own)) else {
            return Err("it is external".to_owned());
        };
        let declared = function.lambda.result.as_ref();
        let pairs: Vec<(Atom, Atom, Option<&Annotation>)> = match (whole, local) {
            (Atom::Tuple(whole), Atom::Tuple(local)) if whole.len() == local.len() => {
                let field = |at: usize| match declared {
                    Some(Annotation::Tuple(fields)) => fields.get(at),
                    _ => None,
                };
                let each = whole.into_iter().zip(local).enumerate();
                each.map(|(at, (whole, local))| (whole, local, field(at))).collect()
            }
            (whole @ Atom::Var(_), local @ Atom::Var(_)) => vec![(whole, local, declared)],
            _ => return Err("the results have other forms".to_owned()),
        };
        for (whole, local, declared) in pairs {
            let (Atom::Var(whole), Atom::Var(local)) = (whole, local) else {
                return Err("a result is no variable".to_owned());
            };
            let annotation = declared.or(self.one.annotation(whole));
            let annotation = annotation.ok_or("a result is not known")?;
            let wanted = (self.root(whole), self.world.layout_of(annotation)?);
            if !self.held(local).contains(&wanted) {
                return Err(format!(
                    "`{}` is not known to be `{}` in its layout",
                    own.var(local).name,
                    function.var(whole).name
                ));
            }
        }
        Ok(())
    }
}

/// Whether two atoms are the same constant, bit for bit.
fn is_same_constant(a: &Atom, b: &Atom) -> bool {
    match (a, b) {
        (Atom::Constant(a), Atom::Constant(b)) => a == b,
        (Atom::External(a), Atom::External(b)) => a == b,
        _ => false,
    }
}
