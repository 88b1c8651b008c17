//! What a device is asked to do, in order. Between [`Queue::begin`] and [`Queue::end`] it is only noted, and done at the end: at
//! once as a graph, if the very same was done before, in the same memory with the same sizes; else step by step, and recorded
//! for the next time (paper, §4.5: "only the first run of a subgraph function triggers CUDA Graph capture"). What the host
//! waits for, or brings, cannot be noted: all that was noted before is then done first, and the graph begins anew behind it.

use crate::{Device, Error, Form, Product};
use relax_emit::cuda::Sizes;
use std::sync::Arc;
use std::time::Duration;

/// Graphs that are kept; of more, the one that was not used for longest goes.
const GRAPHS: usize = 64;
/// Steps below which a graph saves nothing.
const FEWEST: usize = 2;

/// Something that a device can record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Fill { address: u64, byte: u8, bytes: usize },
    Copy { from: u64, to: u64, bytes: usize },
    Launch { symbol: Arc<str>, sizes: Sizes, arguments: Vec<u64> },
    Multiply(Product),
}

/// A device, and what it is to do.
pub(crate) struct Queue<D: Device> {
    /// The steps of each, and what the device recorded of them; none where it could not. The last used last.
    graphs: Vec<(Vec<Step>, Option<D::Graph>)>,
    noted: Vec<Step>,
    is_noting: bool,
    /// Whether each call of a kernel is timed; then nothing is noted.
    is_timed: bool,
    device: D,
}

impl<D: Device> Queue<D> {
    pub(crate) fn new(device: D) -> Self {
        Self { graphs: Vec::new(), noted: Vec::new(), is_noting: false, is_timed: false, device }
    }

    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.is_noting = !self.is_timed;
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.is_noting = false;
        if self.noted.len() < FEWEST {
            return self.flush();
        }
        let steps = std::mem::take(&mut self.noted);
        if let Some(at) = self.graphs.iter().position(|(known, _)| *known == steps) {
            let known = self.graphs.remove(at);
            let done = match &known.1 {
                Some(graph) => self.device.replay(graph),
                None => self.all(&steps),
            };
            self.graphs.push(known);
            return done;
        }
        // Done before it is recorded: a function may have to be loaded, which cannot be recorded.
        self.all(&steps)?;
        let graph = self.capture(&steps);
        if self.graphs.len() >= GRAPHS {
            self.graphs.remove(0);
        }
        self.graphs.push((steps, graph));
        Ok(())
    }

    pub(crate) fn measure(&mut self) {
        self.is_timed = true;
    }

    /// Starts the clock of the device, if calls are timed.
    pub(crate) fn start_clock(&mut self) -> Result<(), Error> {
        if self.is_timed { self.device.start_clock() } else { Ok(()) }
    }

    /// What was asked for since, on the device.
    pub(crate) fn read_clock(&mut self) -> Result<Option<Duration>, Error> {
        self.is_timed.then(|| self.device.read_clock()).transpose()
    }

    /// None where the device cannot: then the steps are done one by one each time.
    fn capture(&self, steps: &[Step]) -> Option<D::Graph> {
        self.device.begin_capture().ok()?;
        let recorded = self.all(steps);
        let graph = self.device.end_capture();
        recorded.and(graph).ok()
    }

    pub(crate) fn step(&mut self, step: Step) -> Result<(), Error> {
        if self.is_noting {
            self.noted.push(step);
            return Ok(());
        }
        self.one(&step)
    }

    /// Does what was noted.
    fn flush(&mut self) -> Result<(), Error> {
        let steps = std::mem::take(&mut self.noted);
        self.all(&steps)
    }

    fn all(&self, steps: &[Step]) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.one(step))
    }

    fn one(&self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Fill { address, byte, bytes } => self.device.fill(*address, *byte, *bytes),
            Step::Copy { from, to, bytes } => self.device.copy(*from, *to, *bytes),
            Step::Launch { symbol, sizes, arguments } => {
                self.device.launch(symbol, sizes, arguments)
            }
            Step::Multiply(product) => self.device.multiply(product),
        }
    }

    pub(crate) fn multiplies(&self, form: &Form) -> bool {
        self.device.multiplies(form)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.device.allocate(bytes)
    }

    /// The device, whatever was asked of it.
    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Has the device do what cannot be noted, behind all that was asked for.
    pub(crate) fn direct<R>(
        &mut self,
        ask: impl FnOnce(&D) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.flush()?;
        ask(&self.device)
    }

    /// The memory may be that of steps that were noted, and of graphs: those are forgotten.
    pub(crate) fn release(&mut self, address: u64) -> Result<(), Error> {
        self.flush()?;
        self.graphs.clear();
        self.device.release(address)
    }

    pub(crate) fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.flush()?;
        self.device.upload(address, bytes)
    }

    pub(crate) fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.flush()?;
        self.device.download(address, bytes)
    }
}
