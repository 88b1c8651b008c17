//! `If`: a branch of the program, or the one side that a known condition takes.

use super::graph;
use crate::argument::Arg;
use crate::builder::{Content, Line, Origin, V};
use crate::graph::{Importer, Scope};
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The lines of both sides, and those after the branch.
struct Sides {
    then: Vec<Line>,
    otherwise: Vec<Line>,
    casts: Vec<Line>,
}

impl Importer<'_> {
    /// A branch of the model; of a condition that is known only the one side.
    pub(super) fn branch(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        scope: &Scope,
    ) -> Done<Vec<V>> {
        let condition = inputs.first().copied().flatten();
        let condition = condition.ok_or_else(|| Reason::Invalid("no condition".to_owned()))?;
        let (then, otherwise) = (graph(node, "then_branch")?, graph(node, "else_branch")?);
        if let Some(known) = self.builder.tensor(condition) {
            let taken = known.len() == 1 && known.number(0).as_f64() != 0.0;
            return self.side(if taken { then } else { otherwise }, scope);
        }
        let given = condition;
        let condition = if self.builder.rank(condition) == 0 {
            condition
        } else {
            self.builder.call("reshape", &[condition.into(), Arg::Shape(vec![])])?
        };
        let (first, then) = self.apart(|importer| importer.side(then, scope))?;
        let (second, otherwise) = self.apart(|importer| importer.side(otherwise, scope))?;
        let mut sides = Sides { then, otherwise, casts: Vec::new() };
        if first.len() != second.len() {
            return invalid("the sides of a branch give different numbers of values");
        }
        let mut results = Vec::new();
        for (a, b) in first.into_iter().zip(second) {
            let Some(joined) = self.joined(a, b, &mut sides) else {
                // Which side is taken decides what the program is: it must be known.
                if let Content::Input(name) = &self.builder.info(given).content {
                    return Err(Reason::Needs(name.clone()));
                }
                let (a, b) = (self.builder.annotation(a), self.builder.annotation(b));
                return unsupported(format!("sides of a branch give {a} and {b}"));
            };
            results.push(joined);
        }
        let Sides { then, otherwise, casts } = sides;
        self.builder.lines.push(Line::If { condition, then, otherwise });
        self.builder.lines.extend(casts);
        Ok(results)
    }

    fn side(&mut self, graph: &proto::Graph, scope: &Scope) -> Done<Vec<V>> {
        let mut scope = scope.clone();
        self.initializers(graph, &mut scope)?;
        self.computed(graph, scope)
    }

    /// The value that is `a` after the one side and `b` after the other; none where they have no type in
    /// common.
    fn joined(&mut self, a: V, b: V, sides: &mut Sides) -> Option<V> {
        let contents = (&self.builder.info(a).content, &self.builder.info(b).content);
        match contents {
            (Content::Nothing, Content::Nothing) => return Some(a),
            (Content::Sequence(x), Content::Sequence(y)) if x.len() == y.len() => {
                let pairs: Vec<(V, V)> = x.iter().copied().zip(y.iter().copied()).collect();
                let items = pairs.into_iter().map(|(a, b)| self.joined(a, b, sides));
                let items = items.collect::<Option<Vec<V>>>()?;
                return Some(self.builder.add(Vec::new(), DType::F32, Content::Sequence(items)));
            }
            _ if !self.builder.is_tensor(a) || !self.builder.is_tensor(b) => return None,
            _ => {}
        }
        let dtype = self.builder.dtype(a);
        if dtype != self.builder.dtype(b) || self.builder.rank(a) != self.builder.rank(b) {
            return None;
        }
        let (x, y) = (self.builder.dims(a), self.builder.dims(b));
        let target = self.builder.add(x.clone(), dtype, Content::Computed);
        if let Some(&narrow) = self.builder.narrow.get(&a) {
            self.builder.narrow.insert(target, narrow);
        }
        sides.then.push(Line::Alias { target, from: a });
        sides.otherwise.push(Line::Alias { target, from: b });
        let same = x.iter().zip(&y).all(|(x, y)| self.builder.same(x, y));
        Some(if same { target } else { self.opened(target, &x, &y, &mut sides.casts) })
    }

    fn opened(&mut self, from: V, x: &[Dim], y: &[Dim], casts: &mut Vec<Line>) -> V {
        let dims = x.iter().zip(y).map(|(x, y)| {
            if self.builder.same(x, y) {
                x.clone()
            } else {
                self.builder.variable(None, Origin::Cast)
            }
        });
        let dims = dims.collect();
        let dtype = self.builder.dtype(from);
        let target = self.builder.add(dims, dtype, Content::Computed);
        casts.push(Line::Cast { target, from });
        target
    }
}
