//! Some of a fragment's rows or columns, as a fragment.

use crate::layout::{FragmentLayout, Registers};
use crate::refuse;
use crate::tile::fragment::Fragment;

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The `W` columns from `FROM` on: registers that this thread has, no data moves. The builder refuses the kernel where
    /// their layout in a fragment of `W` columns gives them to other threads.
    ///
    /// ```
    /// # use tilewright_device::tile::*;
    /// /// A product of gates and ups side by side becomes their units.
    /// fn units<L>(acc: Fragment<f32, 128, 256, L>) -> Fragment<f32, 128, 128, L>
    /// where
    ///     L: FragmentLayout<128, 256> + FragmentLayout<128, 128>,
    /// {
    ///     let (gates, ups) = (acc.columns::<0, 128>(), acc.columns::<128, 128>());
    ///     gates.zip(&ups, |gate, up| Activation::Silu.apply(gate) * up)
    /// }
    /// ```
    #[inline(always)]
    pub fn columns<const FROM: usize, const W: usize>(&self) -> Fragment<T, M, W, L>
    where
        L: FragmentLayout<M, W>,
    {
        const { assert!(FROM + W <= N, "the columns lie in the fragment") };
        self.cut([0, FROM as u32])
    }

    /// The `H` rows from `FROM` on, as [`columns`](Self::columns) takes columns.
    #[inline(always)]
    pub fn rows<const FROM: usize, const H: usize>(&self) -> Fragment<T, H, N, L>
    where
        L: FragmentLayout<H, N>,
    {
        const { assert!(FROM + H <= M, "the rows lie in the fragment") };
        self.cut([FROM as u32, 0])
    }

    /// The `H` x `W` elements that begin so many rows and columns from the corner.
    #[inline(always)]
    fn cut<const H: usize, const W: usize>(&self, [down, right]: [u32; 2]) -> Fragment<T, H, W, L>
    where
        L: FragmentLayout<H, W>,
    {
        let mut out = Fragment::<T, H, W, L>::splat(self.regs.get(0));
        let mut i = 0;
        while i < <L as FragmentLayout<H, W>>::Regs::<T>::LEN {
            let (row, col) = <L as FragmentLayout<H, W>>::coord(0, i);
            let (thread, at) = <L as FragmentLayout<M, N>>::owner(row + down, col + right);
            if thread != 0 || i == 0 && !Self::are_alike::<H, W>(at, [down, right]) {
                refuse!(
                    "rows or columns are cut out of a fragment that other threads would hold by themselves"
                );
            }
            out.regs.set(i, self.regs.get(at));
            i += 1;
        }
        out
    }

    /// Whether every thread's first register of the elements that are cut out is the one of this number: the others are as far from it in all threads.
    ///
    /// Each bit of a thread's number adds the same to its place, whatever the others are: it suffices to ask for each.
    #[inline(always)]
    fn are_alike<const H: usize, const W: usize>(at: usize, [down, right]: [u32; 2]) -> bool
    where
        L: FragmentLayout<H, W>,
    {
        let (mut alike, mut thread) = (true, 1);
        while thread < <L as FragmentLayout<M, N>>::THREADS {
            let (row, col) = <L as FragmentLayout<H, W>>::coord(thread, 0);
            alike &= <L as FragmentLayout<M, N>>::coord(thread, at) == (row + down, col + right);
            thread *= 2;
        }
        alike
    }
}
