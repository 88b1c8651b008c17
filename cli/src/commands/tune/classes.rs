//! `relax tune --backend`: what the versions of products take on a device, and the tree that chooses among them from then on.

use super::super::build::refused;
use super::super::cache::of_user;
use super::super::run::compiled;
use super::lines;
use crate::args::TuneArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_driver::{CompileError, Identity, Library, Measured, Target, Tuning, backend};
use relax_lower::gpu::measured::{Sample, Table, digest, presumed, sizes};
use relax_program::frontend::Program;
use relax_program::signature::random_value;
use relax_reference::to_machine;
use relax_rewrite::classes::{Sizes, Tree};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::{self as machine, Limits, Module};
use relax_semantics::random::Random;
use relax_syntax::Name;
use relax_syntax::span::Source;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Extents of which every three are a product that is measured, while there is time.
const EXTENTS: [i64; 5] = [1, 16, 64, 256, 1024];
/// Rows, beside them.
const ROWS: [i64; 2] = [4, 32];
/// When no further product is begun, unless products were named.
const BUDGET: Duration = Duration::from_secs(60);
/// For how long a product is called.
const ENOUGH: Duration = Duration::from_millis(40);
/// How often it is called at least, beside the first time.
const LEAST_CALLS: usize = 3;

pub(super) fn tune(args: &TuneArgs, terminal: &mut Terminal) -> Outcome {
    let device = args.backend;
    let identity = backend(device).open().map_err(Failure::missing)?.identity();
    let identity = identity.expect("invariant: devices that are measured have names");
    let kinds = backend(device).measured().expect("invariant: a device beside the processor");
    let path = match &args.output {
        Some(path) => path.clone(),
        None => path(&identity)?,
    };
    if !args.show {
        let samples = measured(args, kinds, terminal)?;
        let of = (identity.name.as_str(), identity.driver.as_str());
        let table = Table::learned(of, kinds.classes, samples);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::missing(format!("{}: {error}", folder.display())))?;
        }
        write_whole(&path, table.to_text().as_bytes())?;
    }
    let known = if path.exists() { Some(read(&path, &identity)?) } else { None };
    let mut text = format!("this device: {}, {}\n", identity.name, identity.driver);
    let shown = path.display();
    match &known {
        Some(table) => {
            _ = writeln!(text, "table {:016x}: {shown}", digest(&table.to_text()));
            told(table, &mut text);
        }
        None => _ = writeln!(text, "not measured: what is presumed is shown ({shown})"),
    }
    let is_measured = known.is_some();
    let tree = known.map_or_else(presumed, |table| table.tree);
    _ = write!(text, "{tree}");
    let mut chosen = Vec::new();
    for extents in &args.extents {
        let before = text.len();
        versions(&tree, extents, &mut text)?;
        let versions = lines(&text[before..]);
        chosen.push(json!({ "extents": extents, "versions": versions }));
    }
    terminal.tell(&text, || {
        json!({
            "type": "tune",
            "device": identity.name,
            "driver": identity.driver,
            "path": shown.to_string(),
            "measured": is_measured,
            "tree": tree.to_string(),
            "versions": chosen,
        })
    })?;
    Ok(Exit::Fine)
}

/// What was measured on a device before.
///
/// # Errors
/// A file that is damaged, or of another device.
pub(in crate::commands) fn known(identity: &Identity) -> Result<Option<Arc<Tree>>, Failure> {
    // Nothing was measured for a user without a cache.
    let Ok(path) = path(identity) else { return Ok(None) };
    if !path.exists() {
        return Ok(None);
    }
    let table = read(&path, identity);
    table.map(|table| Some(Arc::new(table.tree))).map_err(|failure| match failure {
        Failure::Message { exit, text } => {
            let text = format!("{text}; `relax tune` makes it anew, and without it there is none");
            Failure::Message { exit, text }
        }
        other => other,
    })
}

/// Where the table of a device is: beside the compiled kernels, under all that the device is known by.
fn path(identity: &Identity) -> Result<PathBuf, Failure> {
    let Identity { device, name, driver } = identity;
    let of = digest(&format!("{name}\n{driver}"));
    Ok(of_user()?.folder().join(format!("products-{}-{of:016x}.txt", device.name())))
}

fn read(path: &Path, identity: &Identity) -> Result<Table, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let table = Table::parse(&text).map_err(failed)?;
    if !table.is_of(&identity.name, &identity.driver) {
        let Table { device, driver, .. } = &table;
        let Identity { name, driver: own, .. } = identity;
        return Err(failed(format!("it is of {device}, {driver}, and this is {name}, {own}")));
    }
    Ok(table)
}

/// The products that are measured, least work first.
fn products(args: &TuneArgs, bytes: i64) -> Result<Vec<Sizes>, Failure> {
    let mut found = Vec::new();
    for text in &args.over {
        let wrong = || Failure::usage(format!("`{text}`: ROWSxTERMSxCOLUMNS is expected"));
        found.push(sizes(text, bytes).ok_or_else(wrong)?);
    }
    if args.over.is_empty() {
        let others = &EXTENTS[1..];
        for rows in EXTENTS.into_iter().chain(ROWS) {
            for &terms in others {
                let each = others.iter().map(|&columns| Sizes { rows, terms, columns, bytes });
                found.extend(each);
            }
        }
    }
    found.sort_unstable_by_key(|sizes| (sizes.rows * sizes.terms * sizes.columns, *sizes));
    found.dedup();
    Ok(found)
}

