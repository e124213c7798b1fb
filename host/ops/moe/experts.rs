//! The matrices that a layer's experts multiply by.

use super::room::ALIGNED;
use crate::ops::frame::{Named, of_shape};
use crate::ops::{Activation, GroupRows, GroupedGemm, HalfElement};
#[cfg(feature = "dequant_gemm")]
use crate::ops::{DeviceWeights, GroupedDequantGemm};
use crate::{Device, Element, Error, Result, Stream, TensorView, TensorViewMut};

/// A layer's matrices of one product, all experts': of [`Moe::run`](super::Moe::run). Which forms there are depends on the crate's features.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Experts<'a, T: Element> {
    /// \[experts, K, N\] of the layer's type, with any strides.
    Halves(&'a TensorView<'a, T>),
    /// Narrow weights of \[experts · N, K\], as [`GroupedDequantGemm`] takes them: for N columns of the product, a multiple of 64 where there is more than one expert.
    #[cfg(feature = "dequant_gemm")]
    Narrow(&'a DeviceWeights),
}

impl<'a, T: Element> From<&'a TensorView<'a, T>> for Experts<'a, T> {
    fn from(all: &'a TensorView<'a, T>) -> Self {
        Experts::Halves(all)
    }
}

#[cfg(feature = "dequant_gemm")]
impl<'a, T: Element> From<&'a DeviceWeights> for Experts<'a, T> {
    fn from(all: &'a DeviceWeights) -> Self {
        Experts::Narrow(all)
    }
}

impl<T: Element> Experts<'_, T> {
    /// Checks that they are \[experts, K, N\]; `why` goes to the error about the argument `name`.
    pub(super) fn expect(&self, name: &'static str, [experts, k, n]: [usize; 3], why: &str) -> Result<()> {
        let (is, must, what) = match self {
            Experts::Halves(all) => (all.shape().to_vec(), vec![experts, k, n], ""),
            #[cfg(feature = "dequant_gemm")]
            Experts::Narrow(all) => (all.shape().to_vec(), vec![experts.saturating_mul(n), k], ", narrow"),
        };
        if is == must {
            return Ok(());
        }
        Err(Error::argument(name, of_shape(&is), format!("{}{what}: {why}", of_shape(&must))))
    }

    /// How many they are and their K, if each has `n` columns.
    pub(super) fn sizes(&self, n: usize) -> (usize, usize) {
        match self {
            Experts::Halves(all) => match all.shape() {
                [experts, k, ..] => (*experts, *k),
                _ => (0, 0),
            },
            #[cfg(feature = "dequant_gemm")]
            Experts::Narrow(all) => (all.shape()[0] / n.max(1), all.shape()[1]),
        }
    }

    /// Checks that they are on the device.
    pub(super) fn expect_on(&self, device: &Device, name: &'static str) -> Result<()> {
        match self {
            Experts::Halves(all) => device.expect_same(all.device(), name),
            #[cfg(feature = "dequant_gemm")]
            Experts::Narrow(all) => device.expect_same(all.device(), name),
        }
    }

    /// The tensor of the layer's type, if they are one.
    pub(super) fn halves(&self) -> Option<&TensorView<'_, T>> {
        match self {
            Experts::Halves(all) => Some(all),
            #[cfg(feature = "dequant_gemm")]
            Experts::Narrow(_) => None,
        }
    }

    /// As a tensor that is read, if they are one.
    pub(super) fn named(&self, name: &'static str) -> Option<Named<'_>> {
        self.halves().map(|all| Named::read(name, all))
    }
}

impl<T: HalfElement> Experts<'_, T> {
    /// Queues C = A times them, group by group.
    pub(super) fn multiply(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        match self {
            Experts::Halves(all) => GroupedGemm::new().run(stream, a, all, rows, c),
            #[cfg(feature = "dequant_gemm")]
            Experts::Narrow(all) => GroupedDequantGemm::new().run(stream, a, all, rows, c),
        }
    }

    /// Whether a kernel multiplies so many rows by them, gates and ups, and stores the units.
    pub(super) fn have_gated_kernel(&self, entries: usize) -> Result<bool> {
        let Some(all) = self.halves() else { return Ok(false) };
        let &[experts, hidden, columns] = all.shape() else { return Ok(false) };
        let (device, inner) = (all.device(), columns / 2);
        // Rows and units as they lie in the workspace. Which activation it is decides nothing.
        let rows = TensorView::without_memory(device, &[entries, hidden], &[hidden, 1], ALIGNED as u64)?;
        let units = TensorViewMut::without_memory(device, &[entries, inner], &[inner, 1], ALIGNED as u64)?;
        let offsets = TensorView::<i32>::without_memory(device, &[experts + 1], &[1], ALIGNED as u64)?;
        let gemm = GroupedGemm::new().gated(Activation::Silu);
        let of = GroupRows::offsets(offsets.planned(2));
        let kernels = gemm.candidates(&rows.planned(0), &all.planned(1), &of, &units.planned(3))?;
        Ok(kernels.iter().any(|kernel| kernel.rejection().is_none()))
    }
}
