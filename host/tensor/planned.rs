//! The tensors that a plan is made for, and where those of a run lie.
//!
//! A plan is made of views at places of its own, each with the alignment of the caller's view and so far from the next that none reaches
//! it. What is derived from them, parts of tensors and transposed ones, is then put where the tensors of a run lie.

use std::fmt;

use super::named::{Named, of_shape};
use super::region::Region;
use super::{Layout, Untyped};
use crate::{DType, Device, Error, Result, Stream};

/// Addresses below it are nobody's: views without memory have them, each its alignment.
pub(super) const NO_MEMORY: u64 = 4096;
/// Tensors of a plan lie 2^56 bytes apart, which is more than any of them has.
const APART: u32 = 56;
/// What copies and vectors at most want of an address.
const ALIGNED: u64 = 16;
/// The most tensors of a plan, and its room.
const MOST: usize = 18;
/// The number of what a plan has for memory that only the run knows, which is no tensor: its workspace.
const ROOM: usize = MOST - 1;

/// The alignment of an address, as far as kernels are chosen by it. No memory is aligned to anything.
pub(crate) const fn alignment(address: u64) -> u64 {
    1 << (address | ALIGNED).trailing_zeros()
}

/// What an address was, in an error about its alignment.
pub(crate) fn of_address(address: u64) -> String {
    match alignment(address) {
        1 => "an odd address".to_owned(),
        align => format!("an address aligned to {align} bytes"),
    }
}

/// Where a plan has its tensor of this number.
pub(super) const fn place(number: usize, address: u64) -> u64 {
    (number as u64 + 1) << APART | alignment(address)
}

/// Where a plan has the workspace of its runs: see [`Places::with_room`].
pub(crate) const PLANNED_ROOM: u64 = place(ROOM, ALIGNED);

/// Refuses views that only plans are made of.
pub(crate) fn expect_memory(region: &Region<'_>, name: &'static str) -> Result<()> {
    if region.address >= NO_MEMORY || region.layout.len() == 0 {
        return Ok(());
    }
    Err(Error::argument(name, "a view without memory", "memory of the device: plans alone are made without"))
}

/// The tensors of a plan, in the order of their numbers; `None` where the call does without.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    device: Device,
    all: Vec<Option<Operand>>,
}

#[derive(Clone, Debug)]
struct Operand {
    name: &'static str,
    dtype: DType,
    layout: Layout,
    align: u64,
    /// From the first to behind the last.
    bytes: u64,
}

/// How far the tensors of a run lie from the places of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places([u64; MOST]);

impl Operands {
    /// As `tensors` are, of which views are [`planned`](super::TensorView::planned) by their numbers here.
    pub(crate) fn new<const N: usize>(device: &Device, tensors: [Option<Named<'_>>; N]) -> Self {
        const { assert!(N <= ROOM, "more tensors than plans have places for") };
        let operand = |tensor: Named<'_>| {
            let Region { address, width, layout } = tensor.region;
            let bytes = (layout.extent() * width) as u64;
            Operand {
                name: tensor.name,
                dtype: tensor.dtype,
                layout: *layout,
                align: alignment(address),
                bytes,
            }
        };
        Operands { device: device.clone(), all: tensors.map(|tensor| tensor.map(operand)).into() }
    }

