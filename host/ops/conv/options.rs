//! The options that say how a filter goes over images, which convolutions and their gradients have in common.

/// Methods that set them, of a builder with a field `geometry`.
macro_rules! geometry_options {
    () => {
        /// Pixels from one output to the next, down and to the right; 1 unless set.
        pub fn stride(self, stride: [usize; 2]) -> Self {
            let geometry = Geometry { stride, ..self.geometry };
            Self { geometry, ..self }
        }
        /// Rows of zeros above and below each image, and columns to its left and right; none unless set.
        pub fn padding(self, padding: [usize; 2]) -> Self {
            let geometry = Geometry { before: padding, after: padding, ..self.geometry };
            Self { geometry, ..self }
        }
        /// Rows of zeros below each image and columns to its right, where they are others than those above and to the left: call it
        /// after [`padding`](Self::padding). `padding([0, s - 1]).padding_after([0, 0])` makes a filter of s columns causal.
        pub fn padding_after(self, padding: [usize; 2]) -> Self {
            let geometry = Geometry { after: padding, ..self.geometry };
            Self { geometry, ..self }
        }
        /// Pixels from one tap of the filter to the next, down and to the right; 1 unless set.
        pub fn dilation(self, dilation: [usize; 2]) -> Self {
            let geometry = Geometry { dilation, ..self.geometry };
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
