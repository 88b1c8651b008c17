//! Ends: lines that close a branch, or divide it into cases that cover it.

use crate::known::Known;
use crate::line::Line;
use crate::polynomial::{Atom, Poly};
use crate::statement::{Fact, Opened, Sign};
use crate::steps::Steps;
use crate::{Checks, refuse, text};
use num_bigint::{BigInt, Sign as NumberSign};

/// How a branch ends.
#[derive(Debug)]
pub(crate) enum End {
    /// It cannot be.
    Closed,
    /// Every assignment of it is in one of these.
    Divided(Vec<Vec<Fact>>),
}

impl Steps<'_> {
    /// Ends a branch.
    pub(crate) fn end(&mut self, line: &mut Line, known: &Known) -> Checks<End> {
        let end = if line.has("closed") {
            self.close(line.number("closed")?, known)?
        } else if line.has("split") {
            let poly = text::term(&line.string("split")?, &mut self.algebra)?;
            let below = self.algebra.linear(-1, &poly, -1)?;
            End::Divided(vec![vec![at_least_zero(poly)], vec![at_least_zero(below)]])
        } else if line.has("sides") {
            let poly = known.with_sign(line.number("sides")?, Sign::NotZero)?;
            let above = self.algebra.linear(1, poly, -1)?;
            let below = self.algebra.linear(-1, poly, -1)?;
            End::Divided(vec![vec![at_least_zero(above)], vec![at_least_zero(below)]])
        } else if line.has("choose") {
            self.choose(&line.string("choose")?)?
        } else if line.has("cases") {
            let f = line.number("cases")?;
            match self.opened(f, known)? {
                Opened::Cases(cases) if !cases.is_empty() => End::Divided(cases),
                Opened::Cases(_) => {
                    return refuse(format!("the fact {f} opens to no cases: close it"));
                }
                Opened::Facts(_) => {
                    return refuse(format!("the fact {f} opens to facts, not to cases"));
                }
            }
        } else {
            return refuse("neither a derivation nor the end of a branch");
        };
        line.done()?;
        Ok(end)
    }

    /// A fact that no assignment satisfies.
    fn close(&mut self, f: u64, known: &Known) -> Checks<End> {
        let fact = known.at(f)?;
        let impossible = match fact {
            Fact::Number(poly, sign) => is_impossible(poly, *sign),
            Fact::Stated(..) => {
                matches!(self.opened(f, known)?, Opened::Cases(cases) if cases.is_empty())
            }
        };
        if impossible {
            return Ok(End::Closed);
        }
        refuse(format!("the fact {f}, `{}`, may be", self.text(fact)))
    }

    /// A least or greatest value is one of its arguments.
    fn choose(&mut self, text: &str) -> Checks<End> {
        let poly = text::term(text, &mut self.algebra)?;
        let atom = self.algebra.as_atom(&poly);
        let Some(Atom::Least(operands) | Atom::Greatest(operands)) = atom.as_deref() else {
            return refuse(format!("`{text}` is no `min` or `max`"));
        };
        let mut cases = Vec::new();
        for operand in operands {
            let difference = self.algebra.plus(&poly, -1, operand)?;
            cases.push(vec![Fact::Number(difference, Sign::Zero)]);
        }
        Ok(End::Divided(cases))
    }
}

fn at_least_zero(poly: Poly) -> Fact {
    Fact::Number(poly, Sign::AtLeastZero)
}

/// By its constant, or because no multiple of the common divisor of the rest is the constant.
fn is_impossible(poly: &Poly, sign: Sign) -> bool {
    let constant = poly.as_constant();
    match sign {
        Sign::AtLeastZero => constant.is_some_and(|c| c.sign() == NumberSign::Minus),
        Sign::NotZero => constant.is_some_and(|c| c == BigInt::ZERO),
        Sign::Zero => match constant {
            Some(value) => value != BigInt::ZERO,
            None => poly.constant_term() % poly.content() != BigInt::ZERO,
        },
    }
}
