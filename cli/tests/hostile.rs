//! Input that wants to do harm: each ends soon, with a message and the exit code of its kind, never with
//! a panic, and without the memory that it asks for.

mod piped;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// On a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(60);

fn relax(arguments: &[&str], input: &[u8]) -> Output {
    let start = Instant::now();
    let ended = piped::relax(arguments, input);
    assert!(start.elapsed() < LONGEST, "{arguments:?} took {:?}", start.elapsed());
    ended
}

/// The exit code, and that a refusal says something.
fn ends(what: &str, arguments: &[&str], input: &[u8], code: i32) {
    let ended = relax(arguments, input);
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        ended.status.code(),
        Some(code),
        "{what}: {}",
        told.chars().take(600).collect::<String>()
    );
    assert!(code == 0 || !told.is_empty(), "{what}: nothing is said");
    assert!(!told.contains("internal error"), "{what}: {told}");
}

#[test]
fn texts() {
    let token = "y".repeat(10 << 20);
    let nested =
        format!("def f(x: Object):\n    return {}x{}\n", "(".repeat(100_000), ")".repeat(100_000));
    let cyclic = "def a(x: Tensor((), \"f32\")) -> Tensor((), \"f32\"):\n    return b(x)\n\n\
                  def b(x: Tensor((), \"f32\")) -> Tensor((), \"f32\"):\n    return a(x)\n";
    let wide = "def f(x: Tensor((9223372036854775808,), \"f32\")):\n    return x\n";
    let negative = "def f(x: Tensor((\"n\",), \"f32\")):\n    return zeros((-1,), \"f32\")\n";
    let division = "def f(x: Tensor((\"n\",), \"f32\")):\n    return zeros((4 // 0,), \"f32\")\n";
    let tuples: String = (1..60).map(|i| format!("    t{i} = (t{0}, t{0})\n", i - 1)).collect();
    let tuples = format!("def f(t0: Tensor((\"n\",), \"f32\")):\n{tuples}    return t59\n");
    let cases: [(&str, &[u8], i32); 11] = [
        ("2^59 tensors in tuples", tuples.as_bytes(), 0),
        ("an empty file", b"", 0),
        ("a byte order mark", b"\xef\xbb\xbfdef f(x: Object):\n    return x\n", 0),
        ("NUL", b"def f(x: Object):\n    return x\0\n", 1),
        ("bad UTF-8", b"def f(x: Object):\n    return \xc3\x28\n", 1),
        ("a token of 10 MB", token.as_bytes(), 1),
        ("100,000 brackets", nested.as_bytes(), 1),
        ("functions that call each other", cyclic.as_bytes(), 0),
        ("a literal beyond i64", wide.as_bytes(), 1),
        ("a dim below 0", negative.as_bytes(), 1),
        ("a dim divided by 0", division.as_bytes(), 1),
    ];
    for (what, text, code) in cases {
        ends(what, &["check", "-"], text, code);
    }
}

#[test]
fn a_hundred_thousand_bindings() {
    let mut text = "def f(v0: Tensor((\"n\",), \"f32\")):\n".to_owned();
    for index in 1..100_000 {
        text.push_str(&format!("    v{index} = exp(v{})\n", index - 1));
    }
    text.push_str("    return v99999\n");
    ends("many bindings", &["check", "-"], text.as_bytes(), 0);
}

#[test]
fn runs() {
    let bomb = "def main(n: Shape([\"n\"])):\n    return zeros((n * 1099511627776,), \"f32\")\n";
    let bomb = bomb.replace("def main(n: Shape", "def main(s: Shape");
    let product = "def main(x: Tensor((\"n\",), \"f32\")):\n    \
                   return zeros((n + 3037000500, n + 3037000500, n + 3037000500), \"f32\")\n";
    let endless = "def main(x: Tensor((), \"f32\")) -> Tensor((), \"f32\"):\n    return main(x)\n";
    let shift = "def main(x: Tensor((), \"i32\")):\n    return left_shift(x, const(32, \"i32\"))\n";
    let least =
        "def main(x: Tensor((), \"i32\")):\n    return divide(const(-2147483648, \"i32\"), x)\n";
    let below = "def main(x: Tensor((\"n\",), \"f32\"), y: Tensor((\"m\",), \"f32\")):\n    \
                 return zeros((n - m,), \"f32\")\n";
    let zero = "def main(x: Tensor((\"n\",), \"f32\")):\n    return zeros((4 // n,), \"f32\")\n";
    let cases: [(&str, &str, &[&str], i32); 7] = [
        ("2^40 elements", &bomb, &["--input", "s=shape(1)"], 3),
        ("a product of dims beyond i64", product, &["--input", "x=zeros(0)"], 3),
        ("a recursion without end", endless, &["--input", "x=1.0"], 3),
        ("a shift by the width", shift, &["--input", "x=1"], 3),
        ("the least integer by -1", least, &["--input", "x=-1"], 0),
        ("a dim below 0", below, &["--input", "x=zeros(1)", "--input", "y=zeros(2)"], 3),
        ("a dim divided by 0", zero, &["--input", "x=zeros(0)"], 3),
    ];
    for (what, text, inputs, code) in cases {
        ends(what, &[&["run", "-"], inputs].concat(), text.as_bytes(), code);
    }
}

