//! `relax completions` and `relax man`: what shells and `man` know of the command line, made of its description.

use crate::args::{CompletionsArgs, Format, ManArgs, command};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use clap_mangen::Man;
use serde_json::json;
use std::path::Path;

pub(super) fn completions(args: &CompletionsArgs, terminal: &mut Terminal) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "relax", &mut script);
    let script = String::from_utf8(script).map_err(|_| Failure::Message {
        exit: Exit::Internal,
        text: "the script is no text".to_owned(),
    })?;
    terminal.tell(
        &script,
        || json!({ "type": "completions", "shell": args.shell.to_string(), "script": script }),
    )?;
    Ok(Exit::Fine)
}

pub(super) fn man(args: &ManArgs, terminal: &mut Terminal) -> Outcome {
    std::fs::create_dir_all(&args.folder).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}: {error}", args.folder.display()))
    })?;
    // Without `help`, which is no subcommand here.
    let mut all = command().disable_help_subcommand(true);
    all.build();
    let mut pages = vec![("relax".to_owned(), all.clone())];
    for subcommand in all.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("relax-{}", subcommand.get_name());
        pages.push((name.clone(), subcommand.clone().display_name(name)));
    }
    for (name, page) in pages {
        let mut text = Vec::new();
        let cannot = |error: std::io::Error| Failure::usage(format!("{name}: {error}"));
        Man::new(page).render(&mut text).map_err(cannot)?;
        written(&args.folder.join(format!("{name}.1")), &text, terminal)?;
    }
    Ok(Exit::Fine)
}

fn written(path: &Path, text: &[u8], terminal: &mut Terminal) -> Result<(), Failure> {
    write_whole(path, text)?;
    let name = path.display().to_string();
    if terminal.format == Format::Text {
        terminal.detail(&name);
    }
    terminal.object(|| json!({ "type": "file", "file": name }))
}
