//! What a program is compiled for.

use crate::KernelCheck;
use relax_cpu::{Cache, Compiler};
use relax_emit::BATCH_INVARIANT;
use relax_emit::tiles::Table;
use relax_rewrite::classes::Tree;
use relax_rewrite::pass::Device;
use relax_rewrite::saturation;
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_syntax::ir::{AttrValue, Module, attr};
use std::borrow::Cow;
use std::sync::Arc;

/// A device, and how code for it is made.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// What runs the kernels.
    pub device: Device,
    /// What kernels may do with sums of floats.
    pub numerics: Numerics,
    /// Whether functions of the device's library are called, where sums may have any order.
    pub library: Library,
    /// By which rules graph functions are rewritten before all other optimizations; by none without.
    pub rules: Option<Arc<saturation::Options>>,
    /// What was measured on the device.
    pub tuning: Tuning,
    /// For the processor; without one it is that of the system.
    pub toolchain: Option<Toolchain>,
}

/// Whether kernels of a library are used, such as those of cuBLASLt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Library {
    /// Where a pattern of its functions matches, and it is there.
    #[default]
    Used,
    /// All kernels are ours.
    Unused,
}

/// What was measured on a device; without it built-in models decide.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// How products are cut for a processor.
    pub tiles: Option<Table>,
    /// Which version of a product a device beside the processor gets.
    pub products: Option<Arc<Tree>>,
}

/// What makes machine code of C.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// For one processor.
    pub compiler: Compiler,
    /// Where compiled kernels are kept.
    pub cache: Cache,
    /// Whether kernels are compared with the interpreter.
    pub check: KernelCheck,
}

impl Target {
    /// A device with nothing measured.
    #[must_use]
    pub fn of(device: Device, numerics: Numerics) -> Self {
        Self { device, numerics, ..Self::default() }
    }

    /// The same with the rules of builds, where nobody says by which a module is rewritten: all families within
    /// [`saturation::Options::of_builds`]. There are none where calls of the module are no operators any more, and where bits must not
    /// depend on the batch: another form has its sums in another order.
    #[must_use]
    pub fn rewriting(self, module: &Module) -> Self {
        let is_early = Phase::of_module(module).is_ok_and(|phase| phase <= Phase::P1);
        let is_batch_invariant =
            matches!(attr(&module.attrs, BATCH_INVARIANT), Some(AttrValue::Bool(true)));
        let are_used = is_early && !is_batch_invariant;
        let rules = are_used.then(|| Arc::new(saturation::Options::of_builds()));
        Self { rules, ..self }
    }

    /// The same, with machine code by these tools.
    #[must_use]
    pub fn by(self, toolchain: Toolchain) -> Self {
        Self { toolchain: Some(toolchain), ..self }
    }

    /// The same with the tools of the system where a processor's code needs some and none are given: they are looked for once.
    pub(crate) fn equipped(&self) -> Result<Cow<'_, Self>, relax_cpu::Error> {
        match (self.device, &self.toolchain) {
            (Device::Cpu, None) => Ok(Cow::Owned(self.clone().by(Toolchain::of_system()?))),
            _ => Ok(Cow::Borrowed(self)),
        }
    }

    pub(crate) fn toolchain(&self) -> Result<Cow<'_, Toolchain>, relax_cpu::Error> {
        match &self.toolchain {
            Some(toolchain) => Ok(Cow::Borrowed(toolchain)),
            None => Toolchain::of_system().map(Cow::Owned),
        }
    }
}

impl Toolchain {
    /// The compiler of this system for this processor, and the cache of this user.
    ///
    /// # Errors
    /// When there is no compiler that works, or no folder for a cache.
    pub fn of_system() -> Result<Self, relax_cpu::Error> {
        let cache = match Cache::of_user() {
            Ok(cache) => cache,
            Err(_) => Cache::temporary().map_err(|error| relax_cpu::Error::Cache {
                path: std::env::temp_dir(),
                why: error.to_string(),
            })?,
        };
        let compiler = Compiler::of_system()?.probing(&cache)?;
        Ok(Self { compiler, cache, check: KernelCheck::default() })
    }
}
