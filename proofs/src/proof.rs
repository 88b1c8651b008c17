//! A whole certificate: the header, and the tree of branches with a stack of its own, so that no
//! nesting is too deep.

use crate::ends::End;
use crate::known::Known;
use crate::line::Line;
use crate::polynomial::Algebra;
use crate::rules::{Rules, hash};
use crate::statement::{Fact, Sign, Status};
use crate::steps::Steps;
use crate::{Checked, Checks, Outcome, Refused, refuse, text};
use std::collections::BTreeSet;
use std::vec::IntoIter;

/// A division of a branch whose cases are being proved.
struct Division {
    /// Those that have not begun.
    cases: IntoIter<Vec<Fact>>,
    /// How many facts are known outside of them.
    outside: usize,
    /// Of a lemma, whose one case is that it is false: what is known after that.
    lemma: Option<(u64, Fact)>,
}

/// What the next line must be.
enum Expected {
    /// The beginning of a case of the innermost division.
    Case,
    /// A derivation or an end.
    Step,
    /// The end of the innermost case, which is proved.
    CaseEnd,
    /// Nothing.
    Nothing,
}

/// A certificate that is being replayed.
struct Replay<'a> {
    steps: Steps<'a>,
    known: Known,
    divisions: Vec<Division>,
    expected: Expected,
    checked: Checked,
}

/// The SHA-256 that binds the line of a solver to what it is said to have decided: of the hypotheses, each with a line end, then `|- `
/// and the goal with one.
pub(crate) fn statement_hash(hypotheses: &[String], goal: &str) -> String {
    let mut text: String = hypotheses.iter().map(|each| format!("{each}\n")).collect();
    text.push_str(&format!("|- {goal}\n"));
    hash(&text)
}

/// Replays one certificate.
pub(crate) fn replay(certificate: &str, rules: Option<&str>) -> Result<Checked, Refused> {
    let lines = certificate.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
    let mut replay: Option<Replay<'_>> = None;
    let mut last = 0;
    for (index, text) in lines {
        last = index + 1;
        let at = |why: String| Refused::new(index + 1, &why);
        let line = Line::read(text).map_err(at)?;
        match &mut replay {
            None => replay = Some(Replay::begin(line, rules).map_err(at)?),
            Some(replay) => replay.line(line).map_err(at)?,
        }
    }
    let unfinished = |why| Refused::new(last.max(1), why);
    match replay {
        Some(Replay { expected: Expected::Nothing, steps, mut checked, .. }) => {
            checked.rules_used = steps.rules_used.into_iter().collect();
            Ok(checked)
        }
        Some(_) => Err(unfinished("the certificate ends before its proof does")),
        None => Err(unfinished("there is no certificate")),
    }
}

impl<'a> Replay<'a> {
    /// From the header.
    fn begin(mut line: Line, rules: Option<&'a str>) -> Checks<Self> {
        if line.string("relax")? != "certificate" || line.number("version")? != 1 {
            return refuse("no certificate of version 1");
        }
        let (hypotheses, goal) = (line.strings("hypotheses")?, line.string("goal")?);
        let rules = match line.has("rules") {
            true => Some(known_rules(&line.string("rules")?, rules)?),
            false => None,
        };
        line.done()?;
        let mut algebra = Algebra::new();
        let mut known = Known::default();
        for (id, hypothesis) in (0..).zip(&hypotheses) {
            let statement = text::statement(hypothesis, &mut algebra)
                .map_err(|why| format!("hypothesis {id}: {why}"))?;
            known.add(id, Fact::Stated(statement, Status::Holds))?;
        }
        let statement =
            text::statement(&goal, &mut algebra).map_err(|why| format!("the goal: {why}"))?;
        let not_the_goal = [Status::Undefined, Status::Fails];
        let cases = not_the_goal.map(|status| vec![Fact::Stated(statement.clone(), status)]);
        let cases = Vec::from(cases).into_iter();
        Ok(Replay {
            steps: Steps { algebra, rules, rules_used: BTreeSet::new() },
            divisions: vec![Division { cases, outside: known.count(), lemma: None }],
            known,
            expected: Expected::Case,
            checked: Checked {
                hypotheses,
                goal,
                outcome: Outcome::Proved,
                steps: 0,
                rules_used: Vec::new(),
            },
        })
    }

