//! What `--arg` says.

use std::path::Path;

use tilewright_emulator::Swizzle;

use crate::element::{Element, Number};
use crate::fill::{Fill, fill};
use crate::npy;
use crate::words::shape;
use crate::wrong::{Usage, Wrong, read, wrong};

/// What there is to say, for messages.
const KINDS: &str = "TYPE:VALUE, null, bytes:HEX, @NAME[+BYTES], struct:PART,PART,…, tensormap:NAME:BOX[:SWIZZLE], or a buffer: zeros:TYPE:COUNT, empty:TYPE:COUNT, \
                     fill:TYPE:COUNT:VALUE, random:TYPE:COUNT[:SEED], uniform:TYPE:COUNT:LOW:HIGH[:SEED], \
                     range:TYPE:COUNT[:START[:STEP]], file:[TYPE:]PATH";

/// An argument of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// What it is called; its number if it has no name.
    pub name: String,
    /// The text that it was made of.
    pub text: String,
    /// What it is.
    pub value: Value,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// These bytes: a number, or a structure.
    Bytes(Vec<u8>),
    /// The address of a buffer of its own.
    Buffer(Buffer),
    /// An address in another argument's buffer.
    Within {
        /// That argument's name.
        name: String,
        /// Bytes from the buffer's beginning.
        offset: u64,
    },
    /// A structure of these, laid out as C does: each with what its place is a multiple of.
    Structure(Vec<(usize, Value)>),
    /// A tensor map of another argument's buffer, of its shape.
    TensorMap {
        /// That argument's name.
        name: String,
        /// The extents of the box, the contiguous one last.
        tile: Vec<u32>,
        /// How the box is permuted in shared memory.
        swizzle: Swizzle,
    },
}

/// Memory that the kernel gets the address of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The type of its elements.
    pub element: Element,
    /// How many there are in each dimension.
    pub shape: Vec<u64>,
    /// How many bytes.
    pub bytes: u64,
    /// What it holds at first; `None` where nobody wrote it.
    pub initial: Option<Vec<u8>>,
}

/// The argument of this number that the text says, with buffers of no more than `most` bytes.
pub fn argument(number: usize, text: &str, most: u64) -> Usage<Argument> {
    let named = text.split_once('=').filter(|(name, _)| is_name(name));
    let (name, what) =
        named.map_or_else(|| (number.to_string(), text), |(name, what)| (name.to_owned(), what));
    let value = value(number, what, most)
        .map_err(|Wrong(why)| Wrong(format!("argument {number}, `{text}`: {why}")))?;
    Ok(Argument { name, text: text.to_owned(), value })
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn value(number: usize, text: &str, most: u64) -> Usage<Value> {
    if text == "null" {
        return Ok(Value::Bytes(vec![0; 8]));
    }
    if let Some(place) = text.strip_prefix('@') {
        let (name, offset) = place.split_once('+').unwrap_or((place, "0"));
        return match offset.parse() {
            Ok(offset) => Ok(Value::Within { name: name.to_owned(), offset }),
            Err(_) => wrong("the offset", offset, "a number of bytes"),
        };
    }
    let Some((kind, rest)) = text.split_once(':') else {
        return wrong("it", text, &format!("one of {KINDS}"));
    };
    match kind {
        "bytes" => hex(rest).map(Value::Bytes),
        "file" => file(rest, most).map(Value::Buffer),
        "tensormap" => tensor_map(rest),
        "struct" => structure(number, rest, most),
        _ => match Element::named(kind) {
            Some(element) => {
                let number = parse(element, "the value", rest)?;
                Ok(Value::Bytes(element.encode(number).unwrap_or_default()))
            }
            None => buffer(number, kind, rest, most).map(Value::Buffer),
        },
    }
}

/// `PART,PART,…`.
fn structure(number: usize, text: &str, most: u64) -> Usage<Value> {
    let part = |text: &str| {
        let part = value(number, text, most)?;
        let align = match &part {
            Value::Bytes(_) if text.starts_with("bytes:") => 1,
            Value::Bytes(bytes) => bytes.len(),
            Value::Within { .. } => size_of::<u64>(),
            _ => return wrong("a part", text, "TYPE:VALUE, null, bytes:HEX or @NAME[+BYTES]"),
        };
        Ok((align, part))
    };
    text.split(',').map(part).collect::<Usage<_>>().map(Value::Structure)
}

/// `NAME:BOX[:SWIZZLE]`.
fn tensor_map(text: &str) -> Usage<Value> {
    let parts: Vec<&str> = text.split(':').collect();
    let (name, tile, swizzle) = match parts.as_slice() {
        [name, tile] => (name, tile, "none"),
        [name, tile, swizzle] => (name, tile, *swizzle),
        _ => return wrong("the tensor map", text, "NAME:BOX[:SWIZZLE]"),
    };
    let extents: Option<Vec<u32>> = tile.split('x').map(|part| part.parse().ok()).collect();
    let Some(tile) = extents else {
        return wrong("the box", tile, "a number of elements in each dimension, as `64x32`");
    };
    let swizzle = match swizzle {
        "none" => Swizzle::None,
        "32B" => Swizzle::B32,
        "64B" => Swizzle::B64,
        "128B" => Swizzle::B128,
        _ => return wrong("the swizzle", swizzle, "none, 32B, 64B or 128B"),
    };
    Ok(Value::TensorMap { name: (*name).to_owned(), tile, swizzle })
}

/// A number of a type.
fn parse(element: Element, what: &str, text: &str) -> Usage<Number> {
    match element.parse(text) {
        Some(number) => Ok(number),
        None => wrong(what, text, &format!("a number that {} has", element.name())),
    }
}

fn hex(text: &str) -> Usage<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().filter(|&c| c != '_').map(|c| Some(c.to_digit(16)? as u8)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect()),
        _ => wrong("the bytes", text, "pairs of hexadecimal digits, the first byte first"),
    }
}

