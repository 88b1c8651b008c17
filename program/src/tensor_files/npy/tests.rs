//! Files that NumPy wrote, and files that nobody should have written.

use super::*;
use relax_semantics::tensor::{Elements, Number};

fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    if version == 1 {
        bytes.extend(u16::try_from(header.len()).expect("test headers are short").to_le_bytes());
    } else {
        bytes.extend(u32::try_from(header.len()).expect("test headers are short").to_le_bytes());
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    read_npy(bytes).map(|tensor| format!("{tensor:?}")).expect_err("this file must be refused")
}

#[test]
fn orders_and_versions() {
    let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";
    let data: Vec<u8> = (0..6_i16).flat_map(i16::to_le_bytes).collect();
    for version in [1, 2, 3] {
        let tensor = read_npy(&file(version, header, &data)).expect("this is a good file");
        assert_eq!((tensor.dtype(), tensor.shape()), (DType::I16, [2, 3].as_slice()));
        assert_eq!(tensor.number(5), Number::Int(5));
    }
    let fortran = header.replace("False", "True");
    let tensor = read_npy(&file(1, &fortran, &data)).expect("this is a good file");
    let Elements::Int(elements) = tensor.elements() else { panic!("i16 is an integer dtype") };
    assert_eq!(elements.into_iter().collect::<Vec<_>>(), [0, 2, 4, 1, 3, 5]);
    let big =
        file(1, "{\"shape\": (1,), 'descr': '>f4', 'fortran_order': False}", &[0x3f, 0x80, 0, 0]);
    assert_eq!(read_npy(&big).expect("this is a good file").number(0), Number::Float(1.0));
}

#[test]
fn what_is_written_reads_back() {
    for (dtype, _) in DTYPES {
        for shape in [&[][..], &[0, 3], &[5], &[2, 1, 3]] {
            let tensor = Tensor::full(dtype, shape, Number::Int(1));
            let bytes = write_npy(&tensor).expect("NumPy has this dtype");
            assert_eq!((bytes.len() - to_bytes(&tensor).len()) % 64, 0);
            assert!(read_npy(&bytes).expect("our own file").same_as(&tensor), "{dtype} {shape:?}");
        }
    }
    let brain = Tensor::full(DType::BF16, &[1], Number::Int(1));
    assert!(write_npy(&brain).expect_err("NumPy has no bf16").contains("safetensors"));
}

#[test]
fn hostile_files_are_refused() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
    assert!(refusal(b"").contains("magic"));
    assert!(refusal(b"PK\x03\x04").contains("magic"));
    assert!(refusal(b"\x93NUMPY").contains("ends in its header"));
    assert!(refusal(b"\x93NUMPY\x01\x00\xff").contains("ends in its header"));
    assert!(refusal(b"\x93NUMPY\x09\x00\x00\x00").contains("version 9"));
    assert!(refusal(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").contains("4294967295"));
    assert!(refusal(b"\x93NUMPY\x01\x00\x00\x01{}").contains("ends in its header"));
    assert!(refusal(&file(1, "{'descr", &[])).contains("open string"));
    assert!(refusal(&file(1, good, &[0; 15])).contains("takes 16 bytes, the file has 15"));
    let with = |from: &str, to: &str| refusal(&file(1, &good.replace(from, to), &[0; 16]));
    assert!(with("<f4", "|O").contains("objects"));
    assert!(with("<f4", "<c8").contains("`<c8`"));
    assert!(with("<f4", "<U5").contains("`<U5`"));
    assert!(with("'<f4'", "[('a', '<f4')]").contains("records"));
    assert!(with("(4,)", "(4294967296, 4294967296, 4)").contains("beyond"));
    assert!(with("(4,)", "(0, 9223372036854775807, 9)").contains("beyond"));
    assert!(with("(4,)", "(99999999999999999999,)").contains("no proper shape"));
    assert!(with("(4,)", "(-4,)").contains("no proper shape"));
    assert!(with("(4,)", "((4,),)").contains("no proper shape"));
    assert!(with("(4,)", &format!("({})", "1,".repeat(65))).contains("64 dims"));
    assert!(with("'shape'", "'form'").contains("unknown key"));
    assert!(with(", 'shape': (4,)", "").contains("lacks"));
    assert!(refusal(&file(1, &"[".repeat(9000), &[])).contains("lacks a `{`"));
}
