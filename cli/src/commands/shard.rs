//! `relax shard`: layouts of a distributed program, the program that each rank runs, and what its collectives cost.

use super::certified::certificate;
use super::loading::load_text;
use super::meshes::{extents, times};
use super::opt::failed_run;
use super::run::entry;
use crate::args::{Extents, Format, ShardArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_lower::certify::Stages;
use relax_program::frontend::{Program, print};
use relax_rewrite::inlined::inlined;
use relax_rewrite::pipeline::Watch;
use relax_semantics::check::mesh_extents;
use relax_sharding::annotated::annotated;
use relax_sharding::data::cut_along;
use relax_sharding::layout::{declared_meshes, text};
use relax_sharding::movement::Movement;
use relax_sharding::propagate::{Plan, Step};
use relax_sharding::tensor::cut_weights;
use relax_sharding::versions::Version;
use relax_sharding::{Sharded, shard as sharded, shard_in_versions};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{AttrValue, Function, Module};
use relax_syntax::span::Source;
use relax_validation::certificate::{Certificate, Header};
use relax_validation::ranks::RANKS;
use relax_validation::report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What is known of the result, and what is not.
const PROOF: &str = "the placements of each call are proved for all dims, over the reals; \
                     --local --certificate FILE proves the whole program";

pub(super) fn shard(args: &ShardArgs, terminal: &mut Terminal) -> Outcome {
    refuse_versions(args)?;
    let Some(program) = load_text(&args.file, terminal)? else { return Ok(Exit::Wrong) };
    let module = match &args.mesh {
        Some(extents) => with_mesh(&program, extents)?,
        None => program.module.clone(),
    };
    entry(&module, &args.entry)?;
    let module = match &args.data {
        Some(dim) => cut_along(&module, &args.entry, &Name::new(dim))
            .map_err(|why| Failure::usage(format!("--data {dim}: {why}")))?,
        None => module,
    };
    let mut stages = Stages::of(&module);
    let module = match inlined(&module, &args.entry, &mut Prover::new()) {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, &program, terminal),
    };
    let sizes = sizes(&args.sym, (&module, entry(&module, &args.entry)?))?;
    terminal.doing(format!("sharding {}", args.entry));
    let module = match &args.tensor {
        Some(names) => with_cut_weights(args, &module, names, &sizes)?,
        None => module,
    };
    let function = entry(&module, &args.entry)?;
    let shard = if args.versions { shard_in_versions } else { sharded };
    let sharded = match shard(&module, function, &sizes, &mut Prover::new()) {
        Ok(sharded) => sharded,
        Err(refused) => return Ok(show_diagnostics(terminal, &program.source, &[refused])),
    };
    let Sharded { plan, local, .. } = &sharded;
    if sharded.is_truncated() {
        terminal.warn("not all layouts were compared: there may be cheaper ones");
    }
    let certificate = match &args.certificate {
        Some(path) => {
            stages.made("inline_calls", &module);
            stages.made(RANKS, local);
            let Some(certificate) = certified(&stages, path, terminal)? else {
                return Ok(Exit::Wrong);
            };
            Some(certificate)
        }
        None => {
            terminal.note(PROOF);
            None
        }
    };
    let printed = match args.local {
        true => print(local),
        false => print(&annotated(&module, function, plan)),
    };
    if let Some(path) = &args.output {
        write_whole(path, printed.as_bytes())?;
    }
    match terminal.format {
        Format::Json => {
            terminal.object(|| object(&sharded, function, &program.source, certificate.as_ref()))?
        }
        Format::Text if args.explain => {
            terminal.result(&explained(&sharded, function, &program.source))?
        }
        Format::Text => {}
    }
    if args.output.is_none() && (!args.explain || terminal.format == Format::Json) {
        terminal.program(&printed)?;
    }
    Ok(Exit::Fine)
}

/// Only a local program has versions.
fn refuse_versions(args: &ShardArgs) -> Result<(), Failure> {
    let why =
        "--versions: only the local program chooses among versions: give --local, or --explain";
    match args.versions && !args.local && !args.explain {
        true => Err(Failure::usage(why)),
        false => Ok(()),
    }
}

/// Writes the certificate of the local program; `None` where it is refuted.
fn certified(
    stages: &Stages,
    path: &Path,
    terminal: &mut Terminal,
) -> Result<Option<Certificate>, Failure> {
    let (route, target) = (RANKS.to_owned(), "any target".to_owned());
    let made = certificate(stages, Header { route, target, tested: 0 }, terminal)?;
    if let Some(made) = &made {
        write_whole(path, made.text().as_bytes())?;
    }
    Ok(made)
}

