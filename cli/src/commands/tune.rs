//! `relax tune`: what tiles of products take on this machine, measured; and what is chosen for which extents.

mod classes;

use super::cache::{cache, of_user};
use crate::args::TuneArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_cpu::{Compiler, hardware, measure};
use relax_emit::tiles::{Choice, Hardware, Measured, Plan, Right, Table, Tile};
use relax_rewrite::pass::Device;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) use classes::known;

pub(super) fn tune(args: &TuneArgs, terminal: &mut Terminal) -> Outcome {
    if args.backend != Device::Cpu {
        return classes::tune(args, terminal);
    }
    if !args.over.is_empty() {
        return Err(Failure::usage("`--over` is for devices: give `--backend`"));
    }
    let path = match &args.output {
        Some(path) => path.clone(),
        None => of_user()?.tiles(),
    };
    if !args.show {
        let compiler = Compiler::of_system().map_err(Failure::missing)?;
        terminal.doing("measuring tiles".to_owned());
        let table = measure(&compiler, cache()?).map_err(Failure::missing)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::missing(format!("{}: {error}", folder.display())))?;
        }
        write_whole(&path, table.to_text().as_bytes())?;
    }
    let known = if path.exists() { Some(read(&path)?) } else { None };
    let mut text = facts(&hardware());
    match &known {
        Some(table) => _ = writeln!(text, "table {:016x}: {}", table.digest(), path.display()),
        None => {
            _ = writeln!(text, "not measured: the built-in model is shown ({})", path.display())
        }
    }
    let assumed = Hardware::assumed(hardware().isa);
    let digest = known.as_ref().map(|table| format!("{:016x}", table.digest()));
    let plan = Plan::of(&known.unwrap_or_else(|| Table::built_in(assumed)));
    candidates(&plan, &mut text);
    let mut chosen = Vec::new();
    for extents in &args.extents {
        let before = text.len();
        versions(&plan, extents, &mut text)?;
        chosen.push((extents.as_str(), lines(&text[before..])));
    }
    terminal.tell(&text, || object(&plan, digest, &path, &chosen))?;
    Ok(Exit::Fine)
}

/// The table that a build is given: a file, or what was measured on this machine.
pub(super) fn given(tuned: Option<&Option<PathBuf>>) -> Result<Option<Table>, Failure> {
    let Some(named) = tuned else { return Ok(None) };
    let path = match named {
        Some(path) => path.clone(),
        None => of_user()?.tiles(),
    };
    if !path.exists() {
        let path = path.display();
        return Err(Failure::missing(format!("{path}: nothing was measured; `relax tune` does")));
    }
    read(&path).map(Some)
}

fn read(path: &Path) -> Result<Table, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Table::parse(&text).map_err(failed)
}

