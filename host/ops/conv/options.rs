//! The options that say how a filter goes over images, which convolutions and their gradients have in common.

/// Methods that set them, of a builder with a field `geometry`.
macro_rules! geometry_options {
    () => {
        /// Pixels from one output to the next: along the depth, down, to the right. Fewer numbers are those of the last dimensions; 1 unless
        /// set.
        pub fn stride<const N: usize>(self, stride: [usize; N]) -> Self {
            let geometry = Geometry { stride: of_last(stride, 1), ..self.geometry };
            Self { geometry, ..self }
        }
        /// Planes of zeros in front of each volume and behind it, rows above and below each image, columns to its left and right. Fewer numbers
        /// are those of the last dimensions; none unless set.
        pub fn padding<const N: usize>(self, padding: [usize; N]) -> Self {
            let padding = of_last(padding, 0);
            let geometry = Geometry { before: padding, after: padding, ..self.geometry };
            Self { geometry, ..self }
        }
        /// Planes of zeros behind each volume, rows below each image and columns to its right, where they are others than those before: call it
        /// after [`padding`](Self::padding). `padding([s - 1]).padding_after([0])` makes a filter of s columns causal.
        pub fn padding_after<const N: usize>(self, padding: [usize; N]) -> Self {
            let geometry = Geometry { after: of_last(padding, 0), ..self.geometry };
            Self { geometry, ..self }
        }
        /// Pixels from one tap of the filter to the next: along the depth, down, to the right. Fewer numbers are those of the last dimensions; 1
        /// unless set.
        pub fn dilation<const N: usize>(self, dilation: [usize; N]) -> Self {
            let geometry = Geometry { dilation: of_last(dilation, 1), ..self.geometry };
            Self { geometry, ..self }
        }
        /// Equal parts of channels and of filters that go together: a filter has the channels of its part; 1 unless set.
        pub fn groups(self, groups: usize) -> Self {
            let geometry = Geometry { groups, ..self.geometry };
            Self { geometry, ..self }
        }
    };
}
pub(super) use geometry_options;
