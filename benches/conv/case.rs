//! What is measured.

use std::fmt;

use tilewright::DType;
use tilewright_support::Result;

use crate::{common, shapes};

/// A convolution of square images with a square filter, or of volumes with a cubic one, padded by half of it, or one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub dtype: DType,
    pub images: usize,
    /// Of volumes, their planes.
    pub planes: Option<usize>,
    pub size: usize,
    pub channels: usize,
    pub outputs: usize,
    pub filter: usize,
    pub stride: usize,
    pub groups: usize,
    pub pass: Pass,
}

/// What is computed of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Outputs,
    Images,
    Filters,
}

/// ResNet-50's layers (He et al. 2015) with the stride in the 3x3 filters, and one more of many channels: size, channels, outputs, filter, stride.
const RESNET: [[usize; 5]; 24] = [
    [56, 64, 64, 3, 1],
    [28, 256, 256, 3, 1],
    [224, 3, 64, 7, 2],
    [56, 64, 64, 1, 1],
    [56, 64, 256, 1, 1],
    [56, 256, 64, 1, 1],
    [56, 256, 128, 1, 1],
    [56, 128, 128, 3, 2],
    [56, 256, 512, 1, 2],
    [28, 128, 512, 1, 1],
    [28, 512, 128, 1, 1],
    [28, 128, 128, 3, 1],
    [28, 512, 256, 1, 1],
    [28, 256, 256, 3, 2],
    [28, 512, 1024, 1, 2],
    [14, 256, 1024, 1, 1],
    [14, 1024, 256, 1, 1],
    [14, 256, 256, 3, 1],
    [14, 1024, 512, 1, 1],
    [14, 512, 512, 3, 2],
    [14, 1024, 2048, 1, 2],
    [7, 512, 2048, 1, 1],
    [7, 2048, 512, 1, 1],
    [7, 512, 512, 3, 1],
];

/// Layers of other networks: images, size, channels, outputs, filter, stride.
const OTHERS: [[usize; 6]; 12] = [
    // VGG (Simonyan & Zisserman 2014).
    [32, 224, 3, 64, 3, 1],
    [32, 224, 64, 64, 3, 1],
    [32, 112, 64, 128, 3, 1],
    [32, 14, 512, 512, 3, 1],
    // A U-Net of 320 channels (Rombach et al. 2021).
    [2, 64, 320, 320, 3, 1],
    [2, 64, 4, 320, 3, 1],
    // EfficientNet's and MobileNet's first layer.
    [32, 224, 3, 32, 3, 2],
    // Inception (Szegedy et al. 2015).
    [32, 35, 48, 64, 5, 1],
    [32, 17, 768, 192, 1, 1],
    // One image.
    [1, 56, 64, 64, 3, 1],
    [1, 14, 256, 256, 3, 1],
    [1, 14, 1024, 256, 1, 1],
];

/// Of a filter for each channel: images, size, channels, filter, stride. The first are MobileNet's, the next ConvNeXt's, EfficientNet's and
/// MobileNetV3's.
const DEPTHWISE: [[usize; 5]; 11] = [
    [32, 112, 32, 3, 1],
    [32, 56, 128, 3, 2],
    [32, 28, 256, 3, 1],
    [32, 56, 96, 7, 1],
    [32, 14, 384, 7, 1],
    [32, 112, 96, 3, 2],
    [32, 28, 240, 5, 1],
    [32, 14, 672, 5, 2],
    [32, 56, 72, 5, 2],
    [32, 7, 960, 5, 1],
    [1, 112, 32, 3, 1],
];

/// The cases that these words select. Any layer is named by its images, size, channels, outputs, filter and stride: `16x40x192x320x3x1 dx`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let named = shapes::unlisted(words, &[]);
    if named.is_empty() {
        return common::selected(all(), words);
    }
    let is_layer = |word: &String| !shapes::unlisted::<6>(std::slice::from_ref(word), &[]).is_empty();
    let others: Vec<_> = words.iter().filter(|word| !is_layer(word)).cloned().collect();
    let gradients = others.iter().flat_map(|word| word.split(',')).any(|word| matches!(word, "dx" | "dw"));
    let passes: &[Pass] = if gradients { &[Pass::Images, Pass::Filters] } else { &[Pass::Outputs] };
    let of = |dtype, pass| named.iter().map(move |&of| layer(dtype, pass, of));
    let of_type = |dtype| passes.iter().flat_map(move |&pass| of(dtype, pass));
    common::selected([DType::F16, DType::BF16].into_iter().flat_map(of_type).collect(), &others)
}

