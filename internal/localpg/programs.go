package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldest is the first version that the gateway's schema runs on.
const oldest = 15

// programs is a directory that holds initdb and postgres, and their major version.
type programs struct {
	bin   string
	major int
}

// findPrograms looks for a server where one may be: $GATEWAY_PG_BIN and nowhere else when it is set; else the PATH,
// then the places of Debian, Red Hat and Homebrew, the newest first. Data that exists asks for its own version.
func findPrograms(dir string) (programs, error) {
	candidates := binDirs()
	want := dataVersion(dir)
	var others []string
	for _, bin := range candidates {
		major := versionOf(bin)
		switch {
		case major < oldest:
		case want == 0 || major == want:
			return programs{bin, major}, nil
		default:
			others = append(others, strconv.Itoa(major))
		}
	}
	if len(others) > 0 {
		return programs{}, fmt.Errorf("the data in %s is of PostgreSQL %d and only %s is installed: install postgresql-%d, or remove the directory to begin anew",
			dir, want, strings.Join(others, ", "), want)
	}
	if bin := os.Getenv("GATEWAY_PG_BIN"); bin != "" {
		return programs{}, fmt.Errorf("GATEWAY_PG_BIN=%s: %w", bin, ErrNoBinaries)
	}
	return programs{}, ErrNoBinaries
}

func binDirs() []string {
	if bin := os.Getenv("GATEWAY_PG_BIN"); bin != "" {
		return []string{bin}
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails on a bad pattern only
		slices.SortFunc(found, func(a, b string) int { return numberIn(b) - numberIn(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var digits = regexp.MustCompile(`[0-9]+`)

func numberIn(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

// versionOf asks a directory's server for its major version; 0 if it has no server, or no initdb.
func versionOf(bin string) int {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-V").Output()
	if err != nil {
		return 0
	}
	_, version, _ := strings.Cut(string(out), "(PostgreSQL) ") // "postgres (PostgreSQL) 15.18 (Debian …)", "18beta1"
	return numberIn(version)
}

// dataVersion is the major version that made the data of a directory, 0 if there is none.
func dataVersion(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION"))
	if err != nil {
		return 0
	}
	return numberIn(string(text))
}
