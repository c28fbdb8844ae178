package demo

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
)

// chart is a small graph of a share over time.
type chart struct {
	from   time.Time
	to     time.Time
	points []slo.Point
	marks  []mark
	ascii  bool
}

// mark is a moment of interest, shown as a letter under the axis.
type mark struct {
	at     time.Time
	letter string
	text   string
}

const (
	chartRows    = 6
	chartColumns = 60
)

// lines draws the chart: the share from 0 to 100 %, one column per slice of
// time, and a column without a value left empty.
func (c chart) lines() []string {
	columns := c.columns()
	out := make([]string, 0, chartRows+3)
	for row := chartRows - 1; row >= 0; row-- {
		label := ""
		switch row {
		case chartRows - 1:
			label = "100%"
		case chartRows/2 - 1:
			label = "50%"
		case 0:
			label = "0%"
		}
		var b strings.Builder
		for _, v := range columns {
			b.WriteRune(c.cell(v, row))
		}
		out = append(out, strings.TrimRight(fmt.Sprintf("%*s%5s |%s", detailIndent, "", label, b.String()), " "))
	}
	out = append(out, fmt.Sprintf("%*s      +%s", detailIndent, "", strings.Repeat("-", chartColumns)))
	return append(out, c.axis()...)
}

// columns returns the mean of the points of each slice, NaN where there is none.
func (c chart) columns() []float64 {
	sum, n := make([]float64, chartColumns), make([]float64, chartColumns)
	for _, p := range c.points {
		if i := c.column(p.At); !math.IsNaN(p.Value) && i >= 0 {
			sum[i], n[i] = sum[i]+p.Value, n[i]+1
		}
	}
	for i := range sum {
		sum[i] /= n[i] // NaN for none
	}
	return sum
}

// column is the column of a moment, -1 outside.
func (c chart) column(at time.Time) int {
	if at.Before(c.from) || at.After(c.to) || !c.to.After(c.from) {
		return -1
	}
	return int(math.Round(float64(at.Sub(c.from)) / float64(c.to.Sub(c.from)) * (chartColumns - 1)))
}

// step is the distance of points that gives every column one.
func (c chart) step() time.Duration {
	return max(c.to.Sub(c.from)/(chartColumns-1), time.Second)
}

// cell is what a column shows in a row, the lowest being 0.
func (c chart) cell(v float64, row int) rune {
	if math.IsNaN(v) {
		return ' '
	}
	fill := math.Max(0, math.Min(1, v))*chartRows - float64(row)
	if c.ascii {
		switch {
		case fill >= 0.5:
			return '#'
		case row == 0:
			return '.'
		default:
			return ' '
		}
	}
	const eighths = "▁▂▃▄▅▆▇█"
	levels := []rune(eighths)
	switch i := int(math.Ceil(fill * 8)); {
	case i >= 8:
		return levels[7]
	case i >= 1:
		return levels[i-1]
	case row == 0:
		return levels[0]
	default:
		return ' '
	}
}

// axis is the marks' letters under their columns, the times at both ends, and
// what the letters mean.
func (c chart) axis() []string {
	letters := []rune(strings.Repeat(" ", chartColumns))
	var legend []string
	for _, m := range c.marks {
		if i := c.column(m.at); i >= 0 {
			letters[i] = []rune(m.letter)[0]
			legend = append(legend, fmt.Sprintf("%s %s %s", m.letter, m.at.UTC().Format("15:04"), m.text))
		}
	}
	pad := strings.Repeat(" ", detailIndent+7)
	ends := c.from.UTC().Format("15:04") + strings.Repeat(" ", chartColumns-10) + c.to.UTC().Format("15:04")
	out := []string{strings.TrimRight(pad+string(letters), " "), pad + ends}
	for _, l := range runview.Wrap(strings.Join(legend, "  "), runview.Width-len(pad)) {
		out = append(out, pad+l)
	}
	return out
}
