//! What `--help` adds to the documentation comments: subcommands by purpose, and two examples for each.

use super::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// Subcommands by purpose, in the order in which `relax --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Programs", &["check", "fmt", "inspect", "import", "export"]),
    (
        "Run and measure",
        &["run", "generate", "serve", "train", "bench", "devices", "tune", "cache"],
    ),
    ("Compile", &["build", "opt", "grad", "shard", "rewrite", "versions"]),
    ("Test and prove", &["diff", "equiv", "fuzz", "prove", "verify"]),
    ("Reference", &["ops", "rules", "explain", "completions", "man"]),
];

/// Two examples of each subcommand: what it does, and the command line.
const EXAMPLES: &[(&str, [(&str, &str); 2])] = &[
    (
        "check",
        [
            ("Every error, and the checks left to run time", "relax check -v model.rx"),
            ("Apply fixes, and fail on warnings", "relax check --fix --deny warnings model.rx"),
        ],
    ),
    (
        "fmt",
        [
            ("Format a program in place", "relax fmt model.rx"),
            ("Fail where a program is not formatted", "relax fmt --check model.rx layers.rx"),
        ],
    ),
    (
        "inspect",
        [
            ("Inputs, operators and weights of a model", "relax inspect model.onnx"),
            (
                "Target, kernels and memory of a module file, as JSON",
                "relax inspect model.rxm --format json",
            ),
        ],
    ),
    (
        "import",
        [
            (
                "A text and a file of weights out of a model",
                "relax import model.onnx -o model.rx --params model.safetensors",
            ),
            (
                "Bound a dim, and give another its extent",
                "relax import model.onnx --bound batch=1..64 --dim seq=128 -o model.rx --params model.safetensors",
            ),
        ],
    ),
    (
        "export",
        [
            ("Print a program as TVM prints it", "relax export model.rx"),
            ("Write it to a file", "relax export model.rx --to tvmscript -o model.py"),
        ],
    ),
    (
        "run",
        [
            (
                "Run a model on an array of a file",
                "relax run model.onnx --input tokens=@tokens.npy --output out.npz",
            ),
            (
                "Run a program compiled, on random data",
                "relax run model.rx --backend cpu --random --sym n=16",
            ),
        ],
    ),
    (
        "generate",
        [
            ("Continue a text", "relax generate model.gguf --prompt Hello"),
            (
                "Speeds of a model in a folder, with sampling",
                "relax generate model/ --prompt Hello --temperature 0.8 --top-p 0.95 --bench",
            ),
        ],
    ),
    (
        "serve",
        [
            ("Serve a model on this machine", "relax serve model.gguf"),
            (
                "Serve it to others, with a key in RELAX_API_KEY",
                "relax serve model.gguf --listen 0.0.0.0:8080 --parallel 8 --max-tokens 512",
            ),
        ],
    ),
    (
        "train",
        [
            ("Train by a configuration", "relax train train.toml"),
            ("Go on from the last checkpoint", "relax train train.toml --resume"),
        ],
    ),
    (
        "bench",
        [
            ("Time a module file", "relax bench model.rxm --sym batch=1 --sym length=64"),
            (
                "Time a model with one thread, and trace a call",
                "relax bench model.onnx --sym batch=1 --threads 1 --trace call.json",
            ),
        ],
    ),
    (
        "devices",
        [
            ("List what runs kernels here", "relax devices"),
            ("The same as JSON lines", "relax devices --format json"),
        ],
    ),
    (
        "tune",
        [
            ("Time register tiles of the CPU", "relax tune"),
            (
                "Show which versions of a product a device uses",
                "relax tune --backend wgpu --show --extents nx768x2304",
            ),
        ],
    ),
    (
        "cache",
        [
            ("Show where the cache is, and how full", "relax cache"),
            ("Empty it", "relax cache --clear"),
        ],
    ),
    (
        "build",
        [
            (
                "Build a module file of a model for batches of up to 64",
                "relax build model.onnx -o model.rxm --bound batch=1..64",
            ),
            (
                "Build a program with its weights and a certificate",
                "relax build model.rx --params model.safetensors --certify -o model.rxm",
            ),
        ],
    ),
    (
        "opt",
        [
            ("Fused tensor programs of a program", "relax opt model.rx --to P2.1"),
            (
                "Run two passes, and compare each with the interpreter",
                "relax opt model.rx --passes legalize_ops,fuse_ops --verify",
            ),
        ],
    ),
    (
        "grad",
        [
            ("Gradients of a loss by every float parameter", "relax grad model.rx"),
            ("By some parameters, into a file", "relax grad model.rx --wrt w,b -o gradients.rx"),
        ],
    ),
    (
        "shard",
        [
            (
                "The layout of each value, and the bytes of each collective",
                "relax shard model.rx --explain",
            ),
            (
                "The program that each rank of a mesh of 2 by 4 runs",
                "relax shard model.rx --mesh 2x4 --local",
            ),
        ],
    ),
    (
        "rewrite",
        [
            ("Rewrite a program by proved rules", "relax rewrite model.rx"),
            ("Print which rules rewrote what", "relax rewrite model.rx --explain"),
        ],
    ),
    (
        "versions",
        [
            ("List versions for which dims", "relax versions model.rx"),
            ("Only those by rules of a family", "relax versions model.rx --rules matmul"),
        ],
    ),
    (
        "diff",
        [
            ("Compare compiled kernels with the interpreter", "relax diff model.rx --backend cpu"),
            (
                "Compare a model with a module file, and keep a difference",
                "relax diff model.onnx --against model.rxm --save case.npz",
            ),
        ],
    ),
    (
        "equiv",
        [
            (
                "Prove that two programs are equal, or find inputs where they differ",
                "relax equiv before.rx after.rx",
            ),
            (
                "Keep the proof, and replay it",
                "relax equiv before.rx after.rx --certificate equal.cert && relax verify equal.cert",
            ),
        ],
    ),
    (
        "fuzz",
        [
            ("Fuzz for a minute", "relax fuzz --seconds 60"),
            (
                "Check two properties of a thousand programs",
                "relax fuzz --programs 1000 --oracle print,passes --seed 7",
            ),
        ],
    ),
    (
        "prove",
        [
            ("Decide a statement", "relax prove 'n * 4 == 4 * n'"),
            (
                "Simplify a term under an assumption",
                "relax prove --simplify 'n // 4 * 4' --assume 'divides(4, n)'",
            ),
        ],
    ),
    (
        "verify",
        [
            ("Verify the certificate in a module file", "relax verify model.rxm"),
            (
                "Verify that a certificate is about a program",
                "relax verify model.cert --program model.rx",
            ),
        ],
    ),
    ("ops", [("List operators", "relax ops"), ("Describe one", "relax ops matmul")]),
    (
        "rules",
        [
            ("List the rules of a family", "relax rules --family matmul"),
            ("Prove those that are not proved on record", "relax rules --unproved --prove"),
        ],
    ),
    (
        "explain",
        [("Explain a code", "relax explain RX0203"), ("Explain a term", "relax explain twins")],
    ),
    (
        "completions",
        [
            ("For bash, in this session", "relax completions bash > relax.bash && . ./relax.bash"),
            ("For fish", "relax completions fish > ~/.config/fish/completions/relax.fish"),
        ],
    ),
    (
        "man",
        [
            ("Write the man pages into a folder", "relax man man1"),
            ("Read one", "relax man man1 && man ./man1/relax-run.1"),
        ],
    ),
];

