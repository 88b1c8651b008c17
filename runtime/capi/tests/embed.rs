//! A C program that embeds the runtime, compiled and run; its module has a kernel that the same compiler made.

use relax_corpus::requirement;
use relax_runtime::file::Image;
use relax_runtime::instruction::{Code, Instruction as I, Kind, Label, Operand, Register, Text};
use relax_runtime::program::{Constant, Function, Kernel, Param, Program, Site};
use relax_runtime::{DType, Number, Span, host_target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `$CC`, or `cc`.
fn compiler() -> Option<Command> {
    let name = std::env::var("CC").ok().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "cc".to_owned());
    let works = Command::new(&name).arg("--version").output().is_ok_and(|out| out.status.success());
    works.then(|| Command::new(&name))
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

fn include() -> String {
    format!("-I{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("../include").display())
}

/// The static library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let here = std::env::current_exe().expect("the path of this test");
    let places = here.ancestors().skip(1).take(2);
    let found = places.map(|folder| folder.join("librelax_capi.a")).find(|path| path.exists());
    found.expect("cargo builds the static library with the tests")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// `main` doubles a vector.
fn image(object: Vec<u8>) -> Image {
    let r = Operand::Register;
    let label = Label { check: Text(0), about: Text(1), expected: Text(2) };
    let codes = |code| vec![code].into_boxed_slice();
    let code = vec![
        I::AllocHeap { to: Register(1), size: Operand::Constant(0) },
        I::CheckKind {
            value: r(0),
            kind: Kind::Tensor,
            size: Some(1),
            dtype: Some(DType::F32),
            label,
        },
        I::MatchShape {
            value: r(0),
            heap: r(1),
            codes: codes(Code::Store(0)),
            terms: Box::default(),
            label,
        },
        I::MakeShape { to: Register(2), heap: r(1), codes: codes(Code::Slot(0)) },
        I::AllocStorage { to: Register(3), size: r(2), dtype: DType::F32 },
        I::AllocTensor {
            to: Register(4),
            storage: r(3),
            shape: r(2),
            dtype: None,
            offset: Operand::Constant(1),
        },
        I::CallKernel { kernel: 0, args: vec![r(0), r(4)].into() },
        I::Return(r(4)),
    ];
    let main = Function {
        name: "main".to_owned(),
        symbol: Some("main".to_owned()),
        params: 1,
        registers: 5,
        spans: vec![Span::default(); code.len()],
        code,
        span: Span::default(),
    };
    let integer = |value| Constant::Scalar(DType::I64, Number::Int(value));
    let texts = ["boundary", "parameter `x`", "Tensor((n,), \"f32\")"].map(str::to_owned).into();
    let program = Program {
        functions: vec![main],
        kernels: vec![kernel()],
        constants: vec![integer(1), integer(0)],
        texts,
    };
    let source = "the first\nthe second\nthe third\n".to_owned();
    Image { program, object, source, target: host_target(), ..Image::default() }
}

/// What `double_it` is to the machine.
fn kernel() -> Kernel {
    let buffer = |name: &str, is_written| Param::Buffer {
        name: name.to_owned(),
        dtype: DType::F32,
        rank: 1,
        is_written,
    };
    let site = |id: &str, message: &str| Site {
        id: id.to_owned(),
        message: message.to_owned(),
        span: Span { start: 12, end: 20 },
    };
    Kernel {
        name: "double".to_owned(),
        params: vec![buffer("X", false), buffer("Y", true)],
        symbol: Some("double_it".to_owned()),
        sites: vec![site("tir/test", "a negative element"), site("boundary/dim", "another length")],
        watched: None,
        span: Span::default(),
    }
}

#[test]
fn a_c_program_runs_a_module() {
    let (Some(mut kernel), Some(mut program)) = (compiler(), compiler()) else {
        requirement::skip("RELAX_REQUIRE_CC", "there is no C compiler");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let shared = ["-shared", "-fPIC", "-O1"];
    run(kernel.args(shared).arg(include()).arg("-o").arg(place("k.so")).arg(source("double.c")));
    let object = std::fs::read(place("k.so")).expect("the kernel");
    std::fs::write(place("m.rxm"), image(object).to_bytes()).expect("the module");
    let link = ["-lpthread", "-ldl", "-lm"];
    let warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"];
    run(program
        .args(warnings)
        .arg(include())
        .arg("-o")
        .arg(place("embed"))
        .arg(source("embed.c"))
        .arg(library())
        .args(link));
    let out = run(Command::new(place("embed")).arg(place("m.rxm")));
    let expected = "numerics: exact\n\
                    kind 1, dtype 2, rank 1, 3 elements: 2 5 -6\n\
                    kind 1, dtype 2, rank 1, 0 elements:\n\
                    tir/test at line 2: [tir/test] a negative element\n\
                    no trap at line 0: the module offers no `nothing`, but main\n\
                    damaged: refused\n";
    assert_eq!(out, expected);
}
