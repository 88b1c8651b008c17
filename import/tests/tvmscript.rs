//! The corpus as TVMScript and back: what comes back is written the same again, and holds all that its file
//! expects. What TVM has no words for is refused; `tests/tvmscript.txt` counts and says why (`RELAX_BLESS=1`
//! writes it). `tests/tvmscript/` holds modules that TVM 0.27 printed; see `scripts/tvm_modules.py`.

use relax_corpus::files;
use relax_corpus::harness::{Mode, run_file};
use relax_import::{export_tvmscript, import_tvmscript};
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const STACK: usize = 256 << 20;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// What came of a program.
enum Outcome {
    Fine,
    Refused(Vec<String>),
    Wrong(String),
}

fn expectations(text: &str) -> String {
    let kept = |line: &&str| line.starts_with("# run:") || line.starts_with("# trap[");
    text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

fn there_and_back(name: &str, text: &str) -> Option<Outcome> {
    let program = Program::load(Source::new(name, text));
    let module = well_formed_part(&program);
    if module.definitions.is_empty() {
        return None;
    }
    let exported = match export_tvmscript(&module) {
        Ok(exported) => exported,
        Err(refused) => return Some(Outcome::Refused(refused)),
    };
    let imported = match import_tvmscript(name, &exported) {
        Ok(imported) => imported,
        Err(error) => return Some(Outcome::Wrong(format!("{error}\n{exported}"))),
    };
    let back = Program::load(Source::new(name, imported.as_str()));
    if let Some(first) = back.diagnostics.iter().find(|_| back.has_errors()) {
        return Some(Outcome::Wrong(format!("{}: {}\n{imported}", first.code, first.message)));
    }
    match export_tvmscript(&back.module) {
        Ok(again) if again == exported => {}
        Ok(again) => return Some(Outcome::Wrong(format!("{exported}\nbecame\n{again}"))),
        Err(refused) => return Some(Outcome::Wrong(refused.join("\n"))),
    }
    let expected = format!("{}\n{imported}", expectations(text));
    let held = run_file(name, expected.as_bytes(), Mode::Hold);
    Some(match held.failures.first() {
        None => Outcome::Fine,
        Some(failure) => Outcome::Wrong(format!("{}\n{imported}", failure.message)),
    })
}

fn deep<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    thread.expect("a thread starts").join().expect("it does not panic")
}

