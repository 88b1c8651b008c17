//! Prose: pages and help texts use the terms of the field, and doc comments say more than the name that they stand at.

use crate::project::{File, files_ending, report, root};

/// Home-made words and phrases, each with what to write in its place.
const STOP_LIST: &[(&str, &str)] = &[
    ("a device's text", "kernel source"),
    ("any order of sums", "reassociation"),
    ("are held", "are compared, are checked"),
    ("can stop", "can trap"),
    ("could stop", "could trap"),
    ("filled factor", "fused packing"),
    ("handed on", "promoted to shared memory"),
    ("hands on", "promotes to shared memory"),
    ("held against", "compared with, checked against"),
    ("hold against", "compare with, check against"),
    ("holds against", "compares with, checks against"),
    ("is held", "is compared, is checked"),
    ("may stop", "may trap"),
    ("never stop", "never trap"),
    ("never stops", "never traps"),
    ("norms written out", "decomposed normalization"),
    ("nothing wrote", "uninitialized elements"),
    ("past caches", "non-temporal stores"),
    ("seeded mistakes", "seeded faults, mutants"),
    ("sums in any order", "reassociated sums"),
    ("tells", "reports, says"),
    ("the tests would notice", "mutation testing"),
    ("the way down", "the compilation pipeline"),
    ("told", "inferred, reported"),
    ("watched", "tracked, instrumented"),
];

/// The glossary lists the words, and generated pages and records are not written by hand.
const EXEMPT: &[&str] = &[
    "CHANGELOG.md",
    "bench/results/",
    "docs/CODES.md",
    "docs/GLOSSARY.md",
    "docs/OPERATORS.md",
    "docs/RULES.md",
    "docs/bugs-found.md",
];

/// What `--help` prints.
const HELP: &str = "cli/tests/cmd/help.trycmd";

/// How many doc comments of at most [`FEW_WORDS`] words there may be.
const SHORT_DOCS: &str = "xtask/tests/tidy/short_docs.txt";
const FEW_WORDS: usize = 2;

/// Whether a text, in lower case, has these words one after the other.
fn has_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        !is_letter(before) && !is_letter(text.as_bytes().get(at + phrase.len()))
    })
}

fn home_made(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut previous = String::new();
    for (index, line) in file.text.lines().enumerate() {
        let line = line.to_lowercase();
        // A phrase may begin on the line before.
        let both = format!("{previous} {line}");
        for (phrase, better) in STOP_LIST {
            if has_phrase(&both, phrase) && !has_phrase(&previous, phrase) {
                findings.push(format!("{}:{}: `{phrase}`: write {better}", file.path, index + 1));
            }
        }
        previous = line;
    }
    findings
}

#[test]
fn pages_use_the_terms_of_the_field() {
    let is_exempt = |file: &File| EXEMPT.iter().any(|path| file.path.starts_with(path));
    let pages = files_ending(".md").into_iter().chain(files_ending(HELP));
    let pages = pages.filter(|file| !is_exempt(file));
    report("home-made words", &pages.flat_map(|file| home_made(&file)).collect::<Vec<_>>());
}

#[test]
fn home_made_words_are_found() {
    let text = "It is told\nby what nothing\nwrote.\nA soldier may stop by.\nUntold.\n";
    let found = home_made(&File { path: "a.md".to_owned(), text: text.to_owned() });
    let expected = [
        "a.md:1: `told`: write inferred, reported",
        "a.md:3: `nothing wrote`: write uninitialized elements",
        "a.md:4: `may stop`: write may trap",
    ];
    assert_eq!(found, expected);
}

/// Lines of doc comments that are one line of few words, such as `/// Its name.`
fn short_docs(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let doc = |index: Option<usize>| {
        let line = index.and_then(|index| lines.get(index));
        line.is_some_and(|line| line.starts_with("///"))
    };
    let is_short = |index: &usize| {
        let alone = !doc(index.checked_sub(1)) && !doc(Some(index + 1));
        let words = lines[*index].split_whitespace().skip(1).count();
        doc(Some(*index)) && alone && words <= FEW_WORDS
    };
    (0..lines.len()).filter(is_short).map(|index| index + 1).collect()
}

/// The number on record may only shrink: `RELAX_BLESS=1` lowers it.
#[test]
fn doc_comments_say_more_than_names() {
    let mut found = Vec::new();
    for file in files_ending(".rs").iter().filter(|file| file.path.contains("src/")) {
        found
            .extend(short_docs(&file.text).into_iter().map(|line| format!("{}:{line}", file.path)));
    }
    let record = std::fs::read_to_string(root().join(SHORT_DOCS)).expect("the number is on record");
    let most: usize = record.trim().parse().expect("the record is a number");
    if found.len() < most && std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(root().join(SHORT_DOCS), format!("{}\n", found.len()))
            .expect("it is written");
    }
    let (count, places) = (found.len(), found.join("\n"));
    assert!(
        count <= most,
        "{count} doc comments of {FEW_WORDS} words or less, at most {most}\n{places}"
    );
}

#[test]
fn short_doc_comments_are_found() {
    let text = "/// Its name.\nname: u8,\n    /// Where.\nplace: u8,\n/// The extent of an axis.\ndim: u8,\n/// Two\n/// lines.\nx: u8,\n";
    assert_eq!(short_docs(text), [1, 3]);
}
