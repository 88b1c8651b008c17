//! Messages between the processes of a run, each of which is one rank: what an engine such as MPI gives.

use std::fmt::Debug;

/// Bytes for a rank, or room for those of one.
pub type Addressed<B> = (usize, B);

/// The processes of a run, as one of them reaches the others.
pub trait Transport: Debug + Send + Sync {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn ranks(&self) -> usize;

    /// Whether ranks that wait keep others from running, as where there are more of them than cores.
    fn shares_cores(&self) -> bool;

    /// Sends a message of some hundred bytes, without waiting for the receiver.
    fn send(&self, to: usize, message: Vec<u8>);

    /// The next message that has come, with its sender. Those of one sender come in the order in which it sent them.
    fn receive(&self) -> Option<Addressed<Vec<u8>>>;

    /// Sends bytes and receives others; both sides know how many. While nothing moves, `idle` is called with the ranks that
    /// something is to come from or to go to.
    fn transfer(
        &self,
        sends: &[Addressed<&[u8]>],
        receives: &mut [Addressed<&mut [u8]>],
        idle: &mut dyn FnMut(&[usize]),
    );

    /// Ends all processes.
    fn abort(&self, code: u8) -> !;
}
