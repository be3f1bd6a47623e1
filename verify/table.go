package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A report is what was found out.
type report struct {
	setting  string // what it was found out on
	variants []variant
	rows     []row
	bare     string // what a route without a guard did
}

// A row has a cell for each variant.
type row struct {
	scenario scenario
	cells    []verdict
}

// meant says that the scenario is one that must catch the control.
func (r row) meant(v variant) bool { return slices.Contains(v.caughtBy, r.scenario.key) }

// wrong says that a cell makes the run fail: an algorithm that did not hold, or a control that was not seen to admit too
// many.
func (r row) wrong(v variant, c verdict) bool {
	if v.ours() {
		return c.fault != ""
	}
	return r.meant(v) && !c.over
}

// text returns what stands in a cell.
func (r row) text(v variant, c verdict) string {
	word := "PASS"
	switch {
	case c.skipped:
		return "-"
	case c.info:
		return c.numbers
	case v.ours() && c.fault != "":
		word = "FAIL"
	case v.ours():
	case r.meant(v) && c.over:
		word = "CAUGHT"
	case r.meant(v):
		word = "MISSED"
	case c.fault != "":
		word = "fails"
	default:
		word = "holds"
	}
	return strings.TrimSpace(word + " " + c.numbers)
}

// wrong counts the cells that make the run fail.
func (r report) wrong() int {
	n := 0
	for _, row := range r.rows {
		for i, c := range row.cells {
			if row.wrong(r.variants[i], c) {
				n++
			}
		}
	}
	return n
}

// across is how many columns stand beside each other.
const across = 3

// String returns the tables and what explains them.
func (r report) String() string {
	w := new(strings.Builder)
	var ours, controls []int
	for i, v := range r.variants {
		if v.ours() {
			ours = append(ours, i)
		} else {
			controls = append(controls, i)
		}
	}
	fmt.Fprintf(w, "\n%s\n\n", r.setting)
	for columns := range slices.Chunk(ours, across) {
		r.table(w, "TRAFFICGUARD", columns)
	}
	for columns := range slices.Chunk(controls, across) {
		r.table(w, "WRONG ON PURPOSE: to be CAUGHT where it is written in capitals, or the checks above prove little", columns)
	}
	r.faults(w)
	r.legend(w)
	return w.String()
}

// legend says what the rows mean.
func (r report) legend(w *strings.Builder) {
	fmt.Fprint(w, "How the rows are judged. a..b are the least and the most that may pass by the limit and the time measured; one number\n"+
		"is exact; several are one burst each. \"-\": the row says nothing about the column, mostly because each process counts for\n"+
		"itself by design. \"holds\" and \"fails\" are what a control does where it need not be caught.\n\n")
	for i, row := range r.rows {
		fmt.Fprintf(w, "%2d %s\n", i+1, strings.ReplaceAll(row.scenario.judged, "\n", "\n   "))
	}
	if r.bare != "" {
		fmt.Fprintf(w, "   A route without a guard in the same run: %s.\n", r.bare)
	}
}

// table writes some of the columns.
func (r report) table(w *strings.Builder, title string, columns []int) {
	lines := [][]string{{""}, {""}}
	for _, c := range columns {
		first, second, _ := strings.Cut(r.variants[c].title, "\n")
		lines[0], lines[1] = append(lines[0], first), append(lines[1], second)
	}
	for i, row := range r.rows {
		line, said := []string{fmt.Sprintf("%2d %s", i+1, row.scenario.title)}, false
		for _, c := range columns {
			line = append(line, row.text(r.variants[c], row.cells[c]))
			said = said || !row.cells[c].skipped
		}
		if said {
			lines = append(lines, line)
		}
	}
	widths := make([]int, 1+len(columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintln(w, title)
	for i, line := range lines {
		if i == 2 {
			var rule []string
			for _, width := range widths {
				rule = append(rule, strings.Repeat("-", width))
			}
			writeLine(w, rule, widths)
		}
		writeLine(w, line, widths)
	}
	fmt.Fprintln(w)
}

func writeLine(w *strings.Builder, cells []string, widths []int) {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

// faults says what was wrong where something was.
func (r report) faults(w *strings.Builder) {
	for i, row := range r.rows {
		for j, c := range row.cells {
			v := r.variants[j]
			if !row.wrong(v, c) {
				continue
			}
			fault := c.fault
			if !v.ours() {
				fault = strings.TrimSuffix("what is wrong with it was not seen: "+fault, ": ")
			}
			fmt.Fprintf(w, "%d %s, %s: %s\n", i+1, row.scenario.title, strings.ReplaceAll(v.title, "\n", " "), fault)
		}
	}
	if r.wrong() > 0 {
		fmt.Fprintln(w)
	}
}

// summary is the last line.
func (r report) summary() string {
	checks, planted := 0, 0
	for _, row := range r.rows {
		for i, c := range row.cells {
			v := r.variants[i]
			switch {
			case c.skipped || c.info:
			case v.ours():
				checks++
			case row.meant(v):
				planted++
			}
		}
	}
	if n := r.wrong(); n > 0 {
		return fmt.Sprintf("NOT VERIFIED: %d of %d judgements went wrong.", n, checks+planted)
	}
	return fmt.Sprintf("VERIFIED: all %d checks of TrafficGuard hold, and all %d faults planted in the controls were caught.", checks, planted)
}
