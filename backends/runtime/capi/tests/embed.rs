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

/// `main` doubles a vector, `host` calls a host function, `keep` gives a tensor that it is given up.
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
            terms: vec![Text(5)].into(),
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
        donated: Vec::new(),
        registers: 5,
        spans: vec![Span::default(); code.len()],
        code,
        span: Span::default(),
    };
    let host = Function {
        name: "host".to_owned(),
        symbol: Some("host".to_owned()),
        params: 1,
        donated: Vec::new(),
        registers: 2,
        spans: vec![Span { start: 12, end: 20 }; 2],
        code: vec![
            I::CallHost {
                to: Register(1),
                name: Text(3),
                args: vec![r(0)].into(),
                keywords: vec![(Text(4), Operand::Constant(0))].into(),
            },
            I::Return(r(1)),
        ],
        span: Span::default(),
    };
    let integer = |value| Constant::Scalar(DType::I64, Number::Int(value));
    let texts = ["boundary", "parameter `x`", "Tensor((n,), \"f32\")", "mine.scale", "by", "n"];
    let texts = texts.map(str::to_owned).into();
    let (functions, constants) = (vec![main, host, keep()], vec![integer(1), integer(0)]);
    let program = Program { functions, kernels: vec![kernel()], constants, texts };
    let source = "the first\nthe second\nthe third\n".to_owned();
    Image { program, object, source, target: host_target(), ..Image::default() }
}

/// Gives the tensor that it is given up.
fn keep() -> Function {
    Function {
        name: "keep".to_owned(),
        symbol: Some("keep".to_owned()),
        params: 1,
        donated: vec![0],
        registers: 1,
        spans: vec![Span::default()],
        code: vec![I::Return(Operand::Register(0))],
        span: Span::default(),
    }
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
        values: 0,
        span: Span { start: 12, end: 20 },
    };
    Kernel {
        name: "double".to_owned(),
        params: vec![buffer("X", false), buffer("Y", true)],
        symbol: Some("double_it".to_owned()),
        sites: vec![site("tir/test", "a negative element"), site("boundary/dim", "another length")],
        watched: None,
        work: None,
        span: Span::default(),
    }
}

/// A folder with the module and what its kernel was compiled to; `None` without a compiler.
fn folder() -> Option<tempfile::TempDir> {
    let Some(mut kernel) = compiler() else {
        requirement::skip("RELAX_REQUIRE_CC", "there is no C compiler");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let shared = ["-shared", "-fPIC", "-O1"];
    run(kernel.args(shared).arg(include()).arg("-o").arg(place("k.so")).arg(source("double.c")));
    let object = std::fs::read(place("k.so")).expect("the kernel");
    std::fs::write(place("m.rxm"), image(object).to_bytes()).expect("the module");
    Some(folder)
}

/// What a C program prints that is linked with the static library.
fn printed(folder: &Path, name: &str) -> String {
    let program = folder.join(name.trim_end_matches(".c"));
    let link = ["-lpthread", "-ldl", "-lm"];
    let warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"];
    let mut compiler = compiler().expect("it was there");
    let compiler = compiler.args(warnings).arg(include()).arg("-o").arg(&program);
    run(compiler.arg(source(name)).arg(library()).args(link));
    run(Command::new(program).arg(folder.join("m.rxm")))
}

#[test]
fn a_c_program_runs_a_module() {
    let Some(folder) = folder() else { return };
    let expected = "numerics: exact\n\
                    kind 1, dtype 2, rank 1, 3 elements: 2 5 -6\n\
                    kind 1, dtype 2, rank 1, 0 elements:\n\
                    tir/test at line 2: [tir/test] a negative element\n\
                    no trap at line 0: the module offers no `nothing`, but host, keep, main\n\
                    damaged: refused\n";
    assert_eq!(printed(folder.path(), "embed.c"), expected);
}

#[test]
fn a_c_program_gives_a_tensor_up() {
    let Some(folder) = folder() else { return };
    let expected = "donated: 1 0 -1\n\
                    called: a copy\n\
                    named twice: a copy, taken\n\
                    given up: the same memory, 2\n\
                    lent: a copy\n\
                    a value that is given up is an argument twice\n\
                    an argument is null\n";
    assert_eq!(printed(folder.path(), "donate.c"), expected);
}

#[test]
fn a_c_program_looks_at_a_module_lends_memory_and_registers_functions() {
    let Some(folder) = folder() else { return };
    let expected = "versions are told\n\
                    host(1): `` of Object, dtype -1, rank -1\n\
                    keep(1): `` of Object, dtype -1, rank -1\n\
                    main(1): `x` of Tensor((n,), \"f32\"), dtype 2, rank 1, dims n\n\
                    missing mine.scale\n\
                    not supported: the program calls the host function `mine.scale`, and nobody registered one\n\
                    6 15\n\
                    [call/host] a negative factor, line 2\n\
                    [call/host] the host function `mine.scale` fails, line 2\n\
                    missing nothing\n\
                    lent 0 1\n\
                    result 0 is f32 [2] with 8 bytes; its buffer has 4 bytes and the dtype 2\n\
                    result 0 is f32 [2] with 8 bytes; its buffer has 8 bytes and the dtype 3\n\
                    4 10\n\
                    out of memory\n\
                    the size of rx_options is 1\n\
                    the path is null\n\
                    not aligned, released\n";
    assert_eq!(printed(folder.path(), "look.c"), expected);
}

/// The programs of docs/EMBEDDING.md, with an installed prefix.
#[test]
fn the_programs_of_the_page_run() {
    let Some(folder) = folder() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = std::fs::read_to_string(root.join("docs/EMBEDDING.md")).expect("the page");
    let prefix = folder.path().join("prefix");
    let made = library();
    let made = made.parent().expect("a folder");
    run(Command::new("sh").arg(root.join("scripts/install.sh")).arg(&prefix).arg(made));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "relax"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let flags = match flags {
        Ok(output) => String::from_utf8(output.stdout).expect("a text"),
        Err(_) => {
            requirement::skip("RELAX_REQUIRE_CC", "there is no pkg-config");
            return;
        }
    };
    let flags: Vec<&str> = flags.split_whitespace().collect();
    assert!(flags.contains(&"-lrelax_capi"), "{flags:?}");
    let module = folder.path().join("m.rxm");
    for (name, compiler, expected) in [
        (
            "first.c",
            "cc",
            "host: : Object\nkeep: : Object\nmain: x: Tensor((n,), \"f32\")\n2 5 -6\n",
        ),
        ("first.cc", "c++", "2 5 -6\n"),
    ] {
        let text = std::fs::read_to_string(source(name)).expect("a program");
        assert!(page.contains(&text), "{name} is not as on the page");
        let program = folder.path().join(compiler);
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror"]);
        if compiler == "c++" {
            command.arg("-std=c++17");
        }
        run(command.arg(source(name)).args(&flags).arg("-o").arg(&program));
        assert_eq!(run(Command::new(&program).arg(&module)), expected, "{name}");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/first.rs");
    let text = std::fs::read_to_string(example).expect("a program");
    assert!(page.contains(&text), "first.rs is not as on the page");
    let example = std::env::current_exe().expect("the path of this test");
    let example = example.ancestors().nth(2).expect("a folder").join("examples/first");
    if !example.exists() {
        requirement::skip(
            "RELAX_REQUIRE_CC",
            "the example `first` is not built: run `cargo test -p relax-capi`",
        );
        return;
    }
    let out = run(Command::new(example).arg(&module));
    assert_eq!(out, "x: Tensor((n,), \"f32\")\n[2.0, 5.0, -6.0]\n");
}