/// Lines after the first, without indents.
fn lines(text: &str) -> Vec<String> {
    text.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

/// The table for tools.
fn object(
    plan: &Plan,
    digest: Option<String>,
    path: &Path,
    chosen: &[(&str, Vec<String>)],
) -> Value {
    let Hardware { isa, l1, l2, l3, cores } = hardware();
    let tile = |measured: &Measured| {
        let Measured { tile, times } = measured;
        json!({
            "rows": tile.rows,
            "vectors": tile.vectors,
            "packed_ps": times.packed,
            "in_place_ps": times.in_place,
            "chosen": plan.tiles.iter().any(|chosen| chosen.tile == *tile),
        })
    };
    let Table { pack, turn, far, left, .. } = plan.table;
    json!({
        "type": "tune",
        "processor": {
            "isa": isa.name(), "lanes": isa.lanes(), "registers": isa.registers(),
            "caches": [l1, l2, l3], "cores": cores,
        },
        "path": path.display().to_string(),
        "measured": digest.is_some(),
        "digest": digest,
        "tiles": plan.table.tiles.iter().map(tile).collect::<Vec<_>>(),
        "pack_ps": pack, "turn_ps": turn, "far_ps": far, "left_ps": left,
        "blocks": {
            "panel": plan.blocks.panel, "terms": plan.blocks.terms, "panels": plan.blocks.panels,
        },
        "versions": chosen
            .iter()
            .map(|(extents, versions)| json!({ "extents": extents, "versions": versions }))
            .collect::<Vec<_>>(),
    })
}

fn facts(hardware: &Hardware) -> String {
    let Hardware { isa, l1, l2, l3, cores } = *hardware;
    let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
    format!(
        "this processor: {}, {} f32 in a vector, {} registers; caches {}, {}, {}; {cores} cores\n",
        isa.name(),
        isa.lanes(),
        isa.registers(),
        kib(l1),
        kib(l2),
        kib(l3)
    )
}

/// Level 0 as measured, and what was chosen.
fn candidates(plan: &Plan, text: &mut String) {
    let lanes = plan.table.hardware.isa.lanes();
    let rate = |tile: Tile, ps: u64| {
        let operations = (2 * tile.rows * tile.vectors * lanes) as f64;
        operations * 1e3 / ps as f64
    };
    let _ = writeln!(text, "tiles, rows x vectors: GFLOP/s packed and in place; * is chosen");
    for measured in &plan.table.tiles {
        let Measured { tile, times } = measured;
        let mark = if plan.tiles.iter().any(|chosen| chosen.tile == *tile) { "*" } else { " " };
        let (packed, in_place) = (rate(*tile, times.packed), rate(*tile, times.in_place));
        let Tile { rows, vectors } = tile;
        let _ = writeln!(text, "{mark} {rows:2} x {vectors} {packed:7.1} {in_place:7.1}");
    }
    let Table { pack, turn, far, left, .. } = plan.table;
    let _ = writeln!(
        text,
        "a vector: {pack} ps to pack, {turn} ps to turn and pack, {far} ps from behind the second cache; an element \
         of the left side: {left} ps"
    );
    let blocks = plan.blocks;
    let _ = writeln!(
        text,
        "blocks: panels of {} vectors, {} terms, {} panels in the second cache",
        blocks.panel, blocks.terms, blocks.panels
    );
}

/// `64x768x2304`: which version that product gets; `nx768x2304`: which versions there are as n grows.
fn versions(plan: &Plan, extents: &str, text: &mut String) -> Result<(), Failure> {
    let wrong =
        || Failure::usage(format!("`{extents}`: ROWSxTERMSxCOLUMNS is expected, as nx768x2304"));
    let parts: Vec<&str> = extents.split('x').collect();
    let [rows, terms, columns] = parts.as_slice() else { return Err(wrong()) };
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| (1..1 << 40).contains(n));
    let (terms, columns) = (number(terms).ok_or_else(wrong)?, number(columns).ok_or_else(wrong)?);
    let _ = writeln!(text, "{extents}:");
    if let Some(rows) = number(rows) {
        let _ = writeln!(text, "  {}", told(plan, rows, terms, columns, Detail::Tiles));
        return Ok(());
    }
    let mut first = 1;
    let mut known = told(plan, 1, terms, columns, Detail::Kind);
    for row in 2..=MOST_ROWS + 1 {
        let next = if row > MOST_ROWS {
            String::new()
        } else {
            told(plan, row, terms, columns, Detail::Kind)
        };
        if next != known {
            let last = if row > MOST_ROWS { "on".to_owned() } else { format!("to {}", row - 1) };
            let _ = writeln!(text, "  {rows} from {first} {last}: {known}");
            (first, known) = (row, next);
        }
    }
    Ok(())
}

/// Up to which number of rows versions are listed.
const MOST_ROWS: u64 = 512;

/// One version in words.
fn told(plan: &Plan, rows: u64, terms: u64, columns: u64, detail: Detail) -> String {
    if rows == 1 || columns == 1 {
        return "one row: the right side is read once".to_owned();
    }
    let Choice { tiles, columns: block, packs } = plan.choose(rows, columns, Right::Rows);
    let right = if packs { "packed" } else { "in place" };
    let whole = block >= columns;
    let blocks = if whole { "all columns".to_owned() } else { format!("{block} columns") };
    let deep = terms.div_ceil(plan.blocks.terms);
    let rest = format!("right side {right}, blocks of {blocks}, terms in {deep} blocks");
    let most = rows.div_ceil(tiles);
    let vectors = plan.tiles[most as usize - 1].tile.vectors;
    match detail {
        Detail::Kind => format!("tiles of {vectors} vectors, {rest}"),
        Detail::Tiles => format!("{tiles} tiles of {most} x {vectors} at most, {rest}"),
    }
}

/// How much is told of a version.
#[derive(Clone, Copy)]
enum Detail {
    /// What many numbers of rows share.
    Kind,
    /// Everything.
    Tiles,
}
