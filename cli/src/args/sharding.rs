//! Arguments of commands about distributed tensors.

use clap::Args;
use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;

/// Extents of a mesh: `4`, which is also a number of workers, or `2x4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extents(pub(crate) Vec<usize>);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split('x').map(|part| part.parse::<NonZero<usize>>().map(NonZero::get));
        let parts = parts.collect::<Result<Vec<_>, _>>();
        parts.map(Self).map_err(|_| "expected integers of at least 1, such as 4 or 2x4".to_owned())
    }
}

impl fmt::Display for Extents {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let each: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        to.write_str(&each.join("x"))
    }
}

/// Choose layouts for a distributed program and print it
///
/// Placements in annotations and of `redistribute` are constraints. Every other value gets the layout that moves the fewest
/// bytes. The printed program has its layouts written out; with --local it is the program that each rank runs on its own
/// shards. `relax run --ranks N` runs all ranks.
#[derive(Debug, Args)]
pub(crate) struct ShardArgs {
    /// The program; `-` is the standard input
    pub(crate) file: PathBuf,
    /// The function that is sharded
    #[arg(long, default_value = "main")]
    pub(crate) entry: String,
    /// Other extents of the mesh, as many as it has axes; a program without a mesh gets one. As in a program with commas and names:
    /// `p` or `p,4` is for any number p of ranks
    #[arg(long, value_name = "2x4")]
    pub(crate) mesh: Option<String>,
    /// Cut the parameters with this dim along it, over the first axis of the mesh
    #[arg(long, value_name = "DIM")]
    pub(crate) data: Option<String>,
    /// Cut weights over the last axis of the mesh, each along the axis with which the fewest bytes are moved: the parameters that are
    /// named, or all that have two axes or more, no symbolic dim and no layout
    #[arg(long, value_name = "NAME,...", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) tensor: Option<String>,
    /// Print the local program
    #[arg(long)]
    pub(crate) local: bool,
    /// Write a certificate: the local program is proved to give the shards of the program's results, for all dims
    #[arg(long, value_name = "FILE", requires_all = ["local", "output"])]
    pub(crate) certificate: Option<PathBuf>,
    /// Have the local program choose among layouts for several sizes, by guards on dims: those that move the fewest bytes
    #[arg(long)]
    pub(crate) versions: bool,
    /// Print the layout of each value and the bytes of each collective
    #[arg(long)]
    pub(crate) explain: bool,
    /// The size of a symbolic dim at which costs are compared, by default 1024, or of an extent of the mesh, by default 4
    #[arg(long, value_name = "NAME=INTEGER")]
    pub(crate) sym: Vec<String>,
    /// Write the program to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
