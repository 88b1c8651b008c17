//! The mutants of a source: every place where an edit of a known kind may stand, found in Rust's own syntax. Each edit keeps
//! types where that can be seen from the text; the compiler says which others it refuses.

mod expressions;
mod functions;

use crate::edits::Edits;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A change of the source that one number switches on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mutant {
    pub(crate) number: u32,
    /// The path of the source from the root of the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The function that it stands in.
    pub(crate) function: String,
    /// What is changed, such as `<` to `<=`.
    pub(crate) edit: String,
    /// The line of the source.
    pub(crate) text: String,
}

/// What is found in a source.
pub(crate) struct Sites<'a> {
    file: &'a str,
    source: &'a str,
    first: u32,
    function: String,
    pub(crate) edits: Edits,
    pub(crate) mutants: Vec<Mutant>,
}

/// The mutants of a source, numbered from `first`.
pub(crate) fn find<'a>(file: &'a str, source: &'a str, first: u32) -> Result<Sites<'a>, String> {
    let tree = syn::parse_file(source).map_err(|error| format!("{file}: {error}"))?;
    let mut sites = Sites {
        file,
        source,
        first,
        function: String::new(),
        edits: Edits::default(),
        mutants: Vec::new(),
    };
    sites.visit_file(&tree);
    Ok(sites)
}

/// The bytes of a piece of syntax.
fn bytes(piece: &impl Spanned) -> Range<usize> {
    piece.span().byte_range()
}

impl Sites<'_> {
    fn mutant(&mut self, at: usize, edit: &str) -> u32 {
        let number = self.first + u32::try_from(self.mutants.len()).unwrap_or(u32::MAX);
        let line = self.source[..at].matches('\n').count() + 1;
        let text = self.source.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        self.mutants.push(Mutant {
            number,
            file: self.file.to_owned(),
            line,
            function: self.function.clone(),
            edit: edit.to_owned(),
            text,
        });
        number
    }

    /// The text that asks whether a mutant runs.
    fn pick(number: u32) -> String {
        format!("::mutation::pick({number})")
    }

    fn excerpt(&self, at: &Range<usize>) -> String {
        let text: Vec<&str> = self.source[at.clone()].split_whitespace().collect();
        let text = text.join(" ");
        if text.chars().count() <= 40 {
            return text;
        }
        format!("{}…", text.chars().take(39).collect::<String>())
    }
}

/// Is this code that is only compiled for tests?
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    // Types, patterns and constants are computed by the compiler: no choice at run time can stand there.
    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}

    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.body(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        self.expression(expression);
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    /// Each mutant of a source as text, alone.
    fn mutants(source: &str) -> Vec<String> {
        let sites = find("f.rs", source, 0).expect("the source is Rust");
        let only = |number| sites.edits.apply(source, |wanted| wanted == number).0;
        sites.mutants.iter().map(|mutant| only(mutant.number)).collect()
    }

    #[test]
    fn edits_are_rust_again() {
        let source = "fn f(a: &[i64], n: usize) -> Option<i64> {\n    for i in 0..n {\n        \
                      if i + 1 < n && !(a[i] == 3) || a.iter().any(|x| *x > 2) { g(i)?; }\n    }\n    \
                      match n { 0 => None, 1 if n > 2 => h(), _ => Some(a[n - 1].min(4)) }\n}\n";
        let all = mutants(source);
        assert!(all.len() > 15, "{all:?}");
        for text in &all {
            assert!(syn::parse_file(text).is_ok(), "{text}");
        }
        let sites = find("f.rs", source, 0).expect("the source is Rust");
        assert!(syn::parse_file(&sites.edits.apply(source, |_| true).0).is_ok());
    }

    #[test]
    fn constants_and_tests_are_left_alone() {
        let source = "const A: usize = 1 + 1;\nconst fn f() -> bool { 1 < 2 }\nfn g(a: [u8; 1 + 1]) {}\n\
                      #[cfg(test)]\nmod tests { fn h() -> bool { 1 < 2 } }\n";
        assert_eq!(mutants(source), Vec::<String>::new());
    }
}
