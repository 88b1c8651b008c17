//! When two atoms are equal, and normal forms under another name of a variable.

use super::normal::Normalizer;
use super::poly::{Atom, Monomial, Poly};
use super::term::{Binder, FoldOp, Known, mentions};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use std::collections::{BTreeMap, BTreeSet};

/// Indices of which every order is tried.
const MOST_PERMUTED: usize = 4;
/// Indices that may run from their end to their begin.
const MOST_MIRRORED: usize = 3;

type Renaming = BTreeMap<Name, Dim>;

impl Normalizer<'_> {
    /// Whether two atoms are equal wherever both have a value.
    pub(super) fn same_atom(&mut self, a: &Atom, b: &Atom) -> Known<bool> {
        match (a, b) {
            (Atom::Read(x, at), Atom::Read(y, other)) => {
                Ok(x == y && at.len() == other.len() && self.same_dims(at, other))
            }
            (Atom::Extent(x), Atom::Extent(y)) => Ok(self.equal_dims(x, y)),
            (Atom::Apply(d, f, xs), Atom::Apply(e, g, ys)) => Ok(d == e && f == g && xs == ys),
            (Atom::Sum(x), Atom::Sum(y)) => Ok(x == y),
            (Atom::Fold(d, f, bx, x), Atom::Fold(e, g, by, y)) if d == e => {
                self.same_fold((f, bx, x), (g, by, y))
            }
            _ => Ok(a == b),
        }
    }

    fn same_dims(&mut self, a: &[Dim], b: &[Dim]) -> bool {
        a.iter().zip(b).all(|(a, b)| self.equal_dims(a, b))
    }

    /// Reductions are equal by extensionality: the same extents, and bodies equal at each index. What
    /// does not depend on the order may run through its indices in another.
    fn same_fold(
        &mut self,
        (f, a, x): (&FoldOp, &[Binder], &Poly),
        (g, b, y): (&FoldOp, &[Binder], &Poly),
    ) -> Known<bool> {
        let ordered = match (f, g) {
            (FoldOp::Row(f, at), FoldOp::Row(g, other)) => {
                if f != g || at.len() != other.len() || !self.same_dims(at, other) {
                    return Ok(false);
                }
                true
            }
            _ if f != g => return Ok(false),
            _ => false,
        };
        self.spend(20)?;
        if a.len() != b.len() {
            let place = matches!(f, FoldOp::Row(_, at) if !at.is_empty());
            return match (a, b) {
                ([single], [_, _]) if !place => self.same_flat((single, x), (b, y), ordered),
                ([_, _], [single]) if !place => self.same_flat((single, y), (a, x), ordered),
                _ => Ok(false),
            };
        }
        let mut orders = if ordered { vec![(0..a.len()).collect()] } else { permutations(a.len()) };
        if !ordered && a.len() > MOST_PERMUTED {
            orders.extend(self.order_of_reads((a, x), (b, y)));
        }
        for order in orders {
            let fits = (0..a.len()).all(|at| self.equal_dims(&a[at].1, &b[order[at]].1));
            if !fits {
                continue;
            }
            let straight: Renaming = (0..a.len())
                .map(|at| (b[order[at]].0.clone(), Dim::Var(a[at].0.clone())))
                .collect();
            if self.same_body(a, x, y, &straight)? {
                return Ok(true);
            }
            // A range that depends on another index is none of the same indices the other way round.
            let is_box = [a, b].iter().all(|binders| is_box(binders));
            if ordered || !is_box || a.len() > 1 && !self.indicates {
                continue;
            }
            for mirrored in 1..1_usize << a.len().min(MOST_MIRRORED) {
                let renaming = (0..a.len()).map(|at| {
                    let (k, n) = &a[at];
                    let last = Dim::op(DimOp::Sub, n.clone(), Dim::Int(1));
                    let place = match mirrored >> at & 1 {
                        0 => Dim::Var(k.clone()),
                        _ => Dim::op(DimOp::Sub, last, Dim::Var(k.clone())),
                    };
                    (b[order[at]].0.clone(), place)
                });
                if self.same_body(a, x, y, &renaming.collect())? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A reduction over one index against one over two: it may be the two in row-major order.
    fn same_flat(
        &mut self,
        ((k, n), x): (&Binder, &Poly),
        (pair, y): (&[Binder], &Poly),
        ordered: bool,
    ) -> Known<bool> {
        let product = Dim::op(DimOp::Mul, pair[0].1.clone(), pair[1].1.clone());
        if !self.equal_dims(n, &product) {
            return Ok(false);
        }
        let orders: &[(usize, usize)] = if ordered { &[(0, 1)] } else { &[(0, 1), (1, 0)] };
        for &(outer, inner) in orders {
            let row = Dim::op(DimOp::Mul, Dim::Var(pair[outer].0.clone()), pair[inner].1.clone());
            let place = Dim::op(DimOp::Add, row, Dim::Var(pair[inner].0.clone()));
            if self.same_body(pair, y, x, &Renaming::from([(k.clone(), place)]))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For each index of one sum that of the other that stands at the same place of an operand, if there is one for each.
    fn order_of_reads(
        &self,
        (a, x): (&[Binder], &Poly),
        (b, y): (&[Binder], &Poly),
    ) -> Option<Vec<usize>> {
        let (own, others) = (self.reads(x), self.reads(y));
        let place = |binders: &[Binder], dim: &Dim| {
            binders.iter().position(|(name, _)| matches!(dim, Dim::Var(var) if var == name))
        };
        let mut order = vec![None; a.len()];
        for (name, at) in &own {
            let Some((_, other)) = others.iter().find(|(other, _)| other == name) else { continue };
            for (dim, other) in at.iter().zip(other) {
                if let (Some(dim), Some(other)) = (place(a, dim), place(b, other)) {
                    order[dim] = Some(other);
                }
            }
        }
        let order: Vec<usize> = order.into_iter().collect::<Option<_>>()?;
        let distinct: BTreeSet<usize> = order.iter().copied().collect();
        (distinct.len() == order.len()).then_some(order)
    }

    /// The elements that are factors of a sum.
    fn reads(&self, poly: &Poly) -> Vec<(Name, Vec<Dim>)> {
        let read = |id: &usize| match &self.atoms[*id] {
            Atom::Read(name, at) => Some((name.clone(), at.clone())),
            _ => None,
        };
        poly.0.keys().flat_map(|monomial| monomial.keys()).filter_map(read).collect()
    }

    fn same_body(
        &mut self,
        binders: &[Binder],
        x: &Poly,
        y: &Poly,
        renaming: &Renaming,
    ) -> Known<bool> {
        let (x, y, renaming) = (x.clone(), y.clone(), renaming.clone());
        self.within(binders, |own| {
            let outer = std::mem::replace(&mut own.keeps, true);
            let quick = own.renamed(&y, &renaming);
            own.keeps = outer;
            if quick? == x {
                return Ok(true);
            }
            let x = own.renamed(&x, &Renaming::new())?;
            let y = own.renamed(&y, &renaming)?;
            own.is_zero(&x.subtract(&y)?)
        })
    }

    /// The normal form with dims for variables.
    pub(super) fn renamed(&mut self, poly: &Poly, renaming: &Renaming) -> Known<Poly> {
        let mut result = Poly::default();
        for (monomial, &coefficient) in &poly.0 {
            let mut product = Poly::number(coefficient);
            for (&id, &power) in monomial {
                let atom = self.renamed_atom(id, renaming)?;
                let factor = self.power(&atom, power)?;
                product = self.times(&product, &factor)?;
            }
            result = result.add(&product)?;
        }
        Ok(result)
    }

    fn renamed_atom(&mut self, id: usize, renaming: &Renaming) -> Known<Poly> {
        self.spend(1)?;
        if self.keeps && !self.atom_depends(id, &renaming.keys().cloned().collect()) {
            return Ok(Poly::atom(id));
        }
        let substitute = |own: &mut Self, dim: &Dim| {
            let other = own.renamed_dim(dim, renaming)?;
            Ok(if own.keeps && other == *dim { other } else { own.facts.simplify(&other) })
        };
        match self.atoms[id].clone() {
            Atom::Read(name, at) => {
                let at = at.iter().map(|dim| substitute(self, dim)).collect::<Known<_>>()?;
                Ok(Poly::atom(self.intern(Atom::Read(name, at))?))
            }
            Atom::Literal(_) | Atom::Scalar(_) => Ok(Poly::atom(id)),
            Atom::Extent(dim) => {
                let dim = substitute(self, &dim)?;
                self.extent(&dim)
            }
            Atom::Apply(domain, name, args) => {
                let args = args.iter().map(|arg| self.renamed(arg, renaming));
                let args = args.collect::<Known<Vec<_>>>()?;
                self.quietly(|own| own.function(domain, &name, args))
            }
            Atom::Fold(domain, op, binders, body) => {
                let op = match op {
                    FoldOp::Row(name, at) => {
                        let at =
                            at.iter().map(|dim| substitute(self, dim)).collect::<Known<_>>()?;
                        FoldOp::Row(name, at)
                    }
                    other => other,
                };
                let mut inner = renaming.clone();
                let mut own: Vec<Binder> = Vec::new();
                for (name, extent) in &binders {
                    let fresh = self.fresh("k");
                    inner.insert(name.clone(), Dim::Var(fresh.clone()));
                    own.push((fresh, substitute(self, extent)?));
                }
                let body = self.within(&own, |this| this.renamed(&body, &inner))?;
                self.folded(domain, op, own, body)
            }
            Atom::Sum(poly) => self.renamed(&poly, renaming),
        }
    }

    /// A dim with dims for variables; a gathered index is another where its elements are.
    fn renamed_dim(&mut self, dim: &Dim, renaming: &Renaming) -> Known<Dim> {
        let mut gathered: Vec<Name> = Vec::new();
        dim.visit_vars(&mut |name| gathered.push(name.clone()));
        let mut all = renaming.clone();
        for name in gathered {
            let Some(poly) = self.gathered.get(&name).cloned() else { continue };
            let names = renaming.keys().cloned().collect();
            if !self.depends(&poly, &names) {
                continue;
            }
            let moved = self.renamed(&poly, renaming)?;
            let known = self.gathered.iter().find(|(_, poly)| **poly == moved);
            let other = match known.map(|(name, _)| name.clone()) {
                Some(name) => name,
                None => {
                    let fresh = self.fresh("@");
                    self.gathered.insert(fresh.clone(), moved);
                    fresh
                }
            };
            all.insert(name, Dim::Var(other));
        }
        Ok(dim.substitute(&all))
    }

    /// Runs without noting demands: they were noted when the atom was made.
    fn quietly<T>(&mut self, run: impl FnOnce(&mut Self) -> Known<T>) -> Known<T> {
        let noted = self.demands.len();
        let result = run(self);
        self.demands.truncate(noted);
        result
    }

    /// Whether a sum is 0, once its denominators are multiplied out.
    pub(super) fn is_zero(&mut self, poly: &Poly) -> Known<bool> {
        let mut poly = poly.clone();
        for _ in 0..4 {
            if poly.is_zero() {
                return Ok(true);
            }
            let Some((id, power)) = self.denominator(&poly) else { return Ok(false) };
            let Atom::Sum(sum) = self.atoms[id].clone() else { return Ok(false) };
            let mut cleared = Poly::default();
            for (monomial, &coefficient) in &poly.0 {
                let mut rest: Monomial = monomial.clone();
                let times = power + rest.remove(&id).unwrap_or(0);
                let factor = self.power(&sum, times)?;
                let term = self.times(&Poly::monomial(rest, coefficient), &factor)?;
                cleared = cleared.add(&term)?;
            }
            poly = cleared;
        }
        Ok(poly.is_zero())
    }

    /// A sum in a denominator, and its highest power there.
    fn denominator(&self, poly: &Poly) -> Option<(usize, i32)> {
        let mut found: Option<(usize, i32)> = None;
        for (&id, &power) in poly.0.keys().flatten() {
            if power < 0 && matches!(self.atoms[id], Atom::Sum(_)) {
                match &mut found {
                    Some((known, highest)) if *known == id => *highest = (*highest).max(-power),
                    Some(_) => {}
                    None => found = Some((id, -power)),
                }
            }
        }
        found
    }
}

/// Every order of a few things.
/// Whether no extent depends on another index.
fn is_box(binders: &[Binder]) -> bool {
    binders.iter().all(|(_, extent)| {
        binders.iter().all(|(index, _)| !mentions(extent, &|name| name == index))
    })
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    if count > MOST_PERMUTED {
        return vec![(0..count).collect()];
    }
    let mut all = Vec::new();
    for shorter in permutations(count - 1) {
        for at in 0..count {
            let mut order = shorter.clone();
            order.insert(at, count - 1);
            all.push(order);
        }
    }
    all
}
