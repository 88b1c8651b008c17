//! Lifetimes: where something is made, used and released, and whether a run uses it after its release or never
//! releases it.

use crate::obligation::Outcome;
use relax_syntax::ir::VarId;

/// The branches around a place, outermost first: each the number of its `if`, and which branch.
pub(super) type Path = Vec<(usize, bool)>;

/// Whether no run comes by both places.
pub(super) fn exclude(a: &Path, b: &Path) -> bool {
    a.iter().any(|(of, side)| b.iter().any(|(other, way)| of == other && side != way))
}

/// When something is made, used and released.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) made: usize,
    pub(super) path: Path,
    /// The last position at which it is used.
    pub(super) last: usize,
    events: Vec<Event>,
}

/// Where the walk is.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) path: Path,
    /// The binding there; `None` where a body ends.
    pub(super) binding: Option<VarId>,
}

#[derive(Clone, Debug)]
struct Event {
    path: Path,
    binding: Option<VarId>,
    how: How,
    /// Whether it is certain to be of this one.
    certain: bool,
}

/// What happens to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It is used.
    Used,
    /// It is released by its name, which may happen once.
    Released,
    /// Its storage is released; it may have been released before.
    Freed,
}

impl Life {
    pub(super) fn begin(place: &Place) -> Self {
        Self { made: place.at, path: place.path.clone(), last: place.at, events: Vec::new() }
    }

    pub(super) fn note(&mut self, place: &Place, how: How, certain: bool) {
        if how == How::Used {
            self.last = self.last.max(place.at);
        }
        let (path, binding) = (place.path.clone(), place.binding);
        self.events.push(Event { path, binding, how, certain });
    }

    /// Whether some run uses or releases it after it was released, and the binding that does; `None` where a body ends.
    pub(super) fn used_after_release(&self) -> (Outcome, Option<VarId>) {
        let mut found = (Outcome::Proved, None);
        for (index, release) in self.events.iter().enumerate() {
            if release.how == How::Used {
                continue;
            }
            let later = self.events[index + 1..].iter().filter(|later| later.how != How::Freed);
            for later in later.filter(|later| !exclude(&release.path, &later.path)) {
                let always = later.path.starts_with(&release.path);
                if release.certain && later.certain && always {
                    let how = if later.how == How::Released { "released again" } else { "used" };
                    let why = format!("it is {how} after its release");
                    return (Outcome::Refuted(why), later.binding);
                }
                let why = "it may be used after its release".to_owned();
                found = (Outcome::Unproved(why), later.binding);
            }
        }
        found
    }

    /// Whether every run that makes it releases it.
    pub(super) fn is_released(&self) -> Outcome {
        let releases = self.events.iter().filter(|event| event.how == How::Released);
        let (certain, others): (Vec<&Event>, Vec<&Event>) =
            releases.partition(|event| event.certain);
        let paths: Vec<&Path> = certain.into_iter().map(|event| &event.path).collect();
        if covers(&paths, &self.path) {
            return Outcome::Proved;
        }
        if !others.is_empty() {
            return Outcome::Unproved("it may be released under another name".to_owned());
        }
        let why = if paths.is_empty() { "nothing releases it" } else { "one branch releases it" };
        Outcome::Refuted(why.to_owned())
    }
}

/// Whether every run that comes by a path comes by one of these.
fn covers(paths: &[&Path], path: &Path) -> bool {
    if paths.contains(&path) {
        return true;
    }
    let inner = paths.iter().filter(|inner| inner.len() > path.len() && inner.starts_with(path));
    let mut ifs: Vec<usize> = inner.map(|inner| inner[path.len()].0).collect();
    ifs.dedup();
    ifs.into_iter().any(|of| {
        [true, false].into_iter().all(|side| {
            let branch: Path = path.iter().copied().chain([(of, side)]).collect();
            covers(paths, &branch)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_in_both_branches_cover_every_run() {
        let (then, otherwise) = (vec![(0, true)], vec![(0, false)]);
        assert!(covers(&[&then, &otherwise], &Path::new()));
        assert!(!covers(&[&then], &Path::new()));
        assert!(covers(&[&then], &then));
        let inner = vec![(0, false), (1, true)];
        assert!(!covers(&[&then, &inner], &Path::new()));
        let other = vec![(0, false), (1, false)];
        assert!(covers(&[&then, &inner, &other], &Path::new()));
    }
}
