// Package plot writes line charts as SVG, for a web page with a light or a dark background.
package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Chart is one pair of axes with a line for each series. The x axis has the given ticks at equal distances, whatever
// their values; the y axis begins at 0.
type Chart struct {
	Title, X, Y string
	Ticks       []string // of the x axis
	Series      []Series
}

// Series is one line.
type Series struct {
	Name   string
	Values []float64 // one for each tick; NaN for none
}

// Sizes, in the units of the picture.
const (
	width, height = 720, 360 // of a chart
	left, right   = 64, 150  // margins; the legend is on the right
	top, bottom   = 48, 56
	plotWidth     = width - left - right
	plotHeight    = height - top - bottom
)

// style has the colours: text and lines for both kinds of background, and series that can be told apart on both and
// by people who do not see all colours.
const style = `<style>
svg { background: #ffffff; }
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.axis { stroke: #57606a; stroke-width: 1; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; }
text { fill: #e6edf3; }
.grid { stroke: #30363d; }
.axis { stroke: #8b949e; }
}
</style>
`

var colours = []string{"#8c8c8c", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00"}

// SVG draws the charts, one below the other.
func SVG(charts ...Chart) string {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img">`+"\n", width, height*len(charts), width)
	out.WriteString(style)
	for i, c := range charts {
		fmt.Fprintf(&out, `<g transform="translate(0 %d)">`+"\n", i*height)
		c.draw(&out)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func (c Chart) draw(out *strings.Builder) {
	step, steps := c.scale()
	y := func(v float64) float64 { return top + plotHeight - v/(step*float64(steps))*plotHeight }
	x := func(i int) float64 {
		return left + float64(i)/float64(max(len(c.Ticks)-1, 1))*plotWidth
	}
	text(out, left, 24, "start", "title", c.Title)
	for i := range steps + 1 {
		v := float64(i) * step
		line(out, "grid", left, y(v), left+plotWidth, y(v))
		text(out, left-8, y(v)+4, "end", "", fmt.Sprintf("%.4g", v))
	}
	line(out, "axis", left, y(0), left+plotWidth, y(0))
	for i, tick := range c.Ticks {
		line(out, "axis", x(i), y(0), x(i), y(0)+4)
		text(out, x(i), y(0)+20, "middle", "", tick)
	}
	text(out, left+plotWidth/2, height-14, "middle", "", c.X)
	fmt.Fprintf(out, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+plotHeight/2, escape(c.Y))
	for i, s := range c.Series {
		s.draw(out, colours[i%len(colours)], x, y)
	}
	c.legend(out, y)
}

// draw draws the line, with a gap where there is no value, and a point for each value.
func (s Series) draw(out *strings.Builder, colour string, x func(int) float64, y func(float64) float64) {
	var path strings.Builder
	next := "M"
	for i, v := range s.Values {
		if math.IsNaN(v) {
			next = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", next, x(i), y(v))
		next = "L"
		fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(i), y(v), colour)
	}
	fmt.Fprintf(out, `<path class="line" stroke="%s" d="%s"/>`+"\n", colour, path.String())
}

// legend names the lines on the right, in the order in which they end there.
func (c Chart) legend(out *strings.Builder, y func(float64) float64) {
	type entry struct {
		name, colour string
		at           float64
	}
	var entries []entry
	for i, s := range c.Series {
		for _, v := range slices.Backward(s.Values) {
			if !math.IsNaN(v) {
				entries = append(entries, entry{s.Name, colours[i%len(colours)], y(v)})
				break
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	const distance = 20
	at := float64(top)
	for i, e := range entries {
		room := float64(top+plotHeight) - float64(len(entries)-1-i)*distance
		at = min(max(e.at, at), room)
		x := float64(left + plotWidth + 14)
		fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="3"/>`+"\n", x, at, x+18, at, e.colour)
		text(out, x+24, at+4, "start", "", e.name)
		at += distance
	}
}

// scale returns a round distance between marks of the y axis, and how many of them there are.
func (c Chart) scale() (step float64, steps int) {
	most := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	if most == 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(most)))
	for _, finer := range []float64{0.1, 0.2, 0.25, 0.5} {
		if most/(step*finer) <= 8 {
			step *= finer
			break
		}
	}
	return step, int(math.Ceil(most/step - 1e-9))
}

func line(out *strings.Builder, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(out, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func text(out *strings.Builder, x, y float64, anchor, class, s string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, escape(s))
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
