//! Which binding goes wrong first: the function is cut off after a binding, and both routes run what is left of it.
//!
//! Compiled code has no values of bindings that are fused, so each cut is compiled anew: then its binding is a result.

use crate::args::DiffArgs;
use crate::commands::run::{compiled, registered, target};
use crate::exit::{Exit, Failure};
use relax_driver::KernelCheck;
use relax_driver::differential::{Built, Difference, Other, Routes};
use relax_driver::differential::{Known, Tally, of_module, of_text};
use relax_program::frontend::{Program, print};
use relax_program::rounding::perturbed_values;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_rewrite::verify::{binding_names, cut_after};
use relax_runtime::program::Numerics;
use relax_runtime::{Callee, Limits, ObservedCall, Observer};
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::sync::{Arc, Mutex, PoisonError};

/// Bindings that are tried one after the other; of more, half are passed over at a time.
const FEW: usize = 24;
/// Bindings from the last one on, of which one must differ.
const LAST: usize = 4;

/// Where a difference begins.
pub(super) struct Origin {
    /// The first binding that differs.
    pub(super) binding: Option<Name>,
    /// The kernel that computes it.
    pub(super) kernel: Option<String>,
    /// Why there is no binding.
    pub(super) why_not: Option<String>,
}

impl Origin {
    fn none(why: String) -> Self {
        Self { binding: None, kernel: None, why_not: Some(why) }
    }
}

/// How the second route makes code of a cut.
#[derive(Clone, Copy)]
struct Compilation {
    backend: Device,
    numerics: (Numerics, KernelCheck),
}

/// A cut in which the routes differ, and the kernel that ran last in it.
struct Cut {
    kernel: Option<String>,
}

/// Searches for the binding with which a difference begins.
pub(super) fn origin(args: &DiffArgs, routes: &Routes, difference: &Difference) -> Origin {
    let Some(function) = routes.left.function(&difference.function) else {
        return Origin::none("the function is not in the text".to_owned());
    };
    let mut names = binding_names(function);
    let built = routes.files.built;
    if built == Some(Built::OfAnotherText) {
        return Origin::none("the module file was built from another text".to_owned());
    }
    let is_built = built.is_some();
    let search = Search { args, routes, difference, is_built };
    if let Other::Text { module, .. } = &routes.other {
        let others = module.function(&difference.function).map(binding_names);
        names.retain(|name| others.as_ref().is_some_and(|others| others.contains(name)));
        // Two programs that differ number operands of nested calls each for itself.
        if args.against.is_some() {
            names.retain(|name| !is_numbered(name));
        }
    } else if is_built {
        // Cuts of what was built elsewhere say something only if the whole differs here too.
        let why = match search.differs(&routes.left) {
            None => "the source in the file does not compile here",
            Some(None) => "compiled anew, the program does not differ: the code in the file does",
            Some(Some(_)) => "",
        };
        if !why.is_empty() {
            return Origin::none(why.to_owned());
        }
    }
    match search.first(&names) {
        Some((name, cut)) => Origin { binding: Some(name), kernel: cut.kernel, why_not: None },
        None => Origin::none(unnamed(routes)),
    }
}

/// Whether normalization made up the name.
fn is_numbered(name: &Name) -> bool {
    let digits = name.strip_prefix("lv").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn unnamed(routes: &Routes) -> String {
    const SHOWN: usize = 5;
    let Other::Compiled { module, .. } = &routes.other else {
        return "no binding with a name in both texts differs".to_owned();
    };
    let why = "no binding differs where the function ends after it";
    let kernels = module.kernels().iter().map(|kernel| kernel.name.as_str());
    let kernels: Vec<&str> = kernels.collect();
    let shown = kernels.iter().take(SHOWN).map(|name| format!("`{name}`"));
    let more = kernels.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    let kernels: Vec<String> = shown.chain(more).collect();
    format!("{why}: one of the kernels of the whole does: {}", kernels.join(", "))
}

struct Search<'a> {
    args: &'a DiffArgs,
    routes: &'a Routes,
    difference: &'a Difference,
    /// Whether the second route is a module file.
    is_built: bool,
}

