//! Passes by their names: those on the command line, and the list of all.

use crate::commands::unknown::unknown;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::pass::Pass;
use relax_rewrite::pass_names::{NOTE, NoPass, Ours};
use serde_json::json;

/// The passes that a name stands for.
pub(super) fn passes(name: &str) -> Result<Vec<&'static Pass>, Failure> {
    PIPELINE.lookup(name).map_err(|none| match none {
        NoPass::Unknown(name) => {
            let names = PIPELINE.known_names();
            unknown("pass", &name, &names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        reserved @ NoPass::Reserved(..) => Failure::usage(reserved.to_string()),
    })
}

/// Every pass with its phases, then the megapasses, then names that are reserved.
pub(super) fn list(terminal: &mut Terminal) -> Outcome {
    for pass in PIPELINE.all_passes() {
        let (from, to, until) = (pass.from.name(), pass.to.name(), pass.until.name());
        let heading = format!("{} ({from} to {to}, {})", pass.name, pass.exactness);
        let is_same = |ours: &Ours| matches!(ours, Ours::Pass(name) if *name == pass.name);
        let noted = NOTE.iter().find(|noted| is_same(&noted.ours));
        let alias = noted.map_or_else(String::new, |noted| format!("; TVM: {}", noted.name));
        let doc = pass.doc;
        let text = format!("{heading}\n    {doc}\n    Takes modules up to {until}{alias}\n");
        terminal.tell(&text, || {
            json!({
                "type": "pass", "name": pass.name, "from": from, "to": to, "until": until,
                "exactness": pass.exactness.to_string(), "doc": doc,
                "tvm": noted.map(|noted| noted.name),
            })
        })?;
    }
    for noted in NOTE {
        match noted.ours {
            Ours::Pass(_) => {}
            Ours::Sequence(ours) => {
                let (name, ours) = (noted.snake(), ours.join(", "));
                let text = format!("{name} (several)\n    {ours}; TVM: {}\n", noted.name);
                terminal.tell(
                    &text,
                    || json!({ "type": "passes", "name": name, "passes": ours, "tvm": noted.name }),
                )?;
            }
            Ours::Missing(why) => {
                let name = noted.snake();
                let text =
                    format!("{name} (reserved)\n    Not there yet: {why}; TVM: {}\n", noted.name);
                terminal.tell(
                    &text,
                    || json!({ "type": "reserved", "name": name, "why": why, "tvm": noted.name }),
                )?;
            }
        }
    }
    Ok(Exit::Fine)
}
