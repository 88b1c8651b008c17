//! Messages as bytes: what ranks do, and what came of their runs. All processes run the same program on machines of one kind, so
//! numbers are in the order of the machine.

use relax_reference::{to_machine, to_semantics};
use relax_runtime as machine;
use relax_semantics::ops::{Combined, Described, Movement};
use relax_semantics::ranks::{Exchange, Place, RanRank};
use relax_semantics::stop::{Stop, Trap};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Span;

/// What a rank does.
#[derive(Debug)]
pub(super) enum Event {
    /// It waits in a collective, called at a place.
    Waits(Box<(Exchange<Described>, Place)>),
    /// Its run has ended.
    Ends,
}

/// What one process tells another.
#[derive(Debug)]
pub(super) enum Message {
    Event(Event),
    /// What a rank is about to run, or why it is not.
    Hello(Result<Vec<(String, String)>, String>),
    /// Why the ranks do not run; empty where they do.
    Verdict(String),
    /// So many bytes follow: what came of the run.
    Outcome(usize),
    /// A rank waited for too long: the receiver shall say so.
    Expired,
}

#[derive(Default)]
struct Writer(Vec<u8>);

/// Bytes that are read; `None` where they end too early, or say nothing.
struct Reader<'a>(&'a [u8]);

impl Writer {
    fn number(&mut self, number: usize) {
        self.0.extend((number as u64).to_ne_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn dims(&mut self, dims: &[i64]) {
        self.number(dims.len());
        self.0.extend(dims.iter().flat_map(|dim| dim.to_ne_bytes()));
    }

    fn span(&mut self, span: Span) {
        self.0.extend([span.start, span.end].iter().flat_map(|end| end.to_ne_bytes()));
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<usize> {
        let bytes = self.take(8)?.try_into().ok()?;
        usize::try_from(u64::from_ne_bytes(bytes)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(count)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn name(&mut self) -> Option<Name> {
        self.text().map(Name::from)
    }

    fn dims(&mut self) -> Option<Vec<i64>> {
        let count = self.number()?;
        (0..count).map(|_| Some(i64::from_ne_bytes(self.take(8)?.try_into().ok()?))).collect()
    }

    fn span(&mut self) -> Option<Span> {
        let mut end = || Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?));
        Some(Span { start: end()?, end: end()? })
    }

    /// Some of something.
    fn several<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| read(self)).collect()
    }
}

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Event(Event::Waits(waits)) => {
                to.0.push(0);
                write_exchange(&mut to, &waits.0, &waits.1);
            }
            Self::Event(Event::Ends) => to.0.push(1),
            Self::Hello(Ok(facts)) => {
                to.0.push(2);
                to.number(facts.len());
                for (name, value) in facts {
                    to.text(name);
                    to.text(value);
                }
            }
            Self::Hello(Err(why)) => {
                to.0.push(3);
                to.text(why);
            }
            Self::Verdict(why) => {
                to.0.push(4);
                to.text(why);
            }
            Self::Outcome(bytes) => {
                to.0.push(5);
                to.number(*bytes);
            }
            Self::Expired => to.0.push(6),
        }
        to.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        Some(match from.byte()? {
            0 => Self::Event(Event::Waits(Box::new(read_exchange(&mut from)?))),
            1 => Self::Event(Event::Ends),
            2 => {
                let fact = |from: &mut Reader| Some((from.text()?.into(), from.text()?.into()));
                Self::Hello(Ok(from.several(fact)?))
            }
            3 => Self::Hello(Err(from.text()?.to_owned())),
            4 => Self::Verdict(from.text()?.to_owned()),
            5 => Self::Outcome(from.number()?),
            6 => Self::Expired,
            _ => return None,
        })
    }
}

fn write_exchange(to: &mut Writer, exchange: &Exchange<Described>, place: &Place) {
    to.text(&exchange.what);
    to.text(&exchange.mesh);
    for number in [exchange.mesh_dim, exchange.workers, exchange.rank] {
        to.number(number);
    }
    // Of a send the others must know who takes part: its ranks, each one more, or 0 where there is none.
    let [source, target] = match exchange.movement.combined {
        Combined::Sent { source, target } => [source + 1, target.map_or(0, |target| target + 1)],
        _ => [0, 0],
    };
    to.number(source);
    to.number(target);
    to.text(exchange.tensor.dtype.name());
    to.dims(&exchange.tensor.dims);
    to.text(&place.function);
    to.span(place.span);
}

