//! Names: files that say what is in them, functions without `get_`, and public functions whose
//! calls can be read, which a bare `true` cannot.

use crate::project::{files, files_ending, report};
use syn::visit::{self, Visit};
use syn::{FnArg, Signature, Type, Visibility};

/// Names of files and folders that say nothing.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"];

#[test]
fn files_have_names_that_say_something() {
    let mut findings = Vec::new();
    for file in files() {
        let pieces = file.path.split('/').map(|piece| piece.split('.').next().unwrap_or(piece));
        for piece in pieces.filter(|piece| EMPTY_NAMES.contains(piece)) {
            findings.push(format!("{}:1: `{piece}` says nothing of what is in it", file.path));
        }
    }
    report("names of files", &findings);
}

/// What is wrong with the functions of a file: line and message.
#[derive(Default)]
struct Functions(Vec<(usize, String)>);

impl Functions {
    fn named(&mut self, signature: &Signature) {
        if signature.ident.to_string().starts_with("get_") {
            let line = signature.ident.span().start().line;
            self.0.push((line, format!("`{}`: no `get_`", signature.ident)));
        }
    }

    fn public(&mut self, signature: &Signature) {
        for input in &signature.inputs {
            let FnArg::Typed(parameter) = input else { continue };
            if matches!(&*parameter.ty, Type::Path(path) if path.path.is_ident("bool")) {
                let line = parameter.colon_token.span.start().line;
                let name = &signature.ident;
                self.0.push((line, format!("`{name}`: public, with a boolean parameter")));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.named(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if matches!(item.vis, Visibility::Public(_)) {
            self.public(&item.sig);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if matches!(item.vis, Visibility::Public(_)) {
            self.public(&item.sig);
        }
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if matches!(item.vis, Visibility::Public(_)) {
            for method in &item.items {
                if let syn::TraitItem::Fn(method) = method {
                    self.public(&method.sig);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }
}

fn odd_functions(text: &str) -> Vec<(usize, String)> {
    let file = syn::parse_file(text).expect("sources of the project are Rust");
    let mut functions = Functions::default();
    functions.visit_file(&file);
    functions.0
}

#[test]
fn functions_have_names_and_parameters_that_can_be_read() {
    let mut findings = Vec::new();
    for file in files_ending(".rs") {
        let found = odd_functions(&file.text);
        findings
            .extend(found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", file.path)));
    }
    report("names of functions", &findings);
}

#[test]
fn odd_functions_are_found() {
    let text = "pub fn f(a: u8,\n    strict: bool) {}\nfn g(b: bool) {}\nstruct S;\nimpl S {\n    fn get_x(&self) {}\n}\n";
    let lines: Vec<usize> = odd_functions(text).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 6]);
}
