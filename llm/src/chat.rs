//! Chat templates: the text of a conversation as a model was trained on it, by the Jinja template of its tokenizer.
//!
//! The environment is that of transformers: blocks are trimmed, methods of Python's strings and containers work, `tojson`
//! writes as Python does, and undefined values print as nothing. Templates come with weights, so that their size, their steps,
//! their depth and their output are limited. The engine does not limit strings that a template joins in memory, which may double
//! in each step: the command renders within `relax_runtime::out_of_memory::limited`.

use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io;

/// Bytes of a template, instructions of a rendering, nested calls, and bytes of a rendered text.
const MOST_SOURCE: usize = 1 << 20;
const MOST_STEPS: u64 = 10_000_000;
const MOST_CALLS: usize = 100;
const MOST_OUTPUT: usize = 1 << 24;

/// Why a conversation has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The template called `raise_exception`, as it does where roles do not alternate.
    #[error("the chat template refuses the conversation: {0}")]
    Raised(String),
    /// The template takes too much.
    #[error("the chat template exceeds a limit: {0}")]
    Limit(String),
    /// The template does not parse, or fails.
    #[error("the chat template fails: {0}")]
    Template(String),
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Without special tokens.
    pub content: Content,
}

/// What a turn has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A text as written.
    Text(String),
    /// Images and texts in order.
    Parts(Vec<Part>),
}

/// A part of a turn, as templates of models of text and images read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Part {
    /// The place of an image.
    Image,
    /// A text beside or behind images.
    Text {
        /// The text as written.
        text: String,
    },
}

impl Content {
    /// So many images before a text.
    #[must_use]
    pub fn with_images(images: usize, text: String) -> Self {
        let images = std::iter::repeat_n(Part::Image, images);
        Self::Parts(images.chain([Part::Text { text }]).collect())
    }
}

/// How a rendered text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the begin of the assistant's next message, to be continued by the model.
    GenerationPrompt,
    /// With the last message.
    LastMessage,
}

/// A day for templates that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Of the Gregorian calendar.
    pub year: u16,
    /// From 1 to 12.
    pub month: u8,
    /// From 1 to 31.
    pub day: u8,
}

/// What a template reads.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'c> {
    /// Turns, the first one first.
    pub messages: &'c [Message],
    /// The spelling of the begin token, or nothing.
    pub bos: &'c str,
    /// The spelling of the end token, or nothing.
    pub eos: &'c str,
    /// Where the text ends.
    pub ending: Ending,
    /// What `strftime_now` writes. Without a date the function is not defined, and templates take their own default.
    pub date: Option<Date>,
}

impl Chat<'_> {
    /// Renders the template. Encode the text with [`Special::Template`](crate::Special::Template).
    ///
    /// # Errors
    /// When the template does not parse, fails, refuses the conversation, or exceeds a limit.
    pub fn render(&self, template: &str) -> Result<String, ChatError> {
        if template.len() > MOST_SOURCE {
            let length = template.len();
            return Err(ChatError::Limit(format!(
                "{length} bytes of source, at most {MOST_SOURCE}"
            )));
        }
        let mut environment = environment();
        if let Some(date) = self.date {
            environment.add_function("strftime_now", move |format: &str| date.format(format));
        }
        let template = environment.template_from_str(template).map_err(|why| failure(&why))?;
        let values = minijinja::context! {
            messages => self.messages,
            bos_token => self.bos,
            eos_token => self.eos,
            add_generation_prompt => self.ending == Ending::GenerationPrompt,
        };
        let mut output = Output(Vec::new());
        template.render_captured_to(values, &mut output).map_err(|why| failure(&why))?;
        String::from_utf8(output.0).map_err(|why| ChatError::Template(why.to_string()))
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_recursion_limit(MOST_CALLS);
    environment.add_function("raise_exception", |why: &str| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{why}")))
    });
    environment.add_filter("tojson", to_json);
    environment
}

/// Marks the message of `raise_exception`.
const RAISED: &str = "raised: ";
/// Marks the message of the output's limit.
const TOO_LONG: &str = "the text is too long";

/// Text up to the limit.
struct Output(Vec<u8>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MOST_OUTPUT - self.0.len() {
            return Err(io::Error::other(TOO_LONG));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The innermost cause, in one line.
fn failure(error: &Error) -> ChatError {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(error) = cause.downcast_ref::<Error>() {
            if let Some(why) = error.detail().and_then(|detail| detail.strip_prefix(RAISED)) {
                return ChatError::Raised(why.to_owned());
            }
            if error.kind() == ErrorKind::OutOfFuel {
                return ChatError::Limit(format!("more than {MOST_STEPS} steps"));
            }
        }
        if cause.to_string() == TOO_LONG {
            return ChatError::Limit(format!("more than {MOST_OUTPUT} bytes of text"));
        }
        match cause.source() {
            Some(source) => cause = source,
            None => break,
        }
    }
    let place = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    ChatError::Template(format!("{place}{}{detail}", error.kind()))
}

/// Python's `json.dumps` without escapes of characters beyond ASCII.
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Python escapes no characters for HTML; the text is no HTML.
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut bytes = Vec::new();
    let written = match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Spaced)),
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))
        }
    };
    let bad = |why: String| Error::new(ErrorKind::BadSerialization, why);
    written.map_err(|why| bad(why.to_string()))?;
    Ok(Value::from(String::from_utf8(bytes).map_err(|why| bad(why.to_string()))?))
}

