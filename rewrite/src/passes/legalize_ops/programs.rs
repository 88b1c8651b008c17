//! The tensor programs that calls of operators get: one for all calls that differ only in the names of their dims.

use crate::fallback::Reason;
use crate::names::Names;
use relax_program::frontend::print;
use relax_semantics::ops::programs::{Request, kernel};
use relax_syntax::Name;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use std::collections::BTreeMap;

/// The programs made so far.
pub(super) struct Programs {
    names: Names,
    /// In the order of the module.
    pub(super) made: Vec<TensorProgram>,
    /// The name of each by its text as the builder made it, which tells also zeros of either sign apart:
    /// under the name that it got there.
    by_text: BTreeMap<String, Name>,
    /// What came of each request; most calls of a model ask for what was made before.
    answered: BTreeMap<String, Option<Answered>>,
}

/// A program, and which inputs it gets.
#[derive(Clone)]
pub(super) struct Answered {
    pub(super) program: Name,
    pub(super) passed: Vec<bool>,
}

impl Programs {
    pub(super) fn new(names: Names) -> Self {
        Self { names, made: Vec::new(), by_text: BTreeMap::new(), answered: BTreeMap::new() }
    }

    /// The program for a request, if `accepts` agrees to the inputs that it gets.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        accepts: impl FnOnce(&[bool]) -> bool,
    ) -> Result<Answered, Reason> {
        let key = request.key();
        if let Some(answered) = self.answered.get(&key) {
            let answered = answered.clone().ok_or(Reason::Case)?;
            return accepts(&answered.passed).then_some(answered).ok_or(Reason::Uninitialized);
        }
        let Some(made) = kernel(request) else {
            self.answered.insert(key, None);
            return Err(Reason::Case);
        };
        // What is not called is not made.
        if !accepts(&made.passed) {
            return Err(Reason::Uninitialized);
        }
        let answered = Answered { program: self.name(made.program), passed: made.passed };
        self.answered.insert(key, Some(answered.clone()));
        Ok(answered)
    }

    /// The name of a program like this one.
    fn name(&mut self, program: TensorProgram) -> Name {
        let alone = Module { definitions: vec![Definition::Tensor(program)], ..Module::default() };
        let text = print(&alone);
        if let Some(name) = self.by_text.get(&text) {
            return name.clone();
        }
        let mut definitions = alone.definitions;
        let Some(Definition::Tensor(mut program)) = definitions.pop() else {
            unreachable!("invariant: the one that was put in")
        };
        let name = self.names.fresh(&program.name);
        program.name = name.clone();
        self.by_text.insert(text, name.clone());
        self.made.push(program);
        name
    }
}
