//! Stops of the machine and of the interpreter say the same in other types.

use relax_runtime as machine;
use relax_semantics::stop::{Stop, Trap};
use relax_syntax::Name;
use relax_syntax::span::Span;

/// A place in the source as the interpreter has it.
#[must_use]
pub fn span(span: machine::Span) -> Span {
    Span { start: span.start, end: span.end }
}

fn machine_span(span: Span) -> machine::Span {
    machine::Span { start: span.start, end: span.end }
}

/// As the interpreter has it.
#[must_use]
pub fn to_semantics(stop: machine::Stop) -> Stop {
    match stop {
        machine::Stop::Trap(trap) => Stop::Trap(Box::new(Trap {
            id: trap.id,
            message: trap.message,
            span: span(trap.span),
            function: trap.function.map(Name::from),
            notes: trap.notes,
            places: trap.places.into_iter().map(|(at, text)| (span(at), text)).collect(),
        })),
        machine::Stop::Exhausted { resource, detail } => Stop::Exhausted { resource, detail },
        machine::Stop::Unsupported(what) | machine::Stop::Misuse(what) => Stop::Unsupported(what),
    }
}

/// As the machine has it.
#[must_use]
pub fn to_machine(stop: Stop) -> machine::Stop {
    match stop {
        Stop::Trap(trap) => machine::Stop::Trap(Box::new(machine::Trap {
            id: trap.id,
            message: trap.message,
            span: machine_span(trap.span),
            function: trap.function.map(|name| name.to_string()),
            notes: trap.notes,
            places: trap.places.into_iter().map(|(at, text)| (machine_span(at), text)).collect(),
        })),
        Stop::Exhausted { resource, detail } => machine::Stop::Exhausted { resource, detail },
        Stop::Unsupported(what) => machine::Stop::Unsupported(what),
    }
}