fn measured(
    args: &TuneArgs,
    kinds: Measured,
    terminal: &mut Terminal,
) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for (dtype, bytes) in kinds.dtypes {
        let text = format!(
            "def main(x: Tensor((\"m\", \"k\"), \"{dtype}\"), w: Tensor((\"k\", \"n\"), \"{dtype}\")):\n    return matmul(x, w)\n"
        );
        let program = Program::load(Source::new("a product", text.as_str()));
        let mut modules = Vec::new();
        for class in kinds.classes {
            terminal.doing(format!("compiling {} for {dtype}", class.name()));
            let products = Some(Arc::new(Tree::Leaf(*class)));
            let target = Target {
                library: Library::Unused,
                tuning: Tuning { products, ..Tuning::default() },
                ..Target::of(args.backend, kinds.numerics)
            };
            let refused = &mut |error| match error {
                CompileError::Pass(_) => Failure::missing("a product is refused by a pass"),
                other => refused(other, &program, terminal),
            };
            let (values, limits) = (Arc::default(), Limits::default());
            modules.push(compiled(&program, target, values, limits, &mut Unwatched, refused)?);
        }
        let end = Instant::now() + BUDGET;
        for sizes in products(args, *bytes)? {
            if args.over.is_empty() && Instant::now() >= end {
                break;
            }
            let Sizes { rows, terms, columns, .. } = sizes;
            terminal.doing(format!("measuring {rows}x{terms}x{columns}"));
            let arguments = arguments(&program, &sizes)?;
            let times = modules.iter().map(|module| time(module, &arguments));
            samples.push(Sample { sizes, times: times.collect::<Result<_, _>>()? });
        }
    }
    Ok(samples)
}

/// Both factors of a product.
fn arguments(program: &Program, sizes: &Sizes) -> Result<Vec<machine::Value>, Failure> {
    let extents = [("m", sizes.rows), ("k", sizes.terms), ("n", sizes.columns)];
    let dims = BTreeMap::from(extents.map(|(name, extent)| (Name::new(name), extent)));
    let function = program.module.function("main").expect("invariant: the text has it");
    let each = function.lambda.params.iter().map(|&id| {
        let mut random = Random::new(0, &function.var(id).name);
        let annotation = function.param_annotation(id);
        let value = random_value(annotation, &dims, &mut random, &(0..=0), 8 << 30);
        value.and_then(|value| to_machine(&value)).map_err(Failure::usage)
    });
    each.collect()
}

/// Nanoseconds of a call, at least.
fn time(module: &Module, arguments: &[machine::Value]) -> Result<u64, Failure> {
    let function = module.function("main").expect("invariant: the text has it");
    let call = || {
        let start = Instant::now();
        let result = function.call(arguments);
        let time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match result {
            Ok(_) => Ok(time.max(1)),
            Err(stop) => Err(Failure::missing(format!("a product was not computed: {stop:?}"))),
        }
    };
    // The first call compiles for the device, and brings the factors there.
    call()?;
    let (mut least, mut count) = (u64::MAX, 0);
    let end = Instant::now() + ENOUGH;
    while count < LEAST_CALLS || Instant::now() < end {
        least = least.min(call()?);
        count += 1;
    }
    Ok(least)
}

/// What the choices are worth.
fn told(table: &Table, text: &mut String) {
    let times = |tree: &Tree| {
        let thousandths = table.relative(tree);
        format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
    };
    let (count, tree, before) = (table.samples.len(), times(&table.tree), times(&presumed()));
    let _ = writeln!(
        text,
        "{count} products, times beside the best version: {tree} as learned, {before} as presumed"
    );
    for class in &table.classes {
        let _ = writeln!(text, "  always {}: {}", class.name(), times(&Tree::Leaf(*class)));
    }
}

/// `64x768x2304`: which version that product gets; `nx768x2304`: which versions there are as n grows.
fn versions(tree: &Tree, extents: &str, text: &mut String) -> Result<(), Failure> {
    let _ = writeln!(text, "{extents}:");
    if let Some(sizes) = sizes(extents, 4) {
        let _ = writeln!(text, "  {}", tree.class(&sizes).name());
        return Ok(());
    }
    let rest = extents.split_once('x').and_then(|(_, rest)| sizes(&format!("1x{rest}"), 4));
    let wrong =
        || Failure::usage(format!("`{extents}`: ROWSxTERMSxCOLUMNS is expected, as nx768x2304"));
    let rest = rest.ok_or_else(wrong)?;
    for (start, class) in tree.along(&|rows| Sizes { rows, ..rest }) {
        let _ = writeln!(text, "  rows from {start}: {}", class.name());
    }
    Ok(())
}
