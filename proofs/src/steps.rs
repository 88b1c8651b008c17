//! Derivations: lines that add facts to a branch.
//!
//! Each function computes what its line claims from the facts that it names. What is computed counts;
//! what the line says is compared with it.

use crate::known::Known;
use crate::line::Line;
use crate::polynomial::{Algebra, Atom, Poly};
use crate::rules::Rules;
use crate::statement::{Fact, Opened, Sign};
use crate::{Checks, refuse, text};
use num_bigint::{BigInt, Sign as NumberSign};
use std::collections::{BTreeMap, BTreeSet};

/// What the lines of a proof work with.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    /// Arithmetic.
    pub(crate) algebra: Algebra,
    /// The rule file, when the header names it.
    pub(crate) rules: Option<Rules<'a>>,
    /// The names of rules that were used.
    pub(crate) rules_used: BTreeSet<String>,
}

type Derived = Checks<(Poly, Sign)>;
type Derivation<S> = fn(&mut S, &mut Line, &Known) -> Derived;

impl Steps<'_> {
    /// Adds what a derivation gives; false when the line is none.
    pub(crate) fn derive(&mut self, line: &mut Line, known: &mut Known) -> Checks<bool> {
        if line.has("open") {
            return self.open(line, known).map(|()| true);
        }
        let Some(fact) = self.derived(line, known)? else {
            return Ok(false);
        };
        let said = line.string("is")?;
        if text::fact(&said, &mut self.algebra)? != fact {
            return refuse(format!("the line gives `{}`, not `{said}`", self.text(&fact)));
        }
        let id = line.number("id")?;
        line.done()?;
        self.keep(known, id, fact)?;
        Ok(true)
    }

    /// What a derivation gives, whatever it says that it gives; nothing when the line is none.
    pub(crate) fn derived(&mut self, line: &mut Line, known: &Known) -> Checks<Option<Fact>> {
        let kinds: [(&str, Derivation<Self>); 12] = [
            ("lin", Self::lin),
            ("equation", Self::equation),
            ("rewrite", Self::rewrite),
            ("divide", Self::divide),
            ("negate", Self::negate),
            ("apart", Self::apart),
            ("times", Self::times),
            ("square", Self::square),
            ("both", Self::both),
            ("quotient", Self::quotient),
            ("extreme", Self::extreme),
            ("rule", Self::rule),
        ];
        let Some((_, derivation)) = kinds.iter().find(|(key, _)| line.has(key)) else {
            return Ok(None);
        };
        let (poly, sign) = derivation(self, line, known)?;
        Ok(Some(Fact::Number(poly, sign)))
    }

    fn keep(&mut self, known: &mut Known, id: u64, fact: Fact) -> Checks<()> {
        if let Fact::Number(poly, _) = &fact {
            self.algebra.keep(poly)?;
        }
        known.add(id, fact)
    }

    /// Adds facts under the numbers that a line gives them.
    pub(crate) fn add_all(
        &mut self,
        ids: &[u64],
        facts: Vec<Fact>,
        known: &mut Known,
    ) -> Checks<()> {
        if ids.len() != facts.len() {
            return refuse(format!("{} numbers for {} facts", ids.len(), facts.len()));
        }
        ids.iter().zip(facts).try_for_each(|(id, fact)| self.keep(known, *id, fact))
    }

    /// A fact as a message shows it.
    pub(crate) fn text(&self, fact: &Fact) -> String {
        match fact {
            Fact::Number(poly, sign) => format!("{} {} 0", self.algebra.text(poly), sign.symbol()),
            Fact::Stated(..) => "a statement".to_owned(),
        }
    }

    fn open(&mut self, line: &mut Line, known: &mut Known) -> Checks<()> {
        let (f, ids) = (line.number("open")?, line.numbers("id")?);
        line.done()?;
        match self.opened(f, known)? {
            Opened::Facts(facts) => self.add_all(&ids, facts, known),
            Opened::Cases(_) => refuse(format!("the fact {f} opens to cases, not to facts")),
        }
    }

    /// What a fact on a statement opens to.
    pub(crate) fn opened(&mut self, f: u64, known: &Known) -> Checks<Opened> {
        match known.at(f)? {
            Fact::Stated(statement, status) => statement.open(*status, &mut self.algebra),
            Fact::Number(..) => refuse(format!("the fact {f} is no statement")),
        }
    }

    fn integer(&mut self, text: &str) -> Checks<BigInt> {
        let term = text::term(text, &mut self.algebra)?;
        term.as_constant().ok_or_else(|| format!("`{text}` is no integer"))
    }

    /// Sums of what is at least 0, with factors that are, and of what is 0, with any factors.
    fn lin(&mut self, line: &mut Line, known: &Known) -> Derived {
        let plus = if line.has("plus") { line.string("plus")? } else { "0".to_owned() };
        let plus = self.integer(&plus)?;
        if plus.sign() == NumberSign::Minus {
            return refuse("`plus` is negative");
        }
        let mut sum = Poly::constant(plus);
        for (f, factor_text) in line.pairs("lin")? {
            let factor = text::term(&factor_text, &mut self.algebra)?;
            let (poly, sign) = known.number(f)?;
            let negative = factor.as_constant().is_none_or(|c| c.sign() == NumberSign::Minus);
            match sign {
                Sign::Zero => {}
                Sign::AtLeastZero if !negative => {}
                Sign::AtLeastZero => {
                    return refuse(format!(
                        "the factor `{factor_text}` of the fact {f} is no integer from 0 on"
                    ));
                }
                Sign::NotZero => {
                    return refuse(format!("the fact {f} is `!= 0`, which adds nothing"));
                }
            }
            self.algebra.add_product(&mut sum, &factor, poly)?;
        }
        Ok((sum, Sign::AtLeastZero))
    }

    /// Sums of what is 0, with any factors.
    fn equation(&mut self, line: &mut Line, known: &Known) -> Derived {
        let mut sum = Poly::default();
        self.add_zeros(&mut sum, line.pairs("equation")?, known)?;
        Ok((sum, Sign::Zero))
    }

    /// A fact with something added that is 0.
    fn rewrite(&mut self, line: &mut Line, known: &Known) -> Derived {
        let (poly, sign) = known.number(line.number("rewrite")?)?;
        let mut sum = self.algebra.linear(1, poly, 0)?;
        self.add_zeros(&mut sum, line.pairs("with")?, known)?;
        Ok((sum, sign))
    }

    fn add_zeros(
        &mut self,
        sum: &mut Poly,
        pairs: Vec<(u64, String)>,
        known: &Known,
    ) -> Checks<()> {
        for (f, factor) in pairs {
            let factor = text::term(&factor, &mut self.algebra)?;
            self.algebra.add_product(sum, &factor, known.with_sign(f, Sign::Zero)?)?;
        }
        Ok(())
    }

    /// By a common divisor; over the integers the constant of what is at least 0 rounds down.
    fn divide(&mut self, line: &mut Line, known: &Known) -> Derived {
        let (poly, sign) = known.number(line.number("divide")?)?;
        let by = line.string("by")?;
        let divisor = self.integer(&by)?;
        if divisor.sign() != NumberSign::Plus {
            return refuse(format!("`{by}` is not above 0"));
        }
        let divides = |value: BigInt| value % &divisor == BigInt::ZERO;
        let exact = sign == Sign::AtLeastZero || divides(poly.constant_term());
        if !divides(poly.content()) || !exact {
            return refuse(format!("`{by}` does not divide `{}`", self.algebra.text(poly)));
        }
        Ok((poly.divided_by(&divisor), sign))
    }

    /// What is 0 or not, with the other sign.
    fn negate(&mut self, line: &mut Line, known: &Known) -> Derived {
        let f = line.number("negate")?;
        match known.number(f)? {
            (_, Sign::AtLeastZero) => refuse(format!("the fact {f} is `>= 0`, not to be negated")),
            (poly, sign) => Ok((self.algebra.linear(-1, poly, 0)?, sign)),
        }
    }

    /// From `p - 1 >= 0`: `p != 0`.
    fn apart(&mut self, line: &mut Line, known: &Known) -> Derived {
        let poly = known.with_sign(line.number("apart")?, Sign::AtLeastZero)?;
        Ok((self.algebra.linear(1, poly, 1)?, Sign::NotZero))
    }

    /// The product of two that are at least 0.
    fn times(&mut self, line: &mut Line, known: &Known) -> Derived {
        let [f, g] = line.two("times")?;
        let (p, q) =
            (known.with_sign(f, Sign::AtLeastZero)?, known.with_sign(g, Sign::AtLeastZero)?);
        Ok((self.algebra.product(p, q)?, Sign::AtLeastZero))
    }

    /// A square is at least 0.
    fn square(&mut self, line: &mut Line, _known: &Known) -> Derived {
        let poly = text::term(&line.string("square")?, &mut self.algebra)?;
        Ok((self.algebra.product(&poly, &poly)?, Sign::AtLeastZero))
    }

    /// At least 0 and at most 0 is 0.
    fn both(&mut self, line: &mut Line, known: &Known) -> Derived {
        let [f, g] = line.two("both")?;
        let (p, q) =
            (known.with_sign(f, Sign::AtLeastZero)?, known.with_sign(g, Sign::AtLeastZero)?);
        if self.algebra.plus(p, 1, q)? != Poly::default() {
            return refuse(format!("the fact {g} is not the fact {f} with the other sign"));
        }
        Ok((p.clone(), Sign::Zero))
    }

    /// The remainder of a floor division is from 0 on and below the divisor, or from 0 down and
    /// above it. This is all that is known of quotients, and it needs the divisor's sign.
    fn quotient(&mut self, line: &mut Line, known: &Known) -> Derived {
        let text = line.string("quotient")?;
        let poly = text::term(&text, &mut self.algebra)?;
        let atom = self.algebra.as_atom(&poly);
        let Some(Atom::Quotient(a, b)) = atom.as_deref() else {
            return refuse(format!("`{text}` is no quotient `A // B`"));
        };
        let factor = if self.is_positive(b, line, known)? { 1 } else { -1 };
        // With the divisor's sign, 0 <= r <= |B| - 1.
        let remainder = self.algebra.remainder(a, b)?;
        let remainder = self.algebra.linear(factor, &remainder, 0)?;
        match line.string("part")?.as_str() {
            "low" => Ok((remainder, Sign::AtLeastZero)),
            "high" => {
                let greatest = self.algebra.linear(factor, b, -1)?;
                Ok((self.algebra.plus(&greatest, -1, &remainder)?, Sign::AtLeastZero))
            }
            _ => refuse("`part` must be `low` or `high`"),
        }
    }

    /// Whether a divisor is above 0 (else below), by itself or by the fact `sign`.
    fn is_positive(&mut self, b: &Poly, line: &mut Line, known: &Known) -> Checks<bool> {
        match b.as_constant() {
            Some(value) if value != BigInt::ZERO => return Ok(value.sign() == NumberSign::Plus),
            _ => {}
        }
        let f = line.number("sign")?;
        let fact = known.with_sign(f, Sign::AtLeastZero)?;
        let positive = *fact == self.algebra.linear(1, b, -1)?;
        if !positive && *fact != self.algebra.linear(-1, b, -1)? {
            return refuse(format!("the fact {f} is not on the sign of the divisor"));
        }
        Ok(positive)
    }

    /// A least value is at most each argument, a greatest one at least.
    fn extreme(&mut self, line: &mut Line, _known: &Known) -> Derived {
        let (text, index) = (line.string("extreme")?, line.number("argument")?);
        let poly = text::term(&text, &mut self.algebra)?;
        let atom = self.algebra.as_atom(&poly);
        let (operands, sign) = match atom.as_deref() {
            Some(Atom::Least(operands)) => (operands, 1),
            Some(Atom::Greatest(operands)) => (operands, -1),
            _ => return refuse(format!("`{text}` is no `min` or `max`")),
        };
        let Some(operand) = usize::try_from(index).ok().and_then(|index| operands.get(index))
        else {
            return refuse(format!("`{text}` has no argument {index}"));
        };
        let difference = self.algebra.plus(operand, -1, &poly)?;
        Ok((self.algebra.linear(sign, &difference, 0)?, Sign::AtLeastZero))
    }

    /// An instance of a rule whose conditions are known.
    fn rule(&mut self, line: &mut Line, known: &Known) -> Derived {
        let name = line.string("rule")?;
        let mut terms = BTreeMap::new();
        for (variable, term) in line.terms("with")? {
            terms.insert(variable, text::term(&term, &mut self.algebra)?);
        }
        let Some(rules) = &self.rules else {
            return refuse("the header names no rule file");
        };
        let instance = rules.instance(&name, &terms, &mut self.algebra)?;
        let given = line.numbers("conditions")?;
        let (found, needed) = (given.len(), instance.conditions.len());
        if found != needed {
            return refuse(format!("the rule `{name}` has {needed} conditions, found {found}"));
        }
        for (f, condition) in given.into_iter().zip(&instance.conditions) {
            if known.at(f)? != condition {
                let condition = self.text(condition);
                return refuse(format!("the fact {f} is not the condition `{condition}`"));
            }
        }
        self.rules_used.insert(name);
        Ok(instance.difference)
    }
}