/// A layer of images: how many, their size, channels, outputs, filter and stride.
fn layer(dtype: DType, pass: Pass, [images, size, channels, outputs, filter, stride]: [usize; 6]) -> Case {
    Case { dtype, images, planes: None, size, channels, outputs, filter, stride, groups: 1, pass }
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let dtype = DType::F16;
    let mut cases = Vec::new();
    let resnet = |images, pass, [size, channels, outputs, filter, stride]: [usize; 5]| {
        layer(dtype, pass, [images, size, channels, outputs, filter, stride])
    };
    for images in [32, 128] {
        cases.extend(RESNET.map(|of| resnet(images, Pass::Outputs, of)));
    }
    for pass in [Pass::Images, Pass::Filters] {
        cases.extend(RESNET.into_iter().filter(|of| of[3] == 3).map(|of| resnet(32, pass, of)));
    }
    let bf16 = |case: &Case| Case { dtype: DType::BF16, ..*case };
    cases.extend(cases[..2].to_vec().iter().map(bf16));
    cases.extend(OTHERS.map(|of| layer(dtype, Pass::Outputs, of)));
    cases.extend(DEPTHWISE.map(|[images, size, channels, filter, stride]| Case {
        groups: channels,
        ..layer(dtype, Pass::Outputs, [images, size, channels, channels, filter, stride])
    }));
    // A volume of a 3-D U-Net (Çiçek et al. 2016).
    let volume =
        Case { images: 2, planes: Some(16), size: 56, channels: 64, outputs: 128, groups: 1, ..cases[0] };
    cases.push(volume);
    cases
}

impl Case {
    /// Outputs of a dimension of so many pixels.
    fn out(&self, pixels: usize) -> usize {
        (pixels + 2 * self.padding() - self.filter) / self.stride + 1
    }
    /// Zeros on each side.
    pub fn padding(&self) -> usize {
        self.filter / 2
    }
    /// Shapes of images, filters and outputs.
    pub fn shapes(&self) -> [Vec<usize>; 3] {
        let Case { images, planes, size, channels, outputs, filter, groups, .. } = *self;
        let pixels: Vec<_> = planes.into_iter().chain([size; 2]).collect();
        let shape = |first, middle: Vec<usize>, last| [vec![first], middle, vec![last]].concat();
        let out = pixels.iter().map(|&pixels| self.out(pixels)).collect();
        let taps = vec![filter; pixels.len()];
        [
            shape(images, pixels, channels),
            shape(outputs, taps, channels / groups),
            shape(images, out, outputs),
        ]
    }
    /// Shapes of the two tensors that are read and of the one that is written.
    pub fn operands(&self) -> [Vec<usize>; 3] {
        let [x, w, y] = self.shapes();
        match self.pass {
            Pass::Outputs => [x, w, y],
            Pass::Images => [y, w, x],
            Pass::Filters => [x, y, w],
        }
    }
    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        let [_, w, y] = self.shapes();
        2.0 * y.iter().product::<usize>() as f64 * w[1..].iter().product::<usize>() as f64
    }
    /// The least that moves between memory and the SMs.
    pub fn bytes(&self) -> usize {
        self.shapes().iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>() * self.dtype.bytes()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { dtype, images, planes, size, channels, outputs, filter, stride, groups, pass } = self;
        let (deep, taps) = match planes {
            Some(planes) => (format!("{planes}x"), format!("{filter}x")),
            None => Default::default(),
        };
        write!(
            f,
            "{dtype} n{images} {deep}{size}x{size} {channels}->{outputs} {taps}{filter}x{filter} s{stride}"
        )?;
        if *groups > 1 {
            f.write_str(" depthwise")?;
        }
        match pass {
            Pass::Outputs => Ok(()),
            Pass::Images => f.write_str(" dx"),
            Pass::Filters => f.write_str(" dw"),
        }
    }
}
