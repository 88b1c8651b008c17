//! Fused packing where the terms of a column lie side by side, as weights by rows do in `x @ w.T`: a function of the kernel computes
//! columns, each from its first term to its last, and the prelude turns them into panels.
//!
//! Terms that are parts of one word, as eight numbers of 4 bits, are computed together from it, with words side by side in a vector: first
//! all terms whose remainder by [`TERMS`] is 0, then all with remainder 1, and so on. The rows of the other factor are packed in the same
//! order, and sums may be formed in any.

use crate::column_groups::{Group, WORDS};
use crate::column_reads::Widened;
use crate::fused_packing::Filled;
use crate::outline::{Aside, Outlined};
use crate::printer::Printer;
use crate::weighing::{RowOfTerms, TERMS, factored_by};
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{ScalarId, TExpr};
use relax_tir::products::mentions;

/// What a block of [`WORDS`] terms is computed from, where no two terms have a word in common.
struct Blocks {
    /// Of each term, but for what all of them are multiplied by.
    value: String,
    /// Elements of f16 that are widened before.
    wide: Vec<(String, String)>,
    common: Option<String>,
}

/// Blocks that a single row is multiplied with at once: a vector of sums for each.
const BLOCKS: i64 = 4;

/// A function over columns that is being printed.
struct Columns {
    aside: Aside,
    /// The value of one term.
    each: String,
    group: Option<Group>,
    blocks: Blocks,
    own: Variables,
    /// Whether nothing may stop it.
    plain: bool,
}

/// What C calls the variables of the functions.
pub(crate) struct Variables {
    pub(crate) column: String,
    pub(crate) term: String,
    pub(crate) lane: String,
    pub(crate) at: String,
    pub(crate) word: String,
    common: String,
    pub(crate) own: String,
    pub(crate) copy: String,
    /// The number of a block of words.
    pub(crate) block: String,
    /// Sums of the weights of the terms of each word.
    pub(crate) totals: String,
    /// Of the terms of each word of a block, by the table of their values.
    pub(crate) looked: String,
}

impl Printer<'_, '_> {
    /// The function that computes columns, and its frame, and in how many groups it gives terms. `None` where they do not lie so, or
    /// where something may stop it.
    pub(crate) fn filling_columns(&mut self, found: &Filled) -> Option<((String, String), i64)> {
        let columns = self.columns(found)?;
        let Variables { term, at, word, .. } = &columns.own;
        self.open_columns(&columns, ", to += deep");
        if let Some(group) = &columns.group {
            self.open_groups(group, &columns.own);
            self.open_words(&columns.own);
            for (place, value) in group.values.iter().enumerate() {
                let to = format!("to[{at} + {place} * RX_WORDS + {word}]");
                self.line(&format!("{to} = {};", group.whole(value)));
            }
            self.close();
            self.close();
            self.line("continue;");
            self.close();
        }
        self.line(&format!("for (int64_t {at} = 0; {at} < deep; {at}++) {{"));
        self.line(&format!("    const int64_t {term} = k0 + {at};"));
        self.line(&format!("    to[{at}] = {};", columns.each));
        self.line("}");
        self.close();
        let groups = if columns.group.is_some() { TERMS } else { 1 };
        let outlined = self.end_columns(columns)?;
        Some((self.framed(&outlined, &[("float *restrict", "to")]), groups))
    }

    /// The function for a product of a single row, which is given terms in the order in which [`Self::filling_columns`] gives those
    /// of a column, and its frame: no column is in memory.
    pub(crate) fn weighing_columns(&mut self, found: &Filled) -> Option<(String, String)> {
        let columns = self.columns(found)?;
        let row = self.row_of_terms();
        let RowOfTerms { sum, x, step, y } = &row;
        let part = self.names.fresh("part");
        let Variables { term, lane, at, word, .. } = &columns.own;
        if let Some(group) = &columns.group {
            self.total_groups(group, &columns.own, &row);
            self.fill_group_table(group);
        }
        self.open_columns(&columns, "");
        self.line(&format!("float {sum} = 0;"));
        if let Some(group) = &columns.group {
            self.line(&format!("_Alignas(64) float {part}[RX_WORDS] = {{0}};"));
            self.open_groups(group, &columns.own);
            if self.look_up_group(group, &columns.own, &row) {
                // GCC unrolls a loop of two operations before it vectorizes, and then does not.
                self.line("#pragma omp simd");
            }
            self.open_words(&columns.own);
            self.weigh_group(group, &columns.own, (&row, &part));
            self.close();
            self.close();
            let all = format!("for (int {word} = 0; {word} < RX_WORDS; {word}++)");
            self.line(&format!("{all} {sum} += {part}[{word}];"));
            self.line(&format!("{y}[{lane}] += {sum};"));
            self.line("continue;");
            self.close();
        }
        self.line(&format!("int64_t {at} = 0;"));
        if columns.group.is_none() {
            self.weigh_blocks(&columns, &row);
        }
        self.line(&format!("#pragma omp simd reduction(+ : {sum})"));
        self.line(&format!("for (int64_t {word} = {at}; {word} < deep; {word}++) {{"));
        self.line(&format!("    const int64_t {term} = k0 + {word};"));
        self.line(&format!("    {sum} += {x}[{word} * {step}] * {};", columns.each));
        self.line("}");
        self.line(&format!("{y}[{lane}] += {sum};"));
        self.close();
        let outlined = self.end_columns(columns)?;
        Some(self.framed(&outlined, &row.parameters()))
    }

