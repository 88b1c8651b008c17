//! Products of a single row with a factor that is computed, as a step of a language model is with quantized weights: each element
//! of the factor is used once, so it goes through no block. What it is computed from is asked for before it is needed, since rows
//! of it lie far apart, and processors look ahead within a page only.

use crate::column_reads::{Source, Widened};
use crate::fused_packing::Filled;
use crate::nibbles::{Nibbles, WORDS_AT_ONCE};
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr};
use relax_tir::products::mentions;

/// Terms of a row of a product that are added at once, so that the row is read and written once for all of them.
pub(crate) const TERMS: i64 = 8;

/// What C calls the variables of the function.
struct Variables {
    column: String,
    term: String,
    /// The first column of a stretch and the first one of the terms that are added at once, from where the function begins.
    at: String,
    first: String,
    lane: String,
    /// The number of a term among those that are added at once.
    place: String,
    row: RowOfTerms,
}

/// What C calls what the functions for single rows are given, and the sum of a column.
pub(crate) struct RowOfTerms {
    pub(crate) sum: String,
    pub(crate) x: String,
    pub(crate) step: String,
    pub(crate) y: String,
}

/// Terms that are read from a table of their values.
struct LookedUp {
    nibbles: Nibbles,
    /// Their word, as C reads it.
    word: String,
    /// What C calls pointers to the first words of a stretch of columns and to those of the terms after them, and the sums.
    words: String,
    after: String,
    sums: String,
}

impl RowOfTerms {
    pub(crate) fn parameters(&self) -> [(&'static str, &str); 3] {
        [("const float *restrict", &self.x), ("int64_t", &self.step), ("float *restrict", &self.y)]
    }
}

impl Printer<'_, '_> {
    /// The function that adds terms of a single row of the product to it, and its frame. For one loop over columns, along which
    /// elements lie side by side.
    pub(crate) fn weighing(&mut self, found: &Filled) -> Option<(String, String)> {
        let ([column], [along]) = (found.columns.as_slice(), found.along.as_slice()) else {
            return None;
        };
        if !is_side_by_side(&found.right, column.var) {
            return None;
        }
        let aside = self.leave();
        let before = self.lines.len();
        let (each, shared) = factored(&found.right, along.var);
        let own = self.weighing_variables(column.var, along.var);
        let value = self.expr(each, DType::F32);
        let shared = shared.map(|shared| self.expr(shared, DType::F32));
        let sources = self.sources(&found.right, column.var, along.var);
        let lane = |name: &str| format!("{name}[{} * RX_STRETCH + {}]", own.place, own.lane);
        let Widened { wide, value: widened } =
            self.widened((each, &value), &sources, &[DType::F16], lane);
        let looked = self.looked_up(&found.right, (column.var, along.var));
        let plain = self.lines.len() == before;
        let Variables { first, at, .. } = &own;
        self.line(&format!("int64_t {first} = 0;"));
        if let Some(looked) = &looked {
            self.weigh_by_table(&own, looked, &sources, (&value, shared.as_deref()));
        }
        self.line(&format!("for (; {first} + {TERMS} <= deep; {first} += {TERMS}) {{"));
        self.indent += 1;
        self.line(&format!("int64_t {at} = 0;"));
        self.line(&format!("for (; {at} + RX_STRETCH <= width; {at} += RX_STRETCH) {{"));
        self.indent += 1;
        let next = format!("{first} + ({first} + {} <= deep ? {TERMS} : 0)", 2 * TERMS);
        self.ask_ahead(&sources, &own, &next, 1);
        for (name, source) in &wide {
            self.line(&format!("_Alignas(64) float {name}[{TERMS} * RX_STRETCH];"));
            self.line(&format!("for (int {0} = 0; {0} < {TERMS}; {0}++) {{", own.place));
            self.line(&format!("    const int64_t {} = c0 + {at};", own.column));
            self.line(&format!("    const int64_t {} = k0 + {first} + {};", own.term, own.place));
            let to = format!("{name} + {} * RX_STRETCH", own.place);
            self.line(&format!("    {source}, {to}, RX_STRETCH);"));
            self.line("}");
        }
        self.weigh(&own, "RX_STRETCH", TERMS, (&widened, shared.as_deref()));
        self.close();
        self.weigh(&own, &format!("width - {at}"), TERMS, (&value, shared.as_deref()));
        self.close();
        self.line(&format!("for (const int64_t {at} = 0; {first} < deep; {first}++) {{"));
        self.indent += 1;
        self.weigh(&own, "width", 1, (&value, shared.as_deref()));
        self.close();
        let outlined = self.come_back(aside);
        (plain && outlined.is_plain()).then(|| self.framed(&outlined, &own.row.parameters()))
    }

