//! Buffers of a program's own on a device: small ones of known size belong to a thread or lie in shared memory; all
//! others are memory that the host finds before it launches, once, or once for each block or thread.

use super::{ALIGNED, Begins, Per, Place, Workspace};
use crate::allocation::constant_count;
use crate::dtypes;
use crate::outline::total;
use crate::printer::Printer;
use relax_syntax::ir::tensor::BufferId;
use relax_tir::workspaces::is_workspace;

/// Shared memory of a function that needs no leave.
const SHARED: i64 = 48 << 10;
/// Memory of one thread, in registers or beside.
const LOCAL: i64 = 4 << 10;

impl Printer<'_, '_> {
    /// Memory for a buffer at its allocation; what watches it is cleared there.
    pub(crate) fn device_memory(&mut self, buffer: BufferId) {
        let info = self.program.buffer(buffer);
        let (of, size) = (dtypes::stored(info.dtype), info.dtype.size());
        let name = self.buffers[&buffer].clone();
        self.device_array(buffer, of, &name, size);
        let Some(map) = self.watched.get(&buffer).cloned() else { return };
        self.device_array(buffer, "uint8_t", &map, 1);
        let count = total(&self.extent_names(buffer));
        let at = self.names.fresh("at");
        match self.cuda().place {
            Place::Program => {}
            Place::Block => {
                self.line("__syncthreads();");
                self.line(&format!(
                    "for (int64_t {at} = rx_thread(); {at} < {count}; {at} += rx_threads()) {map}[{at}] = 0;"
                ));
                self.cuda().dirty = true;
            }
            Place::Thread => {
                self.line(&format!(
                    "for (int64_t {at} = 0; {at} < {count}; {at}++) {map}[{at}] = 0;"
                ));
            }
        }
    }

    pub(super) fn device_array(&mut self, buffer: BufferId, of: &str, name: &str, size: usize) {
        let shape = self.program.buffer(buffer).shape.clone();
        let bytes = constant_count(&shape)
            .and_then(|count| count.checked_mul(i64::try_from(size).ok()?))
            .filter(|bytes| *bytes <= SHARED)
            .map(|bytes| (bytes + ALIGNED) / ALIGNED * ALIGNED);
        let count = constant_count(&shape).unwrap_or(1).max(1);
        let place = self.cuda().place;
        if let Some(bytes) = bytes {
            if place == Place::Block && self.cuda().shared + bytes <= SHARED {
                self.cuda().shared += bytes;
                // Neighbouring elements may be loaded at once.
                self.declared.push(format!("alignas({ALIGNED}) __shared__ {of} {name}[{count}];"));
                return;
            }
            if place == Place::Thread && self.stack + bytes <= LOCAL {
                self.stack += bytes;
                self.declared.push(format!("{of} {name}[{count}];"));
                return;
            }
        }
        let launch = self.cuda().launch;
        let (per, number) = match place {
            Place::Program => (Per::Program, None),
            Place::Block => (Per::Block(launch), Some("rx_block()")),
            Place::Thread => {
                (Per::Thread(launch), Some("(rx_block() * rx_threads() + rx_thread())"))
            }
        };
        let parameter = match number {
            None => name.to_owned(),
            Some(number) => {
                let all = self.names.fresh(&format!("{name}_all"));
                let count = total(&self.extent_names(buffer));
                self.declared.push(format!("{of} *const {name} = {all} + {number} * ({count});"));
                all
            }
        };
        let is_map = per == Per::Program && name != self.buffers[&buffer];
        let mut params = self.program.buffer_params();
        let given = params.position(|param| param == buffer && !is_workspace(self.program, param));
        let begins = match given {
            _ if !is_map => Begins::Open,
            None => Begins::Cleared,
            Some(at) => Begins::Given(at),
        };
        let cuda = self.cuda();
        cuda.parameters.push((format!("{of} *"), parameter));
        cuda.workspaces.push(Workspace { buffer, shape, size, per, begins });
    }
}
