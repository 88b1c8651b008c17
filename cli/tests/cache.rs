//! The cache of compiled kernels: damage, other users, its size, orphans, signals, and `relax cache`.
#![cfg(unix)]

mod compiler;

use relax_corpus::script::executable;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// On a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(60);

struct Folder(TempDir);

impl Folder {
    /// `None` where there is no C compiler.
    fn new() -> Option<Self> {
        if !compiler::is_there() {
            return None;
        }
        let folder = Self(tempfile::tempdir().expect("a folder for the test"));
        for name in ["home", "tmp"] {
            fs::create_dir(folder.path(name)).expect("it is made");
        }
        folder.program(0);
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cache(&self) -> PathBuf {
        self.path("home/.cache/relax")
    }

    /// Another program for each number, as `pNUMBER.rx`.
    fn program(&self, number: u32) {
        let text = format!(
            "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(reshape(x, shape(n, 1)), zeros((1, {}), \"f32\"))\n",
            number + 1
        );
        fs::write(self.path(&format!("p{number}.rx")), text).expect("it is written");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments).current_dir(self.0.path()).env("HOME", self.path("home"));
        command.env("TMPDIR", self.path("tmp")).env("CC", "cc");
        command.env_remove("XDG_CACHE_HOME").env_remove("RELAX_CACHE_SIZE");
        command
    }

    fn build(&self, number: u32, output: &str) -> Output {
        self.command(&["build", &format!("p{number}.rx"), "-o", output])
            .output()
            .expect("the command runs")
    }

    /// The only file of the cache with this extension.
    fn only(&self, extension: &str) -> PathBuf {
        let files = list(&self.cache()).into_iter().map(|name| self.cache().join(name));
        let files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
        let [file]: [PathBuf; 1] = files.try_into().expect("one file");
        file
    }

    fn forget_modules(&self) {
        fs::remove_dir_all(self.cache().join("modules")).expect("modules were kept");
    }
}

fn list(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("the folder is readable").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_damaged_entry_is_made_anew() {
    let Some(folder) = Folder::new() else { return };
    succeeds(&folder.build(0, "good.rxm"));
    let (good, object) =
        (fs::read(folder.path("good.rxm")).expect("it is made"), folder.only("so"));
    let (source, bytes) = (folder.only("c"), fs::read(&object).expect("it is there"));
    let whole = fs::read_to_string(&source).expect("it is there");
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    // Zeros at the end, as after a crash.
    let zeros = [&bytes[..bytes.len() - 512], &[0; 512]].concat();
    let damages: [(&str, &Path, Vec<u8>); 6] = [
        ("cut", &object, bytes[..9000.min(bytes.len() / 2)].to_vec()),
        ("empty", &object, Vec::new()),
        ("a bit", &object, flipped),
        ("zeros", &object, zeros),
        ("no digest", &source, whole[..whole.trim_end().rfind('\n').expect("lines") + 1].into()),
        ("another text", &source, whole.replacen("rx_", "ry_", 1).into_bytes()),
    ];
    for (what, path, damaged) in damages {
        fs::write(path, damaged).expect("it is written");
        folder.forget_modules();
        succeeds(&folder.build(0, "made.rxm"));
        assert!(fs::read(folder.path("made.rxm")).expect("it is made") == good, "{what}");
        assert!(fs::read(&object).expect("it is there") == bytes, "{what}: it heals");
    }
    // What lies elsewhere may be another file by the time that it is loaded.
    let elsewhere = folder.path("elsewhere.so");
    fs::rename(&object, &elsewhere).expect("it is there");
    std::os::unix::fs::symlink(&elsewhere, &object).expect("the place is free");
    folder.forget_modules();
    succeeds(&folder.build(0, "made.rxm"));
    assert!(object.symlink_metadata().expect("it is there").is_file(), "a link is not followed");
    // Verdicts of the kernel check are about the object and whole, or not used.
    let note = folder.only("checks");
    let checked = fs::read_to_string(&note).expect("it is there");
    fs::write(&note, checked.replace("agrees", "unchecked")).expect("it is written");
    folder.forget_modules();
    succeeds(&folder.build(0, "made.rxm"));
    assert_eq!(fs::read_to_string(&note).expect("it is there"), checked);
}

#[test]
fn a_folder_of_others_is_not_used() {
    let Some(folder) = Folder::new() else { return };
    succeeds(&folder.build(0, "good.rxm"));
    let before = list(&folder.cache());
    let refused = |why: &str| {
        folder.program(1);
        let built = folder.build(1, "other.rxm");
        succeeds(&built);
        let told = text(&built.stderr);
        assert!(told.contains("note: ") && told.contains(why), "{told}");
        assert_eq!(list(&folder.cache()), before);
        assert_eq!(list(&folder.path("tmp")), Vec::<String>::new());
    };
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    };
    for path in [folder.cache(), folder.cache().join("modules")] {
        for writable in [0o777, 0o775, 0o702] {
            mode(&path, writable);
            refused(&format!("mode {writable:03o}"));
        }
        mode(&path, 0o755);
    }
    // Only root can give a folder away.
    if chown(folder.cache(), Some(65534), None).is_ok() {
        refused("it belongs to user 65534");
        chown(folder.cache(), Some(0), None).expect("it is given back");
    }
    let built = folder.build(1, "other.rxm");
    assert!(!text(&built.stderr).contains("note: "), "{}", text(&built.stderr));
    assert_ne!(list(&folder.cache()), before);
}

