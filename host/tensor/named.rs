//! The tensors of a call: on its device, of sizes that kernels count, and apart where one is written.

use super::planned::expect_memory;
use super::{Region, TensorView, TensorViewMut};
use crate::{DType, Device, Element, Error, Result};

/// A tensor of a call, by the name of its argument.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub(super) name: &'static str,
    pub(super) device: &'a Device,
    pub(super) dtype: DType,
    /// The sizes that kernels are told; none of memory that is no more than room.
    shape: &'a [usize],
    pub(super) region: Region<'a>,
    pub(super) written: bool,
}

impl<'a> Named<'a> {
    /// One that is read.
    pub fn read<T: Element>(name: &'static str, view: &'a TensorView<'_, T>) -> Self {
        let (device, shape, region) = (view.device(), view.shape(), view.region());
        Named { name, device, dtype: T::DTYPE, shape, region, written: false }
    }

    /// One that is written.
    pub fn written<T: Element>(name: &'static str, view: &'a TensorViewMut<'_, T>) -> Self {
        let (device, shape, region) = (view.device(), view.shape(), view.region());
        Named { name, device, dtype: T::DTYPE, shape, region, written: true }
    }

    /// Room for what a kernel writes and reads again.
    pub fn room<T: Element>(name: &'static str, view: &'a TensorViewMut<'_, T>) -> Self {
        Named { shape: &[], ..Self::written(name, view) }
    }

    #[cfg(any(feature = "pointwise", feature = "rows"))]
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(any(feature = "pointwise", feature = "rows"))]
    pub(crate) fn is_written(&self) -> bool {
        self.written
    }

    /// Of memory that is no more than room: none.
    #[cfg(any(feature = "pointwise", feature = "rows"))]
    pub(crate) fn shape(&self) -> &'a [usize] {
        self.shape
    }

    #[cfg(any(feature = "pointwise", feature = "rows"))]
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Checks that it is on `device`, and of sizes that kernels count.
    pub(super) fn expect_countable_on(&self, device: &Device) -> Result<()> {
        device.expect_same(self.device, self.name)?;
        if self.shape.iter().any(|&size| u32::try_from(size).is_err()) {
            return Err(Error::argument(self.name, of_shape(self.shape), "of sizes below 2^32"));
        }
        Ok(())
    }
}

/// Checks all tensors of a call on `device`: a tensor that is written must not overlap another one, whichever it is.
///
/// An error about two of them names the one that is written; of two that are written, the one listed last.
pub fn check<'a>(
    device: &Device,
    tensors: impl IntoIterator<Item = Named<'a>, IntoIter: Clone>,
) -> Result<()> {
    let tensors = tensors.into_iter();
    for tensor in tensors.clone() {
        tensor.expect_countable_on(device)?;
        expect_memory(&tensor.region, tensor.name)?;
    }
    for (i, one) in tensors.clone().enumerate().filter(|(_, one)| one.written) {
        let mut others = tensors.clone().enumerate().filter(|(j, other)| *j < i || *j > i && !other.written);
        if let Some((_, other)) = others.find(|(_, other)| one.region.overlaps(&other.region)) {
            return Err(Error::Overlap { written: one.name, other: other.name });
        }
    }
    Ok(())
}

/// What an argument was, in an error about its shape.
pub fn of_shape(shape: &[usize]) -> String {
    format!("of shape {shape:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::{self, VAST};

    fn view(device: &Device, at: u64) -> TensorView<'static, f32> {
        // SAFETY: nothing reads the memory of a fake device.
        unsafe { TensorView::from_raw_parts(device, VAST + at, &[8], &[1]) }.unwrap()
    }

    fn view_mut(device: &Device, at: u64) -> TensorViewMut<'static, f32> {
        // SAFETY: as above.
        unsafe { TensorViewMut::from_raw_parts(device, VAST + at, &[8], &[1]) }.unwrap()
    }

    #[test]
    fn whatever_is_written_lies_apart_from_everything_else() {
        let (device, _) = fake::h200();
        let places = |at: [u64; 4]| {
            let (a, b) = (view(&device, at[0]), view(&device, at[1]));
            let (c, room) = (view_mut(&device, at[2]), view_mut(&device, at[3]));
            let tensors = [
                Named::read("a", &a),
                Named::written("c", &c),
                Named::read("b", &b),
                Named::room("room", &room),
            ];
            check(&device, tensors).map_err(|error| error.to_string())
        };
        let says = |written: &str, other: &str| {
            let rule = "what a call writes must lie apart from all else that it uses";
            Err(format!("`{written}` overlaps `{other}`; {rule}"))
        };
        assert_eq!(places([0, 0, 32, 64]), Ok(()));
        assert_eq!(places([0, 32, 28, 64]), says("c", "a"));
        assert_eq!(places([0, 60, 32, 92]), says("c", "b"));
        assert_eq!(places([0, 96, 32, 4]), says("room", "a"));
        assert_eq!(places([0, 96, 32, 100]), says("room", "b"));
        assert_eq!(places([0, 96, 32, 60]), says("room", "c"));
    }

    #[test]
    fn another_device_comes_before_an_overlap_there() {
        let ((device, _), (other, _)) = (fake::h200(), fake::device((9, 0)));
        let (a, c) = (view(&device, 0), view_mut(&other, 0));
        let error = check(&device, [Named::read("a", &a), Named::room("room", &c)]);
        let text = "`room` was on fake:0; it must be on fake:1, the device of this call";
        assert_eq!(error.unwrap_err().to_string(), text);
    }

    #[test]
    fn sizes_are_counted_in_32_bits() {
        let (device, _) = fake::h200();
        // SAFETY: nothing reads the memory of a fake device.
        let long = unsafe { TensorView::<f32>::from_raw_parts(&device, VAST, &[67, 1 << 32], &[0, 1]) };
        let error = check(&device, [Named::read("a", &long.unwrap())]).unwrap_err();
        assert_eq!(error.to_string(), "`a` was of shape [67, 4294967296]; it must be of sizes below 2^32");
        // SAFETY: as above.
        let room = unsafe { TensorViewMut::<f32>::from_raw_parts(&device, VAST, &[1 << 32], &[1]) };
        assert_eq!(check(&device, [Named::room("room", &room.unwrap())]), Ok(()));
    }
}
