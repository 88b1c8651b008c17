//! Terms that are parts of one word, as eight numbers of 4 bits: computed together, with words side by side in a vector.
//!
//! What stays for several words, as the scale of a block, is computed once for them and lies in an array before the words are
//! decoded: read at `word / 4` it would be one vector of single loads.

use crate::column_packing::Variables;
use crate::dtypes;
use crate::nibbles::Nibbles;
use crate::printer::Printer;
use crate::weighing::{RowOfTerms, TERMS, factored, stays_for_terms};
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr};
use relax_tir::products::mentions;

/// Words that are decoded side by side, as `RX_WORDS` of the prelude.
pub(crate) const WORDS: i64 = 16;

/// What a group of terms is computed from, where the variable of the terms is the number of the group.
pub(crate) struct Group {
    /// Of each term: it is multiplied by `common`, and `added` is added.
    pub(crate) values: Vec<String>,
    common: Option<String>,
    added: Option<Added>,
    /// What is computed before, those of all words first.
    held: Vec<Held>,
    /// Terms as a function of four bits of their words, and the first word of a block, as C reads it.
    nibbles: Option<(Nibbles, String)>,
}

struct Added {
    value: String,
    is_subtracted: bool,
}

/// What stays for so many words that follow a multiple of that.
struct Held {
    name: String,
    dtype: DType,
    /// Its value, or the element that it is read from.
    value: String,
    stays: i64,
    /// What fills an array with elements that lie side by side, each for so many words; `None` where each is computed alone.
    spread: Option<&'static str>,
}

impl Group {
    /// A term, of its value.
    pub(crate) fn whole(&self, value: &str) -> String {
        let product = self.common.as_ref().map(|common| format!("{value} * {common}"));
        let product = product.unwrap_or_else(|| value.to_owned());
        match &self.added {
            Some(Added { value, is_subtracted: false }) => format!("{product} + {value}"),
            Some(Added { value, is_subtracted: true }) => format!("{product} - {value}"),
            None => product,
        }
    }
}

impl Printer<'_, '_> {
    /// Opens a condition, that terms are whole blocks of words, and a loop over blocks.
    pub(crate) fn open_groups(&mut self, group: &Group, own: &Variables) {
        let Variables { term, at, word, copy, block, .. } = own;
        let terms = format!("({TERMS} * RX_WORDS)");
        self.line(&format!("if (k0 % {terms} == 0 && deep % {terms} == 0) {{"));
        self.indent += 1;
        self.line(&format!("for (int64_t {at} = 0; {at} < deep; {at} += {terms}) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {block} = (k0 + {at}) / {terms};"));
        let number = format!("const int64_t {term} = {block} * RX_WORDS + {word};");
        for Held { name, dtype, value, stays, spread } in &group.held {
            let held = dtypes::held(*dtype);
            if *stays == WORDS {
                self.line(&format!("const {held} {name} = {value};"));
                continue;
            }
            self.line(&format!("_Alignas(64) {held} {name}[RX_WORDS];"));
            if let Some(routine) = spread {
                let first = format!("enum {{ {word} = 0 }};");
                self.line(&format!("{{ {first} {routine}(&{value}, {name}, {stays}); }}"));
                continue;
            }
            let head = format!("for (int {word} = 0; {word} < RX_WORDS; {word} += {stays}) {{");
            self.line(&head);
            self.line(&format!("    {number}"));
            self.line(&format!("    const {held} {} = {value};", own.own));
            let all = format!("for (int {copy} = 0; {copy} < {stays}; {copy}++)");
            self.line(&format!("    {all} {name}[{word} + {copy}] = {};", own.own));
            self.line("}");
        }
    }

    /// Opens a loop over the words of a block.
    pub(crate) fn open_words(&mut self, own: &Variables) {
        let Variables { term, word, block, .. } = own;
        self.line(&format!("for (int {word} = 0; {word} < RX_WORDS; {word}++) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {term} = {block} * RX_WORDS + {word};"));
    }

    /// Fills the table of terms that are read from one.
    pub(crate) fn fill_group_table(&mut self, group: &Group) {
        if let Some((nibbles, _)) = &group.nibbles {
            self.fill_table(nibbles);
        }
    }