/// A space after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Date {
    /// C's `strftime` in its `%Y`, `%m`, `%d`, `%B`, `%b`, `%y` and `%%`.
    fn format(self, format: &str) -> Result<String, Error> {
        let month = MONTHS.get(usize::from(self.month).wrapping_sub(1));
        let bad = |why: String| Error::new(ErrorKind::InvalidOperation, why);
        let month = *month.ok_or_else(|| bad(format!("the month {} is none", self.month)))?;
        let mut text = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some('Y') => text += &self.year.to_string(),
                Some('y') => text += &format!("{:02}", self.year % 100),
                Some('m') => text += &format!("{:02}", self.month),
                Some('d') => text += &format!("{:02}", self.day),
                Some('B') => text += month,
                Some('b') => text.extend(month.chars().take(3)),
                Some('%') => text.push('%'),
                other => {
                    let code = other.map(String::from).unwrap_or_default();
                    return Err(bad(format!("strftime_now does not know `%{code}`")));
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> Message {
        Message { role: role.to_owned(), content: Content::Text(content.to_owned()) }
    }

    fn render(template: &str) -> Result<String, ChatError> {
        let messages = [message("user", "<Hi> é"), message("assistant", " Yes ")];
        let date = Some(Date { year: 2026, month: 3, day: 7 });
        let ending = Ending::GenerationPrompt;
        Chat { messages: &messages, bos: "<s>", eos: "</s>", ending, date }.render(template)
    }

    fn rendered(template: &str) -> String {
        render(template).expect("it renders")
    }

    /// The template of many models, with the text that transformers makes of it.
    #[test]
    fn conversations_are_written() {
        let template = "{{ bos_token }}{% for message in messages %}\n    \
             {% if message['role'] == 'user' %}\n\
             [{{ message.content | trim }}]\n\
             {% elif message.role == 'assistant' %}\n\
             {{- message['content'].strip() + eos_token }}\n    \
             {% endif %}\n\
             {% endfor %}\n\
             {% if add_generation_prompt %}>{% endif %}";
        assert_eq!(rendered(template), "<s>[<Hi> é]\nYes</s>\n>");
        let chat =
            Chat { messages: &[], bos: "", eos: "", ending: Ending::LastMessage, date: None };
        assert_eq!(chat.render(template), Ok(String::new()));
    }

    #[test]
    fn functions_are_those_of_transformers() {
        assert_eq!(
            rendered("{{ strftime_now('%d %b %Y, %B %m %y %%') }}"),
            "07 Mar 2026, March 03 26 %"
        );
        assert_eq!(
            rendered("{{ messages[0] | tojson }}"),
            r#"{"role": "user", "content": "<Hi> é"}"#
        );
        assert_eq!(rendered("{{ [1, [], 'a\\'b'] | tojson }}"), r#"[1, [], "a'b"]"#);
        assert_eq!(rendered("{{ [1] | tojson(indent=2) }}"), "[\n  1\n]");
        assert_eq!(
            rendered(
                "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}x{% endfor %}"
            ),
            "x"
        );
        assert_eq!(rendered("{{ 'a b'.split()[-1] }}{{ 'aXb'.split('X')[0] }}{{ tools }}"), "ba");
        assert_eq!(rendered("{% set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}"), "2");
        let chat =
            Chat { messages: &[], bos: "", eos: "", ending: Ending::LastMessage, date: None };
        assert_eq!(chat.render("{{ strftime_now is defined }}").as_deref(), Ok("False"));
    }

    #[test]
    fn templates_may_refuse() {
        let error = render("{{ raise_exception('roles must alternate') }}");
        assert_eq!(error, Err(ChatError::Raised("roles must alternate".to_owned())));
        let nested = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
        assert_eq!(render(nested), Err(ChatError::Raised("no".to_owned())));
    }

    #[test]
    fn failures_name_their_cause() {
        for (template, part) in [
            ("{% if %}", "line 1: syntax error"),
            ("a\n{{ messages.x.y }}", "line 2: undefined value"),
            ("{{ 'a' | nothing }}", "unknown filter"),
            ("{{ strftime_now('%Q') }}", "does not know `%Q`"),
            ("{% include 'x' %}", "template not found"),
        ] {
            let error = render(template).expect_err("it fails").to_string();
            assert!(error.contains(part), "{template}: {error}");
        }
    }

    #[test]
    fn hostile_templates_end() {
        let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(render(loops), Err(ChatError::Limit("more than 10000000 steps".to_owned())));
        let long = "{% for a in range(9999) %}{{ 'abcdefgh' * 1000 }}{% endfor %}";
        let error = render(long).expect_err("80 MB");
        assert_eq!(error, ChatError::Limit("more than 16777216 bytes of text".to_owned()));
        let calls = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
        assert!(render(calls).is_err());
        assert!(render("{{ 'a' * 1000000000000 }}").is_err());
        assert!(render(&"(".repeat(100_000)).is_ok());
        assert!(render(&format!("{{{{ {} }}}}", "(".repeat(100_000))).is_err());
        assert!(matches!(render(&" ".repeat(1 << 21)), Err(ChatError::Limit(_))));
    }
}
