//! What collectives make of layouts.

use super::{Comparison, Held, Layout};
use relax_semantics::ops::{Operator, Placed, placed};
use relax_syntax::Name;
use relax_syntax::annotation::Placement;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

impl Comparison<'_> {
    /// What a collective gives.
    ///
    /// # Errors
    /// Why it is none of this mesh.
    pub(super) fn collective(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<Vec<Held>, String> {
        let Some(Atom::Var(of)) = args.first() else {
            return Err("it is not called on a variable".to_owned());
        };
        let mut found = Vec::new();
        for (value, mut layout) in self.held(*of) {
            let (dims, _) = self.one.tensor(value).ok_or("it moves what is no tensor")?;
            let call = placed(row, args, attrs, dims.len())?;
            if !matches!(call.input, Atom::Var(input) if input == of) {
                return Err("its operand is not its first argument".to_owned());
            }
            let axis = self.group(&call)?;
            if self.stage.iter().any(|(own, _)| *own == axis) {
                return Err("other workers of its axis do not take part".to_owned());
            }
            let is_whole = match (call.from, call.extent) {
                (Placement::Sharded(joined), Some(extent)) => self.is_equal(extent, &dims[joined]),
                (Placement::Only(_), Some(rows)) => {
                    let whole = |own: &Placement| match own {
                        Placement::Only(_) => Placement::Replicated,
                        other => *other,
                    };
                    let on_worker: Layout = layout.iter().map(whole).collect();
                    let dims = self.world.local(&dims, &on_worker);
                    self.is_equal(rows, dims.first().unwrap_or(&Dim::Int(1)))
                }
                _ => true,
            };
            if layout[axis] == self.world.plain(axis, call.from) && is_whole {
                layout[axis] = self.world.plain(axis, call.to);
                // Another axis of the mesh that cuts the same axis of the tensor would cut what is cut already.
                if self.world.is_legal(&layout) {
                    found.push((value, layout));
                }
            }
        }
        Ok(found)
    }

    /// The axis of the mesh along which a collective works.
    fn group(&self, call: &Placed) -> Result<usize, String> {
        let world = self.world;
        let axis = world.axis_of(call.rank).ok_or("its rank is not that of an axis")?;
        if *call.workers != world.workers[axis] {
            return Err("it has another number of workers than its axis".to_owned());
        }
        match call.along {
            Some((mesh, own))
                if mesh != world.mesh.as_str() || own.as_int() != i64::try_from(axis).ok() =>
            {
                Err("its rank is not that of its axis of the mesh".to_owned())
            }
            _ => Ok(axis),
        }
    }
}
