//! Attempts: text that is printed to see whether it works, and given up with all that was learnt on the way if it does not.

use crate::checks::Checks;
use crate::printer::Printer;

/// Where a printer was, to go back to when something does not work.
pub(crate) struct Mark {
    lines: usize,
    indent: usize,
    sites: usize,
    checks: Checks,
    may_stop: bool,
    functions: usize,
    parts: usize,
}

impl Mark {
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }
}

impl Printer<'_, '_> {
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            lines: self.lines.len(),
            indent: self.indent,
            sites: self.sites.len(),
            checks: self.checks,
            may_stop: self.may_stop,
            functions: self.functions.len(),
            parts: self.parts,
        }
    }

    pub(crate) fn forget(&mut self, mark: Mark) {
        self.lines.truncate(mark.lines);
        self.indent = mark.indent;
        self.sites.truncate(mark.sites);
        self.functions.truncate(mark.functions);
        (self.checks, self.may_stop, self.parts) = (mark.checks, mark.may_stop, mark.parts);
    }

    /// Prints in a scope of its own: what is assumed, learnt and shared in it ends with it. Where it gives `None`, its text
    /// is given up too.
    pub(crate) fn attempt<T>(&mut self, print: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (mark, shared, learned) = (self.mark(), self.shared.len(), self.learned.clone());
        self.facts.push();
        let printed = print(self);
        self.facts.pop();
        self.shared.truncate(shared);
        self.learned = learned;
        if printed.is_none() {
            self.forget(mark);
        }
        printed
    }

    /// An attempt that is given up where it prints a line, such as a check.
    pub(crate) fn attempt_inline<T>(
        &mut self,
        print: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let lines = self.lines.len();
        self.attempt(|printer| print(printer).filter(|_| printer.lines.len() == lines))
    }
}
