//! Ranks that are processes of their own, which an engine such as MPI started. Each process keeps the table of all ranks
//! ([`relax_semantics::ranks::Table`]): a rank tells all others when it waits in a collective and when it ends, so mismatched and
//! missing collectives are found as in one process, with the same words. Bytes move when a group is complete and its parts fit.

mod agreement;
mod codec;
mod movement;
mod patience;

pub use agreement::{digest, fact};

use super::shared::Shared;
use super::transport::Transport;
use agreement::disagreement;
use codec::{Event, Message, outcome_from_bytes, outcome_to_bytes};
use movement::Collective;
use patience::{Awaited, Patience};
use relax_reference::{to_machine, to_semantics};
use relax_runtime as machine;
use relax_semantics::ops::{Combined, Described};
use relax_semantics::ranks::{Alike, Exchange, Mesh, Peers, Place, RanRank, Table};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The exit code of all processes where a rank is waited for in vain.
const STOPPED: u8 = 3;

/// How long a rank that gave up waits for the one that reports it.
const GRACE: Duration = Duration::from_secs(5);

/// What collectives moved, as this rank sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages with elements that this rank sent.
    pub messages: usize,
    /// The bytes of these messages, headers aside.
    pub bytes: usize,
    /// Messages without elements that this rank sent: what it does.
    pub notices: usize,
    /// Bytes that were copied or reduced in this process, beside what the engine copies.
    pub copied: usize,
}

/// Shows what stopped the run, before all processes end.
type Report = Box<dyn Fn(&Stop) + Send>;

/// The ranks of a run, each a process.
pub struct Processes {
    transport: Box<dyn Transport>,
    timeout: Duration,
    report: Mutex<Option<Report>>,
    state: Mutex<State>,
}

/// What this process knows of the others.
struct State {
    mesh: Mesh,
    table: Table<Described>,
    /// What each rank did after what the table says.
    events: Vec<VecDeque<Event>>,
    ended: Vec<bool>,
    /// Messages about the run as a whole, of each rank.
    letters: Vec<VecDeque<Message>>,
    /// Whether all ranks run the same.
    agreed: bool,
    /// Whether another rank gave up.
    expired: bool,
    counts: Counts,
}

impl Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// Why a run does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// What is wrong, for the user.
    Here(String),
    /// Another process reports it.
    Elsewhere,
}

