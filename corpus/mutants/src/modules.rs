//! The parts of the compiler that are mutated.

use std::path::Path;

/// A part of the table.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Beginnings of the paths of its sources.
    begin: &'static [&'static str],
    /// Of those the ones that are left out.
    except: &'static [&'static str],
}

/// In the order of the table. The solver is absent from most of what the tests run, and what shows questions decides nothing.
pub(crate) const PARTS: &[Part] = &[
    Part { name: "checker", begin: &["semantics/src/check/"], except: &[] },
    Part {
        name: "prover",
        begin: &["symbolic/src/"],
        except: &["symbolic/src/solver", "symbolic/src/egraph/tests.rs"],
    },
    Part {
        name: "planner",
        begin: &["lower/src/memory", "lower/src/passes/plan_memory"],
        except: &[],
    },
    Part {
        name: "fuser",
        begin: &[
            "rewrite/src/passes/fuse_ops",
            "rewrite/src/passes/fuse_tir",
            "rewrite/src/passes/inline_buffers",
        ],
        except: &[],
    },
    Part {
        name: "validator",
        begin: &["proofs/theorems/src/validation/", "proofs/validation/src/"],
        except: &["proofs/validation/src/bin"],
    },
    Part {
        name: "runtime",
        begin: &["backends/runtime/src/"],
        except: &["backends/runtime/src/workers/tests.rs"],
    },
    Part { name: "importers", begin: &["import/src/"], except: &[] },
    Part {
        name: "code generation",
        begin: &["backends/emit/src/", "backends/webgpu/src/"],
        except: &[],
    },
    Part {
        name: "devices",
        begin: &["driver/src/", "backends/cpu/src/", "backends/cuda/src/"],
        except: &[],
    },
];

/// The part that a source belongs to.
pub(crate) fn part_of(file: &str) -> Option<&'static str> {
    let part = PARTS.iter().find(|part| {
        part.begin.iter().any(|begin| file.starts_with(begin))
            && !part.except.iter().any(|except| file.starts_with(except))
    })?;
    Some(part.name)
}

/// The sources of the parts, by path from the root.
pub(crate) fn sources(tracked: &[String]) -> Vec<&str> {
    let is_source = |path: &&str| {
        Path::new(path).extension().is_some_and(|end| end == "rs") && part_of(path).is_some()
    };
    tracked.iter().map(String::as_str).filter(is_source).collect()
}
