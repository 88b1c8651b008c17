//! Calls of kernels on tensors that lie on the device. An input that is there already is not brought there again; what a
//! kernel writes stays until the machine settles it ([`relax_runtime::Kernels::settle`]). Kernels that cannot stop are only
//! gathered. After one that can, its status is waited for; it writes to copies, so that what it was called with is still
//! there for the interpreter.

use crate::device::{Device, Pipelines};
use crate::dtypes;
use crate::elements::{narrowed, widened};
use crate::work::{Copy, Work};
use crate::{Binding, Content, Kernel, Launch, Part};
use relax_runtime::{Mirrors, TensorArg};
use relax_syntax::dtype::DType;

/// A call of a kernel.
pub(crate) struct Call<'c> {
    pub(crate) device: &'c Device,
    pub(crate) kernel: &'c Kernel,
    pub(crate) pipelines: &'c Pipelines,
    pub(crate) launch: &'c Launch,
    pub(crate) tensors: &'c [TensorArg<'c>],
    /// Which of them it does not write to.
    pub(crate) inputs: &'c [bool],
    /// Of each a byte for each element, 1 if something was written to it; without them a tensor was written as a whole or not at all.
    pub(crate) maps: Option<&'c [Vec<u8>]>,
}

/// What became of a launch.
pub(crate) enum Ran {
    Stopped,
    /// The tensors are written; where there are maps, those of tensors that it writes to are what they are now.
    Whole(Vec<(usize, Vec<u8>)>),
}

/// What lies on a device, and what it is to do.
#[derive(Default)]
pub(crate) struct Resident {
    work: Work,
    mirrors: Mirrors<wgpu::Buffer>,
}

/// The buffer of a binding.
struct Bound {
    buffer: wgpu::Buffer,
    bytes: u64,
    /// Whether it is this call's alone.
    is_own: bool,
}

impl Call<'_> {
    fn may_stop(&self) -> bool {
        self.device.may_stop(self.kernel, self.launch)
    }
}

impl Resident {
    /// Launches a kernel.
    pub(crate) fn run(&mut self, call: &Call<'_>) -> Result<Ran, String> {
        let mut bound = Vec::new();
        for (binding, sizes) in call.kernel.bindings.iter().zip(&call.launch.sizes) {
            bound.push(self.bind(call, binding, sizes));
        }
        let buffers: Vec<(wgpu::Buffer, u64)> =
            bound.iter().map(|bound| (bound.buffer.clone(), bound.bytes)).collect();
        let device = call.device;
        if call.may_stop() {
            self.work.clear_status(device);
        }
        self.work.dispatch(device, call.pipelines, call.launch, &buffers);
        if call.may_stop() && self.work.stopped(device)? {
            let own = bound.into_iter().filter(|bound| bound.is_own);
            own.for_each(|bound| self.work.give_back(bound.buffer));
            return Ok(Ran::Stopped);
        }
        let mut maps = Vec::new();
        for ((binding, sizes), bound) in
            call.kernel.bindings.iter().zip(&call.launch.sizes).zip(bound)
        {
            self.keep(call, (binding, sizes), bound, &mut maps)?;
        }
        Ok(Ran::Whole(maps))
    }

    /// How often something was submitted since this was asked last.
    pub(crate) fn take_submissions(&mut self) -> usize {
        std::mem::take(&mut self.work.submissions)
    }

    /// A buffer of this call's own. Before one is made, those of tensors that are gone are looked at.
    fn fresh(&mut self, device: &Device, bytes: u64) -> wgpu::Buffer {
        if let Some(buffer) = self.work.reuse(bytes) {
            return buffer;
        }
        let mut gone = Vec::new();
        self.mirrors.purge(&mut gone);
        gone.into_iter().for_each(|buffer| self.work.give_back(buffer));
        self.work.take(device, bytes)
    }

    fn bind(&mut self, call: &Call<'_>, binding: &Binding, sizes: &[u64]) -> Bound {
        let bytes = sizes.iter().sum::<u64>() * 4;
        if let ([part], true) = (binding.parts.as_slice(), !binding.is_written)
            && let Content::Parameter(at) = part.content
            && call.tensors[at].is_written()
        {
            let (buffer, is_own) = self.held(call, at, bytes);
            return Bound { buffer, bytes, is_own };
        }
        // One that cannot stop writes to the tensor where it is.
        if let [Part { content: Content::Parameter(at), .. }] = binding.parts.as_slice()
            && !call.may_stop()
            && call.tensors[*at].is_written()
            && let Some(buffer) = self.mirrors.remove(&call.tensors[*at])
        {
            return Bound { buffer, bytes, is_own: true };
        }
        let buffer = self.fresh(call.device, bytes);
        let mut at = 0;
        for (part, size) in binding.parts.iter().zip(sizes) {
            self.fill(call, part, &buffer, (at, size * 4));
            at += size * 4;
        }
        Bound { buffer, bytes, is_own: true }
    }

