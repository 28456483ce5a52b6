//! temporary
#![allow(missing_docs)]
use core::ops::*;
pub trait Float: bytemuck::Pod + PartialOrd + Add<Output=Self> + Sub<Output=Self> + Mul<Output=Self> + Div<Output=Self> + Neg<Output=Self> {
    fn from_f64(x: f64) -> Self;
    fn sqrt(self) -> Self; fn exp(self) -> Self; fn ln(self) -> Self; fn sin(self) -> Self; fn cos(self) -> Self; fn tanh(self) -> Self; fn abs(self) -> Self; fn minimum(self, o: Self) -> Self; fn maximum(self, o: Self) -> Self; fn mul_add(self, a: Self, b: Self) -> Self;
}
macro_rules! f { ($t:ident $($n:ident $f:ident),*) => { impl Float for $t { fn from_f64(x: f64) -> Self { x as $t } $(fn $n(self) -> Self { libm::$f(self) })* 
 fn minimum(self, o: Self) -> Self { if self.is_nan() || self < o { self } else { o } }
 fn maximum(self, o: Self) -> Self { if self.is_nan() || self > o { self } else { o } }
 fn mul_add(self, a: Self, b: Self) -> Self { self*a+b } } } }
f!(f32 sqrt sqrtf, exp expf, ln logf, sin sinf, cos cosf, tanh tanhf, abs fabsf);
f!(f64 sqrt sqrt, exp exp, ln log, sin sin, cos cos, tanh tanh, abs fabs);
