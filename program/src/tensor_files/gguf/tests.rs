//! GGUF files made byte by byte, and files that nobody should have made.

use super::*;
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

/// A file in the making.
#[derive(Clone)]
struct Made {
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    alignment: usize,
    data: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [text(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
}

fn array(kind: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec(), elements.to_vec()].concat()
}

fn tensor(name: &str, dims: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let rank = u32::try_from(dims.len()).expect("test tensors have few dims");
    let mut bytes = text(name);
    bytes.extend(rank.to_le_bytes());
    dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    bytes.extend(format.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

impl Made {
    /// Two tensors: f32 of (2, 3), and Q4_0 of (2, 64), which is four blocks.
    fn good() -> Self {
        let mut data: Vec<u8> = (0..6_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        data.resize(32, 0);
        data.extend((0..72).map(|byte| byte + 100));
        Self {
            pairs: vec![pair("name", 8, &text("tiny"))],
            tensors: vec![tensor("x", &[3, 2], 0, 0), tensor("y.w", &[64, 2], 2, 32)],
            alignment: 32,
            data,
        }
    }

    fn with_pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.pairs.push(pair(key, kind, value));
        self
    }

    fn with_tensor(mut self, name: &str, dims: &[u64], format: u32, offset: u64) -> Self {
        self.tensors.push(tensor(name, dims, format, offset));
        self
    }

    fn of_version(&self, version: u32) -> Vec<u8> {
        let mut bytes = [b"GGUF".to_vec(), version.to_le_bytes().to_vec()].concat();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.pairs.len() as u64).to_le_bytes());
        self.pairs.iter().chain(&self.tensors).for_each(|part| bytes.extend(part));
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(&self.data);
        bytes
    }

    fn refusal(&self) -> String {
        refusal(self.of_version(3))
    }
}

fn refusal(bytes: Vec<u8>) -> String {
    Gguf::from_bytes(bytes).map(|file| format!("{:?}", file.tensors())).expect_err("no proper file")
}

#[test]
fn fields_are_split_from_blocks() {
    for version in [2, 3] {
        let file = Gguf::from_bytes(Made::good().of_version(version)).expect("a good file");
        assert_eq!(file.metadata()["name"].as_str(), Some("tiny"));
        let entries = file.entries();
        let names: Vec<&str> = entries.keys().map(String::as_str).collect();
        assert_eq!(names, ["x", "y.w.d", "y.w.qs"]);
        let x = file.tensor("x").expect("a plain tensor");
        assert_eq!((x.dtype(), x.shape()), (DType::F32, [2, 3].as_slice()));
        assert_eq!(x.number(5), Number::Float(5.0));
        let d = file.tensor("y.w.d").expect("a field");
        assert_eq!((d.dtype(), d.shape()), (DType::F16, [2, 2].as_slice()));
        let bits = |at: u16| f64::from(half::f16::from_bits(at * 257 + 256));
        // Blocks of 18 bytes begin at 100, 118, 136, 154.
        assert_eq!(d.number(3), Number::Float(bits(154)));
        let qs = file.tensor("y.w.qs").expect("a field");
        assert_eq!((qs.dtype(), qs.shape()), (DType::U32, [2, 8].as_slice()));
        assert_eq!(qs.number(4), Number::Int(0x7b7a_7978));
    }
}

#[test]
fn names_that_are_no_entries_are_refused() {
    let file = Gguf::from_bytes(Made::good().of_version(3)).expect("a good file");
    let why = |name: &str| file.tensor(name).expect_err("there is no such entry");
    assert_eq!(why("y.w"), "the file has its blocks of Q4_0 as `y.w.d`, `y.w.qs`");
    for name in ["y", "x.", "x.d", "y.w.m", "y.w.", "", "."] {
        assert_eq!(why(name), "there is no such tensor", "{name}");
    }
}

#[test]
fn leading_dims_are_kept() {
    let mut made = Made::good();
    made.tensors = vec![tensor("e", &[256, 3, 1, 2], 14, 0), tensor("none", &[32, 0], 8, 0)];
    made.data = vec![0; 6 * 210];
    let file = Gguf::from_bytes(made.of_version(3)).expect("a good file");
    let shape = |name: &str| file.tensor(name).expect("a field").shape().to_vec();
    assert_eq!(file.tensors()["e"].shape, [2, 1, 3, 256]);
    assert_eq!(shape("e.ql"), [2, 1, 3, 32]);
    assert_eq!(shape("e.scales"), [2, 1, 3, 16]);
    assert_eq!(shape("none.qs"), [0, 32]);
}

#[test]
fn blocks_have_the_sizes_of_ggml() {
    let sizes = [(2, 18), (3, 20), (6, 22), (7, 24), (8, 34), (12, 144), (13, 176), (14, 210)];
    for format in GgufFormat::ALL.iter().filter(|format| !format.is_plain()) {
        assert!(sizes.contains(&(format.id(), format.block_size())), "{format}");
        assert_eq!(GgufFormat::of_id(format.id()), Ok(*format));
    }
}

#[test]
fn large_tensors_are_read_in_chunks() {
    let mut made = Made::good();
    let blocks = CHUNK / 34 + 3;
    made.tensors = vec![tensor("w", &[32, blocks as u64], 8, 0)];
    made.data = (0..blocks * 34).map(|byte| (byte % 251) as u8).collect();
    let file = Gguf::from_bytes(made.of_version(3)).expect("a good file");
    let quants = file.tensor("w.qs").expect("a field");
    for block in [0, blocks - 4, blocks - 3, blocks - 1] {
        let expected = i64::from(((block * 34 + 2) % 251) as u8 as i8);
        assert_eq!(quants.number(block * 32), Number::Int(expected.into()), "{block}");
    }
}

#[test]
fn empty_files_and_arrays_are_fine() {
    let empty = [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &[0; 16]].concat();
    assert!(Gguf::from_bytes(empty).expect("no tensor, no padding").entries().is_empty());
    let made = Made::good().with_pair("none", 9, &array(8, 0, &[]));
    let file = Gguf::from_bytes(made.of_version(3)).expect("a good file");
    let array = file.metadata()["none"].as_array().expect("an array");
    assert!(array.is_empty() && array.get(0).is_none());
}

#[test]
fn alignment_moves_the_data() {
    let mut made = Made::good().with_pair("general.alignment", 4, &128_u32.to_le_bytes());
    made.alignment = 128;
    made.tensors.pop();
    // Headers of lengths whose multiples of 32 and of 128 differ.
    for length in [0, 32, 64, 96] {
        let made = made.clone().with_pair("pad", 8, &text(&"-".repeat(length)));
        let file = Gguf::from_bytes(made.of_version(3)).expect("a good file");
        assert_eq!(file.tensor("x").expect("a tensor").number(1), Number::Float(1.0));
    }
    let offset = |to: u64| made.clone().with_tensor("z", &[1], 24, to).refusal();
    assert!(offset(32).contains("tensor `z`: its offset 32 is no multiple of the alignment 128"));
    for (kind, value) in [(4, 0_u32), (4, 48), (5, 32)] {
        let made = Made::good().with_pair("general.alignment", kind, &value.to_le_bytes());
        assert!(made.refusal().contains("no uint32 that is a power of two"), "{value}");
    }
}

#[test]
fn other_versions_are_refused_by_name() {
    let of = |version: u32| refusal(Made::good().of_version(version));
    assert_eq!(of(1), "cannot read the file: it is of version 1; expected 2 or 3");
    assert!(of(4).contains("version 4") && of(0).contains("version 0"));
    assert_eq!(
        of(3_u32.swap_bytes()),
        "cannot read the file: it is big-endian; expected little-endian"
    );
    assert!(refusal(b"GGML\x03\0\0\0".to_vec()).contains("magic number at byte 0"));
    assert!(refusal(Vec::new()).contains("takes 4 bytes, but 0 are left"));
}

#[test]
fn forged_counts_are_refused() {
    let good = Made::good().of_version(3);
    let with = |at: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        refusal(bytes)
    };
    for value in [u64::MAX, 1 << 63, 1 << 40, 1000] {
        assert!(with(8, value).contains(&format!("{value} tensors are claimed at byte 8")));
        assert!(with(16, value).contains(&format!("{value} pairs of metadata are claimed")));
        assert!(with(24, value).contains(&format!("a key at byte 32 takes {value} bytes")));
        assert!(with(40, value).contains("the value of `name`"));
        let forged =
            |kind: u32| Made::good().with_pair("many", 9, &array(kind, value, &[0; 16])).refusal();
        for kind in [0, 7, 8, 12] {
            assert!(forged(kind).contains("`many`"), "{}", forged(kind));
        }
    }
}

