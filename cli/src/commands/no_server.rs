//! `relax serve` of a build without the server.

use crate::args::ServeArgs;
use crate::exit::{Failure, Outcome};
use crate::terminal::Terminal;

pub(super) fn serve(_args: &ServeArgs, _terminal: &mut Terminal) -> Outcome {
    let words = "this build has no server: build the command with the feature `serve`";
    Err(Failure::missing(words))
}
