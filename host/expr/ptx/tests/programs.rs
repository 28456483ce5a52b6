// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs at random.

use cuda_std::scalar::ScalarType::{self, *};

use crate::backend::DeviceFnInfo;
use crate::expr::program::{Input, Layout, Program, Step, Value};

/// A device function and its text.
pub(super) type Sample = (&'static DeviceFnInfo, &'static str);

macro_rules! samples {
    ($($name:ident($($argument:ident),*) -> $result:ident;)*) => {
        /// Texts that rustc has made of device functions.
        pub(super) fn samples() -> Vec<Sample> {
            vec![$((
                info(stringify!($name), &[$($argument),*], $result),
                include_str!(concat!("fixtures/", stringify!($name), ".ptx")),
            )),*]
        }
    };
}

samples! {
    unary_f32_Tanh(F32) -> F32;
    unary_f32_Sin(F32) -> F32;
    binary_f32_Add(F32, F32) -> F32;
    binary_f32_Mul(F32, F32) -> F32;
    binary_f64_Mul(F64, F64) -> F64;
    binary_i16_Div(I16, I16) -> I16;
    binary_bool_And(Bool, Bool) -> Bool;
    compare_f32_Less(F32, F32) -> Bool;
    select_f32(Bool, F32, F32) -> F32;
    table_f32(U32, F32) -> F32;
    cast_f32_f64(F32) -> F64;
    cast_f32_u8(F32) -> U8;
    cast_u8_f32(U8) -> F32;
}

/// A function that is not called.
pub(super) fn info(name: &'static str, arguments: &'static [ScalarType], result: ScalarType) -> &'static DeviceFnInfo {
    unsafe fn run(_: *const *const (), _: *mut (), _: usize) {
        unreachable!("the generator calls nothing");
    }
    Box::leak(Box::new(DeviceFnInfo {
        package: "sample",
        version: "1.0.0",
        name,
        signature: 0,
        arguments,
        result,
        run,
    }))
}

/// The sample of that name.
pub(super) fn sample(name: &str) -> Sample {
    samples()
        .into_iter()
        .find(|(info, _)| info.name == name)
        .expect("a sample")
}

/// A program of those functions, with their texts.
pub(super) struct Random {
    pub program: Program,
    pub texts: Vec<String>,
}

const TYPES: [ScalarType; 15] = [
    Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64, F8E4M3, F8E5M2,
];

/// Numbers that follow from a seed: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

impl Random {
    /// The program of that seed, with functions from `samples`.
    pub(super) fn new(seed: u64, samples: &[Sample]) -> Self {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let axes = 1 + numbers.below(4) as u8;
        let program = Program {
            axes,
            aligned: numbers.below(2) == 0,
            transposed: (axes > 1 && numbers.below(2) == 0).then(|| numbers.below(usize::from(axes) - 1) as u8),
            inputs: Vec::new(),
            scalars: Vec::new(),
            functions: Vec::new(),
            steps: Vec::new(),
            types: Vec::new(),
            outputs: Vec::new(),
            ..Program::default()
        };
        let mut random = Self {
            program,
            texts: Vec::new(),
        };
        let arguments: Vec<ScalarType> = samples
            .iter()
            .flat_map(|(info, _)| info.arguments.iter().copied())
            .collect();
        for _ in 0..1 + numbers.below(4) {
            // Half of them are types that a function takes.
            let ty = match numbers.below(2) {
                0 => TYPES[numbers.below(TYPES.len())],
                _ => arguments[numbers.below(arguments.len())],
            };
            random.leaf(ty, &mut numbers);
        }
        random.push(Step::Index(numbers.below(usize::from(random.program.axes)) as u8), U64);
        for _ in 0..numbers.below(8) {
            random.call(&samples[numbers.below(samples.len())], &mut numbers);
        }
        let last = random.program.steps.len() - 1;
        random.program.outputs = vec![last as Value, numbers.below(last + 1) as Value];
        random
    }

    fn push(&mut self, step: Step, ty: ScalarType) -> Value {
        self.program.steps.push(step);
        self.program.types.push(ty);
        self.program.steps.len() as Value - 1
    }

    fn leaf(&mut self, ty: ScalarType, numbers: &mut Numbers) -> Value {
        if numbers.below(5) == 0 {
            self.program.scalars.push(ty);
            return self.push(Step::Scalar(self.program.scalars.len() as u16 - 1), ty);
        }
        let layout = [
            Layout::Single,
            Layout::Rows,
            Layout::Columns,
            Layout::Strided,
            Layout::Rows,
        ][numbers.below(5)];
        self.program.inputs.push(Input { ty, layout });
        self.push(Step::Input(self.program.inputs.len() as u16 - 1), ty)
    }

    fn call(&mut self, (info, text): &Sample, numbers: &mut Numbers) {
        let mut arguments = [0; 6];
        for (to, &ty) in arguments.iter_mut().zip(info.arguments) {
            let of_type = |&value: &usize| self.program.types[value] == ty;
            let values: Vec<usize> = (0..self.program.types.len()).filter(of_type).collect();
            *to = match values.len() {
                0 => self.leaf(ty, numbers),
                count => values[numbers.below(count)] as Value,
            };
        }
        let known = self.program.functions.iter().position(|function| function == info);
        let function = known.unwrap_or_else(|| {
            self.program.functions.push(info);
            self.texts.push((*text).to_owned());
            self.program.functions.len() - 1
        });
        self.push(Step::Call(function as u16, arguments), info.result);
    }
}
