//! Rates, lengths and times.

use std::ops::{Add, Div, Mul, Sub};

macro_rules! units {
    ($($name:ident $says:literal;)*) => {$(
        #[doc = $says]
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(
            /// The number.
            pub f64,
        );

        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                Self(all.map(|one| one.0).sum())
            }
        }

        impl $name {
            /// The larger of two.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }
    )*};
}

units! {
    BytesPerSecond "A rate.";
    Bytes "A length.";
    Seconds "A time.";
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;

    /// The time for this many bytes.
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Mul<Seconds> for BytesPerSecond {
    type Output = Bytes;

    /// The product.
    fn mul(self, time: Seconds) -> Bytes {
        Bytes(self.0 * time.0)
    }
}
