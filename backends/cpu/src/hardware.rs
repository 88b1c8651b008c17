//! What the processor at hand is: its vectors as the standard library detects them, its caches as Linux tells. What is
//! not told is assumed.

use relax_emit::tiles::{Hardware, Isa};
use std::fs;
use std::path::Path;

/// The processor at hand.
#[must_use]
pub fn hardware() -> Hardware {
    let mut hardware = Hardware::assumed(isa());
    let caches = caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
    for (level, bytes) in caches {
        match level {
            1 => hardware.l1 = bytes,
            2 => hardware.l2 = bytes,
            _ => hardware.l3 = bytes,
        }
    }
    let cores = std::thread::available_parallelism();
    hardware.cores = cores.map_or(1, |cores| cores.get() as u64);
    hardware
}

#[cfg(target_arch = "x86_64")]
fn isa() -> Isa {
    if std::is_x86_feature_detected!("avx512f") {
        Isa::Avx512
    } else if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        Isa::Avx2
    } else {
        Isa::Plain
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn isa() -> Isa {
    if cfg!(target_arch = "aarch64") { Isa::Neon } else { Isa::Plain }
}

/// Level and bytes of each cache for data.
fn caches(folder: &Path) -> Vec<(u64, u64)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u64, u64)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let kind = read("type")?;
            if kind.trim() == "Instruction" {
                return None;
            }
            Some((read("level")?.trim().parse().ok()?, bytes(read("size")?.trim())?))
        })
        .filter(|&(_, bytes)| bytes > 0)
        .collect();
    found.sort_unstable();
    found
}

/// `32K` and the like.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_linux_writes_them() {
        let folder = std::env::temp_dir().join(format!("relax-caches-{}", std::process::id()));
        for (at, (level, kind, size)) in
            [("2", "Unified", "1024K"), ("1", "Instruction", "64K"), ("1", "Data", "48K")]
                .into_iter()
                .enumerate()
        {
            let index = folder.join(format!("index{at}"));
            fs::create_dir_all(&index).expect("a folder");
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(index.join(name), format!("{text}\n")).expect("a file");
            }
        }
        assert_eq!(caches(&folder), [(1, 48 << 10), (2, 1 << 20)]);
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(caches(&folder), []);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("32K"), Some(32 << 10));
        assert_eq!(bytes("7"), Some(7));
        assert_eq!(bytes("x"), None);
        assert_eq!(bytes("3Q"), None);
    }

    #[test]
    fn there_is_a_processor() {
        let hardware = hardware();
        assert!(hardware.cores >= 1 && hardware.l1 >= 1 << 10 && hardware.l2 >= hardware.l1);
    }
}
