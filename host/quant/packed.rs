//! Weights in the order in which kernels read them.

use std::array;

use tilewright_device::layout::packed::{DEPTH, Order, Packed, ROWS};
use tilewright_device::quantize::Line;

use super::{Halves, QuantizedWeights, Scheme, ZeroPoints, Zeros};
use crate::{Error, Result};

/// What packed weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedHeader {
    /// The version of the packed form: [`PackedWeights::VERSION`].
    pub version: u32,
    /// How the weights are represented.
    pub scheme: Scheme,
    /// Which activations the order of the codes is for.
    pub order: Order,
    /// Rows of W: output features.
    pub n: usize,
    /// Columns of W: input features.
    pub k: usize,
}

impl PackedHeader {
    /// The layout of a block of codes.
    pub fn layout(&self) -> Packed {
        let (order, bits) = (self.order, self.scheme.format.bits());
        Packed::new(order, bits).expect("the bits of every format have a layout")
    }

    /// Blocks along N and along K.
    pub const fn blocks(&self) -> [usize; 2] {
        [self.n.div_ceil(ROWS as usize), self.k.div_ceil(DEPTH as usize)]
    }

    /// N rounded up to whole blocks, if there is such a number: scales of a group.
    pub const fn padded_n(&self) -> usize {
        self.blocks()[0].saturating_mul(ROWS as usize)
    }

    /// Groups of a row.
    pub const fn groups(&self) -> usize {
        self.scheme.group.count(self.k)
    }

    /// Bytes of all codes; `usize::MAX` of more than any memory has.
    pub fn code_bytes(&self) -> usize {
        let [n, k] = self.blocks();
        n.saturating_mul(k).saturating_mul(self.layout().block_bytes() as usize)
    }

    /// Refuses what no packed weights can be.
    pub(crate) fn check(&self, tensor: &str) -> Result<()> {
        let Self { version, scheme, order, n, k } = *self;
        if version != PackedWeights::VERSION {
            let allowed = format!("{}, the version that this library reads", PackedWeights::VERSION);
            return Err(scheme.error(tensor, "version", version.to_string(), allowed));
        }
        scheme.check(tensor)?;
        scheme.count(tensor, n, k)?;
        if order == Order::B8 && !scheme.format.is_integer() {
            return Err(scheme.error(tensor, "order", "b8", "b16: int8 activations multiply integers alone"));
        }
        Ok(())
    }
}

/// Narrow weights in the order in which the lanes of a GPU consume them; docs/quantized-weights.md specifies it.
///
/// - codes: blocks of 64 rows and 64 columns in the order [`Packed`], \[N / 64\]\[K / 64\], padded with codes of the value that
///   is nearest to 0;
/// - scales \[groups\]\[N rounded up to 64\], padded with 0;
/// - zeros likewise, of the scales' type whatever the mode.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedWeights {
    name: String,
    header: PackedHeader,
    codes: Vec<u8>,
    scales: Halves,
    zeros: Option<Halves>,
}

impl PackedWeights {
    /// The version of the packed form that this library writes and reads.
    pub const VERSION: u32 = 1;

