//! Programs as passes of `relax opt`: what they write is checked, compared and limited.
#![cfg(unix)]

use super::folder::{DOUBLED, Folder, text};
use relax_corpus::script::executable;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("doubled.rx", DOUBLED);
    folder
}

/// What `relax opt` says with a shell script as a pass, and its exit code.
fn passed(folder: &Folder, program: &str, script: &str, flags: &[&str]) -> (String, Option<i32>) {
    executable(&folder.0.path().join("mine"), script);
    folder.ended(
        &[&["opt", program, "--passes", "normalize,./mine,eliminate_dead_code"], flags].concat(),
    )
}

/// A name more changes nothing, and that is proved. That a product with 1 is not rounded in a sum is not, so it is run.
#[test]
fn what_a_program_makes_is_proved_or_compared() {
    let folder = folder();
    let (said, code) = passed(&folder, "doubled.rx", "sed s/lv0/doubled/g", &[]);
    assert!(code == Some(0) && said.contains("return doubled"), "{said}");
    assert!(said.contains("./mine: 1 of 1 functions proved to be the same\n"), "{said}");
    let script = r"sed 's/\( *\)lv0: \(.*\) = add(x, x)/\1one: \2 = ones_like(x)\n\1lv0: \2 = ewise_fma(x, one, x)/'";
    let (said, code) = passed(&folder, "doubled.rx", script, &["--verify", "--cases", "7"]);
    assert!(code == Some(0) && said.contains("ewise_fma(x, one, x)"), "{said}");
    let compared = "./mine: 0 of 1 functions proved to be the same, all compared: 7 compared";
    assert!(said.contains(compared), "{said}");
}

#[test]
fn a_wrong_program_makes_an_error_and_no_module() {
    let folder = folder();
    for (script, code, why) in [
        (
            "sed 's/add(x, x)/add(x, const(1.0, \"f32\"))/'",
            1,
            "the pass `./mine` changes what the program means",
        ),
        ("sed 's/add(x, x)/add(x, y)/'", 1, "the pass `./mine` wrote a program that is wrong"),
        ("sed 's/main/other/'", 1, "the pass `./mine` loses the function `main`"),
        (
            "cat; echo; echo 'module_attr(\"phase\", \"P1\")' >&2; exit 3",
            1,
            "the pass `./mine` fails: exit status: 3\nmodule_attr",
        ),
        ("printf '\\377'", 1, "writes what is no UTF-8"),
        ("head -c 70000000 /dev/zero", 1, "the pass `./mine` writes more than 67108864 bytes"),
        ("python3 -c 'bytearray(6 << 30)'", 1, "the pass `./mine` fails: "),
    ] {
        let (said, ended) = passed(&folder, "doubled.rx", script, &["-o", "out.rx"]);
        assert!(ended == Some(code) && said.contains(why), "{script}: {ended:?} {said}");
        assert!(!folder.0.path().join("out.rx").exists(), "{script}");
    }
    let (said, ended) = folder.ended(&["opt", "doubled.rx", "--passes", "./nowhere"]);
    assert!(ended == Some(1) && said.contains("./nowhere"), "{said}");
}

#[test]
fn a_program_that_does_not_end_is_stopped() {
    let folder = folder();
    let (said, ended) = passed(&folder, "doubled.rx", "exec sleep 100", &["--pass-seconds", "1"]);
    assert!(ended == Some(1) && said.contains("the pass `./mine` takes more than 1 s"), "{said}");
}

/// The certificate has the texts before and after the program: who verifies does not believe it.
#[test]
fn certificates_cover_programs() {
    let folder = folder();
    let script = "sed s/lv0/doubled/g";
    let flags = ["--certify", "-o", "out.rx", "--certificate", "cert"];
    let (said, code) = passed(&folder, "doubled.rx", script, &flags);
    assert_eq!(code, Some(0), "{said}");
    let verified = folder.relax(&["verify", "cert", "--program", "out.rx"]);
    assert!(text(&verified.stdout).starts_with("verified: "), "{}", text(&verified.stdout));
}
