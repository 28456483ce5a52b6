// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether results are right: every element where its reference is cheap, else elements spread over all of the result.

use std::fmt::Debug;

use anyhow::{Result, bail, ensure};
use rayon::prelude::*;

use super::data::{Value, bits};

/// Elements whose terms are added up together, in the reference of a scan.
const CHUNK: usize = 1 << 16;

/// An error unless every element is what `wanted` gives for its index.
pub fn every<T: PartialEq + Debug + Sync>(got: &[T], wanted: &(dyn Fn(usize) -> T + Sync)) -> Result<()> {
    let wrong = (0..got.len()).into_par_iter().find_first(|&i| got[i] != wanted(i));
    match wrong {
        Some(i) => bail!(
            "the result is wrong: element {i} is {:?}, wanted {:?}",
            got[i],
            wanted(i)
        ),
        None => Ok(()),
    }
}

/// An error unless both are equal.
pub fn one<T: PartialEq + Debug>(got: &T, wanted: &T) -> Result<()> {
    ensure!(got == wanted, "the result is wrong: it is {got:?}, wanted {wanted:?}");
    Ok(())
}

/// An error unless every element is as near as `wanted` says for its index: to what, and by how much it may be off.
pub fn every_near<T: Copy + Into<f64> + Sync>(got: &[T], wanted: &(dyn Fn(usize) -> (f64, f64) + Sync)) -> Result<()> {
    (0..got.len()).into_par_iter().try_for_each(|i| {
        let (wanted, bound) = wanted(i);
        near(format_args!("{i}"), got[i].into(), wanted, bound)
    })
}

/// An error unless element `place` is that near.
pub fn near(place: std::fmt::Arguments<'_>, got: f64, wanted: f64, bound: f64) -> Result<()> {
    ensure!(
        (got - wanted).abs() <= bound,
        "the result is wrong: element {place} is {got}, wanted {wanted} to within {bound:.1e}"
    );
    Ok(())
}

/// Checks one element, at a random place, in each square of a grid that has at most `most` squares along a side of a
/// square matrix, so that a matrix that is no larger is checked everywhere; and the corners and the middles of the
/// edges.
pub fn spread(side: usize, most: usize, check: &(dyn Fn(usize, usize) -> Result<()> + Sync)) -> Result<()> {
    let width = side.div_ceil(most);
    let squares = side.div_ceil(width);
    let edges = [0, side / 2, side - 1];
    edges
        .iter()
        .try_for_each(|&row| edges.iter().try_for_each(|&column| check(row, column)))?;
    (0..squares * squares).into_par_iter().try_for_each(|i| {
        let place = bits(i) as usize;
        let (down, right) = (place % width, place / width % width);
        let within = |square: usize, offset: usize| (square * width + offset).min(side - 1);
        check(within(i / squares, down), within(i % squares, right))
    })
}

/// The sum of [`Value::term`] of those indices.
pub fn sum_of_terms<T: Value>(indices: std::ops::Range<usize>) -> i64 {
    indices.into_par_iter().map(|i| T::term(bits(i))).sum()
}

/// An error unless `got` has the sums of all terms up to its index, with that of its index itself where it is
/// inclusive.
pub fn prefix_sums<T: Value>(got: &[T], inclusive: bool) -> Result<()> {
    let chunk = |i: usize| i * CHUNK..got.len().min((i + 1) * CHUNK);
    let chunks = got.len().div_ceil(CHUNK);
    let totals: Vec<i64> = (0..chunks).map(|i| sum_of_terms::<T>(chunk(i))).collect();
    let starts: Vec<i64> = totals
        .iter()
        .scan(0, |sum, total| Some(std::mem::replace(sum, *sum + total)))
        .collect();
    (0..chunks).into_par_iter().try_for_each(|i| {
        let mut sum = starts[i];
        chunk(i).try_for_each(|i| {
            let before = sum;
            sum += T::term(bits(i));
            let wanted = T::of_sum(if inclusive { sum } else { before });
            ensure!(
                got[i] == wanted,
                "the result is wrong: element {i} is {:?}, wanted {wanted:?}",
                got[i]
            );
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn one_wrong_element_is_found() {
        let mut got: Vec<usize> = (0..100_000).collect();
        every(&got, &|i| i).unwrap();
        got[77_777] = 5;
        let message = every(&got, &|i| i).unwrap_err().to_string();
        assert_eq!(message, "the result is wrong: element 77777 is 5, wanted 77777");
        assert!(near(format_args!("3"), f64::NAN, 0.0, 1.0).is_err());
    }

    #[test]
    fn one_wrong_prefix_sum_is_found() {
        let mut sum = 0;
        let term = |i| i64::term(bits(i));
        let mut got: Vec<i64> = (0..2 * CHUNK + 3)
            .map(|i| {
                sum += term(i);
                sum
            })
            .collect();
        prefix_sums(&got, true).unwrap();
        let exclusive: Vec<i64> = got.iter().enumerate().map(|(i, sum)| sum - term(i)).collect();
        prefix_sums(&exclusive, false).unwrap();
        assert!(prefix_sums(&got, false).is_err());
        got[CHUNK + 1] += 1;
        assert!(prefix_sums(&got, true).is_err());
    }

    #[test]
    fn places_are_spread_over_all_of_a_matrix() {
        let places = |side, most| {
            let places = Mutex::new(Vec::new());
            spread(side, most, &|row, column| {
                places.lock().unwrap().push((row, column));
                Ok(())
            })
            .unwrap();
            let mut places = places.into_inner().unwrap();
            let edges = places.drain(..9).collect::<Vec<_>>();
            assert_eq!(
                (edges[0], edges[2], edges[7]),
                ((0, 0), (0, side - 1), (side - 1, side / 2))
            );
            places.sort();
            places
        };
        let all: Vec<_> = (0..5).flat_map(|row| (0..5).map(move |column| (row, column))).collect();
        assert_eq!(places(5, 10), all);
        let mut squares: Vec<_> = places(100, 10)
            .iter()
            .map(|(row, column)| (row / 10, column / 10))
            .collect();
        squares.sort();
        let grid: Vec<_> = (0..100).map(|i| (i / 10, i % 10)).collect();
        assert_eq!(squares, grid);
    }
}
