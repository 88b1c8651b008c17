//! The flat form of a program: operations on registers, with explicit jumps.

use super::kernels::Checked;
use relax_syntax::Name;

/// An index into the registers of a frame.
pub(super) type Reg = u32;

/// A position in the code.
pub(super) type Pc = u32;

/// Consecutive entries of [`super::Compiled::operands`]: the registers of the indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// A loop, compiled. Its bounds are in registers that nothing else writes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopCode {
    pub(super) var: Reg,
    pub(super) start: Reg,
    pub(super) stop: Reg,
    /// Its name and kind: an index into [`super::Compiled::loops`].
    pub(super) info: u32,
}

/// What messages and the detection of races need to know of a loop.
#[derive(Clone, Debug)]
pub(super) struct LoopInfo {
    pub(super) name: Name,
    /// Iterations may run at the same time.
    pub(super) concurrent: bool,
    /// Iterations are threads that barriers may separate.
    pub(super) threads: bool,
}

/// One operation.
#[derive(Clone, Copy)]
pub(super) enum Op {
    Pure1 {
        f: fn(u64) -> u64,
        to: Reg,
        a: Reg,
    },
    Pure2 {
        f: fn(u64, u64) -> u64,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Pure3 {
        f: fn(u64, u64, u64) -> u64,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Checked1 {
        f: fn(u64) -> Checked,
        to: Reg,
        a: Reg,
    },
    Checked2 {
        f: fn(u64, u64) -> Checked,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Move {
        to: Reg,
        from: Reg,
    },
    Load {
        to: Reg,
        buffer: u32,
        at: Range,
    },
    Store {
        from: Reg,
        buffer: u32,
        at: Range,
    },
    Alloc {
        buffer: u32,
    },
    Jump {
        to: Pc,
    },
    /// A branch of the program: counts as a step.
    Branch {
        condition: Reg,
        otherwise: Pc,
    },
    JumpUnless {
        condition: Reg,
        to: Pc,
    },
    JumpIf {
        condition: Reg,
        to: Pc,
    },
    JumpUnlessEqual {
        a: Reg,
        b: Reg,
        to: Pc,
    },
    /// Sets the variable to the start, or jumps to the end of an empty loop.
    Enter {
        of: LoopCode,
        end: Pc,
    },
    /// Goes on with the next iteration, if there is one.
    Next {
        of: LoopCode,
        body: Pc,
    },
    /// One thread an iteration, from here to `Exit`; then goes on at `end`.
    Fork {
        of: LoopCode,
        end: Pc,
    },
    Exit,
    Barrier,
    /// Stops with a trap of the program's own.
    Fail {
        check: u32,
        values: Range,
    },
    AxisInRange {
        value: Reg,
        extent: Reg,
        axis: u32,
    },
    Halt,
}
