//! Terms of a product that are a function of four bits of a word, as weights of 4 bits are: the 16 values of the function are a
//! table. Where one vector register holds it, a weight takes a shift and a permutation; shifting, masking, subtracting and
//! converting are four operations.

use crate::printer::Printer;
use crate::weighing::TERMS;
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr};
use relax_tir::products::mentions;
use relax_tir::quantized::nibble_of_word;

/// Bits of each of the [`TERMS`] parts of a word.
const BITS: i64 = 4;

/// Words of a column whose terms are added before the sum is scaled; what scales it stays for the terms of all of them.
pub(crate) const WORDS_AT_ONCE: i64 = 4;

/// A term as a function of its part of a word.
pub(crate) struct Nibbles {
    /// The element with the word, which is read by the number of the term over [`TERMS`] in one index.
    pub(crate) word: TExpr,
    /// What C calls the table, and the part of a word that an entry is for.
    table: String,
    entry: String,
    /// The value of a term, of `entry`.
    value: String,
}

impl Nibbles {
    pub(crate) fn table(&self) -> &str {
        &self.table
    }
}

impl Printer<'_, '_> {
    /// The function of four bits that a term is; `None` where it depends on the term or the column in another way.
    pub(crate) fn nibbles(
        &mut self,
        each: &TExpr,
        (column, term): (ScalarId, ScalarId),
    ) -> Option<Nibbles> {
        let (part, word) = part_of_word(each, term)?;
        let TExpr::Load { buffer, indices } = &word else { return None };
        let mut others = indices.iter().filter(|index| !is_number_of_word(index, term));
        let is_word = others.clone().count() + 1 == indices.len();
        if !is_word
            || others.any(|index| mentions(std::slice::from_ref(index), term))
            || self.program.buffer(*buffer).dtype != DType::U32
        {
            return None;
        }
        let rest = expr(each, &mut Without { part: &part }, Place::Value);
        let mut is_fixed = !mentions(std::slice::from_ref(&rest), term);
        is_fixed &= !mentions(std::slice::from_ref(&rest), column);
        visit(&rest, &mut |part| is_fixed &= !matches!(part, TExpr::Load { .. }));
        if !is_fixed {
            return None;
        }
        let [table, entry] = ["table", "entry"].map(|wish| self.names.fresh(wish));
        let held = self.replaced.len();
        self.replaced.push(part, entry.clone());
        let value = self.expr(each, DType::F32);
        self.replaced.truncate(held);
        Some(Nibbles { word, table, entry, value })
    }

    /// Prints the table of a function.
    pub(crate) fn fill_table(&mut self, nibbles: &Nibbles) {
        let Nibbles { table, entry, value, .. } = nibbles;
        let entries = 1 << BITS;
        self.line(&format!("_Alignas(64) float {table}[{entries}];"));
        let all = format!("for (uint32_t {entry} = 0; {entry} < {entries}; {entry}++)");
        self.line(&format!("{all} {table}[{entry}] = {value};"));
    }

    /// An element, as C reads it.
    pub(crate) fn read_element(&mut self, load: &TExpr) -> Option<String> {
        let TExpr::Load { buffer, indices } = load else { return None };
        let values = self.indices(indices);
        let at = self.element(*buffer, indices, values);
        Some(format!("{}[{at}]", self.buffers[buffer]))
    }
}

/// The first part of an expression that is four bits of a word, and that word.
fn part_of_word(each: &TExpr, term: ScalarId) -> Option<(TExpr, TExpr)> {
    let mut found = None;
    visit(each, &mut |part| {
        if found.is_none() {
            found = nibble_of_word(part, term).map(|word| (part.clone(), word.clone()));
        }
    });
    found
}

/// Whether an index is the number of a term's word.
fn is_number_of_word(index: &TExpr, term: ScalarId) -> bool {
    let TExpr::Binary(op, both) = index else { return false };
    both.0 == TExpr::Scalar(term)
        && match (op, &both.1) {
            (BinOp::FloorDiv, TExpr::Int(by)) => *by == TERMS,
            (BinOp::ShiftRight, TExpr::Int(bits @ 0..=40)) => 1 << bits == TERMS,
            _ => false,
        }
}

/// Leaves a part of an expression out.
struct Without<'e> {
    part: &'e TExpr,
}

impl Rewrite for Without<'_> {
    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        (part == self.part).then_some(TExpr::Int(0))
    }
}