#[test]
fn wrong_metadata_is_refused() {
    let with = |kind: u32, value: &[u8]| Made::good().with_pair("k", kind, value).refusal();
    assert!(with(13, &[0]).contains("`k` has the unknown value type 13"));
    assert!(with(9, &array(77, 0, &[])).contains("`k` has the unknown element type 77"));
    assert!(with(9, &array(9, 0, &[])).contains("`k` is an array of arrays"));
    assert!(with(7, &[2]).contains("`k` has the bool 2"));
    assert!(with(9, &array(7, 3, &[0, 1, 255])).contains("`k` has the bool 255"));
    let nothing = [2_u64.to_le_bytes().as_slice(), b"\xff\xfe"].concat();
    assert!(with(8, &nothing).contains("the value of `k` at byte 65 is not UTF-8"));
    assert!(Made::good().with_pair("name", 0, &[1]).refusal().contains("`name` at byte 52"));
    let long = "k".repeat(65_536);
    assert!(Made::good().with_pair(&long, 0, &[1]).refusal().contains("at most 65535"));
}

#[test]
fn wrong_tensors_are_refused() {
    let with = |dims: &[u64], format: u32, offset: u64| {
        Made::good().with_tensor("bad", dims, format, offset).refusal()
    };
    assert!(with(&[1; 5], 0, 128).contains("tensor `bad`: it has 5 dims, at most 4"));
    assert!(with(&[1], 23, 128).contains("tensor `bad`: it has the format IQ4_XS, which is not"));
    assert!(with(&[256], 10, 128).contains("format Q2_K"));
    assert!(with(&[1], 999, 128).contains("tensor `bad`: it has the unknown format 999"));
    assert!(with(&[33], 2, 128).contains("rows of 33 elements are no whole blocks of 32 (Q4_0)"));
    assert!(with(&[128], 14, 128).contains("no whole blocks of 256"));
    assert!(with(&[], 2, 128).contains("rows of 1 elements"));
    assert!(with(&[1], 0, 8).contains("offset 8 is no multiple of the alignment 32"));
    assert!(with(&[1], 0, 128).contains("tensor `bad`: its 4 bytes at offset 128 of the data"));
    assert!(with(&[1], 0, u64::MAX - 31).contains("end after the file"));
    assert!(with(&[8], 0, 0).contains("tensors `x` and `bad` overlap at byte"));
    assert!(with(&[1], 0, 64).contains("tensors `y.w` and `bad` overlap at byte"));
    for dims in [[1 << 32, 1 << 32], [0, 1 << 63], [u64::MAX, 0], [1 << 62, 1]] {
        assert!(with(&dims, 0, 0).contains("beyond what a machine can hold"), "{dims:?}");
    }
    let twice = Made::good().with_tensor("x", &[0], 0, 0).refusal();
    assert!(twice.contains("the tensor `x` at byte"), "{twice}");
    let field = Made::good().with_tensor("y.w.d", &[0], 0, 0).refusal();
    assert!(field.contains("`y.w.d` is a tensor and a field of another tensor"), "{field}");
}

