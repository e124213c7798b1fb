//! `cp.async`, and bulk copies and reductions without a tensor map.

use super::elements::Element;
use super::{Kernel, bytes, store, wait};
use crate::random::Random;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(5);
    let mut kernels = Vec::new();
    for (size, cache) in [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")] {
        for partly in [false, true] {
            kernels.push(asynchronous(size, cache, partly, &mut random));
        }
    }
    kernels.push(counted(&mut random));
    for size in [16, 1024, 4080] {
        kernels.push(in_and_out(size, &mut random));
    }
    let operations = [
        ("add", "u32", Element::U8),
        ("add", "s32", Element::U8),
        ("add", "u64", Element::U8),
        ("add.noftz", "f16", Element::F16),
        ("add.noftz", "bf16", Element::Bf16),
        ("add", "f32", Element::Tf32),
        ("min", "u32", Element::U8),
        ("max", "s32", Element::U8),
        ("min", "s64", Element::U8),
        ("max", "u64", Element::U8),
        ("min", "f16", Element::F16),
        ("max", "bf16", Element::Bf16),
        ("inc", "u32", Element::U8),
        ("dec", "u32", Element::U8),
        ("and", "b32", Element::U8),
        ("or", "b64", Element::U8),
        ("xor", "b32", Element::U8),
        ("add", "f64", Element::U8),
    ];
    for (operation, ty, element) in operations {
        for any in [false, true] {
            kernels.push(reduction(operation, ty, element, any, &mut random));
        }
    }
    kernels
}

fn words(count: usize, random: &mut Random) -> Vec<u8> {
    bytes((0..count).map(|_| random.bits() as u32))
}

fn asynchronous(size: usize, cache: &str, partly: bool, random: &mut Random) -> Kernel {
    let (end, name) = if partly {
        // As many bytes as the thread's number says, modulo one more than all.
        (", %r1", format!("cp.async.{cache} of {size} bytes, some of them"))
    } else {
        ("", format!("cp.async.{cache} of {size} bytes"))
    };
    let body = format!(
        "mad.lo.u32 %r0, %id, 16, %shared;\nmad.wide.u32 %d0, %id, 16, %in;\nrem.u32 %r1, %id, {};\n\
         cp.async.{cache}.shared.global [%r0], [%d0+2048], {size}{end};\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
         ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r0];\n{}",
        size + 1,
        store(4, 4, 0)
    );
    let mut kernel = Kernel::new(name, 4, body).threads(64).input(words(1024, random));
    kernel.filled = 1024;
    kernel.launch.dynamic_shared = 1024;
    kernel
}

/// Copies that an mbarrier counts.
fn counted(random: &mut Random) -> Kernel {
    let body = format!(
        "add.u32 %r1, %shared, 1024;\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra GO;\nmbarrier.init.shared.b64 [%r1], 64;\nGO:\n\
         bar.sync 0;\nmad.lo.u32 %r0, %id, 16, %shared;\nmad.wide.u32 %d0, %id, 16, %in;\n\
         cp.async.cg.shared.global [%r0], [%d0+2048], 16;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r1];\n{}\
         xor.b32 %r2, %id, 33;\nmad.lo.u32 %r0, %r2, 16, %shared;\nld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r0];\n{}",
        wait("%r1", 0, "COPIED"),
        store(4, 4, 0)
    );
    let mut kernel =
        Kernel::new("cp.async counted by an mbarrier", 4, body).threads(64).input(words(1024, random));
    kernel.filled = 1024;
    kernel.launch.dynamic_shared = 1024 + 16;
    kernel
}

/// A bulk copy to shared memory and back, into another place.
fn in_and_out(size: usize, random: &mut Random) -> Kernel {
    let body = format!(
        "add.u32 %r1, %shared, 4096;\nsetp.ne.u32 %p0, %id, 0;\n@%p0 bra END;\nmbarrier.init.shared.b64 [%r1], 1;\n\
         fence.mbarrier_init.release.cluster;\nfence.proxy.async;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r1], {size};\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%shared], [%in], {size}, [%r1];\n{}\
         ld.shared.b32 %r2, [%shared+8];\nadd.u32 %r2, %r2, 1;\nst.shared.b32 [%shared+8], %r2;\nfence.proxy.async;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%out+16], [%shared], {size};\ncp.async.bulk.commit_group;\n\
         cp.async.bulk.wait_group 0;\nEND:\n",
        wait("%r1", 0, "COPIED"),
    );
    let mut kernel = Kernel::new(format!("bulk copies of {size} bytes"), 33, body).input(words(1024, random));
    kernel.launch.dynamic_shared = 4096 + 16;
    kernel
}

/// 512 bytes of the output, which a store has put there, combined with shared memory.
fn reduction(operation: &str, ty: &str, element: Element, any: bool, random: &mut Random) -> Kernel {
    let each =
        if any { |_: Element, random: &mut Random| random.bits() as u32 & 0xffff } else { Element::any };
    let input = match (element, any) {
        (Element::Tf32, true) => (0..256).map(|_| random.bits() as u32).collect(),
        (Element::U8, _) => Element::U8.words(256, random, Element::any),
        _ => element.words(256, random, each),
    };
    let body = format!(
        "mul.wide.u32 %d0, %id, 16;\nadd.u64 %d1, %in, %d0;\nld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1+512];\n\
         add.u64 %d1, %out, %d0;\nst.global.v4.b32 [%d1], {{%r0, %r1, %r2, %r3}};\nfence.proxy.async;\nbar.sync 0;\n\
         setp.ne.u32 %p0, %id, 0;\n@%p0 bra END;\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{ty} [%out], [%shared], 512;\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n"
    );
    let name = format!("cp.reduce.async.bulk.{operation}.{ty}{}", if any { " of any bits" } else { "" });
    let mut kernel = Kernel::new(name, 4, body).input(bytes(input));
    kernel.filled = 512;
    kernel.launch.dynamic_shared = 512;
    kernel
}
