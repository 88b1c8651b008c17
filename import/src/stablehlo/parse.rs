//! MLIR text to a syntax tree: recursive descent over modules, functions and operations, in the generic form and in the
//! pretty one of StableHLO.
//!
//! The pretty forms are read alike: operands, words, `name = value` and a signature in any order, so that a version of
//! StableHLO that prints one more attribute is still read. What an operation needs, its row asks for.

use super::cursor::{Cursor, Parsed};
use super::syntax::{Attribute, Attributes, Function, Module, Op, Param, Region, Type, Use};

pub(super) fn parse(text: &str) -> Parsed<Module> {
    let mut cursor = Cursor::new(text);
    let mut module = Module::default();
    cursor.top(&mut module)?;
    if module.functions.is_empty() {
        return cursor.error("there is no function");
    }
    Ok(module)
}

impl Cursor<'_> {
    fn top(&mut self, module: &mut Module) -> Parsed<()> {
        loop {
            match self.peek() {
                None => return Ok(()),
                Some('#' | '!') => self.alias(module)?,
                Some('{') if self.is_next("{-#") => self.resources(module)?,
                Some('"') => {
                    let op = self.op()?;
                    self.generic(module, op)?;
                }
                _ => match self.peek_word() {
                    "module" => {
                        let _ = self.word()?;
                        self.module(module)?;
                    }
                    "func.func" => {
                        let _ = self.word()?;
                        let function = self.function()?;
                        self.define(module, function)?;
                    }
                    _ => return self.expected("a module or a function"),
                },
            }
        }
    }

    fn alias(&mut self, module: &mut Module) -> Parsed<()> {
        let mark = self.peek().unwrap_or('#');
        let name = self.name(mark)?;
        self.expect("=")?;
        if self.eat_word("loc") {
            let location = self.balanced()?.to_owned();
            module.locations.insert(name, location);
            return Ok(());
        }
        self.attribute().map(|_| ())
    }

    fn module(&mut self, module: &mut Module) -> Parsed<()> {
        if self.peek() == Some('@') {
            self.name('@')?;
        }
        if self.eat_word("attributes") {
            self.dictionary()?;
        }
        self.expect("{")?;
        while !self.eat("}") {
            if self.peek() == Some('"') {
                let op = self.op()?;
                self.generic(module, op)?;
                continue;
            }
            if !self.eat_word("func.func") {
                return self.expected("a function");
            }
            let function = self.function()?;
            self.define(module, function)?;
        }
        self.location().map(|_| ())
    }

    /// `builtin.module` and `func.func` in the generic form.
    fn generic(&mut self, module: &mut Module, mut op: Op) -> Parsed<()> {
        if op.name == "builtin.module" {
            for op in op.regions.drain(..).flat_map(|region| region.ops) {
                self.nested(|cursor| cursor.generic(module, op))?;
            }
            return Ok(());
        }
        let Some(Attribute::Str(name)) = op.attributes.get("sym_name").cloned() else {
            return self.error(format!("line {}: expected a function, found {}", op.line, op.name));
        };
        let results = match op.attributes.get("res_attrs") {
            Some(Attribute::List(items)) => items.iter().map(dictionary).collect(),
            _ => Vec::new(),
        };
        let region = op.regions.pop().unwrap_or_default();
        let mut params = region.params;
        if let Some(Attribute::List(items)) = op.attributes.get("arg_attrs") {
            for (param, item) in params.iter_mut().zip(items) {
                param.attributes = dictionary(item);
            }
        }
        let function = Function { name, params, results, ops: region.ops };
        self.define(module, function)
    }

    fn define(&mut self, module: &mut Module, function: Function) -> Parsed<()> {
        let name = function.name.clone();
        match module.functions.insert(name.clone(), function) {
            None => Ok(()),
            Some(_) => self.error(format!("two functions are named @{name}")),
        }
    }

    /// The rest of a function, from its visibility on.
    fn function(&mut self) -> Parsed<Function> {
        for visibility in ["public", "private", "nested"] {
            let _ = self.eat_word(visibility);
        }
        let name = self.name('@')?;
        let params = self.params()?;
        let mut results = Vec::new();
        if self.eat("->") {
            if self.eat("(") {
                while !self.eat(")") {
                    self.r#type()?;
                    let is_next = self.is_next("{");
                    results.push(if is_next { self.dictionary()? } else { Attributes::new() });
                    if !self.eat(",") && !self.is_next(")") {
                        return self.expected("`,` or `)`");
                    }
                }
            } else {
                self.r#type()?;
                results.push(Attributes::new());
            }
        }
        if self.eat_word("attributes") {
            self.dictionary()?;
        }
        if !self.is_next("{") {
            return self.expected("the body of a function");
        }
        let ops = self.region()?.ops;
        self.location()?;
        Ok(Function { name, params, results, ops })
    }

    /// `(%name: type {attributes} loc(…), …)`
    fn params(&mut self) -> Parsed<Vec<Param>> {
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.eat(")") {
            let name = self.name('%')?;
            self.expect(":")?;
            let r#type = self.r#type()?;
            let attributes = if self.is_next("{") { self.dictionary()? } else { Attributes::new() };
            let location = self.location()?;
            params.push(Param { name, r#type, attributes, location });
            if !self.eat(",") && !self.is_next(")") {
                return self.expected("`,` or `)`");
            }
        }
        Ok(params)
    }

    fn location(&mut self) -> Parsed<Option<String>> {
        if !self.eat_word("loc") {
            return Ok(None);
        }
        self.balanced().map(|text| Some(text.trim().to_owned()))
    }

    /// `{ ops }`, maybe with the label of its block.
    fn region(&mut self) -> Parsed<Region> {
        self.nested(|cursor| {
            cursor.expect("{")?;
            let mut region = Region::default();
            if cursor.peek() == Some('^') {
                cursor.name('^')?;
                if cursor.is_next("(") {
                    region.params = cursor.params()?;
                }
                cursor.expect(":")?;
            }
            while !cursor.eat("}") {
                if cursor.peek() == Some('^') {
                    return cursor.error("a region of more than one block is not read");
                }
                region.ops.push(cursor.op()?);
            }
            Ok(region)
        })
    }

    fn op(&mut self) -> Parsed<Op> {
        let mut op = Op { line: self.line(), ..Op::default() };
        let mut count = None;
        if self.peek() == Some('%') {
            op.result = Some(self.name('%')?);
            if self.eat(":") {
                count = usize::try_from(self.int()?).ok();
            }
            self.expect("=")?;
        }
        if self.peek() == Some('"') {
            op.name = self.string()?;
            self.generic_op(&mut op)?;
        } else {
            op.name = self.word()?.to_owned();
            if let Some(full) = [("call", "func.call"), ("return", "func.return")]
                .iter()
                .find_map(|(short, full)| (*short == op.name).then_some(*full))
            {
                op.name = full.to_owned();
            }
            self.pretty_op(&mut op, count)?;
        }
        op.location = self.location()?;
        Ok(op)
    }

    /// `(%a, %b) <{…}> ({…}) {…} : (…) -> …`
    fn generic_op(&mut self, op: &mut Op) -> Parsed<()> {
        self.expect("(")?;
        while !self.eat(")") {
            op.operands.push(self.value()?);
            if !self.eat(",") && !self.is_next(")") {
                return self.expected("`,` or `)`");
            }
        }
        if self.eat("<") {
            op.attributes = self.dictionary()?;
            self.expect(">")?;
        }
        if self.eat("(") {
            while !self.eat(")") {
                op.regions.push(self.region()?);
                let _ = self.eat(",");
            }
        }
        if self.is_next("{") {
            op.attributes.append(&mut self.dictionary()?);
        }
        self.expect(":")?;
        op.types = self.signature()?.0;
        if let Some(symbol) =
            ["callee", "call_target_name", "name"].iter().find_map(|name| {
                match op.attributes.get(*name)? {
                    Attribute::Symbol(text) | Attribute::Str(text) => Some(text.clone()),
                    _ => None,
                }
            })
        {
            op.symbol = Some(symbol);
        }
        Ok(())
    }

    fn value(&mut self) -> Parsed<Use> {
        let name = self.name('%')?;
        Ok(Use { name, index: self.index()? })
    }

    fn pretty_op(&mut self, op: &mut Op, count: Option<usize>) -> Parsed<()> {
        match op.name.as_str() {
            "stablehlo.while" => return self.while_op(op),
            "stablehlo.constant" => {
                if self.is_next("{") {
                    op.attributes = self.dictionary()?;
                }
                let value = self.attribute()?;
                if let Attribute::Dense(_, r#type) = &value {
                    op.types = vec![r#type.clone()];
                }
                op.attributes.insert("value".to_owned(), value);
                return Ok(());
            }
            _ => {}
        }
        let line = op.line;
        while !self.is_next(":") {
            if self.is_next("}") || self.is_next("loc(") {
                break;
            }
            // An operation without a signature ends with its line.
            if op.name == "func.return" && self.line() != line {
                break;
            }
            self.part(op)?;
        }
        if op.name == "stablehlo.reduce" {
            // Each operand stands beside its initial value, which come last in the generic form.
            let (inputs, inits): (Vec<_>, Vec<_>) =
                op.operands.drain(..).enumerate().partition(|(place, _)| place % 2 == 0);
            op.operands = inputs.into_iter().chain(inits).map(|(_, operand)| operand).collect();
        }
        if self.eat(":") {
            let (mut types, is_functional) = self.signature()?;
            let count = count.unwrap_or(usize::from(op.result.is_some()));
            if !is_functional && types.len() > count {
                types.drain(..types.len() - count);
            }
            op.types = types;
        }
        if self.eat_word("reducer") {
            op.regions.push(self.reducer()?);
        }
        Ok(())
    }

    /// One part of the pretty form.
    fn part(&mut self, op: &mut Op) -> Parsed<()> {
        match self.peek() {
            Some('%') => op.operands.push(self.value()?),
            Some('@') => op.symbol = Some(self.name('@')?),
            Some('"') => op.symbol = Some(self.string()?),
            Some('(') => self.group(op)?,
            Some(',') => self.expect(",")?,
            Some('{') => op.attributes.append(&mut self.dictionary()?),
            Some('<') => {
                self.expect("<")?;
                op.attributes.append(&mut self.dictionary()?);
                self.expect(">")?;
            }
            Some('[') => {
                let text = self.balanced()?.to_owned();
                op.attributes.insert("ranges".to_owned(), Attribute::Text(text));
            }
            _ => {
                let word = self.word()?.to_owned();
                if !self.eat("=") {
                    op.words.push(word);
                    return Ok(());
                }
                let value = self.spelled(&word)?;
                op.attributes.insert(word, value);
            }
        }
        Ok(())
    }

    /// The value of an attribute, where the pretty form has a spelling of its own for it.
    fn spelled(&mut self, name: &str) -> Parsed<Attribute> {
        self.space();
        let begin = self.at;
        if name == "dim_numbers" {
            while !self.eat("->") {
                if self.peek() == Some('[') {
                    self.balanced()?;
                } else if !self.eat("x") {
                    return self.expected("`x` or `->`");
                }
            }
            self.balanced()?;
            return Ok(Attribute::Text(self.text[begin..self.at].to_owned()));
        }
        if self.peek() == Some('[') || name == "window" {
            let first = self.attribute()?;
            if self.eat_word("x") {
                return Ok(Attribute::Pair(Box::new(first), Box::new(self.attribute()?)));
            }
            return Ok(first);
        }
        // A colon behind a number begins the signature.
        match self.peek() {
            Some('-' | '0'..='9') => self.int().map(Attribute::Int),
            _ => self.attribute(),
        }
    }

    /// `(%x init: %y)`, `(%a, %b)`
    fn group(&mut self, op: &mut Op) -> Parsed<()> {
        self.expect("(")?;
        while !self.eat(")") {
            if self.eat_word("init") {
                self.expect(":")?;
            } else if !self.eat(",") {
                op.operands.push(self.value()?);
            }
        }
        Ok(())
    }

    /// After `reducer`: pairs of parameters, of which the first ones come first in the generic form.
    fn reducer(&mut self) -> Parsed<Region> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        while self.is_next("(") {
            let mut pair = self.params()?.into_iter();
            left.extend(pair.next());
            right.extend(pair.next());
        }
        let mut region = self.region()?;
        left.append(&mut right);
        region.params = left;
        Ok(region)
    }

    /// `(%iterArg = %x, …) : types attributes {…} cond {…} do {…}`
    fn while_op(&mut self, op: &mut Op) -> Parsed<()> {
        self.expect("(")?;
        let mut names = Vec::new();
        while !self.eat(")") {
            names.push(self.name('%')?);
            self.expect("=")?;
            op.operands.push(self.value()?);
            if !self.eat(",") && !self.is_next(")") {
                return self.expected("`,` or `)`");
            }
        }
        if self.eat(":") {
            op.types = self.signature()?.0;
        }
        if self.eat_word("attributes") {
            op.attributes = self.dictionary()?;
        }
        if op.types.len() != names.len() {
            return self.error("a loop has one type for each of its values");
        }
        for word in ["cond", "do"] {
            if !self.eat_word(word) {
                return self.expected(&format!("`{word}`"));
            }
            let mut region = self.region()?;
            region.params = names.iter().zip(&op.types).map(param).collect();
            op.regions.push(region);
        }
        Ok(())
    }

    /// `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`
    fn resources(&mut self, module: &mut Module) -> Parsed<()> {
        self.expect("{-#")?;
        let mut name = String::new();
        while !self.eat("#-}") {
            match self.peek() {
                Some('"') => {
                    let range = self.string_range()?;
                    module.resources.insert(std::mem::take(&mut name), range);
                }
                Some('{' | '}' | ':' | ',') => self.at += 1,
                _ => name = self.word()?.to_owned(),
            }
        }
        Ok(())
    }
}

fn param((name, r#type): (&String, &Type)) -> Param {
    let (name, r#type) = (name.clone(), r#type.clone());
    Param { name, r#type, attributes: Attributes::new(), location: None }
}

fn dictionary(attribute: &Attribute) -> Attributes {
    match attribute {
        Attribute::Dictionary(fields) => fields.clone(),
        _ => Attributes::new(),
    }
}
