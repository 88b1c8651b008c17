//! The notation of Einstein's summation: `ab,bc->ac`.

/// The labels of one operand or of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// Before `...`, or all.
    pub before: Vec<char>,
    /// After `...`; `None` without one.
    pub after: Option<Vec<char>>,
}

/// One term an operand, and that of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscripts {
    /// Of each operand.
    pub operands: Vec<Term>,
    /// Of the result.
    pub result: Term,
}

impl Term {
    /// How many dims are named.
    #[must_use]
    pub fn named(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Vec::len)
    }

    /// The labels of the named dims, in order.
    pub fn labels(&self) -> impl Iterator<Item = char> {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }
}

/// Reads subscripts; spaces mean nothing.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn parse(text: &str) -> Result<Subscripts, String> {
    let text: String = text.chars().filter(|c| *c != ' ').collect();
    let (terms, result) = match text.split_once("->") {
        Some((terms, result)) => (terms, Some(result)),
        None => (text.as_str(), None),
    };
    let operands = terms.split(',').map(term).collect::<Result<Vec<_>, _>>()?;
    let result = match result {
        Some(result) => checked_result(term(result)?, &operands)?,
        None => implicit_result(&operands),
    };
    Ok(Subscripts { operands, result })
}

fn term(text: &str) -> Result<Term, String> {
    let labels = |part: &str| match part.chars().find(|c| !c.is_ascii_alphabetic()) {
        Some(other) => {
            Err(format!("`{other}` in the term `{text}` is no label: labels are letters"))
        }
        None => Ok(part.chars().collect::<Vec<_>>()),
    };
    Ok(match text.split_once("...") {
        Some((before, after)) => Term { before: labels(before)?, after: Some(labels(after)?) },
        None => Term { before: labels(text)?, after: None },
    })
}

fn checked_result(result: Term, operands: &[Term]) -> Result<Term, String> {
    let labels: Vec<char> = result.labels().collect();
    for (index, label) in labels.iter().enumerate() {
        if labels[..index].contains(label) {
            return Err(format!("label `{label}` occurs twice in the result"));
        }
        if !operands.iter().any(|operand| operand.labels().any(|other| other == *label)) {
            return Err(format!("label `{label}` of the result occurs in no operand"));
        }
    }
    let has_dots = operands.iter().any(|operand| operand.after.is_some());
    match (has_dots, result.after.is_some()) {
        (true, false) => Err("the result must have the `...` that the operands have".to_owned()),
        (false, true) => Err("the result has a `...` that no operand has".to_owned()),
        _ => Ok(result),
    }
}

/// `...`, then the labels that occur exactly once, sorted.
fn implicit_result(operands: &[Term]) -> Term {
    let mut all: Vec<char> = operands.iter().flat_map(Term::labels).collect();
    all.sort_unstable();
    let once: Vec<char> =
        all.chunk_by(|a, b| a == b).filter(|same| same.len() == 1).map(|same| same[0]).collect();
    if operands.iter().any(|operand| operand.after.is_some()) {
        Term { before: Vec::new(), after: Some(once) }
    } else {
        Term { before: once, after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implicit_results_are_sorted() {
        let labels = |text| parse(text).map(|s| s.result.labels().collect::<String>());
        assert_eq!(labels("ba"), Ok("ab".to_owned()));
        assert_eq!(labels("ij, jk"), Ok("ik".to_owned()));
        assert_eq!(labels("ii"), Ok(String::new()));
        assert_eq!(parse("b...a").map(|s| s.result.before.len()), Ok(0));
    }

    #[test]
    fn malformed_subscripts_are_refused() {
        for text in ["a1", "ij->ijj", "ij->k", "a->->a", "a....b", "i...->i", "i->i...", "é", "."]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