#[test]
fn a_file_that_changes_is_refused() {
    let folder = std::env::temp_dir().join(format!("relax-gguf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let path = folder.join("changing.gguf");
    let mut bytes = Made::good().of_version(3);
    std::fs::write(&path, &bytes).expect("it can be written");
    let limit = bytes.len() as u64;
    let small = Gguf::open_within(&path, limit - 1).map(|_| ()).expect_err("too large");
    assert!(matches!(small, FileError::Limit(_)), "{small}");
    let file = Gguf::open_within(&path, limit).expect("a good file");
    let mut content = Vec::new();
    file.content().read_to_end(&mut content).expect("it can be read");
    assert!(content == bytes);
    assert_eq!(file.tensor("x").expect("a tensor").number(2), Number::Float(2.0));
    bytes.push(0);
    std::fs::write(&path, &bytes).expect("it can be written");
    let changed = "the file was changed after it was opened";
    assert_eq!(file.tensor("x").expect_err("it is another file"), changed);
    assert_eq!(file.content().read_to_end(&mut content).expect_err("too").to_string(), changed);
    std::fs::write(&path, b"GGUF").expect("it can be written");
    let short = Gguf::open(&path).map(|_| ()).expect_err("it ends early");
    assert!(short.starts_with(&format!("{} is no proper GGUF file: the version", path.display())));
    std::fs::remove_dir_all(folder).expect("it can be removed");
}
