//! Matrix products of a warp, and how matrices come to its registers.

use tilewright_device::arch::mma::{self, I8x2, Mma};
use tilewright_device::arch::{ldmatrix, stmatrix};
use tilewright_device::{bf16, f16};

entries! { Sm80:
    matrix_loads => |r, g| {
        r.keep(ldmatrix::x1(g.shared));
        r.keep(ldmatrix::x2(g.shared));
        r.keep(ldmatrix::x4(g.shared));
        r.keep(ldmatrix::x1_trans(g.shared));
        r.keep(ldmatrix::x2_trans(g.shared));
        r.keep(ldmatrix::x4_trans(g.shared));
    }
    mma_f16 => |r, g| {
        let mut d = [g.f; 4];
        <f16 as Mma>::m16n8k16(&mut d, [g.x; 4], [g.n, g.x]);
        <f16 as Mma>::m16n8k8(&mut d, [g.x, g.n], g.n);
        r.keep(d);
    }
    mma_bf16 => |r, g| {
        let mut d = [g.f; 4];
        <bf16 as Mma>::m16n8k16(&mut d, [g.x; 4], [g.n, g.x]);
        <bf16 as Mma>::m16n8k8(&mut d, [g.x, g.n], g.n);
        r.keep(d);
    }
    mma_of_others => |r, g| {
        let mut d = [g.f; 4];
        mma::tf32_m16n8k8(&mut d, [g.x; 4], [g.n, g.x]);
        r.keep(d);
    }
    mma_i8 => |r, g| {
        let mut d = [g.x as i32; 4];
        <I8x2 as Mma<i32>>::m16n8k16(&mut d, [g.x; 4], [g.n, g.x]);
        <I8x2 as Mma<i32>>::m16n8k8(&mut d, [g.x, g.n], g.n);
        r.keep(d);
    }
}

entries! { Sm90a:
    matrix_stores => |r, g| {
        stmatrix::x1(g.shared, [g.x]);
        stmatrix::x2(g.shared, [g.x, g.n]);
        stmatrix::x4(g.shared, [g.x; 4]);
        stmatrix::x1_trans(g.shared, [g.x]);
        stmatrix::x2_trans(g.shared, [g.x, g.n]);
        stmatrix::x4_trans(g.shared, [g.x; 4]);
    }
}
