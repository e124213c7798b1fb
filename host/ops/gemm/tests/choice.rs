//! Which kernel is chosen, and what candidates and plans say.

use super::*;
use crate::Arch;
use crate::ops::frame::Descriptor;

/// The kernel's tile, its split and its architecture.
fn chosen(device: &Device, layout: &str, shape: [usize; 3]) -> ([u32; 3], u32, Arch) {
    let kernel = *Views::<f16, f16>::new(device, layout, shape).plan().kernel();
    (kernel.tile(), kernel.split(), kernel.kernel.arch)
}

#[test]
fn well_known_shapes_get_the_kernels_that_were_made_for_them() {
    let (device, _) = fake::h200();
    let large = ([128, 256, 64], 1, Arch::Sm90a);
    // In turn, of widths that fill the waves: where B's depth or B itself is contiguous, and A's depth.
    let widths =
        [([8192; 3], 144), ([4096; 3], 128), ([16384, 16384, 4096], 144), ([4096, 11008, 4096], 128)];
    for (shape, width) in widths {
        for layout in ["nn", "nt"] {
            assert_eq!(
                chosen(&device, layout, shape),
                ([256, width, 64], 1, Arch::Sm90a),
                "{layout} {shape:?}"
            );
        }
        for layout in ["tn", "tt"] {
            assert_eq!(chosen(&device, layout, shape), large, "{layout} {shape:?}");
        }
    }
    for layout in ["nn", "nt", "tn", "tt"] {
        assert_eq!(chosen(&device, layout, [2048; 3]), large, "{layout}");
    }
    for layout in ["nn", "nt"] {
        assert_eq!(chosen(&device, layout, [128, 4096, 4096]), ([128, 64, 64], 2, Arch::Sm90a));
        assert_eq!(chosen(&device, layout, [16, 4096, 4096]), ([64, 16, 128], 2, Arch::Sm90a));
        assert_eq!(chosen(&device, layout, [1, 4096, 4096]), ([64, 16, 128], 2, Arch::Sm90a));
    }
    let (tile, split, _) = chosen(&device, "nt", [1024; 3]);
    assert!(tile[0] * tile[1] / split <= 128 * 128, "{tile:?} {split} leaves SMs idle");
}

/// Each was the fastest of all kernels on an H200, 2026-11-28; the last two are the products of a layer with filters of one pixel, by which the estimate was once misled.
#[test]
fn tiles_of_few_steps_count_what_hides() {
    let (device, _) = fake::h200();
    for (shape, tile) in [
        ([1568, 2048, 512], [128, 104, 64]),
        ([1024, 4096, 256], [128, 128, 64]),
        ([588, 5120, 640], [128, 104, 64]),
        ([700, 3072, 768], [256, 144, 64]),
        ([2500, 2048, 256], [256, 160, 64]),
        ([2000, 1024, 768], [128, 128, 64]),
        ([3000, 1152, 384], [128, 104, 64]),
        ([401408, 256, 64], [128, 256, 64]),
        ([100352, 512, 128], [128, 256, 64]),
    ] {
        assert_eq!(chosen(&device, "nt", shape), (tile, 1, Arch::Sm90a), "{shape:?}");
    }
}

/// Each was the fastest of all kernels on an H200, or within 5 % of it; the third on an H100.
#[test]
fn some_hundred_rows_divide_their_depth_or_fit_their_tiles() {
    let (device, _) = fake::h200();
    for (shape, tile, split) in [
        ([256, 4096, 14336], [128, 128, 64], 2),
        ([192, 7168, 18432], [128, 192, 64], 2),
        ([160, 2560, 9728], [512, 96, 64], 1),
        ([100, 3584, 18944], [128, 128, 64], 4),
        // All CTAs divide the depth of 20 tiles.
        ([200, 5120, 8192], [256, 208, 64], 1),
        ([640, 5120, 27648], [256, 160, 64], 1),
        ([448, 3584, 18944], [256, 128, 64], 1),
    ] {
        assert_eq!(chosen(&device, "nt", shape), (tile, split, Arch::Sm90a), "{shape:?}");
    }
}

