// SPDX-License-Identifier: MIT OR Apache-2.0
//! A roofline as SVG (S. Williams, A. Waterman, D. Patterson, "Roofline", 2009): how many operations each row does in a
//! second, over how many it does for each byte, below what bandwidth and arithmetic allow.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use warpsmith_lab::report::figures;

/// The picture's pixels.
const SIZE: (u32, u32) = (1100, 750);

/// The height of a line of labels, and the width of one of their characters, about.
const LINE: i32 = 13;
const CHARACTER: i32 = 7;

/// The roof: GB/s of the slanted part, and the flat ones, from low to high.
pub struct Roof {
    pub bandwidth: f64,
    pub peaks: Vec<Peak>,
}

/// What arithmetic allows.
#[derive(Clone, Copy)]
pub struct Peak {
    /// The numbers that it is of.
    pub label: &'static str,
    /// GFLOP/s
    pub performance: f64,
}

/// A row.
pub struct Point<'a> {
    pub label: &'a str,
    /// FLOP/byte
    pub intensity: f64,
    /// GFLOP/s
    pub performance: f64,
}

impl Roof {
    /// GFLOP/s at most.
    fn at(&self, intensity: f64) -> f64 {
        let peak = self.peaks.last().map_or(f64::INFINITY, |peak| peak.performance);
        (self.bandwidth * intensity).min(peak)
    }

    /// The intensities at which the roof's parts become flat.
    fn ridges(&self) -> impl Iterator<Item = f64> {
        self.peaks.iter().map(|peak| peak.performance / self.bandwidth)
    }
}

/// The picture's text.
pub fn roofline(title: &str, roof: &Roof, points: &[Point]) -> Result<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let intensities = || points.iter().map(|point| point.intensity).chain(roof.ridges());
    let (left, right) = around(intensities());
    let heights = points.iter().map(|point| point.performance);
    let (bottom, top) = around(heights.chain([roof.at(left), roof.at(right)]));
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(15)
        .margin_right(130)
        .x_label_area_size(45)
        .y_label_area_size(75)
        .build_cartesian_2d((left..right).log_scale(), (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("arithmetic intensity, FLOP/byte")
        .y_desc("GFLOP/s")
        .light_line_style(WHITE)
        .draw()?;
    // Without a peak the roof goes on as the bandwidth has it.
    let slanted = [left, roof.ridges().last().unwrap_or(right)];
    let slanted = slanted.map(|intensity| (intensity, roof.at(intensity)));
    chart.draw_series(LineSeries::new(slanted, BLACK.stroke_width(2)))?;
    for (peak, ridge) in roof.peaks.iter().zip(roof.ridges()) {
        let flat = [ridge, right].map(|intensity| (intensity, peak.performance));
        chart.draw_series(LineSeries::new(flat, BLACK.stroke_width(2)))?;
    }
    let dot = |point: &Point| Circle::new((point.intensity, point.performance), 3, BLUE.filled());
    chart.draw_series(points.iter().map(dot))?;

    let at = |point: &Point| chart.backend_coord(&(point.intensity, point.performance));
    let dots: Vec<_> = points.iter().map(|point| (at(point), point.label)).collect();
    let style = ("sans-serif", 12).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    for (&(dot, label), place) in dots.iter().zip(places(&dots)) {
        root.draw(&PathElement::new([dot, (place.0 - 2, place.1)], BLUE.mix(0.4)))?;
        root.draw(&Text::new(label, place, style.clone()))?;
    }
    let beside = |place, right: i32, down: i32| {
        let (x, y) = chart.backend_coord(&place);
        (x + right, y + down)
    };
    let bandwidth = format!("copy: {} GB/s", figures(roof.bandwidth));
    root.draw(&Text::new(
        bandwidth,
        beside((left, roof.at(left)), 20, 4),
        style.clone(),
    ))?;
    let style = style.pos(Pos::new(HPos::Right, VPos::Center));
    for Peak { label, performance } in &roof.peaks {
        root.draw(&Text::new(
            format!("{label} peak: {} GFLOP/s", figures(*performance)),
            beside((right, *performance), -5, -LINE),
            style.clone(),
        ))?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(svg)
}

/// Limits with half a decade around these numbers, those of them that a logarithmic axis has.
fn around(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let shown = numbers.filter(|x| x.is_finite() && *x > 0.0);
    let (low, high) = shown.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| {
        (low.min(x), high.max(x))
    });
    if low > high {
        (0.1, 10.0)
    } else {
        (low / 3.0, high * 3.0)
    }
}

/// Where labels stand: right of their dots, and as far down as none covers another. In the order given.
fn places(dots: &[((i32, i32), &str)]) -> Vec<(i32, i32)> {
    let mut order: Vec<usize> = (0..dots.len()).collect();
    order.sort_by_key(|&i| dots[i].0.1);
    let mut places = vec![(0, 0); dots.len()];
    for (done, &i) in order.iter().enumerate() {
        let ((x, mut y), label) = dots[i];
        let x = x + 12;
        let mut taken: Vec<i32> = order[..done]
            .iter()
            .filter(|&&other| {
                let (left, width) = (places[other].0, CHARACTER * dots[other].1.len() as i32);
                left < x + CHARACTER * label.len() as i32 && x < left + width
            })
            .map(|&other| places[other].1)
            .collect();
        taken.sort();
        for other in taken {
            if (y - other).abs() < LINE {
                y = other + LINE;
            }
        }
        places[i] = (x, y);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let dots: Vec<_> = (0..30)
            .map(|i| ((100 + i % 3 * 40, 200 + i * 7 % 20), "reduce_sum"))
            .collect();
        let places = places(&dots);
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                let apart = (a.0 - b.0).abs() >= 10 * CHARACTER || (a.1 - b.1).abs() >= LINE;
                assert!(apart, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_roof_is_flat_from_its_ridge_on() {
        let peak = |label, performance| Peak { label, performance };
        let roof = Roof {
            bandwidth: 100.0,
            peaks: vec![peak("f32", 1000.0), peak("f16", 8000.0)],
        };
        assert_eq!((roof.at(1.0), roof.at(500.0)), (100.0, 8000.0));
        assert_eq!(roof.ridges().collect::<Vec<_>>(), [10.0, 80.0]);
        let point = Point {
            label: "a_row",
            intensity: 0.25,
            performance: 20.0,
        };
        let svg = roofline("a device", &roof, &[point]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(
            [
                "a_row",
                "a device",
                "FLOP/byte",
                "copy: 100 GB/s",
                "f32 peak: 1000 GFLOP/s",
                "f16 peak: 8000 GFLOP/s"
            ]
            .iter()
            .all(|text| svg.contains(text))
        );
    }

    #[test]
    fn axes_have_limits_for_any_numbers() {
        assert_eq!(around([f64::NAN, 0.0].into_iter()), (0.1, 10.0));
        assert_eq!(around([3.0, 12.0].into_iter()), (1.0, 36.0));
    }
}