fn read_exchange(from: &mut Reader) -> Option<(Exchange<Described>, Place)> {
    let (what, mesh) = (from.text()?.to_owned(), from.name()?);
    let (mesh_dim, workers, rank) = (from.number()?, from.number()?, from.number()?);
    let (source, target) = (from.number()?.checked_sub(1), from.number()?.checked_sub(1));
    // How the parts become one the receiver knows of its own call: ranks of a group call the same collective.
    let combined = source.map_or(Combined::Joined(0), |source| Combined::Sent { source, target });
    if source.into_iter().chain(target).any(|at| at >= workers) {
        return None;
    }
    let exchange = Exchange {
        what,
        mesh,
        mesh_dim,
        workers,
        rank,
        movement: Movement { cut: None, combined },
        tensor: Described { dtype: DType::parse(from.text()?)?, dims: from.dims()? },
    };
    Some((exchange, Place { function: from.name()?, span: from.span()? }))
}

/// What came of the run of a rank.
pub(super) fn outcome_to_bytes(ran: &RanRank) -> Vec<u8> {
    let mut to = Writer::default();
    to.number(ran.printed.len());
    ran.printed.iter().for_each(|line| to.text(line));
    match &ran.result {
        Ok(value) => {
            to.0.push(0);
            write_value(&mut to, value);
        }
        Err(Stop::Trap(trap)) => {
            to.0.push(1);
            write_trap(&mut to, trap);
        }
        Err(Stop::Exhausted { resource, detail }) => {
            to.0.push(2);
            to.text(resource);
            to.text(detail);
        }
        Err(Stop::Unsupported(why)) => {
            to.0.push(3);
            to.text(why);
        }
    }
    to.0
}

pub(super) fn outcome_from_bytes(bytes: &[u8]) -> Option<RanRank> {
    let mut from = Reader(bytes);
    let printed = from.several(|from| from.text().map(str::to_owned))?;
    let result = match from.byte()? {
        0 => Ok(read_value(&mut from)?),
        1 => Err(Stop::Trap(Box::new(read_trap(&mut from)?))),
        2 => {
            let resource = match from.text()? {
                "steps" => "steps",
                "call depth" => "call depth",
                "threads" => "threads",
                _ => "memory",
            };
            Err(Stop::Exhausted { resource, detail: from.text()?.to_owned() })
        }
        _ => Err(Stop::Unsupported(from.text()?.to_owned())),
    };
    Some(RanRank { result, printed })
}

fn write_trap(to: &mut Writer, trap: &Trap) {
    to.text(&trap.id);
    to.text(&trap.message);
    to.span(trap.span);
    to.text(trap.function.as_deref().unwrap_or_default());
    to.number(trap.notes.len());
    trap.notes.iter().for_each(|note| to.text(note));
    to.number(trap.places.len());
    for (span, text) in &trap.places {
        to.span(*span);
        to.text(text);
    }
}

fn read_trap(from: &mut Reader) -> Option<Trap> {
    Some(Trap {
        id: from.text()?.to_owned(),
        message: from.text()?.to_owned(),
        span: from.span()?,
        function: Some(from.name()?).filter(|name| !name.is_empty()),
        notes: from.several(|from| from.text().map(str::to_owned))?,
        places: from.several(|from| Some((from.span()?, from.text()?.to_owned())))?,
    })
}

/// Tensors and tuples of them. Other results have no place on a mesh, so the first rank reports its own.
fn write_value(to: &mut Writer, value: &Value) {
    match value {
        Value::Tuple(items) => {
            to.0.push(1);
            to.number(items.len());
            items.iter().for_each(|item| write_value(to, item));
        }
        value => match to_machine(value) {
            Ok(machine::Value::Tensor(tensor)) => {
                to.0.push(2);
                to.text(tensor.dtype().name());
                to.dims(tensor.shape());
                to.bytes(tensor.bytes());
                match (tensor.first_unwritten(), tensor.written_elements()) {
                    (None, _) => to.bytes(&[]),
                    (_, Some(map)) => to.bytes(map),
                    // No element is initialized.
                    _ => to.bytes(&vec![0; tensor.bytes().len() / tensor.dtype().size()]),
                }
            }
            _ => to.0.push(0),
        },
    }
}

fn read_value(from: &mut Reader) -> Option<Value> {
    Some(match from.byte()? {
        0 => Value::None,
        1 => Value::Tuple(from.several(read_value)?),
        _ => {
            let (dtype, dims) = (machine::DType::parse(from.text()?)?, from.dims()?);
            let tensor = machine::Tensor::from_bytes(dtype, &dims, from.bytes()?).ok()?;
            let tensor = match from.bytes()? {
                [] => tensor,
                map => tensor.written_at(map).ok()?,
            };
            to_semantics(&machine::Value::Tensor(tensor), &mut |_| None).ok()?
        }
    })
}
