package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	width, height = 16 * vg.Inch, 12 * vg.Inch
	columns       = 2
	mebi          = 1 << 20
)

// curve is one figure over time.
type curve struct {
	name string
	of   func(sample) float64
}

// panel is one diagram of the picture.
type panel struct {
	title, unit string
	curves      []curve
}

var panels = []panel{
	{"Memory of the engine", "MiB", []curve{
		{"resident", func(s sample) float64 { return float64(s.Memory) / mebi }},
		{"heap in use after a collection", func(s sample) float64 { return float64(s.Heap) / mebi }},
	}},
	{"Goroutines", "number", []curve{{"", func(s sample) float64 { return float64(s.Goroutines) }}}},
	{"Open descriptors", "number", []curve{{"", func(s sample) float64 { return float64(s.Descriptors) }}}},
	{"Disk", "MiB", []curve{
		{"book", func(s sample) float64 { return float64(s.Book) / mebi }},
		{"views", func(s sample) float64 { return float64(s.Views) / mebi }},
		{"blobs", func(s sample) float64 { return float64(s.Blobs) / mebi }},
		{"agents' folders", func(s sample) float64 { return float64(s.Agents) / mebi }},
	}},
	{"Calls", "calls/s", []curve{{"", func(s sample) float64 { return float64(s.Rate) }}}},
	{"Latency, 99th percentile", "ms", []curve{{"", func(s sample) float64 { return float64(s.P99) / 1000 }}}},
}

// curveColours can be told apart by people who see red and green alike.
var curveColours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
}

// drawPicture writes the picture of a run as PNG: one panel for each measure over time.
func drawPicture(w io.Writer, r report) error {
	rows := (len(panels) + columns - 1) / columns
	plots := make([][]*plot.Plot, rows)
	for i, p := range panels {
		diagram, err := p.plot(r.Samples)
		if err != nil {
			return fmt.Errorf("draw %s: %w", p.title, err)
		}
		plots[i/columns] = append(plots[i/columns], diagram)
	}
	for len(plots[rows-1]) < columns {
		plots[rows-1] = append(plots[rows-1], nil)
	}
	canvas := vgimg.New(width, height)
	all := draw.New(canvas)
	heading := plot.New().Title.TextStyle
	heading.Font.Size = 15
	all.FillText(heading, vg.Point{X: all.Min.X + all.Size().X/2, Y: all.Max.Y - 10}, r.headline())
	tiles := draw.Tiles{
		Rows: rows, Cols: columns, PadX: 24, PadY: 24, PadTop: 44, PadBottom: 12, PadLeft: 12, PadRight: 24,
	}
	for i, row := range plot.Align(plots, tiles, all) {
		for j, c := range row {
			if plots[i][j] != nil {
				plots[i][j].Draw(c)
			}
		}
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func (p panel) plot(samples []sample) (*plot.Plot, error) {
	d := plot.New()
	d.Title.Text = p.title
	d.Title.TextStyle.Font.Size, d.Title.Padding = 14, 8
	d.Y.Label.Text = p.unit
	d.Y.Tick.Marker = plot.TickerFunc(ticks)
	d.Y.Min, d.X.Min = 0, 0 // from nought, so that noise looks like noise
	perUnit := 1000.0
	if d.X.Label.Text = "seconds"; len(samples) > 0 && samples[len(samples)-1].AtMS > 3*60_000 {
		d.X.Label.Text, perUnit = "minutes", 60_000
	}
	d.Legend.Top, d.Legend.Left, d.Legend.XOffs, d.Legend.YOffs = true, true, 8, -4
	d.Add(plotter.NewGrid())
	most := 0.0
	for i, c := range p.curves {
		points := make(plotter.XYs, len(samples))
		for j, s := range samples {
			points[j] = plotter.XY{X: float64(s.AtMS) / perUnit, Y: c.of(s)}
			most = math.Max(most, points[j].Y)
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = curveColours[i], 1.5
		d.Add(l)
		if c.name != "" {
			d.Legend.Add(c.name, l)
		}
	}
	d.Y.Min, d.Y.Max = 0, math.Max(most*1.25, 1) // with room for the legend
	return d, nil
}

// ticks are those of the library without noughts behind the point.
func ticks(least, most float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(least, most)
	for i := range all {
		if !all[i].IsMinor() {
			all[i].Label = strconv.FormatFloat(all[i].Value, 'g', 6, 64)
		}
	}
	return all
}