impl Search<'_> {
    /// The first of these bindings that differs.
    fn first(&self, names: &[Name]) -> Option<(Name, Cut)> {
        let named = |name: &Name| Some((name.clone(), self.cut(name)?));
        if names.len() <= FEW {
            return names.iter().find_map(named);
        }
        let mut high = (names.len() - LAST..names.len()).rev();
        let (mut high, mut found) = high.find_map(|at| Some((at, named(&names[at])?)))?;
        // What comes before `low` does not differ, as far as that was tried.
        let mut low = 0;
        while low < high {
            let middle = low + (high - low) / 2;
            match named(&names[middle]) {
                Some(differing) => (high, found) = (middle, differing),
                None => low = middle + 1,
            }
        }
        Some(found)
    }

    /// What differs where the function ends with a binding.
    fn cut(&self, name: &Name) -> Option<Cut> {
        let cut = cut_after(&self.routes.left, &self.difference.function, name)?;
        match &self.routes.other {
            Other::Compiled { .. } => self.differs(&cut).flatten(),
            Other::Text { module, relation, externals: own, .. } => {
                let right = cut_after(module, &self.difference.function, name)?;
                let mut other = of_text(&cut, right, *relation);
                if let Other::Text { externals, .. } = &mut other {
                    externals.clone_from(own);
                }
                self.run(cut, other).then_some(Cut { kernel: None })
            }
        }
    }

    /// Whether a module differs from what is compiled of it; `None` where nothing is.
    fn differs(&self, module: &Module) -> Option<Option<Cut>> {
        let program = Program::load(Source::new("cut", print(module).as_str()));
        if program.has_errors() {
            return None;
        }
        let Compilation { backend, numerics } = self.compilation();
        let externals = &self.routes.externals;
        let target = target(backend, numerics.0, numerics.1).ok()?.rewriting(&program.module);
        let quietly = &mut |_| Failure::Shown(Exit::Wrong);
        let (values, limits) = (Arc::clone(externals), Limits::default());
        let module = compiled(&program, target, values, limits, &mut Unwatched, quietly).ok()?;
        let mut module = registered(module).ok()?;
        let last = LastKernel::default();
        module.watch(Box::new(last.clone()));
        let perturbed = Arc::new(perturbed_values(externals));
        let other = of_module(&program.module, module, (backend, numerics.0), perturbed);
        Some(self.run(program.module, other).then(|| Cut { kernel: last.name() }))
    }

    fn run(&self, left: Module, other: Other) -> bool {
        let Routes { seed, cases, inputs, random_constants, .. } = *self.routes;
        let externals = Arc::clone(&self.routes.externals);
        // Every parameter is passed: what was built in is an argument here.
        let known = Known::default();
        let files = self.routes.files.clone();
        let routes =
            Routes { left, other, seed, cases, externals, known, inputs, random_constants, files };
        let Some(function) = routes.left.function(&self.difference.function) else { return false };
        let arguments = &self.difference.case.arguments;
        let (left, right) = routes.results(function, arguments);
        routes.verdict(function, arguments, (&left, &right), &mut Tally::default()).is_err()
    }

    fn compilation(&self) -> Compilation {
        match &self.routes.other {
            // As the module file was built.
            Other::Compiled { module, .. } if self.is_built => {
                let policy = match module.metadata().kernel_check {
                    Some(_) => KernelCheck::default(),
                    None => KernelCheck::Off,
                };
                Compilation { backend: Device::Cpu, numerics: (module.metadata().numerics, policy) }
            }
            _ => {
                let backend = self.args.backend.unwrap_or(Device::Cpu);
                let policy = self.args.kernel_check.policy();
                Compilation { backend, numerics: (self.args.numerics.chosen(), policy) }
            }
        }
    }
}

/// The kernel that was called last.
#[derive(Clone, Default)]
struct LastKernel(Arc<Mutex<Option<String>>>);

impl LastKernel {
    fn name(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for LastKernel {
    fn called(&self, call: &ObservedCall<'_>) {
        if call.callee == Callee::Kernel {
            let name = Some(call.name.to_owned());
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = name;
        }
    }
}
