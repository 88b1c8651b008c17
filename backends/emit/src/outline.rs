//! Parts of a kernel as functions of their own: what threads run, and what follows a product block by block. Such
//! a function gets what it uses of the parameters and buffers of the kernel, and a range.

use crate::printer::Printer;
use std::fmt::Write;

/// A variable of the kernel that its parts may use.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// As a parameter: `const float *restrict`.
    pub(crate) of: String,
    pub(crate) name: String,
}

/// What a function of its own is printed into.
pub(crate) struct Aside {
    lines: String,
    declared: Vec<String>,
    owned: Vec<String>,
    shared: usize,
    may_stop: bool,
    indent: usize,
    stack: i64,
    threads: &'static str,
}

/// The text of a function of its own.
pub(crate) struct Outlined {
    pub(crate) lines: String,
    declared: Vec<String>,
    owned: Vec<String>,
    pub(crate) may_stop: bool,
}

impl Printer<'_, '_> {
    /// A variable that is there from here to the end of the body.
    pub(crate) fn share(&mut self, of: &str, name: &str) {
        self.shared.push(Shared { of: of.to_owned(), name: name.to_owned() });
    }

    /// From here on everything goes into another function.
    pub(crate) fn leave(&mut self) -> Aside {
        Aside {
            lines: std::mem::take(&mut self.lines),
            declared: std::mem::take(&mut self.declared),
            owned: std::mem::take(&mut self.owned),
            shared: self.shared.len(),
            may_stop: std::mem::replace(&mut self.may_stop, false),
            indent: std::mem::replace(&mut self.indent, 1),
            stack: std::mem::replace(&mut self.stack, 0),
            threads: std::mem::replace(&mut self.threads, "NULL"),
        }
    }

    /// Back to where [`Printer::leave`] was called.
    pub(crate) fn come_back(&mut self, aside: Aside) -> Outlined {
        self.shared.truncate(aside.shared);
        self.indent = aside.indent;
        self.stack = aside.stack;
        self.threads = aside.threads;
        let outlined = self.take_text();
        self.lines = aside.lines;
        self.declared = aside.declared;
        self.owned = aside.owned;
        self.may_stop = aside.may_stop;
        outlined
    }

    /// What was printed of the function at hand.
    pub(crate) fn take_text(&mut self) -> Outlined {
        Outlined {
            lines: std::mem::take(&mut self.lines),
            declared: std::mem::take(&mut self.declared),
            owned: std::mem::take(&mut self.owned),
            may_stop: self.may_stop,
        }
    }

    /// The variables that a text mentions.
    pub(crate) fn used(&self, outlined: &Outlined) -> Vec<Shared> {
        let words = |text: &str| {
            let split = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            split.map(str::to_owned).collect::<Vec<String>>()
        };
        let mut mentioned = words(&outlined.lines);
        outlined.declared.iter().for_each(|line| mentioned.extend(words(line)));
        let used = |shared: &&Shared| mentioned.contains(&shared.name);
        self.shared.iter().filter(used).cloned().collect()
    }

    /// A function over a range, the frame that holds its arguments, and what threads call.
    pub(crate) fn define_part(&mut self, name: &str, used: &[Shared], outlined: &Outlined) {
        let mut text = format!("static __attribute__((noinline)) int32_t {name}(\n    ");
        for shared in used {
            let _ = write!(text, "{} {}, ", shared.of, shared.name);
        }
        text.push_str("int64_t from, int64_t to) {\n");
        text.push_str(&outlined.body(""));
        text.push_str("}\n");
        text.push_str(&frame(name, used, "    int64_t total, parts;\n"));
        let _ = writeln!(text, "static int32_t {name}_part(void *context, int64_t part) {{");
        let _ = writeln!(text, "    const struct {name}_frame *frame = context;");
        let _ = writeln!(
            text,
            "    return {name}({}rx_begin(frame->total, frame->parts, part), rx_begin(frame->total, frame->parts, part + 1));",
            arguments(used)
        );
        text.push_str("}\n");
        self.functions.push_str(&text);
    }

