//! Safetensors in several files, as Hugging Face has large models: `model.safetensors.index.json` names the file of each tensor.

use super::limited::{FileError, open, read_file};
use super::safetensors::Content;
use super::weights::{Entry, begin, safetensors};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// An index has a line a tensor.
const LONGEST_INDEX: u64 = 64 << 20;

/// The files of an index, each opened once.
pub(super) struct Shards {
    files: Vec<(PathBuf, Content)>,
    /// The file of each tensor.
    places: BTreeMap<String, usize>,
}

impl Shards {
    /// Opens an index and the files that it names, which lie beside it.
    ///
    /// # Errors
    /// A file that cannot be read or lies elsewhere; files and index that disagree on a tensor.
    pub(super) fn open(index: &Path, limit: u64) -> Result<Self, FileError> {
        let cannot = |error: FileError| error.at(&format!("cannot read {}", index.display()));
        let bytes = read_file(index, LONGEST_INDEX.min(limit)).map_err(cannot)?;
        let wrong = |why: String| FileError::Wrong(format!("{}: {why}", index.display()));
        let parsed: Index = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("it is no index of safetensors files: {error}")))?;
        let names: BTreeSet<&String> = parsed.weight_map.0.values().collect();
        let mut files = Vec::new();
        let mut left = limit;
        for &name in &names {
            let of = parsed.weight_map.0.iter().find(|(_, file)| *file == name);
            let tensor = of.map_or("", |(tensor, _)| tensor);
            if !is_plain(name) {
                return Err(wrong(format!(
                    "the tensor `{tensor}` is in `{name}`: expected the name of a file beside the index"
                )));
            }
            let path = index.with_file_name(name);
            let place = format!("{}: the tensor `{tensor}` is in `{name}`", index.display());
            let (content, length) = opened(&path, left).map_err(|error| error.at(&place))?;
            left = left.saturating_sub(length);
            files.push((path, content));
        }
        let numbers = names.iter().enumerate().map(|(number, name)| (*name, number)).collect();
        let places = places(&parsed.weight_map.0, &files, &numbers).map_err(wrong)?;
        Ok(Self { files, places })
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// A reader of the bytes of all files.
    pub(super) fn content(&self) -> Box<dyn Read + '_> {
        let none: Box<dyn Read + '_> = Box::new(std::io::empty());
        self.files.iter().fold(none, |all, (_, file)| Box::new(all.chain(file.content())))
    }

    /// Text that the files have beside their tensors, by key; of several with a key that of the last file.
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        self.files.iter().flat_map(|(_, file)| file.metadata()).collect()
    }

    pub(super) fn entries(&self) -> BTreeMap<String, Entry> {
        self.files.iter().flat_map(|(_, file)| file.entries()).collect()
    }

    /// The file of a tensor, with its path.
    pub(super) fn file(&self, name: &str) -> Result<(&Path, &Content), String> {
        let place = self.places.get(name).ok_or("the index does not have it")?;
        let (path, file) = &self.files[*place];
        Ok((path, file))
    }
}

fn opened(path: &Path, limit: u64) -> Result<(Content, u64), FileError> {
    let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
    let (mut file, length) = open(path, limit).map_err(cannot)?;
    let begin = begin(&mut file).map_err(cannot)?;
    let content = safetensors(path, (file, length), begin, limit)?;
    Ok((content, length.unwrap_or(0)))
}

/// Whether it is a name and no path.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_name = matches!(components.next(), Some(Component::Normal(only)) if only == name);
    is_name && components.next().is_none() && !name.contains(['/', '\\'])
}

/// The number of the file of each tensor, where the index and the files agree.
fn places(
    index: &BTreeMap<String, String>,
    files: &[(PathBuf, Content)],
    numbers: &BTreeMap<&String, usize>,
) -> Result<BTreeMap<String, usize>, String> {
    let shown = |number: usize| files[number].0.file_name().unwrap_or_default().to_string_lossy();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (number, (_, file)) in files.iter().enumerate() {
        for name in file.entries().into_keys() {
            if let Some(&other) = places.get(&name) {
                let files = format!("`{}` and `{}`", shown(other), shown(number));
                return Err(format!("the tensor `{name}` is in two files, {files}"));
            }
            places.insert(name, number);
        }
    }
    for (name, file) in index {
        match places.get(name) {
            None => {
                return Err(format!(
                    "the index has the tensor `{name}` in `{file}`, which does not have it"
                ));
            }
            Some(&found) if found != numbers[file] => {
                let found = shown(found);
                return Err(format!(
                    "the index has the tensor `{name}` in `{file}`, it is in `{found}`"
                ));
            }
            Some(_) => {}
        }
    }
    match places.iter().find(|(name, _)| !index.contains_key(*name)) {
        Some((name, &found)) => {
            let found = shown(found);
            Err(format!("`{found}` has the tensor `{name}`, which the index does not have"))
        }
        None => Ok(places),
    }
}

/// `{"metadata": …, "weight_map": {"NAME": "FILE"}}`
#[derive(Deserialize)]
struct Index {
    weight_map: Files,
}

/// The file of each tensor. A name that is there twice is refused.
struct Files(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FilesVisitor)
    }
}

struct FilesVisitor;

impl<'de> Visitor<'de> for FilesVisitor {
    type Value = Files;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the file of each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
        let mut files = BTreeMap::new();
        while let Some((name, file)) = map.next_entry::<String, String>()? {
            if let Some(other) = files.get(&name) {
                let files = format!("`{other}` and `{file}`");
                return Err(A::Error::custom(format!(
                    "the tensor `{name}` is in two files, {files}"
                )));
            }
            files.insert(name, file);
        }
        Ok(Files(files))
    }
}
