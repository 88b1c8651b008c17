//! Programs that were compiled before: their module files are kept beside compiled kernels, under all that decides
//! what they are. Where something of that cannot be told, nothing is kept.

use super::cache::{models, modules};
use crate::args::Activations;
use crate::exit::Failure;
use relax_cpu::probes;
use relax_driver::{Digest, Key, Modules, Target, Toolchain};
use relax_emit::tiles::Table;
use relax_program::frontend::Program;
use relax_program::tensor_files::Weights;
use relax_runtime::file::Image;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Where the module file of a program is, if there is one.
pub(super) struct Kept {
    modules: Modules,
    /// All but the weights.
    key: Key,
}

/// What becomes of the parameters that a file has values for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameters {
    /// They are constants of the module.
    Bound,
    /// They are parameters still.
    Free,
}

impl Kept {
    /// `None` where nothing can be kept.
    pub(super) fn of(
        program: &Program,
        parameters: Parameters,
        target: &Target,
    ) -> Result<Option<Self>, Failure> {
        let (Some(producer), Some(toolchain)) = (producer(), &target.toolchain) else {
            return Ok(None);
        };
        let Toolchain { compiler, check, .. } = toolchain;
        let tiles = target.tuning.tiles.as_ref();
        let source = &program.source;
        let key = Key::default()
            .with("made by", producer.as_bytes())
            .with("compiler", compiler.key().as_bytes())
            .with("probes", probes().as_bytes())
            .with("options", format!("{parameters:?} {:?}", target.numerics).as_bytes())
            .with("kernel check", format!("{check:?}").as_bytes())
            .with("rules", format!("{:?}", target.rules).as_bytes())
            .with("tiles", tiles.map(Table::to_text).unwrap_or_default().as_bytes())
            .with("name", source.name.as_bytes())
            .with("text", source.text.as_bytes());
        Ok(modules()?.map(|modules| Self { modules, key }))
    }

    /// As [`Self::of`], of a model whose weights are constants that `identity` tells from others; it is found without reading them.
    pub(super) fn of_model(
        program: &Program,
        target: &Target,
        identity: &str,
    ) -> Result<Option<Self>, Failure> {
        let (Some(kept), Some(modules)) =
            (Self::of(program, Parameters::Bound, target)?, models()?)
        else {
            return Ok(None);
        };
        let key = kept.key.with("identity of the weights", identity.as_bytes());
        Ok(Some(Self { modules, key }))
    }

    /// Of a program that is compiled so.
    pub(super) fn with_activations(self, activations: Activations) -> Self {
        let key = self.key.with("activations", format!("{activations:?}").as_bytes());
        Self { key, ..self }
    }

    /// Keeps what was made; where it is, or why it is not kept.
    pub(super) fn keep_or_say(&self, image: &Image) -> Result<PathBuf, String> {
        match self.modules.keep(&self.key, image) {
            Ok(Some(path)) => Ok(path),
            Ok(None) => Err("it is larger than a quarter of RELAX_MODEL_CACHE_SIZE".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The file of the program with these weights. It may be damaged.
    pub(super) fn find(&self, params: Option<&Path>) -> Option<PathBuf> {
        let digest = params.map(Digest::of_file).transpose().ok()?;
        self.modules.find(&self.with(digest))
    }

    /// Keeps what was made with these weights; where it is now.
    pub(super) fn keep(&self, weights: Option<&Weights>, image: &Image) -> Option<PathBuf> {
        let digest = weights.map(|weights| Digest::of_reader(weights.content()));
        let digest = digest.transpose().ok()?;
        self.modules.keep(&self.with(digest), image).ok()?
    }

    fn with(&self, weights: Option<Digest>) -> Key {
        let key = self.key.clone();
        match weights {
            Some(digest) => key.with_file("weights", digest),
            None => key,
        }
    }
}

/// Which build of this program it is: a compiler that was changed has another file.
fn producer() -> Option<String> {
    let stamp = stamp(&std::env::current_exe().ok()?)?;
    Some(format!("relax {}, {stamp}", env!("CARGO_PKG_VERSION")))
}

/// The length of a file, and when it was written.
pub(super) fn stamp(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let written = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes of {} ns", metadata.len(), written.as_nanos()))
}