/// The module whose weights are cut.
fn with_cut_weights(
    args: &ShardArgs,
    module: &Module,
    names: &str,
    sizes: &BTreeMap<Name, i64>,
) -> Result<Module, Failure> {
    let wrong = |why: &str| {
        let flag =
            if names.is_empty() { "--tensor".to_owned() } else { format!("--tensor={names}") };
        Failure::usage(format!("{flag}: {why}"))
    };
    let is_one = |mesh: &&Name| mesh_extents(module, mesh).is_ok_and(|extents| extents.len() == 1);
    if args.data.is_some() && declared_meshes(module).iter().any(is_one) {
        return Err(wrong("with --data the mesh needs a second axis, as of --mesh 2x4"));
    }
    let named: Vec<Name> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Name::new).collect();
    cut_weights(module, &args.entry, &named, sizes, &mut Prover::new()).map_err(|why| wrong(&why))
}

/// The module with other extents of its mesh, or with a mesh.
fn with_mesh(program: &Program, extents: &str) -> Result<Module, Failure> {
    let wrong = |why: &str| Failure::usage(format!("--mesh {extents}: {why}"));
    let text = match extents.parse::<Extents>() {
        Ok(Extents(parts)) => parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Err(_) => extents.split(',').map(str::trim).collect::<Vec<_>>().join(", "),
    };
    let name = match declared_meshes(&program.module)[..] {
        [] => Name::from("mesh[0]"),
        [mesh] => mesh.clone(),
        _ => return Err(wrong("the program declares more than one mesh")),
    };
    let mut module = program.module.clone();
    // What is no mesh has no axes to compare.
    let before = mesh_extents(&module, &name).ok().map(|extents| extents.len());
    let declared = AttrValue::Str(text.into());
    match module.attrs.iter_mut().find(|(own, _)| *own == name) {
        Some((_, own)) => *own = declared,
        None => module.attrs.insert(0, (name.clone(), declared)),
    }
    let axes = mesh_extents(&module, &name).map_err(|_| {
        wrong("expected integers of at least 1, such as 2x4, or with commas and names, such as p,4")
    })?;
    match before {
        Some(before) if before != axes.len() => {
            Err(wrong(&format!("the mesh of the program has {before} axes")))
        }
        _ => Ok(module),
    }
}

/// The sizes of symbolic dims, and of extents of meshes.
fn sizes(
    given: &[String],
    (module, function): (&Module, &Function),
) -> Result<BTreeMap<Name, i64>, Failure> {
    let meshes =
        declared_meshes(module).into_iter().filter_map(|mesh| mesh_extents(module, mesh).ok());
    let extents: Vec<Dim> = meshes.flatten().collect();
    let each = given.iter().map(|text| {
        let wrong = || {
            Failure::usage(format!(
                "--sym {text}: expected NAME=INTEGER, with a dim of the function or an extent of the mesh"
            ))
        };
        let (name, size) = text.split_once('=').ok_or_else(wrong)?;
        let size = size.parse::<i64>().ok().filter(|size| *size >= 0).ok_or_else(wrong)?;
        let name = Name::from(name);
        let is_extent = extents.contains(&Dim::Var(name.clone())) && size >= 1;
        if function.dim(&name).is_none() && !is_extent {
            return Err(wrong());
        }
        Ok((name, size))
    });
    each.collect()
}

fn name_of(function: &Function, step: &Step) -> String {
    let (Step::Bind { var, .. }
    | Step::Same { var, .. }
    | Step::If { var, .. }
    | Step::Move { var, .. }) = step;
    function.var(*var).name.to_string()
}

/// Every value with its layouts, parameters first.
fn values(plan: &Plan, function: &Function) -> Vec<(String, String)> {
    let params = function.lambda.params.iter().zip(&plan.params).filter_map(|(param, layout)| {
        Some((function.var(*param).name.to_string(), text(layout.as_ref()?)))
    });
    let bound = plan.all_steps().into_iter().filter_map(|step| match step {
        Step::Bind { layout, .. } | Step::Same { layout, .. } | Step::If { layout, .. } => {
            Some((name_of(function, step), text(layout)))
        }
        Step::Move { .. } => None,
    });
    params.chain(bound).collect()
}

