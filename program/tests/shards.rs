//! Safetensors in several files: what is read, and what is refused where an index and files disagree.

use relax_program::tensor_files::{Weights, write_safetensors};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("relax-shards-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn shard(folder: &Path, name: &str, tensors: &[(&str, i128)]) {
    let tensor = |value| Tensor::full(DType::F32, &[2], Number::Int(value));
    let tensors: Vec<_> =
        tensors.iter().map(|(name, value)| ((*name).to_owned(), tensor(*value))).collect();
    let bytes = write_safetensors(&tensors).expect("it has a format");
    fs::write(folder.join(name), bytes).expect("it is written");
}

fn opened(folder: &Path, map: &str) -> Result<Weights, String> {
    let index = folder.join("model.safetensors.index.json");
    fs::write(&index, format!("{{\"weight_map\": {{{map}}}}}")).expect("it is written");
    Weights::open(&index)
}

#[test]
fn tensors_of_all_files_are_read() {
    let folder = folder("all");
    shard(&folder, "1.safetensors", &[("a", 1), ("b", 2)]);
    shard(&folder, "2.safetensors", &[("c", 3)]);
    let map = r#""a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors""#;
    let weights = opened(&folder, map).expect("it is proper");
    assert_eq!(weights.files().len(), 3);
    let names: Vec<String> = weights.entries().expect("it is open").into_keys().collect();
    assert_eq!(names, ["a", "b", "c"]);
    let firsts: Vec<f64> =
        weights.tensors(&names).expect("they are there").iter().map(|t| t.to_floats()[0]).collect();
    assert_eq!(firsts, [1.0, 2.0, 3.0]);
    let missing = weights.tensors(&["d".to_owned()]).expect_err("it is not there");
    assert!(missing.contains("`d`: the index does not have it"), "{missing}");
    // Tensors are read when they are asked for, from files as they were opened.
    shard(&folder, "2.safetensors", &[("c", 3), ("d", 4)]);
    let changed = weights.tensors(&["c".to_owned()]).expect_err("it was changed");
    assert!(changed.contains("2.safetensors: `c`: the file was changed"), "{changed}");
    fs::remove_dir_all(&folder).expect("it is removed");
}

#[test]
fn what_disagrees_is_refused() {
    let folder = folder("refused");
    shard(&folder, "1.safetensors", &[("a", 1), ("b", 2)]);
    shard(&folder, "2.safetensors", &[("b", 3)]);
    shard(&folder, "3.safetensors", &[("c", 3)]);
    let refused = |map: &str, words: &str| {
        let why = opened(&folder, map).err().unwrap_or_else(|| panic!("{map} is not refused"));
        assert!(why.contains(words), "{map}: {why}");
    };
    let one = r#""a": "1.safetensors", "b": "1.safetensors""#;
    refused(
        &format!("{one}, \"c\": \"9.safetensors\""),
        "the tensor `c` is in `9.safetensors`: cannot read",
    );
    refused(
        r#""a": "1.safetensors", "b": "2.safetensors""#,
        "the tensor `b` is in two files, `1.safetensors` and `2.safetensors`",
    );
    refused(&format!("{one}, \"b\": \"3.safetensors\""), "the tensor `b` is in two files");
    refused(
        r#""a": "1.safetensors""#,
        "`1.safetensors` has the tensor `b`, which the index does not have",
    );
    refused(
        &format!("{one}, \"d\": \"1.safetensors\""),
        "has the tensor `d` in `1.safetensors`, which does not",
    );
    refused(
        &format!("{one}, \"c\": \"1.safetensors\", \"d\": \"3.safetensors\""),
        "the index has the tensor `c` in `1.safetensors`, it is in `3.safetensors`",
    );
    for path in ["../x.safetensors", "/x.safetensors", "a/../x", "", "..", ".", "a/b", "a\\\\b"] {
        refused(&format!("\"a\": \"{path}\""), "expected the name of a file beside the index");
    }
    refused(r#""a": 1"#, "it is no index of safetensors files: ");
    fs::write(folder.join("4.safetensors"), "no").expect("it is written");
    refused(r#""a": "4.safetensors""#, "4.safetensors is no proper safetensors file");
    fs::remove_dir_all(&folder).expect("it is removed");
}