#[test]
fn the_corpus_goes_there_and_back() {
    let (report, wrong) = deep(|| {
        let (mut fine, mut refused) = (0, 0);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut wrong = Vec::new();
        let wanted = std::env::var("RELAX_TVMSCRIPT").unwrap_or_default();
        for path in files::programs() {
            let name = files::name(&path);
            if !name.contains(&wanted) {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            match there_and_back(&name, &text) {
                None => {}
                Some(Outcome::Fine) => fine += 1,
                Some(Outcome::Refused(whys)) => {
                    refused += 1;
                    let parts = whys.iter().filter_map(|why| why.split_once(": "));
                    let parts: std::collections::BTreeSet<&str> =
                        parts.map(|(_, why)| why).collect();
                    parts
                        .into_iter()
                        .for_each(|why| *reasons.entry(why.to_owned()).or_default() += 1);
                }
                Some(Outcome::Wrong(why)) => wrong.push(format!("{name}: {why}")),
            }
        }
        let mut report = format!(
            "Programs of the corpus, without what is wrong in them: {fine} go to TVMScript and back, {refused} are refused.\n\n\
             Why, by programs (some have several reasons):\n"
        );
        for (why, count) in reasons {
            let _ = writeln!(report, "{count:4} {why}");
        }
        (report, wrong)
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(here("tvmscript.txt"), report).expect("it can be written");
        return;
    }
    if std::env::var_os("RELAX_TVMSCRIPT").is_none() {
        let known = std::fs::read_to_string(here("tvmscript.txt")).unwrap_or_default();
        assert_eq!(known, report);
    }
}

#[test]
fn modules_that_tvm_printed_come_in() {
    let (mut count, mut wrong) = (0, Vec::new());
    let folder = std::fs::read_dir(here("tvmscript")).expect("the folder is there");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("it is text");
        let name = path.display().to_string();
        let imported = match import_tvmscript(&name, &text) {
            Ok(imported) => imported,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        let program = Program::load(Source::new(name.as_str(), imported.as_str()));
        if program.has_errors() {
            let told = program.diagnostics.iter().map(|d| d.message.as_str());
            wrong.push(format!("{name}: {}", told.collect::<Vec<_>>().join("; ")));
            continue;
        }
        let exported =
            export_tvmscript(&program.module).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        let again = import_tvmscript(&name, &exported).unwrap_or_else(|error| panic!("{error}"));
        let back = Program::load(Source::new(name.as_str(), again.as_str()));
        assert!(!back.has_errors(), "{name}: {:?}\n{again}", back.diagnostics);
        assert_eq!(export_tvmscript(&back.module).as_ref(), Ok(&exported), "{name}");
        count += 1;
    }
    assert!(wrong.is_empty(), "{count} are fine, {} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 50, "{count}");
}

/// The texts of a folder of modules, with the expectations in them, and the programs that they become.
fn programs_with_values(folder: &str) -> Vec<(String, String, String)> {
    let folder = std::fs::read_dir(here(folder)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    let read = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).expect("it is text");
        let name = path.display().to_string();
        let imported = import_tvmscript(&name, &text).unwrap_or_else(|e| panic!("{e}"));
        let expected = expectations(&text);
        assert!(expected.lines().count() >= 4, "{name} says too little of its values");
        (name, expected, imported)
    });
    read.collect()
}

fn has_values(name: &str, expected: &str, program: &str) {
    let ran = run_file(name, format!("{expected}\n{program}").as_bytes(), Mode::Hold);
    let wrong = ran.failures.first().map(|failure| &failure.message);
    assert_eq!(wrong, None, "{name}\n{program}");
}

/// `tests/older/` holds modules in the spelling of TVM 0.12 to 0.15, with the values that they give.
#[test]
fn the_older_spelling_means_the_same() {
    deep(|| {
        let programs = programs_with_values("older");
        assert!(programs.len() >= 5, "{programs:?}");
        for (name, expected, imported) in programs {
            has_values(&name, &expected, &imported);
            let program = Program::load(Source::new(name.as_str(), imported.as_str()));
            let exported = export_tvmscript(&program.module);
            let exported = exported.unwrap_or_else(|why| panic!("{name}: {why:?}"));
            let again = import_tvmscript(&name, &exported).unwrap_or_else(|e| panic!("{e}"));
            has_values(&format!("{name}, there and back"), &expected, &again);
        }
    });
}

/// `tests/rewritten/` holds modules as passes of TVM 0.27 leave them. Not all of them can be written again: names of symbolic variables are taken.
#[test]
fn modules_that_passes_rewrote_mean_the_same() {
    deep(|| {
        for (name, expected, imported) in programs_with_values("rewritten") {
            has_values(&name, &expected, &imported);
        }
    });
}

/// TVM runs `init` where all axes of a reduction are at their first value: it must see all of them.
#[test]
fn axes_that_are_read_through_scalars_are_written() {
    let path = here("../../corpus/regressions/tvmscript_axis_through_scalar.rx");
    let text = std::fs::read_to_string(path).expect("it is there");
    let program = Program::load(Source::new("axis", text.as_str()));
    let exported = export_tvmscript(&program.module).expect("TVM has words for it");
    assert!(exported.contains("= T.axis.spatial(T.int64(2), i)"), "{exported}");
    assert!(exported.contains("= T.axis.reduce(T.int64(2), k)"), "{exported}");
}

#[test]
fn errors_say_the_line() {
    for (text, expected) in [
        (
            "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), dtype=\"float32\")):\n        y = R.frobnicate(x)\n        return y\n",
            "a.py:5: the operator `R.frobnicate` is not in the language",
        ),
        (
            "@R.function\ndef main(x: R.Frob):\n    return x\n",
            "a.py:2: an annotation that is not known",
        ),
        (
            "@R.function\ndef main(x: R.Object):\n    return metadata[\"relax.expr.Constant\"][0]\n",
            "a.py:3: a constant that stands in the metadata",
        ),
        (
            "@T.prim_func\ndef f(a: T.handle):\n    T.evaluate(0)\n",
            "a.py:2: a handle that no buffer matches",
        ),
        ("x = 3\n", "a.py:1: only functions stand in a module"),
        ("", "there is no function"),
        ("class Module:\n    def f(:\n", "a.py:2: "),
    ] {
        let told = import_tvmscript("a.py", text).expect_err("it is wrong").to_string();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn damaged_text_is_no_panic() {
    deep(|| {
        let text = std::fs::read_to_string(here("tvmscript/softmax_tir.py")).expect("it is there");
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize
        };
        let pieces = [
            "(", ")", "[", "{", ":", ",", "T.", "R.", "\n", "    ", "\"", "0", "n", "None", "=",
            ".",
        ];
        for _ in 0..2000 {
            let mut damaged: Vec<char> = text.chars().collect();
            for _ in 0..1 + next() % 3 {
                let at = next() % damaged.len();
                if next() % 2 == 0 {
                    damaged.remove(at);
                } else {
                    let piece = pieces[next() % pieces.len()];
                    damaged.splice(at..at, piece.chars());
                }
            }
            let damaged: String = damaged.into_iter().collect();
            drop(import_tvmscript("damaged.py", &damaged));
        }
    });
}

#[test]
fn functions_may_have_names_of_operators() {
    let script = "@I.ir_module
class Module:
    @R.function
    def exp(x: R.Tensor((4,), dtype=\"float32\")) -> R.Tensor((4,), dtype=\"float32\"):
        with R.dataflow():
            lv: R.Tensor((4,), dtype=\"float32\") = R.exp(x)
            gv: R.Tensor((4,), dtype=\"float32\") = R.add(lv, lv)
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((4,), dtype=\"float32\")) -> R.Tensor((4,), dtype=\"float32\"):
        cls = Module
        with R.dataflow():
            gv: R.Tensor((4,), dtype=\"float32\") = cls.exp(x)
            R.output(gv)
        return gv
";
    let text = import_tvmscript("hidden.py", script).expect("it is TVM's text");
    for line in ["= relax.exp(x)", "= add(lv, lv)", "= exp(x)"] {
        assert!(text.contains(line), "{text}");
    }
    let program = Program::load(Source::new("hidden.rx", text.as_str()));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let exported = export_tvmscript(&program.module).expect("TVM has words for it");
    for line in ["= R.exp(x)", "= R.add(lv, lv)", "= cls.exp(x)"] {
        assert!(exported.contains(line), "{exported}");
    }
}
