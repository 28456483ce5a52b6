// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of what experiments find, as SVG and as pixels.

use anyhow::Result;
use ndarray::Array3;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::raster::Raster;
use crate::report::figures;

/// The picture's pixels.
const SIZE: (u32, u32) = (900, 560);

/// What there is to see.
#[derive(Clone, Debug)]
pub enum Plot {
    /// A number for each thing.
    Bars {
        /// Of the numbers.
        unit: String,
        /// The things, from top to bottom.
        bars: Vec<(String, f64)>,
    },
    /// Lines over a logarithmic axis.
    Lines {
        /// What is below, and beside.
        axes: [String; 2],
        /// Whether the axis at the left is logarithmic too; else it begins at 0.
        log: bool,
        /// Lines of points.
        lines: Vec<(String, Vec<(f64, f64)>)>,
    },
    /// A number for each pair of settings.
    HeatMap {
        /// Of the numbers.
        unit: String,
        /// What is below, and beside.
        axes: [String; 2],
        /// The settings below.
        columns: Vec<String>,
        /// The settings beside, from top to bottom, with the numbers of the row.
        rows: Vec<(String, Vec<f64>)>,
    },
}

impl Plot {
    /// Whether there is no number to be seen: what an experiment has measured nothing of, on a simulated GPU for instance.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bars { bars, .. } => bars.is_empty(),
            Self::Lines { lines, .. } => lines.iter().all(|(_, points)| points.is_empty()),
            Self::HeatMap { rows, .. } => rows.iter().flat_map(|(_, values)| values).all(|value| value.is_nan()),
        }
    }

    /// The picture's text.
    ///
    /// # Errors
    ///
    /// Those of drawing.
    pub fn svg(&self, title: &str) -> Result<String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(), title)?;
        Ok(svg)
    }

    /// The picture's pixels: red, green and blue, row by row.
    ///
    /// # Errors
    ///
    /// Those of drawing.
    pub fn pixels(&self, title: &str) -> Result<Array3<u8>> {
        let (width, height) = SIZE;
        let mut pixels = Array3::zeros((height as usize, width as usize, 3));
        if let Some(pixels) = pixels.as_slice_mut() {
            self.draw(&Raster::new(SIZE, pixels).into_drawing_area(), title)?;
        }
        Ok(pixels)
    }

    fn draw<B: DrawingBackend>(&self, root: &Area<B>, title: &str) -> Result<()>
    where
        B::ErrorType: 'static,
    {
        root.fill(&WHITE)?;
        let area = root.titled(title, ("sans-serif", 18))?.margin(10, 10, 15, 15);
        match self {
            Self::Bars { unit, bars } => draw_bars(&area, unit, bars)?,
            Self::Lines { axes, log, lines } => draw_lines(&area, axes, *log, lines)?,
            Self::HeatMap {
                unit,
                axes,
                columns,
                rows,
            } => draw_heat_map(&area, unit, axes, columns, rows)?,
        }
        root.present()?;
        Ok(())
    }
}

type Area<B> = DrawingArea<B, plotters::coord::Shift>;

const LABEL: (&str, u32) = ("sans-serif", 13);

/// The names of lines. Their box is as wide as plotters takes letters of this size for, and those of a raster are.
const NAME: (&str, u32) = ("sans-serif", 15);

/// A text at a place, whose anchor it is.
fn write<B: DrawingBackend>(area: &Area<B>, text: &str, place: (i32, i32), anchor: HPos) -> Result<()>
where
    B::ErrorType: 'static,
{
    let style = LABEL.into_font().color(&BLACK).pos(Pos::new(anchor, VPos::Center));
    Ok(area.draw(&Text::new(text.to_string(), place, style))?)
}

