//! `ldmatrix`, `stmatrix` and `movmatrix`.

use super::{Kernel, bytes, load, registers, store};
use crate::random::Random;

const ROWS: usize = 64;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(2);
    let mut kernels = Vec::new();
    for (count, trans) in [1, 2, 4].into_iter().flat_map(|count| [(count, ""), (count, ".trans")]) {
        // Each lane's row is one of 64, anywhere; then the words themselves.
        let rows = (0..32).map(|_| random.below(ROWS) as u32 * 16).collect::<Vec<_>>();
        let data: Vec<_> = (0..ROWS * 4).map(|_| random.bits() as u32).collect();
        let input = bytes(rows.into_iter().chain(data));
        let address =
            "mad.lo.u32 %r0, %id, 4, %shared;\nld.shared.b32 %r0, [%r0];\nadd.u32 %r0, %r0, %shared;\n";
        let body = format!(
            "{address}ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{}}}, [%r0+128];\n{}",
            registers(4, count),
            store(4, count, 0)
        );
        kernels.push(Kernel::new(format!("ldmatrix.x{count}{trans}"), count, body).shared(input.clone()));
        // Rows of their own, in an order that is not theirs.
        let rows = (0..32u32).map(|lane| (lane * 13 + 5) % 32 * 16);
        let data: Vec<_> = (0..ROWS * 4).map(|_| random.bits() as u32).collect();
        let input = bytes(rows.chain(data));
        let body = format!(
            "{address}mad.lo.u32 %r1, %id, 16, %shared;\nld.shared.v4.b32 {{{}}}, [%r1+640];\n\
             stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r0+128], {{{}}};\nbar.sync 0;\n\
             ld.shared.v4.b32 {{{}}}, [%r1+128];\n{}",
            registers(4, 4),
            registers(4, count),
            registers(4, 4),
            store(4, 4, 0)
        );
        kernels.push(Kernel::new(format!("stmatrix.x{count}{trans}"), 4, body).shared(input));
    }
    let input = bytes((0..32).map(|_| random.bits() as u32));
    let body =
        format!("{}movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r0;\n{}", load(0, 1, 0, 32), store(4, 1, 0));
    kernels.push(Kernel::new("movmatrix", 1, body).input(input));
    kernels
}