    /// Adds up the terms of each word of a block by the table of their values, where the processor reads it by vectors; whether there
    /// is a table.
    pub(crate) fn look_up_group(
        &mut self,
        group: &Group,
        own: &Variables,
        row: &RowOfTerms,
    ) -> bool {
        let Some((nibbles, element)) = &group.nibbles else { return false };
        let Variables { column, lane, term, at, word, block, .. } = own;
        let (looked, table) = (&own.looked, nibbles.table());
        let first = format!("enum {{ {word} = 0 }};");
        let spread = group.held.iter().filter(|held| held.spread.is_some());
        let sources: Vec<&String> =
            std::iter::once(element).chain(spread.map(|held| &held.value)).collect();
        // Processors look ahead too late: a block takes less time than its words take to come from memory.
        self.line("{");
        self.line(&format!("    {first}"));
        self.line(&format!("    const int64_t {term} = {block} * RX_WORDS;"));
        self.line(&format!("    const int64_t {column} = c0 + rx_later({lane}, width, deep);"));
        for source in sources {
            self.line(&format!("    __builtin_prefetch(&{source});"));
        }
        self.line("}");
        self.line(&format!("_Alignas(64) float {looked}[RX_WORDS];"));
        self.line("if (RX_TABLES) {");
        self.line(&format!("    {first}"));
        self.line(&format!("    const int64_t {term} = {block} * RX_WORDS;"));
        let weights = format!("&{}[{at}]", row.x);
        self.line(&format!("    rx_weigh_words(&{element}, {table}, {weights}, {looked});"));
        self.line("}");
        true
    }

    /// Adds the terms of a word to what is in `part` for words at its place.
    pub(crate) fn weigh_group(
        &mut self,
        group: &Group,
        own: &Variables,
        (row, part): (&RowOfTerms, &str),
    ) {
        let (Variables { at, word, looked, .. }, RowOfTerms { sum, x, .. }) = (own, row);
        let is_looked_up = group.nibbles.is_some();
        if is_looked_up {
            self.line(&format!("float {sum} = RX_TABLES ? {looked}[{word}] : 0;"));
            self.line("if (!RX_TABLES) {");
            self.indent += 1;
        } else {
            self.line(&format!("float {sum} = 0;"));
        }
        let weight = |place: usize| format!("{x}[{at} + {place} * RX_WORDS + {word}]");
        for (place, value) in group.values.iter().enumerate() {
            self.line(&format!("{sum} = RX_MADD_F32({}, {value}, {sum});", weight(place)));
        }
        if is_looked_up {
            self.close();
        }
        let to = format!("{part}[{word}]");
        let factor = group.common.as_deref().unwrap_or("1.0f");
        self.line(&format!("{to} = RX_MADD_F32({sum}, {factor}, {to});"));
        if let Some(Added { value, is_subtracted }) = &group.added {
            let sign = if *is_subtracted { "-" } else { "" };
            let sum = format!("{}[{at} / {TERMS} + {word}]", own.totals);
            self.line(&format!("{to} = RX_MADD_F32({sum}, {sign}{value}, {to});"));
        }
    }

    /// Adds up the weights of the terms of each word, for what is added to all of them: the same for all columns.
    pub(crate) fn total_groups(&mut self, group: &Group, own: &Variables, row: &RowOfTerms) {
        if group.added.is_none() {
            return;
        }
        let (Variables { at, word, totals, .. }, x) = (own, &row.x);
        let terms = format!("({TERMS} * RX_WORDS)");
        self.line(&format!("_Alignas(64) float {totals}[RX_DEEP / {TERMS}];"));
        self.line(&format!("if (k0 % {terms} == 0 && deep % {terms} == 0)"));
        self.line(&format!("    for (int64_t {at} = 0; {at} < deep; {at} += {terms})"));
        self.line(&format!("        for (int {word} = 0; {word} < RX_WORDS; {word}++)"));
        let weights = (0..TERMS).map(|place| format!("{x}[{at} + {place} * RX_WORDS + {word}]"));
        let weights: Vec<String> = weights.collect();
        self.line(&format!(
            "            {totals}[{at} / {TERMS} + {word}] = {};",
            weights.join(" + ")
        ));
    }

