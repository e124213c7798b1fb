//! A rank of a group of GPUs, and its collectives.

use std::sync::Arc;

use super::group::Group;
use super::transport::{Collective, Kind, Share, Transport};
use crate::ops::FloatElement;
use crate::ops::frame::{Named, check};
use crate::{Device, Error, Event, Result, Stream, TensorView, TensorViewMut};

/// How a group computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommunicatorOptions {
    /// The most CTAs of the kernel of a collective that runs beside a product, 1 to 32: the product leaves them as many SMs. Other collectives take as many as NCCL
    /// likes.
    pub ctas: u32,
}

impl Default for CommunicatorOptions {
    fn default() -> Self {
        CommunicatorOptions { ctas: 4 }
    }
}

impl CommunicatorOptions {
    /// With other [`ctas`](Self::ctas).
    pub fn ctas(self, ctas: u32) -> Self {
        CommunicatorOptions { ctas }
    }
}

/// A rank of a group of GPUs that compute together.
///
/// Each rank calls the same collectives in the same order, from a thread of its own: a call waits for the other ranks' calls, not for their devices. Ranks that
/// call different ones get an error, and so does who calls one that a rank was dropped before; nothing of such a collective is queued, and the group is of no use
/// then. Who captures collectives keeps the communicators until the graph is dropped. Collectives add in an order that does not change from call to call, so the same call gives the same bits; and the sums are the same on all ranks.
#[derive(Debug)]
pub struct Communicator {
    device: Device,
    rank: usize,
    ctas: u32,
    /// Collectives called.
    called: u64,
    /// For collectives beside products.
    pub(super) beside: Beside,
    group: Arc<Group>,
    transport: Box<dyn Transport>,
}

/// The stream on which collectives run beside products, and the marks that put the two in order.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) stream: Stream,
    pub(super) ready: Event,
    pub(super) done: Event,
}

impl Communicator {
    /// A group of one process: rank i is on the i-th device. Each is for a thread of its own.
    ///
    /// On GPUs these are different ones, and there is NCCL: the feature `nccl`, and `libnccl.so` where the loader looks for libraries (of
    /// `libnccl.so.2` alone, as PyTorch brings it, a link by that name). Emulators may be any, one for all ranks too.
    ///
    /// # Errors
    /// If there are no devices, GPUs and emulators among them, a GPU twice, or `ctas` is not from 1 to 32; without NCCL, or where it fails.
    pub fn all(devices: &[Device], options: CommunicatorOptions) -> Result<Vec<Self>> {
        let CommunicatorOptions { ctas } = options;
        if !(1..=32).contains(&ctas) {
            return Err(Error::argument("ctas", ctas.to_string(), "from 1 to 32"));
        }
        let of_devices = |was: String, allowed: &'static str| Error::argument("devices", was, allowed);
        let Some(first) = devices.first() else {
            return Err(of_devices("none".into(), "one or more"));
        };
        if let Some(other) = devices.iter().find(|device| device.is_emulator() != first.is_emulator()) {
            let was = format!("{} and {}", first.label(), other.label());
            return Err(of_devices(was, "GPUs alone or emulators alone"));
        }
        let twice = |(i, device): (usize, &Device)| devices.iter().take(i).any(|before| before == device);
        if let Some((_, device)) =
            devices.iter().enumerate().find(|&(i, device)| !device.is_emulator() && twice((i, device)))
        {
            return Err(of_devices(format!("{} twice", device.label()), "different GPUs"));
        }
        let transports = transports(devices, ctas)?;
        let group = Group::new(devices.len());
        let rank = |(rank, (device, transport)): (usize, (&Device, Box<dyn Transport>))| {
            let beside = Beside {
                stream: Stream::urgent(device)?,
                ready: Event::new(device)?,
                done: Event::new(device)?,
            };
            let (device, group) = (device.clone(), group.clone());
            Ok(Communicator { device, rank, ctas, called: 0, beside, group, transport })
        };
        devices.iter().zip(transports).enumerate().map(rank).collect()
    }

