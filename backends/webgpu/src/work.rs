//! What a device is given to do: commands are gathered and submitted together, as late as something is read or brought there;
//! buffers that nobody has any more are taken again.

use crate::Launch;
use crate::device::{Device, Pipelines};
use std::collections::BTreeMap;

/// Bytes of buffers that wait to be taken again.
const WAITING: u64 = 256 << 20;
/// Launches that are submitted together at most: systems end a device's work that takes seconds.
const GATHERED: usize = 256;
/// Bytes that are brought to the device between two submissions at most, as they are copied once more until then.
const BROUGHT: u64 = 256 << 20;
/// Uniform buffers that are kept.
const GIVEN: usize = 1024;
/// From this size on buffers are made in steps of it.
const STEP: u64 = 1 << 20;

/// Commands that are not submitted, and buffers that are not used.
#[derive(Default)]
pub(crate) struct Work {
    encoder: Option<wgpu::CommandEncoder>,
    gathered: usize,
    brought: u64,
    /// Buffers that nothing uses.
    free: Waiting,
    /// Those that commands which are gathered may still use: only for commands after them.
    used: Waiting,
    /// What launches are given, by its words: calls with the dims of an earlier one find it there.
    given: BTreeMap<Vec<i32>, wgpu::Buffer>,
    status: Option<wgpu::Buffer>,
    /// How often something was submitted since somebody asked.
    pub(crate) submissions: usize,
}

/// Buffers that wait to be taken again, by their sizes.
#[derive(Default)]
struct Waiting {
    of: BTreeMap<u64, Vec<wgpu::Buffer>>,
    bytes: u64,
}

impl Waiting {
    fn take(&mut self, size: u64) -> Option<wgpu::Buffer> {
        let buffer = self.of.get_mut(&size)?.pop()?;
        self.bytes -= size;
        Some(buffer)
    }

    fn give(&mut self, buffer: wgpu::Buffer) {
        if self.bytes + buffer.size() <= WAITING {
            self.bytes += buffer.size();
            self.of.entry(buffer.size()).or_default().push(buffer);
        }
    }
}

/// Part of a buffer that is copied.
pub(crate) struct Copy<'b> {
    pub(crate) from: &'b wgpu::Buffer,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

fn rounded(bytes: u64) -> u64 {
    if bytes < STEP { bytes.max(256).next_power_of_two() } else { bytes.next_multiple_of(STEP) }
}

impl Work {
    /// A buffer that is waiting and has room for this many bytes, whatever it holds, for commands.
    pub(crate) fn reuse(&mut self, bytes: u64) -> Option<wgpu::Buffer> {
        let size = rounded(bytes);
        self.used.take(size).or_else(|| self.free.take(size))
    }

    /// A buffer that has room for this many bytes.
    pub(crate) fn take(&mut self, device: &Device, bytes: u64) -> wgpu::Buffer {
        self.reuse(bytes).unwrap_or_else(|| device.storage(rounded(bytes)))
    }

    /// Nobody has the buffer any more but commands that are gathered.
    pub(crate) fn give_back(&mut self, buffer: wgpu::Buffer) {
        self.used.give(buffer);
    }

    /// A buffer that begins with these bytes. They are there before anything that is gathered, which does not use the buffer.
    pub(crate) fn upload(&mut self, device: &Device, bytes: &[u8]) -> wgpu::Buffer {
        let length = bytes.len() as u64;
        if self.brought + length > BROUGHT {
            self.submit(device);
        }
        self.brought += length;
        let size = rounded(length);
        let buffer = self.free.take(size).unwrap_or_else(|| device.storage(size));
        device.write(&buffer, bytes);
        buffer
    }

    /// Where commands are gathered.
    pub(crate) fn encoder(&mut self, device: &Device) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| device.encoder())
    }

    /// Has the device begin with what is gathered.
    pub(crate) fn submit(&mut self, device: &Device) {
        if let Some(encoder) = self.encoder.take() {
            device.submit(encoder);
            self.submissions += 1;
            (self.gathered, self.brought) = (0, 0);
        }
        let used = std::mem::take(&mut self.used);
        used.of.into_values().flatten().for_each(|buffer| self.free.give(buffer));
    }

    /// Gathers a launch on buffers of these many bytes, one for each binding.
    pub(crate) fn dispatch(
        &mut self,
        device: &Device,
        pipelines: &Pipelines,
        launch: &Launch,
        bound: &[(wgpu::Buffer, u64)],
    ) {
        if self.given.len() >= GIVEN {
            self.given.clear();
        }
        let given = match self.given.get(&launch.words) {
            Some(known) => known.clone(),
            None => {
                let fresh = device.uniform(&launch.words);
                self.given.insert(launch.words.clone(), fresh.clone());
                fresh
            }
        };
        let status = self.status(device);
        let group = device.group(pipelines, &given, &status, bound);
        device.encode(self.encoder(device), pipelines, launch, &group);
        self.gathered += 1;
        if self.gathered >= GATHERED {
            self.submit(device);
        }
    }

    fn status(&mut self, device: &Device) -> wgpu::Buffer {
        self.status.get_or_insert_with(|| device.storage(4)).clone()
    }

    /// Before a launch that may stop.
    pub(crate) fn clear_status(&mut self, device: &Device) {
        let status = self.status(device);
        self.encoder(device).clear_buffer(&status, 0, None);
    }

    /// Whether what was launched since then stopped.
    pub(crate) fn stopped(&mut self, device: &Device) -> Result<bool, String> {
        let status = self.status(device);
        let word = self.download(device, &Copy { from: &status, at: 0, bytes: 4 })?;
        Ok(word != [0; 4])
    }

    /// Submits, waits, and gives what a buffer holds then.
    pub(crate) fn download(&mut self, device: &Device, what: &Copy<'_>) -> Result<Vec<u8>, String> {
        let copy = device.readable(what.bytes);
        self.encoder(device).copy_buffer_to_buffer(what.from, what.at, &copy, 0, what.bytes);
        self.submit(device);
        device.read(&copy)
    }
}
