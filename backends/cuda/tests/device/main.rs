//! Whether the emulated CUDA notices what a program does wrong, and does what the documentation says: a small program in C++
//! (`client.cpp`) does one thing after the other.

#[path = "../emulator/mod.rs"]
mod emulator;

use emulator::{Emulator, MISUSED};
use std::path::{Path, PathBuf};

/// Which process of the client: of what, and the case.
type Case = (&'static str, &'static str);

/// What ends the process, and what it says of it.
const MISUSES: &[(Case, &str)] = &[
    (("memory", "host_touches"), "the host: it touches memory of the device"),
    (("memory", "too_long"), "target, 300 bytes at 0x"),
    (("memory", "source_too_long"), "it goes beyond"),
    (("memory", "fill_elsewhere"), "which is no memory of the device"),
    (("memory", "freed_before"), "which was freed"),
    (("memory", "freed_early"), "cuMemsetD8Async: target, 4 bytes at 0x"),
    (("memory", "freed_twice"), "cuMemFree: it frees 0x"),
    (("memory", "freed_inside"), "byte 4 of 100 of an allocation"),
    (("memory", "host_for_device"), "which is no memory of the device"),
    (("memory", "device_for_host"), "an address of the device stands for one of the host"),
    (("memory", "overlap"), "source and target overlap"),
    (("memory", "changed"), "the bytes of the host changed before they were copied"),
    (("memory", "gone"), "the host has no memory of 4 bytes"),
    (("stream", "dead_stream"), "is no stream that is alive"),
    (("stream", "default_stream"), "the default streams are not emulated"),
    (("stream", "stream_for_graph"), "is no executable graph that is alive"),
    (("stream", "other_thread"), "the thread has no current context"),
    (("stream", "no_context"), "the thread has no current context"),
    (("stream", "dead_context"), "the current context was released"),
    (("capture", "destroys_recording"), "the stream records"),
    (("capture", "graph_twice"), "is no graph that is alive"),
    (("capture", "graph_of_freed"), "cuMemsetD8Async: target, 4 bytes at 0x"),
    (("capture", "dead_graph"), "is no executable graph that is alive"),
    (("kernel", "no_parameter"), "the host has no memory of 8 bytes at (nil)"),
    (("kernel", "wrong_parameter"), "cuLaunchKernel of put: parameter 0"),
    (("kernel", "kernel_beyond"), "cuLaunchKernel of put: it touches 0x"),
    (("kernel", "kernel_behind"), "something wrote around the allocation of 100 bytes"),
    (("kernel", "kernel_before"), "something wrote around the allocation of 100 bytes"),
    (("kernel", "kernel_of_freed"), "which was freed"),
    (("kernel", "unloaded_early"), "its module was unloaded before it was done"),
    (("product", "odd_bias"), "the bias is not aligned to 16 bytes"),
    (("product", "wrong_size"), "the attribute has 4 bytes, not 8"),
    (("product", "no_attribute"), "the attribute is none, or not emulated"),
    (("product", "another_product"), "the algorithm was found for another product"),
    (("product", "not_aligned"), "a matrix is not aligned as the algorithm was told"),
    (("product", "workspace_beyond"), "workspace, 2097152 bytes at 0x"),
    (("product", "short_matrix"), "cublasLtMatmul: D, 16 bytes at 0x"),
    (("product", "same_matrix"), "D overlaps A or B"),
    (("product", "dead_operation"), "a handle is no operation that is alive"),
    (("product", "dead_library"), "a handle is no library of products that is alive"),
    (("product", "freed_workspace"), "workspace, 1048576 bytes at 0x"),
    (("ranks", "copy_elsewhere"), "on device 1, and not on device 0"),
    (("ranks", "free_elsewhere"), "cuMemFree: it frees 0x"),
    (("ranks", "stream_elsewhere"), "the stream is of device 0, and the current context is not"),
    (("ranks", "unpolled"), "what was asked before goes on"),
    (("ranks", "another_device"), "the communicator is of another device"),
    (("ranks", "foreign_memory"), "on device 1, and not on device 0"),
    (("ranks", "too_long"), "NCCL: target, 66 bytes at 0x"),
    (("ranks", "overlap"), "source and target overlap"),
    (("ranks", "own_rank"), "no other rank"),
    (("ranks", "aborted"), "is no communicator that is alive"),
    (("ranks", "different"), "ranks call different collectives"),
    (("ranks", "lengths"), "a rank sends 8 bytes, another one receives 4"),
    (("ranks", "freed_early"), "which was freed"),
];

