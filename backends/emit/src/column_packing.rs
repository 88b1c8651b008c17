//! Fused packing where the terms of a column lie side by side, as weights by rows do in `x @ w.T`: a function of the kernel computes
//! columns, each from its first term to its last, and the prelude turns them into panels.
//!
//! Terms that are parts of one word, as eight numbers of 4 bits, are computed together from it, with words side by side in a vector: first
//! all terms whose remainder by [`TERMS`] is 0, then all with remainder 1, and so on. The rows of the other factor are packed in the same
//! order, and sums may be formed in any.

use crate::fused_packing::Filled;
use crate::printer::Printer;
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr};
use relax_tir::products::mentions;

/// Terms of a group: what a word of 32 bits has numbers of 4 bits.
const TERMS: i64 = 8;

impl Printer<'_, '_> {
    /// The function that computes columns, and its frame, and in how many groups it gives terms. `None` where they do not lie so, or
    /// where something may stop it.
    pub(crate) fn filling_columns(&mut self, found: &Filled) -> Option<((String, String), i64)> {
        let ([column], [along]) = (found.columns.as_slice(), found.along.as_slice()) else {
            return None;
        };
        if !lies_along(&found.right, along.var, column.var) {
            return None;
        }
        let aside = self.leave();
        let before = self.lines.len();
        let each = self.expr(&found.right, DType::F32);
        let group = self.terms_of_group(found, along);
        let plain = self.lines.len() == before;
        let (own, term) = (self.scalars[&column.var].clone(), self.scalars[&along.var].clone());
        let [at, lane, word] = ["at", "lane", "word"].map(|wish| self.names.fresh(wish));
        self.line(&format!("for (int64_t {lane} = 0; {lane} < width; {lane}++, to += deep) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {own} = c0 + {lane};"));
        if let Some(values) = &group {
            let block = format!("({TERMS} * RX_WORDS)");
            self.line(&format!("if (k0 % {block} == 0 && deep % {block} == 0) {{"));
            self.line(&format!("    for (int64_t {at} = 0; {at} < deep; {at} += {block})"));
            self.line(&format!("        for (int {word} = 0; {word} < RX_WORDS; {word}++) {{"));
            self.line(&format!(
                "            const int64_t {term} = (k0 + {at}) / {TERMS} + {word};"
            ));
            for (place, value) in values.iter().enumerate() {
                self.line(&format!(
                    "            to[{at} + {place} * RX_WORDS + {word}] = {value};"
                ));
            }
            self.line("        }");
            self.line("    continue;");
            self.line("}");
        }
        self.line(&format!("for (int64_t {at} = 0; {at} < deep; {at}++) {{"));
        self.line(&format!("    const int64_t {term} = k0 + {at};"));
        self.line(&format!("    to[{at}] = {each};"));
        self.line("}");
        self.close();
        let outlined = self.come_back(aside);
        let groups = if group.is_some() { TERMS } else { 1 };
        let is_plain = plain && outlined.is_plain();
        is_plain.then(|| (self.framed(&outlined, &[("float *restrict", "to")]), groups))
    }

    /// The values of a group of terms, where the variable is the number of the group. `None` where no two terms have a word in
    /// common.
    fn terms_of_group(&mut self, found: &Filled, along: &Loop) -> Option<Vec<String>> {
        if !has_parts(&found.right, along.var) {
            return None;
        }
        let number = self.ranges.dim(&TExpr::Scalar(along.var))?;
        let last = Dim::op(DimOp::Mul, number, Dim::Int(TERMS));
        let last = Dim::op(DimOp::Add, last, Dim::Int(TERMS - 1));
        let stop = self.ranges.dim(&along.stop)?;
        let learned = self.learned.clone();
        self.facts.push();
        self.facts.assume(Claim::new(last, Relation::Less, stop));
        let values = (0..TERMS).map(|place| {
            let mut in_group = InGroup { term: along.var, place };
            let value = expr(&found.right, &mut in_group, Place::Value);
            self.expr(&value, DType::F32)
        });
        let values = values.collect();
        self.facts.pop();
        self.learned = learned;
        Some(values)
    }
}

/// Whether what is read lies side by side along the terms, or stays for them, and not along the columns.
fn lies_along(factor: &TExpr, term: ScalarId, column: ScalarId) -> bool {
    let (mut along, mut apart) = (false, true);
    visit(factor, &mut |part| {
        if let TExpr::Load { indices, .. } = part
            && let Some((last, before)) = indices.split_last()
        {
            let last = std::slice::from_ref(last);
            along |= mentions(last, term) && mentions(before, column);
            apart &= !mentions(before, term) && !mentions(last, column);
        }
    });
    along && apart
}

/// Whether a remainder of the term is asked for, as a place in a word.
fn has_parts(factor: &TExpr, term: ScalarId) -> bool {
    let mut found = false;
    visit(factor, &mut |part| {
        if let TExpr::Binary(op, both) = part
            && both.0 == TExpr::Scalar(term)
        {
            found |= place_in_group(*op, &both.1);
        }
    });
    found
}

/// Whether an operation gives the place of a term in its group.
fn place_in_group(op: BinOp, right: &TExpr) -> bool {
    match op {
        BinOp::Mod => *right == TExpr::Int(TERMS),
        BinOp::BitAnd => *right == TExpr::Int(TERMS - 1),
        _ => false,
    }
}

/// Makes an expression one for the term at a place of a group, of whose number the variable then is the name.
struct InGroup {
    term: ScalarId,
    place: i64,
}

impl Rewrite for InGroup {
    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        let number = TExpr::Scalar(self.term);
        if *part == number {
            let first = TExpr::binary(BinOp::Mul, number, TExpr::Int(TERMS));
            return Some(TExpr::binary(BinOp::Add, first, TExpr::Int(self.place)));
        }
        let TExpr::Binary(op, both) = part else { return None };
        if both.0 != number {
            return None;
        }
        match (op, &both.1) {
            (op, right) if place_in_group(*op, right) => Some(TExpr::Int(self.place)),
            (BinOp::FloorDiv, TExpr::Int(by)) if *by > 0 && by % TERMS == 0 => {
                Some(quotient(number, by / TERMS))
            }
            (BinOp::ShiftRight, TExpr::Int(bits @ 3..=40)) => {
                Some(quotient(number, (1 << bits) / TERMS))
            }
            _ => None,
        }
    }
}

fn quotient(number: TExpr, by: i64) -> TExpr {
    if by == 1 { number } else { TExpr::binary(BinOp::FloorDiv, number, TExpr::Int(by)) }
}