/// Each was the fastest of all kernels on an H200, 2026-11-30.
#[test]
fn small_tiles_fill_waves() {
    let (device, _) = fake::h200();
    for (shape, columns) in [
        ([1568, 512, 2048], 112),
        ([784, 512, 2048], 64),
        ([1000, 768, 3072], 112),
        ([200, 3072, 3072], 112),
        ([300, 1024, 4096], 64),
        ([800, 640, 2560], 64),
        ([9248, 192, 768], 112),
    ] {
        assert_eq!(chosen(&device, "nt", shape), ([64, columns, 64], 1, Arch::Sm90a), "{shape:?}");
    }
    // Lines of L2 that TMA's are parts of two of take longer there.
    assert_ne!(chosen(&device, "nt", [904, 904, 904]).0, [64, 112, 64]);
}

/// Clusters of narrow tiles are for lines that are no multiple of 128 bytes.
#[test]
fn clusters_of_narrow_tiles_are_for_split_lines() {
    let (device, _) = fake::h200();
    let is_narrow = |shape| {
        let views = Views::<f16, f16>::new(&device, "nt", shape);
        views.plan().kernel().name().ends_with("256x128x64s5c2")
    };
    assert!(is_narrow([777, 2222, 3304]));
    assert!(!is_narrow([448, 3584, 18944]) && !is_narrow([352, 4608, 2304]) && !is_narrow([1024; 3]));
}

/// Of many deep tiles those of 128 x 256 read least, which an H100's memory needs most.
#[test]
fn deep_products_of_many_tiles_are_not_taken_in_turn() {
    let large = [128, 256, 64];
    for (memory_rate, shapes) in [
        (4917, &[[4096, 8192, 28672], [16384, 8192, 28672]][..]),
        (
            3352,
            &[
                [4096, 14336, 8192],
                [4096, 28672, 8192],
                [4096, 57344, 8192],
                [4096, 8192, 28672],
                [16384, 28672, 8192],
            ],
        ),
    ] {
        let (device, _) = fake::hopper(memory_rate);
        for &shape in shapes {
            assert_eq!(chosen(&device, "nt", shape).0, large, "{shape:?} at {memory_rate} GB/s");
        }
        for shape in [[16384, 16384, 4096], [4096, 14336, 4096], [7168, 2048, 16384]] {
            assert_eq!(chosen(&device, "nt", shape).0[0], 256, "{shape:?} at {memory_rate} GB/s");
        }
    }
}

/// CTAs that begin one by one do not get into step where memory is slow.
#[test]
fn tiles_in_turn_begin_together_where_memory_is_slow() {
    for (memory_rate, shape, together) in [
        (3352, [4096; 3], true),
        (4917, [4096; 3], false),
        (3352, [2048; 3], false),
        (3352, [4096, 8192, 28672], false),
    ] {
        let (device, _) = fake::hopper(memory_rate);
        let plan = Views::<f16, f16>::new(&device, "nt", shape).plan();
        let apart = plan.kernel().kernel.apart && plan.estimate.loses_step(&device);
        assert_eq!(apart, together, "{shape:?} at {memory_rate} GB/s: {plan}");
    }
}

#[test]
fn few_rows_are_computed_as_columns() {
    let (device, _) = fake::h200();
    let plan = Views::<f16, f16>::new(&device, "nt", [16, 4096, 4096]).plan();
    assert!(plan.estimate.transposed && plan.kernel().name().contains("swap_nt"), "{plan}");
    // A transposed A has no kernel of that kind, and needs none.
    assert!(!Views::<f16, f16>::new(&device, "tn", [16, 4096, 4096]).plan().estimate.transposed);
}

#[test]
fn columns_of_c_that_are_contiguous_are_computed_as_rows() {
    let (device, _) = fake::h200();
    let mut views = Views::<f16, f16>::new(&device, "nn", [4096; 3]);
    views.c = view_mut(&device, C, &[4096, 4096], &[1, 4096]);
    let plan = views.plan();
    // (A B)ᵀ = Bᵀ Aᵀ, both transposed.
    assert!(plan.estimate.transposed && plan.kernel().name().contains("_tt_"), "{plan}");
    assert!(plan.to_string().contains("computing the transposed product"));
}