#[test]
fn tensor_files() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let program = folder.path().join("main.rx");
    std::fs::write(&program, "def main(x: Tensor((\"n\",), \"f32\")):\n    return x\n")
        .expect("the program is written");
    let header = |text: &str| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).expect("short").to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    let huge = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes(), b"{}"].concat();
    let cases: [(&str, Vec<u8>); 6] = [
        ("empty.npy", Vec::new()),
        ("magic.npy", b"\x93NUMPX\x01\x00".to_vec()),
        ("huge.npy", huge),
        ("object.npy", header("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n")),
        ("short.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }\n")),
        (
            "many.npy",
            header(
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }\n",
            ),
        ),
    ];
    for (name, bytes) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("the file is written");
        let spec = format!("x=@{}", path.display());
        ends(name, &["run", &program.display().to_string(), "--input", &spec], b"", 2);
    }
    let overlap = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    let length = u64::try_from(overlap.len()).expect("short").to_le_bytes();
    let bytes = [length.as_slice(), overlap.as_bytes(), &[0; 12]].concat();
    let weights = folder.path().join("overlap.safetensors");
    std::fs::write(&weights, bytes).expect("the file is written");
    let text = b"def main():\n    return param(\"a\", Tensor((2,), \"f32\"))\n";
    ends("overlapping weights", &["run", "-", "--params", &weights.display().to_string()], text, 2);
}

/// As [`ends`], in an address space of so many bytes.
#[cfg(unix)]
fn ends_within(what: &str, arguments: &[&str], kibibytes: u32, code: i32) -> String {
    let script = format!("ulimit -v {kibibytes} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_relax")]).args(arguments);
    let ended = command.stdin(Stdio::null()).output().expect("a shell");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(code), "{what}: {told}");
    told
}

/// Files that are larger than they look, or have no end. Each would fill the memory.
#[cfg(unix)]
#[test]
fn reading_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let program = path("main.rx");
    std::fs::write(&program, "def main(a: Tensor((\"n\",), \"u8\")):\n    return a\n")
        .expect("the program is written");
    let mut bomb = zip::ZipWriter::new(std::fs::File::create(path("bomb.npz")).expect("a file"));
    bomb.start_file("a.npy", zip::write::SimpleFileOptions::default()).expect("a member");
    let zeros = vec![0; 1 << 20];
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (419430400,), }\n";
    bomb.write_all(b"\x93NUMPY\x01\x00").expect("it is written");
    bomb.write_all(&(header.len() as u16).to_le_bytes()).expect("it is written");
    bomb.write_all(header.as_bytes()).expect("it is written");
    (0..400).for_each(|_| bomb.write_all(&zeros).expect("it is written"));
    bomb.finish().expect("it is written");
    let sparse = |name: &str, begin: &[u8]| {
        let mut file = std::fs::File::create(path(name)).expect("a file");
        file.write_all(begin).expect("it is written");
        file.set_len(6 << 30).expect("the file system has sparse files");
        path(name)
    };
    let (npz, zeros) = (format!("a=@{}", path("bomb.npz")), sparse("zeros.safetensors", b""));
    let claims = sparse("claims.safetensors", &[&(1_u64 << 40).to_le_bytes()[..], b"{"].concat());
    let begins = sparse("begins.safetensors", &[&9_u64.to_le_bytes()[..], b"{"].concat());
    let npy = format!("a=@{}", sparse("sparse.npy", b"\x93NUMPY\x01\x00"));
    let model = sparse("sparse.onnx", b"");
    let small = ["--max-memory", "10M"];
    let input = |spec: &str| {
        [&["--input".to_owned(), spec.to_owned()][..], &small.map(str::to_owned)].concat()
    };
    let params = |path: &str| {
        [&["--params".to_owned(), path.to_owned()][..], &small.map(str::to_owned)].concat()
    };
    let cases = [
        ("a zip bomb", input(&npz), 3),
        ("a sparse .npy", input(&npy), 3),
        ("a device as a tensor", input("a=@/dev/zero"), 2),
        ("a device as weights", params("/dev/zero"), 2),
        ("a random device as weights", params("/dev/urandom"), 2),
        ("sparse weights beyond the limit", params(&begins), 3),
        (
            "no header",
            vec!["--params".into(), zeros.clone(), "--max-memory".into(), "8G".into()],
            2,
        ),
        ("a long header", vec!["--params".into(), claims, "--max-memory".into(), "8G".into()], 2),
    ];
    for (what, more, code) in &cases {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        // What the command needs itself fits; the file does not.
        ends_within(what, &[&["run", &program], &more[..]].concat(), 950_000, *code);
    }
    let build = ["build", &program, "-o", &path("p.rxm"), "--params"];
    for file in ["/dev/zero", &zeros] {
        ends_within("weights of a build", &[&build[..], &[file]].concat(), 950_000, 2);
    }
    ends_within("a sparse model", &["import", &model, "-o", &path("m.rx")], 950_000, 3);
    ends_within("cases without end", &["prove", "--file", "/dev/zero"], 950_000, 2);
}