fn draw_bars<B: DrawingBackend>(area: &Area<B>, unit: &str, bars: &[(String, f64)]) -> Result<()>
where
    B::ErrorType: 'static,
{
    let (width, height) = area.dim_in_pixel();
    let (left, right) = (280, width as i32 - 110);
    let most = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let each = (height as i32 - 30) / (bars.len() as i32).max(1);
    for (i, (label, value)) in bars.iter().filter(|(_, value)| value.is_finite()).enumerate() {
        let middle = each * i as i32 + each / 2;
        let share = if most > 0.0 { value / most } else { 0.0 };
        let end = left + (share * f64::from(right - left)) as i32;
        let thickness = (each * 3 / 10).min(16);
        let corners = [(left, middle - thickness), (end.max(left + 1), middle + thickness)];
        area.draw(&Rectangle::new(corners, BLUE.mix(0.6).filled()))?;
        write(area, label, (left - 8, middle), HPos::Right)?;
        write(area, &figures(*value), (end + 8, middle), HPos::Left)?;
    }
    write(area, unit, ((left + right) / 2, height as i32 - 12), HPos::Center)
}

fn draw_lines<B: DrawingBackend>(
    area: &Area<B>,
    axes: &[String; 2],
    log: bool,
    lines: &[(String, Vec<(f64, f64)>)],
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (left, right) = around(points().map(|point| point.0), 1.2);
    let x = (left..right).log_scale();
    if log {
        let (bottom, top) = around(points().map(|point| point.1), 2.0);
        return draw_on(area, axes, x, (bottom..top).log_scale(), lines);
    }
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    draw_on(area, axes, x, 0.0..(if top > 0.0 { 1.1 * top } else { 1.0 }), lines)
}

fn draw_on<B: DrawingBackend, X, Y>(
    area: &Area<B>,
    axes: &[String; 2],
    x: X,
    y: Y,
    lines: &[(String, Vec<(f64, f64)>)],
) -> Result<()>
where
    B::ErrorType: 'static,
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    let number = |x: &f64| figures(*x).trim_end_matches('0').trim_end_matches('.').to_string();
    let number = |x: &f64| if x.fract() == 0.0 { format!("{x}") } else { number(x) };
    chart
        .configure_mesh()
        .x_desc(&axes[0])
        .y_desc(&axes[1])
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .light_line_style(WHITE)
        .draw()?;
    for (i, (label, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(i).to_rgba();
        let line = LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3);
        let legend = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
        chart.draw_series(line)?.label(label).legend(legend);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(NAME)
        .draw()?;
    Ok(())
}