    fn line(&mut self, mut line: Line) -> Checks<()> {
        match self.expected {
            Expected::Nothing => refuse("the proof ended before this line"),
            Expected::Case if line.has("trust") && self.is_at_beginning() => self.trust(line),
            Expected::Case => self.begin_case(line),
            Expected::CaseEnd => {
                line.yes("end")?;
                line.done()?;
                self.end_case();
                Ok(())
            }
            Expected::Step => {
                self.checked.steps += 1;
                if line.has("lemma") {
                    return self.begin_lemma(line);
                }
                if self.steps.derive(&mut line, &mut self.known)? {
                    return Ok(());
                }
                self.expected = match self.steps.end(&mut line, &self.known)? {
                    End::Closed => Expected::CaseEnd,
                    End::Divided(cases) => {
                        let (cases, outside) = (cases.into_iter(), self.known.count());
                        self.divisions.push(Division { cases, outside, lemma: None });
                        Expected::Case
                    }
                };
                Ok(())
            }
        }
    }

    fn is_at_beginning(&self) -> bool {
        self.divisions.len() == 1 && self.divisions[0].cases.len() == 2
    }

    fn trust(&mut self, mut line: Line) -> Checks<()> {
        let (solver, version) = (line.string("trust")?, line.string("version")?);
        let (rlimit, question) = (line.number("rlimit")?, line.string("question")?);
        let statement = line.string("statement")?;
        line.done()?;
        if solver != "z3" {
            return refuse("`trust` must be `z3`");
        }
        if !version.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("`version` must be printable");
        }
        if question.len() != 64 || !question.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return refuse("`question` must be a SHA-256, 64 hexadecimal digits");
        }
        let Checked { hypotheses, goal, .. } = &self.checked;
        let own = statement_hash(hypotheses, goal);
        if statement != own {
            return refuse(format!(
                "`statement` is of another statement: that of this one is {own}"
            ));
        }
        self.checked.outcome = Outcome::Trusted { solver, version, rlimit, question };
        self.expected = Expected::Nothing;
        Ok(())
    }

    fn begin_case(&mut self, mut line: Line) -> Checks<()> {
        let ids = line.numbers("case")?;
        line.done()?;
        let division = self.divisions.last_mut().expect("a case is of a division");
        let facts = division.cases.next().expect("a division without further cases is left");
        self.steps.add_all(&ids, facts, &mut self.known)?;
        self.expected = Expected::Step;
        Ok(())
    }

    /// The case of a lemma: it is false.
    fn begin_lemma(&mut self, mut line: Line) -> Checks<()> {
        let (id, said, ids) = (line.number("id")?, line.string("lemma")?, line.numbers("case")?);
        line.done()?;
        let algebra = &mut self.steps.algebra;
        let fact = text::fact(&said, algebra)?;
        let Fact::Number(poly, Sign::AtLeastZero) = &fact else {
            return refuse("a lemma must be `>= 0`");
        };
        algebra.keep(poly)?;
        let opposite = Fact::Number(algebra.linear(-1, poly, -1)?, Sign::AtLeastZero);
        self.known.reserve(id)?;
        let (cases, outside) = (Vec::new().into_iter(), self.known.count());
        self.divisions.push(Division { cases, outside, lemma: Some((id, fact)) });
        self.steps.add_all(&ids, vec![opposite], &mut self.known)
    }

    /// Goes on to the next case, behind the lemma, or to the end of the case around.
    fn end_case(&mut self) {
        let division = self.divisions.last_mut().expect("a case is of a division");
        self.known.forget_after(division.outside);
        if division.cases.len() > 0 {
            self.expected = Expected::Case;
            return;
        }
        let lemma = division.lemma.take();
        self.divisions.pop();
        self.expected = match lemma {
            Some((id, fact)) => {
                self.known.add_reserved(id, fact);
                Expected::Step
            }
            None if self.divisions.is_empty() => Expected::Nothing,
            None => Expected::CaseEnd,
        };
    }
}

fn known_rules<'a>(said: &str, rules: Option<&'a str>) -> Checks<Rules<'a>> {
    match rules {
        None => refuse("the certificate uses rules, of which this checker has none"),
        Some(file) if hash(file) == said => Rules::read(file),
        Some(_) => refuse("the certificate was made with another rule file"),
    }
}
