//! One attribute of the only node of a model, changed in the bytes of the file: protobuf, field by field.

/// A field: its number, its kind, and its bytes without the length.
struct Field<'b> {
    number: u64,
    wire: u64,
    bytes: &'b [u8],
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("the file is whole");
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn put_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 128 {
        to.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    to.push(value as u8);
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let wire = key & 7;
        let length = match wire {
            0 => {
                let mut rest = bytes;
                varint(&mut rest);
                bytes.len() - rest.len()
            }
            1 => 8,
            5 => 4,
            _ => varint(&mut bytes) as usize,
        };
        let (own, rest) = bytes.split_at(length);
        found.push(Field { number: key >> 3, wire, bytes: own });
        bytes = rest;
    }
    found
}

fn put(number: u64, wire: u64, bytes: &[u8], to: &mut Vec<u8>) {
    put_varint(number << 3 | wire, to);
    if wire == 2 {
        put_varint(bytes.len() as u64, to);
    }
    to.extend_from_slice(bytes);
}

/// The message with each field of a number as `change` makes it; without those of which it makes nothing.
fn mapped(bytes: &[u8], number: u64, change: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut to = Vec::new();
    for field in fields(bytes) {
        if field.number != number {
            put(field.number, field.wire, field.bytes, &mut to);
        } else if let Some(changed) = change(field.bytes) {
            put(number, field.wire, &changed, &mut to);
        }
    }
    to
}

/// An `AttributeProto` of a value as the list writes it.
fn attribute(name: &str, value: &str) -> Vec<u8> {
    let mut to = Vec::new();
    put(1, 2, name.as_bytes(), &mut to);
    let integer = |number: u64, text: &str, to: &mut Vec<u8>| {
        let mut bytes = Vec::new();
        let value: i64 = text.parse().expect("an integer");
        put_varint(value.cast_unsigned(), &mut bytes);
        put(number, 0, &bytes, to);
    };
    let kind = if let Some(items) = value.strip_prefix('[').and_then(|all| all.strip_suffix(']')) {
        let items = items.split(',').filter(|item| !item.is_empty());
        items.for_each(|item| integer(8, item, &mut to));
        "7"
    } else if let Some(text) = value.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        put(4, 2, text.as_bytes(), &mut to);
        "3"
    } else if value.contains(['.', 'e']) {
        let value: f32 = value.parse().expect("a float");
        put(2, 5, &value.to_le_bytes(), &mut to);
        "1"
    } else {
        integer(3, value, &mut to);
        "2"
    };
    integer(20, kind, &mut to);
    to
}

/// The model with an edit, which is the name of an attribute and its value, or `-` for none. Its outputs are declared without
/// shapes.
pub(crate) fn edited(model: &[u8], edit: &str) -> Vec<u8> {
    let (name, value) = edit.split_once(' ').expect("a name and a value");
    let is_it = |attribute: &[u8]| {
        fields(attribute).iter().any(|field| field.number == 1 && field.bytes == name.as_bytes())
    };
    let node = |node: &[u8]| {
        let mut node = mapped(node, 5, &|own| (!is_it(own)).then(|| own.to_vec()));
        if value != "-" {
            put(5, 2, &attribute(name, value), &mut node);
        }
        Some(node)
    };
    let shapeless = |tensor: &[u8]| Some(mapped(tensor, 2, &|_| None));
    let output =
        |output: &[u8]| Some(mapped(output, 2, &|of: &[u8]| Some(mapped(of, 1, &shapeless))));
    let graph = |graph: &[u8]| Some(mapped(&mapped(graph, 1, &node), 12, &output));
    mapped(model, 7, &graph)
}