/// A field of a message of protocol buffers.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 14, "the length has two bytes here");
    let length = [(content.len() & 127) as u8 | 128, (content.len() >> 7) as u8];
    [&[number << 3 | 2], &length[..], content].concat()
}

/// A model whose result is the first of some u8 tensors of so many MiB, all of them the begin of one file.
fn beside(file: &str, tensors: u8, mebibytes: u64) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let count = mebibytes << 20;
    let dims: Vec<u8> = (0..5).map(|at| (count >> (7 * at)) as u8 & 127 | 128).collect();
    let dims = [&[1 << 3], &dims[..], &[0]].concat();
    let tensor = |at: u8| {
        let name = field(8, &[b'a' + at]);
        let external = [entry("location", file), vec![14 << 3, 1]].concat();
        field(5, &[&dims[..], &[2 << 3, 2], &name, &external].concat())
    };
    let shape = field(2, &field(1, &[1 << 3, 5]));
    let kind = field(2, &field(1, &[&[1 << 3, 2][..], &shape].concat()));
    let node = [field(1, b"a"), field(2, b"y"), field(4, b"Identity")].concat();
    let output = field(12, &[field(1, b"y"), kind].concat());
    let graph = [field(1, &node), (0..tensors).flat_map(tensor).collect(), output].concat();
    [vec![1 << 3, 8], field(8, &[2 << 3, 17]), field(7, &graph)].concat()
}

/// Tensors of a model in a file beside it: the limit is for all of them together.
#[cfg(unix)]
#[test]
fn external_data_of_a_model_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = std::fs::File::create(path("data")).expect("a file");
    file.set_len(6 << 30).expect("the file system has sparse files");
    let model = |name: &str, bytes: Vec<u8>| {
        std::fs::write(path(name), bytes).expect("the model is written");
        path(name)
    };
    let (large, several) =
        (model("large.onnx", beside("data", 1, 4096)), model("several.onnx", beside("data", 3, 4)));
    let run = |model: &str, limit: &str, code: i32| {
        ends_within(limit, &["run", model, "--max-memory", limit], 950_000, code)
    };
    let told = run(&large, "10M", 3);
    assert!(
        told.contains("takes 4294967296 bytes, the limit leaves 10485760 (--max-memory)"),
        "{told}"
    );
    let told = run(&several, "10M", 3);
    assert!(told.contains("the tensor `c`: its data takes 4194304 bytes"), "{told}");
    run(&several, "100M", 0);
    let told = run(&large, "8G", 3);
    assert!(told.contains("the system has no 4294967296 bytes"), "{told}");
}

/// The system has less memory than `--max-memory` allows.
#[cfg(unix)]
#[test]
fn failed_allocations_say_the_size() {
    let text = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";
    let folder = tempfile::tempdir().expect("a folder for the test");
    let program = folder.path().join("main.rx").display().to_string();
    std::fs::write(&program, text).expect("the program is written");
    for backend in ["interp", "cpu"] {
        let call = ["run", &program, "--backend", backend, "--input", "x=zeros(160000000)"];
        let told = ends_within(backend, &call, 1_100_000, 3);
        assert!(told.contains("the system has no 640000000 bytes"), "{told}");
    }
}
