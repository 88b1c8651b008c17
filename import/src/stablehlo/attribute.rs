//! Attributes and types of MLIR text.

use super::cursor::{Cursor, Parsed};
use super::syntax::{Attribute, Attributes, Elements, Type};

impl Cursor<'_> {
    /// `{name = value, name}` with its braces.
    pub(super) fn dictionary(&mut self) -> Parsed<Attributes> {
        self.expect("{")?;
        let mut found = Attributes::new();
        while !self.eat("}") {
            let name = match self.peek() {
                Some('"') => self.string()?,
                _ => self.word()?.to_owned(),
            };
            let value = if self.eat("=") { self.attribute()? } else { Attribute::Unit };
            found.insert(name, value);
            if !self.eat(",") && !self.is_next("}") {
                return self.expected("`,` or `}`");
            }
        }
        Ok(found)
    }

    pub(super) fn attribute(&mut self) -> Parsed<Attribute> {
        self.nested(Cursor::attribute_here)
    }

    fn attribute_here(&mut self) -> Parsed<Attribute> {
        match self.peek() {
            Some('{') => self.dictionary().map(Attribute::Dictionary),
            Some('[') => self.list(),
            Some('"') => {
                let text = self.string()?;
                self.passed_type()?;
                Ok(Attribute::Str(text))
            }
            Some('@') => self.name('@').map(Attribute::Symbol),
            Some('#') => {
                let name = self.name('#')?;
                self.angled(name)
            }
            Some('-' | '0'..='9') => {
                let text = self.number()?;
                let value = match text.parse::<i128>() {
                    Ok(value) => Attribute::Int(value),
                    Err(_) => Attribute::Text(text.to_owned()),
                };
                self.passed_type()?;
                Ok(value)
            }
            Some('(' | '!') => self.type_text().map(Attribute::Text),
            _ => match self.peek_word() {
                "dense" => self.dense(),
                "dense_resource" => self.resource(),
                "array" => self.array(),
                "tensor" => self.type_text().map(Attribute::Text),
                "loc" => {
                    let _ = self.word()?;
                    Ok(Attribute::Text(self.balanced()?.to_owned()))
                }
                "" => self.expected("an attribute"),
                _ => {
                    let word = self.word()?.to_owned();
                    self.angled(word)
                }
            },
        }
    }

    /// A word and the fields that follow it in angle brackets.
    fn angled(&mut self, word: String) -> Parsed<Attribute> {
        let mut inner = Attribute::Unit;
        if self.text[self.at..].starts_with('<') {
            let begin = self.at;
            let text = self.balanced()?;
            let end = self.at;
            self.at = begin + 1;
            inner = match self.fields(end - 1) {
                Ok(fields) if self.at == end - 1 => Attribute::Dictionary(fields),
                _ => Attribute::Text(text.to_owned()),
            };
            self.at = end;
        }
        Ok(Attribute::Word(word, Box::new(inner)))
    }

    /// `name = value, …` up to an offset.
    fn fields(&mut self, end: usize) -> Parsed<Attributes> {
        let mut found = Attributes::new();
        while self.at < end {
            let name = self.word()?.to_owned();
            self.expect("=")?;
            found.insert(name, self.attribute()?);
            let _ = self.eat(",");
            self.space();
        }
        Ok(found)
    }

    fn list(&mut self) -> Parsed<Attribute> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.eat("]") {
            items.push(self.attribute()?);
            if !self.eat(",") && !self.is_next("]") {
                return self.expected("`,` or `]`");
            }
        }
        Ok(Attribute::List(items))
    }

    /// `array<i64: 1, 2>`
    fn array(&mut self) -> Parsed<Attribute> {
        let _ = self.word()?;
        self.expect("<")?;
        let _ = self.word()?;
        let mut items = Vec::new();
        if self.eat(":") {
            loop {
                items.push(self.attribute()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.expect(">")?;
        Ok(Attribute::List(items))
    }

    /// `dense<…> : type`
    fn dense(&mut self) -> Parsed<Attribute> {
        let _ = self.word()?;
        if !self.is_next("<") {
            return self.expected("`<`");
        }
        let begin = self.at + 1;
        self.balanced()?;
        let inside = begin..self.at - 1;
        self.expect(":")?;
        Ok(Attribute::Dense(Elements::Listed(inside), self.r#type()?))
    }

    /// `dense_resource<name> : type`
    fn resource(&mut self) -> Parsed<Attribute> {
        let _ = self.word()?;
        let name = self.balanced()?.trim().trim_matches('"').to_owned();
        self.expect(":")?;
        Ok(Attribute::Dense(Elements::Resource(name), self.r#type()?))
    }

    /// ` : i64` after a literal.
    fn passed_type(&mut self) -> Parsed<()> {
        if self.eat(":") {
            self.type_text()?;
        }
        Ok(())
    }

    /// A type, or a type of functions, as text.
    fn type_text(&mut self) -> Parsed<String> {
        let begin = self.at;
        if self.peek() == Some('(') {
            self.balanced()?;
        } else {
            self.r#type()?;
        }
        if self.eat("->") {
            self.nested(Cursor::type_text)?;
        }
        Ok(self.text[begin..self.at].trim().to_owned())
    }

    pub(super) fn r#type(&mut self) -> Parsed<Type> {
        self.space();
        let begin = self.at;
        if self.peek() == Some('!') {
            self.name('!')?;
        } else {
            let word = self.word()?;
            if word == "tensor" && self.is_next("<") {
                let at = self.at;
                let inside = self.balanced()?;
                return match tensor(inside) {
                    Some(found) => Ok(found),
                    None => {
                        self.at = at;
                        self.error(format!("`tensor<{inside}>` is no type"))
                    }
                };
            }
        }
        if self.text[self.at..].starts_with('<') {
            self.balanced()?;
        }
        Ok(Type::Other(self.text[begin..self.at].to_owned()))
    }

    /// The types of results in `(…) -> (…)`, `(…) -> …`, or a list of types.
    pub(super) fn signature(&mut self) -> Parsed<(Vec<Type>, bool)> {
        if self.peek() != Some('(') {
            let mut types = vec![self.r#type()?];
            while self.eat(",") {
                types.push(self.r#type()?);
            }
            return Ok((types, false));
        }
        self.balanced()?;
        self.expect("->")?;
        Ok((self.result_types()?, true))
    }

    fn result_types(&mut self) -> Parsed<Vec<Type>> {
        if !self.eat("(") {
            return Ok(vec![self.r#type()?]);
        }
        let mut types = Vec::new();
        while !self.eat(")") {
            types.push(self.r#type()?);
            if !self.eat(",") && !self.is_next(")") {
                return self.expected("`,` or `)`");
            }
        }
        Ok(types)
    }
}

/// `4x?xf32`, with an encoding after a comma.
fn tensor(inside: &str) -> Option<Type> {
    let shape = inside.split(',').next()?.trim();
    let mut dims = Vec::new();
    let mut rest = shape;
    while let Some((first, after)) = rest.split_once('x') {
        match first {
            "?" => dims.push(None),
            digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                dims.push(Some(digits.parse::<i64>().ok()?));
            }
            _ => break,
        }
        rest = after;
    }
    (!rest.is_empty() && !rest.starts_with(['?', '*', '-']))
        .then(|| Type::Tensor { dims, element: rest.to_owned() })
}
