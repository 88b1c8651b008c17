//! The module file: equal bytes for equal programs, and no bytes that do harm.

use crate::programs;
use crate::programs::{call, elements, image, module, vector};
use relax_runtime::file::{Image, LoadError, ModuleFile, RANKS_VERSION, VERSION};
use relax_runtime::instruction::{Instruction as I, Operand};
use relax_runtime::{Limits, Module, Value};
use std::path::PathBuf;

#[test]
fn a_file_reads_back() {
    let image = image();
    let bytes = image.to_bytes();
    assert_eq!(bytes, image.to_bytes(), "equal programs have equal bytes");
    assert_eq!(Image::from_bytes(&bytes), Ok(image));
    assert_eq!(bytes.len() % 64, 0);
}

#[test]
fn every_changed_byte_is_found_out() {
    let image = image();
    let bytes = image.to_bytes();
    for at in 0..bytes.len() {
        for change in [1_u8, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let read = Image::from_bytes(&changed);
            assert!(read.is_err(), "byte {at} of {} was changed unseen", bytes.len());
        }
    }
}

/// Code for each rank has a section and a version of its own, so readers that do not know of ranks refuse it.
#[test]
fn code_of_ranks_has_a_version_of_its_own() {
    let alone = image();
    let of_ranks = Image { ranks: "def main() -> R.Tensor\n".to_owned(), ..alone.clone() };
    let bytes = of_ranks.to_bytes();
    let version = |bytes: &[u8]| u32::from_le_bytes(bytes[8..12].try_into().expect("four"));
    assert_eq!((version(&alone.to_bytes()), version(&bytes)), (VERSION, RANKS_VERSION));
    assert_eq!(Image::from_bytes(&bytes), Ok(of_ranks));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Image::from_bytes(&changed).is_err(), "byte {at} was changed unseen");
        assert!(Image::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
    }
    // Neither version has the sections of the other.
    let as_version = |bytes: &[u8], version: u32| {
        let mut forged = bytes.to_vec();
        forged[8..12].copy_from_slice(&version.to_le_bytes());
        Image::from_bytes(&sealed(forged)).map_err(|error| error.to_string())
    };
    let why = "the module file is damaged: it has not the sections of its version".to_owned();
    assert_eq!(as_version(&bytes, VERSION), Err(why.clone()));
    assert_eq!(as_version(&alone.to_bytes(), RANKS_VERSION), Err(why));
    let path = on_disk("ranks", &bytes);
    let file = ModuleFile::open(&path).expect("it is whole");
    let module = Module::with_limits(image(), Box::new(programs::Double), Limits::default());
    assert_eq!(file.ranks(), "def main() -> R.Tensor\n");
    assert_eq!(module.expect("it is valid").ranks(), "");
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn every_shorter_file_is_found_out() {
    let bytes = image().to_bytes();
    for length in 0..bytes.len() {
        assert!(Image::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(Image::from_bytes(&longer).is_err());
}

#[test]
fn messages_name_what_is_wrong() {
    let message = |bytes: &[u8]| match Image::from_bytes(bytes) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was read"),
    };
    assert!(message(b"def main():\n").contains("no module file"));
    let bytes = image().to_bytes();
    let mut data = bytes.clone();
    let last = data.iter().rposition(|&byte| byte != 0).expect("some byte");
    data[last] ^= 1;
    assert!(
        message(&data).contains("`constants` does not have its checksum"),
        "{}",
        message(&data)
    );
    let mut table = bytes.clone();
    table[40] ^= 1;
    let why = message(&table);
    assert!(why.contains("the table of sections does not have its checksum"), "{why}");
    assert!(message(&bytes[..100]).contains("says that it has"), "{}", message(&bytes[..100]));
}

/// Another version, with the checksum of its header.
#[test]
fn another_version_is_told_apart_from_damage() {
    let mut bytes = image().to_bytes();
    for found in (1..VERSION).chain([RANKS_VERSION + 1]) {
        bytes[8..12].copy_from_slice(&found.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Image::from_bytes(&bytes), Err(LoadError::Version { found }));
    }
}

/// The bytes with new checksums of table and header.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sections = u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    let end = (32 + sections * 24).min(bytes.len());
    let crc = crc32fast::hash(&bytes[32..end]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Tables and headers that were changed and have the checksums of the change.
#[test]
fn forged_tables_are_refused() {
    let good = image().to_bytes();
    assert!(Image::from_bytes(&sealed(good.clone())).is_ok());
    let why = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        match Image::from_bytes(&sealed(bytes)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was read"),
        }
    };
    let damaged = |what: &str| format!("the module file is damaged: {what}");
    let names = ["target", "code", "metadata", "source", "certificate", "kernels", "constants"];
    for (at, name) in names.iter().enumerate() {
        let entry = 32 + 24 * at;
        let section = |what: &str| damaged(&format!("the section `{name}` {what}"));
        let place = section("does not begin where it must");
        assert_eq!(why(&|bytes| bytes[entry] ^= 8), section("is not where it belongs"));
        assert_eq!(why(&|bytes| bytes[entry + 4] ^= 1), section("does not have its checksum"));
        // A multiple of 64 further on, and one byte.
        assert_eq!(why(&|bytes| bytes[entry + 8] ^= 64), place);
        assert_eq!(why(&|bytes| bytes[entry + 8] ^= 1), place);
        let past = section("goes past the end of the file");
        assert_eq!(why(&|bytes| bytes[entry + 22] = 1), past);
        assert_eq!(why(&|bytes| bytes[entry + 16..entry + 24].fill(0xff)), past);
    }
    let between = damaged("something stands between two sections");
    let first = 32 + 24 * names.len();
    assert_eq!(why(&|bytes| bytes[first] = 1), between);
    assert_eq!(why(&|bytes| *bytes.last_mut().expect("bytes") = 1), between);
    let longer = |bytes: &mut Vec<u8>, more: usize| {
        bytes.extend(vec![0; more]);
        let length = bytes.len() as u64;
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
    };
    let end = damaged("it does not end after its sections");
    assert_eq!(why(&|bytes| longer(bytes, 64)), end);
    assert_eq!(why(&|bytes| longer(bytes, 1)), end);
    let count = damaged("it has not the sections of its version");
    for sections in [6, 8] {
        assert_eq!(why(&|bytes| bytes[12] = sections), count);
    }
    let short = damaged("it ends within its table");
    let cut = |bytes: &mut Vec<u8>| {
        bytes.truncate(first - 1);
        let length = bytes.len() as u64;
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
    };
    assert_eq!(why(&cut), short);
    let header = Image::from_bytes(&good[..31]).map_err(|error| error.to_string());
    assert_eq!(header, Err(damaged("it ends within its header")));
}

/// Writing returns the number of bytes, or the error of the writer.
#[test]
fn what_is_written_is_counted() {
    let (image, mut bytes) = (image(), Vec::new());
    let count = image.write(&mut bytes).expect("memory takes it");
    assert_eq!((count, &bytes), (bytes.len(), &image.to_bytes()));
    for room in [0, 31, 300, bytes.len() - 1] {
        let mut short = vec![0; room];
        assert!(image.write(&mut short.as_mut_slice()).is_err(), "{room}");
    }
}

/// Code that was changed and has the checksums of the change: it is refused, or runs to some end.
#[test]
fn forged_code_does_no_harm() {
    let bytes = image().to_bytes();
    let entry = 32 + 24;
    let place = u64::from_le_bytes(bytes[entry + 8..entry + 16].try_into().expect("eight"));
    let length = u64::from_le_bytes(bytes[entry + 16..entry + 24].try_into().expect("eight"));
    let (place, length) = (place as usize, length as usize);
    let (mut refused, mut ran) = (0, 0);
    for at in place..place + length {
        for change in [1_u8, 2, 0x7f, 0x80, 0xff] {
            let mut forged = bytes.clone();
            forged[at] ^= change;
            let crc = crc32fast::hash(&forged[place..place + length]);
            forged[entry + 4..entry + 8].copy_from_slice(&crc.to_le_bytes());
            if runs(&sealed(forged)) { ran += 1 } else { refused += 1 }
        }
    }
    assert!(refused > 100 && ran > 100, "{refused} refused, {ran} ran");
}

/// Whether the bytes are a module; if so, everything in it is called.
fn runs(bytes: &[u8]) -> bool {
    let Ok(image) = Image::from_bytes(bytes) else { return false };
    let limits = Limits { bytes: 1 << 20, depth: 50, steps: 1000, threads: 1 };
    let Ok(module) = Module::with_limits(image, Box::new(programs::Double), limits) else {
        return false;
    };
    let names: Vec<String> = module.functions().map(str::to_owned).collect();
    for name in names {
        for args in [&[][..], &[vector(&[1.0, 2.0])]] {
            drop(call(&module, &name, args));
        }
    }
    true
}

#[test]
fn what_is_read_is_what_was_written() {
    let image = Image::from_bytes(&image().to_bytes()).expect("it is whole");
    let (from_file, direct) =
        (Module::new(image, Box::new(programs::Double)), module(Limits::default()));
    let from_file = from_file.expect("it is valid");
    for module in [&from_file, &direct] {
        let y = call(module, "main", &[vector(&[1.5])]).expect("it runs");
        assert_eq!(elements(&y), [6.0]);
        assert!(module.source().starts_with("def main"));
        assert_eq!(module.metadata().producer, "a test");
    }
}

/// A file of this test's own.
fn on_disk(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("relax-{}-{name}.rxm", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder takes files");
    path
}

#[test]
fn a_file_on_disk_is_the_same_module() {
    let image = image();
    let path = on_disk("same", &image.to_bytes());
    let file = ModuleFile::open(&path).expect("it is whole");
    assert_eq!(Image::from_bytes(file.bytes()), Ok(image));
    assert_eq!(
        (file.kernels(), file.target(), file.metadata().producer.as_str()),
        (1, "", "a test")
    );
    assert!(file.calls_host("add_one") && !file.calls_host("main"));
    let module = Module::open(&path, Limits::default()).expect("it is valid");
    // Another file in its place changes nothing for who has the first one.
    std::fs::remove_file(&path).expect("it is there");
    std::fs::write(&path, b"something else").expect("the folder takes files");
    assert!(module.source().starts_with("def main"));
    assert_eq!(module.metadata().producer, "a test");
    assert!(ModuleFile::open(&path).is_err());
    std::fs::remove_file(&path).expect("it is there");
}

/// Constants stay where they lie in the file: nobody owns them, as of a copy.
#[test]
fn constants_of_a_file_on_disk_are_mapped() {
    let mut image = image();
    let code = vec![I::Return(Operand::Constant(2))];
    image.program.functions = vec![programs::function("f", 0, 0, code)];
    image.program.kernels.clear();
    let bytes = image.to_bytes();
    let path = on_disk("mapped", &bytes);
    let opened = Module::open(&path, Limits::default()).expect("it is valid");
    std::fs::remove_file(&path).expect("it is there");
    for (module, is_copied) in [(opened, false), (Module::load(&bytes).expect("valid"), true)] {
        let value = call(&module, "f", &[]).expect("it runs");
        drop(module);
        assert_eq!(elements(&value), [1.0, 2.0]);
        let Value::Tensor(tensor) = value else { panic!("a tensor") };
        assert_eq!(tensor.is_owned(), is_copied);
    }
}

#[test]
fn what_is_wrong_with_a_file_on_disk_is_told() {
    let bytes = image().to_bytes();
    let mut changed = bytes.clone();
    let last = changed.iter().rposition(|&byte| byte != 0).expect("some byte");
    changed[last] ^= 1;
    let cases = [
        ("changed", changed.as_slice(), "does not have its checksum"),
        ("short", &bytes[..bytes.len() - 64], "says that it has"),
        ("foreign", b"def main():\n", "no module file"),
        ("empty", b"", "no module file"),
    ];
    for (name, bytes, why) in cases {
        let path = on_disk(name, bytes);
        let (opened, checked) = (Module::open(&path, Limits::default()), ModuleFile::open(&path));
        std::fs::remove_file(&path).expect("it is there");
        let (opened, checked) = (opened.map(drop), checked.map(drop));
        assert_eq!(opened, checked, "{name}");
        assert!(opened.is_err_and(|error| error.to_string().contains(why)), "{name}");
    }
    let missing =
        Module::open(&std::env::temp_dir().join("relax-no-such-file.rxm"), Limits::default());
    assert!(matches!(missing, Err(LoadError::Unreadable { .. })));
}
