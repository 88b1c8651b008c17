//! Decoding: tokens as bytes, and bytes as text, all at once or token by token.

use crate::tokenizer::error::TokenizerError;
use std::collections::BTreeMap;

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoding {
    pub(super) spelling: Spelling,
    /// Whether a text begins with a space that encoding has added.
    pub(super) space: LeadingSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Each byte is a character, by the table of GPT-2.
    Bytes,
    /// A space is `▁`, and other characters are themselves.
    Spaces,
    /// As [`Self::Spaces`], and `<0x0A>` is a byte.
    SpacesAndBytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadingSpace {
    Kept,
    Removed,
}

/// Where a token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    /// Found whole in texts.
    Added,
    /// Found whole in texts, and left out of decoded text.
    Special,
}

#[derive(Clone, Debug)]
enum Piece {
    Special,
    /// Of a token such as `<0x0A>`.
    Byte([u8; 1]),
    Bytes(Box<[u8]>),
}

/// What each id stands for.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pieces: BTreeMap<u32, Piece>,
    space: LeadingSpace,
}

impl Pieces {
    pub(super) fn new<'t>(
        decoding: Decoding,
        tokens: impl Iterator<Item = (u32, &'t str, Kind)>,
    ) -> Self {
        let piece = |token: &str, kind| match kind {
            Kind::Special => Piece::Special,
            Kind::Added if decoding.spelling == Spelling::Bytes => {
                Piece::Bytes(token.as_bytes().into())
            }
            Kind::Added | Kind::Normal => match fallback_byte(token) {
                Some(byte) if decoding.spelling == Spelling::SpacesAndBytes => Piece::Byte([byte]),
                _ => Piece::Bytes(spelled_bytes(decoding.spelling, token).into()),
            },
        };
        let pieces = tokens.map(|(id, token, kind)| (id, piece(token, kind))).collect();
        Self { pieces, space: decoding.space }
    }

    /// The greatest id plus one.
    pub(super) fn size(&self) -> usize {
        let last = self.pieces.last_key_value().map(|(id, _)| *id);
        last.and_then(|id| usize::try_from(id).ok()).map_or(0, |id| id + 1)
    }

    /// # Errors
    /// When no token has this id. The role opens the message.
    pub(super) fn check(&self, role: &'static str, id: u32) -> Result<(), TokenizerError> {
        self.piece(role, id).map(|_| ())
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        matches!(self.pieces.get(&id), Some(Piece::Special))
    }

    /// The bytes of a token, none of a special one; `None` where no token has this id.
    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        match self.pieces.get(&id)? {
            Piece::Special => Some(&[]),
            Piece::Byte(byte) => Some(byte),
            Piece::Bytes(bytes) => Some(bytes),
        }
    }

    fn piece(&self, role: &'static str, id: u32) -> Result<&Piece, TokenizerError> {
        let missing = || TokenizerError::NoToken { role, id, size: self.size() };
        self.pieces.get(&id).ok_or_else(missing)
    }
}

/// The bytes that a token of the vocabulary stands for, if it is no byte itself.
fn spelled_bytes(spelling: Spelling, token: &str) -> Vec<u8> {
    match spelling {
        Spelling::Bytes => {
            let bytes: Option<Vec<u8>> = token.chars().map(spelled_byte).collect();
            bytes.unwrap_or_else(|| token.as_bytes().to_vec())
        }
        Spelling::Spaces | Spelling::SpacesAndBytes => token.replace('▁', " ").into_bytes(),
    }
}

/// The byte of a token such as `<0x0A>`.
pub(super) fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let are_digits = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    are_digits.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Whether GPT-2 spells a byte as the character of the same number.
fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The character that GPT-2 spells a byte as: other bytes are counted from U+0100 on.
pub(super) fn spelled_character(byte: u8) -> char {
    if is_itself(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !is_itself(byte)).count();
    let code = u32::try_from(before).ok().and_then(|before| char::from_u32(0x100 + before));
    code.unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn spelled_byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match u8::try_from(code) {
        Ok(byte) => is_itself(byte).then_some(byte),
        Err(_) => {
            let others = (0..=u8::MAX).filter(|&byte| !is_itself(byte));
            others.zip(0x100..).find(|(_, other)| *other == code).map(|(byte, _)| byte)
        }
    }
}

/// Decodes token by token. The texts of all calls joined are the text of [`Tokenizer::decode`](super::Tokenizer::decode), except for
/// tokens such as `<0x0A>` one after the other that are no UTF-8: a stream does not wait for the last of them.
#[derive(Clone, Debug)]
pub struct Stream<'t> {
    pieces: &'t Pieces,
    /// Bytes of a character that is not complete, at most three.
    pending: Vec<u8>,
    /// Whether the next byte is the first of the text, and may be the added space.
    is_start: bool,
}

impl<'t> Stream<'t> {
    pub(super) fn new(pieces: &'t Pieces) -> Self {
        Self { pieces, pending: Vec::new(), is_start: pieces.space == LeadingSpace::Removed }
    }

    /// The characters that a token completes; none for a special token. Invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// When no token has this id. The stream is as before.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        match self.pieces.piece("token id", id)? {
            Piece::Special => Ok(String::new()),
            Piece::Byte(byte) => Ok(self.extend(byte)),
            Piece::Bytes(bytes) => Ok(self.extend(bytes)),
        }
    }

    /// The text of tokens, where bytes one after the other are replaced all or none, as the package `tokenizers` does.
    pub(super) fn join_bytes(mut self, ids: &[u32]) -> Result<String, TokenizerError> {
        let mut text = String::new();
        let mut bytes = Vec::new();
        for id in ids {
            match self.pieces.piece("token id", *id)? {
                Piece::Special => {}
                Piece::Byte(byte) => bytes.extend_from_slice(byte),
                Piece::Bytes(piece) => {
                    text.push_str(&self.extend_run(&std::mem::take(&mut bytes)));
                    text.push_str(&self.extend(piece));
                }
            }
        }
        text.push_str(&self.extend_run(&bytes));
        Ok(text + &self.finish())
    }

    fn extend_run(&mut self, bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(_) => self.extend(bytes),
            Err(_) => self.extend("\u{fffd}".repeat(bytes.len()).as_bytes()),
        }
    }

    /// Passes over the tokens of a prompt: what follows is decoded as their continuation, so that its first space is kept.
    ///
    /// # Errors
    /// When no token has one of the ids.
    pub fn skip(&mut self, ids: &[u32]) -> Result<(), TokenizerError> {
        ids.iter().try_for_each(|id| self.push(*id).map(|_| ()))
    }

    /// U+FFFD if a character has not been completed.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    fn extend(&mut self, mut bytes: &[u8]) -> String {
        if self.is_start && !bytes.is_empty() {
            self.is_start = false;
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = Vec::new();
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            if chunks.peek().is_none() && may_continue(chunk.invalid()) {
                rest = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending = rest;
        text
    }
}

/// Whether bytes begin a character.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
