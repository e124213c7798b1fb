//! Which kernel is chosen.

use super::*;
use crate::ops::frame::Estimate as _;

/// The plan for a convolution of square images.
fn plan(device: &Device, size: [usize; 5], stride: usize) -> ConvPlan {
    let padding = size[4] / 2;
    let Views { x, w, y } = Views::new(device, size, stride, padding);
    Conv::<f16>::new().stride([stride; 2]).padding([padding; 2]).plan(&x, &w, &y).unwrap()
}

#[test]
fn tiles_fill_waves() {
    let (device, _) = fake::h200();
    for (size, stride, name) in [
        ([128, 56, 64, 64, 3], 1, "conv_sm_90_f16_256x64x64s5k1"),
        ([128, 56, 128, 128, 3], 2, "conv_sm_90_f16_128x128x64s6k1"),
        ([32, 28, 256, 256, 3], 1, "conv_sm_90_f16_128x128x64s6k1"),
        // One wave of 131 tiles; of 128 x 128 one and a half.
        ([32, 56, 128, 128, 3], 2, "conv_sm_90_f16_192x128x64s4k1"),
        ([32, 14, 256, 256, 3], 1, "conv_sm_90_f16_128x128x64s6k1"),
        // Few outputs, and deep.
        ([32, 7, 512, 512, 3], 1, "conv_sm_90_f16_64x128x64s8k1"),
        ([1, 14, 256, 256, 3], 1, "conv_sm_90_f16_64x64x64s11k2"),
        ([32, 56, 256, 512, 1], 2, "conv_sm_90_f16_128x128x64s6k1"),
        ([32, 56, 64, 256, 1], 1, "conv_sm_90_f16_128x128x64s6k1"),
        ([32, 56, 256, 64, 1], 1, "conv_sm_90_f16_128x64x64s8k1"),
        ([128, 56, 256, 128, 1], 1, "gemm_sm_90_f16_f16_swap_nt_none_128x96x64s6k1"),
        ([32, 224, 3, 64, 7], 2, "conv_rows_sm_80_f16_6_128x64x32"),
        ([32, 224, 3, 32, 3], 2, "conv_rows_sm_80_f16_6_128x32x32"),
        ([32, 224, 3, 64, 3], 1, "conv_rows_sm_80_f16_3_128x64x16"),
        ([32, 14, 1024, 512, 1], 1, "gemm_sm_90_f16_f16_swap_nt_none_128x96x64s6k1"),
        ([128, 7, 2048, 512, 1], 1, "gemm_sm_90_f16_f16_swap_nt_none_128x96x64s6k1"),
        ([32, 224, 5, 64, 7], 2, "conv_sm_80_f16_any_128x64x32s3k1"),
        ([32, 28, 24, 128, 3], 1, "conv_sm_90_f16_192x128x64s4k1"),
    ] {
        assert_eq!(plan(&device, size, stride).name(), name, "{size:?}");
    }
}

#[test]
fn ampere_has_its_own() {
    let (device, _) = fake::device((8, 0));
    assert_eq!(plan(&device, [128, 28, 256, 256, 3], 1).name(), "conv_sm_80_f16_128x64x32s4k1");
    assert_eq!(plan(&device, [32, 28, 64, 64, 3], 1).name(), "conv_sm_80_f16_128x64x32s4k1");
    // 8 channels of a pixel are a piece: rows of filters are read as one tap.
    let text = plan(&device, [8, 28, 8, 64, 3], 1).to_string();
    assert!(text.contains("sm_80_f16_128x64x32s4k1") && text.contains("as one tap"), "{text}");
}