fn named(text: &str) -> Usage<Element> {
    match Element::named(text) {
        Some(element) => Ok(element),
        None => wrong("the type", text, &format!("one of {}", Element::names())),
    }
}

/// A buffer whose elements are said by the command.
fn buffer(number: usize, kind: &str, text: &str, most: u64) -> Usage<Buffer> {
    let parts: Vec<&str> = text.split(':').collect();
    let allowed = match kind {
        "zeros" | "empty" => 2..=2,
        "fill" => 3..=3,
        "random" => 2..=3,
        "uniform" => 4..=5,
        "range" => 2..=4,
        _ => return wrong("the kind", kind, &format!("one of {KINDS}")),
    };
    let (true, [element, count, options @ ..]) = (allowed.contains(&parts.len()), parts.as_slice()) else {
        return wrong("the buffer", &format!("{kind}:{text}"), &format!("one of {KINDS}"));
    };
    let element = named(element)?;
    let Some((shape, count)) = shape(count) else {
        return wrong("the count", count, "a number of elements, or of each dimension as `32x128`");
    };
    let seed = |at: usize| match options.get(at) {
        Some(seed) => seed.parse().or_else(|_| wrong("the seed", seed, "a number from 0")),
        None => Ok(number as u64),
    };
    let option = |at: usize, what: &str| options.get(at).map(|text| parse(element, what, text)).transpose();
    let zero = Number::Integer(0);
    let how = match kind {
        "zeros" => Fill::Constant(zero),
        "fill" => Fill::Constant(option(0, "the value")?.unwrap_or(zero)),
        "random" => Fill::Normal { seed: seed(0)? },
        "uniform" => {
            let (low, high) =
                (option(0, "the least")?.unwrap_or(zero), option(1, "the largest")?.unwrap_or(zero));
            if low.float() > high.float() {
                return wrong("the largest", &high.to_string(), &format!("no less than the least, {low}"));
            }
            Fill::Uniform { low, high, seed: seed(2)? }
        }
        "range" => Fill::Range {
            start: option(0, "the first")?.unwrap_or(zero),
            step: option(1, "the step")?.unwrap_or(Number::Integer(1)),
        },
        _ => Fill::Empty,
    };
    let bytes = count.checked_mul(element.bytes() as u64).filter(|&bytes| bytes <= most);
    let (Some(bytes), Ok(count)) = (bytes, usize::try_from(count)) else {
        return wrong(
            "the count",
            &count.to_string(),
            &format!("no more than {most} bytes (--limits memory)"),
        );
    };
    let initial =
        fill(how, element, count).map_err(|_| Wrong(format!("the host has no room for {bytes} bytes")))?;
    Ok(Buffer { element, shape, bytes, initial })
}

/// A buffer that holds what a file does: `.npy`, or raw bytes.
fn file(text: &str, most: u64) -> Usage<Buffer> {
    let typed = text.split_once(':').and_then(|(name, path)| Some((Element::named(name)?, path)));
    let (element, path) = typed.map_or((None, text), |(element, path)| (Some(element), path));
    let (from, shape, bytes) = elements(Path::new(path), element.unwrap_or(Element::U8))?;
    let element = element.unwrap_or(from);
    let bytes = match element == from {
        true => bytes,
        false => bytes
            .chunks_exact(from.bytes())
            .map(|bytes| from.decode(bytes))
            .map(|number| match element.encode(number) {
                Some(bytes) => Ok(bytes),
                None => wrong(
                    &format!("an element of {path}"),
                    &number.to_string(),
                    &format!("of {}", element.name()),
                ),
            })
            .collect::<Usage<Vec<_>>>()?
            .concat(),
    };
    let size = bytes.len() as u64;
    if size > most {
        return wrong(
            "the file's size",
            &size.to_string(),
            &format!("no more than {most} bytes (--limits memory)"),
        );
    }
    Ok(Buffer { element, shape, bytes: size, initial: Some(bytes) })
}

