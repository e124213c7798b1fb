//! From the pixels of a strip of outputs to fragments.

use crate::arch::global;
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::copy::access::Access;
use crate::tile::copy::fragment::{per_access, scatter};
use crate::tile::copy::load::PIECE;
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::strips::StripPixel;
use crate::tile::memory::window::read_if;

impl<A, T, L, const M: usize, const N: usize> CopyTo<&mut Fragment<T, M, N, L>> for StripPixel<'_, A, T>
where
    A: Access,
    T: Element,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        const {
            assert!(
                L::ROW_LANES == 1 && L::Regs::<T>::LEN == N && (N * T::BYTES).is_multiple_of(PIECE as usize),
                "each thread holds a row of whole pieces of 16 bytes, as in `Threads<M, 1, N>`"
            )
        };
        expect_computing(L::THREADS);
        let (strip, step) = (self.strip, const { per_access::<T>(N) });
        let (images, order) = (&strip.of.images, &strip.of.order);
        let ([n, h, w, _, c], [_, height, width, _, _]) = (images.strides, images.shape);
        let ([deep, down, across], [z, y, x]) = (order.offsets(self.tap), strip.pixel);
        let across = across.wrapping_add(self.right);
        let offset = deep as u64 * n + down as u64 * h + across as u64 * w;
        let pixel = strip.pointer.wrapping_add(offset as usize);
        let inside = z.wrapping_add(deep) < order.planes
            && y.wrapping_add(down) < height
            && x.wrapping_add(across) < width;
        let channels = if inside { strip.channels } else { 0 };
        let pieces = A::VECTORS
            || (c == 1
                && images.align >= PIECE
                && (pixel as u64).is_multiple_of(PIECE as u64)
                && strip.channels.is_multiple_of(step as u32));
        let mut i = 0;
        while i < N {
            let at = pixel.wrapping_add(i);
            if pieces {
                let mut words = [0; 4];
                // SAFETY: inside the images, whose lines are whole pieces; the address is a multiple of one, by what the host knows or by what
                // was asked here.
                unsafe {
                    global::replace_cached_u32x4(&mut words, 0, at as u64, channels >= (i + step) as u32)
                }
                scatter(words, &mut to.regs, i, step);
            } else {
                let mut e = 0;
                while e < step {
                    let at = pixel.wrapping_add(((i + e) as u64 * c) as usize);
                    // SAFETY: only elements inside the images are read.
                    let bits = unsafe { read_if(at, ((i + e) as u32) < channels) };
                    to.regs.set(i + e, T::from_bits(bits));
                    e += 1;
                }
            }
            i += step;
        }
    }
}