/// What goes on, and what it says: numbers, most of them codes of CUDA and of cuBLASLt.
const ANSWERS: &[(Case, &str)] = &[
    (("memory", "not_started"), "3"),
    // Nothing is done before it is waited for.
    (("memory", "late"), "1 9"),
    (("memory", "no_memory"), "2 1"),
    (("memory", "fresh"), "203"),
    (("stream", "unordered"), "203"),
    (("capture", "plain"), "0 0 1 0 1 3 3"),
    (("capture", "begins_twice"), "0 401 0 1 0 1 3 3"),
    (("capture", "waits"), "0 900 901 0"),
    (("capture", "allocates"), "0 900 901 0"),
    (("capture", "allocates_elsewhere"), "0 0 0 1 0 1 3 3"),
    (("capture", "downloads"), "0 900 901 0"),
    (("capture", "wrong_thread"), "0 908 0 1 0 1 3 3"),
    // First whether the text compiles.
    (("kernel", "kernel"), "0 0 0 7"),
    (("kernel", "no_image"), "0 200"),
    (("kernel", "no_function"), "0 500"),
    (("kernel", "too_many_threads"), "0 701 1 1"),
    (("kernel", "too_many_shared"), "0 0 1 1"),
    (("kernel", "recorded_lookup"), "0 900 901"),
    (("product", "product"), "0 1 0 -2 -2 4 13"),
    (("product", "with_bias"), "0 1 0 8 18 14 33"),
    (("product", "relu"), "0 1 0 0 0 4 13"),
    (("product", "turned"), "0 1 0 -1 -1 6 13"),
    (("product", "captured"), "0 1 8 18 14 33"),
    (("product", "less_aligned"), "0 1 0"),
    (("product", "no_bias"), "0 1 7"),
    (("product", "little_workspace"), "0 1 7"),
    (("product", "short_leading"), "7 0"),
    (("product", "batches_differ"), "7 0"),
    (("product", "not_supported"), "15 0"),
    (("ranks", "joined"), "7 7 2 2"),
    (("ranks", "device_twice"), "7 5"),
    (("ranks", "no_end"), "5"),
    (("ranks", "reduced"), "7 7 11 22 1"),
    (("ranks", "maxima"), "10 3 1"),
    (("ranks", "scattered"), "11 22 0"),
    (("ranks", "gathered"), "1 2 10 20 0"),
    (("ranks", "exchanged"), "7 7 0 2"),
];

/// The client, compiled; none where that cannot be.
fn client() -> Option<(Emulator, PathBuf, tempfile::TempDir)> {
    let emulator = Emulator::build()?;
    let folder = tempfile::tempdir().expect("a folder");
    let client = folder.path().join("client");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/client.cpp");
    emulator.client(&source, &client);
    Some((emulator, client, folder))
}

#[test]
fn misuse_is_noticed_and_the_rest_goes_on() {
    let Some((emulator, client, _folder)) = client() else { return };
    let run = |(of, case): Case| {
        let mut command = emulator.command(&client);
        emulator.watch(command.args([of, case]).env("EMULATED_CUDA_DEVICES", "2"))
    };
    let mut wrong = Vec::new();
    for &(case, words) in MISUSES {
        let (output, report) = run(case);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_reported = report.lines.iter().any(|line| line.starts_with("misuse "));
        if output.status.code() != Some(MISUSED) || !said.contains(words) || !is_reported {
            wrong.push(format!("{case:?}: {:?}, {said}", output.status));
        }
    }
    for &(case, numbers) in ANSWERS {
        let (output, _) = run(case);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || said != numbers {
            let errors = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{case:?}: {said} instead of {numbers}, {errors}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a process leaves is counted, whether it releases the context or not.
#[test]
fn what_is_left_is_counted() {
    let Some((emulator, client, _folder)) = client() else { return };
    let (output, report) = emulator.watch(emulator.command(&client).args(["kernel", "leaks"]));
    assert!(output.status.success(), "{output:?}");
    let left = [
        "leaked 100 bytes of memory",
        "leaked a stream with 0 works",
        "leaked a module",
        "leaked a graph",
    ];
    assert_eq!(report.lines, left);
    assert_eq!(report.count("leaked"), 4);
    let (_, report) = emulator.watch(emulator.command(&client).args(["product", "relu"]));
    let left = |what: &str| report.lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((left("bytes of memory"), left("a context")), (5, 1), "{report:?}");
    assert_eq!((left("matrix layout"), left("operation"), left("preference")), (3, 1, 1));
    assert_eq!((report.count("products"), report.count("heuristics")), (1, 1));
}

/// A call that is told to fail does, and a driver may find no device.
#[test]
fn calls_fail_where_they_are_told_to() {
    let Some((emulator, client, _folder)) = client() else { return };
    for (case, name, value, numbers) in [
        ("no_memory", "EMULATED_CUDA_FAILS", "cuMemAlloc", "2 2"),
        ("started", "EMULATED_CUDA_DEVICES", "0", "100 3"),
        ("started", "EMULATED_CUDA_DEVICES", "1", "0 0"),
    ] {
        let mut command = emulator.command(&client);
        let (output, _) = emulator.watch(command.args(["memory", case]).env(name, value));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), numbers, "{case}: {output:?}");
    }
}
