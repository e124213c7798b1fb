//! Packed weights in safetensors files.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::packed::{order_name, order_of};
use super::{HalfType, Halves, PackedHeader, PackedWeights, Scheme, Zeros};
use crate::{Error, Result};

/// What a tensor's name ends in: codes, scales, zeros.
const CODES: &str = ".packed";
const SCALES: &str = ".scales";
const ZEROS: &str = ".zeros";

pub(super) fn wrong(
    name: &str,
    argument: &'static str,
    was: impl Into<String>,
    allowed: impl Into<String>,
) -> Error {
    let (tensor, allowed) = (name.to_owned(), allowed.into().into());
    Error::Weights { tensor, format: None, group: None, argument, was: was.into(), allowed }
}

pub(super) fn not_a_file(name: &str, error: &SafeTensorError) -> Error {
    wrong(name, "file", error.to_string(), "a safetensors file that holds them")
}

const fn dtype(kind: HalfType) -> Dtype {
    match kind {
        HalfType::F16 => Dtype::F16,
        HalfType::BF16 => Dtype::BF16,
    }
}

impl PackedWeights {
    /// A safetensors file of weights, as bytes.
    ///
    /// Weights `w` become `w.packed` \[N / 64, K / 64, bytes of a block\] of u8, `w.scales` \[groups, padded N\] and `w.zeros`, if
    /// there are any, likewise; their header is the file's metadata `w.packed`. Fails when two have the same name.
    pub fn to_safetensors<'a>(weights: impl IntoIterator<Item = &'a PackedWeights>) -> Result<Vec<u8>> {
        let mut parts = BTreeMap::new();
        let mut headers = BTreeMap::new();
        for weights in weights {
            let (name, header) = (weights.name(), weights.header());
            if headers.insert(format!("{name}{CODES}"), describe(header)).is_some() {
                return Err(header.scheme.error(name, "name", "that of other weights too", "of one tensor"));
            }
            let [n, k] = header.blocks();
            let shape = vec![n, k, header.layout().block_bytes() as usize];
            parts.insert(format!("{name}{CODES}"), (name, Dtype::U8, shape, Cow::Borrowed(weights.codes())));
            for (end, halves) in [(SCALES, Some(weights.scales())), (ZEROS, weights.zeros())] {
                let Some(halves) = halves else { continue };
                let shape = vec![header.groups(), header.padded_n()];
                let part = (name, dtype(halves.kind()), shape, Cow::Owned(halves.to_bytes()));
                parts.insert(format!("{name}{end}"), part);
            }
        }
        let views = parts.iter().map(|(full, (name, dtype, shape, bytes))| {
            let view = TensorView::new(*dtype, shape.clone(), bytes);
            Ok((full.as_str(), view.map_err(|error| not_a_file(name, &error))?))
        });
        let views = views.collect::<Result<Vec<_>>>()?;
        // Of no metadata it would write JSON that is none.
        let headers = (!headers.is_empty()).then(|| headers.into_iter().collect());
        safetensors::serialize(views, headers).map_err(|error| not_a_file("", &error))
    }

    /// The weights of this name in a safetensors file that [`to_safetensors`](Self::to_safetensors) made.
    ///
    /// Fails, saying where, when the file is none or does not hold them, whole and of this library's version.
    pub fn from_safetensors(name: &str, file: &[u8]) -> Result<Self> {
        let full = format!("{name}{CODES}");
        let (_, metadata) = SafeTensors::read_metadata(file).map_err(|error| not_a_file(name, &error))?;
        let described = metadata.metadata().as_ref().and_then(|all| all.get(&full)).ok_or_else(|| {
            wrong(name, "metadata", "missing", format!("`{full}`, which says what the weights are"))
        })?;
        let header = parse(name, described)?;
        header.check(name)?;
        let tensors = SafeTensors::deserialize(file).map_err(|error| not_a_file(name, &error))?;
        let part = |argument, end: &str, expected: Dtype| {
            let error = |was, allowed: String| header.scheme.error(name, argument, was, allowed);
            let tensor = tensors
                .tensor(&format!("{name}{end}"))
                .map_err(|_| error("missing".to_owned(), format!("the tensor `{name}{end}` of the file")))?;
            if tensor.dtype() != expected {
                return Err(error(format!("of {}", tensor.dtype()), format!("of {expected}")));
            }
            Ok(tensor.data())
        };
        let codes = part("codes", CODES, Dtype::U8)?.to_vec();
        let halves = |argument, end| {
            let kind = header.scheme.scales;
            Ok::<_, Error>(Halves::from_bytes(kind, part(argument, end, dtype(kind))?))
        };
        let scales = halves("scales", SCALES)?;
        let zeros = match header.scheme.zeros {
            Zeros::None => None,
            _ => Some(halves("zeros", ZEROS)?),
        };
        PackedWeights::new(name, header, codes, scales, zeros)
    }
}

/// The header as a line of metadata.
fn describe(header: &PackedHeader) -> String {
    let PackedHeader { version, scheme: Scheme { format, group, zeros, scales }, order, n, k } = *header;
    let (group, scales, order) = (group.name(), scales.dtype(), order_name(order));
    format!(
        "version={version} format={format} group={group} zeros={zeros} scales={scales} order={order} n={n} k={k}"
    )
}

/// The header that a line of metadata describes.
fn parse(name: &str, described: &str) -> Result<PackedHeader> {
    let field = |key: &'static str| {
        let fields = described.split(' ').filter_map(|field| field.split_once('='));
        let found = fields.into_iter().find_map(|(found, value)| (found == key).then_some(value));
        found.ok_or_else(|| wrong(name, key, "missing in the metadata", "there"))
    };
    let unknown = |key| move |_| wrong(name, key, "not known", "one that this library knows");
    let number = |key| field(key)?.parse().map_err(|_| wrong(name, key, "no number", "a number"));
    let version: usize = number("version")?;
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    if version != PackedWeights::VERSION {
        let allowed = format!("{}, the version that this library reads", PackedWeights::VERSION);
        return Err(wrong(name, "version", version.to_string(), allowed));
    }
    let halves = [HalfType::F16, HalfType::BF16];
    let scales = field("scales")?;
    let scales = halves.into_iter().find(|kind| kind.dtype().name() == scales).ok_or(());
    let scheme = Scheme {
        format: field("format")?.parse().map_err(unknown("format"))?,
        group: field("group")?.parse().map_err(unknown("group"))?,
        zeros: field("zeros")?.parse().map_err(unknown("zeros"))?,
        scales: scales.map_err(unknown("scales"))?,
    };
    let order = order_of(field("order")?).ok_or(()).map_err(unknown("order"))?;
    Ok(PackedHeader { version, scheme, order, n: number("n")?, k: number("k")? })
}