    /// The same of tensors that are checked to be on `device` and of sizes that kernels count.
    #[cfg(any(feature = "pointwise", feature = "rows"))]
    pub(crate) fn checked<const N: usize>(device: &Device, tensors: [Option<Named<'_>>; N]) -> Result<Self> {
        tensors.iter().flatten().try_for_each(|tensor| tensor.expect_countable_on(device))?;
        Ok(Self::new(device, tensors))
    }

    /// Whether these tensors are as the plan was made for.
    #[cfg(feature = "mla")]
    pub(crate) fn are_like(&self, tensors: &[Option<Named<'_>>]) -> bool {
        let alike = |(operand, tensor): (&Option<Operand>, &Option<Named<'_>>)| match (operand, tensor) {
            (Some(operand), Some(tensor)) => operand.expect(tensor, &self.device).is_ok(),
            (None, None) => true,
            _ => false,
        };
        self.all.iter().zip(tensors).all(alike)
    }

    /// Where the tensors of a run on `stream` lie, in the same order, and that they are as the plan was made for; what is written lies apart
    /// from all else, and from the `room` that the run has.
    pub(crate) fn places<const N: usize>(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; N],
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        const { assert!(N <= ROOM, "more tensors than plans have places for") };
        stream.expect_on(&self.device)?;
        let mut places = Places([0; MOST]);
        let mut spans = [(0, 0); MOST];
        for (number, (tensor, operand)) in tensors.iter().zip(&self.all).enumerate() {
            let (operand, tensor) = match (operand, tensor) {
                (Some(operand), Some(tensor)) => (operand, tensor),
                (None, None) => continue,
                (Some(operand), None) => {
                    let allowed = "given: the plan was made with it";
                    return Err(Error::argument(operand.name, "not given", allowed));
                }
                (None, Some(tensor)) => {
                    let allowed = "left out: the plan was made without it";
                    return Err(Error::argument(tensor.name, "given", allowed));
                }
            };
            operand.expect(tensor, &self.device)?;
            let address = tensor.region.address;
            places.0[number] = address.wrapping_sub(place(number, operand.align));
            spans[number] = (address, address + operand.bytes);
        }
        if let Some(room) = &room {
            self.device.expect_same(room.device, room.name)?;
            expect_memory(&room.region, room.name)?;
            let span = room.region.span();
            spans[N] = (span.start, span.end);
        }
        let all = || {
            let tensors = tensors.iter().chain([&room]).zip(&spans).enumerate();
            tensors.filter_map(|(number, (tensor, span))| Some((number, tensor.as_ref()?, span)))
        };
        let meet = |(from, to): &(u64, u64), (start, end): &(u64, u64)| {
            from < to && start < end && from < end && start < to
        };
        for (i, one, span) in all().filter(|(_, one, _)| one.written) {
            for (j, other, its) in all() {
                if (j < i || j > i && !other.written) && meet(span, its) && one.region.overlaps(&other.region)
                {
                    return Err(Error::Overlap { written: one.name, other: other.name });
                }
            }
        }
        Ok(places)
    }
}

#[cfg(any(feature = "pointwise", feature = "rows"))]
impl Named<'_> {
    /// The tensor where a plan has it by this number.
    pub(crate) fn planned(&self, number: usize) -> Untyped {
        let Region { address, layout, .. } = self.region;
        Untyped { address: place(number, address), dtype: self.dtype, layout: *layout }
    }
}

/// All of them that decides how long a call takes.
impl fmt::Display for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Operand { name, dtype, layout, align, .. } in self.all.iter().flatten() {
            write!(f, " {name} {dtype} {:?} by {:?} at {align}", layout.shape(), layout.strides())?;
        }
        Ok(())
    }
}

impl Operand {
    /// Checks that a tensor is as the planned one was.
    fn expect(&self, tensor: &Named<'_>, device: &Device) -> Result<()> {
        device.expect_same(tensor.device, tensor.name)?;
        let &Region { address, layout, .. } = &tensor.region;
        let planned = |what: String| format!("{what}, for which the plan was made");
        let wrong = |was: String, allowed: String| Err(Error::argument(tensor.name, was, planned(allowed)));
        if tensor.dtype != self.dtype {
            return wrong(format!("of {}", tensor.dtype), format!("of {}", self.dtype));
        }
        if *layout != self.layout {
            if layout.shape() != self.layout.shape() {
                return wrong(of_shape(layout.shape()), of_shape(self.layout.shape()));
            }
            // Of single lines the strides mean nothing, nor of a tensor without elements.
            if self.bytes > 0 && layout.dims().zip(self.layout.dims()).any(|(a, b)| a.0 > 1 && a.1 != b.1) {
                let of = |layout: &Layout| format!("of strides {:?}", layout.strides());
                return wrong(of(layout), of(&self.layout));
            }
        }
        expect_memory(&tensor.region, tensor.name)?;
        if self.bytes > 0 && alignment(address) < self.align {
            return wrong(format!("at {address:#x}"), format!("aligned to {} bytes", self.align));
        }
        Ok(())
    }
}

impl Places {
    /// Those of a plan's first tensors, by how each is aligned there and its address.
    #[cfg(feature = "dequant_gemm")]
    pub(crate) fn lying<const N: usize>(tensors: [(u64, u64); N]) -> Self {
        const { assert!(N <= ROOM, "more tensors than plans have places for") };
        let mut places = Places([0; MOST]);
        for (number, (align, address)) in tensors.into_iter().enumerate() {
            places.0[number] = address.wrapping_sub(place(number, align));
        }
        places
    }

    /// With the workspace of a run at this address, which the plan has at [`PLANNED_ROOM`].
    pub(crate) fn with_room(mut self, address: u64) -> Self {
        self.0[ROOM] = address.wrapping_sub(PLANNED_ROOM);
        self
    }

    /// Where what the plan has at this address lies.
    pub(crate) fn at(&self, planned: u64) -> u64 {
        let number = (planned >> APART) as usize;
        // What has no place has no memory.
        let by = number.checked_sub(1).and_then(|number| self.0.get(number)).copied().unwrap_or(0);
        planned.wrapping_add(by)
    }

    /// The tensor there.
    pub(crate) fn of(&self, planned: &Untyped) -> Untyped {
        Untyped { address: self.at(planned.address), ..*planned }
    }
}
