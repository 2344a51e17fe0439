package plot_test

import (
	"encoding/xml"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/bench/plot"
)

// drawn is what is in a picture.
type drawn struct {
	texts  []string
	points map[string][][2]float64 // by colour
	paths  []string
}

func parse(t *testing.T, svg string) drawn {
	t.Helper()
	d := drawn{points: map[string][][2]float64{}}
	inText := false
	for r := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := r.Token()
		if err == io.EOF {
			return d
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			attributes := map[string]string{}
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			inText = e.Name.Local == "text"
			switch e.Name.Local {
			case "circle":
				x, err := strconv.ParseFloat(attributes["cx"], 64)
				require.NoError(t, err)
				y, err := strconv.ParseFloat(attributes["cy"], 64)
				require.NoError(t, err)
				d.points[attributes["fill"]] = append(d.points[attributes["fill"]], [2]float64{x, y})
			case "path":
				d.paths = append(d.paths, attributes["d"])
			}
		case xml.CharData:
			if inText {
				d.texts = append(d.texts, string(e))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestChart(t *testing.T) {
	c := plot.Chart{
		Title: "ratio & size", X: "octets", Y: "ratio <to> a",
		Ticks: []string{"0", "16", "64 Ki"},
		Series: []plot.Series{
			{Name: "a", Values: []float64{1, 1, 1}},
			{Name: "b", Values: []float64{2, math.NaN(), 4}},
		},
	}
	d := parse(t, plot.SVG(c, c))
	for _, text := range []string{"ratio & size", "octets", "ratio <to> a", "0", "16", "64 Ki", "a", "b", "4"} {
		require.Contains(t, d.texts, text)
	}
	require.Len(t, d.points, 2, "a colour for each series")
	for _, points := range d.points {
		switch len(points) / 2 { // two charts
		case 3:
			require.InDelta(t, points[0][1], points[2][1], 0.01, "equal values are equally high")
		case 2:
			require.Greater(t, points[0][1], points[1][1], "more is higher up")
			require.Less(t, points[0][0], points[1][0])
		default:
			t.Fatalf("%d points", len(points))
		}
	}
	require.Len(t, d.paths, 4)
	require.Equal(t, 2, strings.Count(d.paths[1], "M"), "a gap for what is missing")
}

func TestMarks(t *testing.T) {
	for most, mark := range map[float64]string{0: "1", 0.9: "0.9", 3.3: "3.5", 8: "8", 12: "12", 1e6: "1e+06"} {
		d := parse(t, plot.SVG(plot.Chart{Ticks: []string{"x"}, Series: []plot.Series{{Name: "s", Values: []float64{most}}}}))
		require.Contains(t, d.texts, mark, "%g", most)
	}
}
