//! The real numbers: a field, with exponentials, logarithms and roots, and functions defined by them.
//!
//! A quotient, a root or a logarithm has a value only where its operand allows; each notes that as a
//! demand. Both sides of a rule must demand the same, so that none has a value where the other has none.

use super::normal::{Demand, Normalizer, What};
use super::poly::{Atom, AtomId, Monomial, Poly, joined};
use super::ratio::Ratio;
use super::term::{Domain, FoldOp, Known, unknown};
use crate::denotation::names::{ABS, MAXIMUM};
use relax_syntax::facts::{Claim, Relation};

/// What is known of the sign of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Any,
    NotNegative,
    Positive,
}

impl Normalizer<'_> {
    pub(super) fn of_reals(&mut self, name: &str, args: &[Poly]) -> Known<Option<Poly>> {
        Ok(Some(match (name, args) {
            ("add", [a, b]) => a.add(b)?,
            ("subtract", [a, b]) => a.subtract(b)?,
            ("multiply", [a, b]) => self.times(a, b)?,
            ("negative", [a]) => a.negated()?,
            ("square", [a]) => self.times(a, a)?,
            ("divide", [a, b]) => {
                self.demand(What::NonZero, b);
                let inverse = self.inverse(b)?;
                self.times(a, &inverse)?
            }
            ("exp", [a]) => self.exp(a)?,
            ("log", [a]) => self.log(a)?,
            ("sqrt", [a]) => self.root(a)?,
            ("rsqrt", [a]) => {
                self.demand(What::NonZero, a);
                let root = self.root(a)?;
                self.inverse(&root)?
            }
            ("power", [a, b]) => match b.as_number().and_then(Ratio::as_int) {
                Some(power @ 1..=8) => self.power(a, power as i32)?,
                _ => return Ok(None),
            },
            ("minimum", [a, b]) => {
                let (a, b) = (a.negated()?, b.negated()?);
                self.function(Domain::Real, "maximum", vec![a, b])?.negated()?
            }
            (ABS, [a]) if is_led_by_minus(a) => {
                let opposite = a.negated()?;
                self.function(Domain::Real, "abs", vec![opposite])?
            }
            (ABS, [a]) if self.sign(a) != Sign::Any => a.clone(),
            ("maximum", [a, b]) => return self.greater(a, b),
            _ => return self.defined(name, args),
        }))
    }

    /// Functions that are defined by others.
    fn defined(&mut self, name: &str, args: &[Poly]) -> Known<Option<Poly>> {
        let one = Poly::number(Ratio::ONE);
        let [x] = args else { return Ok(None) };
        Ok(Some(match name {
            // 1 / (1 + exp(-x)); what is divided by is above 1.
            "sigmoid" => {
                let power = self.exp(&x.negated()?)?;
                self.inverse(&power.add(&one)?)?
            }
            "tanh" => {
                let double = x.add(x)?;
                let power = self.exp(&double)?;
                let below = self.inverse(&power.add(&one)?)?;
                self.times(&power.subtract(&one)?, &below)?
            }
            "sinh" | "cosh" => {
                let (up, down) = (self.exp(x)?, self.exp(&x.negated()?)?);
                let both = if name == "sinh" { up.subtract(&down)? } else { up.add(&down)? };
                both.scaled(Ratio::of(1, 2).unwrap_or(Ratio::ONE))?
            }
            "silu" => {
                let gate = self.function(Domain::Real, "sigmoid", vec![x.clone()])?;
                self.times(x, &gate)?
            }
            "gelu" => {
                let two = Poly::number(Ratio::int(2));
                let root = self.root(&two)?;
                let root = self.inverse(&root)?;
                let inner = self.times(x, &root)?;
                let error = self.function(Domain::Real, "erf", vec![inner])?;
                let half = Ratio::of(1, 2).unwrap_or(Ratio::ONE);
                self.times(x, &error.add(&one)?)?.scaled(half)?
            }
            "erf" | "sin" | "tan" | "atan" | "asin" | "asinh" if is_led_by_minus(x) => {
                let opposite = x.negated()?;
                self.function(Domain::Real, name, vec![opposite])?.negated()?
            }
            "cos" if is_led_by_minus(x) => {
                let opposite = x.negated()?;
                self.function(Domain::Real, name, vec![opposite])?
            }
            _ => return Ok(None),
        }))
    }

    /// What both operands have in common stands before the greater: `max(a + c, b + c) = max(a, b) + c`. Of two whose distance
    /// is a number one is the greater.
    fn greater(&mut self, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        if let Some(distance) = a.subtract(b)?.as_number() {
            let is_first = distance.is_positive();
            return Ok(Some(if is_first { a.clone() } else { b.clone() }));
        }
        let common: Vec<_> = a.0.iter().filter(|(m, c)| b.0.get(*m) == Some(c)).collect();
        if common.is_empty() {
            return Ok(None);
        }
        let common = Poly(common.into_iter().map(|(m, c)| (m.clone(), *c)).collect());
        let (a, b) = (a.subtract(&common)?, b.subtract(&common)?);
        let rest = self.function(Domain::Real, "maximum", vec![a, b])?;
        rest.add(&common).map(Some)
    }

    /// The product; squares of roots become what is under them, and powers of sums are multiplied out.
    pub(super) fn times(&mut self, a: &Poly, b: &Poly) -> Known<Poly> {
        self.spend(a.0.len() * b.0.len())?;
        let product = a.mul(b)?;
        let special = |own: &Self, id: AtomId, power: i32| match &own.atoms[id] {
            Atom::Apply(Domain::Real, name, _) => name == "sqrt" && power.abs() > 1,
            Atom::Sum(_) => power > 0,
            _ => false,
        };
        let found = product.0.keys().flatten().find(|(id, power)| special(self, **id, **power));
        let Some((&id, _)) = found else { return Ok(product) };
        let mut result = Poly::default();
        for (monomial, &coefficient) in &product.0 {
            let power = monomial.get(&id).copied().unwrap_or(0);
            if !special(self, id, power) {
                result = result.add(&Poly::monomial(monomial.clone(), coefficient))?;
                continue;
            }
            let mut rest = monomial.clone();
            rest.remove(&id);
            let (under, times, left) = match self.atoms[id].clone() {
                Atom::Sum(sum) => (sum, power, 0),
                Atom::Apply(_, _, args) => (args[0].clone(), power / 2, power % 2),
                _ => return unknown("no root and no sum"),
            };
            if left != 0 {
                rest.insert(id, left);
            }
            let factor = self.power(&under, times)?;
            let term = self.times(&Poly::monomial(rest, coefficient), &factor)?;
            result = result.add(&term)?;
        }
        Ok(result)
    }

    pub(super) fn power(&mut self, base: &Poly, power: i32) -> Known<Poly> {
        if power.abs() > 16 {
            return unknown("a high power");
        }
        let base = if power < 0 { self.inverse(base)? } else { base.clone() };
        let mut result = Poly::number(Ratio::ONE);
        for _ in 0..power.abs() {
            result = self.times(&result, &base)?;
        }
        Ok(result)
    }

    /// 1 / a: of a sum, with a number and common factors taken out, an atom with the power -1.
    pub(super) fn inverse(&mut self, a: &Poly) -> Known<Poly> {
        // Whoever divides has noted the demand, which nothing meets.
        if a.is_zero() {
            let atom = Atom::Apply(Domain::Real, "1 / 0".into(), Vec::new());
            return Ok(Poly::atom(self.intern(atom)?));
        }
        let (content, rest) = content(a)?;
        let (monomial, coefficient) = content;
        let Some(number) = coefficient.inverse() else { return unknown("a division by 0") };
        let flipped: Monomial = monomial.iter().map(|(&id, &power)| (id, -power)).collect();
        let mut result = Poly::monomial(flipped, number);
        if rest.as_number() != Some(Ratio::ONE) {
            let id = self.intern(Atom::Sum(rest))?;
            result = result.mul(&Poly::monomial(Monomial::from([(id, -1)]), Ratio::ONE))?;
        }
        // Roots and sums among the flipped factors.
        self.times(&result, &Poly::number(Ratio::ONE))
    }

    /// exp of a sum is the product of powers of exponentials of its terms.
    fn exp(&mut self, a: &Poly) -> Known<Poly> {
        let mut result = Poly::number(Ratio::ONE);
        for (monomial, &coefficient) in &a.0 {
            let whole = coefficient.as_int().and_then(|value| i32::try_from(value).ok());
            let (power, unit) = match whole {
                Some(power) if power.abs() <= 16 && !monomial.is_empty() => (power, Ratio::ONE),
                _ if coefficient.is_positive() => (1, coefficient),
                _ => (-1, coefficient.mul(Ratio::int(-1)).unwrap_or(coefficient)),
            };
            let inner = Poly::monomial(monomial.clone(), unit);
            // The exponential of a logarithm; the logarithm has noted that its operand is positive.
            let factor = match inner.as_atom().map(|id| self.atoms[id].clone()) {
                Some(Atom::Apply(Domain::Real, name, args)) if name == "log" => args[0].clone(),
                _ => {
                    let atom = Atom::Apply(Domain::Real, "exp".into(), vec![inner]);
                    Poly::atom(self.intern(atom)?)
                }
            };
            let factor = self.power(&factor, power)?;
            result = self.times(&result, &factor)?;
        }
        Ok(result)
    }

    /// log of a product of positive numbers is the sum of their logarithms.
    fn log(&mut self, a: &Poly) -> Known<Poly> {
        // A power of a root is positive where what is under it is: the root is demanded to be there.
        if let Some((monomial, Ratio::ONE)) = a.as_monomial()
            && let Some((&id, &power)) = monomial.first_key_value()
            && monomial.len() == 1
            && let Atom::Apply(Domain::Real, name, args) = self.atoms[id].clone()
            && name == "sqrt"
        {
            let half = Ratio::of(i128::from(power), 2).unwrap_or(Ratio::ONE);
            return self.log(&args[0])?.scaled(half);
        }
        self.demand(What::Positive, a);
        if let Some((monomial, coefficient)) = a.as_monomial()
            && coefficient.is_positive()
            && monomial.keys().all(|&id| self.sign_of(id) == Sign::Positive)
            && (coefficient == Ratio::ONE || !monomial.is_empty())
        {
            let mut result = Poly::default();
            if coefficient != Ratio::ONE {
                result = result.add(&self.log_atom(&Poly::number(coefficient))?)?;
            }
            for (&id, &power) in &monomial.clone() {
                let factor = match self.atoms[id].clone() {
                    Atom::Apply(Domain::Real, name, args) if name == "exp" => args[0].clone(),
                    Atom::Sum(sum) => self.log_atom(&sum)?,
                    _ => self.log_atom(&Poly::atom(id))?,
                };
                result = result.add(&factor.scaled(Ratio::int(i128::from(power)))?)?;
            }
            return Ok(result);
        }
        self.log_atom(a)
    }

    fn log_atom(&mut self, a: &Poly) -> Known<Poly> {
        if a.as_number() == Some(Ratio::ONE) {
            return Ok(Poly::default());
        }
        let atom = Atom::Apply(Domain::Real, "log".into(), vec![a.clone()]);
        Ok(Poly::atom(self.intern(atom)?))
    }

    fn root(&mut self, a: &Poly) -> Known<Poly> {
        self.demand(What::NonNegative, a);
        let atom = Atom::Apply(Domain::Real, "sqrt".into(), vec![a.clone()]);
        Ok(Poly::atom(self.intern(atom)?))
    }

    fn sign_of(&mut self, id: AtomId) -> Sign {
        match self.atoms[id].clone() {
            Atom::Apply(Domain::Real, name, args) => match name.as_str() {
                "exp" => Sign::Positive,
                "sqrt" => self.sign(&args[0]).max(Sign::NotNegative),
                "abs" => Sign::NotNegative,
                MAXIMUM => args.iter().map(|arg| self.sign(arg)).max().unwrap_or(Sign::Any),
                _ => Sign::Any,
            },
            Atom::Extent(dim) => {
                if self.at_least(&dim, 1) {
                    Sign::Positive
                } else if self.at_least(&dim, 0) {
                    Sign::NotNegative
                } else {
                    Sign::Any
                }
            }
            Atom::Fold(Domain::Real, FoldOp::Add, binders, body) => {
                let some = binders.iter().all(|(_, extent)| self.at_least(extent, 1));
                let inner = self.within(&binders, |own| Ok(own.sign(&body)));
                match inner.unwrap_or(Sign::Any) {
                    Sign::Positive if !some => Sign::NotNegative,
                    sign => sign,
                }
            }
            Atom::Sum(poly) => self.sign(&poly),
            _ => Sign::Any,
        }
    }

    pub(super) fn is_positive(&mut self, poly: &Poly) -> bool {
        self.sign(poly) == Sign::Positive
    }

    fn sign(&mut self, poly: &Poly) -> Sign {
        let mut total: Option<Sign> = None;
        for (monomial, coefficient) in &poly.0 {
            let mut own = if coefficient.is_positive() { Sign::Positive } else { Sign::Any };
            for (&id, &power) in monomial {
                let factor = match self.sign_of(id) {
                    Sign::Any if power % 2 == 0 => Sign::NotNegative,
                    sign => sign,
                };
                own = own.min(factor);
            }
            total = Some(match total {
                None => own,
                Some(Sign::Any) => Sign::Any,
                Some(_) if own == Sign::Any => Sign::Any,
                Some(before) => before.max(own),
            });
        }
        total.unwrap_or(Sign::NotNegative)
    }

    /// What is left to demand, each once: products are taken apart, and what always holds is left out.
    pub(super) fn open_demands(&mut self) -> Known<Vec<Demand>> {
        let mut open: Vec<Demand> = Vec::new();
        for demand in std::mem::take(&mut self.demands) {
            let Demand { what, binders, poly } = demand;
            let scope = binders.clone();
            let parts = self.within(&scope, |own| own.opened(what, &poly))?;
            for (what, poly) in parts {
                let names = |own: &Self, name| own.depends(&poly, &std::iter::once(name).collect());
                // A variable that does not occur only says that there are such elements.
                let kept = binders.iter().filter(|(name, extent)| {
                    names(self, name.clone())
                        || self.facts.decide(&Claim::new(1, Relation::AtMost, extent.clone()))
                            != relax_syntax::facts::Answer::Proved
                });
                let binders: Vec<_> = kept.cloned().collect();
                let found = Demand { what, binders, poly };
                let mut known = false;
                for other in open.clone() {
                    known |= self.same_demand(&other, &found)?;
                }
                if !known {
                    open.push(found);
                }
            }
        }
        self.without_weaker(open)
    }

    /// What is positive is neither negative nor 0.
    fn without_weaker(&mut self, demands: Vec<Demand>) -> Known<Vec<Demand>> {
        let positive = demands.iter().filter(|demand| demand.what == What::Positive);
        let positive: Vec<Demand> = positive.cloned().collect();
        let mut kept = Vec::new();
        for demand in demands {
            let mut is_weaker = false;
            for other in positive.iter().filter(|_| demand.what != What::Positive) {
                let alike = Demand { what: demand.what, ..other.clone() };
                is_weaker |= self.same_demand(&alike, &demand)?;
            }
            if !is_weaker {
                kept.push(demand);
            }
        }
        Ok(kept)
    }

    fn opened(&mut self, what: What, poly: &Poly) -> Known<Vec<(What, Poly)>> {
        let sign = self.sign(poly);
        if sign == Sign::Positive || (sign == Sign::NotNegative && what == What::NonNegative) {
            return Ok(Vec::new());
        }
        if what != What::NonZero || poly.is_zero() {
            return Ok(vec![(what, poly.clone())]);
        }
        let ((monomial, _), rest) = content(poly)?;
        let mut parts = Vec::new();
        if rest.as_number() != Some(Ratio::ONE) {
            if rest == *poly || monomial.is_empty() {
                parts.push((what, rest));
            } else {
                parts.extend(self.opened(what, &rest)?);
            }
        }
        for &id in monomial.keys() {
            match self.atoms[id].clone() {
                Atom::Apply(Domain::Real, name, args) if name == "sqrt" => {
                    parts.extend(self.opened(what, &args[0])?);
                }
                Atom::Sum(sum) => parts.extend(self.opened(what, &sum)?),
                _ if self.sign_of(id) == Sign::Positive => {}
                _ => parts.push((what, Poly::atom(id))),
            }
        }
        Ok(parts)
    }

    /// Whether two demands are the same, under some order of their variables.
    pub(super) fn same_demand(&mut self, a: &Demand, b: &Demand) -> Known<bool> {
        if a.what != b.what || a.binders.len() != b.binders.len() {
            return Ok(false);
        }
        if a.binders.is_empty() {
            return self.is_zero(&a.poly.subtract(&b.poly)?);
        }
        let fold = |demand: &Demand| {
            Atom::Fold(Domain::Real, FoldOp::Max, demand.binders.clone(), demand.poly.clone())
        };
        self.same_atom(&fold(a), &fold(b))
    }
}

