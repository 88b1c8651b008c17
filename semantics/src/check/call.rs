//! Deduction through calls: operators, functions of the module, closures.

use super::codes;
use super::fit::Misfit;
use super::function::Checker;
use super::signature::Matching;
use crate::ops::{
    BindError, Infer, Known, Operand, Operator, Reject, all, bind, called_by_name,
    is_deduced_by_name, lookup, only_checks,
};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, OWN, Signature};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Relation};
use relax_syntax::ir::{Atom, Callee, DimVar, VarId};

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        callee: &Callee,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Annotation {
        match callee {
            Callee::Operator(name) => match lookup(name) {
                Some(row) => self.operator(row, args, attrs),
                None => self.unknown_operator(name),
            },
            Callee::Global(name) => self.global_call(name, args, attrs),
            Callee::Var(var) => {
                self.refuse_keywords(attrs);
                let operands: Vec<_> = args.iter().map(|arg| self.atom(arg)).collect();
                self.variable_call(*var, &operands)
            }
        }
    }

    fn variable_call(&mut self, var: VarId, operands: &[Annotation]) -> Annotation {
        match self.annotations[var.0 as usize].clone() {
            Annotation::Callable(Some(signature)) => self.value_call(&signature, operands),
            Annotation::Callable(None) | Annotation::Object => {
                self.leave("call: it is a function, and the arguments fit it".to_owned());
                Annotation::Object
            }
            other => {
                let name = &self.function.var(var).name;
                let message = format!("`{name}` is `{other}`, no function");
                self.error(codes::NOT_CALLABLE, self.span, message);
                Annotation::Object
            }
        }
    }

    /// Whether calls through a variable are held against its signature: it is that of the function
    /// itself, whose boundary does so, or the text declares it, and the interpreter does.
    pub(super) fn is_held(&self, var: VarId) -> bool {
        self.exact.contains(&var)
            || matches!(self.function.var(var).annotation, Some(Annotation::Callable(Some(_))))
    }

    fn unknown_operator(&mut self, name: &Name) -> Annotation {
        let message = format!("there is no operator or function `{name}`");
        let mut diagnostic = Diagnostic::error(codes::UNKNOWN_OPERATOR, self.span, message);
        if let Some(near) = nearest(name) {
            diagnostic = diagnostic.with_help(format!("did you mean `{near}`?"));
        }
        self.diagnostics.push(diagnostic);
        Annotation::Object
    }

    fn refuse_keywords(&mut self, attrs: &[(Name, Atom)]) {
        if let Some((name, _)) = attrs.first() {
            let message =
                format!("arguments of a function are passed by position, not as `{name}=`");
            self.error(codes::ARGUMENT, self.span, message);
        }
    }

    fn operand(&mut self, atom: &Atom) -> Operand {
        let annotation = self.atom(atom);
        Operand { annotation, known: Known::of_atom(atom) }
    }

    fn operator(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Annotation {
        if let Some(named) = called_by_name(row, args.first()) {
            if is_deduced_by_name(row) {
                return self.operator(named, &args[1..], attrs);
            }
            if only_checks(row) {
                self.constraints(named, &args[1..]);
                return Annotation::Tuple(Vec::new());
            }
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).for_each(|atom| {
                self.operand(atom);
            });
            return Annotation::Object;
        }
        let positional = args.iter().map(|arg| self.operand(arg)).collect();
        let keywords =
            attrs.iter().map(|(name, atom)| (name.clone(), self.operand(atom))).collect();
        let operands =
            match bind(row, positional, keywords, &|default| Operand::of_known(default.known())) {
                Ok(operands) => operands,
                Err(error) => {
                    self.bad_arguments(row, &error);
                    return Annotation::Object;
                }
            };
        self.deduced(row, &operands)
    }

    /// The constraints of an operator on annotations that stand for tensors. Registers, of which nothing is known,
    /// are left to run time.
    fn constraints(&mut self, row: &'static Operator, args: &[Atom]) {
        let operands: Vec<_> = args.iter().map(|arg| self.operand(arg).described()).collect();
        if args.iter().any(|arg| self.has_registers(arg)) {
            return;
        }
        match bind(row, operands, Vec::new(), &|default| Operand::of_known(default.known())) {
            Ok(operands) => _ = self.deduced(row, &operands),
            Err(error) => self.bad_arguments(row, &error),
        }
    }

    /// Whether a value is a register, or a list with one: the dims in it are computed when the program runs.
    fn has_registers(&mut self, atom: &Atom) -> bool {
        match atom {
            Atom::Var(_) => {
                matches!(self.operand(atom).annotation, Annotation::Object | Annotation::Prim(_))
            }
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().any(|item| self.has_registers(item))
            }
            _ => false,
        }
    }

    /// The annotation that a row deduces; what it leaves to run time is noted.
    fn deduced(&mut self, row: &'static Operator, operands: &[Operand]) -> Annotation {
        let mut infer = Infer {
            row,
            operands,
            facts: self.facts,
            obligations: Vec::new(),
            module: Some(self.module),
        };
        let result = (row.infer)(&mut infer);
        let obligations = std::mem::take(&mut infer.obligations);
        for obligation in obligations {
            let text = match &obligation.claim {
                Claim { left, relation: Relation::Divides, right } => {
                    format!("{right} % {left} == 0")
                }
                claim => claim.to_string(),
            };
            let text = format!("{}/{}: {text}", row.short_name(), obligation.constraint);
            self.leave_claim(text, Some(obligation.claim));
        }
        match result {
            Ok(annotation) => annotation,
            Err(reject) => {
                self.rejected(row, &reject);
                Annotation::Object
            }
        }
    }

    fn bad_arguments(&mut self, row: &'static Operator, error: &BindError) {
        let params: Vec<_> = row.params.iter().map(|param| param.name).collect();
        let message = format!("`{}`: {error}", row.short_name());
        self.diagnostics.push(
            Diagnostic::error(codes::ARGUMENTS, self.span, message)
                .with_help(format!("its parameters are ({})", params.join(", "))),
        );
    }

    fn rejected(&mut self, row: &'static Operator, reject: &Reject) {
        let (code, message) = if reject.constraint == "kind" {
            (codes::OPERAND_KIND, format!("`{}`: {}", row.short_name(), reject.message))
        } else {
            let id = format!("{}/{}", row.short_name(), reject.constraint);
            (codes::CONSTRAINT, format!("{id}: {}", reject.message))
        };
        let mut diagnostic = Diagnostic::error(code, self.span, message);
        if let Some(constraint) = row.constraints.iter().find(|c| c.id == reject.constraint) {
            diagnostic = diagnostic.with_note(format!("{}: {}", constraint.id, constraint.text));
        }
        if let Some((claim, values)) = &reject.counterexample {
            if let Some(failure) = claim.failure(values) {
                diagnostic = diagnostic.with_note(failure);
            }
            diagnostic = self.with_origins(diagnostic, claim, values);
        }
        self.diagnostics.push(diagnostic);
    }

    fn global_call(&mut self, name: &Name, args: &[Atom], attrs: &[(Name, Atom)]) -> Annotation {
        self.refuse_keywords(attrs);
        let operands: Vec<_> = args.iter().map(|arg| self.atom(arg)).collect();
        let Some(callee) = self.module.function(name) else {
            // A tensor program in destination-passing style: its own boundary checks the buffers.
            return Annotation::Tuple(Vec::new());
        };
        let params: Vec<_> =
            callee.lambda.params.iter().map(|&p| callee.param_annotation(p).clone()).collect();
        let result = self.results.get(name).cloned().unwrap_or(Annotation::Object);
        let matching = self.matched(&params, &operands, &|_| true);
        if let Some(matching) = &matching {
            self.declared_facts(&callee.dims, matching);
        }
        matching.map_or(Annotation::Object, |matching| {
            self.simplified(matching.result(&result, &|name: &Name| !name.starts_with(OWN)))
        })
    }

    fn value_call(&mut self, signature: &Signature, operands: &[Annotation]) -> Annotation {
        let own = |name: &Name| name.starts_with(OWN);
        let matching = self.matched(&signature.params, operands, &own);
        matching.map_or(Annotation::Object, |matching| {
            self.simplified(matching.result(&signature.result, &own))
        })
    }

    fn simplified(&mut self, annotation: Annotation) -> Annotation {
        annotation.map_dims(&mut |dim| self.facts.simplify(dim))
    }

    /// Matches arguments with parameters: what can never fit is an error, what is not decided is
    /// left to the boundary of the callee.
    fn matched(
        &mut self,
        params: &[Annotation],
        operands: &[Annotation],
        binds: &dyn Fn(&Name) -> bool,
    ) -> Option<Matching> {
        if params.len() != operands.len() {
            let message =
                format!("the function takes {} arguments, found {}", params.len(), operands.len());
            self.error(codes::ARGUMENT, self.span, message);
            return None;
        }
        let mut matching = Matching::default();
        for (index, (param, operand)) in params.iter().zip(operands).enumerate() {
            if let Err(why) = matching.argument(index, param, operand, binds) {
                self.error(codes::ARGUMENT, self.span, why);
                return None;
            }
        }
        if matching.open {
            self.leave("call: the arguments fit the parameters".to_owned());
        }
        for equation in &matching.equations {
            let unknown =
                !equation.param.vars_all(&|name| !binds(name) || matching.dims.contains_key(name));
            let param = equation.param.substitute(&matching.dims);
            if unknown {
                continue;
            }
            let same = Claim::new(equation.argument.clone(), Relation::Equal, param.clone());
            let values = match self.facts.equal(&param, &equation.argument) {
                Answer::Proved => continue,
                Answer::Refuted(values) => values,
                Answer::Unknown => Counterexample::new(),
            };
            let differ = Claim::new(param.clone(), Relation::NotEqual, equation.argument.clone());
            if self.facts.decide(&differ) == Answer::Proved {
                let why = format!(
                    "{} must be {} = {param}, found {}",
                    equation.place, equation.param, equation.argument
                );
                let misfit = Misfit { why, claim: Some(same), values };
                let diagnostic = Diagnostic::error(codes::ARGUMENT, self.span, misfit.text());
                self.report_misfit(diagnostic, &misfit);
                return None;
            }
            self.leave(format!("call: {same} ({})", equation.place));
            self.facts.assume(same);
        }
        Some(matching)
    }

    /// What the callee declares of its variables.
    fn declared_facts(&mut self, dims: &[DimVar], matching: &Matching) {
        for dim in dims {
            let Some(value) = matching.dims.get(&dim.name) else { continue };
            let lower = dim.lower.map(|lower| Claim::new(lower, Relation::AtMost, value.clone()));
            let upper = dim.upper.map(|upper| Claim::new(value.clone(), Relation::AtMost, upper));
            let step =
                dim.multiple_of.map(|step| Claim::new(step, Relation::Divides, value.clone()));
            for claim in [lower, upper, step].into_iter().flatten() {
                self.declared_fact(&dim.name, value, claim);
            }
        }
    }

    fn declared_fact(&mut self, name: &Name, value: &Dim, claim: Claim) {
        let values = match self.facts.decide(&claim) {
            Answer::Proved => return,
            Answer::Refuted(values) => values,
            Answer::Unknown => Counterexample::new(),
        };
        if self.facts.decide(&claim.opposite()) == Answer::Proved {
            let breaks = match claim.relation {
                Relation::Divides => format!("no multiple of {}", claim.left),
                _ if claim.right == *value => format!("below {}", claim.left),
                _ => format!("above {}", claim.right),
            };
            let why = format!("{name} = {value} is {breaks}, against the declaration of `{name}`");
            let misfit = Misfit { why, claim: Some(claim), values };
            let diagnostic = Diagnostic::error(codes::ARGUMENT, self.span, misfit.text());
            self.report_misfit(diagnostic, &misfit);
            return;
        }
        self.leave(format!("call: {value} satisfies what is declared of `{name}`"));
        self.facts.assume(claim);
    }
}

/// The operator whose name is nearest, if it is near.
fn nearest(name: &str) -> Option<&'static str> {
    // No operator has such a name, and the distance to one takes time in proportion to it.
    if name.len() > LONGEST_NAME {
        return None;
    }
    let names =
        all().flat_map(|row| [row.short_name()].into_iter().chain(row.aliases.iter().copied()));
    names
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(far, known)| *far <= known.len().max(3) / 3)
        .map(|(_, known)| known)
}

/// Names beyond this length are no misspellings.
const LONGEST_NAME: usize = 64;

/// Edit distance (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