    /// A function over a block, which does not stop; `given` are its parameters, as types and names.
    pub(crate) fn define_block(
        &mut self,
        name: &str,
        used: &[Shared],
        given: &[(&str, &str)],
        outlined: &Outlined,
    ) {
        let parameters: Vec<String> =
            given.iter().map(|(of, name)| format!("{of} {name}")).collect();
        let parameters = parameters.join(", ");
        let names: Vec<&str> = given.iter().map(|(_, name)| *name).collect();
        let mut text = format!("static __attribute__((noinline)) void {name}(\n    ");
        for shared in used {
            let _ = write!(text, "{} {}, ", shared.of, shared.name);
        }
        let _ = writeln!(text, "{parameters}) {{");
        for line in &outlined.declared {
            let _ = writeln!(text, "    {line}");
        }
        text.push_str(&outlined.lines);
        text.push_str("}\n");
        text.push_str(&frame(name, used, "    int unused;\n"));
        let _ = writeln!(text, "static void {name}_block(const void *context, {parameters}) {{");
        let _ = writeln!(text, "    const struct {name}_frame *frame = context;");
        let _ = writeln!(text, "    (void)frame;");
        let _ = writeln!(text, "    {name}({}{});", arguments(used), names.join(", "));
        text.push_str("}\n");
        self.functions.push_str(&text);
    }

    /// Calls a part function over the whole range, with the threads that there are.
    pub(crate) fn call_part(&mut self, name: &str, used: &[Shared], total: &str, work: &str) {
        let values: Vec<&str> = used.iter().map(|shared| shared.name.as_str()).collect();
        let list =
            |end: &str| values.iter().map(|value| format!("{value}, ")).collect::<String>() + end;
        let parts = self.names.fresh("parts");
        let whole = self.names.fresh("total");
        self.line(&format!("const int64_t {whole} = {total};"));
        self.line(&format!("const int64_t {parts} = rx_parts(threads, {whole}, {work});"));
        self.line(&format!("if ({parts} > 1) {{"));
        self.line(&format!(
            "    struct {name}_frame frame = {{{}}};",
            list(&format!("{whole}, {parts}"))
        ));
        self.line(&format!("    status = threads->run(threads, {parts}, {name}_part, &frame);"));
        let alone = list(&format!("0, {whole}"));
        self.line(&format!("}} else status = {name}({alone});"));
        self.line("if (status) goto done;");
        self.may_stop = true;
    }
}

impl Outlined {
    /// The inside of a function that may stop, after lines that come before all others.
    pub(crate) fn body(&self, first: &str) -> String {
        let mut text = format!("    int32_t status = 0;\n{first}");
        for line in &self.declared {
            let _ = writeln!(text, "    {line}");
        }
        text.push_str(&self.lines);
        if self.may_stop {
            text.push_str("done:\n");
        }
        for pointer in &self.owned {
            let _ = writeln!(text, "    free({pointer});");
        }
        text.push_str("    return status;\n");
        text
    }

    /// Lines before all others.
    pub(crate) fn declared(&self) -> &[String] {
        &self.declared
    }

    /// Whether it neither stops nor has memory of its own.
    pub(crate) fn is_plain(&self) -> bool {
        !self.may_stop && self.owned.is_empty()
    }
}

fn frame(name: &str, used: &[Shared], more: &str) -> String {
    let mut text = format!("struct {name}_frame {{\n");
    for shared in used {
        let of = shared.of.replace(" *restrict", " *");
        let _ = writeln!(text, "    {of} {};", shared.name);
    }
    text + more + "};\n"
}

fn arguments(used: &[Shared]) -> String {
    used.iter().map(|shared| format!("frame->{}, ", shared.name)).collect()
}

/// `a * b * c` as a count that does not leave i64 where the elements of a buffer can be counted.
pub(crate) fn total(extents: &[String]) -> String {
    if extents.is_empty() { "1".to_owned() } else { extents.join(" * ") }
}