/// A sum as a number and common factors times the rest, whose last coefficient is 1.
fn content(a: &Poly) -> Known<((Monomial, Ratio), Poly)> {
    let Some((last, &leading)) = a.0.last_key_value() else { return unknown("the content of 0") };
    let mut common: Monomial = last.clone();
    for monomial in a.0.keys() {
        common.retain(|id, power| {
            let own = monomial.get(id).copied().unwrap_or(0);
            let positive = own > 0 && *power > 0;
            let negative = own < 0 && *power < 0;
            *power = if positive { own.min(*power) } else { own.max(*power) };
            positive || negative
        });
    }
    let flipped: Monomial = common.iter().map(|(&id, &power)| (id, -power)).collect();
    let Some(scale) = leading.inverse() else { return unknown("a coefficient of 0") };
    let mut rest = Poly::default();
    for (monomial, &coefficient) in &a.0 {
        let Some(number) = coefficient.mul(scale) else { return unknown("large numbers") };
        rest.0.insert(joined(monomial, &flipped), number);
    }
    Ok(((common, leading), rest))
}

/// Of a number and its opposite one is led by a minus.
fn is_led_by_minus(a: &Poly) -> bool {
    a.0.last_key_value().is_some_and(|(_, coefficient)| !coefficient.is_positive())
}
