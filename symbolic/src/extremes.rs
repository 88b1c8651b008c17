//! Canonical `min` and `max`.

use crate::atoms::Atom;
use crate::context::Context;
use crate::engine::Engine;
use crate::journal::Event;
use crate::polynomial::{Poly, gcd};

/// How many arguments a `min` or `max` may have after flattening.
const MAX_ARGUMENTS: usize = 8;

/// Which end of a set of values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    fn atom(self, args: Vec<Poly>) -> Atom {
        match self {
            Extreme::Least => Atom::Min(args),
            Extreme::Greatest => Atom::Max(args),
        }
    }
}

impl Engine {
    /// The canonical form of the least of `args`.
    pub(crate) fn least(&mut self, context: &Context, args: Vec<Poly>) -> Option<Poly> {
        self.extreme(context, Extreme::Least, args)
    }

    /// The canonical form of the greatest of `args`.
    pub(crate) fn greatest(&mut self, context: &Context, args: Vec<Poly>) -> Option<Poly> {
        self.extreme(context, Extreme::Greatest, args)
    }

    fn extreme(&mut self, context: &Context, which: Extreme, args: Vec<Poly>) -> Option<Poly> {
        let value = self.canonical_extreme(context, which, args.clone())?;
        self.note(|| Event::Value(which.atom(args), value.clone()));
        Some(value)
    }

    fn canonical_extreme(
        &mut self,
        context: &Context,
        which: Extreme,
        args: Vec<Poly>,
    ) -> Option<Poly> {
        let mut flat = Vec::new();
        for arg in args {
            self.flatten(which, arg, &mut flat)?;
        }
        flat.sort();
        flat.dedup();
        self.spend(flat.len() * flat.len() * 2)?;
        let kept = self.undominated(context, which, flat)?;
        let shift = common_summand(&kept)?;
        let mut args = Vec::with_capacity(kept.len());
        for arg in kept {
            args.push(arg.sub(&shift)?);
        }
        if args.len() == 1 {
            return args[0].add(&shift);
        }
        let numbers = args.iter().flat_map(Poly::terms);
        let factor = numbers.fold(0, |acc, (_, coefficient)| gcd(acc, *coefficient)).max(1);
        let mut args: Vec<Poly> = args.iter().map(|arg| arg.exact_quotient(factor)).collect();
        args.sort();
        let atom = self.interned(context, which.atom(args))?;
        shift.add_scaled(&atom, factor)
    }

    /// `min(min(a, b) * k + c, d)` has the arguments `a*k + c`, `b*k + c`, `d`; a negative `k` turns
    /// a `max` into a `min`.
    fn flatten(&mut self, which: Extreme, arg: Poly, flat: &mut Vec<Poly>) -> Option<()> {
        self.spend(1)?;
        let inner = arg.varying().iter().find_map(|(mono, coefficient)| {
            let id = mono.as_atom()?;
            let args = match (self.atoms.at(id), which == Extreme::Least, *coefficient > 0) {
                (Atom::Min(args), true, true) | (Atom::Min(args), false, false) => args,
                (Atom::Max(args), false, true) | (Atom::Max(args), true, false) => args,
                _ => return None,
            };
            Some((Poly::term(*mono, *coefficient), *coefficient, args.clone()))
        });
        if let Some((term, coefficient, args)) = inner {
            let rest = arg.sub(&term)?;
            for arg in args {
                self.flatten(which, rest.add_scaled(&arg, coefficient)?, flat)?;
            }
            return Some(());
        }
        flat.push(arg);
        (flat.len() <= MAX_ARGUMENTS).then_some(())
    }

    /// Drops arguments that another one makes superfluous.
    fn undominated(
        &mut self,
        context: &Context,
        which: Extreme,
        args: Vec<Poly>,
    ) -> Option<Vec<Poly>> {
        let bounds = self.bounds(context);
        let mut kept: Vec<Poly> = Vec::with_capacity(args.len());
        for arg in args {
            let mut dominated = false;
            let mut index = 0;
            while index < kept.len() {
                let difference = bounds.of(&arg.sub(&kept[index])?);
                let (bigger, smaller) = (
                    difference.low.is_some_and(|low| low >= 0),
                    difference.high.is_some_and(|high| high <= 0),
                );
                let (new_loses, old_loses) =
                    if which == Extreme::Least { (bigger, smaller) } else { (smaller, bigger) };
                if new_loses {
                    dominated = true;
                    break;
                }
                if old_loses {
                    kept.remove(index);
                } else {
                    index += 1;
                }
            }
            if !dominated {
                kept.push(arg);
            }
        }
        Some(kept)
    }
}

/// What all arguments have in common: terms with the same coefficient, and the least constant.
fn common_summand(args: &[Poly]) -> Option<Poly> {
    let mut shared = Poly::constant(args.iter().map(Poly::constant_term).min().unwrap_or(0));
    let Some((first, others)) = args.split_first() else {
        return Some(shared);
    };
    for (mono, coefficient) in first.varying() {
        let same = |arg: &Poly| arg.coefficient(mono) == *coefficient;
        if others.iter().all(same) {
            shared = shared.add(&Poly::term(*mono, *coefficient))?;
        }
    }
    Some(shared)
}