    /// Adds whole blocks of terms, a vector of sums for each of [`BLOCKS`] of them. Terms of a single row lie side by side, as the prelude packs
    /// them.
    fn weigh_blocks(&mut self, columns: &Columns, row: &RowOfTerms) {
        let Columns { blocks, own, .. } = columns;
        let Variables { term, at, word, common, copy, .. } = own;
        let (RowOfTerms { sum, x, .. }, part) = (row, self.names.fresh("part"));
        let all = BLOCKS * WORDS;
        // What all terms of a block are multiplied by stays for multiples of a block only.
        self.line(&format!("if (k0 % {WORDS} == 0) {{"));
        self.indent += 1;
        self.line(&format!("_Alignas(64) float {part}[{all}] = {{0}};"));
        self.line(&format!("for (; {at} + {all} <= deep; {at} += {all}) {{"));
        self.indent += 1;
        for (name, source) in &blocks.wide {
            self.line(&format!("_Alignas(64) float {name}[{all}];"));
            self.line(&format!("{{ const int64_t {term} = k0 + {at};"));
            self.line(&format!("  {source}, {name}, {all}); }}"));
        }
        self.line(&format!("RX_UNROLL({BLOCKS})"));
        self.line(&format!("for (int {word} = 0; {word} < {all}; {word} += {WORDS}) {{"));
        self.indent += 1;
        if let Some(value) = &blocks.common {
            self.line(&format!("float {common};"));
            self.line(&format!("{{ const int64_t {term} = k0 + {at} + {word};"));
            self.line(&format!("  {common} = {value}; }}"));
        }
        let factor = blocks.common.as_ref().map_or_else(String::new, |_| format!(" * {common}"));
        // Else GCC unrolls the loop before it vectorizes, and leaves bytes as they are.
        self.line("#pragma omp simd");
        self.line(&format!("for (int {copy} = 0; {copy} < {WORDS}; {copy}++) {{"));
        self.line(&format!("    const int64_t {term} = k0 + {at} + {word} + {copy};"));
        let (to, weight) =
            (format!("{part}[{word} + {copy}]"), format!("{x}[{at} + {word} + {copy}]"));
        self.line(&format!("    {to} = RX_MADD_F32({weight}, {}{factor}, {to});", blocks.value));
        self.line("}");
        self.close();
        self.close();
        let each = format!("for (int {word} = 0; {word} < {all}; {word}++)");
        self.line(&format!("{each} {sum} += {part}[{word}];"));
        self.close();
    }

    /// Begins a function over columns of which the terms lie side by side, if there is one of each loop and they do.
    fn columns(&mut self, found: &Filled) -> Option<Columns> {
        let ([column], [along]) = (found.columns.as_slice(), found.along.as_slice()) else {
            return None;
        };
        if !lies_along(&found.right, along.var, column.var) {
            return None;
        }
        let aside = self.leave();
        let before = self.lines.len();
        let each = self.expr(&found.right, DType::F32);
        let own = self.column_variables(column.var, along.var);
        let group = self.group_of_terms(&found.right, (column.var, along), &own);
        let blocks = self.blocks_of_terms(&found.right, (column.var, along.var), &own);
        let plain = self.lines.len() == before;
        Some(Columns { aside, each, group, blocks, own, plain })
    }

    /// Opens the loop over columns; `step` is what it does beside counting.
    fn open_columns(&mut self, columns: &Columns, step: &str) {
        let Variables { column, lane, .. } = &columns.own;
        self.line(&format!("for (int64_t {lane} = 0; {lane} < width; {lane}++{step}) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {column} = c0 + {lane};"));
    }

    /// Ends the function; `None` where something may stop it.
    fn end_columns(&mut self, columns: Columns) -> Option<Outlined> {
        let outlined = self.come_back(columns.aside);
        (columns.plain && outlined.is_plain()).then_some(outlined)
    }

    fn column_variables(&mut self, column: ScalarId, term: ScalarId) -> Variables {
        let mut fresh = |wish| self.names.fresh(wish);
        Variables {
            lane: fresh("lane"),
            at: fresh("at"),
            word: fresh("word"),
            common: fresh("common"),
            own: fresh("own"),
            copy: fresh("copy"),
            block: fresh("block"),
            totals: fresh("totals"),
            looked: fresh("looked"),
            column: self.scalars[&column].clone(),
            term: self.scalars[&term].clone(),
        }
    }

    /// What a block of terms is computed from.
    fn blocks_of_terms(
        &mut self,
        factor: &TExpr,
        (column, term): (ScalarId, ScalarId),
        own: &Variables,
    ) -> Blocks {
        let (each, common) = factored_by(factor, term, WORDS);
        let value = self.expr(each, DType::F32);
        // Terms lie side by side here, not columns.
        let sources = self.sources(each, term, column);
        let element = |name: &str| format!("{name}[{} + {}]", own.word, own.copy);
        let Widened { wide, value } =
            self.widened((each, &value), &sources, &[DType::F16, DType::I8], element);
        Blocks { value, wide, common: common.map(|common| self.alone(common, DType::F32)) }
    }

    /// An expression that is computed for one element, not for a vector of them.
    pub(crate) fn alone(&mut self, expr: &TExpr, want: DType) -> String {
        self.is_alone = true;
        let text = self.expr(expr, want);
        self.is_alone = false;
        text
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

#[cfg(test)]
mod tests {
    use super::WORDS;

    #[test]
    fn words_are_as_many_as_in_the_prelude() {
        let define = format!("#define RX_WORDS {WORDS}\n");
        assert!(include_str!("prelude/calls.h").contains(&define));
    }
}
