//! Terms that `relax explain` knows: rows of the glossary, and paragraphs of the language reference.

/// What terms mean, a row of a table each.
const GLOSSARY: &str = include_str!("../../../docs/GLOSSARY.md");
/// What programs mean.
const LANGUAGE: &str = include_str!("../../../docs/LANGUAGE.md");
/// Paragraphs of the language reference that are shown at most.
const SHOWN: usize = 3;

/// A title and a text.
pub(super) fn explain(word: &str) -> Option<(String, String)> {
    let word = word.trim_matches('`').to_lowercase();
    let row = rows().find(|(terms, _)| names_of(terms).any(|name| name == word));
    let title = row.map(|(_, meaning)| meaning.to_owned());
    let paragraphs: Vec<String> = paragraphs(&word);
    if row.is_none() && paragraphs.is_empty() {
        return None;
    }
    let title = title.unwrap_or_else(|| "a term of the language".to_owned());
    Some((title, paragraphs.join("\n\n")))
}

/// Every term of the glossary, and words of the language.
pub(super) fn terms() -> impl Iterator<Item = String> {
    let glossary = rows().flat_map(|(terms, _)| names_of(terms).collect::<Vec<_>>());
    glossary.chain(["call_tir", "func_attr"].map(str::to_owned))
}

/// The rows of the glossary: terms, and what they mean.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = GLOSSARY.lines().filter_map(|line| {
        let (terms, meaning) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((terms, meaning))
    });
    cells.skip(1)
}

/// `oracle, route` are two terms; what stands in brackets is another.
fn names_of(terms: &'static str) -> impl Iterator<Item = String> {
    terms
        .split([',', '(', ')', ':'])
        .map(|name| name.trim().trim_matches(['`', '"']).to_lowercase())
        .filter(|name| !name.is_empty())
}

/// The first paragraphs and rows of tables of the language reference that speak of a word as of a term, each under its
/// heading.
fn paragraphs(word: &str) -> Vec<String> {
    let (mut found, mut heading, mut is_code) = (Vec::new(), "", false);
    for block in LANGUAGE.split("\n\n") {
        let fences = block.matches("```").count();
        let was_code = is_code;
        is_code ^= fences % 2 == 1;
        if let Some(line) =
            block.lines().find(|line| line.starts_with("## ") || line.starts_with("### "))
        {
            heading = line.trim_start_matches(['#', ' ']);
        }
        if was_code || fences > 0 {
            continue;
        }
        let is_table = block.trim_start().starts_with('|');
        let parts: Vec<&str> = if is_table { block.lines().collect() } else { vec![block] };
        for part in parts {
            if is_term(part, word) && found.len() < SHOWN {
                found.push(format!("{heading}: {}", part.trim_matches(['|', ' ', '\n'])));
            }
        }
    }
    found
}

/// Whether a text has a word in code marks, in bold, or as the value of an attribute.
fn is_term(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    ["`", "**", "\""].into_iter().any(|mark| {
        text.match_indices(&format!("{mark}{word}")).any(|(at, found)| {
            let rest = &text[at + found.len()..];
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_have_a_meaning() {
        for term in terms().chain(["P2.1", "pure"].map(str::to_owned)) {
            let (title, text) =
                explain(&term).unwrap_or_else(|| panic!("`{term}` is not explained"));
            assert!(title.len() + text.len() > 10, "{term}: {title}");
        }
        // The words of `relax fuzz`.
        let outcomes = [
            "compared",
            "trapped alike",
            "gave up at a limit",
            "unsupported",
            "without inputs",
            "twins refused",
            "refused by the checker",
            "nothing compared",
            "coverage",
        ];
        let said = relax_fuzz::Statistics::default().to_string();
        for word in outcomes.iter().filter(|word| **word != "nothing compared") {
            assert!(said.contains(word), "{word}: {said}");
        }
        let oracles = relax_fuzz::Oracle::ALL.map(relax_fuzz::Oracle::name);
        for word in outcomes.iter().chain(&oracles) {
            assert!(rows().any(|(terms, _)| names_of(terms).any(|name| name == *word)), "{word}");
        }
        assert!(explain("sym_var").is_some_and(|(_, text)| text.contains("declared")));
        assert!(explain("zzz").is_none());
    }
}
