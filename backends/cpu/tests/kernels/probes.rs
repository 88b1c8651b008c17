//! Probes of C compilers: of those that miscompile, always or unless they are told to optimize less.

use relax_corpus::requirement::has_avx2;
use relax_corpus::script::executable;
use relax_cpu::{Cache, Compiler, Error};
use std::path::Path;

/// A compiler that applies a script of sed to the text, unless it gets a flag; each compilation is a line in `log`.
fn compiler(folder: &Path, edit: &str, unless: &str) -> Compiler {
    let log = folder.join("log");
    let text = format!(
        "case \" $* \" in *\" --version \"*|*\" -dM \"*) exec cc \"$@\";; esac\necho >> {}\n\
         for each; do\n  case $each in {unless}) exec cc \"$@\";; *.c) text=$each;; esac\ndone\n\
         sed '{edit}' \"$text\" > \"$text.edited.c\"\nfor each; do\n  shift\n  \
         case $each in *.c) each=$text.edited.c;; esac\n  set -- \"$@\" \"$each\"\ndone\nexec cc \"$@\"\n",
        log.display()
    );
    let path = folder.join("compiler");
    executable(&path, &text);
    let compiler = Compiler::named(path.to_str().expect("a path of text"));
    compiler.expect("it has a version")
}

/// Names of wrong probes as text with the flags; or the error.
fn probed(edit: &str, unless: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(folder.path().join("cache"));
    let compiler = compiler(folder.path(), edit, unless);
    let first = compiler.clone().probed(&cache);
    let log = std::fs::read(folder.path().join("log")).expect("it was called");
    let first = match first {
        Ok(first) => first.findings().expect("it was probed").to_string(),
        Err(error @ Error::Miscompiles { .. }) => return Err(error.to_string()),
        Err(error) => panic!("{error}"),
    };
    // What was found is kept.
    let second = compiler.clone().probed(&cache).expect("as before");
    assert_eq!(second.findings().expect("it was probed").to_string(), first);
    assert_eq!(std::fs::read(folder.path().join("log")).expect("as before"), log);
    // Damage counts as nothing found, and so does a cleared cache.
    for file in std::fs::read_dir(cache.folder()).expect("a folder") {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        std::fs::write(&path, format!("{text} ")).expect("it is ours");
    }
    assert!(compiler.clone().probed(&cache).is_ok());
    assert_eq!(std::fs::read(folder.path().join("log")).expect("a log").len(), 2 * log.len());
    cache.clear().expect("it is ours");
    assert_eq!(std::fs::read_dir(cache.folder()).expect("a folder").count(), 0);
    Ok(first)
}

#[test]
fn a_right_compiler_gets_no_flags() {
    let right = probed("", "-never").expect("it is right");
    // Known of one compiler.
    let version = Compiler::of_system().expect("a C compiler").version().to_owned();
    assert!(
        right.contains("give right results") || version.contains("clang version 19."),
        "{right}"
    );
}

#[test]
fn flags_are_those_that_help() {
    let edit = "s/: (T)2); *\\\\/: (T)3); \\\\/";
    let found = probed(edit, "-O1").expect("there are such flags");
    let said = "wrong code of guarded_reads, and right code with -O1 -fno-tree-vectorize";
    assert!(found.contains(said), "{found}");
    if is_gcc() {
        let found = probed(edit, "-fno-tree-loop-if-convert").expect("there are such flags");
        assert!(found.contains("right code with -fno-tree-loop-if-convert,"), "{found}");
    }
    let error = probed(edit, "-never").expect_err("it is always wrong");
    assert!(error.contains("wrong code of the probes guarded_reads,"), "{error}");
    let found = probed("s/puts(\"done\");/abort();/", "-O1").expect("there are such flags");
    assert!(found.contains("all of them (the program ends with signal: 6"), "{found}");
}

#[test]
fn each_probe_finds_something() {
    let edits = [
        ("wrapping_integers", "s/c\\[i\\] = a\\[i\\] \\* b\\[i\\] + b\\[i\\]/c[i] = 0/"),
        (
            "floor_division",
            "s/quotients\\[i\\] = rx_floordiv_i64(a\\[i\\], by)/quotients[i] = a[i] \\/ by/",
        ),
        (
            "contraction",
            "s/c\\[i\\] = a\\[i\\] \\* a\\[i\\] - 1.0f/c[i] = __builtin_fmaf(a[i], a[i], -1.0f)/",
        ),
        ("special_values", "s/is_nan\\[i\\] = x\\[i\\] != x\\[i\\]/is_nan[i] = 0/"),
        ("reductions", "s/i < n; i++) most = /i < (n \\& ~3); i++) most = /"),
        ("halves", "s/f16\\[i\\] = rx_f16_of_f32(x\\[i\\])/f16[i] = rx_f16_of_f32(x[i]) | 1/"),
        ("conversions", "s/rx_min_f64((double)x\\[i\\], 65535.0)/rx_min_f64((double)x[i], 7.0)/"),
        ("reused_memory", "s/\\*also = 2.0f; return \\*to;/*also = 2.0f; return 1;/"),
        ("strides", "s/j < m; j++) y\\[j \\* n + i\\]/j < (m \\& ~1); j++) y[j * n + i]/"),
    ];
    let all = edits.map(|(_, edit)| edit).join(";");
    let error = probed(&all, "-never").expect_err("it is always wrong");
    let names = edits.map(|(name, _)| name).join(", ");
    assert!(error.contains(&format!("wrong code of the probes {names},")), "{error}");
}

/// Without what keeps guarded reads from masked loads, the compiler that is known for it is found.
#[test]
fn the_known_miscompilation_is_found() {
    let version = Compiler::of_system().expect("a C compiler").version().to_owned();
    let edit = "s/__asm__ volatile(\"\");//";
    match probed(edit, "-never") {
        Ok(found) if version.contains(" 12.2.") && has_avx2() => {
            let said = "wrong code of guarded_reads, and right code with -fno-tree-loop-if-convert";
            assert!(found.contains(said), "{found}");
        }
        Ok(found) => eprintln!("{version}: {found}"),
        Err(error) => panic!("{error}"),
    }
}

/// Arguments in $CC that change what floats are.
#[test]
fn arguments_that_change_results_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let compiler = Compiler::named("cc -ffinite-math-only").expect("a C compiler");
    let error = compiler.probed(&Cache::at(folder.path())).expect_err("NaN is no number");
    assert!(error.to_string().contains("special_values"), "{error}");
}

fn is_gcc() -> bool {
    let compiler = Compiler::of_system().expect("a C compiler");
    !compiler.version().contains("clang")
}
