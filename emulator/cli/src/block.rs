//! The block of parameters that a kernel gets.

use tilewright_emulator::{DataType, Fill, TensorMap};
use tilewright_ptx::ast::{Entry, Variable};

use crate::argument::{Argument, Buffer, Value};
use crate::element::Element;
use crate::wrong::{Usage, Wrong};

/// Dimensions of a tensor map at most.
const RANK: usize = 5;

/// The bytes of the parameters, of the first so many arguments, whose buffers lie at these addresses. The others are buffers alone.
pub fn block(
    entry: &Entry,
    arguments: &[Argument],
    count: usize,
    addresses: &[Option<u64>],
) -> Usage<Vec<u8>> {
    if count != entry.parameters.len() {
        let parameters: Vec<String> = entry.parameters.iter().map(described).collect();
        return Err(Wrong(format!(
            "--arg was given {} times; the kernel `{}` takes {}: {}",
            count,
            entry.name,
            parameters.len(),
            parameters.join(", ")
        )));
    }
    let mut block = Vec::new();
    for (number, (argument, parameter)) in arguments.iter().take(count).zip(&entry.parameters).enumerate() {
        let wrong = |what: String| Wrong(format!("argument {number}, `{}`: {what}", argument.text));
        let bytes = match &argument.value {
            Value::Buffer(_) => address(addresses, number),
            other => bytes(other, arguments, addresses).map_err(wrong)?,
        };
        if bytes.len() as u64 != parameter.bytes {
            return Err(wrong(format!(
                "it has {} bytes; it must have those of {}",
                bytes.len(),
                described(parameter)
            )));
        }
        block.resize(block.len().next_multiple_of(parameter.align.max(1) as usize), 0);
        block.extend(bytes);
    }
    Ok(block)
}

/// The bytes of what is no buffer of its own.
fn bytes(value: &Value, arguments: &[Argument], addresses: &[Option<u64>]) -> Result<Vec<u8>, String> {
    let place = |name: &str| {
        let (other, buffer) = find(arguments, name)?;
        Ok::<_, String>((addresses.get(other).copied().flatten().unwrap_or(0), buffer))
    };
    match value {
        Value::Bytes(bytes) => Ok(bytes.clone()),
        // Parsing leaves none inside of others.
        Value::Buffer(_) => Ok(Vec::new()),
        Value::Within { name, offset } => {
            let (at, buffer) = place(name)?;
            let most = buffer.bytes;
            if *offset > most {
                return Err(format!("the offset was {offset}; it must be at most {most}, all of `{name}`"));
            }
            Ok(at.wrapping_add(*offset).to_le_bytes().to_vec())
        }
        Value::Structure(parts) => {
            let (mut all, mut largest) = (Vec::new(), 1);
            for (align, part) in parts {
                all.resize(all.len().next_multiple_of(*align), 0);
                all.extend(bytes(part, arguments, addresses)?);
                largest = largest.max(*align);
            }
            all.resize(all.len().next_multiple_of(largest), 0);
            Ok(all)
        }
        Value::TensorMap { name, tile, swizzle } => {
            let (at, buffer) = place(name)?;
            let map = TensorMap { swizzle: *swizzle, ..tensor_map(buffer, at, tile)? };
            let words = map.encode().map_err(|error| error.to_string())?;
            Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
        }
    }
}

fn address(addresses: &[Option<u64>], number: usize) -> Vec<u8> {
    addresses.get(number).copied().flatten().unwrap_or(0).to_le_bytes().to_vec()
}

/// A parameter in words.
fn described(parameter: &Variable) -> String {
    format!("`{}` ({} bytes)", parameter.name, parameter.bytes)
}

/// The argument of this name, its number and its buffer.
pub fn find<'a>(arguments: &'a [Argument], name: &str) -> Result<(usize, &'a Buffer), String> {
    let buffers = || {
        arguments.iter().enumerate().filter_map(|(number, argument)| match &argument.value {
            Value::Buffer(buffer) => Some((number, argument, buffer)),
            _ => None,
        })
    };
    let found = buffers().find(|(_, argument, _)| argument.name == name);
    found.map(|(number, _, buffer)| (number, buffer)).ok_or_else(|| {
        let names: Vec<&str> = buffers().map(|(_, argument, _)| argument.name.as_str()).collect();
        match names.is_empty() {
            true => format!("there is no buffer `{name}`, nor any other"),
            false => format!("there is no buffer `{name}`; there are: {}", names.join(", ")),
        }
    })
}

/// The map of a whole buffer, whose last dimension is contiguous.
fn tensor_map(buffer: &Buffer, at: u64, tile: &[u32]) -> Result<TensorMap, String> {
    let rank = buffer.shape.len();
    if rank > RANK || tile.len() != rank {
        return Err(format!(
            "the box was of {} dimensions, of a buffer of {rank}; both must be the same, {RANK} at most",
            tile.len()
        ));
    }
    let data = match buffer.element {
        Element::U8 | Element::I8 => DataType::U8,
        Element::U16 | Element::I16 => DataType::U16,
        Element::U32 => DataType::U32,
        Element::I32 => DataType::I32,
        Element::U64 => DataType::U64,
        Element::I64 => DataType::I64,
        Element::F16 => DataType::F16,
        Element::Bf16 => DataType::Bf16,
        Element::F32 => DataType::F32,
        Element::F64 => DataType::F64,
    };
    // In a map the contiguous dimension comes first.
    let (mut shape, mut strides, mut map_tile) = ([1; RANK], [0; RANK - 1], [1; RANK]);
    shape.iter_mut().zip(buffer.shape.iter().rev()).for_each(|(to, from)| *to = *from);
    map_tile.iter_mut().zip(tile.iter().rev()).for_each(|(to, from)| *to = *from);
    let mut stride = data.bytes() as u64;
    for (to, extent) in strides.iter_mut().zip(&shape) {
        stride = stride.saturating_mul(*extent);
        *to = stride;
    }
    Ok(TensorMap {
        data,
        rank,
        address: at,
        shape,
        strides,
        tile: map_tile,
        steps: [1; RANK],
        swizzle: tilewright_emulator::Swizzle::None,
        fill: Fill::Zero,
        im2col: None,
    })
}
