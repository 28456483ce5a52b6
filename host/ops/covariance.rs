// SPDX-License-Identifier: MIT OR Apache-2.0
//! How rows of a matrix vary together: a product of matrices.

use ndarray::{Axis, Ix2};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// The methods of a type of floats.
macro_rules! covariances {
    ($($type:ty),*) => {$(
        /// Covariance and correlation of variables, a row each, whose observations are the columns.
        impl DeviceArrayRef<$type, Ix2> {
            /// The covariance of each two rows: NumPy's `cov`, with `ddof` 1 unless it is told otherwise.
            ///
            /// `Σ (x − mean x) (y − mean y) / (n − ddof)` of `n` columns: what is left of the elements is written into an array
            /// of its own, and multiplied by itself, transposed. So nothing cancels where a mean is large. Its error is that of the
            /// [product](Self::matmul), and a rounding of each mean.
            ///
            /// # Errors
            ///
            /// [`Error::Parameter`] if there are not more than `ddof` columns; those of an allocation and a launch.
            ///
            /// # Examples
            ///
            /// ```
            /// use ndarray::array;
            /// use warpsmith::{Device, DeviceArray};
            ///
            /// # fn main() -> warpsmith::Result<()> {
            /// let device = Device::auto()?;
            #[doc = concat!("let x = array![[1.0", stringify!($type), ", 2.0, 3.0], [4.0, 0.0, 2.0]];")]
            /// let x = DeviceArray::from_ndarray(device.default_stream(), &x)?;
            /// assert_eq!(x.covariance(1)?.to_ndarray()?, array![[1.0, -1.0], [-1.0, 4.0]]);
            /// let correlation = x.correlation()?.to_ndarray()?;
            /// assert!((correlation - array![[1.0, -0.5], [-0.5, 1.0]]).iter().all(|off| off.abs() < 1e-6));
            /// # Ok(())
            /// # }
            /// ```
            #[doc(alias = "cov")]
            pub fn covariance(&self, ddof: usize) -> Result<DeviceArray<$type, Ix2>> {
                let count = check_count(self.shape()[1], ddof)?;
                let means = self.mean_axis(Axis(1))?;
                let centred = self.sub(&means.insert_axis(Axis(1))?)?;
                centred.fused_matmul(&centred.t()).alpha(1.0 / count as $type).compute()
            }

            /// Pearson's correlation of each two rows: NumPy's `corrcoef`. The [covariance](Self::covariance) over the roots of the
            /// two variances, from −1 to 1; NaN for rows that do not vary.
            ///
            /// # Errors
            ///
            /// [`Error::Parameter`] if there is no column; those of an allocation and a launch.
            #[doc(alias = "corrcoef")]
            pub fn correlation(&self) -> Result<DeviceArray<$type, Ix2>> {
                if self.shape()[1] == 0 {
                    return Err(Error::Parameter {
                        operation: "correlation",
                        parameter: "columns",
                        given: "0".into(),
                        wanted: "one at least".into(),
                    });
                }
                let covariance = self.covariance(0)?;
                let deviations = covariance.diag().sqrt()?;
                let of_rows = covariance.div(&deviations.insert_axis(Axis(1))?)?;
                of_rows.div(&deviations)?.clamp(-1.0, 1.0)
            }
        }
    )*};
}

covariances!(f32, f64);

/// What sums over so many columns are divided by.
fn check_count(columns: usize, ddof: usize) -> Result<usize> {
    let count = columns.checked_sub(ddof).filter(|&count| count > 0);
    count.ok_or_else(|| Error::Parameter {
        operation: "covariance",
        parameter: "ddof",
        given: ddof.to_string(),
        wanted: format!("less than the {columns} columns"),
    })
}
