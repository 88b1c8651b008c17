//! Fused packing where the terms of a column lie side by side, as weights by rows do in `x @ w.T`: a function of the kernel computes
//! columns, each from its first term to its last, and the prelude turns them into panels.
//!
//! Terms that are parts of one word, as eight numbers of 4 bits, are computed together from it, with words side by side in a vector: first
//! all terms whose remainder by [`TERMS`] is 0, then all with remainder 1, and so on. The rows of the other factor are packed in the same
//! order, and sums may be formed in any.

use crate::column_reads::Widened;
use crate::fused_packing::Filled;
use crate::outline::{Aside, Outlined};
use crate::printer::Printer;
use crate::weighing::{RowOfTerms, TERMS, factored, factored_by};
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr};
use relax_tir::products::mentions;

/// Words that are decoded side by side, as `RX_WORDS` of the prelude.
const WORDS: i64 = 16;

/// What a group of terms is computed from, where the variable of the terms is the number of the group.
struct Group {
    /// Of each term, but for what all of them are multiplied by.
    values: Vec<String>,
    /// That, and for how many groups it stays.
    common: Option<(String, i64)>,
}

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
struct Variables {
    column: String,
    term: String,
    lane: String,
    at: String,
    word: String,
    common: String,
    own: String,
    copy: String,
}

impl Printer<'_, '_> {
    /// The function that computes columns, and its frame, and in how many groups it gives terms. `None` where they do not lie so, or
    /// where something may stop it.
    pub(crate) fn filling_columns(&mut self, found: &Filled) -> Option<((String, String), i64)> {
        let columns = self.columns(found)?;
        let Variables { term, at, word, common, .. } = &columns.own;
        self.open_columns(&columns, ", to += deep");
        if let Some(group) = &columns.group {
            self.open_groups(group, &columns.own);
            let factor = group.common.as_ref();
            let factor = factor.map_or_else(String::new, |_| format!(" * {common}[{word}]"));
            for (place, value) in group.values.iter().enumerate() {
                let to = format!("to[{at} + {place} * RX_WORDS + {word}]");
                self.line(&format!("{to} = {value}{factor};"));
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
        let Variables { term, lane, at, word, common, .. } = &columns.own;
        self.open_columns(&columns, "");
        self.line(&format!("float {sum} = 0;"));
        if let Some(group) = &columns.group {
            self.line(&format!("_Alignas(64) float {part}[RX_WORDS] = {{0}};"));
            self.open_groups(group, &columns.own);
            self.line(&format!("float {sum} = 0;"));
            for (place, value) in group.values.iter().enumerate() {
                let weight = format!("{x}[{at} + {place} * RX_WORDS + {word}]");
                self.line(&format!("{sum} = RX_MADD_F32({weight}, {value}, {sum});"));
            }
            let one = "1.0f".to_owned();
            let factor = group.common.as_ref().map_or(one, |_| format!("{common}[{word}]"));
            self.line(&format!("{part}[{word}] = RX_MADD_F32({sum}, {factor}, {part}[{word}]);"));
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
        self.line(&format!("#pragma GCC unroll {BLOCKS}"));
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
        let group = self.group_of_terms(&found.right, along);
        let own = self.column_variables(column.var, along.var);
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
            column: self.scalars[&column].clone(),
            term: self.scalars[&term].clone(),
        }
    }

    /// Opens a condition, that terms are whole blocks of words, a loop over blocks, and one over the words of a block. What the terms of
    /// a word have in common lies in an array before that: read at `word / 4` it would be one vector of single loads.
    fn open_groups(&mut self, group: &Group, own: &Variables) {
        let Variables { term, at, word, common, copy, .. } = own;
        let block = format!("({TERMS} * RX_WORDS)");
        self.line(&format!("if (k0 % {block} == 0 && deep % {block} == 0) {{"));
        self.indent += 1;
        self.line(&format!("for (int64_t {at} = 0; {at} < deep; {at} += {block}) {{"));
        self.indent += 1;
        let number = format!("const int64_t {term} = (k0 + {at}) / {TERMS} + {word};");
        if let Some((value, stays)) = &group.common {
            self.line(&format!("_Alignas(64) float {common}[RX_WORDS];"));
            let head = format!("for (int {word} = 0; {word} < RX_WORDS; {word} += {stays}) {{");
            self.line(&head);
            self.line(&format!("    {number}"));
            self.line(&format!("    const float {} = {value};", own.own));
            let all = format!("for (int {copy} = 0; {copy} < {stays}; {copy}++)");
            self.line(&format!("    {all} {common}[{word} + {copy}] = {};", own.own));
            self.line("}");
        }
        self.line(&format!("for (int {word} = 0; {word} < RX_WORDS; {word}++) {{"));
        self.indent += 1;
        self.line(&number);
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
        Blocks { value, wide, common: common.map(|common| self.alone(common)) }
    }

    /// An expression that is computed for one element, not for a vector of them.
    fn alone(&mut self, expr: &TExpr) -> String {
        self.is_alone = true;
        let text = self.expr(expr, DType::F32);
        self.is_alone = false;
        text
    }

    /// What a group of terms is computed from. `None` where no two terms have a word in common.
    fn group_of_terms(&mut self, factor: &TExpr, along: &Loop) -> Option<Group> {
        if !has_parts(factor, along.var) {
            return None;
        }
        let (each, common) = factored(factor, along.var);
        let number = self.ranges.dim(&TExpr::Scalar(along.var))?;
        let last = Dim::op(DimOp::Mul, number, Dim::Int(TERMS));
        let last = Dim::op(DimOp::Add, last, Dim::Int(TERMS - 1));
        let stop = self.ranges.dim(&along.stop)?;
        let learned = self.learned.clone();
        self.facts.push();
        self.facts.assume(Claim::new(last, Relation::Less, stop));
        let of_term = |value: &TExpr, place: i64| {
            expr(value, &mut InGroup { term: along.var, place }, Place::Value)
        };
        let values = (0..TERMS).map(|place| self.expr(&of_term(each, place), DType::F32)).collect();
        let common = common.map(|common| {
            let common = of_term(common, 0);
            (self.alone(&common), stays_for(&common, along.var))
        });
        self.facts.pop();
        self.learned = learned;
        Some(Group { values, common })
    }
}

/// For how many groups, which follow a multiple of that, an expression stays; a divisor of [`WORDS`].
fn stays_for(expr: &TExpr, number: ScalarId) -> i64 {
    let mut stays = WORDS;
    let mut all = 0;
    let mut under = 0;
    visit(expr, &mut |part| match part {
        TExpr::Scalar(var) if *var == number => all += 1,
        TExpr::Binary(BinOp::FloorDiv, both) if both.0 == TExpr::Scalar(number) => {
            let TExpr::Int(by) = both.1 else { return };
            under += 1;
            while by % stays != 0 {
                stays /= 2;
            }
        }
        _ => {}
    });
    if all == under { stays } else { 1 }
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

#[cfg(test)]
mod tests {
    use super::WORDS;

    #[test]
    fn words_are_as_many_as_in_the_prelude() {
        let define = format!("#define RX_WORDS {WORDS}\n");
        assert!(include_str!("prelude/routines.h").contains(&define));
    }
}
