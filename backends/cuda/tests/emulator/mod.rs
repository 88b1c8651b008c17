//! An emulated CUDA (`driver/`, `blas/`, `nccl/`, `nvrtc.cpp`): shared libraries with the names of NVIDIA's, so that the code that calls those
//! runs where there is no device. A process that is to find them is started with [`Emulator::command`].
//!
//! What such a process did wrong ends it; what it was refused, left behind and asked for stands in a [`Report`].
#![allow(dead_code)] // each test uses a part of it

use relax_corpus::requirement;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// With which a process ends that does what it must not.
pub(crate) const MISUSED: i32 = 86;

/// Sources by name; what is not compiled by itself is included by those that are.
const FILES: [(&str, &str); 15] = [
    ("driver/cuda.cpp", include_str!("driver/cuda.cpp")),
    ("driver/report.h", include_str!("driver/report.h")),
    ("driver/memory.h", include_str!("driver/memory.h")),
    ("driver/streams.h", include_str!("driver/streams.h")),
    ("driver/graphs.h", include_str!("driver/graphs.h")),
    ("driver/modules.h", include_str!("driver/modules.h")),
    ("blas/cublaslt.cpp", include_str!("blas/cublaslt.cpp")),
    ("blas/numbers.h", include_str!("blas/numbers.h")),
    ("blas/descriptions.h", include_str!("blas/descriptions.h")),
    ("nccl/nccl.cpp", include_str!("nccl/nccl.cpp")),
    ("nccl/numbers.h", include_str!("nccl/numbers.h")),
    ("nvrtc.cpp", include_str!("nvrtc.cpp")),
    ("bf16.h", include_str!("bf16.h")),
    ("image.h", include_str!("image.h")),
    ("kernel.h", include_str!("kernel.h")),
];
const SHIM: &str = include_str!("../text/shim.h");

/// How kernels are compiled.
const KERNELS: &str = "-std=c++17 -O1 -shared -fPIC -w -ffp-contract=off -fno-gnu-unique";
/// How libraries are.
const LIBRARIES: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-z,nodelete",
];

/// The libraries, in a folder.
pub(crate) struct Emulator {
    folder: PathBuf,
    compiler: &'static str,
}

/// What processes counted and were told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    counts: BTreeMap<String, u64>,
    /// What was refused, left behind or misused.
    pub(crate) lines: Vec<String>,
}

impl Report {
    /// How often something was.
    pub(crate) fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    fn read(path: &Path) -> Self {
        let mut report = Self::default();
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            match line.strip_prefix("count ").and_then(|rest| rest.split_once(' ')) {
                Some((name, count)) => {
                    *report.counts.entry(name.to_owned()).or_default() +=
                        count.parse::<u64>().expect("a number");
                }
                None => report.lines.push(line.to_owned()),
            }
        }
        report
    }
}

impl Emulator {
    /// Compiled, or as it was compiled before; none where there is no C++ compiler, which is said.
    pub(crate) fn build() -> Option<Self> {
        if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
            eprintln!("skipped: CUDA is emulated on Linux only");
            return None;
        }
        let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(compiler) = ["c++", "g++", "clang++"].into_iter().find(works) else {
            requirement::skip("RELAX_REQUIRE_CC", "no C++ compiler to emulate CUDA with");
            return None;
        };
        // Tests of one process wait for the first that compiles it.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = DefaultHasher::new();
        (FILES, SHIM, KERNELS, LIBRARIES, compiler).hash(&mut hasher);
        let name = format!("emulated-cuda-{:016x}", hasher.finish());
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let emulator = Self { folder: parent.join(name), compiler };
        if !emulator.folder.exists() {
            let made = tempfile::tempdir_in(parent).expect("a folder");
            emulator.compile(made.path());
            // Another process may have been faster.
            let _ = std::fs::rename(made.path(), &emulator.folder);
        }
        assert!(emulator.folder.join("libnvrtc.so.12").exists(), "it is compiled");
        Some(emulator)
    }

    fn compile(&self, to: &Path) {
        for (name, text) in FILES {
            let path = to.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        std::fs::create_dir(to.join("objects")).expect("a folder");
        std::fs::write(to.join("kernels.h"), format!("{SHIM}\n#include \"kernel.h\"\n"))
            .expect("a file");
        // Compiled before, for all texts.
        let header = [KERNELS, "-x c++-header kernels.h -o kernels.h.gch"].join(" ");
        self.run(to, &header.split(' ').collect::<Vec<_>>());
        let here = format!("-DHERE=\"{}\"", self.folder.display());
        let how = format!("-DCOMPILER=\"{} {KERNELS}\"", self.compiler);
        let libraries: [(&str, &[&str]); 4] = [
            ("libcuda.so.1", &["driver/cuda.cpp", "-ldl"]),
            ("libcublasLt.so.12", &["blas/cublaslt.cpp", "libcuda.so.1"]),
            ("libnccl.so.2", &["nccl/nccl.cpp", "libcuda.so.1"]),
            ("libnvrtc.so.12", &["nvrtc.cpp", &here, &how]),
        ];
        for (name, own) in libraries {
            let named = format!("-Wl,-soname,{name}");
            self.run(to, &[LIBRARIES, own, &[named.as_str(), "-o", name]].concat());
            // Programs may look for a name without a version first.
            let short = name.split_once(".so").expect("a library").0;
            std::os::unix::fs::symlink(name, to.join(format!("{short}.so"))).expect("a link");
        }
    }

    fn run(&self, folder: &Path, arguments: &[&str]) {
        let output = Command::new(self.compiler).args(arguments).current_dir(folder).output();
        let output = output.expect("the compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Where the libraries are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Compiles a program that calls them, and is linked with none.
    pub(crate) fn client(&self, source: &Path, to: &Path) {
        let (source, to) = (source.to_string_lossy(), to.to_string_lossy());
        self.run(
            &self.folder,
            &["-std=c++17", "-O1", "-Wall", "-Werror", &source, "-o", &to, "-ldl", "-pthread"],
        );
    }

    /// A process that finds these libraries before all others.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.clone()).chain(std::env::split_paths(&others));
        let folders = std::env::join_paths(folders).expect("folders without a colon");
        command.env("LD_LIBRARY_PATH", folders).env("RELAX_NVRTC", &self.folder);
        for name in ["DEVICES", "MEMORY", "FAILS"] {
            command.env_remove(format!("EMULATED_CUDA_{name}"));
        }
        for name in ["EMULATED_CUBLAS_LACKS", "EMULATED_NCCL_FAILS", "RELAX_NCCL"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it, and reads what it was told.
    pub(crate) fn watch(&self, command: &mut Command) -> (Output, Report) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        let output = command.env("EMULATED_CUDA_REPORT", &path).output().expect("it starts");
        (output, Report::read(&path))
    }
}