    /// Terms that are a function of four bits of words, of which [`WORDS_AT_ONCE`] are scaled alike.
    fn looked_up(
        &mut self,
        factor: &TExpr,
        (column, term): (ScalarId, ScalarId),
    ) -> Option<LookedUp> {
        let (each, shared) = factored_by(factor, term, TERMS * WORDS_AT_ONCE);
        if shared.is_none() && factored(factor, term).1.is_some() {
            return None;
        }
        let nibbles = self.nibbles(each, (column, term))?;
        let word = self.read_element(&nibbles.word)?;
        let [words, after, sums] = ["words", "after", "sums"].map(|wish| self.names.fresh(wish));
        Some(LookedUp { nibbles, word, words, after, sums })
    }

    /// Adds terms to stretches of columns by a table of their values, where the processor reads it by vectors: those of
    /// [`WORDS_AT_ONCE`] words, so that sums are scaled and written once for all of them.
    fn weigh_by_table(
        &mut self,
        own: &Variables,
        looked: &LookedUp,
        sources: &[Source],
        (value, shared): (&str, Option<&str>),
    ) {
        let Variables { column, term, at, first, lane, row, .. } = own;
        let (LookedUp { word, words, after, sums, nibbles }, RowOfTerms { x, step, y, .. }) =
            (looked, row);
        let terms = TERMS * WORDS_AT_ONCE;
        self.line(&format!("if (RX_TABLES && k0 % {terms} == 0) {{"));
        self.indent += 1;
        self.fill_table(nibbles);
        self.line(&format!("for (; {first} + {terms} <= deep; {first} += {terms}) {{"));
        self.indent += 1;
        self.line(&format!("int64_t {at} = 0;"));
        self.line(&format!("for (; {at} + RX_STRETCH <= width; {at} += RX_STRETCH) {{"));
        self.indent += 1;
        let next = format!("{first} + ({first} + {} <= deep ? {terms} : 0)", 2 * terms);
        self.ask_ahead(sources, own, &next, WORDS_AT_ONCE);
        self.line(&format!("_Alignas(64) float {sums}[RX_STRETCH];"));
        self.line("{");
        self.line(&format!("    const int64_t {column} = c0 + {at};"));
        self.line(&format!("    const uint32_t *{words}, *{after};"));
        self.line(&format!("    {{ const int64_t {term} = k0 + {first}; {words} = &{word}; }}"));
        let second = format!("const int64_t {term} = k0 + {first} + {TERMS};");
        self.line(&format!("    {{ {second} {after} = &{word}; }}"));
        let weights = format!("&{x}[{first} * {step}], {step}");
        let table = nibbles.table();
        let apart = format!("{after} - {words}, {WORDS_AT_ONCE}");
        self.line(&format!("    rx_weigh_columns({words}, {apart}, {table}, {weights}, {sums});"));
        self.line("}");
        self.open_lanes(own, "RX_STRETCH");
        self.scale(own, &format!("{sums}[{lane}]"), shared);
        self.line(&format!("{y}[{at} + {lane}] += {sums}[{lane}];"));
        self.close();
        self.close();
        self.weigh(own, &format!("width - {at}"), terms, (value, shared));
        self.close();
        self.close();
    }

    fn weighing_variables(&mut self, column: ScalarId, term: ScalarId) -> Variables {
        let row = self.row_of_terms();
        let mut fresh = |wish| self.names.fresh(wish);
        Variables {
            at: fresh("at"),
            first: fresh("first"),
            lane: fresh("lane"),
            place: fresh("place"),
            row,
            column: self.scalars[&column].clone(),
            term: self.scalars[&term].clone(),
        }
    }

    pub(crate) fn row_of_terms(&mut self) -> RowOfTerms {
        let [sum, x, step, y] = ["sum", "x", "step", "y"].map(|wish| self.names.fresh(wish));
        RowOfTerms { sum, x, step, y }
    }

