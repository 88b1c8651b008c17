//! A device that notes what it is asked for, and has another one do it.

use relax_cuda::{Device, Error, Form, Product};
use relax_emit::cuda::Sizes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a device was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Upload(usize),
    /// The host waits.
    Download(usize),
    Copy,
    Fill,
    Launch,
    Multiply,
    Begin,
    End,
    Replay,
}

/// All of it, in order; and what the device is made to say of stops, if anything.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<Event>>>, Arc<Mutex<Option<u32>>>);

impl Events {
    /// From now on each word that is downloaded alone is this one.
    pub(super) fn claim(&self, word: u32) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(word);
    }

    fn push(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// What came since this was asked last.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The device.
pub(super) struct Counted<D> {
    pub(super) device: D,
    pub(super) events: Events,
}

impl<D: Device> Device for Counted<D> {
    type Graph = D::Graph;

    /// Nobody may rely on what is in new memory.
    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let address = self.device.allocate(bytes)?;
        self.device.fill(address, 0x5a, bytes)?;
        Ok(address)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        self.device.release(address)
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.events.push(Event::Upload(bytes.len()));
        self.device.upload(address, bytes)
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.events.push(Event::Download(bytes.len()));
        self.device.download(address, bytes)?;
        let is_word = bytes.len() == 4;
        let claimed = *self.events.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(claimed), Some(word)) = (claimed, bytes.first_chunk_mut::<4>())
            && is_word
        {
            *word = claimed.to_ne_bytes();
        }
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.events.push(Event::Copy);
        self.device.copy(from, to, bytes)
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.events.push(Event::Fill);
        self.device.fill(address, byte, bytes)
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        self.events.push(Event::Launch);
        self.device.launch(symbol, sizes, arguments)
    }

    fn multiplies(&self, form: &Form) -> bool {
        self.device.multiplies(form)
    }

    fn multiply(&self, product: &Product) -> Result<(), Error> {
        self.events.push(Event::Multiply);
        self.device.multiply(product)
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.events.push(Event::Begin);
        self.device.begin_capture()
    }

    fn end_capture(&self) -> Result<D::Graph, Error> {
        self.events.push(Event::End);
        self.device.end_capture()
    }

    fn replay(&self, graph: &D::Graph) -> Result<(), Error> {
        self.events.push(Event::Replay);
        self.device.replay(graph)
    }

    fn start_clock(&self) -> Result<(), Error> {
        self.device.start_clock()
    }

    fn read_clock(&self) -> Result<Duration, Error> {
        self.device.read_clock()
    }
}
