//! Text that the grammar of the language does not have: imports, the class around a module, and dictionaries. Lines keep
//! their numbers.

/// The text with functions at the left margin, and `{a: b}` as `dict_(a, b)`.
pub(super) fn prepare(text: &str) -> String {
    let mut out = String::new();
    let mut margin: Option<usize> = None;
    let mut inside = false;
    for line in text.lines() {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        if inside && margin.is_none() && !body.is_empty() && !body.starts_with('#') {
            margin = Some(indent);
        }
        let cut = line.get(margin.unwrap_or(0).min(indent)..).unwrap_or_default();
        let dropped = ["from ", "import ", "@I.ir_module", "class "];
        if indent == 0 && dropped.iter().any(|start| body.starts_with(start)) {
            inside |= body.starts_with("class ");
        } else {
            out.push_str(cut);
        }
        out.push('\n');
    }
    dictionaries(&out)
}

fn dictionaries(text: &str) -> String {
    let mut out = String::new();
    let mut depths: Vec<char> = Vec::new();
    let mut quote: Option<char> = None;
    let mut comment = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\n' => (comment, quote) = (false, None),
            _ if comment => {}
            _ if escaped => {
                escaped = false;
                out.push(c);
                continue;
            }
            '\\' if quote.is_some() => escaped = true,
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ if quote.is_some() => {}
            '#' => comment = true,
            '(' | '[' => depths.push(c),
            ')' | ']' => drop(depths.pop()),
            '{' => {
                depths.push(c);
                out.push_str("dict_(");
                continue;
            }
            '}' => {
                depths.pop();
                out.push(')');
                continue;
            }
            ':' if depths.last() == Some(&'{') => {
                out.push(',');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}