    /// A loop over columns that adds so many terms to each; `value` is what weighs a term, and what all of them have in common.
    fn weigh(
        &mut self,
        own: &Variables,
        lanes: &str,
        terms: i64,
        (value, shared): (&str, Option<&str>),
    ) {
        let Variables { term, at, first, lane, place, row, .. } = own;
        let RowOfTerms { sum, x, step, y } = row;
        self.open_lanes(own, lanes);
        self.line(&format!("float {sum} = 0;"));
        for number in 0..terms {
            self.line("{");
            self.line(&format!("    enum {{ {place} = {number} }};"));
            self.line(&format!("    const int64_t {term} = k0 + {first} + {place};"));
            let weight = format!("{x}[({first} + {place}) * {step}]");
            self.line(&format!("    {sum} = RX_MADD_F32({weight}, {value}, {sum});"));
            self.line("}");
        }
        self.scale(own, sum, shared);
        self.line(&format!("{y}[{at} + {lane}] += {sum};"));
        self.close();
    }

    /// Opens a loop over columns.
    fn open_lanes(&mut self, own: &Variables, lanes: &str) {
        let Variables { column, at, lane, .. } = own;
        self.line(&format!("for (int64_t {lane} = 0; {lane} < {lanes}; {lane}++) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {column} = c0 + {at} + {lane};"));
    }

    /// Multiplies a sum of a column by what its terms have in common.
    fn scale(&mut self, own: &Variables, sum: &str, shared: Option<&str>) {
        if let Some(shared) = shared {
            self.line(&format!("const int64_t {} = k0 + {};", own.term, own.first));
            self.line(&format!("{sum} *= {shared};"));
        }
    }

    /// Asks for what the terms from `next` on are computed from: so many times [`TERMS`].
    fn ask_ahead(&mut self, sources: &[Source], own: &Variables, next: &str, times: i64) {
        for source in sources {
            let step = if source.stays { TERMS } else { 1 };
            let term = format!("const int64_t {} = k0 + {next} + {}", own.term, own.place);
            let (place, terms) = (&own.place, TERMS * times);
            self.line(&format!("for (int {place} = 0; {place} < {terms}; {place} += {step}) {{"));
            self.indent += 1;
            self.line(&format!("{term};"));
            self.ask_for_columns(source, (&own.column, &own.at), (&own.lane, "RX_STRETCH"));
            self.close();
        }
    }
}

/// Whether what is read lies side by side along the columns, or stays for them.
fn is_side_by_side(factor: &TExpr, column: ScalarId) -> bool {
    let mut side_by_side = true;
    visit(factor, &mut |part| {
        if let TExpr::Load { indices, .. } = part
            && let Some((last, before)) = indices.split_last()
        {
            let own = std::slice::from_ref(last);
            side_by_side &= !mentions(before, column)
                && (last.as_scalar() == Some(column) || !mentions(own, column));
        }
    });
    side_by_side
}

/// `x * (q * s) + y * (r * s)` is `(x * q + y * r) * s`, where `s` stays for all terms that are added at once: what weighs each, and
/// what they have in common.
pub(crate) fn factored(factor: &TExpr, term: ScalarId) -> (&TExpr, Option<&TExpr>) {
    factored_by(factor, term, TERMS)
}

/// As [`factored`], for so many terms that are added at once.
pub(crate) fn factored_by(factor: &TExpr, term: ScalarId, terms: i64) -> (&TExpr, Option<&TExpr>) {
    match factor {
        TExpr::Binary(BinOp::Mul, both) if stays_for(&both.1, term, terms) => {
            (&both.0, Some(&both.1))
        }
        TExpr::Binary(BinOp::Mul, both) if stays_for(&both.0, term, terms) => {
            (&both.1, Some(&both.0))
        }
        whole => (whole, None),
    }
}

/// Whether an expression is the same for [`TERMS`] terms that follow a multiple of it.
pub(crate) fn stays_for_terms(expr: &TExpr, term: ScalarId) -> bool {
    stays_for(expr, term, TERMS)
}

fn stays_for(expr: &TExpr, term: ScalarId, terms: i64) -> bool {
    match expr {
        TExpr::Scalar(var) => *var != term,
        TExpr::Binary(BinOp::FloorDiv, both) if both.0 == TExpr::Scalar(term) => {
            matches!(both.1, TExpr::Int(by) if by > 0 && by % terms == 0)
        }
        TExpr::Binary(BinOp::ShiftRight, both) if both.0 == TExpr::Scalar(term) => {
            matches!(both.1, TExpr::Int(bits @ 0..=40) if (1 << bits) % terms == 0)
        }
        TExpr::Binary(_, both) => {
            stays_for(&both.0, term, terms) && stays_for(&both.1, term, terms)
        }
        TExpr::Load { indices, .. } => indices.iter().all(|index| stays_for(index, term, terms)),
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => stays_for(operand, term, terms),
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Dim(_) => true,
        TExpr::Select(_) | TExpr::Call(..) => false,
    }
}
