//! Buffers of a program's own: small ones of known size on the stack, others fresh on the heap.

use crate::OUT_OF_MEMORY;
use crate::dtypes;
use crate::outline::Shared;
use crate::printer::Printer;
use relax_semantics::tir::ranges::is_proved;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::BufferId;

/// Bytes of one kernel on the stack, in all.
const STACK: i64 = 16 << 10;

impl Printer<'_, '_> {
    pub(crate) fn alloc(&mut self, buffer: BufferId) {
        if self.forwarded.contains(&buffer) {
            return;
        }
        if self.is_cuda() {
            return self.device_memory(buffer);
        }
        let info = self.program.buffer(buffer);
        let of = dtypes::stored(info.dtype);
        let name = self.buffers[&buffer].clone();
        let size = i64::try_from(info.dtype.size()).expect("invariant: an element has few bytes");
        if let Some(count) = constant_count(&info.shape)
            && count.checked_mul(size).is_some_and(|bytes| self.stack + bytes <= STACK)
        {
            self.stack += count * size;
            let line = format!("_Alignas(64) {of} {name}[{}];", count.max(1));
            self.declared.push(line);
            self.shared.push(Shared { of: format!("{of} *restrict"), name });
            self.watch_stack(buffer, count);
            return;
        }
        self.heap(buffer, of, &name, size);
    }

    fn watch_stack(&mut self, buffer: BufferId, count: i64) {
        if let Some(map) = self.watched.get(&buffer).cloned() {
            self.declared.push(format!("uint8_t {map}[{}];", count.max(1)));
            self.share("uint8_t *restrict", &map);
            self.line(&format!("memset({map}, 0, sizeof {map});"));
        }
    }

    fn heap(&mut self, buffer: BufferId, of: &str, name: &str, size: i64) {
        let info = self.program.buffer(buffer);
        for (axis, dim) in info.shape.iter().enumerate() {
            if matches!(dim, Dim::Op(..)) {
                self.extent(buffer, axis, dim);
            }
        }
        for (axis, dim) in info.shape.iter().enumerate() {
            self.not_negative(buffer, axis, dim);
        }
        let extents = self.extent_names(buffer);
        let bytes = self.names.fresh(&format!("{}_bytes", info.name));
        self.line(&format!("int64_t {bytes};"));
        let shape = if extents.is_empty() { "0".to_owned() } else { extents.join(", ") };
        let list = format!("(const int64_t[]){{{shape}}}");
        let message = format!("the buffer `{}` takes more memory than there is", info.name);
        let beyond = format!("rx_bytes(&{bytes}, {}, {list}, {size})", extents.len());
        self.stop_if(&beyond, OUT_OF_MEMORY, message.clone());
        self.owns(of, name, &bytes, message.clone());
        if let Some(map) = self.watched.get(&buffer).cloned() {
            let count = format!("{bytes} / {size}");
            self.owns("uint8_t", &map, &count, message);
            self.line(&format!("memset({map}, 0, {count});"));
        }
    }

    fn owns(&mut self, of: &str, name: &str, bytes: &str, message: String) {
        self.declared.push(format!("{of} *{name} = NULL;"));
        self.owned.push(name.to_owned());
        self.shared.push(Shared { of: format!("{of} *restrict"), name: name.to_owned() });
        self.line(&format!("{name} = rx_fresh({name}, {bytes});"));
        self.stop_if(&format!("{name} == NULL"), OUT_OF_MEMORY, message);
    }

    /// An extent that is an expression: evaluated step by step, as each may leave i64.
    fn extent(&mut self, buffer: BufferId, axis: usize, dim: &Dim) {
        let name = &self.program.buffer(buffer).name;
        let wish = format!("{name}_d{axis}");
        let message = format!("a dim of `{name}` leaves the range of i64 or divides by zero");
        let site = self.site("tir/overflow", message);
        let mut lines = Vec::new();
        let stop = format!("{{ status = {site}; goto done; }}");
        let value = self.checked_dim(dim, &stop, &mut lines);
        self.may_stop |= !lines.is_empty();
        lines.iter().for_each(|line| self.line(line));
        let own = self.names.fresh(&wish);
        self.line(&format!("const int64_t {own} = {value};"));
        self.shared.push(Shared { of: "int64_t".to_owned(), name: own.clone() });
        self.computed.insert((buffer, axis), own);
    }

    fn not_negative(&mut self, buffer: BufferId, axis: usize, dim: &Dim) {
        if is_proved(self.facts, &Claim::new(0, Relation::AtMost, dim.clone())) {
            return;
        }
        let text = self.extent_names(buffer)[axis].clone();
        let name = &self.program.buffer(buffer).name;
        let message = format!("a dim of `{name}` is negative");
        self.stop_if(&format!("{text} < 0"), "shape/negative", message);
    }
}

pub(crate) fn constant_count(shape: &[Dim]) -> Option<i64> {
    shape.iter().try_fold(1_i64, |count, dim| {
        count.checked_mul(dim.as_int().filter(|extent| *extent >= 0)?)
    })
}
