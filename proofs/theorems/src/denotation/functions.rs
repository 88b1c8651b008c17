//! What functions of elements are known to obey, in every domain.
//!
//! Laws of floats as they are hold bit for bit, with both zeros, infinities and NaN (all NaNs are alike):
//! the rules that rest on them are run in the interpreter by the tests. Everything else is a function of
//! which nothing is known.

use super::normal::{Normalizer, What};
use super::poly::{Atom, Poly};
use super::program::float;
use super::ratio::Ratio;
use super::term::{Domain, Known, Term};
use relax_syntax::dtype::{Class, DType};

/// Functions for which the order of operands does not matter.
const COMMUTATIVE: [&str; 13] = [
    "add",
    "multiply",
    "unrounded product",
    "maximum",
    "minimum",
    "equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "log_add_exp",
];

/// Those of them that may be regrouped, and of which an operand counts once.
const SEMILATTICE: [&str; 6] =
    ["maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or"];

/// f(-x) = -f(x)
const ODD: [&str; 10] =
    ["sin", "tan", "tanh", "erf", "sinh", "atan", "asin", "asinh", "trunc", "round"];

/// f(-x) = f(x)
const EVEN: [&str; 3] = ["cos", "cosh", "abs"];

/// To an integer, which stays one.
const ROUNDING: [&str; 4] = ["floor", "ceil", "round", "trunc"];

/// Results that are truth values.
pub(crate) const TRUTHS: [&str; 11] = [
    "less",
    "less_equal",
    "equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "isnan",
    "isinf",
    "isfinite",
    "not_equal",
];

