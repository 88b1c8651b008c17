//! Fused packing: products with a factor that is computed while its blocks are packed, as in Vortex's fused prologues. A
//! convolution reads the windows of its data so (implicit GEMM, im2col without the matrix), and quantized weights are decoded so.
//! The prelude calls a function of the kernel for each block, which writes elements in the order in which tiles read them; the
//! factor itself is never in memory. Of f64 factors the same text is printed with the names and types of f64 routines; quantized weights are
//! of f32, and so are columns that are computed from words, and single rows that go through no block.

use crate::OUT_OF_MEMORY;
use crate::column_reads::Widened;
use crate::guarded_lanes::{LaneValue, Lanes};
use crate::outline::Outlined;
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, Loop, ScalarId, Stmt, TExpr};
use relax_tir::products::{At, SumOfProducts, factor, follows, mentions, narrowed};

/// What the routines of an element type are called.
#[derive(Clone, Copy)]
struct Element {
    dtype: DType,
    /// That of functions.
    prefix: &'static str,
    /// The type of C.
    name: &'static str,
    /// The columns of a panel.
    panel: &'static str,
}

const F32: Element = Element { dtype: DType::F32, prefix: "rx", name: "float", panel: "RX_PANEL" };
const F64: Element =
    Element { dtype: DType::F64, prefix: "rx64", name: "double", panel: "RX64_PANEL" };

/// Which loops are which.
pub(crate) struct Filled<'s> {
    element: Element,
    /// The matrix that lies in memory, and what the elements of the other one are, in the same dtype.
    left: At<'s>,
    pub(crate) right: TExpr,
    out: At<'s>,
    /// All loops as they stand, outermost first.
    all: Vec<&'s Loop>,
    /// Around the call.
    outer: Vec<&'s Loop>,
    /// Over rows, columns and terms, outermost first, which together step evenly through what they go over.
    rows: Vec<&'s Loop>,
    pub(crate) columns: Vec<&'s Loop>,
    pub(crate) along: Vec<&'s Loop>,
}

impl Printer<'_, '_> {
    /// Prints a statement as such a product, if it is one; else nothing.
    pub(crate) fn fill(&mut self, stmt: &Stmt) -> bool {
        let Some(sum) = SumOfProducts::of(self.program, stmt) else { return false };
        let [a, b] = sum.factors;
        let Some(found) = self.filled(&sum, a, b).or_else(|| self.filled(&sum, b, a)) else {
            return false;
        };
        let printed = self.attempt(|printer| printer.filled_product(&found).then_some(()));
        let printed = printed.is_some();
        match found.element.dtype {
            DType::F64 => self.multiplies_f64 |= printed,
            _ => self.multiplies |= printed,
        }
        printed
    }