/// A redistribution: the layouts before and after, the call that wants it and its line.
struct Shown<'a> {
    name: String,
    from: String,
    to: String,
    wanted_by: &'a str,
    line: usize,
    movements: &'a [Movement],
}

fn moves<'a>(plan: &'a Plan, function: &Function, source: &Source) -> Vec<Shown<'a>> {
    let each = plan.moves().filter_map(|(step, movements)| {
        let Step::Move { from, span, wanted_by, .. } = step else { return None };
        Some(Shown {
            name: name_of(function, step),
            from: text(from),
            to: text(&movements.last()?.after),
            wanted_by,
            line: source.line_column(span.start).0,
            movements,
        })
    });
    each.collect()
}

fn explained(sharded: &Sharded, function: &Function, source: &Source) -> String {
    let Sharded { plan, others, .. } = sharded;
    let mut shown = String::new();
    let (mesh, extents) = (&plan.axes.mesh, times(&plan.axes));
    let _ = writeln!(shown, "{} over {mesh} of {extents}", function.name);
    for own in others {
        let _ = writeln!(shown, "where {}:", condition(own));
        explain(&own.plan, function, source, &mut shown);
    }
    if !others.is_empty() {
        let _ = writeln!(shown, "otherwise:");
    }
    explain(plan, function, source, &mut shown);
    if !plan.samples.is_empty() {
        let sizes: Vec<String> =
            plan.samples.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        let _ = writeln!(shown, "costs were compared at {}", sizes.join(", "));
    }
    shown
}

/// What must hold for a version.
fn condition(version: &Version) -> String {
    version.guard.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

fn explain(plan: &Plan, function: &Function, source: &Source, shown: &mut String) {
    for (name, layout) in values(plan, function) {
        let _ = writeln!(shown, "  {name}: {layout}");
    }
    for own in moves(plan, function, source) {
        let _ = writeln!(
            shown,
            "{}: {} -> {} for {} in line {}",
            own.name, own.from, own.to, own.wanted_by, own.line
        );
        for movement in own.movements {
            let (name, axis) = (movement.collective.name(), movement.mesh_dim);
            let _ = writeln!(shown, "  {name} along axis {axis}: {} bytes", movement.bytes);
        }
    }
    let _ = writeln!(shown, "all ranks together send {} bytes", plan.bytes(&mut Prover::new()));
}

fn object(
    sharded: &Sharded,
    function: &Function,
    source: &Source,
    certificate: Option<&Certificate>,
) -> Value {
    let Sharded { plan, others, .. } = sharded;
    let proved = |made: &Certificate| {
        let open = report::unproved(&made.obligations);
        json!({ "proved": made.obligations.len() - open.len(), "of": made.obligations.len(), "open": open })
    };
    let version = |own: &Version| {
        let mut version = of_plan(&own.plan, function, source);
        version["guard"] = own.guard.iter().map(ToString::to_string).collect();
        version
    };
    let mut object = json!({
        "type": "sharding",
        "function": function.name.as_str(),
        "mesh": plan.axes.mesh.as_str(),
        "extents": extents(&plan.axes),
        "versions": others.iter().map(version).collect::<Vec<_>>(),
        "samples": plan.samples.iter().map(|(name, size)| (name.to_string(), *size)).collect::<BTreeMap<_, _>>(),
        "all_layouts_compared": !sharded.is_truncated(),
        "proof": certificate.is_none().then_some(PROOF),
        "certificate": certificate.map(proved),
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut object, of_plan(plan, function, source))
    {
        all.extend(own);
    }
    object
}

/// Layouts, redistributions and bytes of a plan.
fn of_plan(plan: &Plan, function: &Function, source: &Source) -> Value {
    let value = |(name, layout): (String, String)| json!({ "name": name, "layout": layout });
    let movement = |own: &Movement| {
        json!({
            "collective": own.collective.name(),
            "mesh_dim": own.mesh_dim,
            "bytes": own.bytes.to_string(),
        })
    };
    let moved = |own: &Shown| {
        json!({
            "value": own.name,
            "from": own.from,
            "to": own.to,
            "wanted_by": own.wanted_by,
            "line": own.line,
            "steps": own.movements.iter().map(movement).collect::<Vec<_>>(),
        })
    };
    json!({
        "values": values(plan, function).into_iter().map(value).collect::<Vec<_>>(),
        "redistributions": moves(plan, function, source).iter().map(moved).collect::<Vec<_>>(),
        "bytes": plan.bytes(&mut Prover::new()).to_string(),
    })
}