#[test]
fn kernels_whose_warpgroups_take_turns_store_either_order_and_add_nothing() {
    let (device, _) = fake::h200();
    let mut views = Views::<f16, f16>::new(&device, "nt", [4096; 3]);
    assert!(views.plan().kernel().kernel.apart && views.plan().estimate.transposed);
    let bias = view(&device, BIAS, &[4096], &[1]);
    for gemm in [Gemm::new().beta(1.0), Gemm::new().bias(&bias)] {
        let plan = gemm.plan(&views.a, &views.b, &views.c).unwrap();
        assert!(!plan.kernel().kernel.apart, "{plan}");
        let candidates = gemm.candidates(&views.a, &views.b, &views.c).unwrap();
        let refused = candidates.iter().find(|candidate| candidate.kernel.apart).unwrap();
        assert_eq!(refused.rejection().unwrap(), "it takes neither beta nor a bias");
    }
    views.c = view_mut(&device, C, &[4096, 4096], &[1, 4096]);
    assert!(views.plan().kernel().kernel.apart && !views.plan().estimate.transposed);
}

#[test]
fn what_tma_cannot_address_is_read_element_by_element_or_copied() {
    let (device, _) = fake::h200();
    let by_elements = |views: &Views| {
        let kernel = views.candidates()[0].kernel;
        assert!(kernel.any_strides, "{}", kernel.name);
    };
    by_elements(&Views::new(&device, "nn", [1000, 1000, 1001]));
    // A row pitch that is odd, an address that is not aligned, no contiguous dimension.
    for (at, strides) in [(A, [257, 1]), (A + 2, [256, 1]), (A, [512, 2]), (A, [1, 1])] {
        let mut views = Views::new(&device, "nn", [256; 3]);
        views.a = view(&device, at, &[256, 256], &strides);
        by_elements(&views);
        assert_eq!(views.plan().estimate.copied, [true, false], "{strides:?}");
    }
    // No depth at all.
    by_elements(&Views::new(&device, "nn", [256, 256, 0]));
    // With one line there is no pitch to be odd.
    assert!(!Views::<f16, f16>::new(&device, "nt", [1, 1, 4099]).plan().kernel().kernel.any_strides);
    // C is written at any stride by every kernel.
    let mut views = Views::<f16, f16>::new(&device, "nn", [256; 3]);
    views.c = view_mut(&device, C + 2, &[256, 256], &[257, 1]);
    assert!(!views.plan().kernel().kernel.any_strides);
}

#[test]
fn what_is_copied_pays_and_has_a_workspace() {
    let (device, journal) = fake::h200();
    let plan = |layout, shape| Views::<f16, f16>::new(&device, layout, shape).plan();
    // A launch more is not worth it.
    let small = plan("nt", [16, 16, 17]);
    assert!(small.kernel().kernel.any_strides && small.workspace_len() == 0, "{small}");
    // Lines of 1001 elements are rounded up to 1024.
    let both = plan("nt", [1000, 1500, 1001]);
    assert_eq!(both.estimate.copied, [true; 2], "{both}");
    assert!(
        both.workspace_len() >= (1000 + 1500) * 1024 / 2 && both.to_string().contains("of copies of A and B")
    );
    // What is aligned is left where it is.
    assert_eq!(plan("nn", [1000, 1504, 1001]).estimate.copied, [true, false]);
    assert_eq!(plan("nt", [1000, 1504, 1008]).estimate.copied, [false; 2]);
    // A kernel that is asked for reads what there is, and small products load no kernel that copies.
    let views = Views::<f16, f16>::new(&device, "nt", [1000, 1500, 1001]);
    let name = views.candidates()[0].name();
    let forced = Gemm::<f16>::new().kernel(name).plan(&views.a, &views.b, &views.c).unwrap();
    assert_eq!(forced.estimate.copied, [false; 2]);
    let (other, unused) = fake::h200();
    Views::<f16, f16>::new(&other, "nt", [16, 16, 17]).plan();
    let copies =
        |journal: &Journal| journal.loads.lock().unwrap().iter().any(|(name, _)| name.contains("copy_lines"));
    assert!(copies(&journal) && !copies(&unused));
}