#[test]
fn depthwise_convolutions_have_a_kernel() {
    let (device, _) = fake::h200();
    let x = view::<f16, 4>(&device, X, [32, 56, 56, 128]);
    let w = view::<f16, 4>(&device, W, [128, 3, 3, 1]);
    let y = view_mut::<f16, 4>(&device, Y, [32, 56, 56, 128]);
    let plan = Conv::<f16>::new().groups(128).padding([1, 1]).plan(&x, &w, &y).unwrap();
    assert_eq!(plan.name(), "conv_depthwise_sm_80_f16_by3s1");
    let strided = view_mut::<f16, 4>(&device, Y, [32, 28, 28, 128]);
    let plan = Conv::<f16>::new().groups(128).padding([1, 1]).stride([2, 2]).plan(&x, &w, &strided).unwrap();
    assert_eq!(plan.name(), "conv_depthwise_sm_80_f16_by3s2");
    let dx = view_mut::<f16, 4>(&device, Y, [32, 56, 56, 128]);
    let plans = ConvGradient::new().groups(128).padding([1, 1]).images_plan(&x, &w, &dx).unwrap();
    let names: Vec<_> = plans.kernels().iter().map(|plan| plan.kernel().name()).collect();
    assert_eq!(names, ["conv_depthwise_sm_80_f16_by3s1"]);
}

#[test]
fn boxes_of_a_group_begin_at_multiples_of_16_bytes() {
    let (device, _) = fake::h200();
    let x = view::<f16, 4>(&device, X, [2, 8, 8, 48]);
    let dy = view::<f16, 4>(&device, Y, [2, 8, 8, 96]);
    for (groups, arch) in [(1, "sm_90"), (6, "sm_90"), (12, "sm_80"), (24, "sm_80")] {
        let dw = view_mut::<f16, 4>(&device, W, [96, 3, 3, 48 / groups]);
        let gradient = ConvGradient::new().groups(groups).padding([1, 1]);
        let name = gradient.filters_plan(&x, &dy, &dw).unwrap().kernel().name();
        assert!(name.contains(arch), "{groups} groups: {name}");
    }
}

#[test]
fn gradients_of_strides_are_several_products() {
    let (device, _) = fake::h200();
    let dy = view::<f16, 4>(&device, X, [32, 28, 28, 128]);
    let w = view::<f16, 4>(&device, W, [128, 3, 3, 64]);
    let dx = view_mut::<f16, 4>(&device, Y, [32, 56, 56, 64]);
    let gradient = ConvGradient::new().stride([2, 2]).padding([1, 1]);
    let plans = gradient.images_plan(&dy, &w, &dx).unwrap();
    let names: Vec<_> = plans.kernels().iter().map(|plan| plan.kernel().name()).collect();
    assert_eq!(names, ["conv_scattered_sm_90_f16_128x64x64s8"; 4]);
    // One tap, two, two, four.
    let cycles: Vec<_> = plans.kernels().iter().filter_map(|plan| plan.estimate().cycles()).collect();
    assert!(cycles.is_sorted_by(|a, b| a <= b) && cycles[0] < cycles[3], "{cycles:?}");
    let (x, dw) =
        (view::<f16, 4>(&device, X, [32, 56, 56, 64]), view_mut::<f16, 4>(&device, Y, [128, 3, 3, 64]));
    let dy = view::<f16, 4>(&device, W, [32, 28, 28, 128]);
    assert_eq!(
        gradient.filters_plan(&x, &dy, &dw).unwrap().kernel().name(),
        "conv_weights_sm_90_f16_64x64x64s8"
    );
}

/// Planes of several volumes that a stride does not divide are taken volume by volume.
#[test]
fn gradients_of_volumes_are_several_products() {
    let (device, _) = fake::h200();
    let w = view::<f16, 5>(&device, W, [128, 3, 3, 3, 64]);
    let gradient = ConvGradient::new().stride([2, 2, 1]).padding([1, 1, 1]);
    for (planes, volumes, products) in [(8, 3, 4), (7, 3, 12), (7, 1, 4)] {
        let dy = view::<f16, 5>(&device, X, [volumes, 4, 14, 28, 128]);
        let dx = view_mut::<f16, 5>(&device, Y, [volumes, planes, 28, 28, 64]);
        let plans = gradient.images_plan(&dy, &w, &dx).unwrap();
        assert_eq!(plans.kernels().len(), products);
        assert!(
            plans.kernels().iter().all(|plan| plan.kernel().name() == "conv_scattered_sm_90_f16_128x64x64s8")
        );
    }
    // Without a stride the kernels are those of outputs.
    let (dy, dx) =
        (view::<f16, 5>(&device, X, [2, 8, 28, 28, 128]), view_mut::<f16, 5>(&device, Y, [2, 8, 28, 28, 64]));
    let gradient = ConvGradient::new().padding([1, 1, 1]);
    assert_eq!(gradient.images_plan(&dy, &w, &dx).unwrap().kernels().len(), 1);
    let all = gradient.images_candidates(&dy, &w, &dx).unwrap();
    assert!(all.iter().any(|one| one.name().starts_with("conv_inputs_") && one.rejection().is_none()));
}