#[test]
fn a_new_folder_is_private() {
    let Some(folder) = Folder::new() else { return };
    succeeds(&folder.build(0, "p.rxm"));
    let mode = fs::metadata(folder.cache()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn an_unwritable_home_is_no_error() {
    let Some(folder) = Folder::new() else { return };
    fs::write(folder.path("file"), b"").expect("it is written");
    for home in ["/proc/nothing".into(), folder.path("file")] {
        for command in [
            &["build", "p0.rx", "-o", "p.rxm"][..],
            &["run", "p0.rx", "--backend", "cpu", "--input", "x=[1]"],
        ] {
            let run = folder.command(command).env("HOME", &home).output().expect("it runs");
            succeeds(&run);
            assert!(text(&run.stderr).contains("note: the cache"), "{}", text(&run.stderr));
            assert_eq!(list(&folder.path("tmp")), Vec::<String>::new());
        }
    }
    // A relative path counts as none.
    let mut command = folder.command(&["build", "p0.rx", "-o", "p.rxm"]);
    succeeds(&command.env("XDG_CACHE_HOME", "relative").output().expect("it runs"));
    assert!(folder.cache().is_dir() && !folder.path("relative").exists());
}

#[test]
fn the_size_is_bounded() {
    let Some(folder) = Folder::new() else { return };
    let limited = |number: u32| {
        folder.program(number);
        let name = format!("p{number}.rx");
        let mut command = folder.command(&["build", &name, "-o", "p.rxm"]);
        succeeds(&command.env("RELAX_CACHE_SIZE", "256K").output().expect("it runs"));
    };
    let kernels = || {
        let names = list(&folder.cache()).into_iter();
        names.filter(|name| name.ends_with(".so")).collect::<Vec<_>>()
    };
    limited(0);
    let first = kernels();
    for number in 1..12 {
        limited(number);
        folder.forget_modules();
        // The first is in use, so others go.
        limited(0);
    }
    let bytes: u64 = [folder.cache(), folder.cache().join("modules")]
        .iter()
        .flat_map(|folder| list(folder).into_iter().map(|name| folder.join(name)))
        .filter(|path| path.is_file())
        .map(|path| fs::metadata(path).expect("it is there").len())
        .sum();
    assert!(bytes <= 256 << 10, "{bytes}");
    let left = kernels();
    assert!(left.len() < 12 && left.len() > 1 && left.contains(&first[0]), "{left:?}");
    let mut command = folder.command(&["build", "p0.rx", "-o", "p.rxm"]);
    let wrong = command.env("RELAX_CACHE_SIZE", "much").output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
}

#[test]
fn orphans_are_swept() {
    let Some(folder) = Folder::new() else { return };
    succeeds(&folder.build(0, "p.rxm"));
    // No process has a number that large.
    let (hash, gone, alive) = ("0123456789abcdef".repeat(2), i32::MAX, std::process::id());
    let old = SystemTime::now() - Duration::from_secs(7200);
    let orphan = |name: String, is_folder: bool| {
        let path = folder.cache().join(name);
        if is_folder {
            fs::create_dir(&path).expect("it is made");
        } else {
            fs::write(&path, b"half").expect("it is written");
        }
        File::open(&path).and_then(|file| file.set_modified(old)).expect("it is ours");
        path
    };
    let swept = [
        orphan(format!(".work-{gone}-0"), true),
        orphan(format!("{hash}-{gone}-0.c"), false),
        orphan(format!("{hash}.checks-{gone}-0"), false),
        orphan(format!("modules/{hash}{hash}.rxm-{gone}-0"), false),
    ];
    let stay = [orphan(format!(".work-{alive}-0"), true), orphan("notes-1-2".to_owned(), false)];
    let young = folder.cache().join(format!(".work-{gone}-1"));
    fs::create_dir(&young).expect("it is made");
    folder.program(1);
    succeeds(&folder.build(1, "p.rxm"));
    assert!(swept.iter().all(|path| !path.exists()), "{:?}", list(&folder.cache()));
    assert!(stay.iter().all(|path| path.exists()) && young.exists());
    succeeds(&folder.command(&["cache", "--clear"]).output().expect("it runs"));
    assert!(stay.iter().all(|path| path.exists()) && !young.exists());
}

/// Waits until something is there.
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < LONGEST, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_signal_leaves_no_files_and_no_compiler() {
    let Some(folder) = Folder::new() else { return };
    let compiler = folder.path("slow");
    let script = "[ \"$1\" = --version ] && { echo slow 1; exit; }\n\
                  case \" $* \" in *\" -dM \"*) exec cc \"$@\";; esac\n\
                  echo half > $TMPDIR/half.s\necho $$ > \"$READY.new\"\nmv \"$READY.new\" \"$READY\"\n\
                  sleep 1000\n";
    executable(&compiler, script);
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        let ready = folder.path(signal);
        let mut command = folder.command(&["build", "p0.rx", "-o", "p.rxm"]);
        command.env("CC", &compiler).env("READY", &ready).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command starts");
        let pid = wait_for("the compiler starts", || fs::read_to_string(&ready).ok());
        send(signal, &child.id().to_string());
        let status = child.wait().expect("the command ends");
        assert_eq!(status.signal(), Some(number), "{status}");
        assert_eq!(list(&folder.cache()), Vec::<String>::new(), "{signal}");
        assert_eq!(list(&folder.path("tmp")), Vec::<String>::new(), "{signal}");
        assert!(!folder.path("p.rxm").exists());
        let stat = format!("/proc/{}/stat", pid.trim());
        wait_for("the compiler ends", || {
            let stat = fs::read_to_string(&stat).ok();
            stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
        });
    }
}

fn send(signal: &str, process: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).status();
    assert!(sent.expect("a shell").success());
}

