package settings

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Setting string // its name, or the name that is nobody's
	What    string // what is wrong with it
	Where   string // where it stands
	Do      string // what to do about it
}

// Error is the problem in one line.
func (p Problem) Error() string {
	text := p.Setting + " " + p.What
	if p.Where != "" {
		text += " (" + p.Where + ")"
	}
	return strings.ReplaceAll(text+". "+p.Do, "\n", " ")
}

// Problems is all that is wrong, never empty where it is an error.
type Problems []Problem

// Error has a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Require returns a Problems that names the settings, of those given, that have no value: what a command cannot
// do without.
func (s *Settings) Require(names ...string) error {
	var missing Problems
	for _, t := range s.table() {
		for _, name := range names {
			if t.name == name && t.value.text() == "" {
				do := fmt.Sprintf("Set %s, --%s or %s in the file.", t.env(), t.flag(), t.key())
				if t.secret {
					do = fmt.Sprintf("Set %s or %s_FILE.", t.env(), t.env())
				}
				if name == "SECRET_KEYS" {
					do += " `gateway keys generate` makes one."
				}
				missing = append(missing, Problem{name, "is not set", "", do})
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return missing
}

// Nearest is the known name that an unknown one was probably meant to be, or nothing if none is near.
func Nearest(name string, known []string) string {
	best, least := "", len(name)/3+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap with their neighbour to make b of a.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[(i+2)%3], rows[(i)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