#[test]
fn views_that_repeat_elements_go_by_tma_only_if_the_driver_takes_them() {
    let (device, journal) = fake::h200();
    let mut views = Views::<f16, f16>::new(&device, "nn", [1024; 3]);
    views.a = view::<f16>(&device, A, &[1, 1024], &[1024, 1]).broadcast(&[1024, 1024]).unwrap();
    assert!(views.name().contains("sm_90") && views.plan().estimate.copied == [false; 2]);
    journal.refuses_repeats.store(true, std::sync::atomic::Ordering::Relaxed);
    let kernel = views.candidates()[0].kernel;
    assert!(kernel.name.contains("sm_80") && !kernel.any_strides, "{}", kernel.name);
    assert_eq!(views.plan().estimate.copied, [true, false]);
    let hopper = views.candidates().into_iter().find(|c| c.name().contains("sm_90_f16_f16_nn")).unwrap();
    assert_eq!(hopper.rejection().unwrap(), "TMA cannot address its A");
}

#[test]
fn other_gpus_get_what_they_can_run() {
    // Compute capability 8.6 with the fake's 64 KiB of shared memory, and 10.0, which does not run code for 9.0.
    for capability in [(8, 6), (10, 0)] {
        let (device, _) = fake::device(capability);
        for candidate in Views::<f16, f16>::new(&device, "nt", [4096; 3]).candidates() {
            let reason = candidate.rejection().unwrap_or_default();
            match candidate.kernel.arch {
                Arch::Sm90a => assert_eq!(reason, "it is compiled for sm_90a"),
                Arch::Sm80 => assert_eq!(reason.is_empty(), candidate.kernel.shared_bytes() <= 1 << 16),
            }
            if candidate.kernel.arch == Arch::Sm80 && !reason.is_empty() {
                let needs = candidate.kernel.shared_bytes();
                assert_eq!(reason, format!("it needs {needs} bytes of shared memory, of 65536"));
            }
        }
        assert!(Views::<f16, f16>::new(&device, "nt", [4096; 3]).name().contains("sm_80"));
    }
}

#[test]
fn every_kind_has_a_kernel_for_any_strides() {
    fn all<T: GemmInput, U: FloatElement>(device: &Device) {
        for activation in Activation::ALL {
            let odd = Views::<T, U>::new(device, "tn", [33, 35, 37]);
            let gemm = Gemm::<U>::new().activation(activation);
            let plan = gemm.plan(&odd.a, &odd.b, &odd.c).unwrap();
            let name = format!("_{}_{}_nt_{activation}_", T::DTYPE, U::DTYPE);
            assert!(plan.kernel().kernel.any_strides && plan.kernel().name().contains(&name), "{plan}");
        }
    }
    let (device, _) = fake::h200();
    all::<f16, f16>(&device);
    all::<f16, bf16>(&device);
    all::<f16, f32>(&device);
    all::<bf16, f16>(&device);
    all::<bf16, bf16>(&device);
    all::<bf16, f32>(&device);
}

