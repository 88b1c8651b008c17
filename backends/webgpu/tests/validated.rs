//! Every kernel of the corpus as WGSL, held by naga against the language, without a device. What the printer refuses stands
//! with its reason in `refused.txt`, which `RELAX_BLESS=1` rewrites: look at what is new there.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
use relax_driver::{Target, lower};
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::parse::read_source;
use relax_webgpu::{Doubles, Formats, Halves, Kernel, print_wgsl};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What became of the kernels.
#[derive(Default)]
struct Found {
    valid: BTreeMap<&'static str, usize>,
    refused: Vec<String>,
    invalid: Vec<String>,
}

#[test]
fn every_kernel_is_valid() {
    let shares = par_map_chunks(files::programs(), |paths| {
        let mut found = Found::default();
        paths.iter().for_each(|path| hold(path, &mut found));
        found
    });
    let mut found = Found::default();
    for share in shares {
        share.valid.into_iter().for_each(|(label, n)| *found.valid.entry(label).or_default() += n);
        found.refused.extend(share.refused);
        found.invalid.extend(share.invalid);
    }
    found.refused.sort();
    for (label, count) in &found.valid {
        eprintln!("{label}: {count} kernels are valid");
    }
    eprintln!("{} kernels are refused", found.refused.len());
    assert!(found.invalid.is_empty(), "{}", found.invalid.join("\n"));
    let mut text = String::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &found.refused {
        *reasons.entry(line.split_once(": ").map_or("", |(_, reason)| reason)).or_default() += 1;
    }
    for (label, count) in &found.valid {
        let _ = writeln!(text, "# {label}: {count} kernels are valid");
    }
    let _ = writeln!(text, "# {} kernels are refused", found.refused.len());
    for line in &found.refused {
        let _ = writeln!(text, "{line}");
    }
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refused.txt");
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(&place, &text).expect("the file can be written");
    }
    let known = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(known == text, "refused.txt is not what was found: RELAX_BLESS=1, and look at it");
}

fn hold(path: &PathBuf, found: &mut Found) {
    let bytes = std::fs::read(path).expect("a file of the corpus");
    let Ok(source) = read_source("corpus", &bytes) else { return };
    let program = Program::load(source.clone());
    let part = well_formed_part(&program);
    let name = files::name(path);
    let target = Target::of(Device::Wgpu, Numerics::Exact);
    let lowered = lower(&target, &part, &Settings::default(), &mut Unwatched);
    let Ok(lowered) = lowered else { return };
    for (formats, label) in [(Formats::NATIVE, "native"), (Formats::default(), "portable")] {
        let printed = print_wgsl(&lowered.module, &mut Prover::new(), formats, Some(&source));
        for (kernel, reason) in &printed.left_out {
            if reason.contains("external") {
                continue;
            }
            found.refused.push(format!("{label} {name} {kernel}: {reason}"));
        }
        for kernel in &printed.kernels {
            match validate(kernel) {
                Ok(()) => *found.valid.entry(label).or_default() += 1,
                Err(why) => found.invalid.push(format!("{name} {}: {why}", kernel.program.name)),
            }
        }
    }
}

fn validate(kernel: &Kernel) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(&kernel.text)
        .map_err(|error| error.emit_to_string(&kernel.text))?;
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::FLOAT64, kernel.formats.doubles == Doubles::Native);
    capabilities.set(Capabilities::SHADER_FLOAT16, kernel.formats.halves == Halves::Native);
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.validate(&module).map_err(|error| error.emit_to_string(&kernel.text))?;
    Ok(())
}