    fn filled<'s>(
        &self,
        sum: &SumOfProducts<'s>,
        left: &'s TExpr,
        right: &'s TExpr,
    ) -> Option<Filled<'s>> {
        let (left, out) = (factor(left, sum.wide)?, sum.out);
        let (element, right) = match self.program.buffer(out.buffer).dtype {
            DType::F32 => (F32, narrowed(&self.typing, right, sum.wide)?),
            DType::F64 if self.typing.dtype(right) == DType::F64 => (F64, right.clone()),
            _ => return None,
        };
        let is_of_element = |at: At| self.program.buffer(at.buffer).dtype == element.dtype;
        let all: Vec<&Loop> = sum.loops.iter().chain(&sum.along).copied().collect();
        let apart = left.buffer != out.buffer && !reads(&right, out.buffer);
        let even = all.iter().all(|item| {
            item.start == TExpr::Int(0)
                && [left, out].iter().all(|at| at.has_at_most_one_place(item.var))
        });
        // A product neither asks which elements were written nor notes those that it writes.
        let is_watched = [left, out].iter().any(|at| self.notes_elements(at.buffer));
        if sum.finish.is_some() || !is_of_element(left) || !apart || !even || is_watched {
            return None;
        }
        let of_right = |item: &Loop| mentions(std::slice::from_ref(&right), item.var);
        let of_left = |item: &Loop| mentions(left.indices, item.var);
        let columns = self.chain(&sum.loops, &[out], &|item| of_right(item) && !of_left(item));
        let last = out.indices.last()?.as_scalar();
        let rows = self.chain(&sum.loops, &[left, out], &|item| of_left(item) && !of_right(item));
        let along = self.chain(&sum.along, &[left], &|item| of_left(item) && of_right(item));
        let fits = columns.last().is_some_and(|item| Some(item.var) == last)
            && along.len() == sum.along.len()
            && sum.along.iter().all(|item| !mentions(out.indices, item.var))
            && sum.loops.iter().all(|item| mentions(out.indices, item.var));
        let inner = |item: &&&Loop| rows.iter().chain(&columns).any(|own| own.var == item.var);
        let outer = sum.loops.iter().filter(|item| !inner(item)).copied().collect();
        fits.then_some(Filled { element, left, right, out, all, outer, rows, columns, along })
    }

    /// The innermost loops of a kind that together step evenly through what is read and written at their variables.
    pub(crate) fn chain<'s>(
        &self,
        loops: &[&'s Loop],
        accesses: &[At],
        of_kind: &dyn Fn(&Loop) -> bool,
    ) -> Vec<&'s Loop> {
        let mut chain: Vec<&Loop> = Vec::new();
        for item in loops.iter().rev().filter(|item| of_kind(item)) {
            if chain
                .first()
                .is_none_or(|inner| follows(self.program, &self.ranges, accesses, item, inner))
            {
                chain.insert(0, item);
            }
        }
        chain
    }

    fn filled_product(&mut self, found: &Filled) -> bool {
        let Filled { element, left, out, all, outer, rows, columns, along, .. } = found;
        let is_f32 = element.dtype == DType::F32;
        let Some(entered) = self.enter_all(all) else { return false };
        let stop = |item: &&Loop| entered.stops[&item.var].clone();
        for item in outer {
            self.open(item.var, &stop(item));
        }
        let before = self.lines.len();
        let inner: Vec<ScalarId> =
            rows.iter().chain(columns).chain(along).map(|item| item.var).collect();
        let (row, term) = (rows.last().map(|item| item.var), along.last().map(|item| item.var));
        let matrix = self.matrix(element.prefix, *left, &inner, row, term);
        let first = self.first_element(*out, &inner);
        let out_row = row.map_or_else(|| "0".to_owned(), |var| self.stride(*out, var));
        if self.lines.len() != before {
            return false;
        }
        let extents = |loops: &[&Loop]| loops.iter().map(stop).collect::<Vec<String>>();
        let count = |loops: &[&Loop]| crate::outline::total(&extents(loops));
        let (m, n, depth) = (count(rows), count(columns), count(along));
        let each = self.rows_of_a_matrix(*out, rows, &extents(rows));
        let single = each.map_or_else(|| "0".to_owned(), |each| format!("{each} == 1"));
        let named = [extents(columns), extents(along)];
        let columns = if is_f32 { self.filling_columns(found) } else { None };
        let by_rows = columns.is_none();
        let filling = columns.or_else(|| Some((self.filling(found, &named)?, 0)));
        let Some(((fill, frame), by_columns)) = filling else { return false };
        let none = || ("NULL".to_owned(), "NULL".to_owned());
        let weighing = match by_rows {
            _ if !is_f32 => None,
            true => self.weighing(found),
            false => self.weighing_columns(found),
        };
        let (weigh, weights) = weighing.unwrap_or_else(none);
        let (threads, prefix) = (self.threads, element.prefix);
        let call = format!(
            "{prefix}_product_filled({threads}, {m}, {n}, {depth}, {matrix}, {fill}, {frame}, {weigh}, {weights}, {by_columns}, {single}, {first}, {out_row})"
        );
        let message = "a product of matrices takes more memory than there is".to_owned();
        self.stop_if(&call, OUT_OF_MEMORY, message);
        (0..outer.len() + entered.conditions).for_each(|_| self.close());
        true
    }

    /// The function that fills a block, and its frame. `None` where something may stop it.
    fn filling(
        &mut self,
        found: &Filled,
        [columns, along]: &[Vec<String>; 2],
    ) -> Option<(String, String)> {
        let aside = self.leave();
        let before = self.lines.len();
        let var = found.columns.last()?.var;
        let Element { dtype, name, panel, .. } = found.element;
        let value = self.lane_value(&found.right, var, dtype);
        let plain = self.lines.len() == before;
        let names = |loops: &[&Loop], printer: &Self| {
            loops.iter().map(|item| printer.scalars[&item.var].clone()).collect::<Vec<String>>()
        };
        let (own, terms) = (names(&found.columns, self), names(&found.along, self));
        let (inner, outer) = own.split_last()?;
        let extent = columns.last()?;
        if outer.is_empty() {
            self.fill_by_terms(found, (inner, &value), &terms, along);
        } else {
            let own = (found.element, columns.as_slice());
            self.fill_by_panels((inner, outer), (&value, extent), own, (&terms, along));
        }
        self.line(&format!("const int64_t c1 = width % {panel};"));
        self.line(&format!("to += width / {panel} * {panel} * deep + c1;"));
        let zeros = format!("memset(to, 0, (size_t)({panel} - c1) * {})", dtype.size());
        self.line(&format!(
            "for (int64_t row = 0; row < deep && c1 > 0; row++, to += {panel}) {zeros};"
        ));
        let outlined = self.come_back(aside);
        if !plain || !outlined.is_plain() {
            return None;
        }
        Some(self.framed(&outlined, &[(&format!("{name} *"), "to")]))
    }

    /// Term by term, so that what lies side by side along the columns is read from end to end. A whole panel is a known number of
    /// vectors, without what is left beside them.
    fn fill_by_terms(
        &mut self,
        found: &Filled,
        (inner, value): (&str, &LaneValue),
        terms: &[String],
        along: &[String],
    ) {
        let Element { name: element, panel, .. } = found.element;
        let [at, lines, term, lane] =
            ["at", "lines", "term", "lane"].map(|wish| self.names.fresh(wish));
        let own = found.columns.last().zip(found.along.last());
        let sources = own.map_or_else(Vec::new, |(column, along)| {
            self.sources(&found.right, column.var, along.var)
        });
        // Only to f32.
        let widens: &[DType] = if panel == F32.panel { &[DType::F16] } else { &[] };
        let (wide, whole) = match value {
            LaneValue::Plain(text) => {
                let own = |name: &str| format!("{name}[{lane}]");
                let Widened { wide, value } =
                    self.widened((&found.right, text), &sources, widens, own);
                (wide, &LaneValue::Plain(value))
            }
            split => (Vec::new(), split),
        };
        self.numbers("k0", "int64_t", terms, along);
        self.line(&format!("for (int64_t {term} = 0; {term} < deep; {term}++) {{"));
        self.indent += 1;
        self.line(&format!("for (int64_t {at} = 0; {at} < width; {at} += {panel}) {{"));
        self.indent += 1;
        self.line(&format!("{element} *restrict {lines} = to + {at} * deep + {term} * {panel};"));
        self.line(&format!("if (width - {at} >= {panel}) {{"));
        self.indent += 1;
        if let [own] = terms {
            self.ask_for_terms(&sources, (inner, &at), (own, &term), (&lane, panel));
        }
        for (name, source) in &wide {
            self.line(&format!("_Alignas(64) float {name}[RX_PANEL];"));
            self.line(&format!("{{ const int64_t {inner} = c0 + {at};"));
            self.line(&format!("  {source}, {name}, RX_PANEL); }}"));
        }
        let start = format!("c0 + {at}");
        let lanes = Lanes { lane: &lane, count: panel, column: inner, start: &start, to: &lines };
        self.write_lanes(&lanes, whole);
        self.indent -= 1;
        self.line("} else {");
        self.indent += 1;
        let count = format!("width - {at}");
        self.write_lanes(&Lanes { count: &count, ..lanes }, value);
        self.close();
        self.close();
        self.next(terms, along);
        self.close();
    }

    /// Panel by panel, of columns that several loops go over: as many lanes at once as the innermost one has.
    fn fill_by_panels(
        &mut self,
        (inner, outer): (&str, &[String]),
        (value, extent): (&LaneValue, &str),
        (Element { name, panel, .. }, columns): (Element, &[String]),
        (terms, along): (&[String], &[String]),
    ) {
        let [at, run, begin, lines, term, lane] =
            ["at", "run", "begin", "lines", "term", "lane"].map(|wish| self.names.fresh(wish));
        self.line(&format!("for (int64_t {at} = 0, {run}; {at} < width; {at} += {run}) {{"));
        self.indent += 1;
        self.line(&format!("const int64_t {begin} = (c0 + {at}) % ({extent});"));
        self.numbers(&format!("(c0 + {at}) / ({extent})"), "const int64_t", outer, columns);
        self.line(&format!(
            "{run} = {extent} - {begin} < width - {at} ? {extent} - {begin} : width - {at};"
        ));
        self.line(&format!(
            "if ({run} > {panel} - {at} % {panel}) {run} = {panel} - {at} % {panel};"
        ));
        self.line(&format!(
            "{name} *restrict {lines} = to + {at} / {panel} * {panel} * deep + {at} % {panel};"
        ));
        self.numbers("k0", "int64_t", terms, along);
        self.line(&format!(
            "for (int64_t {term} = 0; {term} < deep; {term}++, {lines} += {panel}) {{"
        ));
        self.indent += 1;
        self.write_lanes(
            &Lanes { lane: &lane, count: &run, column: inner, start: &begin, to: &lines },
            value,
        );
        self.next(terms, along);
        self.close();
        self.close();
    }

    /// A function over terms and columns and its frame, as arguments; `more` are its other parameters.
    pub(crate) fn framed(
        &mut self,
        outlined: &Outlined,
        more: &[(&str, &str)],
    ) -> (String, String) {
        let (name, used) = (self.part_name(), self.used(outlined));
        let mut given = ["k0", "deep", "c0", "width"].map(|name| ("int64_t", name)).to_vec();
        given.extend(more);
        self.define_block(&name, &used, &given, outlined);
        let values: String = used.iter().map(|shared| format!("{}, ", shared.name)).collect();
        let frame = self.names.fresh("frame");
        self.line(&format!("const struct {name}_frame {frame} = {{{values}0}};"));
        (format!("{name}_block"), format!("&{frame}"))
    }

    /// Variables of loops from the number of an iteration; the first one needs no extent.
    fn numbers(&mut self, number: &str, of: &str, names: &[String], extents: &[String]) {
        let mut rest = number.to_owned();
        for (at, (name, extent)) in names.iter().zip(extents).enumerate().rev() {
            let value = if at == 0 { rest.clone() } else { format!("({rest}) % ({extent})") };
            self.line(&format!("{of} {name} = {value};"));
            rest = format!("({rest}) / ({extent})");
        }
    }

    /// To the next iteration.
    fn next(&mut self, names: &[String], extents: &[String]) {
        let (Some(first), carried) = (names.first(), names.iter().zip(extents).skip(1)) else {
            return;
        };
        let mut text = format!("{first}++;");
        for (name, extent) in carried {
            text = format!("if (++{name} == {extent}) {{ {name} = 0; {text} }}");
        }
        self.line(&text);
    }
}

fn reads(expr: &TExpr, buffer: BufferId) -> bool {
    let mut reads = false;
    visit(expr, &mut |part| {
        reads |= matches!(part, TExpr::Load { buffer: own, .. } if *own == buffer);
    });
    reads
}
