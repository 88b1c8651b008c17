//! How long a module file takes until it can be called: from its bytes, which are copied, and from where it lies.
//!
//!     cargo run --release -p relax-runtime --example load -- m.rxm

use relax_runtime::{Limits, Module};
use std::io::Write;
use std::time::Instant;

const TIMES: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: load FILE.rxm")?;
    let least = |load: &dyn Fn() -> Result<Module, Box<dyn std::error::Error>>| {
        let mut least = f64::INFINITY;
        for _ in 0..TIMES {
            let start = Instant::now();
            drop(load()?);
            least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok::<f64, Box<dyn std::error::Error>>(least)
    };
    let copied = least(&|| Ok(Module::load(&std::fs::read(&path)?)?))?;
    let mapped = least(&|| Ok(Module::open(path.as_ref(), Limits::default())?))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "read and copied: {copied:.1} ms; mapped: {mapped:.1} ms")?;
    Ok(())
}