/// A filter of one pixel is a product of matrices; filters of a slice go over planes as over images.
#[test]
fn volumes_are_images_where_they_can_be() {
    let (device, _) = fake::h200();
    let x = view::<f16, 5>(&device, X, [2, 8, 28, 28, 64]);
    let y = view_mut::<f16, 5>(&device, Y, [2, 8, 28, 28, 128]);
    let one = Conv::<f16>::new().plan(&x, &view(&device, W, [128, 1, 1, 1, 64]), &y).unwrap();
    assert!(one.is_product(), "{one}");
    let slice = view(&device, W, [128, 1, 3, 3, 64]);
    let all = Conv::<f16>::new().padding([1, 1]).candidates(&x, &slice, &y).unwrap();
    assert!(all.iter().any(|kernel| kernel.name().contains("sm_90") && kernel.rejection().is_none()));
    // Corners of 5 bits, and volumes of one plane.
    let why = |x: [usize; 5], conv: Conv<'_, f16>, y: [usize; 5]| {
        let (x, w, y) = (view(&device, X, x), view(&device, W, [128, 3, 1, 1, 64]), view_mut(&device, Y, y));
        let all = conv.candidates(&x, &w, &y).unwrap();
        let one = all.iter().find(|kernel| kernel.name() == "conv_sm_90_f16_128x128x64s6k1").unwrap();
        one.rejection()
    };
    let reason =
        "TMA walks over volumes of several planes in steps up to 8, and in corners and offsets of 5 bits";
    let conv = Conv::new;
    assert_eq!(why([2, 8, 28, 28, 64], conv().padding([1, 0, 0]), [2, 8, 28, 28, 128]), None);
    let far = conv().dilation([16, 1, 1]).padding([16, 0, 0]);
    assert_eq!(why([2, 8, 28, 28, 64], far, [2, 8, 28, 28, 128]).as_deref(), Some(reason));
    let flat = why([2, 1, 28, 28, 64], conv().padding([1, 0, 0]), [2, 1, 28, 28, 128]);
    assert_eq!(flat.as_deref(), Some(reason));
}

/// Why kernels by TMA cannot compute these.
#[test]
fn refusals_say_why() {
    let (device, _) = fake::h200();
    let why = |size: [usize; 4], w: [usize; 4], conv: Conv<'_, f16>, y: [usize; 4]| {
        let (x, w, y) = (view(&device, X, size), view(&device, W, w), view_mut(&device, Y, y));
        let all = conv.candidates(&x, &w, &y).unwrap();
        let one = all.iter().find(|kernel| kernel.name() == "conv_sm_90_f16_128x128x64s6k1").unwrap();
        one.rejection().unwrap()
    };
    let conv = Conv::new;
    assert_eq!(
        why([2, 8, 8, 12], [8, 3, 3, 12], conv(), [2, 6, 6, 8]),
        "it reads images row-major, in lines aligned to 16 bytes"
    );
    assert_eq!(
        why([2, 8, 8, 64], [8, 3, 3, 32], conv().groups(2), [2, 6, 6, 8]),
        "it takes channels of several groups in multiples of 64"
    );
    assert_eq!(
        why([2, 18, 8, 64], [8, 1, 1, 64], conv().stride([9, 1]), [2, 2, 8, 8]),
        "TMA walks over images in steps up to 8, and in corners and offsets of 8 bits"
    );
}
