// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

/// What Random123's file `kat_vectors` says of philox4x32 with ten rounds: counter, key, words.
const KNOWN_ANSWERS: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    (
        [u32::MAX; 4],
        [u32::MAX; 2],
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
    ),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn known_answers() {
    for (counter, key, words) in KNOWN_ANSWERS {
        let (number, sequence) = (join([counter[0], counter[1]]), join([counter[2], counter[3]]));
        let random = Philox4x32::new(join(key)).with_sequence(sequence);
        assert_eq!(random.block(number), words);
        assert_eq!(random.skip(number).block(0), words);
        // Around the end of the numbers.
        assert_eq!(random.skip(number.wrapping_add(7)).block(7u64.wrapping_neg()), words);
    }
}

/// Every block is another: the first words of many, of sequences and seeds beside one another.
#[test]
fn neighbours_differ() {
    let mut blocks = std::collections::HashSet::new();
    for seed in 0..8 {
        for sequence in 0..8 {
            let random = Philox4x32::new(seed).with_sequence(sequence);
            blocks.extend((0..512).map(|number| random.block(number)));
        }
    }
    assert_eq!(blocks.len(), 8 * 8 * 512);
}

#[test]
fn bounded_integers_are_the_upper_part_of_the_product() {
    assert_eq!(bounded_u32([u32::MAX; 2], 9), 9);
    assert_eq!(bounded_u32([0; 2], 9), 0);
    assert_eq!(bounded_u32([5, 77], u32::MAX), 77);
    assert_eq!(bounded_u32([1, 2], 0), 0);
    // The first of the words for which it is 1: 2^64 / 3, rounded up.
    assert_eq!(bounded_u32([0x5555_5556, 0x5555_5555], 2), 1);
    assert_eq!(bounded_u32([0x5555_5555, 0x5555_5555], 2), 0);
    assert_eq!(bounded_u64([u32::MAX; 4], 9), 9);
    assert_eq!(bounded_u64([0; 4], 9), 0);
    assert_eq!(bounded_u64([1, 2, 5, 77], u64::MAX), join([5, 77]));
    assert_eq!(bounded_u64([u32::MAX; 4], u64::MAX), u64::MAX);
    let third = [0x5555_5555; 4];
    assert_eq!(bounded_u64(third, 2), 0);
    assert_eq!(bounded_u64([0x5555_5556, third[1], third[2], third[3]], 2), 1);
}

/// Box and Muller in f64, by the host's functions.
fn reference(u: f64, turns: f64, mirrored: bool) -> [f64; 2] {
    let radius = (-2.0 * u.ln()).sqrt();
    let angle = turns * std::f64::consts::PI;
    let cos = radius * angle.cos();
    [if mirrored { -cos } else { cos }, radius * angle.sin()]
}

/// Words from everywhere, the ends and their neighbours among them.
fn words() -> impl Iterator<Item = u32> + Clone {
    let ends = [
        0,
        1,
        2,
        3,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        u32::MAX - 1,
        u32::MAX,
    ];
    let thirds = (0..32).flat_map(|shift| [0xaaaa_aaaa_u32, 0xaaaa_aaab, 0x5555_5555].map(|word| word >> shift));
    let random = (0..500).flat_map(|number| Philox4x32::new(3).block(number));
    ends.into_iter().chain(thirds).chain(random)
}

#[test]
fn normal_f32_is_within_its_bound() {
    for (a, b) in words().flat_map(|a| words().step_by(7).map(move |b| (a, b))) {
        let u = f64::from((a as f32).mul_add(1.0 - f32::EPSILON / 2.0, 0.5)) / 4294967296.0;
        let found = normal_f32([a, b], 0.0, 1.0);
        let wanted = reference(u, f64::from(b as i32) / 4294967296.0, b & 1 == 1);
        let bound = (-2.0 * u.ln()).sqrt() * 2.3e-6;
        for (found, wanted) in found.into_iter().zip(wanted) {
            let error = (f64::from(found) - wanted).abs();
            assert!(
                error <= bound,
                "{a:#x} {b:#x}: {found} for {wanted}, {error:e} is beyond {bound:e}"
            );
        }
    }
}

#[test]
fn normal_f64_is_within_its_bound() {
    let pairs = words().step_by(3).zip(words().skip(40).step_by(2));
    for ((a, b), (c, d)) in pairs
        .clone()
        .flat_map(|x| pairs.clone().step_by(31).map(move |y| (x, y)))
    {
        let word = join([a, b]);
        let u = (word as f64 + 0.5) / 18446744073709551616.0;
        let angle = join([c, d]);
        let found = normal_f64([a, b, c, d], 0.0, 1.0);
        let wanted = reference(u, angle as i64 as f64 / 18446744073709551616.0, angle & 1 == 1);
        let bound = (-2.0 * u.ln()).sqrt() * 2f64.powi(-50);
        for (found, wanted) in found.into_iter().zip(wanted) {
            let error = (found - wanted).abs();
            assert!(
                error <= bound,
                "{word:#x} {angle:#x}: {found} for {wanted}, {error:e} is beyond {bound:e}"
            );
        }
    }
}

#[test]
fn the_tails_end_where_they_should() {
    let [x, y] = normal_f32([0, 0], 0.0, 1.0);
    assert!((x - 6.7637).abs() < 1e-3 && y == 0.0, "{x} {y}");
    let [x, y] = normal_f64([0; 4], 0.0, 1.0);
    assert!((x - 9.4924).abs() < 1e-3 && y == 0.0, "{x} {y}");
    // The largest word of the radius, which would round to 1.
    let [x, _] = normal_f32([u32::MAX, 0], 0.0, 1.0);
    assert!((x - 3.4527e-4).abs() < 1e-7, "{x}");
    assert_eq!(normal_f64([u32::MAX, u32::MAX, 0, 0], 0.0, 1.0), [0.0, 0.0]);
}

#[test]
fn mean_and_deviation() {
    for words in [[5, 6], [u32::MAX, 7], [0, 1 << 30]] {
        let standard = normal_f32(words, 0.0, 1.0);
        assert_eq!(normal_f32(words, 3.0, 0.0), [3.0, 3.0]);
        for (x, z) in normal_f32(words, 3.0, 2.0).into_iter().zip(standard) {
            assert!((x - (3.0 + 2.0 * z)).abs() <= 1e-6 * x.abs().max(1.0));
        }
    }
}
