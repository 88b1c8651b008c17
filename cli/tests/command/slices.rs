//! Weights of `relax run --ranks`: each rank reads its slices of a safetensors file; results and errors are those of whole weights.

use super::folder::{Folder, text};
use relax_program::tensor_files::write_safetensors;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::fs;

const PROGRAM: &str = r#"module_attr("mesh[0]", "2, 2")

def main(x: Tensor((3, 4), "f32"), a: DTensor((4, "f"), "f32", "mesh[0]", "S[0], S[1]"), b: DTensor(("f", 4), "f32", "mesh[0]", "R, S[0]"), c: Tensor((4,), "f32")):
    return add(matmul(matmul(x, a), b), c)
"#;

/// Small integers, so that sums in another order are the same.
fn weights(dtype: DType, f: usize) -> Vec<u8> {
    let tensor = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|at| (at * 7 % 5) as f64 - 2.0).collect();
        let values = ndarray::ArrayD::from_shape_vec(shape.to_vec(), values).expect("it fits");
        Tensor::from_floats(dtype, values)
    };
    let named = [("a", tensor(&[4, f])), ("b", tensor(&[f, 4])), ("c", tensor(&[4]))];
    write_safetensors(&named.map(|(name, tensor)| (name.to_owned(), tensor)))
        .expect("it is written")
}

#[test]
fn ranks_read_their_slices() {
    let folder = Folder::new();
    folder.write("p.rx", PROGRAM);
    for f in [0, 1, 5, 8] {
        fs::write(folder.0.path().join("w.safetensors"), weights(DType::F32, f)).expect("written");
        let run = |rest: &[&str]| {
            let common =
                ["run", "p.rx", "--params", "w.safetensors", "--input", "x=full((3, 4), 2.0)"];
            let ran = folder.relax(&[&common, rest].concat());
            (text(&ran.stdout), ran.status.code())
        };
        let one = run(&[]);
        assert_eq!(one.1, Some(0), "{}", one.0);
        assert_eq!(run(&["--ranks", "4"]), one, "{f}");
        assert_eq!(run(&["--ranks", "4", "--backend", "cpu"]), one, "{f}");
        // What `--input` gives is not taken from the file.
        let own = ["--input", "b=zeros"];
        assert_eq!(run(&[&["--ranks", "4"], &own[..]].concat()), run(&own), "{f}");
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    folder.write("p.rx", PROGRAM);
    fs::write(folder.0.path().join("w.safetensors"), weights(DType::F64, 8)).expect("written");
    let run = |program: &str, rest: &[&str]| {
        let common = ["run", program, "--params", "w.safetensors", "--input", "x=ones(3, 4)"];
        folder.ended(&[&common, rest].concat())
    };
    let (said, code) = run("p.rx", &["--ranks", "4"]);
    assert!(code == Some(2) && said.contains("is of dtype f32, its value of f64"), "{said}");
    folder.write("r.rx", &PROGRAM.replace("(4, \"f\"), \"f32\"", "(5, \"f\"), \"f32\""));
    fs::write(folder.0.path().join("w.safetensors"), weights(DType::F32, 8)).expect("written");
    let (one, ranks) = (run("r.rx", &[]), run("r.rx", &["--ranks", "4"]));
    assert!(one.1 != Some(0) && ranks.1 == one.1, "{one:?} {ranks:?}");
}
