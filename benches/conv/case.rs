//! What is measured.

use std::fmt;

use tilewright::DType;

/// A convolution of square images with a square filter, padded by half of it, or one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub dtype: DType,
    pub images: usize,
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

/// Of a filter for each channel: size, channels, filter, stride.
const DEPTHWISE: [[usize; 4]; 3] = [[112, 32, 3, 1], [56, 128, 3, 2], [28, 256, 3, 1]];

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let (dtype, groups, pass) = (DType::F16, 1, Pass::Outputs);
    let mut cases = Vec::new();
    for images in [32, 128] {
        cases.extend(RESNET.map(|[size, channels, outputs, filter, stride]| Case {
            dtype,
            images,
            size,
            channels,
            outputs,
            filter,
            stride,
            groups,
            pass,
        }));
    }
    for pass in [Pass::Images, Pass::Filters] {
        let of = |&[size, channels, outputs, filter, stride]: &[usize; 5]| Case {
            dtype,
            images: 32,
            size,
            channels,
            outputs,
            filter,
            stride,
            groups,
            pass,
        };
        cases.extend(RESNET.iter().filter(|layer| layer[3] == 3).map(of));
    }
    let bf16 = |case: &Case| Case { dtype: DType::BF16, ..*case };
    cases.extend(cases[..2].to_vec().iter().map(bf16));
    cases.extend(DEPTHWISE.map(|[size, channels, filter, stride]| Case {
        dtype,
        images: 32,
        size,
        channels,
        outputs: channels,
        filter,
        stride,
        groups: channels,
        pass,
    }));
    cases
}

impl Case {
    /// Rows and columns of outputs.
    pub fn out(&self) -> usize {
        (self.size + 2 * self.padding() - self.filter) / self.stride + 1
    }
    /// Zeros on each side.
    pub fn padding(&self) -> usize {
        self.filter / 2
    }
    /// Shapes of images, filters and outputs.
    pub fn shapes(&self) -> [[usize; 4]; 3] {
        let Case { images, size, channels, outputs, filter, groups, .. } = *self;
        let out = self.out();
        [
            [images, size, size, channels],
            [outputs, filter, filter, channels / groups],
            [images, out, out, outputs],
        ]
    }
    /// Shapes of the two tensors that are read and of the one that is written.
    pub fn operands(&self) -> [[usize; 4]; 3] {
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
        let Case { dtype, images, size, channels, outputs, filter, stride, groups, pass } = self;
        write!(f, "{dtype} n{images} {size}x{size} {channels}->{outputs} {filter}x{filter} s{stride}")?;
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
