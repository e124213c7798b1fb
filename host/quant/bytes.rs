//! Packed weights as bytes.

use std::array;
use std::borrow::Cow;
use std::ops::Range;

use tilewright_device::layout::packed::Order;

use super::{Format, Group, HalfType, Halves, PackedHeader, PackedWeights, Scheme, Zeros};
use crate::{Error, Result};

/// What the bytes begin with.
const MAGIC: [u8; 8] = *b"TWWEIGHT";
/// Bytes of the header; codes, scales and zeros follow.
const HEADER: usize = 64;

/// Bytes of the header that are 0.
const RESERVED: [Range<usize>; 2] = [17..24, 40..HEADER];

const HALVES: [HalfType; 2] = [HalfType::F16, HalfType::BF16];
const ORDERS: [Order; 2] = [Order::B16, Order::B8];

/// The number that stands for a value: its index in the list of all.
fn tag<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|x| x == value).unwrap_or(all.len()) as u8
}

impl PackedWeights {
    /// The weights as bytes, little-endian: a header of 64 bytes, then codes, scales and zeros. See
    /// docs/quantized-weights.md; the name is not among them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let PackedHeader { version, scheme, order, n, k } = *self.header();
        let Scheme { format, group, zeros, scales } = scheme;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend([tag(&Format::ALL, &format), tag(&Group::ALL, &group), tag(&Zeros::ALL, &zeros)]);
        bytes.extend([tag(&HALVES, &scales), tag(&ORDERS, &order)]);
        bytes.resize(24, 0);
        bytes.extend((n as u64).to_le_bytes());
        bytes.extend((k as u64).to_le_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(self.codes());
        bytes.extend(self.scales().to_bytes());
        bytes.extend(self.zeros().map(Halves::to_bytes).unwrap_or_default());
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes); `name` is the tensor's. Fails, saying where, when the bytes are no packed
    /// weights, of another version, or more or fewer than their header says.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Result<Self> {
        let name = name.into();
        let header = parse(&name, bytes)?;
        let scheme = header.scheme;
        header.check(&name)?;
        let halves = header.groups() * header.padded_n() * 2;
        let parts = if scheme.zeros == Zeros::None { 1 } else { 2 };
        let expected = HEADER + header.code_bytes() + parts * halves;
        if bytes.len() != expected {
            let was = format!("{} bytes", bytes.len());
            return Err(scheme.error(&name, "bytes", was, format!("{expected} bytes")));
        }
        let (codes, rest) = bytes[HEADER..].split_at(header.code_bytes());
        let (scales, zeros) = rest.split_at(halves);
        let halves = |bytes| Halves::from_bytes(scheme.scales, bytes);
        let zeros = (!zeros.is_empty()).then(|| halves(zeros));
        PackedWeights::new(name, header, codes.to_vec(), halves(scales), zeros)
    }
}

/// The header that bytes begin with: of this library's version, with values that there are.
fn parse(name: &str, bytes: &[u8]) -> Result<PackedHeader> {
    let format = bytes.get(12).and_then(|&tag| Format::ALL.get(usize::from(tag))).copied();
    let group = bytes.get(13).and_then(|&tag| Group::ALL.get(usize::from(tag))).copied();
    let wrong = |argument, was: String, allowed: Cow<'static, str>| {
        // Until magic and version are right, these bytes mean nothing.
        let (tensor, known) = (name.to_owned(), !matches!(argument, "header" | "version"));
        let (format, group) = (format.filter(|_| known), group.filter(|_| known));
        Error::Weights { tensor, format, group, argument, was, allowed }
    };
    let header = bytes.first_chunk::<HEADER>();
    let header = header.filter(|header| header.starts_with(&MAGIC)).ok_or_else(|| {
        let was = format!("{} bytes that do not begin as packed weights do", bytes.len());
        wrong(
            "header",
            was,
            format!("{HEADER} bytes that begin with {:?}", MAGIC.escape_ascii().to_string()).into(),
        )
    })?;
    let word = |at: usize| u32::from_le_bytes(array::from_fn(|i| header[at + i]));
    let size = |at: usize| u64::from_le_bytes(array::from_fn(|i| header[at + i]));
    let version = word(8);
    if version != PackedWeights::VERSION {
        let allowed = format!("{}, the version that this library reads", PackedWeights::VERSION);
        return Err(wrong("version", version.to_string(), allowed.into()));
    }
    let tag = |argument, at: usize, count: usize| {
        let allowed = || format!("a number below {count}").into();
        let tag = usize::from(header[at]);
        if tag < count { Ok(tag) } else { Err(wrong(argument, tag.to_string(), allowed())) }
    };
    let format = Format::ALL[tag("format", 12, Format::ALL.len())?];
    let group = Group::ALL[tag("group", 13, Group::ALL.len())?];
    let zeros = Zeros::ALL[tag("zeros", 14, Zeros::ALL.len())?];
    let scales = HALVES[tag("scales", 15, HALVES.len())?];
    let order = ORDERS[tag("order", 16, ORDERS.len())?];
    if let Some(at) = RESERVED.into_iter().flatten().find(|&at| header[at] != 0) {
        return Err(wrong("reserved bytes", format!("{} at {at}", header[at]), "0".into()));
    }
    let length = |argument, at| {
        let length = size(at);
        let too_long = |_| wrong(argument, length.to_string(), "an address's worth at most".into());
        usize::try_from(length).map_err(too_long)
    };
    let (n, k) = (length("n", 24)?, length("k", 32)?);
    Ok(PackedHeader { version, scheme: Scheme { format, group, zeros, scales }, order, n, k })
}
