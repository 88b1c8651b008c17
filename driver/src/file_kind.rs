//! The kind of a file by its first bytes. Files that are no text are refused with what to do with them instead.

use relax_program::mlir;
use relax_runtime::file::MAGIC as MODULE_MAGIC;
use relax_syntax::codes;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::span::Span;
use std::path::Path;

/// Bytes that are looked at: in them are the names of the first members of an archive.
pub const BEGIN: usize = 4096;

/// What a file of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The text of a program, or anything else: reading it as a text says what it is.
    Text,
    /// An ONNX model, a description of ATen operators, or StableHLO.
    Model,
    /// A module file of `relax build`.
    Module,
}

impl FileKind {
    /// By the first [`BEGIN`] bytes of a file, and by the extension of its name where they do not say.
    #[must_use]
    pub fn of(begin: &[u8], path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match (program_kind(begin), extension) {
            (Some(kind), _) => kind,
            (None, Some("rxm")) => Self::Module,
            (None, Some("onnx" | "mlir" | "stablehlo")) => Self::Model,
            (None, _) => Self::Text,
        }
    }
}

/// A kind of file.
#[derive(Clone, Copy)]
struct Kind {
    what: &'static str,
    /// What to do; `FILE` stands for its name.
    help: &'static str,
}

const IMPORTED: &str = "`relax import FILE -o model.rx --params model.safetensors` makes a text of it; \
                        `relax inspect FILE` shows what is in it";
const ONNX: Kind = Kind { what: "an ONNX model", help: IMPORTED };
const ATEN: Kind = Kind { what: "a description of ATen operators", help: IMPORTED };
const STABLEHLO: Kind = Kind { what: "StableHLO text", help: IMPORTED };
const MLIR: Kind = Kind {
    what: "MLIR bytecode",
    help: "text is read: write what `jax.export.export(…)(…).mlir_module()` gives into a file",
};
const MODULE: Kind = Kind {
    what: "a module file of `relax build`",
    help: "give the program that it was built from; `relax inspect FILE` shows what is in it",
};
const PYTORCH: Kind = Kind {
    what: "a PyTorch file",
    help: "export the model with `torch.export.export`, and give that to the Python package: `relaxc.compile(exported)`",
};
const NPZ: Kind = Kind {
    what: "NumPy arrays (.npz)",
    help: "values of parameters are given as `--input NAME=@FILE:member`",
};
const NPY: Kind = Kind {
    what: "a NumPy array (.npy)",
    help: "the value of a parameter is given as `--input NAME=@FILE`",
};
const SAFETENSORS: Kind = Kind {
    what: "a safetensors file",
    help: "weights are given as `--params FILE`, beside a program",
};
const ZIP: Kind = Kind { what: "a zip archive", help: "unpack it" };
const GZIP: Kind = Kind { what: "gzip data", help: "decompress it: `gunzip FILE`" };
const ELF: Kind = Kind { what: "machine code (ELF)", help: "give the text of a program (.rx)" };
const HDF5: Kind = Kind { what: "an HDF5 file", help: "export the model to ONNX, and import that" };
const PICKLE: Kind = Kind {
    what: "a Python pickle",
    help: "export the model to ONNX, and import that; a pickle is never executed here",
};
const TFLITE: Kind = Kind {
    what: "a TensorFlow Lite model",
    help: "convert it to ONNX (`python -m tf2onnx.convert`), and import that",
};
const GGUF: Kind =
    Kind { what: "a GGUF file", help: "weights are given as `--params FILE`, beside a program" };

/// The error for bytes that are a known kind of file, and no text.
#[must_use]
pub fn refused(name: &str, bytes: &[u8]) -> Option<String> {
    let kind = kind(bytes)?;
    let help = kind.help.replace("FILE", name);
    Some(format!("{name}: expected the text of a program, found {}\n  help: {help}", kind.what))
}

/// The error for a text in another encoding.
#[must_use]
pub fn encoded(name: &str, bytes: &[u8]) -> Option<Diagnostic> {
    let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    let message = format!("{name}: expected the text of a program, found UTF-16 text");
    let found = Diagnostic::error(codes::UTF8, Span::default(), message);
    is_utf16.then(|| found.with_help("store the file as UTF-8"))
}

/// The kind of a program that is no text.
fn program_kind(bytes: &[u8]) -> Option<FileKind> {
    match kind(bytes)?.what {
        // Of bytecode the import says how to get text.
        what if [ONNX.what, ATEN.what, STABLEHLO.what, MLIR.what].contains(&what) => {
            Some(FileKind::Model)
        }
        what if what == MODULE.what => Some(FileKind::Module),
        _ => None,
    }
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    let begin = &bytes[..bytes.len().min(BEGIN)];
    let holds = |word: &[u8]| begin.windows(word.len()).any(|window| window == word);
    Some(match bytes {
        _ if starts(MODULE_MAGIC.as_slice()) => MODULE,
        // As `relaxc.torch` writes it: the format is the first field.
        _ if starts(b"{")
            && begin[..begin.len().min(64)].windows(12).any(|w| w == b"\"relax-aten\"") =>
        {
            ATEN
        }
        _ if starts(mlir::BYTECODE) => MLIR,
        _ if mlir::is_text(begin) => STABLEHLO,
        _ if starts(b"PK\x03\x04") && holds(b"data.pkl") => PYTORCH,
        _ if starts(b"PK\x03\x04") && holds(b".npy") => NPZ,
        _ if starts(b"PK\x03\x04") => ZIP,
        _ if starts(b"\x93NUMPY") => NPY,
        _ if starts(b"\x7fELF") => ELF,
        _ if starts(b"\x1f\x8b") => GZIP,
        _ if starts(b"\x89HDF\r\n") => HDF5,
        _ if starts(b"GGUF") && !bytes.is_ascii() => GGUF,
        [_, _, _, _, b'T', b'F', b'L', b'3', ..] => TFLITE,
        [0x80, 2..=5, ..] => PICKLE,
        [_, _, _, _, _, _, 0, 0, b'{', ..] => SAFETENSORS,
        // A field of a protobuf message: the version of the IR, and the next field.
        [0x08, 1..=0x7f, next, ..] if matches!(next & 7, 0 | 2) && !bytes.is_ascii() => ONNX,
        [0x08, 1..=0x7f, 0x12 | 0x3a | 0x42, ..] => ONNX,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let what = |bytes: &[u8]| kind(bytes).map(|kind| kind.what);
        assert_eq!(what(b"PK\x03\x04....x/data.pkl"), Some(PYTORCH.what));
        assert_eq!(what(b"PK\x03\x04....x.npy"), Some(NPZ.what));
        assert_eq!(what(b"\x40\0\0\0\0\0\0\0{\"w\":"), Some(SAFETENSORS.what));
        assert_eq!(what(b"\x08\x0a\x12\x07pytorch"), Some(ONNX.what));
        assert_eq!(what(b"\x80\x02}q"), Some(PICKLE.what));
        for text in
            [&b""[..], b"def main(x: Object):\n    return x\n", b"PK = 1", b"# \xc3\xa4", b"\xff"]
        {
            assert_eq!(what(text), None);
        }
    }
}
