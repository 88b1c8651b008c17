//! The `.npy` format, versions 1 to 3, of NumPy's NEP 1.
//!
//! Read by hand rather than by a crate: a header is the literal of a Python dictionary with three
//! known keys, and a reader of just that has a bound on everything, which general literal parsers
//! (recursive, allocating what the length field claims) do not.

use super::elements::{Order, byte_count, from_bytes, to_bytes};
use relax_semantics::tensor::{Tensor, strided_positions, strides};
use relax_syntax::dtype::DType;

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself refuses longer headers.
const LONGEST_HEADER: usize = 10_000;
/// NumPy's own limit on dims.
const MOST_DIMS: usize = 64;

/// What a header says.
struct Header {
    dtype: DType,
    order: Order,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads a whole file.
///
/// # Errors
/// What is wrong with the file.
pub fn read_npy(bytes: &[u8]) -> Result<Tensor, String> {
    let rest =
        bytes.strip_prefix(MAGIC).ok_or("this is no .npy file: its magic bytes are missing")?;
    let [major, _, rest @ ..] = rest else { return Err("the file ends in its header".to_owned()) };
    let (length, rest) = match (major, rest) {
        (1, [a, b, rest @ ..]) => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        (1..=3, _) => return Err("the file ends in its header".to_owned()),
        _ => return Err(format!("version {major} of the .npy format is not known")),
    };
    if length > LONGEST_HEADER {
        return Err(format!("its header claims {length} bytes, more than {LONGEST_HEADER}"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or("the file ends in its header")?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
    tensor(&Reader { rest: header }.header()?, data)
}

fn tensor(header: &Header, data: &[u8]) -> Result<Tensor, String> {
    let expected = byte_count(header.dtype, &header.shape)
        .ok_or_else(|| format!("the shape {:?} is beyond what a machine can hold", header.shape))?;
    let data = data.get(..expected).ok_or_else(|| {
        format!("the shape {:?} takes {expected} bytes, the file has {}", header.shape, data.len())
    })?;
    if !header.fortran {
        return from_bytes(header.dtype, &header.shape, data, header.order);
    }
    let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
    let stored = from_bytes(header.dtype, &reversed, data, header.order)?;
    let steps: Vec<usize> = strides(&reversed).into_iter().rev().collect();
    Ok(stored.select(&header.shape, &strided_positions(&header.shape, &steps)))
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn header(mut self) -> Result<Header, String> {
        let (mut element, mut fortran, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key.as_str() {
                "descr" => element = Some(self.element()?),
                "fortran_order" => fortran = Some(self.flag()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err(format!("its header has the unknown key `{key}`")),
            }
            if !self.take(",") && !self.rest.trim_start().starts_with('}') {
                return Err("its header is malformed".to_owned());
            }
        }
        let missing = "its header lacks descr, fortran_order or shape";
        let (dtype, order) = element.ok_or(missing)?;
        let (fortran, shape) = (fortran.ok_or(missing)?, shape.ok_or(missing)?);
        Ok(Header { dtype, order, fortran, shape })
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(token);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("its header lacks a `{token}`")) }
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = if self.take("'") {
            '\''
        } else {
            self.expect("\"")?;
            '"'
        };
        let (text, rest) = self.rest.split_once(quote).ok_or("its header has an open string")?;
        let text = text.to_owned();
        self.rest = rest;
        Ok(text)
    }

    fn flag(&mut self) -> Result<bool, String> {
        if self.take("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            let rest = self.rest.trim_start();
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = rest.split_at(length);
            self.rest = rest;
            shape.push(digits.parse().map_err(|_| "its header has no proper shape")?);
            if shape.len() > MOST_DIMS {
                return Err(format!("its header has more than {MOST_DIMS} dims"));
            }
            // Python 2 wrote some integers as `3L`.
            self.take("L");
            if !self.take(",") && !self.rest.trim_start().starts_with(')') {
                return Err("its header has no proper shape".to_owned());
            }
        }
        Ok(shape)
    }

    fn element(&mut self) -> Result<(DType, Order), String> {
        if self.rest.trim_start().starts_with('[') {
            return Err("it holds records; expected numbers".to_owned());
        }
        let descr = self.string()?;
        let order = if descr.starts_with('>') { Order::Big } else { Order::Little };
        let name = descr.trim_start_matches(['<', '>', '|', '=']);
        if name == "O" {
            return Err("it holds Python objects, which are not read; expected numbers".to_owned());
        }
        let known = DTYPES.iter().find(|(_, text)| *text == name);
        let (dtype, _) = known.ok_or_else(|| {
            format!("its elements are of NumPy's type `{descr}`; expected a float, integer or bool")
        })?;
        Ok((*dtype, order))
    }
}

/// NumPy's codes. It has none for bf16.
const DTYPES: [(DType, &str); 12] = [
    (DType::F16, "f2"),
    (DType::F32, "f4"),
    (DType::F64, "f8"),
    (DType::I8, "i1"),
    (DType::I16, "i2"),
    (DType::I32, "i4"),
    (DType::I64, "i8"),
    (DType::U8, "u1"),
    (DType::U16, "u2"),
    (DType::U32, "u4"),
    (DType::U64, "u8"),
    (DType::Bool, "b1"),
];

/// The whole content of a file, as version 1.
///
/// # Errors
/// When NumPy has no such dtype.
pub fn write_npy(tensor: &Tensor) -> Result<Vec<u8>, String> {
    let dtype = tensor.dtype();
    let (_, code) = DTYPES.iter().find(|(known, _)| *known == dtype).ok_or_else(|| {
        format!("a .npy file cannot hold {dtype}: write to a .safetensors file, or cast to f32")
    })?;
    let order = if dtype.size() == 1 { '|' } else { '<' };
    let dims: Vec<String> = tensor.shape().iter().map(ToString::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dims.join(", ")
    );
    // The data begin at a multiple of 64 bytes; a line break ends the header.
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(64) - before;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| "too many dims for a .npy file")?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend_from_slice(&to_bytes(tensor));
    Ok(bytes)
}

#[cfg(test)]
mod tests;
