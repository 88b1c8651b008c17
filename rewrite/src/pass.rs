//! What a pass is: a record, and what it is given beside the module.

use crate::classes::Tree;
use crate::fallback::Fallback;
use crate::saturation::Report;
use relax_runtime::program::Numerics;
use relax_semantics::check::{Checked, Phase};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A transformation of modules.
#[derive(Debug)]
pub struct Pass {
    /// By which it is asked for: a verb and a noun.
    pub name: &'static str,
    /// What it does, as a sentence.
    pub doc: &'static str,
    /// The phase whose demands its input satisfies.
    pub from: Phase,
    /// The phase whose demands its output satisfies, at the least.
    pub to: Phase,
    /// The last phase whose modules it takes. What a later one records is not for it.
    pub until: Phase,
    /// How near its results are.
    pub exactness: Exactness,
    /// The transformation. A diagnostic says why the program cannot be transformed.
    pub run: fn(&Module, &mut PassContext) -> Result<Module, Diagnostic>,
}

/// How near the results of a transformed program are to those of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Bit for bit.
    Exact,
    /// Floats may be summed in another order.
    Approximate,
    /// Equal over the real numbers: floats are rounded elsewhere, and what cancels after it leaves a difference of
    /// any relative size, which results alone do not tell. Shapes, dtypes and traps are what they were.
    Reals,
    /// Some operands are rounded to a narrower dtype: floats differ by what that makes of them, which
    /// results alone do not tell. Shapes, dtypes and traps are what they were.
    Rounded(DType),
}

impl Exactness {
    /// That of one pass after another.
    #[must_use]
    pub fn then(self, next: Exactness) -> Exactness {
        match (self, next) {
            (Exactness::Rounded(dtype), _) | (_, Exactness::Rounded(dtype)) => {
                Exactness::Rounded(dtype)
            }
            (Exactness::Reals, _) | (_, Exactness::Reals) => Exactness::Reals,
            (Exactness::Approximate, _) | (_, Exactness::Approximate) => Exactness::Approximate,
            (Exactness::Exact, Exactness::Exact) => Exactness::Exact,
        }
    }
}

/// As lists of passes say it.
impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exactness::Exact => f.write_str("exact"),
            Exactness::Approximate => f.write_str("approximate"),
            Exactness::Reals => f.write_str("over the reals"),
            Exactness::Rounded(dtype) => write!(f, "rounds to {dtype}"),
        }
    }
}

/// What runs kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The interpreter of tensor programs.
    Interp,
    /// The processor.
    #[default]
    Cpu,
    /// A graphics device through WebGPU.
    Wgpu,
    /// An NVIDIA device.
    Cuda,
}

impl Device {
    /// The devices in the order of help texts.
    pub const ALL: [Self; 4] = [Self::Interp, Self::Cpu, Self::Wgpu, Self::Cuda];

    /// As command lines and tables of patterns have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interp => "interp",
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
        }
    }

    /// The libraries whose functions run on it: what stands before the dot in their names.
    #[must_use]
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Interp | Self::Cpu | Self::Wgpu => &[],
            Self::Cuda => &["cublas", "cutlass"],
        }
    }
}

/// What a run of passes is given beside the module.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What code is made for.
    pub device: Device,
    /// What that code may do with sums of floats.
    pub numerics: Numerics,
    /// Values that stand for parameters and external constants, by name.
    pub params: Arc<BTreeMap<Name, Tensor>>,
    /// How many columns of a matrix lie side by side in a panel, as products of the target read them.
    pub panel: Option<NonZeroU32>,
    /// Which version of a product a device gets, where that was measured.
    pub products: Option<Arc<Tree>>,
    /// Which rules are used, and how far.
    pub saturation: crate::saturation::Options,
    /// What is differentiated.
    pub gradient: crate::passes::gradient::Options,
    /// Which implementations take which places.
    pub alterations: crate::passes::alter_op_impl::Alterations,
}

/// What a pass may ask, and where it counts.
pub struct PassContext<'a> {
    /// What the check knows of the module: deduced annotations, checks that are left, casts.
    pub checked: &'a Checked,
    /// The same for every pass of a run.
    pub settings: &'a Settings,
    /// Decides questions on dims. Only what was assumed since is known: the facts of a function's
    /// signature are not.
    pub facts: &'a mut dyn Facts,
    account: Account,
}

/// What a pass says of itself.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// What was counted.
    pub counters: Vec<Counter>,
    /// Calls that stay with the reference library.
    pub fallbacks: Vec<Fallback>,
    /// What rewrite rules did.
    pub rewrites: Option<Report>,
}

/// What a pass did: "eliminated 3 of 5 checks".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// "eliminated"
    pub verb: &'static str,
    /// "checks"
    pub what: &'static str,
    /// How many were transformed.
    pub done: usize,
    /// Of how many that were found, where that says something.
    pub found: Option<usize>,
}

impl<'a> PassContext<'a> {
    /// For a module of which `checked` is known.
    pub fn new(checked: &'a Checked, settings: &'a Settings, facts: &'a mut dyn Facts) -> Self {
        Self { checked, settings, facts, account: Account::default() }
    }

    /// "`verb` `done` `what`"
    pub fn count(&mut self, verb: &'static str, done: usize, what: &'static str) {
        self.account.counters.push(Counter { verb, what, done, found: None });
    }

    /// "`verb` `done` of `found` `what`"
    pub fn count_of(&mut self, verb: &'static str, done: usize, found: usize, what: &'static str) {
        self.account.counters.push(Counter { verb, what, done, found: Some(found) });
    }

    /// These calls stay with the reference library.
    pub fn fall_back(&mut self, calls: Vec<Fallback>) {
        self.account.fallbacks.extend(calls);
    }

    /// Rewrite rules did this.
    pub fn rewrite(&mut self, report: Report) {
        self.account.rewrites = Some(report);
    }

    /// What the pass said of itself.
    #[must_use]
    pub fn into_account(self) -> Account {
        self.account
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found {
            Some(found) => write!(f, "{} {} of {found} {}", self.verb, self.done, self.what),
            None => write!(f, "{} {} {}", self.verb, self.done, self.what),
        }
    }
}