/// A result that is being written when the signal comes.
#[test]
fn a_signal_leaves_no_half_written_file() {
    let Some(folder) = Folder::new() else { return };
    let output = folder.path("output");
    let half = || list(&output).into_iter().find(|name| name.starts_with(".relax-"));
    for _ in 0..20 {
        let _ = fs::remove_dir_all(&output);
        fs::create_dir(&output).expect("it is made");
        let call = ["run", "p0.rx", "--input", "x=zeros(20000000)", "--output", "output/y.npy"];
        let mut child = folder.command(&call).spawn().expect("the command starts");
        wait_for("a file", || half().or_else(|| list(&output).pop()));
        send("TERM", &child.id().to_string());
        let status = child.wait().expect("the command ends");
        assert_eq!(half(), None, "{status}");
        if status.signal() == Some(15) && list(&output).is_empty() {
            return;
        }
    }
    panic!("the signal never came while the file was written");
}

#[test]
fn the_command_says_what_is_kept_and_clears_it() {
    let Some(folder) = Folder::new() else { return };
    let cache = |more: &[&str]| {
        let output = folder.command(&[&["cache"], more].concat()).output().expect("it runs");
        succeeds(&output);
        text(&output.stdout)
    };
    let path = folder.cache().display().to_string();
    let empty =
        "kernels: 0 entries, 0 bytes\nmodules: 0 entries, 0 bytes\nmodels: 0 entries, 0 bytes\n";
    let head = format!("cache: {path}\nlimit: 2147483648 bytes (RELAX_CACHE_SIZE)\n");
    assert_eq!(cache(&[]), format!("{head}{empty}"));
    succeeds(&folder.build(0, "p.rxm"));
    fs::write(folder.cache().join("tiles-0123.txt"), b"table").expect("it is written");
    let length = |path: &Path| fs::metadata(path).expect("it is there").len();
    let kernels: u64 = ["c", "so", "checks"].iter().map(|kind| length(&folder.only(kind))).sum();
    let json: serde_json::Value =
        serde_json::from_str(&cache(&["--format", "json"])).expect("it is JSON");
    let want = serde_json::json!({
        "type": "cache", "path": path, "limit": 2_147_483_648_u64, "cleared": false,
        "kernels": { "entries": 1, "bytes": kernels },
        "modules": { "entries": 1, "bytes": length(&folder.path("p.rxm")) },
        "models": { "entries": 0, "bytes": 0 },
    });
    assert_eq!(json, want);
    let cleared = cache(&["--clear"]);
    assert!(
        cleared.contains(&format!("removed:\nkernels: 1 entries, {kernels} bytes\n")),
        "{cleared}"
    );
    assert_eq!(cache(&[]), format!("{head}{empty}"));
    assert_eq!(list(&folder.cache()), ["modules", "tiles-0123.txt"]);
}