/// The command line, with groups and examples.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    let groups = groups(&command);
    for (name, examples) in EXAMPLES {
        command = command.mut_subcommand(name, |subcommand| {
            let text = examples_of(examples);
            subcommand.after_help(text)
        });
    }
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

fn examples_of(examples: &[(&str, &str)]) -> String {
    let mut text = "Examples:".to_owned();
    for (what, line) in examples {
        let _ = write!(text, "\n  {what}:\n      {line}");
    }
    text
}

fn groups(command: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in *names {
            let found = command.find_subcommand(name);
            let about = found.and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {name:width$}  {}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The words of a command line up to `&&` or `>`, without quotes.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for character in line.chars().chain([' ']) {
            match character {
                '\'' => quoted = !quoted,
                ' ' if !quoted => {
                    if !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                }
                other => word.push(other),
            }
        }
        words.into_iter().take_while(|word| word != "&&" && word != ">").collect()
    }

    #[test]
    fn every_subcommand_has_a_group_and_two_examples_that_parse() {
        let command = Cli::command();
        let all: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.to_vec()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all, "groups");
        assert_eq!(grouped.len(), all.len(), "each is in one group");
        let named: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), all, "examples");
        assert_eq!(named.len(), all.len(), "each has its examples once");
        for (name, examples) in EXAMPLES {
            for (_, line) in examples {
                let words = words(line);
                assert_eq!(words[..2], ["relax", *name]);
                let parsed = super::command().try_get_matches_from(&words);
                assert!(
                    parsed.is_ok(),
                    "{line}: {:?}",
                    parsed.err().map(|error| error.to_string())
                );
            }
        }
    }

    #[test]
    fn help_shows_them() {
        let mut command = super::command();
        let help = command.render_help().to_string();
        for (title, _) in GROUPS {
            assert!(help.contains(&format!("\n{title}:\n")), "{help}");
        }
        assert!(!help.contains("\nCommands:\n"), "{help}");
        for (name, [(_, first), _]) in EXAMPLES {
            let subcommand = command.find_subcommand_mut(name).expect("it is there");
            for help in [subcommand.render_help(), subcommand.render_long_help()] {
                assert!(help.to_string().contains(first), "{help}");
            }
        }
    }
}