    /// What a group of terms is computed from. `None` where no two terms have a word in common.
    pub(crate) fn group_of_terms(
        &mut self,
        factor: &TExpr,
        (column, along): (ScalarId, &Loop),
        own: &Variables,
    ) -> Option<Group> {
        if !has_parts(factor, along.var) {
            return None;
        }
        let (product, added) = apart(factor, along.var);
        let (each, common) = factored(product, along.var);
        let nibbles = self.nibbles(each, (column, along.var));
        let number = self.ranges.dim(&TExpr::Scalar(along.var))?;
        let last = Dim::op(DimOp::Mul, number, Dim::Int(TERMS));
        let last = Dim::op(DimOp::Add, last, Dim::Int(TERMS - 1));
        let stop = self.ranges.dim(&along.stop)?;
        let (learned, replaced) = (self.learned.clone(), self.replaced.len());
        self.facts.push();
        self.facts.assume(Claim::new(last, Relation::Less, stop));
        let in_group = |value: &TExpr, place: i64| {
            expr(value, &mut InGroup { term: along.var, place }, Place::Value)
        };
        let of_words = |value: &TExpr| in_group(value, 0);
        self.replace_numbers(&of_words(factor), along.var, own);
        let mut hoist = Hoist { number: along.var, own, held: Vec::new() };
        self.hold_parts(&of_words(each), &mut hoist);
        let common = common.map(|common| self.hold(&of_words(common), &mut hoist));
        let added = added.map(|(added, is_subtracted)| Added {
            value: self.hold(&of_words(added), &mut hoist),
            is_subtracted,
        });
        let values =
            (0..TERMS).map(|place| self.expr(&in_group(each, place), DType::F32)).collect();
        let nibbles = nibbles.and_then(|nibbles| {
            let element = self.read_element(&of_words(&nibbles.word))?;
            Some((nibbles, element))
        });
        self.facts.pop();
        self.replaced.truncate(replaced);
        self.learned = learned;
        Some(Group { values, common, added, held: hoist.held, nibbles })
    }

    /// Holds the largest parts of an expression that are read and stay for several words.
    fn hold_parts(&mut self, part: &TExpr, hoist: &mut Hoist) {
        if reads(part) && stays_for(part, hoist.number) > 1 {
            self.hold(part, hoist);
            return;
        }
        match part {
            TExpr::Binary(_, both) => {
                self.hold_parts(&both.0, hoist);
                self.hold_parts(&both.1, hoist);
            }
            TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => self.hold_parts(operand, hoist),
            _ => {}
        }
    }

    /// Holds an expression, after the parts of it that are the same for all words; how it is read.
    fn hold(&mut self, part: &TExpr, hoist: &mut Hoist) -> String {
        let stays = stays_for(part, hoist.number);
        let dtype = self.typing.dtype(part);
        if stays < WORDS {
            self.hold_scalars(part, hoist);
            if self.spread_loads(part, hoist) {
                return self.expr(part, dtype);
            }
        }
        let value = self.alone(part, dtype);
        self.held(part, Held { name: String::new(), dtype, value, stays, spread: None }, hoist)
    }

    /// Reads a part of an expression from what is held; how that is read.
    fn held(&mut self, part: &TExpr, held: Held, hoist: &mut Hoist) -> String {
        let name = self.names.fresh("held");
        let read = match held.stays {
            WORDS => name.clone(),
            _ => format!("{name}[{}]", hoist.own.word),
        };
        self.replaced.push(part.clone(), read.clone());
        hoist.held.push(Held { name, ..held });
        read
    }