impl Processes {
    /// The processes that a transport reaches; a rank that is waited for longer than `timeout` ends all.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, timeout: Duration) -> Self {
        let ranks = transport.ranks();
        let mesh = Mesh { name: "".into(), extents: vec![ranks] };
        let state = State {
            table: Table::new(mesh.clone(), ranks),
            mesh,
            events: (0..ranks).map(|_| VecDeque::new()).collect(),
            ended: vec![false; ranks],
            letters: (0..ranks).map(|_| VecDeque::new()).collect(),
            agreed: false,
            expired: false,
            counts: Counts::default(),
        };
        Self { transport, timeout, report: Mutex::new(None), state: Mutex::new(state) }
    }

    /// The number of this process.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// The number of processes.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.transport.ranks()
    }

    /// Names who shows why all processes end, where a rank is waited for in vain.
    pub fn on_timeout(&self, report: impl Fn(&Stop) + Send + 'static) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(report));
    }

    /// What collectives moved so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Whether the ranks were compared, whatever came of it.
    #[must_use]
    pub fn has_agreed(&self) -> bool {
        self.state().agreed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares what all ranks are about to run, fact by fact; a rank that cannot run says why.
    ///
    /// # Errors
    /// Where a rank cannot run, or two are about to run something else. The first rank says why, unless it is its own reason.
    pub fn agree(&self, own: Result<Vec<(String, String)>, String>) -> Result<(), Refused> {
        let own_reason = own.is_err();
        self.state().agreed = true;
        if self.rank() != 0 {
            self.tell(0, &Message::Hello(own));
            let verdict = |state: &mut State| state.letters[0].pop_front();
            let verdict = self.wait(
                &mut self.state(),
                (&Awaited::start(), self.patience()),
                |_| vec![0],
                verdict,
            );
            return match verdict {
                Message::Verdict(why) if why.is_empty() => Ok(()),
                _ => Err(Refused::Elsewhere),
            };
        }
        let mut hellos = vec![own];
        for rank in 1..self.ranks() {
            let hello = |state: &mut State| state.letters[rank].pop_front();
            let hello = self.wait(
                &mut self.state(),
                (&Awaited::start(), self.patience()),
                |_| vec![rank],
                hello,
            );
            hellos.push(match hello {
                Message::Hello(hello) => hello,
                other => Err(format!("unexpected message {other:?}")),
            });
        }
        let why = disagreement(&hellos).unwrap_or_default();
        for rank in 1..self.ranks() {
            self.tell(rank, &Message::Verdict(why.clone()));
        }
        match why.is_empty() {
            true => Ok(()),
            false if own_reason => Err(Refused::Elsewhere),
            false => Err(Refused::Here(why)),
        }
    }

    /// Runs this rank of a mesh. The first rank gets what came of all.
    pub fn run(&self, mesh: &Mesh, run: impl FnOnce() -> RanRank) -> Option<Vec<RanRank>> {
        self.state().begin(mesh, self.ranks());
        let own = run();
        let mut state = self.state();
        let me = self.rank();
        state.table.end(me);
        state.ended[me] = true;
        self.tell_all(&mut state, &Message::Event(Event::Ends));
        let missing =
            |state: &State| (0..state.ended.len()).filter(|&at| !state.ended[at]).collect();
        self.wait(&mut state, (&Awaited::end(), self.patience()), missing, |state| {
            state.advance(me);
            state.ended.iter().all(|&ended| ended).then_some(())
        });
        if me != 0 {
            let bytes = outcome_to_bytes(&own);
            self.tell(0, &Message::Outcome(bytes.len()));
            self.transfer(&[(0, &bytes)], &mut [], &Awaited::end());
            return None;
        }
        let mut ran = vec![own];
        for rank in 1..self.ranks() {
            let letter = |state: &mut State| state.letters[rank].pop_front();
            let letter =
                self.wait(&mut state, (&Awaited::end(), self.patience()), |_| vec![rank], letter);
            ran.push(self.outcome(rank, &letter));
        }
        Some(ran)
    }

    /// What came of the run of another rank.
    fn outcome(&self, rank: usize, letter: &Message) -> RanRank {
        let read = match letter {
            Message::Outcome(size) => {
                let mut bytes = vec![0; *size];
                self.transfer(&[], &mut [(rank, &mut bytes)], &Awaited::end());
                outcome_from_bytes(&bytes)
            }
            _ => None,
        };
        read.unwrap_or_else(|| RanRank {
            result: Err(Stop::Unsupported(format!("the message of rank {rank} is no outcome"))),
            printed: Vec::new(),
        })
    }

    fn patience(&self) -> Patience<'static> {
        self.patience_beside(&|| true)
    }

    /// Of a thread that nobody needs until `is_awaited`.
    fn patience_beside<'a>(&self, is_awaited: &'a dyn Fn() -> bool) -> Patience<'a> {
        Patience::new(self.timeout, self.transport.shares_cores(), is_awaited)
    }

    fn tell(&self, to: usize, message: &Message) {
        self.transport.send(to, message.to_bytes());
    }

    fn tell_all(&self, state: &mut State, message: &Message) {
        let bytes = message.to_bytes();
        for to in (0..self.ranks()).filter(|&to| to != self.rank()) {
            self.transport.send(to, bytes.clone());
            state.counts.notices += 1;
        }
    }

    fn transfer(
        &self,
        sends: &[(usize, &[u8])],
        receives: &mut [(usize, &mut [u8])],
        awaited: &Awaited,
    ) {
        let mut patience = self.patience();
        self.transport.transfer(sends, receives, &mut |missing| {
            if patience.is_over() {
                self.give_up(missing, awaited);
            }
            patience.pause();
        });
    }

    /// Waits until something is there.
    fn wait<R>(
        &self,
        state: &mut State,
        (awaited, mut patience): (&Awaited, Patience<'_>),
        missing: impl Fn(&State) -> Vec<usize>,
        mut ready: impl FnMut(&mut State) -> Option<R>,
    ) -> R {
        loop {
            while let Some((from, bytes)) = self.transport.receive() {
                state.take(from, &bytes);
            }
            if let Some(ready) = ready(state) {
                return ready;
            }
            if state.expired || patience.is_over() {
                self.give_up(&missing(state), awaited);
            }
            patience.pause();
        }
    }

    /// Ends all processes. The first rank that waits says why.
    fn give_up(&self, missing: &[usize], awaited: &Awaited) -> ! {
        let reports = (0..self.ranks()).find(|rank| !missing.contains(rank));
        if let Some(other) = reports.filter(|&other| other != self.rank()) {
            self.tell(other, &Message::Expired);
            // The other one ends this process; where it does not, this one speaks.
            std::thread::sleep(GRACE);
        }
        let stop = awaited.stop(missing, (self.rank(), self.ranks()), self.timeout);
        match &*self.report.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(report) => report(&stop),
            None => eprintln!("error: {stop}"),
        }
        self.transport.abort(STOPPED)
    }

    fn exchanged(
        &self,
        exchange: Exchange<Shared>,
        alike: &Alike<'_>,
        (place, is_awaited): (&Place, &dyn Fn() -> bool),
    ) -> Result<Shared, Stop> {
        let Exchange { what, mesh, mesh_dim, workers, rank, movement, tensor } = exchange;
        let described = Exchange {
            what: what.clone(),
            mesh,
            mesh_dim,
            workers,
            rank,
            movement,
            tensor: Described::of(&tensor),
        };
        let (state, me) = (&mut *self.state(), self.rank());
        state.table.wait(me, described.clone(), place)?;
        let waits = Event::Waits(Box::new((described, place.clone())));
        self.tell_all(state, &Message::Event(waits));
        let awaited = Awaited::Collective(what, place.clone());
        let missing = |state: &State| state.table.running();
        let parts =
            self.wait(state, (&awaited, self.patience_beside(is_awaited)), missing, |state| {
                state.advance(me);
                state.table.take(me)
            })?;
        alike(&parts)?;
        let along = state.mesh.group(me, mesh_dim);
        let members = movement.members(workers);
        let group: Vec<usize> = members.iter().map(|&at| along[at]).collect();
        let mut patience = self.patience_beside(is_awaited);
        let mut collective = Collective {
            transport: &*self.transport,
            group: &group,
            at: members.iter().position(|&at| at == rank).unwrap_or(0),
            parts: &parts,
            counts: &mut state.counts,
            idle: &mut |missing| {
                if patience.is_over() {
                    self.give_up(missing, &awaited);
                }
                patience.pause();
            },
        };
        match movement.combined {
            Combined::Sent { source, target } => {
                let source = members.iter().position(|&at| at == source).unwrap_or(0);
                collective.sent(source, target.is_some(), &tensor)
            }
            _ => collective.result(movement, &tensor),
        }
    }
}

