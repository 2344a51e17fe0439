package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteJSON writes any of the package's results, indented.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteTable writes listings for people: a table per exchange.
func WriteTable(w io.Writer, listings []*Listing) error {
	first := true
	for _, l := range listings {
		for i := range l.Exchanges {
			if !first {
				fmt.Fprintln(w)
			}
			first = false
			if err := l.writeExchange(w, &l.Exchanges[i]); err != nil {
				return err
			}
		}
	}
	if first {
		_, err := fmt.Fprintln(w, "no exchange to look at: no policy names one literally (^name$); name some as arguments")
		return err
	}
	return nil
}

func (l *Listing) writeExchange(w io.Writer, x *Exchange) error {
	fmt.Fprintln(w, l.heading(x))
	if len(x.Shards) == 0 {
		_, err := fmt.Fprintln(w, "no shards")
		return err
	}
	measured := x.Total.Publish != nil
	head := []string{"SHARD", "NODE", "MESSAGES", "READY", "UNACKED", "CONSUMERS", "RATE/S"}
	if measured {
		head = append(head, "IN/S", "OUT/S")
	}
	rows := [][]string{append(head, "SKEW", "")}
	for i := range x.Shards {
		s := &x.Shards[i]
		rows = append(rows, slices.Concat([]string{s.Queue, cmp.Or(s.Node, unknown)}, s.cells(measured), []string{s.note()}))
	}
	rows = append(rows, slices.Concat([]string{"total", ""}, x.Total.cells(measured), []string{""}))
	return writeRows(w, rows, 2)
}

// writeRows writes columns: the first ones, and the last, are text, the others numbers.
func writeRows(w io.Writer, rows [][]string, texts int) error {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < texts || i == len(row)-1 {
				cell += pad
			} else {
				cell = pad + cell
			}
			line.WriteString(cell + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l *Listing) heading(x *Exchange) string {
	var surplus int
	for i := range x.Shards {
		if x.Shards[i].Status == Surplus || x.Shards[i].Status == Draining {
			surplus++
		}
	}
	name := printable(x.Name)
	if name == "" {
		name = `""`
	}
	h := fmt.Sprintf("%s (vhost %s): %s", name, printable(l.Vhost), plural(int64(len(x.Shards)), "shard", "shards"))
	if surplus > 0 {
		h += fmt.Sprintf(", %d of them surplus", surplus)
	}
	if x.Policy == "" {
		h += "; no policy"
	}
	if l.Leader != "" {
		h += fmt.Sprintf("; leader %s", printable(l.Leader))
	}
	return h + "; " + plural(int64(l.Proxies), "proxy", "proxies")
}

// printable returns a name as it can be shown: names are of others' choice, and what
// is not to be seen of them could do anything to a terminal.
func printable(name string) string {
	quoted := strconv.Quote(name)
	if inner := quoted[1 : len(quoted)-1]; inner != strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`) {
		return inner
	}
	return name
}

// WriteWarnings writes for people what could not be found out about a vhost, a line
// each.
func WriteWarnings(w io.Writer, vhost string, warnings []string) error {
	for _, warning := range warnings {
		if _, err := fmt.Fprintf(w, "shardmq: warning: vhost %s: %s\n", printable(vhost), printable(warning)); err != nil {
			return err
		}
	}
	return nil
}

// note says what is special about a shard.
func (s *Shard) note() string {
	note := ""
	if s.Status != Active {
		note = string(s.Status)
	}
	if s.Status == Draining && s.replicated(false) {
		note += ", stays until 'shardmq shards prune --force --yes'"
	}
	if s.Problem != "" {
		note = strings.TrimPrefix(note+": "+s.Problem, ": ")
	}
	return note
}

func (n *Numbers) cells(measured bool) []string {
	cells := []string{whole(n.Messages), whole(n.Ready), whole(n.Unacked), whole(n.Consumers), signed(n.Rate)}
	if measured {
		cells = append(cells, decimal(n.Publish), decimal(n.Deliver))
	}
	return append(cells, decimal(n.Skew))
}

// unknown stands for a number that nobody knows.
const unknown = "-"

func whole(n *int64) string {
	if n == nil {
		return unknown
	}
	return strconv.FormatInt(*n, 10)
}

func decimal(f *float64) string {
	if f == nil {
		return unknown
	}
	return strconv.FormatFloat(*f, 'f', 1, 64)
}

func signed(f *float64) string {
	if f == nil || *f == 0 {
		return decimal(f)
	}
	return fmt.Sprintf("%+.1f", *f)
}

// WriteVerdicts writes for people what becomes of surplus shards.
func WriteVerdicts(w io.Writer, verdicts []Verdict) error {
	if len(verdicts) == 0 {
		_, err := fmt.Fprintln(w, "no surplus shards")
		return err
	}
	rows := [][]string{{"ACTION", "SHARD", "NODE", "VHOST", "READY", "UNACKED", "CONSUMERS", ""}}
	would := 0
	for _, v := range verdicts {
		if v.Action == Delete {
			would++
		}
		rows = append(rows, []string{string(v.Action), v.Queue, cmp.Or(v.Node, unknown), v.Vhost, whole(v.Ready), whole(v.Unacked), whole(v.Consumers), v.Reason})
	}
	if err := writeRows(w, rows, 4); err != nil {
		return err
	}
	if would > 0 {
		_, err := fmt.Fprintf(w, "nothing has been deleted: run again with --yes to delete %s\n", plural(int64(would), "shard", "shards"))
		return err
	}
	return nil
}