    /// Brings what a part holds before the launch to its place in a buffer.
    fn fill(&mut self, call: &Call<'_>, part: &Part, to: &wgpu::Buffer, (at, bytes): (u64, u64)) {
        let device = call.device;
        match part.content {
            Content::Parameter(number) if call.tensors[number].is_written() => {
                let (from, is_own) = self.held(call, number, bytes);
                self.work.encoder(device).copy_buffer_to_buffer(&from, 0, to, at, bytes);
                if is_own {
                    self.work.give_back(from);
                }
            }
            Content::Given(number) if call.maps.is_some() || call.tensors[number].is_written() => {
                let mut words: Vec<u8> = match call.maps {
                    Some(maps) => widened(DType::U8, maps[number].clone(), device.formats()),
                    None => (0..bytes / 4).flat_map(|_| 1_u32.to_ne_bytes()).collect(),
                };
                words.resize(usize::try_from(bytes).unwrap_or(0), 0);
                let from = self.work.upload(device, &words);
                self.work.encoder(device).copy_buffer_to_buffer(&from, 0, to, at, bytes);
                self.work.give_back(from);
            }
            // What was not written may be anything, but is the same in every run.
            _ => self.work.encoder(device).clear_buffer(to, at, Some(bytes)),
        }
    }

    /// A tensor on the device, brought there if it is not; whether the buffer is this call's own.
    fn held(&mut self, call: &Call<'_>, at: usize, bytes: u64) -> (wgpu::Buffer, bool) {
        let tensor = &call.tensors[at];
        if let Some(mirror) = self.mirrors.of(tensor) {
            return (mirror.buffer.clone(), false);
        }
        let mut contents = widened(dtype_of(tensor), tensor.to_bytes(), call.device.formats());
        contents.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let buffer = self.work.upload(call.device, &contents);
        if tensor.memory().is_none() || tensor.length() == 0 {
            return (buffer, true);
        }
        let mut gone = Vec::new();
        self.mirrors.put(tensor, (buffer.clone(), false), &mut gone);
        gone.into_iter().for_each(|buffer| self.work.give_back(buffer));
        (buffer, false)
    }

    /// After a launch: what was written belongs to its tensors, and maps are brought back.
    fn keep(
        &mut self,
        call: &Call<'_>,
        (binding, sizes): (&Binding, &[u64]),
        bound: Bound,
        maps: &mut Vec<(usize, Vec<u8>)>,
    ) -> Result<(), String> {
        if !bound.is_own {
            return Ok(());
        }
        if let [part] = binding.parts.as_slice()
            && let Content::Parameter(at) = part.content
            && !call.inputs[at]
        {
            return self.keep_tensor(call, at, (bound.buffer, bound.bytes));
        }
        let mut begin = 0;
        for (part, size) in binding.parts.iter().zip(sizes) {
            if let Content::Parameter(at) = part.content
                && !call.inputs[at]
            {
                let to = self.fresh(call.device, size * 4);
                let encoder = self.work.encoder(call.device);
                encoder.copy_buffer_to_buffer(&bound.buffer, begin, &to, 0, size * 4);
                self.keep_tensor(call, at, (to, size * 4))?;
            }
            if let (Content::Given(at), Some(before)) = (&part.content, call.maps)
                && !call.inputs[*at]
            {
                let what = Copy { from: &bound.buffer, at: begin, bytes: size * 4 };
                let words = self.work.download(call.device, &what)?;
                maps.push((
                    *at,
                    narrowed(DType::U8, words, before[*at].len(), call.device.formats()),
                ));
            }
            begin += size * 4;
        }
        self.work.give_back(bound.buffer);
        Ok(())
    }

    fn keep_tensor(
        &mut self,
        call: &Call<'_>,
        at: usize,
        (buffer, bytes): (wgpu::Buffer, u64),
    ) -> Result<(), String> {
        let tensor = &call.tensors[at];
        let mut gone = Vec::new();
        if tensor.memory().is_none() {
            let held = self.work.download(call.device, &Copy { from: &buffer, at: 0, bytes })?;
            let written = tensor.write(&narrowed(
                dtype_of(tensor),
                held,
                tensor.length(),
                call.device.formats(),
            ));
            written.map_err(|trap| format!("{trap:?}"))?;
            gone.push(buffer);
        } else {
            self.mirrors.put(tensor, (buffer, true), &mut gone);
        }
        gone.into_iter().for_each(|buffer| self.work.give_back(buffer));
        Ok(())
    }

    /// Something else than the device writes to a tensor.
    pub(crate) fn forget(&mut self, tensor: &TensorArg<'_>) {
        let mut gone = Vec::new();
        self.mirrors.forget(tensor, &mut gone);
        gone.into_iter().for_each(|buffer| self.work.give_back(buffer));
    }

    /// Brings a tensor to where the machine has it.
    pub(crate) fn settle(&mut self, device: &Device, tensor: &TensorArg<'_>) -> Result<(), String> {
        let dtype = dtype_of(tensor);
        let Some(mirror) = self.mirrors.of(tensor).filter(|mirror| mirror.is_newer) else {
            return Ok(());
        };
        mirror.is_newer = false;
        let from = mirror.buffer.clone();
        let elements = (tensor.length() / dtype.size()) as u64;
        let words = dtypes::words(dtype, elements, device.formats());
        let held = self.work.download(device, &Copy { from: &from, at: 0, bytes: words * 4 })?;
        tensor
            .settle(&narrowed(dtype, held, tensor.length(), device.formats()))
            .map_err(|trap| format!("{trap:?}"))
    }
}

fn dtype_of(tensor: &TensorArg<'_>) -> DType {
    DType::parse(tensor.dtype().name()).expect("invariant: both have the same dtypes")
}
