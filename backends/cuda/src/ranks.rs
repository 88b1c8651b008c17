//! The devices of the ranks of one process: which of them failed, and the communicators between them.
//!
//! A rank that fails says so to all. Others that wait for it, for a communicator or for the device to be done, give up: they look at what
//! was said while they wait, and each of them ends its own communicators.
#![allow(unsafe_code)] // the driver is called: each block says why it may be

use crate::driver::{Event, Stream, said};
use crate::nccl::{Handle, Nccl, UniqueId};
use crate::{Error, Group, Nvrtc};
use cudarc::driver::result::event;
use cudarc::driver::sys::CUresult;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a rank that waits looks away at most.
const PAUSE: Duration = Duration::from_micros(200);

/// What all ranks of a run share.
pub(crate) struct Clique {
    nccl: Nccl,
    state: Mutex<State>,
    changed: Condvar,
    /// What was compiled for an architecture.
    codes: Mutex<Codes>,
}

/// By architecture and text.
type Codes = BTreeMap<(String, String), Arc<[u8]>>;

/// A group of ranks: the axis, the first and the last of them, and how many there are.
type Key = (usize, usize, usize, usize);

#[derive(Default)]
struct State {
    ids: BTreeMap<Key, UniqueId>,
    /// How often the ranks of a group have asked for something, all together.
    asked: BTreeMap<Key, usize>,
    failed: Option<String>,
}

/// What a rank has of it.
pub(crate) struct Links {
    clique: Arc<Clique>,
    rank: usize,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    communicators: BTreeMap<Key, Communicator>,
    /// Behind the last collective; none once it was waited for.
    last: Option<Event>,
}

/// With how often something was asked of it.
#[derive(Clone, Copy)]
struct Communicator(Handle, usize);

// SAFETY: the library allows every call from every thread; one at a time is made, behind a lock.
unsafe impl Send for Communicator {}

fn key(group: &Group) -> Key {
    (group.axis, group.first, group.last, group.size)
}

impl Clique {
    /// Of a library that is there.
    pub(crate) fn new() -> Result<Arc<Self>, Error> {
        let (nccl, changed) = (Nccl::find()?, Condvar::new());
        Ok(Arc::new(Self { nccl, state: Mutex::default(), changed, codes: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: &str) {
        self.state().failed.get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
    }

    /// That no rank failed.
    fn fine(&self) -> Result<(), Error> {
        match &self.state().failed {
            None => Ok(()),
            Some(why) => Err(Error::Rank(why.clone())),
        }
    }

    /// By which the ranks of a group find each other.
    fn id(&self, group: &Group) -> Result<UniqueId, Error> {
        let mut state = self.state();
        if let Some(known) = state.ids.get(&key(group)) {
            return Ok(*known);
        }
        let id = self.nccl.unique_id()?;
        state.ids.insert(key(group), id);
        Ok(id)
    }

    /// Waits until all ranks of a group have asked for this one, the `number`-th: memory of a device is not taken or given back while another
    /// one has to ask yet, since a driver may wait for all devices there.
    fn all_asked(&self, group: &Group, number: usize) -> Result<(), Error> {
        let mut state = self.state();
        *state.asked.entry(key(group)).or_default() += 1;
        self.changed.notify_all();
        loop {
            if let Some(why) = &state.failed {
                return Err(Error::Rank(why.clone()));
            }
            if state.asked.get(&key(group)).is_some_and(|asked| *asked >= number * group.size) {
                return Ok(());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Polls until it is so, or a rank has failed.
    fn poll(&self, mut is_so: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        let mut pause = Duration::from_micros(1);
        while !is_so()? {
            self.fine()?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
        Ok(())
    }
}

impl Links {
    pub(crate) fn new(clique: &Arc<Clique>, rank: usize) -> Self {
        Self { clique: Arc::clone(clique), rank, own: Mutex::default() }
    }

    /// A text, compiled once for all ranks whose devices are alike.
    pub(crate) fn code(&self, text: &str, architecture: &str) -> Result<Arc<[u8]>, Error> {
        let mut codes = self.clique.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (architecture.to_owned(), text.to_owned());
        if let Some(known) = codes.get(&key) {
            return Ok(Arc::clone(known));
        }
        let code: Arc<[u8]> = Nvrtc::find()?.compile(text, architecture)?.into();
        codes.insert(key, Arc::clone(&code));
        Ok(code)
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for something that all ranks of a group ask for.
    pub(crate) fn ask(
        &self,
        group: &Group,
        stream: &Stream,
        what: impl FnOnce(&Nccl, Handle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut own = self.own();
        let (clique, nccl) = (&*self.clique, &self.clique.nccl);
        let asked = clique.fine().and_then(|()| {
            let Communicator(handle, number) = self.communicator(&mut own, group)?;
            nccl.grouped(|| what(nccl, handle))?;
            // Until then nothing may be asked of the stream.
            clique.poll(|| nccl.is_idle(handle))?;
            own.last = Some(Event::of(stream)?);
            clique.all_asked(group, number)
        });
        asked.map_err(|error| self.failed(&mut own, error))
    }

    fn communicator(&self, own: &mut Own, group: &Group) -> Result<Communicator, Error> {
        let (clique, nccl) = (&*self.clique, &self.clique.nccl);
        if let Some(known) = own.communicators.get_mut(&key(group)) {
            known.1 += 1;
            return Ok(*known);
        }
        let handle = nccl.communicator(clique.id(group)?, (group.size, group.rank))?;
        let made = Communicator(handle, 1);
        own.communicators.insert(key(group), made);
        clique.poll(|| nccl.is_idle(handle)).map(|()| made)
    }

    /// Waits for the collectives that were asked for. What waits for the stream after this waits for no other rank.
    pub(crate) fn pass(&self) -> Result<(), Error> {
        let mut own = self.own();
        let Some(last) = &own.last else { return Ok(()) };
        let passed = self.clique.poll(|| {
            for communicator in own.communicators.values() {
                self.clique.nccl.is_idle(communicator.0)?;
            }
            // SAFETY: the event is there.
            match unsafe { event::query(last.0) } {
                Ok(()) => Ok(true),
                Err(error) if error.0 == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
                Err(error) => Err(said(error)),
            }
        });
        match passed {
            Ok(()) => own.last = None,
            Err(error) => return Err(self.failed(&mut own, error)),
        }
        self.clique.fine()
    }

    /// Tells the other ranks, and ends the communicators of this one, so that its device does not wait for others.
    fn failed(&self, own: &mut Own, error: Error) -> Error {
        self.end(own);
        match error {
            Error::Rank(_) => error,
            error => self.fail(&error.to_string()),
        }
    }

    /// Tells the other ranks; what all of them say then.
    pub(crate) fn fail(&self, why: &str) -> Error {
        self.clique.fail(&format!("rank {}: {why}", self.rank));
        self.clique.fine().err().unwrap_or_else(|| Error::Rank(why.to_owned()))
    }

    fn end(&self, own: &mut Own) {
        own.last = None;
        for (_, communicator) in std::mem::take(&mut own.communicators) {
            self.clique.nccl.abort(communicator.0);
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let mut own = std::mem::take(&mut *self.own());
        self.end(&mut own);
    }
}
