// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers: the published words, and of all that is made of them the same bits as on the host, whose results
//! `cuda_std`'s own tests hold against the bounds in the docs.

use cuda_std::random::Philox4x32;
use device_test_kernels::random::{RESULTS, blocks, made, made_of};
use device_tests::{device, download, upload, zeros};
use warpsmith::LaunchConfig;

/// What Random123's file `kat_vectors` says of philox4x32 with ten rounds: seed, sequence, number, words.
const KNOWN_ANSWERS: [(u64, u64, u64, [u32; 4]); 3] = [
    (0, 0, 0, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    (
        u64::MAX,
        u64::MAX,
        u64::MAX,
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
    ),
    (
        0x299f_31d0_a409_3822,
        0x0370_7344_1319_8a2e,
        0x85a3_08d3_243f_6a88,
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn known_answers() {
    let device = device();
    for (seed, sequence, number, words) in KNOWN_ANSWERS {
        let random = Philox4x32::new(seed).with_sequence(sequence);
        let numbers: Vec<u64> = (0..100).map(|i| number.wrapping_add(i)).collect();
        let (on_device, mut out) = (upload(&device, &numbers), zeros::<u32>(&device, 400));
        let config = LaunchConfig::for_len(100, 64);
        let stream = device.default_stream();
        stream
            .launch::<blocks>(&config, (random, &on_device, &mut out))
            .unwrap();
        let found = download(&out);
        assert_eq!(found[..4], words);
        let wanted: Vec<u32> = numbers.iter().flat_map(|&number| random.block(number)).collect();
        assert_eq!(found, wanted);
    }
}

/// Words at the ends, one after another, and random ones.
#[test]
fn what_is_made_of_words_has_the_same_bits() {
    let device = device();
    let ends = [0u32, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
    let corners = (0..7 * 7 * 7 * 7usize).flat_map(|i| [i, i / 7, i / 49, i / 343].map(|i| ends[i % 7]));
    // The first word, of which the root is taken: close to 0, close to 2^32, and all over.
    let near = (0..2000u32).flat_map(|i| [[i, i, 5, 6], [u32::MAX - i, i << 12, i, 7]].concat());
    let steps = (0..20_000u32).flat_map(|i| [i.wrapping_mul(214_743), i.wrapping_mul(99_991), !i, i]);
    let random = (0..20_000).flat_map(|number| Philox4x32::new(1).block(number));
    let words: Vec<u32> = corners.chain(near).chain(steps).chain(random).collect();
    let count = words.len() / 4;
    let (on_device, mut out) = (upload(&device, &words), zeros::<u64>(&device, RESULTS * count));
    let config = LaunchConfig::for_len(count, 128);
    device
        .default_stream()
        .launch::<made>(&config, (&on_device, &mut out))
        .unwrap();
    for (words, found) in words.chunks_exact(4).zip(download(&out).chunks_exact(RESULTS)) {
        let words = [words[0], words[1], words[2], words[3]];
        assert_eq!(found, made_of(words), "{words:x?}");
    }
}
