//! Lanes of a warp together, when not all of them are there.

use super::{Kernel, bytes, load, store};
use crate::random::Random;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(1);
    let mut values = |words: usize, below: usize| bytes((0..words).map(|_| random.below(below) as u32));
    // Odd lanes one way, even ones the other.
    let split = |odd: &str, even: &str| {
        format!(
            "{}and.b32 %r9, %id, 1;\nsetp.eq.u32 %p0, %r9, 1;\nmov.u32 %r4, 0;\nmov.u32 %r5, 0;\n@%p0 bra ODD;\n{even}\nbra END;\n\
             ODD:\n{odd}\nEND:\n{}",
            load(0, 2, 0, 32),
            store(4, 2, 0)
        )
    };
    let (odd, even) = ("0xaaaaaaaa", "0x55555555");
    let mut kernels = Vec::new();
    let both = [
        "shfl.sync.idx.b32 %r4|%p1, %r0, %r9, 0x1f, MASK;\nselp.b32 %r5, 1, 0, %p1;",
        "shfl.sync.bfly.b32 %r4|%p1, %r0, 6, 0x1f, MASK;\nselp.b32 %r5, 1, 0, %p1;",
        "shfl.sync.up.b32 %r4|%p1, %r0, 4, 0x0, MASK;\nselp.b32 %r5, 1, 0, %p1;",
        "shfl.sync.down.b32 %r4|%p1, %r0, 2, 0x1f, MASK;\nselp.b32 %r5, 1, 0, %p1;",
        "vote.sync.ballot.b32 %r4, %p0, MASK;\nsetp.gt.u32 %p2, %r0, 2;\nvote.sync.ballot.b32 %r5, %p2, MASK;",
        "setp.gt.u32 %p2, %r0, 0;\nvote.sync.all.pred %p1, %p2, MASK;\nselp.b32 %r4, 1, 0, %p1;",
        "match.any.sync.b32 %r4, %r0, MASK;",
        "redux.sync.add.u32 %r4, %r0, MASK;\nredux.sync.max.s32 %r5, %r1, MASK;",
        "bar.warp.sync MASK;\nredux.sync.xor.b32 %r4, %r0, MASK;",
    ];
    for text in both {
        let name = format!("odd and even lanes: {}", text.replace('\n', " "));
        let body = split(&text.replace("MASK", odd), &text.replace("MASK", even));
        kernels.push(Kernel::new(name, 2, body).input(values(64, 4)));
    }
    // Lanes of one mask at different instructions: not of those that have ended.
    let ended = "setp.ge.u32 %p0, %id, 20;\n@%p0 bra GONE;\nvote.sync.ballot.b32 %r4, %p0, 0x000fffff;\n\
        shfl.sync.down.b32 %r5, %id, 3, 0x1f, 0x000fffff;\nadd.u32 %r6, %id, 3;\nsetp.ge.u32 %p1, %r6, 20;\n\
        @%p1 mov.u32 %r5, 77;\n";
    let body = format!("{ended}{}GONE:\n", store(4, 2, 0));
    kernels.push(Kernel::new("twenty lanes of a warp", 2, body));
    // Segments of eight lanes.
    let segments = [0x1800u32, 0x181f, 0x1807, 0x1c03, 0x0f1f, 0x001f];
    for mode in ["up", "down", "bfly", "idx"] {
        for segment in segments {
            let body = format!(
                "{}shfl.sync.{mode}.b32 %r4|%p1, %r0, %r1, {segment:#x}, -1;\nselp.b32 %r5, 1, 0, %p1;\n{}",
                load(0, 2, 0, 32),
                store(4, 2, 0)
            );
            let name = format!("shfl.sync.{mode} with {segment:#x}");
            kernels.push(Kernel::new(name, 2, body).input(values(64, 32)));
        }
    }
    kernels
}