    /// Packed weights of their parts. Fails when a part has not the size, or the scales and zeros not the type, that the
    /// header asks for, and when a weight is beyond the range of the scales' type, as [`QuantizedWeights::new`] does.
    pub fn new(
        name: impl Into<String>,
        header: PackedHeader,
        codes: Vec<u8>,
        scales: Halves,
        zeros: Option<Halves>,
    ) -> Result<Self> {
        let name = name.into();
        header.check(&name)?;
        let scheme = header.scheme;
        let wrong = |argument, was: String, allowed: String| Err(scheme.error(&name, argument, was, allowed));
        if codes.len() != header.code_bytes() {
            return wrong(
                "codes",
                format!("{} bytes", codes.len()),
                format!("{} bytes", header.code_bytes()),
            );
        }
        if zeros.is_some() != (scheme.zeros != Zeros::None) {
            let was = if zeros.is_some() { "there" } else { "missing" };
            return wrong("zeros", was.to_owned(), format!("as the mode `{}` has them", scheme.zeros));
        }
        let count = header.groups() * header.padded_n();
        let parts = [("scales", Some(&scales)), ("zeros", zeros.as_ref())];
        for (argument, halves) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
            if (halves.kind(), halves.len()) != (scheme.scales, count) {
                let was = format!("{} values of {}", halves.len(), halves.kind().dtype());
                return wrong(argument, was, format!("{count} values of {}", scheme.scales.dtype()));
            }
            if let Some(i) = halves.not_finite() {
                return wrong(argument, format!("{} at {i}", halves.get(i)), "finite".to_owned());
            }
        }
        let weights = PackedWeights { name, header, codes, scales, zeros };
        weights.check_range()?;
        Ok(weights)
    }

    /// Weights are numbers of the scales' type. So is what pads rows, which kernels multiply by 0.
    fn check_range(&self) -> Result<()> {
        let Self { name, header, .. } = self;
        let PackedHeader { scheme, n, k, .. } = *header;
        let (padded, len) = (header.padded_n(), scheme.group.len(k));
        let line = |group: usize, row: usize| {
            let at = group * padded + row;
            Line {
                scale: self.scales.get(at).into(),
                zero: self.zeros.as_ref().map_or(0.0, |zeros| zeros.get(at).into()),
            }
        };
        if (0..header.groups()).all(|group| (0..n).all(|row| scheme.holds_all(line(group, row)))) {
            return Ok(());
        }
        let mut outcome = Ok(());
        for_each_code(header, |[row, column], place| {
            if row < n && outcome.is_ok() {
                let line = line((column / len).min(header.groups() - 1), row);
                outcome = scheme.expect_number(name, self.code(place), line, || format!("[{row}, {column}]"));
            }
        });
        outcome
    }

    /// The code that stands from this bit on.
    fn code(&self, place: usize) -> u8 {
        let format = self.header.scheme.format;
        format.packed(self.codes[place / 8] >> (place % 8) & (0xff >> (8 - format.bits())))
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What the weights are.
    pub const fn header(&self) -> &PackedHeader {
        &self.header
    }
    /// The codes: [`PackedHeader::code_bytes`].
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }
    /// The scales \[groups\]\[padded N\].
    pub const fn scales(&self) -> &Halves {
        &self.scales
    }
    /// The zeros \[groups\]\[padded N\], unless the mode is [`Zeros::None`].
    pub const fn zeros(&self) -> Option<&Halves> {
        self.zeros.as_ref()
    }

    /// The weights in natural order: those that were packed.
    ///
    /// Fails when packed zeros are not integers in the format's range.
    pub fn unpack(&self) -> Result<QuantizedWeights> {
        let Self { name, header, .. } = self;
        let PackedHeader { scheme, n, k, .. } = *header;
        let mut codes = vec![0; n * k];
        for_each_code(header, |[row, column], place| {
            if row < n && column < k {
                codes[row * k + column] = self.code(place);
            }
        });
        let (groups, padded) = (header.groups(), header.padded_n());
        let natural =
            |halves: &Halves| halves.gather((0..n * groups).map(|i| Some(i % groups * padded + i / groups)));
        let zeros = match (&self.zeros, scheme.zeros) {
            (None, _) | (_, Zeros::None) => ZeroPoints::None,
            (Some(zeros), Zeros::Original) => ZeroPoints::Original(natural(zeros)),
            (Some(zeros), Zeros::Rescaled) => ZeroPoints::Rescaled(natural(zeros)),
            (Some(zeros), Zeros::Packed) => ZeroPoints::Packed(self.integers(&natural(zeros))?),
        };
        QuantizedWeights::new(
            name.clone(),
            scheme.format,
            scheme.group,
            [n, k],
            codes,
            natural(&self.scales),
            zeros,
        )
    }

    fn integers(&self, zeros: &Halves) -> Result<Vec<i16>> {
        let integer = |i| {
            let zero = zeros.get(i);
            // Beyond i16 the cast saturates: that is outside any format's range.
            let whole = zero as i16;
            if f32::from(whole) == zero { Ok(whole) } else { Err(self.fraction(zero)) }
        };
        (0..zeros.len()).map(integer).collect()
    }

    fn fraction(&self, zero: f32) -> Error {
        self.header.scheme.error(
            &self.name,
            "zeros",
            zero.to_string(),
            "integers, as the mode `packed` has them",
        )
    }
}

impl QuantizedWeights {
    /// Puts the weights into the order in which kernels read them for activations of 16 bits ([`Order::B16`]) or of 8
    /// ([`Order::B8`], integer formats alone). Nothing is lost: see [`PackedWeights::unpack`].
    pub fn pack(&self, order: Order) -> Result<PackedWeights> {
        let ([n, k], scheme) = (self.shape(), self.scheme());
        let header = PackedHeader { version: PackedWeights::VERSION, scheme, order, n, k };
        header.check(self.name())?;
        let padding = scheme.format.nearest(0.0);
        let mut codes = vec![0; header.code_bytes()];
        for_each_code(&header, |[row, column], place| {
            let code = if row < n && column < k { self.codes()[row * k + column] } else { padding };
            codes[place / 8] |= scheme.format.packed(code) << (place % 8);
        });
        let (groups, padded) = (header.groups(), header.padded_n());
        let packed = |halves: &Halves| {
            let index = |i| (i % padded < n).then_some(i % padded * groups + i / padded);
            halves.gather((0..groups * padded).map(index))
        };
        let zeros = match self.zeros() {
            ZeroPoints::None => None,
            ZeroPoints::Original(zeros) | ZeroPoints::Rescaled(zeros) => Some(packed(zeros)),
            // Integers of eight bits: both types hold them exactly.
            ZeroPoints::Packed(zeros) => {
                Some(packed(&Halves::round(scheme.scales, zeros.iter().copied().map(f64::from))))
            }
        };
        PackedWeights::new(self.name(), header, codes, packed(self.scales()), zeros)
    }
}

/// Calls with the row and the column of each weight, those in the padding too, and the bit of the packed codes from which it stands.
fn for_each_code(header: &PackedHeader, mut each: impl FnMut([usize; 2], usize)) {
    let layout = header.layout();
    let [rows, depth] = [ROWS as usize, DEPTH as usize];
    let places: [[u32; DEPTH as usize]; ROWS as usize] =
        array::from_fn(|row| array::from_fn(|k| layout.offset(row as u32, k as u32)));
    let [blocks_n, blocks_k] = header.blocks();
    for block in 0..blocks_n * blocks_k {
        let (first_row, first_k) = (block / blocks_k * rows, block % blocks_k * depth);
        let first_place = block * layout.block_bytes() as usize * 8;
        for (row, places) in places.iter().enumerate() {
            for (k, &place) in places.iter().enumerate() {
                each([first_row + row, first_k + k], first_place + place as usize);
            }
        }
    }
}

/// The order's name in files.
pub(crate) const fn order_name(order: Order) -> &'static str {
    match order {
        Order::B16 => "b16",
        Order::B8 => "b8",
    }
}

/// The order of this name.
pub(super) fn order_of(name: &str) -> Option<Order> {
    [Order::B16, Order::B8].into_iter().find(|&order| order_name(order) == name)
}