impl State {
    /// A run of all ranks of a mesh begins. What ranks did before ended with the last run, so what is left is of this one.
    fn begin(&mut self, mesh: &Mesh, ranks: usize) {
        self.mesh = mesh.clone();
        self.table = Table::new(mesh.clone(), ranks);
        self.ended = vec![false; ranks];
    }

    /// Takes a message. What no process of this command sends is left out.
    fn take(&mut self, from: usize, bytes: &[u8]) {
        match Message::from_bytes(bytes) {
            Some(Message::Event(event)) => self.events[from].push_back(event),
            Some(Message::Expired) => self.expired = true,
            Some(letter) => self.letters[from].push_back(letter),
            None => {}
        }
    }

    /// Brings the table up to what is known of the other ranks.
    fn advance(&mut self, me: usize) {
        let mut moves = true;
        while moves {
            moves = false;
            for rank in (0..self.events.len()).filter(|&rank| rank != me) {
                // What another rank gets is its own affair: it runs on.
                moves |= self.table.take(rank).is_some();
                if !self.table.running().contains(&rank) {
                    continue;
                }
                match self.events[rank].pop_front() {
                    Some(Event::Waits(waits)) => {
                        let (exchange, place) = *waits;
                        // It traps by itself where it does not fit the mesh.
                        let _ = self.table.wait(rank, exchange, &place);
                        moves = true;
                    }
                    Some(Event::Ends) => {
                        self.table.end(rank);
                        self.ended[rank] = true;
                        moves = true;
                    }
                    None => {}
                }
            }
        }
    }
}

impl Peers<Shared> for Processes {
    fn exchange(
        &self,
        exchange: Exchange<Shared>,
        alike: &Alike<'_>,
        place: &Place,
    ) -> Result<Shared, Stop> {
        self.exchanged(exchange, alike, (place, &|| true))
    }

    fn exchange_beside(
        &self,
        exchange: Exchange<Shared>,
        alike: &Alike<'_>,
        place: &Place,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Shared, Stop> {
        self.exchanged(exchange, alike, (place, is_awaited))
    }
}

impl Peers<Tensor> for Processes {
    fn exchange(
        &self,
        exchange: Exchange<Tensor>,
        alike: &Alike<'_>,
        place: &Place,
    ) -> Result<Tensor, Stop> {
        let Exchange { what, mesh, mesh_dim, workers, rank, movement, tensor } = exchange;
        let unsupported =
            |kind: &str| Stop::Unsupported(format!("{kind} that ranks pass each other"));
        let tensor = match to_machine(&Value::Tensor(tensor)).map_err(Stop::Unsupported)? {
            machine::Value::Tensor(tensor) => Shared::from(tensor),
            other => return Err(unsupported(other.kind())),
        };
        let exchange = Exchange { what, mesh, mesh_dim, workers, rank, movement, tensor };
        let result =
            machine::Value::Tensor(self.exchanged(exchange, alike, (place, &|| true))?.tensor);
        match to_semantics(&result, &mut |_| None).map_err(Stop::Unsupported)? {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(unsupported(other.kind())),
        }
    }
}