/// The elements of a file and their shape: those of a `.npy` file, else its bytes as elements of the type that is given.
pub fn elements(path: &Path, raw: Element) -> Usage<(Element, Vec<u64>, Vec<u8>)> {
    let bytes = read(path)?;
    if npy::is_npy(&bytes) {
        let array = npy::decode(&bytes).map_err(|why| Wrong(format!("{}: {why}", path.display())))?;
        return Ok((array.element, array.shape, array.bytes));
    }
    if !bytes.len().is_multiple_of(raw.bytes()) {
        let allowed = format!("a multiple of {}, the bytes of {}", raw.bytes(), raw.name());
        return wrong(&format!("the size of {}", path.display()), &bytes.len().to_string(), &allowed);
    }
    Ok((raw, vec![(bytes.len() / raw.bytes()) as u64], bytes))
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Value, argument};
    use crate::element::Element;

    const MOST: u64 = 1 << 20;

    fn value(text: &str) -> Value {
        argument(3, text, MOST).unwrap().value
    }

    #[test]
    fn numbers_and_structures_are_bytes() {
        assert_eq!(value("i32:-5"), Value::Bytes(vec![0xfb, 0xff, 0xff, 0xff]));
        assert_eq!(value("f16:1.5"), Value::Bytes(vec![0x00, 0x3e]));
        assert_eq!(value("null"), Value::Bytes(vec![0; 8]));
        assert_eq!(value("bytes:0102_ff"), Value::Bytes(vec![1, 2, 0xff]));
        assert_eq!(value("@x+16"), Value::Within { name: "x".into(), offset: 16 });
    }

    #[test]
    fn structures_have_parts() {
        let parts = vec![
            (8, Value::Within { name: "x".into(), offset: 0 }),
            (2, Value::Bytes(vec![0xff, 0xff])),
            (1, Value::Bytes(vec![1, 2, 3])),
        ];
        assert_eq!(value("struct:@x,i16:-1,bytes:010203"), Value::Structure(parts));
    }

    #[test]
    fn buffers_have_elements() {
        let buffer = |element, shape: &[u64], initial: Option<Vec<u8>>| {
            let bytes = shape.iter().product::<u64>() * 2;
            Value::Buffer(Buffer { element, shape: shape.to_vec(), bytes, initial })
        };
        assert_eq!(value("zeros:f16:2x2"), buffer(Element::F16, &[2, 2], Some(vec![0; 8])));
        assert_eq!(value("empty:u16:3"), buffer(Element::U16, &[3], None));
        assert_eq!(value("fill:i16:2:-1"), buffer(Element::I16, &[2], Some(vec![0xff; 4])));
        assert_eq!(value("range:u16:2:5:256"), buffer(Element::U16, &[2], Some(vec![5, 0, 5, 1])));
        assert_eq!(value("random:f16:4"), value("random:f16:4:3"), "the seed is the argument's number");
    }

    #[test]
    fn names_come_first() {
        let name = |text: &str| argument(3, text, MOST).unwrap().name;
        assert_eq!((name("x_1=i32:5"), name("i32:5")), ("x_1".into(), "3".into()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("5", "it was `5`; it must be one of TYPE:VALUE"),
            ("i32:x", "the value was `x`; it must be a number that i32 has"),
            ("u8:256", "the value was `256`; it must be a number that u8 has"),
            ("zeros:f33:4", "the type was `f33`; it must be one of i8, u8"),
            ("zeros:f32:4:5", "the buffer was `zeros:f32:4:5`"),
            ("ones:f32:4", "the kind was `ones`"),
            ("zeros:f32:-4", "the count was `-4`"),
            ("zeros:f32:999999999999", "no more than 1048576 bytes"),
            ("zeros:f32:18446744073709551615", "no more than 1048576 bytes"),
            ("random:f32:4:x", "the seed was `x`"),
            ("uniform:i32:4:5:1", "the largest was `1`; it must be no less than the least, 5"),
            ("bytes:0", "the bytes was `0`"),
            ("bytes:é0", "the bytes was `é0`"),
            ("tensormap:x", "the tensor map was `x`"),
            ("tensormap:x:64*8", "the box was `64*8`"),
            ("tensormap:x:64x8:16B", "the swizzle was `16B`"),
            ("struct:i32:1,zeros:u8:1", "a part was `zeros:u8:1`"),
            ("struct:", "it was ``"),
            ("@x+y", "the offset was `y`"),
            ("file:/nowhere/at.all", "/nowhere/at.all: "),
        ] {
            let what = argument(3, text, MOST).unwrap_err().0;
            assert!(what.starts_with(&format!("argument 3, `{text}`: ")) && what.contains(words), "{what}");
        }
    }
}