#[test]
fn candidates_are_ordered_and_say_why_not() {
    let (device, _) = fake::h200();
    let all = Views::<f16, f16>::new(&device, "nt", [300, 512, 77 * 8]).candidates();
    assert!(all.is_sorted_by_key(|c| c.cycles().unwrap_or(u64::MAX)));
    assert!(all.iter().all(|c| c.cycles().is_some() != c.rejection().is_some()));
    let of = |part: &str| all.iter().find(|c| c.name().contains(part)).unwrap();
    let unaligned =
        |operand, order| format!("it reads {operand} {order}-major, in lines aligned to 16 bytes");
    assert_eq!(of("sm_90_f16_f16_nn").rejection().unwrap(), unaligned("B", "row"));
    assert_eq!(of("sm_90_f16_f16_tt").rejection().unwrap(), unaligned("A", "column"));
    let text = of("sm_80_f16_f16_tn").to_string();
    assert!(text.ends_with(&format!(": not possible, {}", unaligned("A", "column"))), "{text}");

    // 3 x 2 tiles of 128 x 256, one CTA each.
    let large = of("sm_90_f16_f16_nt_none_128x256");
    assert!(large.to_string().contains(": 6 CTAs in 1 waves, about "), "{large}");
    let split = of("swap_nt_none_64x16");
    // 8 x 19 tiles of the transposed product, two CTAs each, on 132 SMs.
    assert!(split.to_string().contains(": 304 CTAs in 3 waves, about "), "{split}");
    assert_eq!((split.tile(), split.split(), split.stages() > 2), ([64, 16, 128], 2, true));

    let ragged = Views::<f16, f16>::new(&device, "nt", [300, 512, 100]);
    let mut padded = Views::<f16, f16>::new(&device, "nt", [300, 512, 104]);
    (padded.a, padded.b) = (padded.a.narrow(1, 0, 100).unwrap(), padded.b.narrow(0, 0, 100).unwrap());
    let reason = |views: &Views, part: &str| {
        views.candidates().into_iter().find(|c| c.name().contains(part)).unwrap().rejection()
    };
    assert_eq!(reason(&ragged, "sm_90_f16_f16_nt"), Some(unaligned("A", "row")));
    assert_eq!(reason(&padded, "sm_90_f16_f16_nt"), None);
    let lengths = Some("it reads A in lines that are multiples of 16 bytes long".to_owned());
    assert_eq!(reason(&padded, "sm_80_f16_f16_nt_none_128"), lengths);
}

#[test]
fn plans_explain_themselves() {
    let (device, _) = fake::h200();
    let views = Views::<bf16, bf16>::new(&device, "nn", [8192; 3]);
    let plan = views.plan();
    assert_eq!(plan.reason(), "the fastest by estimate");
    let (name, cycles) = (plan.kernel().name(), plan.kernel().cycles().unwrap());
    let stages = plan.kernel().stages();
    assert_eq!(
        plan.to_string(),
        format!(
            "{name}: 3648 CTAs in 28 waves, about {cycles} cycles, computing the transposed product; tiles of 256 x 144 x 64, \
             {stages} stages, split-K 1: the fastest by estimate"
        )
    );
    let all = views.candidates();
    let other = all.iter().rfind(|c| c.cycles().is_some()).unwrap().name();
    let plan = Gemm::<bf16>::new().kernel(other).plan(&views.a, &views.b, &views.c).unwrap();
    assert_eq!((plan.kernel().name(), plan.reason()), (other, "asked for by name"));
}

#[test]
fn every_candidate_can_be_forced() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [200, 264, 136]);
    let (possible, impossible): (Vec<_>, Vec<_>) =
        views.candidates().into_iter().partition(|c| c.cycles().is_some());
    assert!(possible.len() >= 8, "{possible:?}");
    for candidate in &possible {
        views.run(&Gemm::new().kernel(candidate.name()), &stream).unwrap();
        assert_eq!(journal.loads.lock().unwrap().last().unwrap().0, candidate.name());
    }
    assert_eq!(journal.launches.lock().unwrap().len(), possible.len());

    let names = possible.iter().map(GemmCandidate::name).collect::<Vec<_>>();
    for candidate in impossible {
        let error = views.run(&Gemm::new().kernel(candidate.name()), &stream).unwrap_err();
        let Error::Argument { argument, was, allowed } = error else { panic!("{error}") };
        assert_eq!(argument, "kernel");
        assert_eq!(was, format!("{:?}, {}", candidate.name(), candidate.rejection().unwrap()));
        assert!(names.iter().all(|name| allowed.contains(name)), "{allowed}");
    }
    assert_eq!(journal.launches.lock().unwrap().len(), possible.len());
}