fn draw_heat_map<B: DrawingBackend>(
    area: &Area<B>,
    unit: &str,
    axes: &[String; 2],
    columns: &[String],
    rows: &[(String, Vec<f64>)],
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let (width, height) = area.dim_in_pixel();
    let (left, bottom) = (90, height as i32 - 55);
    let wide = (width as i32 - left) / (columns.len() as i32).max(1);
    let high = bottom / (rows.len() as i32).max(1);
    let values = rows.iter().flat_map(|(_, values)| values).copied();
    let (least, most) = values.fold((f64::INFINITY, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    for (i, (label, values)) in rows.iter().enumerate() {
        let top = high * i as i32;
        write(area, label, (left - 8, top + high / 2), HPos::Right)?;
        for (j, value) in values.iter().enumerate() {
            let at = (left + wide * j as i32, top);
            let share = if most > least {
                (value - least) / (most - least)
            } else {
                1.0
            };
            // From white to green: dark figures are read on all of them.
            let color = HSLColor(0.38, 0.65, 0.97 - 0.42 * share);
            area.draw(&Rectangle::new(
                [at, (at.0 + wide - 2, at.1 + high - 2)],
                color.filled(),
            ))?;
            write(area, &figures(*value), (at.0 + wide / 2, at.1 + high / 2), HPos::Center)?;
        }
    }
    for (j, label) in columns.iter().enumerate() {
        write(
            area,
            label,
            (left + wide * j as i32 + wide / 2, bottom + 12),
            HPos::Center,
        )?;
    }
    let below = format!("{} below, {} beside; {unit}", axes[0], axes[1]);
    write(area, &below, ((left + width as i32) / 2, bottom + 36), HPos::Center)
}

/// Limits that are further out than all numbers that a logarithmic axis has.
fn around(numbers: impl Iterator<Item = f64>, room: f64) -> (f64, f64) {
    let shown = numbers.filter(|x| x.is_finite() && *x > 0.0);
    let (low, high) = shown.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        (0.1, 10.0)
    } else {
        (low / room, high * room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(plot: &Plot, texts: &[&str]) {
        let svg = plot.svg("a title").unwrap();
        let pixels = plot.pixels("a title").unwrap();
        // White, with something on it.
        let white = pixels.iter().filter(|&&light| light == 255).count();
        assert!(
            pixels.len() / 10 < white && white < pixels.len() - 500,
            "{white} of {}",
            pixels.len()
        );
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["a title"].iter().chain(texts) {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn each_kind_has_its_labels_and_numbers() {
        let bars = vec![("naive".into(), 12.5), ("tiled".into(), 99.0), ("none".into(), 0.0)];
        shown(
            &Plot::Bars {
                unit: "GB/s".into(),
                bars,
            },
            &["naive", "12.50", "99", "GB/s"],
        );
        for log in [false, true] {
            let lines = vec![
                ("read".into(), vec![(1.0, 3.0), (64.0, 0.25)]),
                ("write".into(), vec![]),
            ];
            let axes = ["stride", "of the best"].map(String::from);
            shown(
                &Plot::Lines { axes, log, lines },
                &["read", "write", "stride", "of the best"],
            );
        }
        let rows = vec![("32".into(), vec![1.0, 2.5]), ("64".into(), vec![3.5, 3.5])];
        let (unit, axes, columns) = (
            "GB/s".into(),
            ["elements", "threads"].map(String::from),
            vec!["1".into(), "2".into()],
        );
        let plot = Plot::HeatMap {
            unit,
            axes,
            columns,
            rows,
        };
        shown(&plot, &["32", "3.500", "elements below, threads beside; GB/s"]);
    }

    #[test]
    fn plots_of_nothing_are_drawn() {
        let nothing = |plot: &Plot, texts| {
            assert!(plot.is_empty(), "{plot:?}");
            shown(plot, texts);
        };
        nothing(
            &Plot::Bars {
                unit: "GB/s".into(),
                bars: vec![],
            },
            &[],
        );
        let axes = ["a", "b"].map(String::from);
        for lines in [vec![], vec![("read".into(), vec![])]] {
            let axes = axes.clone();
            nothing(&Plot::Lines { axes, log: true, lines }, &["a"]);
        }
        for rows in [vec![], vec![("32".into(), vec![f64::NAN])]] {
            let (unit, columns, axes) = ("GB/s".into(), vec![], axes.clone());
            let plot = Plot::HeatMap {
                unit,
                axes,
                columns,
                rows,
            };
            nothing(&plot, &[]);
        }
    }

    /// The box around the names of lines has room for them, in the raster's letters too.
    #[test]
    fn names_of_lines_are_in_their_box() {
        let lines = vec![("product of matrices, blurred".into(), vec![(1.0, 1.0), (2.0, 2.0)])];
        let axes = ["a", "b"].map(String::from);
        let pixels = Plot::Lines {
            axes,
            log: false,
            lines,
        }
        .pixels("title")
        .unwrap();
        // The box begins below the title, at its upper edge, a grey line; what is dark in the rows below is the name.
        let is_between =
            |y: usize, x: usize, low: u8, high: u8| (0..3).all(|c| (low..high).contains(&pixels[[y, x, c]]));
        let edge = |y: &usize| (90..890).filter(|&x| is_between(*y, x, 150, 210)).count();
        let top = (30..60).max_by_key(edge).expect("rows");
        let right = (90..890).filter(|&x| is_between(top, x, 150, 210)).max();
        let rows = (top + 1..top + 40).flat_map(|y| (90..890).map(move |x| (y, x)));
        let last = rows.filter(|&(y, x)| is_between(y, x, 0, 60)).map(|(_, x)| x).max();
        let (last, right) = (last.expect("a name"), right.expect("a box"));
        assert!(last < right, "a name ends at {last}, its box at {right}");
    }
}