    /// Holds what an expression reads, each element for the words for which it stays; whether that is all it reads.
    fn spread_loads(&mut self, part: &TExpr, hoist: &mut Hoist) -> bool {
        if self.replaced.of(part).is_some() {
            return true;
        }
        let (load, is_widened) = match part {
            TExpr::Cast(DType::F32, operand) if matches!(**operand, TExpr::Load { .. }) => {
                (&**operand, true)
            }
            whole => (whole, false),
        };
        match load {
            TExpr::Load { buffer, indices } => {
                let stays = stays_for(load, hoist.number);
                let routine = match (self.program.buffer(*buffer).dtype, is_widened) {
                    (DType::U32, false) => "rx_spread_u32",
                    (DType::F32, _) => "rx_spread_f32",
                    (DType::F16, true) => "rx_spread_f16",
                    (DType::I8, true) => "rx_spread_i8",
                    (DType::U8, true) => "rx_spread_u8",
                    _ => return false,
                };
                let Some((last, before)) = indices.split_last() else { return false };
                let side_by_side = quotient(TExpr::Scalar(hoist.number), stays);
                if stays == 1 || *last != side_by_side || mentions(before, hoist.number) {
                    return false;
                }
                let values = self.indices(indices);
                let at = self.element(*buffer, indices, values);
                let value = format!("{}[{at}]", self.buffers[buffer]);
                let dtype = if is_widened { DType::F32 } else { self.typing.dtype(part) };
                let held = Held { name: String::new(), dtype, value, stays, spread: Some(routine) };
                self.held(part, held, hoist);
                true
            }
            TExpr::Binary(_, both) => {
                self.spread_loads(&both.0, hoist) && self.spread_loads(&both.1, hoist)
            }
            TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => self.spread_loads(operand, hoist),
            other => !reads(other),
        }
    }

    fn hold_scalars(&mut self, part: &TExpr, hoist: &mut Hoist) {
        match part {
            TExpr::Load { .. } | TExpr::Cast(..) if stays_for(part, hoist.number) == WORDS => {
                self.hold(part, hoist);
            }
            TExpr::Binary(_, both) => {
                self.hold_scalars(&both.0, hoist);
                self.hold_scalars(&both.1, hoist);
            }
            TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => self.hold_scalars(operand, hoist),
            _ => {}
        }
    }

    /// Prints quotients and remainders of the number of a word by the number of its block and its place there: compilers know places,
    /// and no signs are in the way.
    fn replace_numbers(&mut self, of_words: &TExpr, number: ScalarId, own: &Variables) {
        let (block, word) = (&own.block, &own.word);
        let mut found = Vec::new();
        visit(of_words, &mut |part| {
            let TExpr::Binary(op, both) = part else { return };
            let (true, TExpr::Int(by)) = (both.0 == TExpr::Scalar(number), &both.1) else { return };
            let divides = *by > 0 && WORDS % by == 0;
            let text = match op {
                BinOp::Mod if divides => format!("({word} % {by})"),
                BinOp::FloorDiv if divides => format!("({block} * {} + {word} / {by})", WORDS / by),
                BinOp::FloorDiv if *by > 0 && by % WORDS == 0 => {
                    format!("(int64_t)((uint64_t){block} / {})", by / WORDS)
                }
                _ => return,
            };
            found.push((part.clone(), text));
        });
        found.into_iter().for_each(|(part, text)| self.replaced.push(part, text));
    }
}

/// What is held for the words of a group.
struct Hoist<'o> {
    number: ScalarId,
    own: &'o Variables,
    held: Vec<Held>,
}

fn reads(part: &TExpr) -> bool {
    let mut reads = false;
    visit(part, &mut |part| reads |= matches!(part, TExpr::Load { .. }));
    reads
}

/// `p + m` and `p - m`, where `m` stays for all terms of a group: the rest, and `m` with whether it is subtracted.
fn apart(factor: &TExpr, term: ScalarId) -> (&TExpr, Option<(&TExpr, bool)>) {
    match factor {
        TExpr::Binary(BinOp::Add, both) if stays_for_terms(&both.1, term) => {
            (&both.0, Some((&both.1, false)))
        }
        TExpr::Binary(BinOp::Add, both) if stays_for_terms(&both.0, term) => {
            (&both.1, Some((&both.0, false)))
        }
        TExpr::Binary(BinOp::Sub, both) if stays_for_terms(&both.1, term) => {
            (&both.0, Some((&both.1, true)))
        }
        whole => (whole, None),
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
