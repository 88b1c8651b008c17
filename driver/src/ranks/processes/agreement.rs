//! What ranks compare before they run: facts by name.

use relax_reference::to_machine;
use relax_runtime as machine;
use relax_semantics::value::Value;
use std::collections::BTreeMap;

/// A short name of content, by which processes compare what they have.
#[must_use]
pub fn digest(content: &[u8]) -> String {
    blake3::hash(content).to_hex()[..16].to_owned()
}

/// A value, as processes compare it.
#[must_use]
pub fn fact(value: &Value) -> String {
    match to_machine(value) {
        Ok(machine::Value::Tensor(tensor)) => {
            let of = (tensor.dtype(), tensor.shape(), digest(tensor.bytes()));
            format!("{} {:?} with the digest {}", of.0, of.1, of.2)
        }
        _ => relax_semantics::show::show(value).trim_end().to_owned(),
    }
}

/// Why ranks do not run together: the first that cannot run, or the first fact that differs from that of rank 0.
pub(super) fn disagreement(hellos: &[Result<Vec<(String, String)>, String>]) -> Option<String> {
    let failed =
        hellos.iter().enumerate().find_map(|(rank, hello)| Some((rank, hello.as_ref().err()?)));
    if let Some((rank, why)) = failed {
        return Some(format!("rank {rank} cannot run: {why}"));
    }
    let facts = |rank: usize| hellos[rank].as_ref().ok().into_iter().flatten().cloned();
    let first: BTreeMap<String, String> = facts(0).collect();
    for rank in 1..hellos.len() {
        let own: BTreeMap<String, String> = facts(rank).collect();
        let names = facts(0).chain(facts(rank)).map(|(name, _)| name);
        for name in names {
            let (a, b) = (first.get(&name), own.get(&name));
            if a != b {
                let shown =
                    |fact: Option<&String>| fact.cloned().unwrap_or_else(|| "none".to_owned());
                return Some(format!(
                    "the ranks disagree about {name}: rank 0 has {}, rank {rank} has {}",
                    shown(a),
                    shown(b)
                ));
            }
        }
    }
    None
}
