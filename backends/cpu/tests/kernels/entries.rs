//! Entries of the cache: each is about one text and one compiler, and no entry is made where the compiler fails.

use relax_corpus::script::executable;
use relax_cpu::{Cache, Compiler, Error, Object, object};
use std::path::Path;

/// A function whose code depends on the flags.
const TEXT: &str =
    "int rx_answer(const void *t, const void *i, const void *s) { return ANSWER; }\n";

fn compiler() -> Compiler {
    Compiler::of_system().expect("a C compiler")
}

/// What the function of the text answers.
fn answer(object: &Object) -> i32 {
    let library = object.load().expect("it is whole");
    let function = library.function("rx_answer").expect("it is exported");
    super::native::called_with_nothing(&function)
}

fn files(cache: &Cache, end: &str) -> usize {
    let listed = std::fs::read_dir(cache.folder()).expect("a folder");
    let names = listed.map(|file| file.expect("a file").file_name().into_string());
    names.filter(|name| name.as_ref().is_ok_and(|name| name.ends_with(end))).count()
}

/// All that decides code is part of the name and of the text that is compared.
#[test]
fn each_compiler_has_entries_of_its_own() {
    let cache = Cache::temporary().expect("a folder");
    let compilers = ["-DANSWER=1", "-DANSWER=2"].map(|flag| compiler().with_flag(flag));
    for _ in 0..2 {
        for (compiler, wanted) in compilers.iter().zip(1..) {
            let object = object(relax_cpu::Text::of(TEXT), compiler, &cache);
            assert_eq!(answer(&object.expect("it compiles")), wanted);
        }
        assert_eq!(files(&cache, ".so"), 2);
    }
}

/// Of a compiler that fails: what it said, and where the text is.
fn refused(compiler: &Compiler, text: &str, cache: &Cache) -> String {
    match object(relax_cpu::Text::of(text), compiler, cache) {
        Err(Error::Compile { path, output, .. }) => {
            let kept = std::fs::read_to_string(&path).expect("the text is kept");
            assert!(kept.starts_with(text), "{kept}");
            output
        }
        other => panic!("{other:?}"),
    }
}

/// A compiler that writes an object, and fails all the same.
fn failing(folder: &Path) -> Compiler {
    let path = folder.join("compiler");
    let script = "case \" $* \" in *\" --version \"*|*\" -dM \"*) exec cc \"$@\";; esac\n\
                  cc \"$@\"\necho out of sorts >&2\nexit 3\n";
    executable(&path, script);
    Compiler::named(path.to_str().expect("a path of text")).expect("it has a version")
}

#[test]
fn a_text_that_is_refused_has_no_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(folder.path().join("cache"));
    let wrong = TEXT.replace("ANSWER", "no_such_name");
    for _ in 0..2 {
        let said = refused(&compiler(), &wrong, &cache);
        assert!(said.contains("no_such_name"), "{said}");
        let said = refused(&failing(folder.path()), &TEXT.replace("ANSWER", "4"), &cache);
        assert!(said.contains("out of sorts"), "{said}");
    }
    assert_eq!((files(&cache, ".so"), files(&cache, ".refused.c")), (0, 2));
}

/// The cache key has all that the code depends on: command, version, flags, and the processor as the system reports it.
#[test]
fn the_key_tells_compilers_and_processors_apart() {
    let compiler = compiler().with_flag("-DANSWER=1");
    let key = compiler.key();
    let [architecture, version] = [std::env::consts::ARCH, compiler.version()];
    for part in [compiler.command(), version, "-ffp-contract=off -fno-math-errno", "-DANSWER=1"] {
        assert!(key.contains(part), "{part}: {key}");
    }
    let about = key.lines().nth(3).expect("the command, the version, the flags, the processor");
    assert!(about.starts_with(architecture), "{key}");
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if let Some(model) = info.lines().find(|line| line.starts_with("model name")) {
        assert!(key.contains(model), "{key}");
    }
}

#[test]
fn a_cache_keeps_as_many_bytes_as_it_is_told() {
    let cache = Cache::at("somewhere");
    assert_eq!((cache.limit(), cache.of_at_most(5).limit()), (2 << 30, 5));
}
