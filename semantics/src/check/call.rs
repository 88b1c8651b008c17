//! Deduction through calls: operators, functions of the module, closures.

use super::blame::Passed;
use super::codes;
use super::fit::Misfit;
use super::function::Checker;
use super::signature::Matching;
use crate::ops::{
    Infer, Known, Operand, Operator, Reject, bind, called_by_name, is_deduced_by_name, lookup,
    only_checks,
};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, OWN, Signature};
use relax_syntax::diagnostic::{Diagnostic, Part};
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
                Some(row) => self.operator(row, Passed { args, attrs, skipped: 0 }),
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

    fn refuse_keywords(&mut self, attrs: &[(Name, Atom)]) {
        if let Some((name, _)) = attrs.first() {
            let message =
                format!("arguments of a function are passed by position, not as `{name}=`");
            let found = Diagnostic::error(codes::ARGUMENT, self.span, message);
            let found = found.at(Part::KeywordName(name.clone()));
            self.diagnostics.push(found.with_label("pass it by position"));
        }
    }

    fn operand(&mut self, atom: &Atom) -> Operand {
        let annotation = self.atom(atom);
        Operand { annotation, known: Known::of_atom(atom) }
    }

    fn operator(&mut self, row: &'static Operator, passed: Passed<'_>) -> Annotation {
        let Passed { args, attrs, skipped } = passed;
        if let Some(named) = called_by_name(row, args.first()) {
            let passed = Passed { args: &args[1..], attrs, skipped: skipped + 1 };
            if is_deduced_by_name(row) {
                return self.operator(named, passed);
            }
            if only_checks(row) {
                self.constraints(named, Passed { attrs: &[], ..passed });
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
                    self.bad_arguments(row, &error, passed);
                    return Annotation::Object;
                }
            };
        self.deduced(row, &operands, passed)
    }

    /// The constraints of an operator on annotations that stand for tensors. Registers, of which nothing is known,
    /// are left to run time.
    fn constraints(&mut self, row: &'static Operator, passed: Passed<'_>) {
        let args = passed.args;
        let operands: Vec<_> = args.iter().map(|arg| self.operand(arg)).collect();
        if args.iter().any(|arg| self.has_registers(arg)) {
            return;
        }
        match bind(row, operands, Vec::new(), &|default| Operand::of_known(default.known())) {
            Ok(operands) => {
                _ = self.deduced(row, &Operand::all_described(row, operands), passed);
            }
            Err(error) => self.bad_arguments(row, &error, passed),
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
    fn deduced(
        &mut self,
        row: &'static Operator,
        operands: &[Operand],
        passed: Passed<'_>,
    ) -> Annotation {
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
                self.rejected(row, &reject, passed);
                Annotation::Object
            }
        }
    }

    fn rejected(&mut self, row: &'static Operator, reject: &Reject, passed: Passed<'_>) {
        let said = self.named(row, &reject.message, passed);
        let (code, message) = if reject.constraint == "kind" {
            (codes::OPERAND_KIND, format!("`{}`: {said}", row.short_name()))
        } else {
            (codes::CONSTRAINT, format!("{}/{}: {said}", row.short_name(), reject.constraint))
        };
        let diagnostic = Diagnostic::error(code, self.span, message);
        let mut diagnostic = self.with_arguments(diagnostic, row, reject, passed);
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
            // A tensor program in destination-passing style: its own boundary checks the buffers. Of a function whose
            // header is wrong nothing is known.
            let is_program = self.module.tensor_program(name).is_some();
            return if is_program { Annotation::Tuple(Vec::new()) } else { Annotation::Object };
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
                let found = Diagnostic::error(codes::ARGUMENT, self.span, why);
                let label = format!("this is `{operand}`");
                self.diagnostics.push(found.at(Part::Argument(index)).with_label(label));
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
                let index = equation.index;
                let label = format!("this is `{}`", operands[index]);
                let diagnostic = diagnostic.at(Part::Argument(index)).with_label(label);
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
            let diagnostic =
                diagnostic.at(Part::Value).with_label(format!("here {name} = {value}"));
            self.report_misfit(diagnostic, &misfit);
            return;
        }
        self.leave(format!("call: {value} satisfies what is declared of `{name}`"));
        self.facts.assume(claim);
    }
}