impl Normalizer<'_> {
    /// The normal form of a function of normal forms.
    pub(super) fn function(&mut self, domain: Domain, name: &str, args: Vec<Poly>) -> Known<Poly> {
        self.spend(1)?;
        if let Some(result) = self.by_law(domain, name, &args)? {
            return Ok(result);
        }
        let known = match domain {
            Domain::Ring => self.of_integers(name, &args)?,
            Domain::Real => self.of_reals(name, &args)?,
            Domain::Bits => self.of_bits(name, &args)?,
        };
        match known {
            Some(result) => Ok(result),
            None => self.plain(domain, name, args),
        }
    }

    /// Laws that hold in every domain; then an atom.
    fn plain(&mut self, domain: Domain, name: &str, mut args: Vec<Poly>) -> Known<Poly> {
        match (name, args.as_slice()) {
            ("greater", [a, b]) => {
                return self.function(domain, "less", vec![b.clone(), a.clone()]);
            }
            ("greater_equal", [a, b]) => {
                return self.function(domain, "less_equal", vec![b.clone(), a.clone()]);
            }
            ("not_equal", [_, _]) => {
                let equal = self.function(domain, "equal", args)?;
                return self.function(Domain::Bits, "logical_not", vec![equal]);
            }
            (_, [a]) if ROUNDING.contains(&name) && self.is_call(a, &ROUNDING) => {
                return Ok(a.clone());
            }
            ("abs", [a]) if self.is_call(a, &["abs"]) => return Ok(a.clone()),
            ("logical_not", [a]) => {
                if let Some(Atom::Apply(_, inner, under)) = self.call(a)
                    && inner == "logical_not"
                    && self.is_truth(&under[0])
                {
                    return Ok(under[0].clone());
                }
            }
            (_, [a]) if name.starts_with("astype ") => {
                if let Some(result) = self.cast(domain, name, a)? {
                    return Ok(result);
                }
            }
            _ => {}
        }
        if SEMILATTICE.contains(&name) {
            return self.lattice(domain, name, args);
        }
        if COMMUTATIVE.contains(&name) {
            args.sort();
        }
        Ok(Poly::atom(self.intern(Atom::Apply(domain, name.into(), args))?))
    }

    /// The call that a normal form is.
    pub(super) fn call(&self, poly: &Poly) -> Option<Atom> {
        let atom = &self.atoms[poly.as_atom()?];
        matches!(atom, Atom::Apply(..)).then(|| atom.clone())
    }

    fn is_call(&self, poly: &Poly, names: &[&str]) -> bool {
        matches!(self.call(poly), Some(Atom::Apply(_, name, _)) if names.contains(&name.as_str()))
    }

    /// Whether it is a truth value, and no number that counts as one.
    pub(super) fn is_truth(&self, poly: &Poly) -> bool {
        match poly.as_atom().map(|id| &self.atoms[id]) {
            Some(Atom::Apply(_, name, _)) => TRUTHS.contains(&name.as_str()),
            Some(Atom::Read(name, _)) => self.operands.are_truths(name),
            Some(Atom::Literal(bits)) => {
                [0.0_f64, 1.0].iter().any(|known| known.to_bits() == *bits)
            }
            _ => false,
        }
    }

    /// A function that is associative, commutative and idempotent.
    fn lattice(&mut self, domain: Domain, name: &str, args: Vec<Poly>) -> Known<Poly> {
        let mut flat: Vec<Poly> = Vec::new();
        for arg in args {
            match self.call(&arg) {
                Some(Atom::Apply(_, inner, under)) if inner == name => flat.extend(under),
                _ => flat.push(arg),
            }
        }
        // Of connectives an operand that is a number counts as its truth value: only truth values may
        // stand alone.
        let logical = name.starts_with("logical");
        flat.sort();
        flat.dedup();
        match flat.as_slice() {
            [single] if !logical || self.is_truth(single) => Ok(single.clone()),
            [single] => {
                let twice = vec![single.clone(), single.clone()];
                Ok(Poly::atom(self.intern(Atom::Apply(domain, name.into(), twice))?))
            }
            _ => Ok(Poly::atom(self.intern(Atom::Apply(domain, name.into(), flat))?)),
        }
    }

    /// A cast of a float that is written out and that the dtype holds.
    fn cast_literal(&mut self, name: &str, arg: &Poly) -> Known<Option<Poly>> {
        match (cast_of(name), self.value(arg)) {
            (Some((from, to)), Some(value)) if from.is_float() && to.is_float() => {
                let held = float(value, to) == Term::Number(Domain::Bits, value);
                if held { self.literal(value).map(Some) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    /// Rounding keeps the order, of -0.0 and 0.0 too: the greatest of what is rounded is what the greatest is rounded to.
    fn cast_extremum(&mut self, name: &str, arg: &Poly) -> Known<Option<Poly>> {
        let Some((from, to)) = cast_of(name) else { return Ok(None) };
        let Some(Atom::Apply(Domain::Bits, inner, under)) = self.call(arg) else { return Ok(None) };
        if !(from.is_float() && to.is_float() && ["maximum", "minimum"].contains(&inner.as_str())) {
            return Ok(None);
        }
        let cast = |own: &mut Self, operand| own.function(Domain::Bits, name, vec![operand]);
        let operands = under.into_iter().map(|operand| cast(self, operand));
        let operands = operands.collect::<Known<Vec<_>>>()?;
        self.lattice(Domain::Bits, &inner, operands).map(Some)
    }

    /// A cast of a cast: back from a wider dtype, or on from one. A truth value that is known is a number.
    fn cast(&mut self, domain: Domain, name: &str, arg: &Poly) -> Known<Option<Poly>> {
        if let (Some((DType::Bool, _)), Some(value)) = (cast_of(name), self.value(arg)) {
            return self.number(domain, value).map(Some);
        }
        if domain == Domain::Bits {
            let known = self.cast_literal(name, arg)?;
            if known.is_some() {
                return Ok(known);
            }
            let known = self.cast_extremum(name, arg)?;
            if known.is_some() {
                return Ok(known);
            }
        }
        let Some(Atom::Apply(_, inner, under)) = self.call(arg) else { return Ok(None) };
        let (Some((from, middle)), Some((again, to))) = (cast_of(&inner), cast_of(name)) else {
            return Ok(None);
        };
        if middle != again || !widens(from, middle) {
            return Ok(None);
        }
        if from == to {
            return Ok(Some(under[0].clone()));
        }
        // What the middle dtype holds exactly is cast from there as from where it was, except that an
        // integer wraps where a float is limited.
        if from.is_integer() && middle.is_float() && to.is_integer() {
            return Ok(None);
        }
        let direct = format!("astype {from} {to}");
        self.plain(domain, &direct, vec![under[0].clone()]).map(Some)
    }

    /// Integers wrap: sums and products are those of a ring.
    fn of_integers(&mut self, name: &str, args: &[Poly]) -> Known<Option<Poly>> {
        Ok(Some(match (name, args) {
            ("add", [a, b]) => a.add(b)?,
            ("subtract", [a, b]) => a.subtract(b)?,
            ("multiply", [a, b]) => self.times(a, b)?,
            ("negative", [a]) => a.negated()?,
            ("square", [a]) => self.times(a, a)?,
            ("bitwise_not", [a]) => a.negated()?.subtract(&Poly::number(Ratio::ONE))?,
            ("bitwise_xor", [a, b]) if a == b => Poly::default(),
            (_, [a]) if ROUNDING.contains(&name) => a.clone(),
            ("less_equal", [a, b]) => {
                let less = self.function(Domain::Ring, "less", vec![b.clone(), a.clone()])?;
                self.function(Domain::Bits, "logical_not", vec![less])?
            }
            _ => return Ok(None),
        }))
    }

    /// Floats and truth values as they are.
    fn of_bits(&mut self, name: &str, args: &[Poly]) -> Known<Option<Poly>> {
        Ok(Some(match (name, args) {
            ("negative", [a]) => self.opposite(a)?,
            ("subtract", [a, b]) => {
                let b = self.opposite(b)?;
                self.function(Domain::Bits, "add", vec![a.clone(), b])?
            }
            ("add", [a, b]) => match (self.value(a), self.value(b)) {
                (_, Some(zero)) if is_negative_zero(zero) => a.clone(),
                (Some(zero), _) if is_negative_zero(zero) => b.clone(),
                _ => return Ok(None),
            },
            ("square", [a]) => {
                self.function(Domain::Bits, "multiply", vec![a.clone(), a.clone()])?
            }
            ("multiply" | "unrounded product", [a, b]) => return self.bits_product(name, a, b),
            ("divide", [a, b]) => return self.bits_quotient(a, b),
            ("bitwise_not", [a]) => self.function(Domain::Bits, "logical_not", vec![a.clone()])?,
            ("bitwise_and", _) => self.function(Domain::Bits, "logical_and", args.to_vec())?,
            ("bitwise_or", _) => self.function(Domain::Bits, "logical_or", args.to_vec())?,
            ("bitwise_xor", _) => self.function(Domain::Bits, "logical_xor", args.to_vec())?,
            ("logical_not", [a]) => match self.truth_of(a) {
                Some(value) => self.literal(f64::from(u8::from(!value)))?,
                None => return self.negated_connective(a),
            },
            ("logical_and" | "logical_or", [a, b]) => return self.connective(name, a, b),
            ("floor", [a]) => match self.under(a, "negative") {
                Some(inner) => {
                    let ceil = self.function(Domain::Bits, "ceil", vec![inner])?;
                    self.opposite(&ceil)?
                }
                None => return Ok(None),
            },
            (_, [a]) if ODD.contains(&name) || EVEN.contains(&name) => {
                let Some(inner) = self.under(a, "negative") else { return Ok(None) };
                let result = self.function(Domain::Bits, name, vec![inner])?;
                if ODD.contains(&name) { self.opposite(&result)? } else { result }
            }
            _ => return Ok(None),
        }))
    }

    /// `not (a and b)` is `not a or not b`.
    fn negated_connective(&mut self, a: &Poly) -> Known<Option<Poly>> {
        let Some(Atom::Apply(domain, name, args)) = self.call(a) else { return Ok(None) };
        let other = match name.as_str() {
            "logical_and" => "logical_or",
            "logical_or" => "logical_and",
            _ => return Ok(None),
        };
        if domain != Domain::Bits {
            return Ok(None);
        }
        let mut negated = Vec::new();
        for arg in args {
            negated.push(self.function(Domain::Bits, "logical_not", vec![arg])?);
        }
        self.lattice(Domain::Bits, other, negated).map(Some)
    }

    fn connective(&mut self, name: &str, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        let neutral = name == "logical_and";
        for (one, other) in [(a, b), (b, a)] {
            match self.truth_of(one) {
                Some(value) if value == neutral && self.is_truth(other) => {
                    return Ok(Some(other.clone()));
                }
                Some(value) if value != neutral => {
                    return self.literal(f64::from(u8::from(value))).map(Some);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The float that a normal form is.
    pub(super) fn value(&self, poly: &Poly) -> Option<f64> {
        match &self.atoms[poly.as_atom()?] {
            Atom::Literal(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// The operand of a call of this function.
    fn under(&self, poly: &Poly, function: &str) -> Option<Poly> {
        match self.call(poly) {
            Some(Atom::Apply(_, name, args)) if name == function => args.into_iter().next(),
            _ => None,
        }
    }

    /// `-a`, the sign taken out of products and into greatest and least ones.
    fn opposite(&mut self, a: &Poly) -> Known<Poly> {
        if let Some(inner) = self.under(a, "negative") {
            return Ok(inner);
        }
        if let Some(value) = self.value(a) {
            return self.literal(-value);
        }
        if let Some(Atom::Apply(_, name, args)) = self.call(a)
            && let "maximum" | "minimum" = name.as_str()
        {
            let other = if name == "maximum" { "minimum" } else { "maximum" };
            let opposites = args.iter().map(|arg| self.opposite(arg)).collect::<Known<_>>()?;
            return self.lattice(Domain::Bits, other, opposites);
        }
        let atom = Atom::Apply(Domain::Bits, "negative".into(), vec![a.clone()]);
        Ok(Poly::atom(self.intern(atom)?))
    }

    /// Takes the signs out of two factors: what is left of them, and whether one sign is left.
    fn unsigned(&self, a: &Poly, b: &Poly) -> (Poly, Poly, bool) {
        let strip = |poly: &Poly| match self.under(poly, "negative") {
            Some(inner) => (inner, true),
            None => (poly.clone(), false),
        };
        let ((a, minus_a), (b, minus_b)) = (strip(a), strip(b));
        (a, b, minus_a != minus_b)
    }

    fn bits_product(&mut self, name: &str, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        let (a, b, minus) = self.unsigned(a, b);
        let mut result = None;
        for (one, other) in [(&a, &b), (&b, &a)] {
            result = result.or(match self.value(one) {
                Some(1.0) => Some(other.clone()),
                Some(-1.0) => Some(self.opposite(other)?),
                Some(2.0) if name == "multiply" => {
                    let twice = vec![other.clone(), other.clone()];
                    Some(self.function(Domain::Bits, "add", twice)?)
                }
                _ => None,
            });
        }
        let result = match result {
            Some(result) => result,
            None => self.plain(Domain::Bits, name, vec![a, b])?,
        };
        Ok(Some(if minus { self.opposite(&result)? } else { result }))
    }

    fn bits_quotient(&mut self, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        let (a, b, minus) = self.unsigned(a, b);
        let result = match self.value(&b) {
            // The reciprocal of such a power of two is a number of every float dtype.
            Some(value) if is_power_of_two(value) => {
                let reciprocal = self.literal(1.0 / value)?;
                self.function(Domain::Bits, "multiply", vec![a, reciprocal])?
            }
            _ => self.plain(Domain::Bits, "divide", vec![a, b])?,
        };
        Ok(Some(if minus { self.opposite(&result)? } else { result }))
    }

    /// Notes what must hold for a real number to be there.
    pub(super) fn demand(&mut self, what: What, poly: &Poly) {
        let binders = self.binders.clone();
        self.demands.push(super::normal::Demand { what, binders, poly: poly.clone() });
    }
}

fn is_negative_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}

fn is_power_of_two(value: f64) -> bool {
    let exponent = value.abs().log2();
    value != 0.0 && exponent.trunc() == exponent && exponent.abs() <= 14.0
}

/// The dtypes in `astype f16 f32`.
pub(super) fn cast_of(name: &str) -> Option<(DType, DType)> {
    let (from, to) = name.strip_prefix("astype ")?.split_once(' ')?;
    Some((DType::parse(from)?, DType::parse(to)?))
}

/// Whether a dtype holds every number of another.
pub(super) fn widens(from: DType, to: DType) -> bool {
    let bits = |dtype: DType| dtype.size() * 8;
    let (digits, range) = match to {
        DType::F16 => (11, 5),
        DType::BF16 => (8, 8),
        DType::F32 => (24, 8),
        DType::F64 => (53, 11),
        _ => (0, 0),
    };
    match (from.class(), to.class()) {
        (Class::Bool, _) => true,
        (Class::Signed, Class::Float) => bits(from) - 1 <= digits && bits(from) <= 1 << (range - 1),
        (Class::Unsigned, Class::Float) => bits(from) <= digits && bits(from) < 1 << (range - 1),
        (Class::Float, Class::Float) => {
            to == DType::F64 || (to == DType::F32 && from != DType::F64) || from == to
        }
        (Class::Signed, Class::Signed) | (Class::Unsigned, Class::Unsigned) => {
            bits(from) <= bits(to)
        }
        (Class::Unsigned, Class::Signed) => bits(from) < bits(to),
        _ => false,
    }
}