    /// The device that it computes on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Which one it is, from 0 on.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.group.ranks()
    }
    /// SMs that a product beside a collective has, and those that it leaves.
    pub(super) fn sms_beside(&self) -> [u32; 2] {
        [self.device.sm_count().saturating_sub(self.ctas).max(1), self.ctas]
    }

    /// Puts the sums over all ranks in place of `x`, contiguous, of one length on all ranks.
    ///
    /// # Errors
    /// If `x` is not contiguous or lies on another device, if ranks do not agree, or NCCL fails.
    pub fn all_reduce<T: FloatElement>(
        &mut self,
        stream: &Stream,
        x: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.all_reduce_in(Share::Alone, stream, x)
    }

    pub(super) fn all_reduce_in<T: FloatElement>(
        &mut self,
        share: Share,
        stream: &Stream,
        x: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        expect_contiguous(x.is_contiguous(), "x", x.shape(), x.strides())?;
        let what = Collective { kind: Kind::AllReduce, dtype: T::DTYPE, count: x.len() };
        check(&self.device, [Named::written("x", x)])?;
        // SAFETY: x is the caller's alone, contiguous, and has `count` elements; it stays until the device has done the work.
        unsafe { self.queue((what, share), x.address(), x.address(), stream) }
    }

    /// Sums `x` over all ranks: rank r gets the r-th part of the sums, of the elements in row-major order. Both are contiguous, and `x` has as
    /// many elements as there are ranks for each of `y`.
    ///
    /// # Errors
    /// As of [`all_reduce`](Self::all_reduce), and if the lengths do not fit or the two overlap.
    pub fn reduce_scatter<T: FloatElement>(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.reduce_scatter_in(Share::Alone, stream, x, y)
    }

    pub(super) fn reduce_scatter_in<T: FloatElement>(
        &mut self,
        share: Share,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.expect_parts(("x", x.len()), ("y", y.len()))?;
        self.between((Kind::ReduceScatter, share), stream, x, y, y.len())
    }

    /// Puts the ranks' parts one behind the other: `y`, of elements in row-major order, has rank r's `x` as its r-th part. Both are contiguous,
    /// and `y` has as many elements as there are ranks for each of `x`.
    ///
    /// # Errors
    /// As of [`reduce_scatter`](Self::reduce_scatter).
    pub fn all_gather<T: FloatElement>(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.all_gather_in(Share::Alone, stream, x, y)
    }

    pub(super) fn all_gather_in<T: FloatElement>(
        &mut self,
        share: Share,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.expect_parts(("y", y.len()), ("x", x.len()))?;
        self.between((Kind::AllGather, share), stream, x, y, x.len())
    }

    fn expect_parts(&self, all: (&'static str, usize), part: (&'static str, usize)) -> Result<()> {
        if part.1.checked_mul(self.ranks()) == Some(all.1) {
            return Ok(());
        }
        let allowed = format!("of {} for each of the {} of `{}`", self.ranks(), part.1, part.0);
        Err(Error::argument(all.0, format!("of {} elements", all.1), allowed))
    }

    fn between<T: FloatElement>(
        &mut self,
        (kind, share): (Kind, Share),
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        count: usize,
    ) -> Result<()> {
        expect_contiguous(x.is_contiguous(), "x", x.shape(), x.strides())?;
        expect_contiguous(y.is_contiguous(), "y", y.shape(), y.strides())?;
        check(&self.device, [Named::read("x", x), Named::written("y", y)])?;
        let what = Collective { kind, dtype: T::DTYPE, count };
        // SAFETY: both are contiguous, apart, of lengths that were checked, y is the caller's alone; they stay until the device has done the work.
        unsafe { self.queue((what, share), x.address(), y.address(), stream) }
    }

    /// # Safety
    /// As of [`Transport::queue`], but that ranks call the same is checked.
    unsafe fn queue(
        &mut self,
        (what, share): (Collective, Share),
        from: u64,
        to: u64,
        stream: &Stream,
    ) -> Result<()> {
        stream.expect_on(&self.device)?;
        self.group.meet(self.rank, self.called, what)?;
        self.called += 1;
        if what.count == 0 {
            return Ok(());
        }
        // SAFETY: promised by the caller; the group has agreed.
        let queued = unsafe { self.transport.queue(what, share, from, to, stream) };
        if let Err(error) = &queued {
            self.transport.abort();
            self.group.break_off(format!("broken: {what} failed on rank {}: {error}", self.rank));
        }
        queued
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.group.leave(self.rank, self.called);
    }
}

pub(super) fn expect_contiguous(
    contiguous: bool,
    name: &'static str,
    shape: &[usize],
    strides: &[usize],
) -> Result<()> {
    if contiguous {
        return Ok(());
    }
    Err(Error::argument(name, format!("of shape {shape:?} with strides {strides:?}"), "contiguous"))
}

/// An end for each rank.
fn transports(devices: &[Device], ctas: u32) -> Result<Vec<Box<dyn Transport>>> {
    #[cfg(feature = "emulator")]
    if devices.iter().any(Device::is_emulator) {
        return Ok(super::emulated::all(devices.len()));
    }
    #[cfg(feature = "nccl")]
    return super::nccl::all(devices, ctas);
    #[cfg(not(feature = "nccl"))]
    {
        let (_, was) = (ctas, format!("{} GPUs", devices.len()));
        let allowed = "emulators: this build is without the feature `nccl` of tilewright";
        Err(Error::argument("devices", was, allowed))
    }
}
